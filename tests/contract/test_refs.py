"""Refs: given to calls, and waited for."""

from __future__ import annotations

import asyncio
import functools
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.actors import Counter, Keeper, Log
from helpers.callees import LIMIT
from helpers.callers import error_of
from helpers.kinds import ASYNC, AWAITING, BLOCKING, CONTRACT, FEW_KINDS, OWN_ENGINES
from helpers.reused import Echo, Gate

import actorlib
import actorlib.blocking
from actorlib.exceptions import (
    ActorDiedError,
    GetTimeoutError,
    TaskError,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from helpers.callees import Callee
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]


pytestmark = [
    *CONTRACT,
    # Ray's client says so when large values have been sent.
    pytest.mark.filterwarnings("ignore:More than 10MB of messages"),
]


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


@OWN_ENGINES
async def test_ref_when_a_constructor_gets_it_then_its_value_arrives(api: Api) -> None:
    echo = Echo.remote()
    ref = echo.echo.remote([1, 2])
    keepers = [Keeper.remote(ref), Keeper.remote(kept=echo.echo.remote("x"))]

    values = await api.get([keeper.kept.remote() for keeper in keepers])
    assert values == [[1, 2], "x"]


@OWN_ENGINES
@pytest.mark.parametrize("size", [3, 40_000], ids=["small", "large"])
@FEW_KINDS
async def test_refs_when_each_is_the_argument_of_the_next_call_then_values_pass_on(
    api: Api, callee: Callee, size: int
) -> None:
    other, number = Counter.remote(), 30
    ref = callee.run(np.ones, size)
    total = other.add.remote(1)
    for _ in range(number):
        ref = callee.run(np.add, ref, 1)
        total = other.add.remote(callee.first(total))

    assert np.array_equal(await api.get(ref), np.full(size, number + 1))
    assert await api.get(total) == 2**number


@FEW_KINDS
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


@OWN_ENGINES
async def test_call_when_its_argument_has_failed_then_it_never_runs(api: Api) -> None:
    echo, log = Echo.remote(), actorlib.remote(Log).remote()
    bad = echo.fail.remote(ValueError("bad"))
    failing, behind = log.note.remote(bad), log.note.remote("behind")

    assert isinstance(await error_of(api, failing), ValueError)
    assert await api.get(behind) == "behind"
    assert isinstance(await error_of(api, log.note.remote(bad)), ValueError)
    assert await api.get(log.seen.remote()) == ["behind"]


@FEW_KINDS
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


@OWN_ENGINES
@FEW_KINDS
async def test_constructor_when_a_callee_gives_it_what_fails_then_the_actor_is_dead(
    api: Api, callee: Callee
) -> None:
    assert await api.get(callee.run(make_of_failed, Echo.remote())) is True


@OWN_ENGINES
@FEW_KINDS
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


@OWN_ENGINES
@FEW_KINDS
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


@OWN_ENGINES
@FEW_KINDS
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


@OWN_ENGINES
@FEW_KINDS
async def test_ref_when_passed_on_then_it_arrives_as_it_does_first(
    api: Api, callee: Callee
) -> None:
    ref, echo = callee.first("it"), Echo.remote()
    value, [inside], direct = await api.get(callee.run(pass_on, echo, [ref]))

    assert (value, direct) == ("it", "it")
    assert await api.get(inside) == "it"


# Refs themselves.


@OWN_ENGINES
@FEW_KINDS
async def test_ref_when_it_is_pending_then_it_names_its_call(
    api: Api, callee: Callee, engine: str, *, is_on_ray: bool
) -> None:
    gate = Gate.options(name="g").remote()
    ref = gate.wait.remote()
    inside = callee.run(repr_of_pending, gate)

    assert repr(ref).startswith("<ObjectRef pending: Gate.wait")
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


# Waiting for refs: get and wait, and what the standard library does with refs.


def blocking_get(api: Api) -> Any:
    """The function that blocks until a ref is done."""
    return actorlib.blocking.get if api.is_blocking else actorlib.get


# get.


@FEW_KINDS
async def test_get_when_given_several_refs_then_their_values_in_that_order(
    api: Api, callee: Callee
) -> None:
    refs = [callee.first(number) for number in range(30)]

    assert await api.get([refs[3], refs[1], refs[3]]) == [3, 1, 3]
    assert await api.get(refs) == [*range(30)]
    assert await api.get(refs[7]) == 7
    assert await api.get([]) == []


