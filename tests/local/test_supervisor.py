"""Lives, and what is given back at their end whatever goes wrong in it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest
from helpers.actors import LIMIT
from helpers.scripted import be_silent, scripted

import actorlib
from actorlib._engine import find_engine
from actorlib.exceptions import ActorDiedError, ActorlibError, ActorUnavailableError

if TYPE_CHECKING:
    from actorlib._local.engine import LocalEngine


@actorlib.remote
class Doomed:
    def work(self) -> None: ...


@actorlib.remote
class Neighbour:
    def work(self) -> None: ...


def _engine() -> LocalEngine:
    return cast("LocalEngine", find_engine())


def _raise(*_: object, **__: object) -> NoReturn:
    raise TypeError("a step of the end is broken")


_STEPS = [
    "_relay.forget",
    "_relay.introductions.forget",
    "_relay._readers.forget",
    "objects.lost",
    "holders.forget",
    "stores.mark",
    "stores.leave",
    "groups.orphan",
    "groups.part",
    "demands.buried",
    "directory.leave",
]


@pytest.mark.parametrize("step", _STEPS)
async def test_kill_when_a_step_of_the_end_fails_then_share_and_answers_are_back(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted({"Doomed": be_silent}, num_cpus=2, num_gpus=1) as launcher:
        lives: Any = _engine().lives
        doomed, neighbour = Doomed.options(num_gpus=0.5).remote(), Neighbour.remote()
        await doomed
        called = doomed.work.remote()
        await neighbour.work.remote()
        *path, name = step.split(".")
        for part in path:
            lives = getattr(lives, part)
        with monkeypatch.context() as patch:
            patch.setattr(lives, name, _raise)
            await asyncio.wait_for(actorlib.kill(doomed), LIMIT)
        with pytest.raises(ActorDiedError, match="was killed"):
            await called
        assert _engine().available()["GPU"] == 1
        assert launcher.workers[0].exited.done()
        await neighbour.work.remote()


async def test_kill_when_one_answer_cannot_be_given_then_the_others_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scripted({"Doomed": be_silent}, num_cpus=2):
        doomed = Doomed.remote()
        await doomed
        first, second = doomed.work.remote(), doomed.work.remote()
        monkeypatch.setattr(first, "done", _raise)
        await asyncio.wait_for(actorlib.kill(doomed), LIMIT)
        with pytest.raises(ActorDiedError):
            await second


async def test_restart_when_the_end_of_a_session_fails_then_the_actor_restarts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scripted({"Doomed": be_silent}, num_cpus=2) as launcher:
        doomed = Doomed.options(max_restarts=-1).remote()
        await doomed
        with monkeypatch.context() as patch:
            patch.setattr(_engine().lives.objects, "lost", _raise)
            called = doomed.work.remote()
            launcher.workers[0].kill()
            with pytest.raises(ActorUnavailableError):
                await called
            await asyncio.wait_for(doomed, LIMIT)
        assert len(launcher.workers) == 2


@pytest.mark.parametrize("step", ["open_session", "start_frame"])
async def test_start_when_it_fails_by_a_bug_then_the_process_is_gone_before_the_share(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted({"Doomed": be_silent}, num_cpus=2, num_gpus=1) as launcher:
        lives = _engine().lives
        released: list[bool] = []
        release = lives.release_lease

        def note(lease: Any) -> None:
            released.append(launcher.workers[0].exited.done())
            release(lease)

        monkeypatch.setattr(lives, step, _raise)
        monkeypatch.setattr(lives, "release_lease", note)
        doomed = Doomed.options(num_gpus=1).remote()
        with pytest.raises(ActorlibError):
            await asyncio.wait_for(doomed, LIMIT)
        assert released == [True]
        assert _engine().available()["GPU"] == 1
