"""What people see of actors: how they are called, what they wait for, since when."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller, Echo, Gate, Keeper, Stop, Target, running
from helpers.marks import in_memory

import actorlib

if TYPE_CHECKING:
    from actorlib import Runtime
    from actorlib.types import ActorInfo

pytestmark = in_memory(num_cpus=2)


def seen(**filters: str) -> list[ActorInfo]:
    return actorlib.list_actors(
        filters=[(key, "=", value) for key, value in filters.items()]
    )


def process_title() -> str:
    return Path("/proc/self/comm").read_text().strip()


# Calls as older scripts write them.


@pytest.mark.usefixtures("runtime")
async def test_actors_and_calls_are_made_as_older_scripts_do() -> None:
    keeper = Keeper._remote(args=[1], kwargs=None, name="k", num_cpus=1)
    assert await keeper.kept._remote() == 1
    await keeper.keep._remote((), {"value": 2}, name="kept")
    assert await keeper.kept._remote(num_returns=1) == 2
    assert actorlib.get_actor("k") == keeper
    assert actorlib.list_actors()[0].resources == {"CPU": 1.0}

    other = Keeper._remote(kwargs={"kept": 3})
    assert await other.kept._remote([], {}) == 3


@pytest.mark.usefixtures("runtime")
async def test_what_is_wrong_is_refused_as_by_remote() -> None:
    keeper = Keeper._remote()

    with pytest.raises(ValueError, match="num_gpu"):
        Keeper._remote(num_gpu=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Keeper._remote(args=(1, 2))
    with pytest.raises(TypeError):
        keeper.kept._remote((1,))


# How processes are called.


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.usefixtures("runtime")
async def test_a_process_is_called_by_the_class_of_its_actor() -> None:
    """A call has its own name in the context, and none in the title."""
    caller = Caller.remote()

    assert await caller.run.remote(process_title) == "Caller"
    call = caller.run.options(name="nightly")
    assert await call.remote(process_title) == "Caller"
    name = await call.remote(_name_of_the_call)
    assert name == "nightly"


def _name_of_the_call() -> Any:
    return actorlib.get_runtime_context().get_task_name()


# States and times.


@pytest.mark.usefixtures("runtime")
async def test_filters_understand_ray_s_states() -> None:
    with Stop() as stop:
        first = Echo.remote()
        slow = first.echo.remote(0)
        await slow
        keeper = Caller.remote()
        stopped = keeper.run.remote(stop.place.stop_here)
        await stop.reached()
        waits_for_argument = Keeper.remote(stopped)
        fills = Target.options(num_cpus=2).remote()
        await fills
        in_line = Target.options(num_cpus=1).remote()

        (unready,) = seen(state="DEPENDENCIES_UNREADY")
        (coming,) = seen(state="PENDING_CREATION")
        alive = seen(state="ALIVE")

        assert (unready.class_name, unready.pid) == ("Keeper", 0)
        assert unready.awaits_arguments
        assert (coming.class_name, coming.state, coming.pid) == ("Target", "pending", 0)
        assert len(alive) == 3
        assert seen(state="RESTARTING") == []
        stop.release()
    await waits_for_argument
    assert seen(state="DEPENDENCIES_UNREADY") == []
    await actorlib.kill(fills)
    await in_line
    assert [actor.class_name for actor in seen(state="DEAD")] == ["Target"]


@pytest.mark.usefixtures("runtime")
async def test_start_and_end_are_told_and_a_restart_moves_no_start() -> None:
    before = time.time()
    actor = Target.options(max_restarts=1).remote()
    (info,) = actorlib.list_actors()
    assert (info.started_at, info.ended_at) == (None, None)

    pid = await actor.ping.remote()
    (info,) = actorlib.list_actors()
    assert info.started_at is not None
    assert before <= info.started_at <= time.time()

    await actorlib.kill(actor, no_restart=False)
    await actor
    assert await actor.ping.remote() != pid
    (again,) = actorlib.list_actors()
    assert (again.restarts, again.started_at) == (1, info.started_at)
    assert again.ended_at is None

    await actorlib.kill(actor)
    (dead,) = actorlib.list_actors()
    assert dead.started_at == info.started_at
    assert dead.ended_at is not None
    assert info.started_at <= dead.ended_at <= time.time()


async def test_snapshot_when_some_of_a_device_is_held_then_it_tells_of_each() -> None:
    async with running(num_gpus=2, device_memory={"GPU": 2**30}) as runtime:
        held = Target.options(num_gpus=0.25).remote()
        for _ in range(3):
            await held.ping.remote()

        devices = runtime.snapshot().devices
        (info,) = runtime.snapshot().actors

    assert [(one.kind, one.available, one.nbytes) for one in devices] == [
        ("GPU", 0.75, 2**30),
        ("GPU", 1.0, 2**30),
    ]
    assert info.devices == {devices[0].device: 0.25}
    assert info.made_calls == 3


def stop_with_id(place: Any) -> str | None:
    """Stops in a call, and then gives its id."""
    place.stop_here()
    return actorlib.get_runtime_context().get_task_id()


async def test_calls_when_asked_then_each_says_whose_it_is_and_who_made_it(
    runtime: Runtime,
) -> None:
    server = Gate.options(name="server").remote()
    front = Caller.options(name="front").remote()
    asked = front.call.remote(server, "wait")
    named = front.call.options(name="second").remote(server, "wait")
    await server.reached.remote()

    calls = runtime.calls()

    [inner] = [call for call in calls if call.method == "wait"]
    outer, queued = [call for call in calls if call.method == "call"]
    pid = next(a.pid for a in runtime.snapshot().actors if a.name == "front")
    assert (inner.actor_name, inner.state, inner.name) == (
        "server",
        "running",
        "Gate.wait",
    )
    assert inner.caller == f"Caller.call of 'front' (pid {pid})"
    assert (outer.actor_name, outer.state, outer.caller) == ("front", "running", "")
    assert (queued.state, queued.name) == ("queued", "second")
    for call in (inner, outer, queued):
        assert call.age is not None
        assert call.age >= 0
        assert call.variables == {}
    await server.open.remote()
    await asyncio.gather(asked, named)
    assert runtime.calls() == []


async def test_calls_when_functions_run_and_wait_then_they_are_told_of(
    runtime: Runtime,
) -> None:
    @actorlib.remote(num_cpus=2)
    def both(place: Any) -> str:
        return str(stop_with_id(place))

    @actorlib.remote(num_cpus=2)
    def behind(given: object = None) -> object:
        return given

    with Stop() as stop:
        ref = both.remote(stop.place)
        waiting = behind.remote()
        given = behind.remote(ref)
        await stop.reached()

        calls = runtime.calls()

        assert [(call.name.rpartition(".")[2], call.state) for call in calls] == [
            ("both", "running"),
            ("behind", "pending_resources"),
            ("behind", "pending_arguments"),
        ]
        assert all(call.age is not None and call.age >= 0 for call in calls)
        assert {call.actor_id for call in calls} == {""}
        stop.release()

    assert await ref == calls[0].task_id
    await asyncio.gather(waiting, given)
    assert runtime.calls() == []


async def test_calls_without_an_answer_say_what_they_wait_for(
    runtime: Runtime,
) -> None:
    """FINISHED and FAILED are not kept: that would need a table of every call."""
    assert runtime.calls() == []
    caller, echo = Caller.remote(), Echo.remote()
    await asyncio.gather(caller, echo)
    with Stop() as stop:
        running_call = caller.run.remote(stop_with_id, stop.place)
        await stop.reached()
        refs = [running_call, echo.echo.remote(running_call), echo.pid.remote()]
        target = Target.options(num_cpus=2).remote()
        waits = Target.options(num_cpus=1).remote()
        refs += [target.ping.remote(), waits.ping.remote()]

        told = [(call.class_name, call.method, call.state) for call in runtime.calls()]
        assert told == [
            ("Caller", "run", "running"),
            ("Echo", "echo", "pending_arguments"),
            ("Echo", "pid", "pending_arguments"),
            ("Target", "ping", "pending_actor"),
            ("Target", "ping", "pending_actor"),
        ]
        task_id = runtime.calls()[0].task_id
        stop.release()
    assert await running_call == task_id
    await asyncio.gather(*refs[:4])
    del target
    await refs[4]
    assert runtime.calls() == []


# What is kept otherwise than Ray does, by decision.


async def test_without_cpus_an_actor_that_asks_for_none_runs() -> None:
    """It holds CPUs only if it asks for them; what can never be fails at once."""
    async with running(num_cpus=0):
        assert await Target.remote().ping.remote()
        assert await Target.options(num_cpus=0).remote().ping.remote()
        with pytest.raises(actorlib.exceptions.ActorUnschedulableError, match="CPU"):
            await Target.options(num_cpus=1).remote()


@pytest.mark.usefixtures("runtime")
async def test_get_or_create_and_drop_again_and_again_never_fails() -> None:
    made = Target.options(name="t", get_if_exists=True, max_restarts=-1)

    pids = {await made.remote().ping.remote() for _ in range(50)}

    assert os.getpid() not in pids


# Notebooks.


async def test_notebook_when_it_shows_a_runtime_or_a_handle_then_by_tables() -> None:
    async with running(num_gpus=1) as runtime:
        held = Target.options(num_gpus=0.5, name="<b>").remote()
        await held

        shown: Any = runtime._repr_html_()
        of_handle: Any = held._repr_html_()

    assert "Target &#x27;&lt;b&gt;&#x27;" in shown
    assert "0.5 of 0" in of_handle
    assert runtime._repr_html_() is None
    assert "dead" in (held._repr_html_() or "dead")
