from __future__ import annotations

import pytest

from actorlib._owner.task import MAX_DEPTH, MIN_DEPTH, prefetch_depth


@pytest.mark.parametrize(
    ("seconds", "calls"),
    [
        (0.0, MAX_DEPTH),
        (1e-6, MAX_DEPTH),
        (100e-6, 20),
        (1e-3, 2),
        (1.1e-3, MIN_DEPTH),
        (9.0, 1),
    ],
)
def test_prefetch_depth_when_asked_then_what_takes_two_milliseconds_together(
    seconds: float, calls: int
) -> None:
    assert prefetch_depth(seconds) == calls
