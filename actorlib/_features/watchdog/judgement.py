"""Judges whether a worker takes more of a device's memory than it was granted.

What the driver counts is more than what a program asks for: contexts and libraries take
their part. So there is a margin, and one look is no proof: twice in a row is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from actorlib._enforcement.tiers import CONTEXT_MARGIN
from actorlib._options.kinds import UNITS
from actorlib._options.resources import format_bytes

if TYPE_CHECKING:
    from actorlib.accelerators.base import Share

_IN_A_ROW = 2
_MOMENTS = 3


class Watched(NamedTuple):
    """What is known of one worker's memory on one device.

    Attributes:
        overs: How many looks in a row found too much.
        is_told: Whether somebody was told.
        moments: When it had most, in seconds since the epoch, and how many bytes; the
            largest first.
    """

    overs: int = 0
    is_told: bool = False
    moments: tuple[tuple[float, int], ...] = ()


class Overuse(NamedTuple):
    """Tells that a worker takes more of a device than it was granted.

    Attributes:
        device: What the device is called.
        asked: The part of the device that it holds.
        granted: Bytes that this stands for.
        used: Bytes that its processes have.
        moments: When they had most, in seconds since the epoch, and how many bytes; the
            largest first.
    """

    device: str
    asked: float
    granted: int
    used: int
    moments: tuple[tuple[float, int], ...]

    def __str__(self) -> str:
        """Says it with figures."""
        most = ", ".join(format_bytes(nbytes) for _, nbytes in self.moments)
        return (
            f"it has {format_bytes(self.used)} of {self.device}, and {self.asked:g} of "
            f"that, which is {format_bytes(self.granted)}, was granted (its most: "
            f"{most})"
        )


def limit_of(share: Share) -> int | None:
    """Says how many bytes of a share are too many; None if nobody can.

    A whole device has no limit: there is nobody beside.
    """
    if share.units >= UNITS or share.nbytes is None:
        return None
    return share.nbytes + CONTEXT_MARGIN


def judge(
    watched: Watched, share: Share, used: int | None, now: float
) -> tuple[Watched, Overuse | None]:
    """Decides whether somebody has to be told, once for each worker and device.

    Args:
        watched: What was known.
        share: What the worker holds of the device.
        used: Bytes that it has; None if nobody says.
        now: In seconds since the epoch.

    Returns:
        What is known now, and what is to be told, if anything.
    """
    limit = limit_of(share)
    if used is None or limit is None or share.nbytes is None:
        return watched._replace(overs=0), None
    moments = _largest(watched.moments, (now, used))
    overs = watched.overs + 1 if used > limit else 0
    is_due = overs >= _IN_A_ROW and not watched.is_told
    after = Watched(overs, watched.is_told or is_due, moments)
    if not is_due:
        return after, None
    device = f"{share.device.kind} {share.device.id}"
    asked = share.units / UNITS
    return after, Overuse(device, asked, share.nbytes, used, moments)


def _largest(
    moments: tuple[tuple[float, int], ...], latest: tuple[float, int]
) -> tuple[tuple[float, int], ...]:
    """Keeps the largest; of equal ones the first, as most looks find the same."""
    if any(nbytes == latest[1] for _, nbytes in moments):
        return moments
    most_first = sorted([*moments, latest], key=lambda moment: -moment[1])
    return tuple(most_first[:_MOMENTS])
