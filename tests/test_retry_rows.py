"""Retried calls: while an actor restarts, and the handles that they hold.

What holds for all engines is in ``contract/test_retried_calls.py``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller, Stop, Target, end_of, gone, living
from helpers.calls import raised
from helpers.marks import USES_RUNTIME, in_memory

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorError,
    ActorUnavailableError,
)

if TYPE_CHECKING:
    from actorlib import ActorHandle, Runtime

pytestmark = [
    *in_memory(preload=[__name__], log_to_driver=False, grace=0.2),
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches pidfds"),
]

RETRIED: Any = {"max_restarts": -1, "restart_backoff": 0, "max_task_retries": 3}


class Notes:
    """Writes down in a file what is called, over all of its lives.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def note(self, word: object) -> int:
        """Writes a word down; gives how often it is there."""
        with self._path.open("a") as file:
            file.write(f"{word}\n")
        return self._path.read_text().split().count(str(word))

    def die_until(self, word: str, last: int) -> int:
        """Dies until it was called so often."""
        count = self.note(word)
        if count < last:
            os.kill(os.getpid(), signal.SIGKILL)
        return count

    def fail_until(self, word: str, last: int, error: Exception) -> int:
        """Raises until it was called so often."""
        count = self.note(word)
        if count < last:
            raise error
        return count

    def stop(self, word: str, place: Any) -> int:
        """Writes a word down and stops."""
        count = self.note(word)
        place.stop_here()
        return count

    def ask(self, handle: ActorHandle[Any], word: str, last: int) -> int:
        """Dies until it was called so often; asks another actor."""
        self.die_until(word, last)
        return actorlib.get(handle.ping.remote())


Plain = actorlib.remote(Notes)


@pytest.fixture
def path(runtime: Runtime, tmp_path: Path) -> str:
    del runtime
    return str(tmp_path / "notes")


def noted(path: str) -> list[str]:
    return Path(path).read_text().split()


async def restarting(path: str, **options: Any) -> ActorHandle[Any]:
    """An actor that waits for its next restart."""
    actor = Plain.options(**options).remote(path)
    for _ in range(2):
        await actor
        await actorlib.kill(actor, no_restart=False)
    return actor


# After a death.


async def test_a_call_made_while_it_restarts(path: str) -> None:
    actor = await restarting(path, max_restarts=-1, restart_backoff=0.01)
    refused = actor.note.remote("lost")

    error = await raised(refused)

    assert isinstance(error, ActorUnavailableError)
    assert "is restarting, attempt 2" in str(error)
    await actor
    assert await actor.note.remote("a") == 1
    assert noted(path) == ["a"]


async def test_call_when_made_while_the_actor_restarts_then_it_costs_no_retry(
    path: str,
) -> None:
    options: Any = {**RETRIED, "max_task_retries": 1, "restart_backoff": 0.01}
    actor = await restarting(path, **options)

    kept, dies = actor.note.remote("a"), actor.die_until.remote("b", 2)

    assert await kept == 1
    assert await dies == 2
    assert noted(path) == ["a", "b", "b"]


async def test_a_call_cancelled_while_it_restarts_is_not_made_again(
    path: str,
) -> None:
    actor = await restarting(path, **{**RETRIED, "restart_backoff": 0.05})
    cancelled, kept = actor.note.remote("a"), actor.note.remote("b")

    actorlib.cancel(cancelled)

    assert await kept == 1
    assert noted(path) == ["b"]


async def test_a_wait_that_is_given_up_while_it_restarts_cancels_the_call(
    path: str,
) -> None:
    actor = await restarting(path, **{**RETRIED, "restart_backoff": 0.05})

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await actor.note.remote("a")

    assert await actor.note.remote("b") == 1
    assert noted(path) == ["b"]


async def test_handles_among_the_arguments_are_held_until_the_answer(
    path: str,
) -> None:
    actor = Plain.options(**RETRIED).remote(path)
    target = Target.remote()
    end = end_of(target)
    asked = actor.ask.remote(target, "a", 3)
    del target

    pid = await asked

    await end
    await gone(pid)


