"""Decides how many workers the template keeps forked ahead, from recent requests.

Bursts repeat: a program that has created a few actors at once is likely to do so again.
After a burst, the template keeps as many workers as the burst had, up to a limit. After
a period without a burst of that size it keeps as many as the largest one since, and at
least one: a spare takes 3.5 MiB.
"""

from __future__ import annotations

from typing import NamedTuple

MOST = 8
"""Workers that are kept at most: enough for a small burst."""
MEMORY = 10.0
"""Seconds after a burst in which its number of workers is kept."""

_AVAILABLE_EACH = 256 << 20
"""Available bytes per worker. A worker takes 3.5 MiB, so all take a seventieth."""
_OPEN_FILES_EACH = 32
"""The limit of open files per worker. A worker takes two."""


class Demand(NamedTuple):
    """The number of workers to keep, from the sizes of recent bursts.

    Attributes:
        number: The number of workers to keep.
        recent: The largest smaller burst since the number has changed.
        since: The time of the last burst of at least that number.
    """

    number: int = 0
    recent: int = 0
    since: float = 0.0

    def after(self, requests: int, now: float) -> Demand:
        """Returns the demand after the requests between two pauses."""
        burst = min(requests, MOST)
        if burst >= self.number:
            return Demand(burst, 0, now)
        recent = max(self.recent, burst)
        if now < self.since + MEMORY:
            return Demand(self.number, recent, self.since)
        return Demand(max(recent, 1), 0, now)

    def next_change(self) -> float:
        """Returns the time at which the number falls without requests, or infinity."""
        return self.since + MEMORY if self.number > 1 else float("inf")


def affordable(available: int | None, open_files: int | None) -> int:
    """Returns the number of workers that the machine has room for.

    The available memory is None if unknown, the limit of open files if there is none.
    """
    by_memory = 1 if available is None else available // _AVAILABLE_EACH
    by_files = MOST if open_files is None else open_files // _OPEN_FILES_EACH
    return min(by_memory, by_files)
