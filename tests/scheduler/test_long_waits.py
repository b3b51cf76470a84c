from __future__ import annotations

import asyncio
import builtins
import logging
from typing import TYPE_CHECKING, Any, cast

import pytest

from actorlib._scheduler.device_pool import LISTED
from actorlib._scheduler.long_waits import GATHERED, LONG, LongWaits, shell_hint

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib.accelerators.base import Lease


class Timer:
    """A timer that was set."""

    def __init__(self, when: float, call: Callable[[], None]) -> None:
        self.when = when
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Timers:
    """A loop of which only the timers are asked for; it is as late as it is told."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(when, call))
        return self.timers[-1]

    @property
    def due(self) -> list[float]:
        return [timer.when - 100 for timer in self.timers if not timer.is_cancelled]

    def passes(self, seconds: float) -> None:
        end = self.now + seconds
        while soon := [t for t in self.timers if t.when <= end and not t.is_cancelled]:
            first = min(soon, key=lambda timer: timer.when)
            self.timers.remove(first)
            self.now = max(self.now, first.when)
            first.call()
        self.now = end


class Waits:
    """What is said of promises that tests make."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.WARNING, "actorlib")
        self.loop = Timers()
        self.long = LongWaits(cast("Any", self.loop))
        self._caplog = caplog

    def add(
        self,
        kind: str,
        why: str | None = "A requests GPU=1",
        name: str = "A",
        *,
        is_one_of_many: bool = False,
    ) -> asyncio.Future[Lease]:
        promise: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
        self.long.add(promise, kind, lambda: why, name, is_one_of_many=is_one_of_many)
        return promise

    @property
    def said(self) -> list[str]:
        return [record.getMessage() for record in self._caplog.records]


@pytest.fixture
async def waits(caplog: pytest.LogCaptureFixture) -> Waits:
    return Waits(caplog)


async def test_wait_when_two_ask_the_same_then_one_line_names_both(
    waits: Waits,
) -> None:
    for name in "AB":
        waits.add("a", name=name)

    waits.loop.passes(100)

    assert waits.said == [
        "A requests GPU=1. They ask for the same, and have waited for 5 s: A, B; "
        "runtime.explain() and runtime.snapshot() say more"
    ]


async def test_wait_when_it_is_long_then_it_is_told_of_once(waits: Waits) -> None:
    waits.add("a")

    waits.loop.passes(LONG - 0.1)
    assert waits.said == []
    waits.loop.passes(100)

    assert waits.said == [
        "A requests GPU=1. It has waited for 5 s; runtime.explain() and "
        "runtime.snapshot() say more"
    ]
    assert waits.loop.due == []


async def test_wait_when_it_is_for_what_can_never_be_then_its_sentence_ends_once(
    waits: Waits,
) -> None:
    waits.add("a", "A requests GPU=2; this machine has GPU=1. Lower num_gpus.")

    waits.loop.passes(2 * LONG)

    assert "Lower num_gpus. It has waited" in waits.said[0]


async def test_wait_when_it_is_over_before_then_nothing_is_said(waits: Waits) -> None:
    for promise in (waits.add("a"), waits.add("b")):
        promise.cancel()

    waits.loop.passes(2 * LONG)

    assert waits.said == []
    assert waits.loop.due == []


async def test_wait_when_many_are_due_then_they_are_one_record(waits: Waits) -> None:
    for number in range(1000):
        waits.add("a", name=f"A {number}")
    waits.add("b", "B requests CPU=1", "B 'b1'")
    waits.loop.passes(GATHERED)  # created one after the other
    waits.add("a", name="A 'a1'")
    assert len(waits.loop.due) == 1  # one timer for all

    waits.loop.passes(LONG + GATHERED)

    named = ", ".join(f"A {number}" for number in range(LISTED))
    assert [said.partition(";")[0].splitlines() for said in waits.said] == [
        [
            "A requests GPU=1. They ask for the same, and have waited for 5 s: "
            f"{named} and {1001 - LISTED} more",
            "B requests CPU=1. It has waited for 5 s: B 'b1'",
        ]
    ]


async def test_wait_when_many_ask_for_different_things_then_the_record_is_short(
    waits: Waits,
) -> None:
    for number in range(1000):
        waits.add(f"a{number}", f"A requests GPU={number}", f"A {number}")

    waits.loop.passes(2 * LONG)

    [lines] = [said.splitlines() for said in waits.said]
    assert lines[LISTED - 1].startswith(
        f"A requests GPU={LISTED - 1}. It has waited for"
    )
    named = ", ".join(f"A {number}" for number in range(LISTED, 2 * LISTED))
    assert lines[LISTED:] == [
        f"These have waited as long: {named} and {1000 - 2 * LISTED} more; "
        "runtime.explain() and runtime.snapshot() say more"
    ]


async def test_wait_when_others_come_later_then_each_is_told_of(waits: Waits) -> None:
    for name in ("A 'a1'", "A 'a2'"):
        waits.add("a", f"{name} requests GPU=1", name)
        waits.loop.passes(2 * LONG)

    assert [said.partition(";")[0] for said in waits.said] == [
        "A 'a1' requests GPU=1. It has waited for 5 s",
        "A 'a2' requests GPU=1. It has waited for 5 s",
    ]


async def test_wait_when_it_is_one_of_many_then_nothing_more_is_said_meanwhile(
    waits: Waits,
) -> None:
    first = waits.add("f", is_one_of_many=True)
    waits.add("f", is_one_of_many=True)
    waits.loop.passes(2 * LONG)
    waits.add("f", is_one_of_many=True)
    waits.loop.passes(2 * LONG)
    assert [said.partition(";")[0] for said in waits.said] == [
        "A requests GPU=1. It has waited for 5 s"
    ]

    first.cancel()
    waits.add("f", is_one_of_many=True)
    waits.loop.passes(2 * LONG)

    assert len(waits.said) == 2


async def test_wait_when_it_is_nothing_to_speak_of_then_nothing_is_said(
    waits: Waits,
) -> None:
    waits.add("a", None)
    waits.loop.passes(2 * LONG)
    waits.add("a")
    waits.loop.passes(2 * LONG)

    assert len(waits.said) == 1


async def test_close_when_some_wait_then_no_timer_is_left(waits: Waits) -> None:
    waits.add("a")

    waits.long.close()

    assert waits.loop.due == []


def test_hint_when_code_is_typed_in_then_it_says_what_keeps_handles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not shell_hint()

    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)

    assert "Out[2]" in shell_hint()
