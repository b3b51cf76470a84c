"""Tenstorrent's chips, found in ``/dev`` and masked by ``TT_VISIBLE_DEVICES``.

The driver makes a file per chip, ``/dev/tenstorrent/0``, beside a folder ``by-id``. In
sysfs it has the card's type and its PCI address (tt-kmd's documentation). A board with
two chips, such as a p300, is two devices here and in the variable, although tt-metal
may refuse to work with one half of it.

The variable lists numbers of files or PCI addresses, in any mixture, and an empty one
hides every chip (tt-umd, ``pci_device.cpp``; before 2025 it hid none). Its order has no
meaning: a process numbers its chips by address. tt-umd stops the whole program at an
invalid entry; here the list ends there, with a reason.

``TT_METAL_VISIBLE_DEVICES`` is a second list, which tt-metal applies after the first.
If the owner sets only the second, it is the mask, and the numbers are assumed to be the
same. Actors get only the first one, which the second would restrict.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import TTNPU
from actorlib.accelerators.base import Accelerator, Detection, Device
from actorlib.accelerators.files import find_files, read_pci
from actorlib.accelerators.masks import Mask, Syntax, number, read_mask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators.host import Host

_SECOND = "TT_METAL_VISIBLE_DEVICES"
_CLASS = "/sys/class/tenstorrent/tenstorrent!"
_ADDRESS = re.compile(r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def _read(text: str, _: str) -> Sequence[str] | None:
    text = text.strip()
    entry = text if _ADDRESS.fullmatch(text) else number(text)
    return None if entry is None else (entry,)


@final
class Tenstorrent(Accelerator):
    """Tenstorrent's family: whole chips."""

    family = "tenstorrent"
    kind = TTNPU
    visible_env = "TT_VISIBLE_DEVICES"
    removed_envs = (_SECOND,)
    syntax = Syntax(wanted="number or PCI address", read=_read)
    nosets = (
        "RAY_EXPERIMENTAL_NOSET_TENSTORRENT_VISIBLE_DEVICES",
        "RAY_EXPERIMENTAL_NOSET_TT_VISIBLE_DEVICES",
    )

    def detect(self, host: Host) -> Detection:
        """Lists the chips whose device files may be opened."""
        files = find_files(host, "/dev/tenstorrent/", _CLASS)
        mask = self.mask(host.environ)
        words = mask.entries if mask else ()
        chips = [_renamed(_chip(host, *file), words) for file in files.usable]
        return self.select(chips, host.environ, rejected=files.rejected)

    def mask(self, environ: Mapping[str, str]) -> Mask | None:
        """Reads the owner's mask from the first of the two lists that is set."""
        if self.visible_env not in environ and _SECOND in environ:
            return read_mask(_SECOND, environ[_SECOND], self.syntax)
        return super().mask(environ)


def _chip(host: Host, number: int, path: str) -> Device:
    folder = f"{_CLASS}{number}"
    model = host.read_word(f"{folder}/tt_card_type")
    return Device(
        family=Tenstorrent.family,
        kind=Tenstorrent.kind.name,
        id=str(number),
        pci=read_pci(host, f"{folder}/device").address,
        model=model and f"Tenstorrent {model}",
        source=path,
    )


def _renamed(chip: Device, words: Sequence[str]) -> Device:
    """Renames a chip to its PCI address if the owner's mask uses that."""
    own = [word for word in words if ":" in word and (chip.pci or "").endswith(word)]
    return replace(chip, id=own[0]) if own and chip.id not in words else chip
