"""Remembers how long methods and functions take.

An answer may wait behind a method that is known to be quick, and behind no other; the
owner sends more calls ahead of a function the quicker it is.
"""

from __future__ import annotations

_QUICK = 100e-6
_FORGIVEN = 0.98


class MethodTiming:
    """Keeps the longest that each method has taken of late, in seconds.

    A method is as slow as its slowest run, but a run is forgiven after a few hundred
    quick ones: on a busy machine everything is interrupted now and then.
    """

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}

    def is_quick(self, method: str) -> bool:
        """Whether it ran before and never took long."""
        return self._longest.get(method, 1.0) <= _QUICK

    def ran(self, method: str, took: float) -> bool:
        """Takes note of a run; True if it was quick."""
        self._longest[method] = max(took, self._longest.get(method, 0.0) * _FORGIVEN)
        return took <= _QUICK


_FORGIVEN_A_FUNCTION = 0.8
_CHANGE = 2.0


class FunctionTiming:
    """Keeps how long each function has taken of late, in seconds.

    A function is as slow as its slowest run, but that is forgiven bit by bit, as what
    is sent ahead in vain can be taken back.
    """

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}
        self._reported: dict[str, float] = {}

    def ran(self, function: str, took: float) -> float | None:
        """Takes note of a run.

        Returns:
            How long the function takes, if that is news; else None.
        """
        longest = max(took, self._longest.get(function, 0.0) * _FORGIVEN_A_FUNCTION)
        self._longest[function] = longest
        reported = self._reported.get(function)
        if reported is not None and reported / _CHANGE < longest < reported * _CHANGE:
            return None
        self._reported[function] = longest
        return longest
