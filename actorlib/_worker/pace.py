"""Which methods are known to be quick: the only ones an answer may wait behind.

A method is as slow as its slowest run, but a run is forgiven after a few hundred quick
ones: on a busy machine everything is interrupted now and then.
"""

from __future__ import annotations

_QUICK = 100e-6
_FORGIVEN = 0.98


class Pace:
    """The longest that each method has taken of late, in seconds."""

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}

    def is_quick(self, method: str) -> bool:
        """Whether it ran before and never took long."""
        return self._longest.get(method, 1.0) <= _QUICK

    def ran(self, method: str, took: float) -> bool:
        """Takes note of a run; True if it was quick."""
        self._longest[method] = max(took, self._longest.get(method, 0.0) * _FORGIVEN)
        return took <= _QUICK
