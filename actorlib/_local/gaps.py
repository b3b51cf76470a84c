"""Whether a share delays those who wait, whenever others give theirs back.

Someone who waits for 0.7 of what there is 3 of is let in by the release that leaves 0.7
free. Which one that is nobody knows, but what may be free at all is known: the whole,
less the sum of some of those who hold or wait. If no such amount is at least 0.7 and
below 1, then whatever lets the 0.7 in lets it in with 0.3 taken as well, and whoever
asks for 0.3 may pass.

That stays true when several have passed: each was asked about those before it, with all
who held and waited then, and they only become fewer. So who waits is served at the same
release as if nobody had passed.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LOOK = 32
"""How many different amounts are considered; where there are more, nobody passes."""

_SUMS = 100_000
"""How many sums are told apart at the most."""


def delays_nobody(
    total: int, held: Mapping[int, int], waiting: Mapping[int, int], amount: int
) -> bool:
    """Whether someone may hold an amount as long as it likes and delay nobody.

    Args:
        total: What there is.
        held: How many hold how much, by amount.
        waiting: How many wait for how much, by amount.
        amount: What is asked.

    Returns:
        False also where that is not known, as too many different amounts are in play.
    """
    counts = dict(held)
    for each, count in waiting.items():
        counts[each] = counts.get(each, 0) + count
    step = gcd(*counts) or 1
    if len(counts) > LOOK or len(waiting) > LOOK // 2 or total // step > _SUMS:
        return False
    for wanted in waiting:
        counts[wanted] -= 1
        sums = _sums(counts, step, total // step)
        counts[wanted] += 1
        # What others may have if what they leave is enough for it, but not for both.
        least = max(0, (total - wanted - amount) // step + 1)
        most = (total - wanted) // step
        if sums >> least & ((1 << max(0, most - least + 1)) - 1):
            return False
    return True


def _sums(counts: Mapping[int, int], step: int, most: int) -> int:
    """The sums of all choices, as bits, none above a limit."""
    sums, within = 1, (2 << most) - 1
    for amount, count in counts.items():
        times = 1
        while count > 0 and sums != within:
            sums |= sums << (amount // step * min(times, count)) & within
            count -= times  # noqa: PLW2901  # in powers of two: few steps for thousands
            times *= 2
    return sums
