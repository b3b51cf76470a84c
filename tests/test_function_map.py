"""``function.map``: order, limits, chunks, errors, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller, Gate
from helpers.functions import add
from helpers.terminal import Terminal
from helpers.turns import in_time

import actorlib

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from actorlib._options.runtime_options import RuntimeKeywords

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"num_cpus": 4}


@actorlib.remote
def reciprocal(value: int) -> float:
    return 12 / value


@actorlib.remote(num_cpus=0)
def wait_at(gate: Any, name: str) -> str:
    return actorlib.get(gate.wait.remote(name))


@actorlib.remote(num_cpus=0)
def fail_at(gate: Any, name: str) -> None:
    actorlib.get(gate.wait.remote(name))
    raise ArithmeticError(name)


async def all_of(results: Any) -> list[Any]:
    """The results, with the errors among them."""
    found: list[Any] = []
    while True:
        try:
            async for value in results:
                found.append(value)  # noqa: PERF401  # an error ends the loop
        except ArithmeticError as error:
            found.append(error)
        else:
            return found


@pytest.mark.parametrize("chunksize", [1, 3, 100])
async def test_map_when_iterated_then_in_order(chunksize: int) -> None:
    assert await all_of(add.map(range(10), chunksize=chunksize)) == list(range(10))
    assert await all_of(add.map(range(4), itertools.count(), chunksize=chunksize)) == [
        0,
        2,
        4,
        6,
    ]
    assert await all_of(add.map([], chunksize=chunksize)) == []
    both = add.options(name="sum").map(iter([1, 2]), [3, 4], chunksize=chunksize)
    assert await all_of(both) == [4, 6]


async def test_map_when_a_later_call_is_done_first_then_in_order() -> None:
    gate: Any = Gate.remote()
    results = wait_at.map([gate] * 3, "abc")
    first = asyncio.ensure_future(anext(results))
    async with in_time():
        await asyncio.gather(*(gate.reached.remote(name) for name in "abc"))
        await gate.open.remote("c")
        await gate.open.remote("b")
        assert not first.done()
        await gate.open.remote("a")
        assert await first == "a"
        assert await all_of(results) == ["b", "c"]


@pytest.mark.parametrize("chunksize", [1, 2])
async def test_map_when_the_first_is_slow_then_progress_counts_those_behind_it(
    monkeypatch: pytest.MonkeyPatch, chunksize: int
) -> None:
    terminal = Terminal.of(monkeypatch)
    gate: Any = Gate.remote()
    results = wait_at.map([gate] * 6, "abcdef", chunksize=chunksize, progress="waits")
    first = asyncio.ensure_future(anext(results))
    async with in_time():
        for name in "cdef":
            await gate.open.remote(name)
        await asyncio.sleep(5)  # the loop jumps over it
        assert "waits" in terminal.getvalue()
        assert "4/6" in terminal.getvalue()
        await gate.open.remote("a")
        await gate.open.remote("b")
        assert await first == "a"
        assert await all_of(results) == list("bcdef")
    assert terminal.screen() == [""]


async def test_map_when_a_call_fails_then_progress_counts_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal.of(monkeypatch)
    gate: Any = Gate.remote()
    results = fail_at.map([gate] * 3, "abc", progress=True)
    async with in_time():
        await gate.open.remote("a")
        with pytest.raises(ArithmeticError):
            await anext(results)
        second = asyncio.ensure_future(anext(results))
        await asyncio.sleep(5)  # likewise
        assert "1/3" in terminal.getvalue()
        await gate.open.remote("b")
        await gate.open.remote("c")
        with pytest.raises(ArithmeticError):
            await second
        assert len(await all_of(results)) == 1
    assert terminal.screen() == [""]


@pytest.mark.parametrize("chunksize", [1, 2])
async def test_map_when_items_are_endless_then_only_so_many_are_taken(
    chunksize: int,
) -> None:
    taken: list[int] = []
    is_over = False

    def items() -> Iterator[int]:
        for value in itertools.takewhile(lambda _: not is_over, itertools.count()):
            taken.append(value)
            yield value

    results = add.map(items(), chunksize=chunksize, backpressure_size=3)
    assert len(taken) == 3 * chunksize
    assert [await anext(results) for _ in range(6)] == list(range(6))
    assert len(taken) <= (6 + 3) * chunksize
    is_over = True
    assert await all_of(results) == taken[6:]


async def test_map_when_items_come_late_then_each_chunk_when_it_is_whole() -> None:
    more = asyncio.Event()

    async def items() -> AsyncIterator[int]:
        for value in range(3):
            yield value
        await more.wait()
        yield 3
        yield 4

    results = add.map(items(), chunksize=2)
    async with in_time():
        assert [await anext(results), await anext(results)] == [0, 1]
        more.set()
        assert await all_of(results) == [2, 3, 4]


async def test_map_when_left_then_it_takes_no_more_items() -> None:
    given_up = asyncio.Event()

    async def items() -> AsyncIterator[int]:
        yield 1
        yield 2
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    for chunksize in (1, 2):
        given_up.clear()
        results: Any = add.map(items(), chunksize=chunksize)
        async with contextlib.aclosing(results):
            assert await anext(results) == 1
        assert given_up.is_set()
        assert await all_of(results) == [2]  # its call was made


async def test_map_when_a_call_fails_then_there_and_it_goes_on() -> None:
    found = await all_of(reciprocal.map([4, 0, 3]))

    assert found[0::2] == [3.0, 4.0]
    assert isinstance(found[1], ZeroDivisionError)


@pytest.mark.parametrize("chunksize", [1, 2, 3, "auto"])
async def test_map_when_one_of_a_chunk_fails_then_the_others_have_results(
    chunksize: Any,
) -> None:
    found = await all_of(reciprocal.map([1, 2, 3, 0, 4, 6], chunksize=chunksize))

    assert found[:3] + found[4:] == [12.0, 6.0, 4.0, 3.0, 2.0]
    assert isinstance(found[3], ZeroDivisionError)
    assert found[3].__notes__ == ["in call 3 of a map, counted from 0"]


@pytest.mark.parametrize("chunksize", [1, 2])
async def test_map_when_the_items_fail_then_behind_those_that_came(
    chunksize: int,
) -> None:
    def items() -> Iterator[int]:
        yield from (1, 2, 3)
        raise ArithmeticError("no more")

    *values, error = await all_of(add.map(items(), chunksize=chunksize))

    assert values == [1, 2, 3]
    assert str(error) == "no more"


async def test_map_when_a_chunk_is_sent_then_it_is_one_call() -> None:
    @actorlib.remote
    def call_of(_: int) -> object:
        return actorlib.get_runtime_context().get_task_id()

    calls = await all_of(call_of.map(range(5), chunksize=2))

    assert calls[0] == calls[1] != calls[2] == calls[3] != calls[4]


async def test_map_when_items_are_refs_then_their_values() -> None:
    refs = [actorlib.put(value) for value in range(4)]

    assert await all_of(add.map(refs, refs, chunksize=2)) == [0, 2, 4, 6]


def map_here(chunksize: int) -> list[int]:
    return list(add.map(range(5), chunksize=chunksize))


@pytest.mark.parametrize("chunksize", [1, 2])
async def test_map_when_used_in_a_plain_method_then_without_a_loop(
    chunksize: int,
) -> None:
    found = await Caller.remote().run.remote(map_here, chunksize)

    assert found == [0, 1, 2, 3, 4]


@actorlib.remote
def count(number: int) -> Iterator[int]:
    yield from range(number)


async def test_map_when_misused_then_it_fails_at_the_call() -> None:
    wrong_function: Any = count
    mapped: Any = add
    for wrong, match in (
        (mapped.map, "an iterable for each argument"),
        (lambda: mapped.map(3), "takes its values from an iterable"),
        (lambda: mapped.map([1], 3), "several arguments from an iterable each"),
        (lambda: mapped.map([1], [2], [3]), "takes from 1 to 2 positional"),
        (lambda: mapped.map([1], chunksize="2"), "chunksize"),
        (lambda: mapped.map([1], progress=1), "progress takes True"),
        (lambda: wrong_function.map([1]), "count is a generator"),
        (lambda: mapped.options(num_returns=2).map([1]), "num_returns=2"),
    ):
        with pytest.raises(TypeError, match=match):
            wrong()
    for option in ("chunksize", "backpressure_size"):
        with pytest.raises(ValueError, match=option):
            mapped.map([1], **{option: 0})


async def test_map_when_items_are_asynchronous_then_no_plain_for() -> None:
    async def items() -> AsyncIterator[int]:
        yield 1

    for chunksize in (1, 2):
        with pytest.raises(TypeError, match="async for"):
            next(add.map(items(), chunksize=chunksize))


@pytest.mark.parametrize("chunksize", [1, 3, "auto"])
@pytest.mark.parametrize(
    "option", [{"on_error": "return"}, {"return_exceptions": True}]
)
async def test_map_when_errors_are_returned_then_in_their_places(
    chunksize: Any, option: Any
) -> None:
    results = reciprocal.map([4, 0, 3, 0], chunksize=chunksize, **option)
    found: list[Any] = await results

    assert found[0::2] == [3.0, 4.0]
    assert all(isinstance(error, ZeroDivisionError) for error in found[1::2])
    assert [error.__notes__ for error in found[1::2]] == [
        ["in call 1 of a map, counted from 0"],
        ["in call 3 of a map, counted from 0"],
    ]


async def test_map_when_awaited_then_a_list_and_the_same_one_again() -> None:
    results = add.map(range(5), chunksize=2)

    assert await anext(results) == 0
    assert await results == [1, 2, 3, 4]
    assert await results == [1, 2, 3, 4]
    failing = reciprocal.map([1, 0, 2])
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await failing


@pytest.mark.parametrize("chunksize", [1, 2])
async def test_map_when_unordered_then_what_is_there_comes_first(
    chunksize: int,
) -> None:
    gate: Any = Gate.remote()
    results = wait_at.map([gate] * 4, "abcd", chunksize=chunksize, ordered=False)
    first = asyncio.ensure_future(anext(results))
    async with in_time():
        await gate.open.remote("c")
        await gate.open.remote("d")
        assert await first in "cd"
        await gate.open.remote("a")
        await gate.open.remote("b")
        assert len(await results) == 3


@pytest.mark.parametrize("chunksize", [1, "auto"])
async def test_map_when_awaited_and_one_fails_then_the_others_are_not_waited_for(
    chunksize: Any,
) -> None:
    gate: Any = Gate.remote()
    results = fail_at.map([gate] * 2, "ab", chunksize=chunksize)
    waiting = asyncio.ensure_future(results)  # pyright: ignore[reportArgumentType]
    async with in_time():
        await gate.open.remote("b")
        with pytest.raises(ArithmeticError, match="b"):
            await waiting
    await gate.open.remote("a")


@actorlib.remote
def unsendable(value: int) -> Any:
    return (n for n in "") if value == 1 else value


async def test_map_when_one_result_cannot_be_sent_then_the_others_arrive() -> None:
    found: list[Any] = await unsendable.map(range(3), chunksize=3, on_error="return")

    assert (found[0], found[2]) == (0, 2)
    assert "generator" in str(found[1])


async def test_map_when_one_item_cannot_be_sent_then_the_others_are() -> None:
    items = [1, (n for n in ""), 3]
    mapped: Any = add
    found: list[Any] = await mapped.map(items, chunksize=3, on_error="return")

    assert (found[0], found[2]) == (1, 3)
    assert found[1].__notes__ == ["in call 1 of a map, counted from 0"]


def get_here(chunksize: Any) -> Any:
    return add.map(range(5), chunksize=chunksize).get(timeout=60)


@pytest.mark.parametrize("chunksize", [1, 2, "auto"])
async def test_map_when_got_in_a_plain_method_then_a_list(chunksize: Any) -> None:
    assert await Caller.remote().run.remote(get_here, chunksize) == [0, 1, 2, 3, 4]


async def test_map_unordered_when_chunked_then_all_results() -> None:
    for fn in (add, add.remote):
        results = actorlib.map_unordered(fn, range(10), chunksize=3)
        assert sorted(await results) == list(range(10))
    with pytest.raises(TypeError, match="one item at a time"):
        actorlib.map_unordered(lambda n: add.remote(2 * n), [1], chunksize=2)
    with pytest.raises(ValueError, match="on_error"):
        actorlib.map_unordered(add, [1], on_error="ignore")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
