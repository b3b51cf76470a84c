"""One thread that calls back at given times."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING

import pytest

from actorlib._ray.timer_thread import TimerThread

if TYPE_CHECKING:
    from collections.abc import Iterator

LATER = 1_000.0


@pytest.fixture
def timers() -> Iterator[TimerThread]:
    timers = TimerThread()
    yield timers
    timers.stop()
    assert "actorlib-timers" not in {thread.name for thread in threading.enumerate()}


def test_timers_when_their_times_come_then_it_calls_back_in_their_order(
    timers: TimerThread,
) -> None:
    rung: queue.SimpleQueue[str] = queue.SimpleQueue()
    now = time.monotonic()
    timers.add(now + LATER, lambda: rung.put("never"))
    timers.add(now + 0.02, lambda: rung.put("second"))
    timers.add(now + 0.01, lambda: rung.put("first"))

    assert [rung.get(), rung.get()] == ["first", "second"]


def test_timers_when_one_is_discarded_then_nobody_is_called(
    timers: TimerThread,
) -> None:
    rung: queue.SimpleQueue[str] = queue.SimpleQueue()
    now = time.monotonic()
    timer = timers.add(now + 0.02, lambda: rung.put("discarded"))
    timers.discard(timer)
    timers.discard(timer)
    timers.add(now + 0.03, lambda: rung.put("kept"))

    assert rung.get() == "kept"


def test_timers_when_most_is_discarded_then_little_is_kept(timers: TimerThread) -> None:
    when = time.monotonic() + LATER
    for _ in range(1_000):
        timers.discard(timers.add(when, threading.Event().set))

    assert len(timers) < 100


def test_timers_when_a_callback_fails_then_the_others_are_called(
    timers: TimerThread, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise LookupError("lost")

    rung: queue.SimpleQueue[str] = queue.SimpleQueue()
    now = time.monotonic()
    timers.add(now, fail)
    timers.add(now + 0.01, lambda: rung.put("next"))

    assert rung.get() == "next"
    assert "LookupError: lost" in caplog.text
