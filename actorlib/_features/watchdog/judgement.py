"""Decides whether a worker has more of a device's memory than it was granted.

The driver counts more than a program allocates: contexts and libraries use memory, too.
So there is a margin, and two checks in a row must find an excess.
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
    """The watch of one worker's memory on one device.

    Attributes:
        overs: The number of checks in a row with an excess.
        is_told: Whether the excess was reported.
        moments: The largest amounts: times in seconds since the epoch, and bytes; the
            largest first.
    """

    overs: int = 0
    is_told: bool = False
    moments: tuple[tuple[float, int], ...] = ()


class Overuse(NamedTuple):
    """A worker's use of more device memory than it was granted.

    Attributes:
        asked: The part of the device that it holds.
        granted: The bytes of that part.
        moments: The largest amounts; see ``Watched``.
    """

    device: str
    asked: float
    granted: int
    used: int
    moments: tuple[tuple[float, int], ...]

    def __str__(self) -> str:
        """Describes it with numbers."""
        most = ", ".join(format_bytes(nbytes) for _, nbytes in self.moments)
        return (
            f"it has {format_bytes(self.used)} of {self.device}, and {self.asked:g} of "
            f"that, which is {format_bytes(self.granted)}, was granted (its most: "
            f"{most})"
        )


def limit_of(share: Share) -> int | None:
    """Returns the limit of a share in bytes; None for no limit.

    A whole device has no limit: it has no other user.
    """
    if share.units >= UNITS or share.nbytes is None:
        return None
    return share.nbytes + CONTEXT_MARGIN


def judge(
    watched: Watched, share: Share, used: int | None, now: float
) -> tuple[Watched, Overuse | None]:
    """Decides whether to report an excess, once for each worker and device.

    Returns:
        The watch after this check, and the excess to report, if any.
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
    part = share.units / UNITS
    return after, Overuse(device, part, share.nbytes, used, moments)


def _largest(
    moments: tuple[tuple[float, int], ...], latest: tuple[float, int]
) -> tuple[tuple[float, int], ...]:
    """Keeps the largest amounts; of equal ones the first, as most checks are equal."""
    if any(nbytes == latest[1] for _, nbytes in moments):
        return moments
    most_first = sorted([*moments, latest], key=lambda moment: -moment[1])
    return tuple(most_first[:_MOMENTS])
