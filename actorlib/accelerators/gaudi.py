"""Intel's Gaudis, found in ``/dev`` and masked by ``HABANA_VISIBLE_MODULES``.

A card is ``/dev/accel/accel<N>``, or ``/dev/hl<N>`` of older drivers. The variable has
module ids, the places on the board, and not the numbers of the files: card 0 may be
module 5, and numbers change at a restart while modules stay (Gaudi documentation). The
driver's sysfs maps one to the other, so the id of a card is its module, and cards are
in that order. Where the map is missing (older drivers; in a container without sysfs),
the number is used instead, and the reason says so.

``HLS_MODULE_ID``, which forces one module, is removed from actors, as one variable
defines their devices. ``HABANA_VISIBLE_DEVICES`` is for the container runtime and not
changed. PCI ids are those of the habanalabs driver. Ray's own list has only
``Intel-GAUDI``; the other types are made as in Ray, from PyTorch's names of the cards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import HPU
from actorlib.accelerators.base import Accelerator, Detection, Device, Rejected
from actorlib.accelerators.files import closed, find_files, read_pci

if TYPE_CHECKING:
    from actorlib.accelerators.host import Host

_VENDOR = "0x1da3"
_DRIVER = "habanalabs"
_GOYA = "0x0001"
_NAMES = {
    "0x1000": "GAUDI",
    "0x1001": "GAUDI",
    "0x1010": "GAUDI",
    "0x1011": "GAUDI",
    "0x1020": "GAUDI2",
    "0x1021": "GAUDI2",
    "0x1030": "GAUDI2",
    "0x1060": "GAUDI3",
    "0x1063": "GAUDI3",
}


@final
class Gaudi(Accelerator):
    """Intel's family of Gaudi cards, by their modules."""

    family = "gaudi"
    kind = HPU
    visible_env = "HABANA_VISIBLE_MODULES"
    removed_envs = ("HLS_MODULE_ID",)

    def detect(self, host: Host) -> Detection:
        """Lists the cards that may be opened, in the order of their modules."""
        cards: list[tuple[int | None, Device]] = []
        rejected: list[Rejected] = []
        for path, folder, place in _files(host):
            pci, address = read_pci(host, folder), host.read_word(f"{folder}/pci_addr")
            if address and not pci.vendor:
                pci = read_pci(host, f"/sys/bus/pci/devices/{address}")
            name = _NAMES.get(pci.device)
            card = Device(
                family=self.family,
                kind=self.kind.name,
                id=str(place),
                pci=pci.address or address,
                model=f"Intel {name}" if name else None,
                type=f"Intel-{name}" if name else None,
                source=path,
            )
            is_goya = pci.device == _GOYA
            why = "a Goya card, which is not an HPU" if is_goya else closed(host, path)
            if why:
                rejected.append(Rejected(name=path, why=why, model=card.model))
            else:
                cards.append((host.read_number(f"{folder}/module_id"), card))
        hpus = [card for _, card in cards]
        # All by module or none: a number could be another card's module.
        modules = {module for module, _ in cards}
        reason: str | None = None
        if None not in modules and len(modules) == len(cards):
            hpus = [replace(card, id=str(module)) for module, card in cards]
        else:
            reason = "the driver tells no module ids: cards are named by their number"
        hpus.sort(key=lambda card: int(card.id))
        return self.select(hpus, host.environ, rejected=rejected, reason=reason)


def _files(host: Host) -> list[tuple[str, str, int]]:
    """Lists the files of Gaudi cards, each with its folder in sysfs and its number."""
    files: list[tuple[str, str, int]] = []
    for place, path in find_files(host, "/dev/accel/accel").present:
        folder = f"/sys/class/accel/accel{place}/device"
        driver = (host.link(f"{folder}/driver") or "").rpartition("/")[2]
        if read_pci(host, folder).vendor == _VENDOR or driver == _DRIVER:
            files.append((path, folder, place))
    # Never both: two cards would have one number.
    return files or [
        (path, f"/sys/class/habanalabs/hl{place}", place)
        for place, path in find_files(host, "/dev/hl").present
    ]
