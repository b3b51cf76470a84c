"""Calls that return several values, each with a ref of its own: ``num_returns``.

Tests of generators, which yield such values, are in ``test_yielded_values.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo, Gate, Keeper
from helpers.callers import error_of

import actorlib
from actorlib.exceptions import TaskError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

KINDS = pytest.mark.parametrize("callee", ["function", "plain", "async"], indirect=True)


def parts_of(callee: Callee, count: int, function: Any, *args: Any) -> Any:
    """What a call with ``num_returns`` returns at once."""
    return callee.method("run", num_returns=count).remote(function, *args)


def fail(error: BaseException) -> None:
    raise error


async def test_num_returns_when_a_tuple_is_returned_then_each_value_has_a_ref(
    api: Api, callee: Callee
) -> None:
    assert await api.get(list(parts_of(callee, 2, divmod, 7, 3))) == [2, 1]
    assert await api.get(parts_of(callee, 1, divmod, 7, 3)) == (2, 1)
    assert parts_of(callee, 0, divmod, 7, 3) is None
    assert await api.get(callee.run(divmod, 7, 3)) == (2, 1)


@pytest.mark.usefixtures("runtime")
async def test_num_returns_when_given_by_the_older_name_then_each_value_has_a_ref(
    api: Api,
) -> None:
    pair: Any = actorlib.remote(divmod_of)
    echo: Any = Echo.remote().echo

    assert await api.get(pair._remote(args=[7, 3], num_returns=2)) == [2, 1]
    assert await api.get(echo._remote(args=[(1, 2)], num_returns=2)) == [1, 2]


def divmod_of(one: int, other: int) -> tuple[int, int]:
    return divmod(one, other)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (divmod_of, r"returned 2 values, and was called with num_returns=3"),
        (max, r"returned a int"),
    ],
    ids=["two values", "one value"],
)
async def test_num_returns_when_there_are_not_so_many_values_then_each_ref_fails(
    api: Api, callee: Callee, function: Any, message: str
) -> None:
    for part in parts_of(callee, 3, function, 7, 3):
        with pytest.raises(TaskError, match=message) as caught:
            await api.get(part)
        assert isinstance(caught.value, ValueError)


async def test_num_returns_when_the_call_raises_then_each_ref_fails(
    api: Api, callee: Callee
) -> None:
    for part in parts_of(callee, 3, fail, LookupError("no parts")):
        assert isinstance(await error_of(api, part), LookupError)


def call_for_parts(pair: Any, three: Any) -> Generator[Any, Any, list[int]]:
    first, second = pair.remote(7, 3)
    values = yield [first, second]
    return values + (yield list(three.remote()))


def yield_three() -> Iterator[int]:
    yield 4
    yield 5
    yield 6


@KINDS
async def test_num_returns_when_a_callee_calls_then_it_has_the_refs(
    api: Api, callee: Callee
) -> None:
    pair = actorlib.remote(num_returns=2)(divmod_of)
    three = actorlib.remote(num_returns=3)(yield_three)

    assert await api.get(callee.run(call_for_parts, pair, three)) == [2, 1, 4, 5, 6]


# Parts as arguments.


def pass_gate_and_return(
    gate: Any, error: BaseException | None = None
) -> Generator[Any, Any, tuple[list[int], list[int]]]:
    yield gate.wait.remote("parts")
    if error is not None:
        raise error
    return [1], [2, 3]


def lengths_of(parts: list[Any], *others: list[int]) -> Generator[Any, Any, list[int]]:
    values = yield parts
    return [*map(len, values), *map(len, others)]


@KINDS
async def test_part_when_it_is_sent_before_it_is_there_then_its_value_arrives(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    first, second = parts_of(callee, 2, pass_gate_and_return, gate)
    echo, other = Echo.remote(), callee.new()
    keeper = Keeper.remote(second)
    both = echo.both.remote(first, second)
    lengths = other.run(lengths_of, [first, second, first], second)
    list_ref = api.put([first, second])
    await api.get(gate.open.remote("parts"))

    assert await api.get(both) == (([1], [2, 3]), {})
    assert await api.get(keeper.kept.remote()) == [2, 3]
    assert await api.get(lengths) == [1, 2, 1, 2]
    assert await api.get(await api.get(list_ref)) == [[1], [2, 3]]
    assert await api.get(echo.echo.remote(first)) == [1]


@KINDS
async def test_part_when_its_call_fails_then_the_call_that_has_it_fails(
    api: Api, callee: Callee
) -> None:
    gate, echo = Gate.remote(), Echo.remote()
    part, _ = parts_of(callee, 2, pass_gate_and_return, gate, KeyError("no parts"))
    failed = echo.echo.remote(part)
    await api.get(gate.open.remote("parts"))

    assert isinstance(await error_of(api, failed), KeyError)
