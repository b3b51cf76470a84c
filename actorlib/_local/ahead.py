"""How many calls of functions are sent ahead to a worker that runs one."""

from __future__ import annotations

AT_LEAST = 1
MOST = 128
LONGEST = 1e-3
"""Seconds that a function may take for another call to be sent behind one of it."""
TOGETHER = 2e-3
"""Seconds that what is on its way to one worker takes together."""
STUCK = 10e-3
"""Seconds without an answer after which what was sent ahead is taken back."""


def depth(seconds: float) -> int:
    """How many calls of a function one worker has at once.

    Args:
        seconds: How long the function takes of late.
    """
    if seconds > LONGEST:
        return AT_LEAST
    return min(MOST, max(AT_LEAST, int(TOGETHER / max(seconds, 1e-9))))
