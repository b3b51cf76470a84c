"""One thread that calls back at given moments."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING

import pytest

from actorlib._ray.deadlines import Alarm

if TYPE_CHECKING:
    from collections.abc import Iterator

LATER = 1_000.0


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    alarm = Alarm()
    yield alarm
    alarm.stop()
    assert "actorlib-alarm" not in {thread.name for thread in threading.enumerate()}


def test_alarm_when_moments_come_then_it_calls_back_in_their_order(
    alarm: Alarm,
) -> None:
    rung: queue.SimpleQueue[str] = queue.SimpleQueue()
    now = time.monotonic()
    alarm.add(now + LATER, lambda: rung.put("never"))
    alarm.add(now + 0.02, lambda: rung.put("second"))
    alarm.add(now + 0.01, lambda: rung.put("first"))

    assert [rung.get(), rung.get()] == ["first", "second"]


def test_alarm_when_a_moment_is_discarded_then_nobody_is_called(alarm: Alarm) -> None:
    rung: queue.SimpleQueue[str] = queue.SimpleQueue()
    now = time.monotonic()
    ring = alarm.add(now + 0.02, lambda: rung.put("discarded"))
    alarm.discard(ring)
    alarm.discard(ring)
    alarm.add(now + 0.03, lambda: rung.put("kept"))

    assert rung.get() == "kept"


def test_alarm_when_most_is_discarded_then_little_is_kept(alarm: Alarm) -> None:
    when = time.monotonic() + LATER
    for _ in range(1_000):
        alarm.discard(alarm.add(when, threading.Event().set))

    assert len(alarm) < 100


def test_alarm_when_a_callback_fails_then_the_others_are_called(
    alarm: Alarm, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise LookupError("lost")

    rung: queue.SimpleQueue[str] = queue.SimpleQueue()
    now = time.monotonic()
    alarm.add(now, fail)
    alarm.add(now + 0.01, lambda: rung.put("next"))

    assert rung.get() == "next"
    assert "LookupError: lost" in caplog.text
