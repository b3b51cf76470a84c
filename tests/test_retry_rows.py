"""Calls that are made again: after a death, or after what the method raised."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import AsyncCaller, Caller, Stop, Target, end_of, gone, living
from helpers.calls import raised

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorError,
    ActorUnavailableError,
    TaskCancelledError,
    TaskError,
)

if TYPE_CHECKING:
    from actorlib import ActorHandle, Runtime
    from actorlib._api.decorators import ActorClass
    from actorlib._core.runtime_options import RuntimeKeywords

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches pidfds"),
]

RETRIED: Any = {"max_restarts": -1, "restart_backoff": 0, "max_task_retries": 3}


class Refusal(Exception):  # noqa: N818  # the name of no error
    """Of the user's own."""


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

    def length(self, value: Any, word: str, last: int) -> int:
        """Dies until it was called so often; gives a length."""
        self.die_until(word, last)
        return len(value)

    def ask(self, handle: ActorHandle[Any], word: str, last: int) -> int:
        """Dies until it was called so often; asks another actor."""
        self.die_until(word, last)
        return actorlib.get(handle.ping.remote())

    def pid(self) -> int:
        return os.getpid()


class LoopedNotes(Notes):
    """The same, with an event loop."""

    async def die_until_later(self, word: str, last: int) -> int:
        return self.die_until(word, last)

    async def fail_until_later(self, word: str, last: int, error: Exception) -> int:
        return self.fail_until(word, last, error)


Plain = actorlib.remote(Notes)
WithLoop = actorlib.remote(LoopedNotes)


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"preload": [__name__], "log_to_driver": False, "grace": 0.2}


@pytest.fixture
def path(runtime: Runtime, tmp_path: Path) -> str:
    del runtime
    return str(tmp_path / "notes")


def noted(path: str) -> list[str]:
    return Path(path).read_text().split()


# After a death.


async def test_by_default_a_call_is_never_made_twice(path: str) -> None:
    actor = Plain.options(max_restarts=1).remote(path)

    assert isinstance(await raised(actor.die_until.remote("a", 5)), ActorError)

    await actor
    assert await actor.note.remote("b") == 1
    assert noted(path) == ["a", "b"]


async def test_nor_with_retries_if_no_restart_follows(path: str) -> None:
    actor = Plain.options(max_task_retries=5).remote(path)

    assert isinstance(await raised(actor.die_until.remote("a", 5)), ActorDiedError)
    assert noted(path) == ["a"]


@pytest.mark.parametrize("name", ["die_until", "die_until_later"])
async def test_a_call_with_retries_is_made_again_until_it_returns(
    path: str, name: str
) -> None:
    actor = WithLoop.options(**RETRIED).remote(path)

    assert await getattr(actor, name).remote("a", 4) == 4


async def test_a_call_is_lost_when_its_retries_are_used_up(path: str) -> None:
    actor = Plain.options(**RETRIED).remote(path)

    error = await raised(actor.die_until.remote("a", 9))

    assert isinstance(error, ActorUnavailableError)
    assert noted(path) == ["a"] * 4
    assert await (await actor).note.remote("b") == 1


async def test_retries_end_with_the_actor(path: str) -> None:
    actor = Plain.options(**{**RETRIED, "max_restarts": 2}).remote(path)
    behind = [actor.die_until.remote("a", 9), actor.note.remote("b")]

    assert isinstance(await raised(behind[0]), ActorDiedError)
    assert isinstance(await raised(behind[1]), ActorDiedError)
    assert noted(path) == ["a"] * 3


async def test_minus_one_retries_for_ever(path: str) -> None:
    actor = Plain.options(**{**RETRIED, "max_task_retries": -1}).remote(path)

    assert await actor.die_until.remote("a", 9) == 9


async def test_calls_made_again_keep_their_order_before_newer_ones(
    path: str,
) -> None:
    actor = Plain.options(**RETRIED).remote(path)
    first = [actor.die_until.remote("a", 2), *map(actor.note.remote, "bcd")]
    await asyncio.gather(*first)
    await asyncio.gather(*map(actor.note.remote, "ef"))

    assert noted(path) == ["a", "a", "b", "c", "d", "e", "f"]


async def test_what_was_finished_is_not_made_again(path: str) -> None:
    actor = Plain.options(**RETRIED).remote(path)
    await asyncio.gather(*map(actor.note.remote, "abc"))

    await actor.die_until.remote("d", 2)

    assert noted(path) == ["a", "b", "c", "d", "d"]


async def test_a_call_made_while_it_restarts(path: str) -> None:
    actor = Plain.options(max_restarts=-1, restart_backoff=0.01).remote(path)
    for _ in range(2):
        await actor
        await actorlib.kill(actor, no_restart=False)
    refused = actor.note.remote("lost")

    error = await raised(refused)

    assert isinstance(error, ActorUnavailableError)
    assert "is restarting, attempt 2" in str(error)
    await actor
    assert await actor.note.remote("a") == 1
    assert noted(path) == ["a"]