@BLOCKING
@pytest.mark.parametrize("seconds", [0, 0.01])
async def test_get_when_it_takes_too_long_then_the_call_goes_on(
    api: Api, seconds: float
) -> None:
    gate = Gate.remote()
    ref = gate.wait.remote("place")
    get = functools.partial(blocking_get(api), timeout=seconds)
    for refs in (ref, [ref]):
        with pytest.raises(GetTimeoutError):
            await asyncio.to_thread(get, refs)
    gate.open.remote("place")

    assert await api.get(ref) == "place"


@pytest.mark.parametrize("has_failed", [False, True], ids=["fails later", "has failed"])
async def test_get_when_one_fails_then_it_does_not_wait_for_the_others(
    api: Api,
    has_failed: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    gate, echo = Gate.remote(), Echo.remote()
    waiting = gate.wait.remote()
    bad = echo.fail.remote(ValueError("no"))
    if has_failed:
        await api.wait([bad])
    for refs in ([waiting, bad], [bad, waiting]):
        error = await error_of(api, refs)
        assert isinstance(error, ValueError)
        assert isinstance(error, TaskError)

    assert not waiting.done()
    await api.get(gate.open.remote())
    assert await api.get(waiting) == ""


def get_both(gate: Any, echo: Any, *, has_failed: bool) -> Steps:
    slow, bad = gate.wait.remote("slow"), echo.fail.remote(ValueError("no"))
    if has_failed:
        with suppress(ValueError):
            yield bad
    yield [slow, bad]


def get_both_blocking(gate: Any, echo: Any, *, has_failed: bool) -> None:
    """The same, which blocks the event loop of a coroutine, too."""
    slow, bad = gate.wait.remote("slow"), echo.fail.remote(ValueError("no"))
    if has_failed:
        with suppress(ValueError):
            actorlib.get(bad)
    actorlib.get([slow, bad])


@pytest.mark.parametrize("has_failed", [False, True], ids=["fails later", "has failed"])
async def test_get_when_one_fails_in_a_callee_then_it_does_not_wait_for_the_others(
    api: Api,
    callee: Callee,
    has_failed: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    gate, echo = Gate.remote(), Echo.remote()
    for function in (get_both, get_both_blocking):
        ref = callee.run(function, gate, echo, has_failed=has_failed)
        assert isinstance(await error_of(api, ref), ValueError)

    await api.get(gate.open.remote("slow"))


@OWN_ENGINES
@pytest.mark.parametrize("given", [3, [3], "refs", None, {1: 2}], ids=repr)
async def test_get_when_given_what_is_not_a_ref_then_refused(
    api: Api, given: object
) -> None:
    with pytest.raises(TypeError, match=r"get\(\) takes"):
        blocking_get(api)(given)


def yield_once(value: int) -> Iterator[int]:
    yield value


@OWN_ENGINES
@FEW_KINDS
async def test_get_when_given_a_generator_then_refused_with_what_to_write(
    api: Api, callee: Callee
) -> None:
    stream = callee.items(yield_once, 0)
    for value in (stream, [stream]):
        with pytest.raises(TypeError, match=r"\[get\(ref\) for ref in generator\]"):
            blocking_get(api)(value)

    assert await api.get(await api.next_item(stream)) == 0


# wait.


async def test_wait_when_some_are_done_then_it_returns_them_apart(api: Api) -> None:
    gate = Gate.remote()
    refs = [gate.wait.remote(name) for name in "abc"]
    assert await api.wait(refs, limit=0) == ([], refs)
    await api.get(gate.open.remote("b"))

    assert await api.wait(refs) == ([refs[1]], [refs[0], refs[2]])
    done, left = await api.wait(refs, num_returns=2, limit=0.01)
    assert (done, left) == ([refs[1]], [refs[0], refs[2]])
    await api.get([gate.open.remote(name) for name in "ac"])
    assert await api.wait(refs, num_returns=3) == (refs, [])
    assert await api.wait([]) == ([], [])
    if api.is_blocking:
        wait = functools.partial(actorlib.blocking.wait, fetch_local=True)
        assert await asyncio.to_thread(wait, refs) == (refs[:1], refs[1:])


@FEW_KINDS
async def test_wait_when_a_ref_has_failed_then_it_is_done(
    api: Api, callee: Callee
) -> None:
    bad = callee.run(fail, ValueError("no"))

    assert await api.wait([bad]) == ([bad], [])
    assert isinstance(await error_of(api, bad), ValueError)


def wait_for_all(refs: list[Any]) -> list[Any]:
    done, left = actorlib.wait(refs, num_returns=len(refs), timeout=LIMIT).get()
    return [actorlib.get(done), left]


def wait_for_all_blocking(refs: list[Any]) -> list[Any]:
    done, left = actorlib.blocking.wait(refs, num_returns=len(refs), timeout=LIMIT)
    return [actorlib.blocking.get(done), left]


async def wait_for_all_on_loop(refs: list[Any]) -> list[Any]:
    done, left = await actorlib.wait(refs, num_returns=len(refs), timeout=LIMIT)
    return [await asyncio.gather(*done), left]


async def test_wait_when_a_callee_gets_refs_in_a_list_then_it_waits_for_them(
    api: Api, callee: Callee
) -> None:
    refs = [callee.run(divmod, 7, 3), api.put(3)]
    if callee.is_async:
        function: Any = wait_for_all_on_loop
    else:
        function = wait_for_all_blocking if api.is_blocking else wait_for_all

    assert await api.get(callee.run(function, refs)) == [[(2, 1), 3], []]


async def wait_blocking_on_loop() -> tuple[int, int]:
    ready, others = actorlib.blocking.wait([actorlib.put(1)])
    return len(ready), len(others)


@ASYNC
async def test_wait_when_it_blocks_a_loop_then_only_that_of_the_program_refuses(
    api: Api, callee: Callee
) -> None:
    assert await api.get(callee.run(wait_blocking_on_loop)) == (1, 0)
    if not api.is_blocking:
        with pytest.raises(RuntimeError, match=r"await actorlib\.wait\(refs"):
            actorlib.blocking.wait([callee.first(1)])


# What the standard library does with refs.


@AWAITING
@FEW_KINDS
async def test_asyncio_wait_when_given_refs_then_it_returns_the_refs(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    refs = [callee.first(number) for number in range(3)]
    assert await asyncio.wait(refs) == (set(refs), set())
    assert sorted(ref.result() for ref in refs) == [0, 1, 2]
    first, second = gate.wait.remote("first"), gate.wait.remote("second")
    await api.get(gate.open.remote("second"))
    done, pending = await asyncio.wait(
        [first, second], return_when=asyncio.FIRST_COMPLETED
    )
    assert (done, pending) == ({second}, {first})

    done, pending = await asyncio.wait([first], timeout=0.001)

    assert pending == {first}
    await api.get(gate.open.remote("first"))
    assert await first == "first"


@OWN_ENGINES
async def test_as_completed_when_given_refs_then_in_the_order_of_their_ends(
    api: Api,
) -> None:
    gate = Gate.remote()
    refs = [gate.wait.remote(name) for name in "abc"]
    ends: list[str] = []
    order = iter("bca")
    await api.get(gate.open.remote(next(order)))
    for ref in asyncio.as_completed(refs):
        ends.append(await ref)
        if len(ends) < 3:
            await api.get(gate.open.remote(next(order)))

    assert ends == ["b", "c", "a"]


@OWN_ENGINES
async def test_wait_for_when_given_a_ref_then_its_value_or_a_timeout(api: Api) -> None:
    gate = Gate.remote()
    await api.get(gate.open.remote("open"))

    assert await asyncio.wait_for(gate.wait.remote("open"), LIMIT) == "open"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gate.wait.remote("shut"), 0.001)
    assert await asyncio.wait_for(gate.wait.remote("open"), LIMIT) == "open"


@AWAITING
@FEW_KINDS
async def test_shield_and_callbacks_when_given_a_ref_then_as_with_any_future(
    api: Api, callee: Callee
) -> None:
    ref = callee.first(1)
    calls: list[Any] = []
    ref.add_done_callback(calls.append)

    assert await asyncio.shield(ref) == 1
    assert await api.get(ref) == ref.result() == 1
    assert ref.done()
    assert ref.exception() is None
    assert calls == [ref]
    assert isinstance(ref, asyncio.Future)
