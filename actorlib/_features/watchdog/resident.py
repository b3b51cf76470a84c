"""Decides whether a worker has more of the host's memory than its actor requested.

The resident memory of the worker and of all its descendants counts. That is cheap to
read, but too much: shared pages, as in forks of one template, are counted for each
process. So before a report the kernel's proportional size is read, which divides shared
pages among their users. It is expensive, as the kernel walks over every page: it is
read once each time that an actor grows over its request, and the shared part at that
time is subtracted from then on.
"""

from __future__ import annotations

from typing import NamedTuple

_IN_A_ROW = 2


class Watched(NamedTuple):
    """The watch of one worker's memory.

    Attributes:
        overs: The number of checks in a row with an excess.
        shared: Counted bytes that other processes share.
        is_told: Whether the excess was reported.
    """

    overs: int = 0
    shared: int = 0
    is_told: bool = False


def judge(watched: Watched, asked: int, used: int) -> tuple[Watched, bool]:
    """Decides whether the proportional size of a worker has to be read.

    Returns:
        The watch after this check, and whether to read the size and call ``confirm``.
    """
    overs = watched.overs + 1 if used - watched.shared > asked else 0
    is_due = overs >= _IN_A_ROW and not watched.is_told
    return watched._replace(overs=overs), is_due


def confirm(
    watched: Watched, asked: int, used: int, proportional: int | None
) -> Watched:
    """Decides whether to report an excess, from the proportional size.

    If the size is unknown (None), nothing is subtracted.

    Returns:
        The watch after this check: ``is_told`` if the excess is to be reported.
    """
    real = used if proportional is None else min(used, proportional)
    if real > asked:
        return watched._replace(is_told=True)
    return watched._replace(overs=0, shared=used - real)
