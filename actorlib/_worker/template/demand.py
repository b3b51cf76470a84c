"""Says how many workers the template keeps forked ahead, by what was asked for lately.

Bursts repeat themselves: who has made a handful of actors at once is likely to make
another. So after a burst as many are kept as it had, up to a few, and half of them
after each while in which no burst was as large. The last one stays.
"""

from __future__ import annotations

from typing import NamedTuple

MOST = 8
"""How many are kept at most: a handful answers at once, hundreds fork as ever."""
MEMORY = 10.0
"""Seconds for which the size of a burst is remembered in full."""

_AVAILABLE_EACH = 256 << 20
"""Bytes that are available for each one, which takes 3.5 MiB: all are a seventieth."""
_OPEN_FILES_EACH = 32
"""How many open files the template is allowed for each one, which takes two."""


class Demand(NamedTuple):
    """Remembers how many workers were asked for together.

    Attributes:
        number: How many are worth keeping.
        recent: The largest burst that was smaller, since the number has changed.
        since: The time, in seconds, at which a burst was as large as the number.
    """

    number: int = 0
    recent: int = 0
    since: float = 0.0

    def after(self, asked: int, now: float) -> Demand:
        """Takes in what was asked for between two pauses.

        Args:
            asked: How many workers; 0 if only time has passed.
            now: The time, in seconds.
        """
        burst = min(asked, MOST)
        if burst >= self.number:
            return Demand(burst, 0, now)
        recent = max(self.recent, burst)
        if now < self.since + MEMORY:
            return Demand(self.number, recent, self.since)
        return Demand(max(self.number // 2, recent, 1), 0, now)

    def next_change(self) -> float:
        """Says when the number falls if nobody asks; infinity if it does not."""
        return self.since + MEMORY if self.number > 1 else float("inf")


def affordable(available: int | None, open_files: int | None) -> int:
    """Says how many a machine has room for.

    Args:
        available: The bytes of memory that are available; None if nobody says.
        open_files: How many files the template may open; None if any number.
    """
    by_memory = 1 if available is None else available // _AVAILABLE_EACH
    by_files = MOST if open_files is None else open_files // _OPEN_FILES_EACH
    return min(by_memory, by_files)