async def test_costs_one_retry_and_is_delivered_afterwards(
    path: str,
) -> None:
    options: Any = {**RETRIED, "max_task_retries": 1, "restart_backoff": 0.01}
    actor = Plain.options(**options).remote(path)
    for _ in range(2):
        await actor
        await actorlib.kill(actor, no_restart=False)

    kept, dies = actor.note.remote("a"), actor.die_until.remote("b", 2)

    assert await kept == 1
    assert isinstance(await raised(dies), ActorUnavailableError)
    assert noted(path) == ["a", "b"]


async def test_a_call_cancelled_while_it_runs_is_not_made_again(
    path: str,
) -> None:
    actor = Plain.options(**RETRIED).remote(path)
    with Stop() as stop:
        cancelled = actor.stop.remote("a", stop.place)
        waiting = actor.note.remote("b")
        await stop.reached()
        actorlib.cancel(cancelled)

        await actorlib.kill(actor, no_restart=False)

        assert await waiting == 1
    assert isinstance(await raised(cancelled), TaskCancelledError)
    assert noted(path) == ["a", "b"]


async def test_a_call_cancelled_while_it_restarts_is_not_made_again(
    path: str,
) -> None:
    actor = Plain.options(**{**RETRIED, "restart_backoff": 0.05}).remote(path)
    for _ in range(2):
        await actor
        await actorlib.kill(actor, no_restart=False)
    cancelled, kept = actor.note.remote("a"), actor.note.remote("b")

    actorlib.cancel(cancelled)

    assert await kept == 1
    assert noted(path) == ["b"]


async def test_a_wait_that_is_given_up_while_it_restarts_cancels_the_call(
    path: str,
) -> None:
    actor = Plain.options(**{**RETRIED, "restart_backoff": 0.05}).remote(path)
    for _ in range(2):
        await actor
        await actorlib.kill(actor, no_restart=False)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await actor.note.remote("a")

    assert await actor.note.remote("b") == 1
    assert noted(path) == ["b"]


async def test_arguments_are_as_they_were_when_the_call_was_made(path: str) -> None:
    actor = Plain.options(**RETRIED).remote(path)
    value = bytearray(b"x" * 300_000)

    length = actor.length.remote(value, "a", 3)
    value.clear()

    assert await length == 300_000


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


async def test_a_call_that_waits_for_its_arguments_outlives_a_restart(
    path: str,
) -> None:
    actor = Plain.options(max_restarts=1).remote(path)
    other = Plain.remote(path)
    with Stop() as stop:
        argument = other.stop.remote("a", stop.place)
        waiting = actor.note.remote(argument)
        await stop.reached()
        await actor
        await actorlib.kill(actor, no_restart=False)
        await actor
        stop.release()

        assert await waiting == 1


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


@pytest.mark.parametrize("caller", [Caller, AsyncCaller], ids=repr)
async def test_calls_of_other_actors_are_made_again_too(
    path: str, caller: ActorClass[..., Any]
) -> None:
    asking = caller.remote()
    actor = Plain.options(**RETRIED).remote(path)
    made = await asking.make.remote(Plain.options(**RETRIED), path)

    assert await asking.call.remote(actor, "die_until", "a", 3) == 3
    assert await asking.call.remote(made, "die_until", "b", 3) == 3
    assert await made.die_until.remote("c", 3) == 3


# After what a method raised.


async def test_exceptions_are_not_retried_unless_it_is_said(
    path: str,
) -> None:
    actor = Plain.options(**RETRIED).remote(path)

    assert isinstance(
        await raised(actor.fail_until.remote("a", 5, KeyError(1))), KeyError
    )
    assert noted(path) == ["a"]


async def test_nor_without_retries(path: str) -> None:
    actor = Plain.options(retry_exceptions=True).remote(path)

    assert isinstance(
        await raised(actor.fail_until.remote("a", 5, KeyError(1))), KeyError
    )
    assert noted(path) == ["a"]


@pytest.mark.parametrize("name", ["fail_until", "fail_until_later"])
@pytest.mark.parametrize(
    "listed", [True, [Refusal], (LookupError, Refusal)], ids=["True", "one", "two"]
)
async def test_what_is_listed_is_retried(path: str, name: str, listed: Any) -> None:
    options: Any = {"max_task_retries": 3, "retry_exceptions": listed}
    actor = WithLoop.options(**options).remote(path)

    assert await getattr(actor, name).remote("a", 4, Refusal("no")) == 4


async def test_what_is_not_listed_is_raised(path: str) -> None:
    options: Any = {"max_task_retries": 3, "retry_exceptions": [LookupError]}
    actor = Plain.options(**options).remote(path)

    error = await raised(actor.fail_until.remote("a", 4, Refusal("no")))

    assert isinstance(error, Refusal)
    assert isinstance(error, TaskError)
    assert noted(path) == ["a"]
    assert await actor.fail_until.remote("b", 3, KeyError()) == 3


