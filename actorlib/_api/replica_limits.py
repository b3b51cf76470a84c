"""Estimates when a refused call may be made again, from the calls that have ended.

A sample is taken at most four times a second, when a call is made. So it costs a call
one comparison, and no call is watched.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

WINDOW = 10.0
"""Seconds of the past that an estimate is based on."""
_PAUSE = 0.25
_DEFAULT = 1.0
_SHORTEST, _LONGEST = 0.01, 300.0


class _Sample(NamedTuple):
    time: float
    ended: int


class CallRate:
    """Measures how many calls have ended per second, recently.

    Attributes:
        due: The time from which another sample is needed.
    """

    def __init__(self) -> None:
        self.due = float("-inf")
        self._samples: deque[_Sample] = deque()
        self._last_interval: float | None = None

    def sample(self, now: float, ended: int) -> None:
        """Adds a sample.

        Args:
            now: The time, in seconds.
            ended: The number of all calls that have ended so far.
        """
        self._update(now, ended)
        self._samples.append(_Sample(now, ended))
        self.due = now + _PAUSE

    def time_for(self, calls: float, now: float, ended: int) -> float:
        """Estimates the seconds in which a number of calls will have ended.

        Args:
            calls: The number of calls.
            now: The time, in seconds.
            ended: The number of all calls that have ended so far.
        """
        self._update(now, ended)
        interval = self._last_interval
        seconds = _DEFAULT if interval is None else calls * interval
        return min(max(seconds, _SHORTEST), _LONGEST)

    def _update(self, now: float, ended: int) -> None:
        samples = self._samples
        while samples and samples[0].time < now - WINDOW:
            samples.popleft()
        # Without a recent sample, or a call that ended, the last interval remains.
        if samples and ended > samples[0].ended and now > samples[0].time:
            first = samples[0]
            self._last_interval = (now - first.time) / (ended - first.ended)
