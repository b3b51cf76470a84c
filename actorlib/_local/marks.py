"""Roughly when each of a row of numbers was given, told from a few marks.

A clock read for each call would cost all of them what few ever ask for. So a mark is
set where a turn of the loop gives its first number, unless the last one is close.
"""

from __future__ import annotations

from bisect import bisect_right

_CLOSE = 0.05
_FEW = 32
_MOST = 256


class Marks:
    """Says when numbers were given that go up by one; see above."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._times: list[float] = []
        self._close = _CLOSE

    def __len__(self) -> int:
        """How many marks are kept."""
        return len(self._firsts)

    def mark(self, first: int, now: float, oldest: int) -> float:
        """A number is given now, and all lower ones were given before.

        Args:
            first: The number.
            now: The time, in seconds.
            oldest: The least number that is asked for from now on.

        Returns:
            When the next mark is due: none has to be set before.
        """
        over = bisect_right(self._firsts, oldest) - 1
        if over > 0:
            del self._firsts[:over], self._times[:over]
        self._firsts.append(first)
        self._times.append(now)
        if len(self._firsts) > _MOST:
            # Something is very old, and so its age may be coarser. The last mark stays.
            self._firsts, self._times = self._firsts[::2], self._times[::2]
            self._close = (now - self._times[0]) / (_MOST // 2)
        elif len(self._firsts) < _FEW:
            self._close = _CLOSE
        return now + self._close

    def when(self, number: int) -> float | None:
        """When a number was given, at most a twentieth of a second too early.

        Coarser if others have been given for long. None if nothing was marked yet.
        """
        place = bisect_right(self._firsts, number) - 1
        return self._times[place] if place >= 0 else None
