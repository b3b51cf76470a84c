"""An actor that died is started anew: as often as it may, as if it was the first."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import (
    Caller,
    Target,
    end_of,
    gone,
    living,
    running,
)
from helpers.marks import USES_RUNTIME, in_memory
from helpers.owners import DESCENDANTS, Bell, Looped, Serial, Watched

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorError,
    ActorUnavailableError,
    ActorUnschedulableError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from actorlib import ActorHandle, Runtime
    from actorlib._api.decorators import ActorClass

pytestmark = [
    *in_memory(preload=[__name__], num_gpus=2, log_to_driver=False, grace=0.2),
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches pidfds"),
]

FOR_EVER = 1000.0
"""A back-off that no test waits for: whoever has to is restarting all the time."""


@actorlib.remote
class Fragile:
    """Counts, and dies when it is told to.

    Args:
        start: What it starts from.
    """

    def __init__(self, start: int = 0) -> None:
        self._total = start

    def add(self) -> int:
        self._total += 1
        return self._total

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def mask(self) -> str | None:
        return os.environ.get("CUDA_VISIBLE_DEVICES")


async def raised(waiting: Awaitable[object]) -> Any:
    with pytest.raises(ActorError) as caught:
        await waiting
    return caught.value


async def killed(actor: ActorHandle[Any]) -> ActorUnavailableError:
    """Lets an actor die; gives what its last call was told."""
    error = await raised(actor.die.remote())
    assert isinstance(error, ActorUnavailableError)
    return error


def info(runtime: Runtime, actor: ActorHandle[Any]) -> Any:
    (found,) = [
        told for told in runtime.snapshot().actors if told.actor_id in repr(actor)
    ]
    return found


# How often.


@pytest.mark.process
@pytest.mark.parametrize("kind", [Serial, Looped], ids=repr)
@pytest.mark.parametrize(
    "method", ["template", pytest.param("spawn", marks=pytest.mark.thorough)]
)
async def test_however_it_ends_it_comes_back(
    kind: ActorClass[..., Any], method: Any
) -> None:
    async with running(start_method=method, log_to_driver=False):
        options: Any = {"max_restarts": 3, "restart_backoff": 0}
        actor = kind.options(**options).remote()
        for deed, *arguments in (("segfault",), ("exit_at_once", 7), ("leave", 3)):
            before = await actor.pid.remote()

            error = await raised(getattr(actor, deed).remote(*arguments))

            assert isinstance(error, ActorUnavailableError)
            assert error.exit.method == deed
            assert await (await actor).pid.remote() != before


async def test_it_is_restarted_even_if_nobody_calls_it(bell: Bell) -> None:
    async with running(log_to_driver=False):
        actor = Serial.options(max_restarts=1).remote(bell.path)
        first = await asyncio.to_thread(bell.heard)
        await actor

        os.kill(first, signal.SIGKILL)

        assert await asyncio.to_thread(bell.heard) != first


# Its share.


async def test_it_keeps_its_share_through_a_restart_at_once(
    runtime: Runtime,
) -> None:
    actor = Fragile.options(num_gpus=2, max_restarts=1).remote()
    await actor
    waiting = Target.options(num_gpus=1).remote()
    pong = waiting.ping.remote()

    await killed(actor)

    assert runtime.available_resources()["GPU"] == 0
    await actor
    assert await actor.mask.remote() == "0,1"
    assert not pong.done()
    await actorlib.kill(actor)
    await pong


async def test_its_share_may_go_to_a_waiter_while_it_backs_off(
    runtime: Runtime,
) -> None:
    options: Any = {"num_gpus": 2, "max_restarts": -1, "restart_backoff": 0.01}
    actor = Fragile.options(**options).remote()
    await actor
    waiting = Fragile.options(num_gpus=1).remote()
    await killed(actor)
    await actor
    await killed(actor)

    assert await waiting.mask.remote() == "0"
    assert not living(runtime)[0].devices
    await actorlib.kill(waiting)
    await actor
    assert await actor.mask.remote() == "0,1"


async def test_a_restart_on_another_device_gets_its_mask(runtime: Runtime) -> None:
    options: Any = {"num_gpus": 1, "max_restarts": 2, "restart_backoff": 0.2}
    actor = Fragile.options(**options).remote()
    assert await actor.mask.remote() == "0"
    await killed(actor)
    await actor
    assert await actor.mask.remote() == "0"
    await killed(actor)

    other = Fragile.options(num_gpus=1).remote()

    assert await other.mask.remote() == "0"
    await actor
    assert await actor.mask.remote() == "1"
    assert info(runtime, actor).mask == "1"


async def test_one_that_is_to_be_near_it_waits_while_it_backs_off(
    runtime: Runtime,
) -> None:
    options: Any = {"num_gpus": 0.5, "max_restarts": -1, "restart_backoff": 0.2}
    actor = Fragile.options(**options).remote()
    await actor
    await killed(actor)
    await actor
    await killed(actor)

    near = Fragile.options(num_gpus=0.5, near=actor).remote()

    assert "waits for a place for the actors" in runtime.explain(near)
    assert await near.mask.remote() == await (await actor).mask.remote()


@USES_RUNTIME
async def test_one_whose_neighbour_died_for_good_says_so() -> None:
    other = Fragile.options(num_gpus=0.5).remote()
    options: Any = {"num_gpus": 0.5, "max_restarts": -1, "restart_backoff": 0.01}
    actor = Fragile.options(near=other, **options).remote()
    await actor
    await actorlib.kill(other)
    await killed(actor)
    await actor  # it kept its share, so it asked nobody
    await killed(actor)

    assert isinstance(await raised(actor), ActorUnschedulableError)


# Ends that are asked for.


async def backing_off(**options: Any) -> ActorHandle[Any]:
    """An actor that will be restarting for as long as a test may take."""
    known: Any = {"max_restarts": -1, "restart_backoff": FOR_EVER, **options}
    actor = Fragile.options(**known).remote()
    for _ in range(2):
        await actor
        await actorlib.kill(actor, no_restart=False)
    return actor


async def test_kill_while_it_backs_off_is_final(runtime: Runtime) -> None:
    actor = await backing_off(max_task_retries=3)
    waiting = actor.add.remote()
    ready = asyncio.ensure_future(_ready(actor))
    await asyncio.sleep(0)
    await actorlib.kill(actor, no_restart=False)
    assert info(runtime, actor).state == "restarting"

    await actorlib.kill(actor)

    assert isinstance(await raised(waiting), ActorDiedError)
    assert isinstance(await raised(ready), ActorDiedError)
    assert living(runtime) == []
    await actorlib.kill(actor, no_restart=False)


async def _ready(actor: ActorHandle[Any]) -> None:
    await actor


async def test_the_last_handle_gone_while_it_backs_off_ends_it(
    runtime: Runtime,
) -> None:
    actor = await backing_off()
    end = end_of(actor)
    del actor

    await end

    assert living(runtime) == []


async def test_the_end_of_its_block_while_it_backs_off_ends_it(
    runtime: Runtime,
) -> None:
    options: Any = {"max_restarts": -1, "restart_backoff": FOR_EVER}
    async with Fragile.options(**options).remote() as actor:
        await killed(actor)
        await actor
        await killed(actor)

    assert living(runtime) == []


async def test_shutdown_while_it_backs_off_waits_for_nothing() -> None:
    async with running(log_to_driver=False):
        actor = await backing_off(max_task_retries=1)
        waiting = actor.add.remote()

    assert isinstance(await raised(waiting), ActorDiedError)


async def test_shutdown_in_a_crash_loop_ends_it(bell: Bell) -> None:
    async with running(log_to_driver=False):
        options: Any = {"max_restarts": -1, "restart_backoff": 0}
        looping = Serial.options(**options).remote(bell.path, "exit_at_once", 3)
        for _ in range(5):
            await asyncio.to_thread(bell.heard)
        waiting = looping.echo.remote()

    assert isinstance(await raised(waiting), ActorError)


async def test_kill_with_restart_of_one_in_line_puts_it_at_the_end(
    runtime: Runtime,
) -> None:
    blocker = Target.options(num_gpus=2).remote()
    first = Fragile.options(num_gpus=2, max_restarts=1).remote()
    second = Fragile.options(num_gpus=2).remote()
    early = first.add.remote()
    await blocker

    await actorlib.kill(first, no_restart=False)

    assert info(runtime, first).restarts == 1
    await actorlib.kill(blocker)
    assert await second.add.remote() == 1
    assert not early.done()
    await actorlib.kill(second)
    assert await early == 1


async def test_kill_with_restart_of_one_in_line_ends_it_if_there_is_none_left(
    runtime: Runtime,
) -> None:
    blocker = Target.options(num_gpus=2).remote()
    pending = Fragile.options(num_gpus=1, max_restarts=1).remote()
    await blocker

    await actorlib.kill(pending, no_restart=False)
    (why,) = info(runtime, pending).earlier_deaths
    assert why == "it was killed, to be restarted"
    await actorlib.kill(pending, no_restart=False)

    assert isinstance(await raised(pending.add.remote()), ActorDiedError)
    await actorlib.kill(blocker)


# What is told, and what is left.


@USES_RUNTIME
async def test_the_log_tells_each_restart_once_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "actorlib"):
        actor = Fragile.options(max_restarts=2, restart_backoff=0).remote()
        for _ in range(2):
            await actor
            await killed(actor)
        await raised((await actor).die.remote())
        await end_of(actor)

    told = [record.getMessage().partition(") ")[2] for record in caplog.records]
    reason = "a signal ended its process (SIGKILL), while it ran die"
    assert told == [
        f"restarts (attempt 1 of 2): {reason}",
        f"restarts (attempt 2 of 2): {reason}",
        f"is dead after 2 restarts (max_restarts=2): {reason}",
    ]


async def test_explain_and_snapshot_tell_that_it_restarts(runtime: Runtime) -> None:
    actor = await backing_off(num_gpus=1, max_restarts=3)

    told = runtime.explain(actor)

    assert told == "Fragile is restarting, attempt 2 of 3, in 1000 s"
    seen = info(runtime, actor)
    assert (seen.state, seen.restarts, seen.pid) == ("restarting", 2, 0)
    assert (seen.devices, seen.mask) == ({}, None)
    assert runtime.available_resources()["GPU"] == 2


async def test_snapshot_when_it_was_restarted_then_why_each_time(
    runtime: Runtime,
) -> None:
    actor = Fragile.options(max_restarts=3, restart_backoff=0).remote()
    assert await actor.add.remote() == 1
    assert info(runtime, actor).earlier_deaths == ()

    await killed(actor)
    await actor
    await actorlib.kill(actor, no_restart=False)
    await actor
    seen = info(runtime, actor)
    assert (seen.state, seen.restarts, seen.death) == ("alive", 2, "")
    crash, kill = seen.earlier_deaths
    assert "SIGKILL" in crash
    assert "while it ran die" in crash
    assert "it was killed, to be restarted" in kill

    await actorlib.kill(actor)
    seen = info(runtime, actor)
    assert (seen.state, seen.earlier_deaths) == ("dead", (crash, kill))
    assert "it was killed" in seen.death
    dead, *before = runtime.explain(actor).splitlines()
    assert dead.endswith(f"is dead: {seen.death}")
    assert before == [
        "Why it was restarted before, oldest first:",
        f"  - {crash}",
        f"  - {kill}",
    ]


async def test_the_forgotten_when_they_were_restarted_are_listed_with_every_end() -> (
    None
):
    async with running(num_cpus=1, actor_history=5) as runtime:
        caller = Caller.remote()
        actor = Fragile.options(max_restarts=1).remote()
        await asyncio.gather(caller, actor)
        await killed(actor)
        await actor
        await raised(actor.die.remote())
        del actor
        gc.collect()

        for seen in (
            actorlib.list_actors(),
            list(runtime.snapshot().actors),
            await caller.run.remote(actorlib.list_actors),
        ):
            told = seen[-1]
            assert (told.class_name, told.restarts) == ("Fragile", 1)
            assert "SIGKILL" in told.death
            assert [("SIGKILL" in why) for why in told.earlier_deaths] == [True]


@pytest.mark.process
async def test_children_of_the_dead_are_gone_before_the_next_starts(
    runtime: Runtime,
) -> None:
    actor = Serial.options(max_restarts=1).remote()
    marked = [kind for kind in DESCENDANTS if kind != "an unmarked session"]
    home = await actor.household.remote(*marked)
    del home["template"]
    with Watched(home.values()) as watched:
        await raised(actor.get_signal.remote(9))

        assert info(runtime, actor).state in ("starting", "restarting")
        assert watched.left(limit=0.001) == []
        await actor


@pytest.mark.process
async def test_actors_come_back_when_the_template_was_killed(
    own_runtime: Runtime,
) -> None:
    made = Serial.options(num_gpus=1, max_restarts=1, max_task_retries=1)
    actor = made.remote()
    other = Serial.options(num_gpus=1).remote()
    await other
    home = await actor.household.remote()

    os.kill(home["template"], signal.SIGKILL)

    await gone(home["worker"])
    await raised(other.echo.remote())
    await actor
    assert await actor.echo.remote("back") == "back"
    assert info(own_runtime, actor).restarts == 0  # it was not its own fault


async def test_deaths_of_many_at_once_bring_all_of_them_back(
    runtime: Runtime, bell: Bell
) -> None:
    made = Serial.options(num_gpus=0.25, max_restarts=1)
    actors = [made.remote(bell.path) for _ in range(8)]
    await asyncio.gather(*map(_ready, actors))
    first = [await asyncio.to_thread(bell.heard) for _ in actors]

    for pid in first:
        os.kill(pid, signal.SIGKILL)
    second = [await asyncio.to_thread(bell.heard) for _ in actors]

    assert not set(first) & set(second)
    await asyncio.gather(*map(_ready, actors))
    pids = await asyncio.gather(*(actor.pid.remote() for actor in actors))
    assert set(pids) == set(second)
    assert runtime.available_resources()["GPU"] == 0
