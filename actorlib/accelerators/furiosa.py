"""FuriosaAI's NPUs, found in ``/dev/rngd`` and masked by ``FURIOSA_DEVICES``.

The variable names cards as ``npu:0,npu:3``. Bare numbers are read as well, and
``npu:0:0-3``, some processing elements of card 0, is read as the whole card: cards are
granted whole, as in Ray. The ``furiosa_llm.LLM`` class ignores the variable and takes
every card, unless it gets the value: ``devices=os.environ["FURIOSA_DEVICES"]``. Ray
expects that an empty variable hides every card. This is not documented.

The driver makes files per processing element and per fused run of them
(``/dev/rngd/npu0pe0``, ``npu0pe0-3``) beside others such as ``npu0mgmt``. Address and
UUID are in ``/sys/class/rngd_mgmt``, as the vendor's furiosa-smi-go reads them. That
library calls every device in ``/dev/rngd`` an RNGD, and so does this module: only the
SDK distinguishes the larger cards (RNGD-S, RNGD-Max, RNGD+).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import FURIOSA
from actorlib.accelerators.base import Accelerator, Detection, Device, Rejected
from actorlib.accelerators.files import closed
from actorlib.accelerators.masks import Mask, Syntax

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators.host import Host

_ELEMENT = re.compile(r"/dev/rngd/npu(\d+)pe\d+(?:-\d+)?")
_ENTRY = re.compile(r"\s*(?:npu:)?(\d{1,20})(:[\d*-]+)?\s*", re.ASCII)


def _read(text: str, _: str) -> Sequence[str] | None:
    match = _ENTRY.fullmatch(text)
    return (str(int(match[1])),) if match else None


@final
class Furiosa(Accelerator):
    """FuriosaAI's family: whole cards of the RNGD generation."""

    family = "furiosa"
    kind = FURIOSA
    visible_env = "FURIOSA_DEVICES"
    syntax = Syntax(wanted="card such as npu:0", read=_read)

    def detect(self, host: Host) -> Detection:
        """Lists the cards with a processing element that may be opened."""
        elements: dict[int, list[str]] = {}
        for path in host.glob("/dev/rngd/npu[0-9]*"):
            match = _ELEMENT.fullmatch(path)
            if match and host.is_device(path):
                elements.setdefault(int(match[1]), []).append(path)
        cards: list[Device] = []
        rejected: list[Rejected] = []
        for number, paths in sorted(elements.items()):
            if any(map(host.can_open, paths)):
                cards.append(_card(host, number))
            else:
                why = closed(host, paths[0])
                rejected.append(Rejected(name=f"npu:{number}", why=why))
        return self.select(cards, host.environ, rejected=rejected)

    def mask(self, environ: Mapping[str, str]) -> Mask | None:
        """Reads the owner's mask; a part of a card counts as the whole card."""
        mask = super().mask(environ)
        pieces = (mask and environ[self.visible_env].split(",")) or ()
        parts = [p for p in pieces if (match := _ENTRY.fullmatch(p)) and match[2]]
        if mask is None or not (parts and mask.entries):
            return mask
        why = f"{parts[0].strip()} is read as all of its card, as no less is granted"
        return replace(mask, reason="; ".join(filter(None, (mask.reason, why))))

    def formed(self, devices: Sequence[Device], form: str | None) -> tuple[Device, ...]:
        """Writes ``npu:`` before the numbers, which are the only form."""
        checked = super().formed(devices, form)
        return tuple(replace(card, entry=f"npu:{card.id}") for card in checked)


def _card(host: Host, number: int) -> Device:
    folder = f"/sys/class/rngd_mgmt/rngd!npu{number}mgmt"
    return Device(
        family=Furiosa.family,
        kind=Furiosa.kind.name,
        id=str(number),
        uuid=host.read_word(f"{folder}/device_uuid"),
        pci=host.read_word(f"{folder}/busname"),
        model="FuriosaAI RNGD",
        type="FURIOSA_RNGD",
        source=f"/dev/rngd/npu{number}pe*",
    )
