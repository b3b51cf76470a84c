"""Retries that a method or a call asks for, whatever its actor's options say."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from helpers.actors import AsyncCaller, Caller, running

import actorlib
from actorlib._core.call_options import CallOptions
from actorlib.exceptions import ActorDiedError, ActorError, TaskError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from actorlib import ActorHandle, Runtime

LASTING: Any = {"max_restarts": -1, "restart_backoff": 0}


class Refusal(Exception):  # noqa: N818  # the name of no error
    """Of the user's own."""


class Notes:
    """Writes down in a file how often it is called, over all of its lives.

    Args:
        path: The file.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def note(self) -> int:
        """Writes down a call; gives how many there were."""
        with self._path.open("a") as file:
            file.write("x")
        return self._path.stat().st_size

    def die_until(self, last: int) -> int:
        """Dies until it was called so often."""
        count = self.note()
        if count < last:
            os.kill(os.getpid(), signal.SIGKILL)
        return count

    def fail_until(self, last: int, error: Exception) -> int:
        """Raises until it was called so often."""
        count = self.note()
        if count < last:
            raise error
        return count

    @actorlib.method(max_task_retries=2, retry_exceptions=[Refusal])
    def stubborn(self, last: int, error: Exception) -> int:
        """Says itself that it may be sent again."""
        return self.fail_until(last, error)

    @actorlib.method(max_task_retries=0)
    def once(self, last: int) -> int:
        """Says itself that it may not."""
        return self.die_until(last)


class LoopedNotes(Notes):
    """The same, with an event loop."""

    async def later(self) -> int:
        """Makes the class one with a loop."""
        return 1


KINDS = {"serial": actorlib.remote(Notes), "looped": actorlib.remote(LoopedNotes)}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
each_caller = pytest.mark.parametrize(
    "caller_class", [Caller, AsyncCaller], ids=["serial", "looped"]
)
process = pytest.mark.memory


@pytest_asyncio.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with running(log_to_driver=False, grace=0.2) as runtime:
        yield runtime


@pytest.fixture
def path(runtime: Runtime, tmp_path: Path) -> str:
    del runtime
    return str(tmp_path / "notes")


def counted(path: str) -> int:
    return Path(path).stat().st_size


@process
@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="a call that never started pays with a retry for the call that killed the "
    "process",
)
async def test_retries_when_another_call_kills_then_one_not_begun_keeps_its_own(
    path: str,
) -> None:
    notes = KINDS["serial"].options(max_task_retries=1, **LASTING).remote(path)

    died, noted = await asyncio.gather(
        notes.die_until.remote(100), notes.note.remote(), return_exceptions=True
    )

    assert isinstance(died, ActorError)
    assert isinstance(noted, int)


@process
@each_kind
async def test_a_call_says_how_often_though_the_actor_says_never(
    kind: Any, path: str
) -> None:
    notes = kind.options(**LASTING).remote(path)

    assert await notes.die_until.options(max_task_retries=2).remote(3) == 3


@process
async def test_a_method_says_never_though_the_actor_says_often(
    path: str,
) -> None:
    notes = KINDS["serial"].options(max_task_retries=5, **LASTING).remote(path)

    with pytest.raises(ActorError):
        await notes.once.remote(3)

    assert counted(path) == 1


@process
async def test_a_call_goes_before_its_method(path: str) -> None:
    notes = KINDS["serial"].options(**LASTING).remote(path)

    assert await notes.once.options(max_task_retries=1).remote(2) == 2


@process
async def test_nothing_survives_an_actor_that_is_not_restarted(
    path: str,
) -> None:
    notes = KINDS["serial"].remote(path)

    with pytest.raises(ActorDiedError):
        await notes.die_until.options(max_task_retries=2).remote(3)


@process
@each_kind
async def test_a_method_says_which_exceptions_are_retried(kind: Any, path: str) -> None:
    notes = kind.remote(path)

    assert await notes.stubborn.remote(3, Refusal()) == 3
    with pytest.raises(TaskError):
        await notes.stubborn.remote(9, KeyError())
    assert counted(path) == 4


@process
async def test_a_call_says_that_all_or_none_are(path: str) -> None:
    notes = KINDS["serial"].options(max_task_retries=3, retry_exceptions=True)
    notes = notes.remote(path)

    with pytest.raises(TaskError):
        await notes.fail_until.options(retry_exceptions=False).remote(3, Refusal())
    again = notes.fail_until.options(retry_exceptions=[Refusal])

    assert await again.remote(3, Refusal()) == 3


@process
@each_caller
async def test_a_call_of_an_actor_s_says_it_too(caller_class: Any, path: str) -> None:
    caller, notes = caller_class.remote(), KINDS["serial"].remote(path)

    assert await caller.run.remote(_fail_twice, notes) == 3
    assert await caller.call.remote(notes, "stubborn", 5, Refusal()) == 5


def _fail_twice(notes: ActorHandle[Any]) -> Any:
    options: Any = {"max_task_retries": 2, "retry_exceptions": [Refusal]}
    return actorlib.get(notes.fail_until.options(**options).remote(3, Refusal()))


@process
async def test_a_method_of_an_actor_made_by_another_keeps_its_own(
    path: str,
) -> None:
    caller = Caller.remote()

    notes = await caller.make.remote(KINDS["serial"], path)

    assert await notes.stubborn.remote(3, Refusal()) == 3


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


@pytest.mark.process
@process
async def test_classes_that_the_owner_cannot_load_harm_nobody_else(
    runtime: Runtime, tmp_path: Path
) -> None:
    del runtime
    (tmp_path / "theirs.py").write_text(THEIRS, encoding="utf-8")
    env: Any = {"working_dir": str(tmp_path)}
    caller = Caller.options(runtime_env=env).remote()

    with pytest.raises(ActorDiedError, match="theirs"):
        await caller.run.remote(_make_and_ask)
    with pytest.raises(TypeError, match="names a class that cannot be loaded"):
        await caller.run.remote(_ask_with_own, caller)

    assert await caller.run.remote(int) == 0
    assert "theirs" not in sys.modules


def _make_and_ask() -> Any:
    import theirs  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]  # noqa: PLC0415  # where it works

    return actorlib.get(theirs.Theirs.remote().plain.remote())


def _ask_with_own(_: object) -> Any:
    import theirs  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]  # noqa: PLC0415  # likewise

    options: Any = {"max_task_retries": 1, "retry_exceptions": [theirs.Own]}
    other = Caller.remote()
    return actorlib.get(other.run.options(**options).remote(int))


# The parts.


@pytest.mark.process
@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"max_task_retries": "1"}, TypeError),
        ({"max_task_retries": True}, TypeError),
        ({"max_task_retries": 1.5}, TypeError),
        ({"max_task_retries": -2}, ValueError),
        ({"retry_exceptions": 1}, TypeError),
        ({"retry_exceptions": KeyError}, TypeError),
        ({"retry_exceptions": [1]}, TypeError),
        ({"retry_exceptions": [KeyboardInterrupt]}, TypeError),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(
    given: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=next(iter(given))):
        actorlib.method(**given)


@pytest.mark.process
def test_told_when_nothing_is_said_then_nothing() -> None:
    assert CallOptions().headers == {}
    assert CallOptions(concurrency_group="io").headers == {}


@pytest.mark.process
def test_told_when_something_is_said_then_that_alone() -> None:
    assert CallOptions(timeout=2).headers == {"timeout": 2.0}
    assert CallOptions(max_task_retries=0).headers == {"retries": (0, None)}
    assert CallOptions(retry_exceptions=[KeyError]).headers == {
        "retries": (None, (KeyError,))
    }
