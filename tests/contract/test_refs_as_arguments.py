"""Refs that are given to calls: alone they arrive as values, in values as refs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.actors import Counter, Echo, Gate, Keeper, Log
from helpers.callers import error_of

import actorlib
from actorlib.exceptions import ActorDiedError, TaskError

if TYPE_CHECKING:
    from collections.abc import Generator

    from helpers.callees import Callee
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    # Ray's client says so when large values have been sent.
    pytest.mark.filterwarnings("ignore:More than 10MB of messages"),
]

KINDS = pytest.mark.parametrize("callee", ["function", "plain", "async"], indirect=True)


def fail(error: BaseException) -> None:
    raise error


# Alone.


async def test_ref_when_it_is_an_argument_then_its_value_arrives(
    api: Api, callee: Callee
) -> None:
    ref, other = callee.first([1, 2]), callee.first("x")
    pending = callee.all(0, ref, other, ref, key=ref)
    assert await api.get(callee.first(callee.first(ref))) == [1, 2]
    done = callee.all(ref, key=callee.first(1))

    assert await api.get(pending) == ((0, [1, 2], "x", [1, 2]), {"key": [1, 2]})
    assert await api.get(done) == (([1, 2],), {"key": 1})


@pytest.mark.usefixtures("runtime")
async def test_ref_when_a_constructor_gets_it_then_its_value_arrives(api: Api) -> None:
    echo = Echo.remote()
    ref = echo.echo.remote([1, 2])
    keepers = [Keeper.remote(ref), Keeper.remote(kept=echo.echo.remote("x"))]

    values = await api.get([keeper.kept.remote() for keeper in keepers])
    assert values == [[1, 2], "x"]


@pytest.mark.parametrize("size", [3, 40_000], ids=["small", "large"])
@KINDS
async def test_refs_when_each_is_the_argument_of_the_next_call_then_values_pass_on(
    api: Api, callee: Callee, size: int, *, is_on_ray: bool
) -> None:
    other, number = Counter.remote(), 10 if is_on_ray else 30
    ref = callee.run(np.ones, size)
    total = other.add.remote(1)
    for _ in range(number):
        ref = callee.run(np.add, ref, 1)
        total = other.add.remote(callee.first(total))

    assert np.array_equal(await api.get(ref), np.full(size, number + 1))
    assert await api.get(total) == 2**number


@KINDS
async def test_call_when_its_argument_is_pending_then_it_waits_for_that(
    api: Api, callee: Callee
) -> None:
    gate, echo = Gate.remote(), Echo.remote()
    waiting = callee.first(gate.wait.remote("slow"))
    await api.get(gate.reached.remote("slow"))

    assert await api.get(echo.echo.remote("other")) == "other"
    assert not waiting.done()
    await api.get(gate.open.remote("slow"))
    assert await api.get(waiting) == "slow"


# Failed.


async def test_call_when_its_argument_has_failed_then_it_fails_likewise(
    api: Api, callee: Callee
) -> None:
    bad = callee.run(fail, LookupError("bad"))
    fails_later, behind = callee.first(bad), callee.first("behind")
    nested = callee.first(fails_later)

    for ref in (nested, fails_later):
        assert isinstance(await error_of(api, ref), LookupError)
    assert await api.get(behind) == "behind"
    fails_at_once = callee.all(1, bad)
    assert isinstance(await error_of(api, fails_at_once), LookupError)
    assert isinstance(await error_of(api, bad), TaskError)
    assert await api.get(callee.first(2)) == 2


@pytest.mark.usefixtures("runtime")
async def test_call_when_its_argument_has_failed_then_it_never_runs(api: Api) -> None:
    echo, log = Echo.remote(), actorlib.remote(Log).remote()
    bad = echo.fail.remote(ValueError("bad"))
    failing, behind = log.note.remote(bad), log.note.remote("behind")

    assert isinstance(await error_of(api, failing), ValueError)
    assert await api.get(behind) == "behind"
    assert isinstance(await error_of(api, log.note.remote(bad)), ValueError)
    assert await api.get(log.seen.remote()) == ["behind"]


@KINDS
async def test_constructor_when_its_argument_has_failed_then_the_actor_is_dead(
    api: Api, callee: Callee
) -> None:
    keeper = Keeper.remote(callee.run(fail, ValueError("bad")))

    for ref in (keeper.kept.remote(), keeper.keep.remote(1)):
        error = await error_of(api, ref)
        assert isinstance(error, ActorDiedError)
        assert isinstance(error.__cause__, ValueError)


def make_of_failed(echo: Any) -> Steps:
    keeper = Keeper.remote(echo.fail.remote(ValueError("bad")))
    try:
        yield keeper.kept.remote()
    except ActorDiedError as error:
        return isinstance(error.__cause__, ValueError)


@KINDS
async def test_constructor_when_a_callee_gives_it_what_fails_then_the_actor_is_dead(
    api: Api, callee: Callee
) -> None:
    assert await api.get(callee.run(make_of_failed, Echo.remote())) is True


@KINDS
async def test_call_when_the_maker_of_its_argument_dies_then_it_fails(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    ref = callee.first(gate.wait.remote("never"))
    await api.get(gate.reached.remote("never"))
    await api.kill(gate)

    assert isinstance(await error_of(api, ref), ActorDiedError)
    assert await api.get(callee.first(1)) == 1


# Inside of values.


def name_and_value(values: Any) -> Steps:
    return isinstance(values[0], actorlib.ObjectRef), (yield values[0])


def values_of(refs: list[Any]) -> Steps:
    return (yield refs)


def value_by_key(values: dict[str, Any], *, key: str) -> Steps:
    return (yield values[key][0][0])


async def test_ref_when_inside_of_an_argument_then_the_callee_waits_for_it(
    api: Api, callee: Callee
) -> None:
    gate, echo = Gate.remote(), Echo.remote()
    pending, done = gate.wait.remote("late"), echo.echo.remote([1])
    await api.get(done)
    late = callee.run(name_and_value, [pending])
    await api.get(gate.open.remote("late"))

    assert await api.get(late) == (True, "late")
    assert await api.get(callee.run(values_of, [done, pending, done])) == [
        [1],
        "late",
        [1],
    ]
    assert await api.get(callee.run(value_by_key, {"k": [(done,)]}, key="k")) == [1]


def ask(echo: Any, value: Any) -> dict[str, Any]:
    return {"refs": [echo.echo.remote(value), actorlib.put(value)]}


@pytest.mark.parametrize("size", [3, 200_000], ids=["small", "large"])
async def test_ref_when_inside_of_a_result_then_its_value_is_here_and_elsewhere(
    api: Api, callee: Callee, size: int
) -> None:
    echo, value = Echo.remote(), b"x" * size
    refs = (await api.get(callee.run(ask, echo, value)))["refs"]

    assert await api.get(refs) == [value, value]
    assert await api.get(callee.run(values_of, refs)) == [value, value]
    assert await api.get(callee.all(*refs)) == (value, value)
    assert await api.get(callee.first(callee.run(ask, echo, refs[0])))


@KINDS
async def test_ref_when_an_actor_keeps_it_then_it_comes_back(
    api: Api, callee: Callee
) -> None:
    keeper = Keeper.remote()
    await api.get(keeper.keep.remote([callee.first("kept"), api.put("put")]))
    refs = await api.get(keeper.kept.remote())

    assert await api.get(refs) == ["kept", "put"]


def error_inside(refs: list[Any]) -> Steps:
    try:
        yield refs
    except LookupError as error:
        return str(error)


def ask_to_fail(echo: Any) -> list[Any]:
    return [echo.fail.remote(LookupError("far"))]


@KINDS
async def test_ref_when_inside_and_its_call_fails_then_waits_for_it_fail(
    api: Api, callee: Callee
) -> None:
    echo = Echo.remote()
    bad = echo.fail.remote(LookupError("bad"))

    assert await api.get(callee.run(error_inside, [bad])) == "bad"
    [far] = await api.get(callee.run(ask_to_fail, echo))
    assert isinstance(await error_of(api, far), LookupError)
    assert await api.get(callee.run(error_inside, [far])) == "far"


def pass_on(echo: Any, refs: list[Any]) -> Steps:
    return (yield [echo.echo.remote(refs[0]), echo.echo.remote(refs), *refs])


@KINDS
async def test_ref_when_passed_on_then_it_arrives_as_it_does_first(
    api: Api, callee: Callee
) -> None:
    ref, echo = callee.first("it"), Echo.remote()
    value, [inside], direct = await api.get(callee.run(pass_on, echo, [ref]))

    assert (value, direct) == ("it", "it")
    assert await api.get(inside) == "it"


# Refs themselves.


@KINDS
async def test_ref_when_it_is_pending_then_it_names_its_call(
    api: Api, callee: Callee, engine: str, *, is_on_ray: bool
) -> None:
    gate = Gate.options(name="g").remote()
    ref = gate.wait.remote()
    inside = callee.run(repr_of_pending, gate)

    assert repr(ref).startswith("<ObjectRef pending: Gate.wait")
    if not is_on_ray:
        assert "Gate.wait of 'g'" in repr(ref)
    if not is_on_ray and engine != "attached":  # the owner alone knows the process
        await api.get(gate.reached.remote())
        assert re.search(r"pending: Gate\.wait of 'g' \(pid \d+\)>", repr(ref))
    assert (await api.get(inside)).startswith("<ObjectRef pending: Gate.wait")
    await api.get(gate.open.remote())
    assert await api.get(ref) == ""
    assert "Gate" not in repr(ref)


def repr_of_pending(gate: Any) -> str:
    return repr(gate.wait.remote("there"))
