"""The thread that watches the loops of an actor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from actorlib._worker.executors import loop_watchdog
from actorlib._worker.executors.loop_watchdog import WatchThread
from actorlib._worker.startup import ExecutorThreads

if TYPE_CHECKING:
    import pytest

LIMIT = 20.0


def test_thread_when_the_actor_ends_in_its_last_check_then_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_watchdog, "PERIOD", 0.0)
    threads = ExecutorThreads()
    thread = WatchThread(threads, "watch")

    class Idle:
        """A loop that needs no more checks, and whose actor ends in this one."""

        is_asleep = True

        def wake(self) -> None:
            pass

        def look(self) -> None:
            thread.end()

    thread.add(cast("Any", Idle()))
    thread.wake()

    (watching,) = threads._threads
    watching.join(LIMIT)
    assert not watching.is_alive()
