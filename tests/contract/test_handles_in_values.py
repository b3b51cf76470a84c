"""Handles of actors as arguments, in results, and inside of other values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Counter, Echo, Keeper

import actorlib

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from helpers.callees import Callee
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

KINDS = pytest.mark.parametrize("callee", ["function", "plain", "async"], indirect=True)


# From here to there.


def add_by(counter: Any, number: int = 1) -> Steps:
    return (yield counter.add.remote(number))


def add_by_all(values: dict[str, Any]) -> Steps:
    listed, pair, deep = values["list"], values["pair"], values["deep"]
    return (yield [h.add.remote() for h in [*listed, pair[1], deep[0][0]["k"]]])


async def test_handle_when_it_is_an_argument_then_the_callee_can_call_it(
    api: Api, callee: Callee
) -> None:
    counter = Counter.remote()  # it need not be ready

    assert await api.get(callee.run(add_by, counter, 5)) == 5
    assert await api.get(counter.add.remote()) == 6
    assert await api.get(callee.run(add_by, counter, number=4)) == 10


async def test_handle_when_inside_of_an_argument_then_the_callee_can_call_it(
    api: Api, callee: Callee
) -> None:
    one, two = Counter.remote(), Counter.remote(10)
    values = {"list": [one, two, one], "pair": (0, two), "deep": [({"k": one},)]}

    answers = await api.get(callee.run(add_by_all, values))

    assert sorted(answers) == [1, 2, 3, 11, 12]


def keys_and_values(table: dict[Any, Any]) -> Any:
    return table


@KINDS
async def test_handle_when_it_comes_back_then_it_is_equal(
    api: Api, callee: Callee
) -> None:
    counter, other = Counter.remote(), Counter.remote()
    bare = await api.get(callee.first(counter))
    [listed], same = await api.get(callee.all([counter], counter))
    value = (await api.get(callee.run(keys_and_values, {"h": (counter, 1)})))["h"][0]
    [(key, [item])] = (
        await api.get(callee.run(keys_and_values, {counter: {counter}}))
    ).items()

    backs = [bare, listed, same, value, key, item]
    for back in backs:
        assert back == counter
        assert hash(back) == hash(counter)
        assert repr(back) == repr(counter)
        assert back != other
        assert back != "counter"
    assert len({*backs, counter, other}) == 2
    await api.get([back.add.remote() for back in backs])
    assert await api.get(counter.add.remote()) == 7


@pytest.mark.usefixtures("runtime")
async def test_handle_when_a_constructor_gets_it_then_the_actor_has_it(
    api: Api,
) -> None:
    counter = Counter.remote()
    alone, inside = Keeper.remote(counter), Keeper.remote([counter])
    first, [second] = await api.get([alone.kept.remote(), inside.kept.remote()])

    assert first == second == counter
    assert await api.get(first.add.remote()) == 1


def call_both(value: int, handle: Any) -> Steps:
    return value, (yield handle.add.remote())


@KINDS
async def test_handle_when_beside_or_behind_a_ref_then_the_callee_can_call_it(
    api: Api, callee: Callee
) -> None:
    echo, counter = Echo.remote(), Counter.remote()
    beside = callee.run(call_both, echo.echo.remote(1), counter)
    assert await api.get(beside) == (1, 1)

    behind = callee.run(call_both, 2, echo.echo.remote(counter))
    assert await api.get(behind) == (2, 2)
    assert await api.get(callee.run(call_both, 3, api.put(counter))) == (3, 3)


class Taking:
    def __init__(self, value: int, handle: Any) -> None:
        self._value, self._handle = value, handle

    def given(self) -> tuple[int, Any]:
        return self._value, self._handle


def make_taking(cls: Any, echo: Any, counter: Any) -> Any:
    return cls.remote(echo.echo.remote(5), counter)


@KINDS
async def test_handle_when_a_constructor_gets_it_with_a_ref_then_the_actor_has_both(
    api: Api, callee: Callee
) -> None:
    echo, counter = Echo.remote(), Counter.remote()
    cls: Any = actorlib.remote(Taking)
    beside = cls.remote(echo.echo.remote(1), counter)
    behind = cls.remote(3, echo.echo.remote(counter))
    third = await api.get(callee.run(make_taking, cls, echo, counter))

    refs = [taking.given.remote() for taking in (beside, behind, third)]
    assert await api.get(refs) == [(1, counter), (3, counter), (5, counter)]


# From there to here.


def make(cls: Any, *args: Any) -> Any:
    return cls.remote(*args)


@KINDS
async def test_actor_when_a_callee_makes_it_then_its_handle_works_here_and_there(
    api: Api, callee: Callee
) -> None:
    first = await api.get(callee.run(make, Counter, 5))
    second = await api.get(callee.run(make, Counter, 50))

    assert await api.get([first.add.remote(), second.add.remote()]) == [6, 51]
    assert first != second
    assert await api.get(callee.run(add_by, first)) == 7


def make_and_call(runner: Any, function: Callable[..., Any], cls: Any) -> Steps:
    low = yield runner.remote(function, cls, 7)
    return low, (yield low.add.remote()), (yield runner.remote(add_by, low))


@KINDS
async def test_actor_when_made_by_what_a_callee_calls_then_all_three_can_call_it(
    api: Api, callee: Callee
) -> None:
    middle = callee.new().method("run")

    low, *answers = await api.get(callee.run(make_and_call, middle, make, Counter))

    assert answers == [8, 9]
    assert await api.get(low.add.remote()) == 10
