"""Tells whether a later request may overtake earlier ones for a counted resource.

A waiter for 0.7 of a resource of 3 is served by the release that leaves 0.7 free. Which
one that is nobody knows, but what may be free at all is known: the whole, less the sum
of some of those who hold or wait. If no such amount is at least 0.7 and below 1, then
whatever serves the 0.7 serves it with 0.3 taken as well, and a request for 0.3 may
pass.

That stays true when several have passed: each was judged with all who held and waited
then, and these only become fewer. So a waiter is served at the same release as if
nobody had passed.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_AMOUNTS = 32
"""How many different amounts are considered; where there are more, nobody passes."""

_MAX_SUMS = 100_000
"""How many sums are told apart at the most."""


def delays_nobody(
    total: int, held: Mapping[int, int], waiting: Mapping[int, int], amount: int
) -> bool:
    """Tells whether an amount can be held for any time without delaying a waiter.

    Args:
        total: All there is of the resource.
        held: How many leases hold how much, by amount.
        waiting: How many requests wait for how much, by amount.
        amount: The amount in question.

    Returns:
        False also where that is not known, as too many different amounts are in play.
    """
    counts = dict(held)
    for each, count in waiting.items():
        counts[each] = counts.get(each, 0) + count
    step = gcd(*counts) or 1
    if (
        len(counts) > MAX_AMOUNTS
        or len(waiting) > MAX_AMOUNTS // 2
        or total // step > _MAX_SUMS
    ):
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
    """Returns the sums of all choices as bits, none above a limit."""
    sums, within = 1, (2 << most) - 1
    for amount, count in counts.items():
        times = 1
        while count > 0 and sums != within:
            sums |= sums << (amount // step * min(times, count)) & within
            count -= times  # noqa: PLW2901  # in powers of two: few steps for thousands
            times *= 2
    return sums