@pytest.mark.parametrize("how", ["lost", "cancelled", "dead"])
async def test_handles_among_the_arguments_are_let_go_when_there_is_no_answer(
    runtime: Runtime, path: str, how: str
) -> None:
    restarts = 1 if how == "dead" else -1
    actor = Plain.options(**{**RETRIED, "max_restarts": restarts}).remote(path)
    target = Target.remote()
    await target
    end = end_of(target)
    asked = actor.ask.remote(target, "a", 99)
    del target
    if how == "cancelled":
        actorlib.cancel(asked)
        await raised(asked)
    else:
        assert isinstance(await raised(asked), ActorError)

    await end
    assert len(living(runtime)) == (how != "dead")


async def test_the_last_handle_gone_a_call_with_retries_still_gets_its_answer(
    runtime: Runtime, path: str
) -> None:
    actor = Plain.options(**RETRIED).remote(path)
    end = end_of(actor)
    answer = actor.die_until.remote("a", 3)
    del actor

    assert await answer == 3

    await end
    assert living(runtime) == []


async def test_the_end_of_its_block_waits_for_calls_with_retries(path: str) -> None:
    async with Plain.options(**RETRIED).remote(path) as actor:
        answer = actor.die_until.remote("a", 3)

    assert await answer == 3


# After what a method raised.


async def test_call_when_it_waits_to_go_again_then_a_death_costs_it_no_retry(
    path: str,
) -> None:
    options: Any = {**RETRIED, "max_task_retries": 2, "retry_exceptions": True}
    actor = Plain.options(**options).remote(path)
    with Stop() as stop:
        failing = actor.fail_until.remote("a", 3, KeyError())
        blocked = actor.stop.remote("b", stop.place)
        await stop.reached()  # the call before it has failed, and will go again
        await actorlib.kill(actor, no_restart=False)
        await stop.reached()
        stop.release()
        stop.release()
        assert await blocked == 2
    assert await failing == 3


THEIRS = '''
import actorlib


class Own(Exception):
    """The owner cannot import it."""


@actorlib.remote
class Theirs:
    """An actor whose method retries what the owner cannot load."""

    @actorlib.method(max_task_retries=1, retry_exceptions=[Own])
    def ping(self):
        """Answers."""
        return "pong"

    def plain(self):
        """Answers without retries."""
        return "pong"
'''


@USES_RUNTIME
@pytest.mark.process
async def test_classes_that_the_owner_cannot_load_harm_nobody_else(
    tmp_path: Path,
) -> None:
    (tmp_path / "theirs.py").write_text(THEIRS, encoding="utf-8")
    env: Any = {"working_dir": str(tmp_path)}
    caller = Caller.options(runtime_env=env).remote()

    for make in (_make_and_ask, _make_with_own):
        with pytest.raises(ActorDiedError, match="theirs"):
            await caller.run.remote(make)
    with pytest.raises(TypeError, match="names a class that cannot be loaded"):
        await caller.run.remote(_ask_with_own, caller)

    assert await caller.run.remote(int) == 0
    assert "theirs" not in sys.modules


def _make_and_ask() -> Any:
    import theirs  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]  # noqa: PLC0415  # where it works

    return actorlib.get(theirs.Theirs.remote().plain.remote())


def _make_with_own() -> Any:
    import theirs  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]  # noqa: PLC0415  # where it works

    options: Any = {"max_task_retries": 3, "retry_exceptions": [theirs.Own]}
    return actorlib.get(Caller.options(**options).remote().run.remote(int))


def _ask_with_own(_: object) -> Any:
    import theirs  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]  # noqa: PLC0415  # likewise

    options: Any = {"max_task_retries": 1, "retry_exceptions": [theirs.Own]}
    other = Caller.remote()
    return actorlib.get(other.run.options(**options).remote(int))
