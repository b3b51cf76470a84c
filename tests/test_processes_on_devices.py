"""Real processes on a card whose NVML is played: whose each is, told by the kernel."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, cast

import pytest
from helpers.actors import drained, end_of, running
from helpers.gpus import Model, OneCard, looked
from helpers.host import GIB

import actorlib
from actorlib._core.engine import find_engine

if TYPE_CHECKING:
    from pathlib import Path

    from actorlib._owner.engine import LocalEngine

pytestmark = pytest.mark.process


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> OneCard:
    return OneCard(monkeypatch, shared=tmp_path)


async def test_children_when_they_have_memory_then_it_counts_to_their_actor(
    card: OneCard,
) -> None:
    async with running(num_gpus=None) as runtime:
        parent = Model.options(num_gpus=0.5).remote()
        other = Model.options(num_gpus=0.5).remote()
        for has_own_session in (False, True):
            child = await parent.start_child.remote(has_own_session=has_own_session)
            card.use(child, 2 * GIB)
        card.use(await parent.pid.remote(), GIB)
        card.use(await other.pid.remote(), 4 * GIB)
        card.use(os.getpid(), 8 * GIB)
        await looked()

        infos = {info.pid: info.device_memory for info in runtime.snapshot().actors}
        assert infos == {
            await parent.pid.remote(): {"0": 5 * GIB},
            await other.pid.remote(): {"0": 4 * GIB},
        }


@pytest.mark.parametrize("was_seen", [False, True])
async def test_children_when_they_are_dead_and_still_listed_then_the_share_drains(
    card: OneCard, *, was_seen: bool
) -> None:
    async with running(num_gpus=None) as runtime:
        parent = Model.options(num_gpus=0.5).remote()
        children = [
            await parent.start_child.remote(has_own_session=has_own_session)
            for has_own_session in (False, True)
        ]
        for child in children:
            card.use(child, 2 * GIB)
        if was_seen:
            await looked()
        await actorlib.kill(parent)
        for _ in range(5):
            await looked()

        [draining] = runtime.snapshot().draining
        # Where this test did not look, the watchdog may have looked.
        unnamed = draining.replace(" (sleep)", "")
        for child in children:
            assert f"pid {child} still holds 2 GiB of GPU 0" in unnamed
        assert unnamed != draining or not was_seen
        assert runtime.available_resources()["GPU"] == 0.5

        for child in children:
            card.let_go(child)
        await drained()
        assert runtime.available_resources()["GPU"] == 1


async def test_end_when_others_are_on_the_card_then_they_are_not_waited_for(
    card: OneCard,
) -> None:
    async with running(num_gpus=None) as runtime:
        first, second = (Model.options(num_gpus=0.5).remote() for _ in range(2))
        card.use(os.getpid(), GIB)
        card.use(await second.pid.remote(), GIB)
        pid = await first.pid.remote()
        card.use(pid, GIB)
        await looked()
        await actorlib.kill(first)

        card.let_go(pid)
        await drained()

        assert runtime.available_resources()["GPU"] == 0.5
        end = end_of(second)
        await actorlib.kill(second)
        await end
        card.processes.drop(os.getpid())


async def test_fork_when_the_session_is_open_then_it_is_the_parents(
    card: OneCard,
) -> None:
    async with running(num_gpus=None):
        actor = Model.options(num_gpus=0.5).remote()
        pid = await actor.pid.remote()
        await looked()
        gpus = cast("LocalEngine", find_engine()).machine.enforcement.gpus
        assert gpus is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
            child = os.fork()
        if not child:
            os._exit(0 if gpus._session.is_over else 1)
        _, status = os.waitpid(child, 0)  # noqa: ASYNC222  # it leaves at once

        assert status == 0
        card.use(pid, GIB)
        await looked()
        [occupant] = gpus.occupants
        assert list(occupant.used.values()) == [GIB]
