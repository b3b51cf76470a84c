"""Shares of NVIDIA's devices are given to others when the driver has let go of them."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import running
from helpers.gpus import Model, OneCard, pid_on_the_card

import actorlib
from actorlib import placement_group, remove_placement_group
from actorlib._enforcement.drains import LIMIT
from actorlib.exceptions import ActorDiedError, ActorUnavailableError
from actorlib.types import PlacementGroupSchedulingStrategy as Strategy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actorlib import Runtime

pytestmark = pytest.mark.memory


@pytest.fixture
async def runtime(card: OneCard) -> AsyncIterator[Runtime]:
    del card  # it is there before
    async with running(num_gpus=None) as runtime:
        yield runtime
    assert nvml_threads() == []


def nvml_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "actorlib-nvml"]


def now() -> float:
    return asyncio.get_running_loop().time()


async def listed(card: OneCard, **options: Any) -> tuple[Any, int]:
    """An actor with a part of the card, whose process has memory there."""
    actor = Model.options(**options).remote()
    pid = await actor.pid.remote()
    card.use(pid)
    return actor, pid


async def test_kill_when_the_driver_has_not_let_go_then_nobody_gets_the_share(
    card: OneCard, runtime: Runtime
) -> None:
    first, pid = await listed(card, num_gpus=0.5)
    second = Model.options(num_gpus=0.75).remote()

    await actorlib.kill(first)  # told at once
    with pytest.raises(ActorDiedError):
        await first.pid.remote()
    await asyncio.sleep(LIMIT / 2)

    still = f"pid {pid} still holds 3 GiB of GPU 0"
    assert f"Held: GPU=0.5 by Model (pid {pid}), whose share drains: {still}" in (
        runtime.explain(second)
    )
    [draining] = runtime.snapshot().draining
    assert draining == f"GPU 0: 0.5 drains: {still}"
    assert runtime.available_resources()["GPU"] == 0.5

    card.let_go(pid)
    await second
    assert runtime.snapshot().draining == ()


async def test_restart_when_the_driver_has_not_let_go_then_it_waits_for_its_own_share(
    card: OneCard, runtime: Runtime
) -> None:
    actor, pid = await listed(card, num_gpus=0.5, max_restarts=1)
    with pytest.raises(ActorUnavailableError):
        await actor.crash.remote()

    await asyncio.sleep(LIMIT / 2)
    [info] = runtime.snapshot().actors
    assert (info.state, info.pid) == ("restarting", 0)
    assert "It waits for its own share: GPU 0: 0.5 drains" in runtime.explain(actor)

    card.let_go(pid)
    await actor
    assert await actor.pid.remote() != pid
    assert runtime.available_resources()["GPU"] == 0.5


async def test_kill_when_it_waits_for_its_own_share_then_dead_at_once(
    card: OneCard, runtime: Runtime
) -> None:
    actor, pid = await listed(card, num_gpus=1, max_restarts=1)
    with pytest.raises(ActorUnavailableError):
        await actor.crash.remote()
    await asyncio.sleep(1)
    begin = now()

    await actorlib.kill(actor)

    assert now() - begin < 1
    assert runtime.available_resources().get("GPU", 0) == 0
    card.let_go(pid)
    await Model.options(num_gpus=1).remote()


async def test_restart_when_it_has_to_wait_then_others_get_the_share_behind_the_driver(
    card: OneCard, runtime: Runtime
) -> None:
    options = {"num_gpus": 1, "max_restarts": -1, "restart_backoff": 30.0}
    actor, pid = await listed(card, **options)
    await actorlib.kill(actor, no_restart=False)
    card.let_go(pid)
    await actor
    pid = await actor.pid.remote()
    card.use(pid)
    await actorlib.kill(actor, no_restart=False)
    other = Model.options(num_gpus=1).remote()
    await asyncio.sleep(LIMIT / 2)
    assert runtime.snapshot().draining != ()

    card.let_go(pid)

    await other


async def test_function_when_the_driver_has_not_let_go_then_the_next_call_waits(
    card: OneCard, runtime: Runtime
) -> None:
    pid = await pid_on_the_card.remote()
    card.use(pid)
    following = pid_on_the_card.remote()
    await asyncio.sleep(LIMIT / 2)
    assert not following.done()
    assert runtime.snapshot().draining != ()

    card.let_go(pid)

    assert await following != pid


async def test_group_when_one_inside_drains_then_its_removal_waits_for_that(
    card: OneCard, runtime: Runtime
) -> None:
    group = placement_group([{"GPU": 1}])
    inside, pid = await listed(
        card, num_gpus=1, scheduling_strategy=Strategy(placement_group=group)
    )
    outside = Model.options(num_gpus=1).remote()
    removed = remove_placement_group(group)
    await asyncio.sleep(LIMIT / 2)
    with pytest.raises(ActorDiedError):
        await inside.pid.remote()
    assert runtime.available_resources().get("GPU", 0) == 0

    card.let_go(pid)

    await removed
    await outside


async def test_shutdown_when_a_share_drains_then_it_is_not_waited_for(
    card: OneCard, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(num_gpus=None):
        first, _ = await listed(card, num_gpus=0.5)
        await listed(card, num_gpus=0.5)
        await actorlib.kill(first)
        begin = now()

    assert now() - begin < LIMIT / 2
    assert "given to others" not in caplog.text


async def test_draining_when_an_actor_wants_none_then_its_share_is_back_at_once(
    card: OneCard, runtime: Runtime
) -> None:
    first, _ = await listed(card, num_gpus=1, enforcement="off")
    await actorlib.kill(first)

    assert runtime.available_resources()["GPU"] == 1
    assert card.looks == 0


@pytest.mark.usefixtures("card")
async def test_session_when_nobody_has_a_device_then_there_is_none() -> None:
    async with running(num_gpus=None):
        await Model.remote()
        assert nvml_threads() == []


async def test_session_when_the_devices_are_logical_then_there_is_none() -> None:
    async with running(num_gpus=1) as runtime:
        first = await Model.options(num_gpus=0.5).remote()
        await actorlib.kill(first)
        assert nvml_threads() == []
        assert runtime.available_resources()["GPU"] == 1
