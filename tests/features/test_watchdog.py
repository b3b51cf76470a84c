"""When a worker has more of a device than it was granted, by timelines of looks."""

from __future__ import annotations

import pytest
from helpers.occupants import GIB, half

from actorlib._enforcement.tiers import CONTEXT_MARGIN
from actorlib._features.watchdog.judgement import (
    Overuse,
    Watched,
    judge,
    limit_of,
)
from actorlib._options.kinds import UNITS

GRANTED = 40 * GIB
LIMIT = GRANTED + CONTEXT_MARGIN
OVER = LIMIT + 1


def told(*looks: int | None) -> list[tuple[int, Overuse]]:
    """At which looks somebody is told, and of what."""
    found: list[tuple[int, Overuse]] = []
    watched = Watched()
    for place, used in enumerate(looks):
        watched, overuse = judge(watched, half(), used, float(place))
        if overuse is not None:
            found.append((place, overuse))
    return found


@pytest.mark.parametrize(
    "looks",
    [
        (0, GRANTED, LIMIT, LIMIT, LIMIT),
        (OVER, 0, OVER, 0, OVER),
        (OVER, None, OVER, None),
        (None, None, None),
    ],
    ids=["within", "once at a time", "unknown between", "unknown"],
)
def test_judge_when_it_is_not_over_twice_in_a_row_then_nobody_is_told(
    looks: tuple[int | None, ...],
) -> None:
    assert told(*looks) == []


def test_judge_when_it_is_over_twice_in_a_row_then_told_once_with_figures() -> None:
    [(place, overuse)] = told(GIB, OVER, 50 * GIB, 60 * GIB, 0, OVER, OVER)

    assert place == 2
    assert (overuse.device, overuse.asked) == ("GPU 0", 0.5)
    assert (overuse.granted, overuse.used) == (GRANTED, 50 * GIB)
    assert overuse.moments == ((2.0, 50 * GIB), (1.0, OVER), (0.0, GIB))
    assert str(overuse) == (
        "it has 50 GiB of GPU 0, and 0.5 of that, which is 40 GiB, was granted "
        "(its most: 50 GiB, 40.5 GiB, 1 GiB)"
    )


def test_limit_when_the_whole_device_is_held_then_there_is_none() -> None:
    assert limit_of(half(units=UNITS)) is None
    assert limit_of(half()) == LIMIT
