"""Decides whether a later request may overtake earlier ones for a counted resource.

A waiter for 0.7 of a resource of 3 is served by the first release that leaves 0.7 free.
Which release that is cannot be known, but the possible free amounts can: the whole,
minus the sum of some of the amounts held or waited for. If no such amount is at least
0.7 and below 1, then every release that serves the 0.7 serves it even if 0.3 is taken,
and a request for 0.3 may pass.

That stays true when several requests have passed: each was judged with all holders and
waiters of that moment, and these only become fewer. So a waiter is served at the same
release as if no request had passed, unless one that arrives later is ahead of it.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_AMOUNTS = 32
"""How many different amounts are considered. If there are more, no request passes."""

_MAX_SUMS = 100_000
"""How many sums are distinguished at most."""


def delays_no_waiter(
    total: int, held: Mapping[int, int], waiting: Mapping[int, int], amount: int
) -> bool:
    """Whether an amount can be held for any time without delaying a waiter.

    Args:
        total: The capacity of the resource.
        held: The number of leases for each amount.
        waiting: The number of waiting requests for each amount.
        amount: The amount in question.

    Returns:
        False if it is unknown, because there are too many different amounts.
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
        # The sums that leave enough for the waiter, but not for both.
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
