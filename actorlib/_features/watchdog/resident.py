"""Judges whether a worker has more of the host's memory than its actor asked for.

What is counted is what is resident, of the worker and of all that it has started. That
is cheap to ask, and too much: pages that processes share, as forks of one template do,
are counted for each of them. So before somebody is told, the kernel is asked for the
proportional size, which divides such pages among those who have them. It is dear, as
the kernel walks over every page: it is asked once for each time that an actor grows
over what it asked for, and what was shared by then is taken off from there on.
"""

from __future__ import annotations

from typing import NamedTuple

_IN_A_ROW = 2


class Watched(NamedTuple):
    """What is known of one worker's memory.

    Attributes:
        overs: How many looks in a row found too much.
        shared: Bytes that are counted and are others', too.
        is_told: Whether somebody was told.
    """

    overs: int = 0
    shared: int = 0
    is_told: bool = False


def judge(watched: Watched, asked: int, used: int) -> tuple[Watched, bool]:
    """Decides whether the proportional size of a worker has to be asked for.

    Args:
        watched: What was known.
        asked: Bytes that the actor asked for.
        used: Bytes that are resident.

    Returns:
        What is known now, and whether to ask, and then to call ``confirm``.
    """
    overs = watched.overs + 1 if used - watched.shared > asked else 0
    is_due = overs >= _IN_A_ROW and not watched.is_told
    return watched._replace(overs=overs), is_due


def confirm(
    watched: Watched, asked: int, used: int, proportional: int | None
) -> Watched:
    """Decides whether somebody has to be told, now that more is known.

    Args:
        watched: What was known.
        asked: Bytes that the actor asked for.
        used: Bytes that are resident.
        proportional: Those without what is others' of shared pages; None where the
            kernel does not say, and then nothing is taken off.

    Returns:
        What is known now: ``is_told`` if it is to be told.
    """
    real = used if proportional is None else min(used, proportional)
    if real > asked:
        return watched._replace(is_told=True)
    return watched._replace(overs=0, shared=used - real)
