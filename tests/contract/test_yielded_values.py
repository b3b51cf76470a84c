"""``num_returns`` of a generator: each of its values is the result of one ref."""

from __future__ import annotations

import asyncio
import logging
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo
from helpers.callers import all_items, error_of

import actorlib
from actorlib.exceptions import TaskError, UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from helpers.actors import Place, Stop
    from helpers.callees import Callee
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("streams"),
]

KINDS = pytest.mark.parametrize("callee", ["function", "plain", "async"], indirect=True)


def numbers(count: int) -> Iterator[int]:
    for number in range(count):  # noqa: UP028  # see test_call_streams
        yield number


def values_of(source: Callee, count: int) -> Steps:
    return (yield source.method("items", num_returns=count).remote(numbers, count))


@KINDS
async def test_values_when_as_many_as_refs_then_each_has_one(
    api: Api, callee: Callee
) -> None:
    def refs_of(num_returns: object) -> Any:
        return callee.method("items", num_returns=num_returns).remote(numbers, 3)

    assert await api.get(refs_of(3)) == [0, 1, 2]
    assert await api.get(refs_of(1)) == 0
    assert refs_of(0) is None
    assert await all_items(api, refs_of("streaming")) == [0, 1, 2]
    if not callee.is_actor or callee.is_async:  # else it would wait for itself
        source = callee if callee.is_actor else callee.new()
        assert await api.get(callee.run(values_of, source, 3)) == [0, 1, 2]


@KINDS
async def test_values_when_too_few_then_the_other_refs_say_so(
    api: Api, callee: Callee
) -> None:
    first, second, *rest = callee.method("items", num_returns=4).remote(numbers, 2)

    assert await api.get([first, second]) == [0, 1]
    for ref in rest:
        error = await error_of(api, ref)
        assert isinstance(error, TaskError)
        assert isinstance(error, ValueError)
        assert "yielded 2 values, and was called with num_returns=4" in str(error)
        assert str(pickle.loads(pickle.dumps(error))) == str(error)


def stops_at_its_end(place: Place) -> Iterator[int]:
    number = 0
    try:
        while True:
            yield number
            number += 1
    finally:
        place.stop_here()


@KINDS
async def test_values_when_more_than_refs_then_the_generator_is_closed(
    api: Api, callee: Callee, stop: Stop
) -> None:
    refs = callee.method("items", num_returns=2).remote(stops_at_its_end, stop.place)

    assert await api.get(refs) == [0, 1]
    await stop.reached()
    stop.release()


def one_and_error() -> Iterator[int]:
    yield 1
    raise KeyError("behind one")


@KINDS
async def test_values_when_an_error_comes_between_then_the_earlier_are_kept(
    api: Api, callee: Callee
) -> None:
    first, *rest = callee.method("items", num_returns=3).remote(one_and_error)

    assert await api.get(first) == 1
    for ref in rest:
        assert isinstance(await error_of(api, ref), KeyError)


@KINDS
async def test_values_when_an_error_comes_behind_them_then_it_is_logged(
    api: Api, callee: Callee, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    texts: asyncio.Queue[str] = asyncio.Queue()

    def keep(record: logging.LogRecord) -> bool:
        text = logging.Formatter().format(record)
        loop.call_soon_threadsafe(texts.put_nowait, text)
        return False

    monkeypatch.setattr(logging.getLogger("actorlib"), "filters", [keep])

    assert (
        await api.get(callee.method("items", num_returns=1).remote(one_and_error)) == 1
    )

    assert "KeyError: 'behind one'" in await texts.get()


def one_and_stop(place: Place) -> Iterator[int]:
    yield 1
    place.stop_here()
    yield 2


@KINDS
async def test_value_when_it_has_come_then_its_ref_waits_for_no_other(
    api: Api, callee: Callee, stop: Stop
) -> None:
    first, second = callee.method("items", num_returns=2).remote(
        one_and_stop, stop.place
    )

    assert await api.get(first) == 1
    await stop.reached()
    assert not second.done()
    stop.release()
    assert await api.get(second) == 2


@KINDS
async def test_value_when_it_is_an_argument_before_it_is_there_then_it_arrives(
    api: Api, callee: Callee, engine: str
) -> None:
    echo = Echo.remote()
    first, second = callee.method("items", num_returns=2).remote(numbers, 2)

    if engine == "ray":
        with pytest.raises(UnsupportedOptionError, match="await it first"):
            echo.both.remote(first)
        await api.get([first, second])
    both = echo.both.remote(first, name=second)
    assert await api.get(both) == ((0,), {"name": 1})


@pytest.mark.usefixtures("runtime")
async def test_num_returns_when_dynamic_then_it_streams_with_a_warning(
    api: Api,
) -> None:
    with pytest.warns(DeprecationWarning, match="dynamic"):
        function: Any = actorlib.remote(numbers).options(num_returns="dynamic")

    assert await all_items(api, function.remote(2)) == [0, 1]
