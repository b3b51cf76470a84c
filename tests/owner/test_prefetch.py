from __future__ import annotations

import pytest

from actorlib._owner.task import AT_LEAST, MOST, prefetch_depth


@pytest.mark.parametrize(
    ("seconds", "calls"),
    [(0.0, MOST), (1e-6, MOST), (100e-6, 20), (1e-3, 2), (1.1e-3, AT_LEAST), (9.0, 1)],
)
def test_prefetch_depth_when_asked_then_what_takes_two_milliseconds_together(
    seconds: float, calls: int
) -> None:
    assert prefetch_depth(seconds) == calls
