from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from helpers.actors import AsyncCaller, Caller, Echo, Target, end_of, running
from helpers.calls import raised

import actorlib
from actorlib._options.kinds import KINDS
from actorlib.exceptions import ActorDiedError, ActorUnschedulableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actorlib import Runtime

pytestmark = pytest.mark.memory

MASK = "CUDA_VISIBLE_DEVICES"
NOSET = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"
THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
GIB = 1 << 30


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where nobody has set anything."""
    for name in (MASK, NOSET, "CUDA_DEVICE_ORDER", "ACTORLIB_HIDE_DEVICES", *THREADS):
        monkeypatch.delenv(name, raising=False)


@pytest_asyncio.fixture
async def two_gpus() -> AsyncIterator[Runtime]:
    async with running(num_gpus=2) as runtime:
        yield runtime


def seeing(**options: Any) -> Any:
    """An actor class that tells what it sees of its share; sent by value."""

    class Actor:
        def __init__(self) -> None:
            self._first = self.seen()

        def seen(self) -> Any:
            return actorlib.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")

        def first(self) -> Any:
            return self._first

        def variable(self, *names: str) -> Any:
            return [os.environ.get(name) for name in names]

        def context(self) -> Any:
            context = actorlib.get_runtime_context()
            return (
                context.get_actor_id(),
                context.get_accelerator_ids(),
                context.get_assigned_resources(),
            )

        def leave(self, how: str) -> None:
            if how == "exit":
                sys.exit(0)
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(3)

        async def seen_later(self) -> Any:
            return self.seen()

    return actorlib.remote(**options)(Actor) if options else actorlib.remote(Actor)


# The ledger, as a user sees it.


async def test_what_is_held_comes_back_however_the_actor_ends() -> None:
    totals = {"num_cpus": 4, "num_gpus": 2, "memory": GIB, "resources": {"x": 3}}
    asked = {"num_cpus": 1.5, "num_gpus": 2, "memory": GIB, "resources": {"x": 0.25}}
    held = {"CPU": 2.5, "GPU": 0.0, "memory": 0, "x": 2.75}
    everything = {"CPU": 4.0, "GPU": 2.0, "memory": GIB, "x": 3.0}
    async with running(**totals) as runtime:  # type: ignore[arg-type]
        assert runtime.available_resources() == everything
        for how in ("drop", "actorlib.kill", "block", "exit", "kill", "crash"):
            actor = seeing(**asked).remote()
            assert runtime.available_resources() in (everything, held)
            await actor
            assert runtime.available_resources() == held
            end = end_of(actor)
            if how == "actorlib.kill":
                await actorlib.kill(actor)
            elif how == "block":
                async with actor:
                    pass
            elif how != "drop":
                assert isinstance(await raised(actor.leave.remote(how)), ActorDiedError)
            del actor
            await end
            assert runtime.available_resources() == everything

        @actorlib.remote(**asked)
        class Failing:
            def __init__(self) -> None:
                raise ValueError("no")

        failing = Failing.remote()
        end = end_of(failing)
        await raised(failing)
        await end
        assert runtime.available_resources() == everything
        assert runtime.cluster_resources() == everything


async def test_what_can_never_be_is_refused_in_actors_too() -> None:
    async def make() -> None:
        await Target.options(num_cpus=80).remote()

    async with running() as runtime:
        error = await raised(AsyncCaller.remote().run.remote(make))
        assert isinstance(error, ActorUnschedulableError)
        assert "CPU=80" in str(error)
        assert runtime.snapshot().waiting == ()


async def test_killing_an_actor_in_line_withdraws_its_demand() -> None:
    async with running(num_cpus=2) as runtime:
        holder = Target.options(num_cpus=2).remote()
        await holder
        waiting = Target.options(num_cpus=2).remote()
        behind = Target.options(num_cpus=1).remote()
        refs = [waiting.ping.remote(), waiting.ping.remote()]
        await holder.ping.remote()
        assert runtime.snapshot().waiting == ("Target: CPU=2", "Target: CPU=1")
        await actorlib.kill(waiting)
        assert runtime.snapshot().waiting == ("Target: CPU=1",)
        for ref in (*refs, waiting.ping.remote(), waiting):
            error = await raised(ref)
            assert isinstance(error, ActorDiedError)
            assert (error.exit.cause, error.exit.pid) == ("asked", 0)
        await actorlib.kill(holder)
        assert await behind.ping.remote() > 0
        assert runtime.available_resources()["CPU"] == 1


async def test_killing_in_the_turn_of_the_creation() -> None:
    async with running(num_cpus=2) as runtime:
        target = Target.options(num_cpus=2).remote()
        ref = target.ping.remote()
        await actorlib.kill(target)
        assert isinstance(await raised(ref), ActorDiedError)
        assert runtime.available_resources()["CPU"] == 2


async def test_zero_is_the_same_as_not_asking(two_gpus: Runtime) -> None:
    zero = seeing(num_cpus=0, num_gpus=0, memory=0, resources={"x": 0}).remote()
    assert await zero.seen.remote() == ([], "")
    assert (await zero.context.remote())[2] == {}
    assert two_gpus.available_resources() == two_gpus.cluster_resources()
    assert not any(actorlib.get_runtime_context().get_accelerator_ids().values())
    default = seeing().remote()
    assert (await default.context.remote())[2] == {}


async def test_num_cpus_are_those_that_this_process_may_use() -> None:
    async with actorlib.init(num_gpus=0) as runtime:
        there = runtime.cluster_resources()
        assert 1 <= there["CPU"] <= len(os.sched_getaffinity(0))
        assert there["memory"] > 0


# Devices.


async def test_ids_are_the_same_in_the_constructor_and_in_every_method() -> None:
    async with running(num_gpus=4):
        actor = seeing(num_gpus=3).remote()
        expected = ([0, 1, 2], "0,1,2")
        assert await actor.first.remote() == expected
        assert await actor.seen.remote() == expected
        assert await actor.seen_later.remote() == expected
        ids = (await actor.context.remote())[1]
        assert ids.pop("GPU") == ["0", "1", "2"]
        assert ids == {kind: [] for kind in KINDS if kind != "GPU"}
        assert await actor.variable.remote("CUDA_DEVICE_ORDER") == ["PCI_BUS_ID"]


@pytest.mark.usefixtures("two_gpus")
async def test_an_actor_without_a_device_sees_none() -> None:
    actor = seeing(num_cpus=1).remote()
    assert await actor.first.remote() == ([], "")
    inheriting = seeing(accelerators="inherit").remote()
    assert await inheriting.first.remote() == ([], None)


async def test_the_owner_s_view_is_passed_on_when_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(MASK, "4,5")
    async with running(num_gpus=2):
        assert await seeing(accelerators="inherit").remote().seen.remote() == (
            [],
            "4,5",
        )
        assert await seeing(accelerators="hide").remote().seen.remote() == ([], "")
        inherits_and_holds = seeing(accelerators="inherit", num_gpus=1).remote()
        assert await inherits_and_holds.seen.remote() == (["4"], "4")
    monkeypatch.setenv("ACTORLIB_HIDE_DEVICES", "0")
    async with running(num_gpus=2):
        assert await seeing().remote().seen.remote() == ([], "4,5")
        assert await seeing(accelerators="hide").remote().seen.remote() == ([], "")


@pytest.mark.parametrize(
    ("mask", "ids"),
    [
        ("1,0", ["1", "0"]),
        ("MIG-1234,MIG-5678", ["MIG-1234", "MIG-5678"]),
    ],
)
async def test_ids_are_the_owner_s_and_the_mask_is_made_of_them(
    monkeypatch: pytest.MonkeyPatch, mask: str, ids: list[str]
) -> None:
    monkeypatch.setenv(MASK, mask)
    async with running(num_gpus=len(ids)) as runtime:
        actors = [seeing(num_gpus=1).remote() for _ in ids]
        seen = await asyncio.gather(*(actor.seen.remote() for actor in actors))
        assert seen == [([name], name) for name in ids]
        assert [row.mask for row in runtime.snapshot().actors] == ids
        await asyncio.gather(*map(actorlib.kill, actors))
        both = seeing(num_gpus=2).remote()
        assert await both.seen.remote() == (ids[:2], ",".join(ids[:2]))


# Threads of libraries.


@pytest.mark.usefixtures("two_gpus")
async def test_libraries_get_as_many_threads_as_there_are_cpus() -> None:
    for options, threads in (
        ({"num_cpus": 1}, "1"),
        ({"num_cpus": 2.5}, "2"),
        ({"num_cpus": 0.5}, "1"),
        ({"num_gpus": 1}, None),
        ({}, None),
    ):
        actor = seeing(**options).remote()
        assert await actor.variable.remote(*THREADS) == [threads] * len(THREADS)
        await actorlib.kill(actor)


async def test_threads_when_the_user_has_set_them_then_they_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    async with running():
        for actor in (seeing().remote(), seeing(num_cpus=2).remote()):
            assert await actor.variable.remote("OMP_NUM_THREADS") == ["7"]


async def test_actors_made_by_actors_stand_in_the_same_line() -> None:
    async with running(num_cpus=1) as runtime:
        holder = Target.options(num_cpus=1).remote()
        await holder
        caller = Caller.remote()
        made = await caller.make.remote(Target.options(num_cpus=1))
        own = Target.options(num_cpus=1).remote()
        refs = [made.ping.remote(), own.ping.remote()]
        await holder.ping.remote()
        assert runtime.snapshot().waiting == ("Target: CPU=1", "Target: CPU=1")
        await actorlib.kill(holder)
        await refs[0]
        assert not refs[1].done()
        await actorlib.kill(made)
        await refs[1]


# Telling.


async def test_explain_tells_why_one_waits_and_where_one_is(
    two_gpus: Runtime,
) -> None:
    holders = [seeing(num_gpus=0.5).remote() for _ in range(3)]
    await asyncio.gather(*holders)
    whole = seeing(num_gpus=1).remote()
    behind = seeing(num_gpus=0.5).remote()
    await holders[0].seen.remote()  # by now they stand in line
    pids = [holder.pid for holder in two_gpus.snapshot().actors[:3]]
    assert two_gpus.explain(whole) == (
        "Actor requests GPU=1; the largest free slice is GPU=0.5 on device 1 "
        "(free: 0: 0, 1: 0.5). Held: "
        + ", ".join(f"GPU=0.5 by Actor (pid {pid})" for pid in pids)
    )
    told = two_gpus.explain(behind)
    assert told.startswith("Actor requests GPU=0.5, which is free")
    assert "Ahead of it in the queue: Actor (GPU=1)" in told
    assert two_gpus.explain(holders[0]).partition("\n")[0] == (
        f"Actor (pid {pids[0]}) is alive on 0.5 of GPU 0"
    )
    assert two_gpus.explain(Target.remote())
    await actorlib.kill(holders[2])
    told = two_gpus.explain(holders[2])
    assert told.startswith(f"Actor (pid {pids[2]}) is dead: it was killed")
    await whole
    assert two_gpus.explain(whole).endswith(") is alive on 1 of GPU 1")


async def test_snapshot_tells_what_there_is_and_who_holds_it(
    two_gpus: Runtime,
) -> None:
    half = seeing(num_gpus=0.5, num_cpus=2).remote()
    nothing = Echo.remote()
    waiting = seeing(num_gpus=2).remote()
    await asyncio.gather(half, nothing)
    told = two_gpus.snapshot()
    assert (told.total["GPU"], told.total["CPU"]) == (2, 4)
    assert (told.available["GPU"], told.available["CPU"]) == (1.5, 2)
    assert told.total["memory"] == told.available["memory"] > 0
    assert told.waiting == ("Actor: GPU=2",)
    first, second, third = told.actors
    assert (first.class_name, first.state, first.devices) == (
        "Actor",
        "alive",
        {"0": 0.5},
    )
    assert (first.resources, first.mask) == ({"CPU": 2.0, "GPU": 0.5}, "0")
    assert (second.class_name, second.devices, second.mask) == ("Echo", {}, None)
    assert second.pid == await nothing.pid.remote()
    assert (third.state, third.pid, third.devices) == ("pending", 0, {})
    assert third.resources == {"GPU": 2.0}
    assert all(row.death == "" for row in told.actors)
    ref = waiting.seen.remote()
    assert two_gpus.snapshot().actors[2].pending_calls == 1
    await actorlib.kill(waiting)
    await raised(ref)
    assert "killed" in two_gpus.snapshot().actors[2].death


# The program of the README.
