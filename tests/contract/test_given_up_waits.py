"""Waits for calls that are given up, and refs that are dropped.

In the cells of scripts the waits are those of another loop than the runtime's.
"""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Gate, Log, MixedLog
from helpers.waiting_calls import ask, sent, tell, was_left

import actorlib

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.actors import Stop
    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]

_SERIAL, _MIXED = actorlib.remote(Log), actorlib.remote(MixedLog)
LOGS = pytest.mark.parametrize("log", [_SERIAL, _MIXED], ids=["serial", "mixed"])

callers = pytest.mark.parametrize(
    "callee", ["function", "plain", "async"], indirect=True
)


async def begun(make: Callable[[], Any]) -> asyncio.Task[Any]:
    """A task that makes a call and waits for it, and alone has its ref."""

    async def wait() -> Any:
        return await make()

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)  # it has begun
    return task


async def give_up(wait: asyncio.Future[Any]) -> None:
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait


async def was_not_left(api: Api, gate: Any) -> bool:
    """Lets the call of the gate end."""
    await api.get(gate.open.remote("asked"))
    await api.get(gate.wait.remote("asked"))
    return await api.get(gate.left.remote()) == []


@callers
async def test_wait_when_given_up_without_another_ref_then_the_call_is_cancelled(
    api: Api, callee: Callee, stop: Stop
) -> None:
    gate = Gate.remote()
    wait = await begun(lambda: callee.run(ask, gate, stop.place))
    await api.get(gate.reached.remote("asked"))

    await give_up(wait)

    assert await was_left(api, gate)
    assert await api.get(callee.run(len, "ab")) == 2


@callers
async def test_wait_when_given_up_then_other_waits_and_the_ref_go_on(
    api: Api, callee: Callee, stop: Stop
) -> None:
    gate = Gate.remote()
    ref = callee.run(ask, gate, stop.place)
    waits = [await begun(lambda: ref) for _ in range(2)]
    await api.get(gate.reached.remote("asked"))

    await give_up(waits[0])
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await ref

    assert not ref.done()
    assert await was_not_left(api, gate)
    assert await waits[1] == "asked"
    assert await api.get(ref) == "asked"


@callers
async def test_ref_when_dropped_after_its_wait_was_given_up_then_the_call_is_cancelled(
    api: Api, callee: Callee, stop: Stop
) -> None:
    gate = Gate.remote()
    ref = callee.run(ask, gate, stop.place)
    await api.get(gate.reached.remote("asked"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await ref

    del ref
    gc.collect()

    assert await was_left(api, gate)


@callers
async def test_ref_when_dropped_without_a_wait_then_the_call_goes_on(
    api: Api, callee: Callee, stop: Stop
) -> None:
    gate = Gate.remote()
    callee.run(ask, gate, stop.place)
    gc.collect()
    await api.get(gate.reached.remote("asked"))

    assert await was_not_left(api, gate)


@callers
async def test_wait_when_given_up_before_the_arguments_come_then_the_call_never_runs(
    api: Api, callee: Callee, stop: Stop, *, is_on_ray: bool
) -> None:
    gate = Gate.remote()
    argument = gate.wait.remote("argument")
    wait = await begun(lambda: callee.run(tell, stop.place, "given up", argument))

    await give_up(wait)
    gc.collect()
    await api.get(gate.open.remote("argument"))

    assert await api.get(argument) == "argument"
    assert await api.get(callee.run(tell, stop.place, "next")) == "next"
    if not is_on_ray:  # there it may run all the same
        assert await stop.told() == "next"


@LOGS
async def test_wait_when_given_up_before_the_actor_is_ready_then_the_call_never_runs(
    api: Api, stop: Stop, log: Any, *, is_on_ray: bool
) -> None:
    actor = log.remote(stop.place)
    wait = await begun(lambda: actor.note.remote("given up"))
    await stop.reached()

    await give_up(wait)
    kept = actor.note.remote("kept")
    await sent(api)
    stop.release()

    assert await api.get(kept) == "kept"
    if not is_on_ray:  # there it may run all the same
        assert await api.get(actor.seen.remote()) == ["kept"]


async def give_up_inside(gate: Any) -> str:
    ref = gate.wait.remote("asked")
    await gate.reached.remote("asked")
    try:
        async with asyncio.timeout(0.001):
            await ref
    except TimeoutError:
        return "given up"
    return "not given up"


@pytest.mark.parametrize("callee", ["async"], indirect=True)
async def test_wait_when_given_up_by_a_method_then_the_call_is_cancelled(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()

    assert await api.get(callee.run(give_up_inside, gate)) == "given up"
    assert await was_left(api, gate)
