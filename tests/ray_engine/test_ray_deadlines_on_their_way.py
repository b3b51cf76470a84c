"""Deadlines on their way between machines, whose clocks may not agree."""

from __future__ import annotations

from typing import Any

import pytest

from actorlib._ray.deadlines import from_clock_time, to_clock_time

HEADERS: dict[str, Any] = {"name": "nightly", "deadline": (105.0, 10.0, "Desk.answer")}


@pytest.mark.parametrize(
    ("clock", "when"),
    [
        pytest.param(2_003.0, 52.0, id="three seconds on the way count"),
        pytest.param(1_990.0, 55.0, id="a clock that is slow gives no time"),
        pytest.param(2_008.0, 47.0, id="over before it came"),
    ],
)
def test_deadline_when_it_arrives_then_it_is_a_time_there(
    clock: float, when: float
) -> None:
    sent = to_clock_time(HEADERS, now=100.0, clock=2_000.0)

    came = from_clock_time(sent, now=50.0, clock=clock)

    assert came == {"name": "nightly", "deadline": (when, 10.0, "Desk.answer")}


def test_call_when_it_has_no_deadline_then_its_headers_stay_as_they_are() -> None:
    headers = {"name": "nightly"}

    assert to_clock_time(headers, now=1.0, clock=2.0) is headers
    assert from_clock_time(headers, now=1.0, clock=2.0) is headers
