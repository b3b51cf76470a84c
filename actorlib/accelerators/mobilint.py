"""Mobilint's NPUs, found in ``/dev`` and masked by ``QBRUNTIME_VISIBLE_DEVICES``.

The qb runtime reads card numbers from the variable. Its library contains the name; this
and the names of the device files are from Ray's support for these cards. An Aries card
is ``/dev/aries<n>``, at most eight of them. A Regulus is ``/dev/regulus-npu<n>`` (the
number may be missing), while ``/dev/regulus`` and ``/dev/regulus-usb`` beside it are
not cards. Both generations of Aries have one name, as in Ray.

How the runtime numbers a machine with cards of both kinds is not documented: here an
Aries keeps its number, and a Regulus of the same number is left out. Nor is it
documented that an empty variable hides every card; Ray relies on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from actorlib._options.kinds import MBLT
from actorlib.accelerators.base import Accelerator, Detection, Device, Rejected
from actorlib.accelerators.files import closed, find_files

if TYPE_CHECKING:
    from actorlib.accelerators.host import Host

_SOLE = "/dev/regulus-npu"


@final
class Mobilint(Accelerator):
    """Mobilint's family: whole Aries and Regulus cards."""

    family = "mobilint"
    kind = MBLT
    visible_env = "QBRUNTIME_VISIBLE_DEVICES"
    nosets = (
        "RAY_EXPERIMENTAL_NOSET_MBLT_RT_VISIBLE_DEVICES",
        "RAY_EXPERIMENTAL_NOSET_QBRUNTIME_VISIBLE_DEVICES",
    )

    def detect(self, host: Host) -> Detection:
        """Lists the cards whose device files may be opened."""
        aries, regulus = find_files(host, "/dev/aries"), find_files(host, _SOLE)
        rejected = [*aries.rejected, *regulus.rejected]
        others = regulus.usable
        if host.is_device(_SOLE):
            why = closed(host, _SOLE)
            rejected += [Rejected(name=_SOLE, why=why)] if why else []
            others = others if why else ((0, _SOLE), *others)
        cards = {number: _card(number, path, "ARIES") for number, path in aries.usable}
        numbers = {number for number, _ in aries.present}
        for number, path in others:
            if number in numbers:
                why = f"another card has the number {number}"
                rejected.append(Rejected(name=path, why=why))
                continue
            numbers.add(number)
            cards[number] = _card(number, path, "REGULUS")
        npus = [cards[number] for number in sorted(cards)]
        return self.select(npus, host.environ, rejected=rejected)


def _card(number: int, path: str, chip: str) -> Device:
    return Device(
        family=Mobilint.family,
        kind=Mobilint.kind.name,
        id=str(number),
        model=f"Mobilint {chip}",
        type=f"MOBILINT_{chip}",
        source=path,
    )
