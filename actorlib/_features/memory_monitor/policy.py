"""Decides which worker to end when memory is short, and how soon to check again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib._enforcement.host_memory import MemoryUsage

LISTED = 5
"""How many of the largest workers an error lists."""

_FILL_RATE = 4 * 2**30
"""Bytes that a program can fill in a second: one thread that touches new pages fills
2 to 4 GiB (measured on an AMD EPYC), and page faults of several threads contend."""
_SHORTEST, _LONGEST = 0.05, 1.0
"""Seconds between two checks."""


class Candidate(NamedTuple):
    """A worker that could be ended.

    Attributes:
        title: The name of the worker in messages.
        started: When it was ready, in seconds since the epoch; infinite if it is not.
        is_retriable: Whether what it runs will run again.
    """

    pid: int
    title: str
    nbytes: int
    started: float
    is_retriable: bool
    is_actor: bool


def is_over(usage: MemoryUsage, threshold: float) -> bool:
    """Whether so much memory is in use that a worker must end."""
    return threshold < 1 and usage.fraction >= threshold


def pause_before_next_check(usage: MemoryUsage, threshold: float) -> float:
    """Returns the seconds in which usage could not reach the threshold.

    A check costs about 50 us, so even the shortest pause costs 0.1 % of one CPU.
    """
    headroom = threshold * usage.total - usage.used
    return min(max(headroom / _FILL_RATE, _SHORTEST), _LONGEST)


def choose(candidates: Sequence[Candidate], usage: MemoryUsage) -> Candidate | None:
    """Chooses the worker to end.

    Those that are at least as large as the median may be chosen: the end of a small one
    would not help. Of these, one whose work will run again comes before others, a
    function before an actor, and the newest first. This is Ray's order:
    https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html

    Args:
        candidates: The workers of this program.
        usage: The memory in use.

    Returns:
        None if the workers together hold less than half of the memory in use. Then
        another program is the cause.
    """
    if not candidates or 2 * sum(one.nbytes for one in candidates) < usage.used:
        return None
    middle = sorted(one.nbytes for one in candidates)[(len(candidates) - 1) // 2]
    large = (one for one in candidates if one.nbytes >= middle)
    return max(large, key=lambda one: (one.is_retriable, not one.is_actor, one.started))


def largest(candidates: Sequence[Candidate]) -> tuple[tuple[str, int], ...]:
    """Returns the names and the bytes of the largest workers, the largest first."""
    by_size = sorted(candidates, key=lambda one: one.nbytes, reverse=True)
    return tuple((one.title, one.nbytes) for one in by_size[:LISTED])
