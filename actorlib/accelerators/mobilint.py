"""Mobilint's NPUs, found in ``/dev`` and masked by ``QBRUNTIME_VISIBLE_DEVICES``.

The qb runtime reads the variable itself, as card numbers. An Aries card is
``/dev/aries<n>``, at most eight of them. A Regulus is ``/dev/regulus-npu<n>`` (the
number may be missing), while ``/dev/regulus`` and ``/dev/regulus-usb`` beside it are no
cards. Both generations of Aries are called alike, as in Ray.

How the runtime numbers a machine with cards of both kinds is not documented: there an
Aries keeps its number, and a Regulus of the same number is left out. Nor is it
documented that an empty variable hides every card; Ray relies on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from actorlib._kinds import MBLT
from actorlib.accelerators.base import Accelerator, Detection, Device, Rejected
from actorlib.accelerators.nodes import find_nodes

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
        """Finds the cards whose device files may be opened."""
        aries = find_nodes(host, "/dev/aries")
        regulus = find_nodes(host, _SOLE)
        found = {n: self._card(n, path, "ARIES") for n, path in aries.usable}
        rejected = [*aries.rejected, *regulus.rejected]
        taken = {number for number, _ in aries.present}
        others = regulus.usable
        if host.is_device(_SOLE):
            if host.can_open(_SOLE):
                others = ((0, _SOLE), *others)
            else:
                why = "no permission to read and write it"
                rejected.append(Rejected(name=_SOLE, why=why))
        for number, path in others:
            if number in taken:
                why = f"another card has the number {number}"
                rejected.append(Rejected(name=path, why=why))
                continue
            taken.add(number)
            found[number] = self._card(number, path, "REGULUS")
        reason = ""
        if rejected and not found:
            reason = f"{rejected[0].name}: {rejected[0].why}"
        listed = [found[number] for number in sorted(found)]
        return self.select(listed, host.environ, rejected=rejected, reason=reason)

    def _card(self, number: int, path: str, chip: str) -> Device:
        return Device(
            family=self.family,
            kind=self.kind.name,
            index=number,
            id=str(number),
            model=f"Mobilint {chip}",
            type=f"MOBILINT_{chip}",
            source=path,
        )