async def test_a_class_of_a_function_is_known_again(path: str) -> None:
    class Own(Exception):  # noqa: N818  # the name of no error
        pass

    options: Any = {"max_task_retries": 3, "retry_exceptions": [Own]}
    actor = Plain.options(**options).remote(path)
    maker = Caller.remote()
    made = await maker.make.remote(Plain.options(**options), path)

    assert await actor.fail_until.remote("a", 3, Own()) == 3
    assert await made.fail_until.remote("b", 3, Own()) == 3


async def test_when_retries_are_used_up_the_exception_is_raised(path: str) -> None:
    options: Any = {"max_task_retries": 2, "retry_exceptions": True}
    actor = Plain.options(**options).remote(path)

    error = await raised(actor.fail_until.remote("a", 9, KeyError("last")))

    assert isinstance(error, KeyError)
    assert error.args == ("last",)
    assert noted(path) == ["a"] * 3


async def test_deaths_and_exceptions_use_the_same_retries(path: str) -> None:
    options: Any = {**RETRIED, "max_task_retries": 2, "retry_exceptions": True}
    actor = Plain.options(**options).remote(path)
    assert await actor.fail_until.remote("a", 3, KeyError()) == 3
    assert await actor.die_until.remote("b", 3) == 3

    with Stop() as stop:
        failing = actor.fail_until.remote("c", 3, KeyError())
        blocked = actor.stop.remote("d", stop.place)
        await stop.reached()  # the call before it has failed, and will go again
        await actorlib.kill(actor, no_restart=False)
        await stop.reached()
        stop.release()
        stop.release()
        assert await blocked == 2
    assert isinstance(await raised(failing), KeyError)
    assert noted(path).count("c") == 2


async def test_a_call_cancelled_before_it_is_made_again_never_runs(
    path: str,
) -> None:
    options: Any = {"max_task_retries": -1, "retry_exceptions": True}
    actor = Plain.options(**options).remote(path)
    with Stop() as stop:
        first = actor.stop.remote("stop", stop.place)
        await stop.reached()
        failing = actor.fail_until.remote("a", 99, KeyError())
        second = actor.stop.remote("stop", stop.place)
        later = [actor.note.remote(f"b{n}") for n in range(3)]
        stop.release()
        await stop.reached()  # it has failed, and waits behind the others
        await first

        actorlib.cancel(failing)
        stop.release()
        await asyncio.gather(second, *later)
        assert await actor.note.remote("c") == 1

    assert noted(path).count("a") == 1
    assert isinstance(await raised(failing), TaskCancelledError)


async def test_a_retry_waits_behind_what_was_sent_meanwhile(path: str) -> None:
    options: Any = {"max_task_retries": 3, "retry_exceptions": True}
    actor = Plain.options(**options).remote(path)
    await asyncio.gather(
        actor.fail_until.remote("a", 2, KeyError()), *map(actor.note.remote, "bc")
    )

    assert sorted(noted(path)) == ["a", "a", "b", "c"]
    assert noted(path)[0] == "a"


@pytest.mark.parametrize("caller", [Caller, AsyncCaller], ids=repr)
async def test_exceptions_are_retried_for_other_actors_too(
    path: str, caller: ActorClass[..., Any]
) -> None:
    options: Any = {"max_task_retries": 3, "retry_exceptions": [Refusal]}
    actor = Plain.options(**options).remote(path)
    asking = caller.remote()
    refusal = Refusal("no")

    answer = asking.call.remote(actor, "fail_until", "a", 3, refusal)
    assert await answer == 3
    failing = asking.call.remote(actor, "fail_until", "b", 9, refusal)
    assert isinstance(await raised(failing), Refusal)
    other = asking.call.remote(actor, "fail_until", "c", 9, KeyError())
    assert isinstance(await raised(other), KeyError)
    assert noted(path) == ["a"] * 3 + ["b"] * 4 + ["c"]


def make_with_own_module(folder: str, path: str) -> ActorHandle[Any]:
    """In a worker, of a class of exceptions that only that worker can import."""
    Path(folder, "only_here_now.py").write_text("class Own(Exception): ...\n")
    sys.path.insert(0, folder)
    import only_here_now  # noqa: PLC0415  # type: ignore[import-not-found]

    options: Any = {"max_task_retries": 3, "retry_exceptions": [only_here_now.Own]}
    return Plain.options(**options).remote(path)


@pytest.mark.process
async def test_a_class_that_the_owner_cannot_load_is_told_and_hurts_nobody_else(
    path: str, tmp_path: Path
) -> None:
    caller = Caller.remote()
    made = await caller.run.remote(make_with_own_module, str(tmp_path), path)

    error = await raised(made.note.remote("a"))

    assert isinstance(error, ActorDiedError)
    assert "only_here_now" in str(error)
    assert await caller.run.remote(len, "unharmed") == 8
