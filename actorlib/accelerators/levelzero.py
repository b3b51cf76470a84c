"""Lists the Intel GPUs with Level Zero's numbers.

Level Zero opens the render nodes of the drivers ``xe`` and ``i915`` and numbers those
that it could open: by PCI address if ``ZE_ENABLE_PCI_ID_DEVICE_ORDER`` is 1, and else
with the GPU in the CPU last. In the hierarchies ``FLAT``, the default of every card
with several tiles, and ``COMBINED`` an index is a tile; in ``COMPOSITE`` it is a card,
and ``0.1`` a tile (intel/compute-runtime, execution_environment.cpp).

The id of a device is the owner's number, and its ``entry`` the number by PCI address,
which is the order in our processes. A tile has no ``parent``: unlike MIG instances, one
process opens many. Models are those of compute-runtime's devices_base.inl; a type is
the last two words of a model, as in Ray.

Sysfs does not say that a GPU is part of the CPU. A GPU at 00:02.0, the usual address
there, counts as one, unless its model or memory is a card's. The upstream i915 does not
report the memory of a card. Its ``gt`` folders are tiles only on cards: in newer CPUs
the second one is for media.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from actorlib._base.value import dataclass
from actorlib._options.kinds import GPU
from actorlib.accelerators.base import Device, Rejected
from actorlib.accelerators.files import Pci, closed, read_pci

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actorlib.accelerators.host import Host

ORDER = "ZE_ENABLE_PCI_ID_DEVICE_ORDER"

_CARD = re.compile(r"/sys/class/drm/card\d+")
_MODELS = {
    "0x0bd5": "Data Center GPU Max 1550",
    "0x0bd6": "Data Center GPU Max 1550",
    "0x0b69": "Data Center GPU Max 1450",
    "0x0bd7": "Data Center GPU Max 1350",
    "0x0bd8": "Data Center GPU Max 1350",
    "0x0bd9": "Data Center GPU Max 1100",
    "0x0bda": "Data Center GPU Max 1100",
    "0x0bdb": "Data Center GPU Max 1100",
    "0x56c0": "Data Center GPU Flex 170",
    "0x56c1": "Data Center GPU Flex 140",
    "0x56a0": "Arc(TM) A770 Graphics",
    "0x56a1": "Arc(TM) A750 Graphics",
    "0x56a2": "Arc(TM) A580 Graphics",
    "0x56a5": "Arc(TM) A380 Graphics",
    "0xe20b": "Arc(TM) B580 Graphics",
    "0xe20c": "Arc(TM) B570 Graphics",
    "0xe211": "Arc(TM) Pro B60 Graphics",
    "0xe212": "Arc(TM) Pro B50 Graphics",
}
"""By PCI device id: the cards for computing. Others are called by the id."""


@dataclass(frozen=True, slots=True)
class Gpus:
    """The Intel GPUs of a machine, by the owner's numbers.

    Attributes:
        counted: The devices that a plain index counts: tiles, or cards in
            ``COMPOSITE``.
        tiles: The tiles of each of them, if it has several.
    """

    counted: tuple[Device, ...]
    tiles: tuple[tuple[Device, ...], ...]

    def named(self, name: str) -> Device:
        """Returns the device for an entry such as ``0`` or ``0.1``."""
        place, _, tile = name.partition(".")
        return self.tiles[int(place)][int(tile)] if tile else self.counted[int(place)]

    def parts(self, names: Iterable[str]) -> list[Device]:
        """Lists the smallest parts of the named devices."""
        parts: list[Device] = []
        for name in names:
            tiles = self.tiles[int(name)] if name.isdecimal() else ()
            parts += tiles or (self.named(name),)
        return parts


@dataclass(frozen=True, slots=True, eq=False)  # two cards may have the same values
class _Card:
    device: Device
    tiles: tuple[int | None, ...]
    """The memory of each tile."""


def find_gpus(host: Host, family: str, *, is_flat: bool) -> tuple[Gpus, list[Rejected]]:
    """Lists the GPUs that Level Zero can open, and those that it cannot.

    With ``is_flat``, an index counts tiles, and not cards.
    """
    cards: list[_Card] = []
    rejected: list[Rejected] = []
    for folder in filter(_CARD.fullmatch, host.glob("/sys/class/drm/card*")):
        driver = (host.link(f"{folder}/device/driver") or "").rpartition("/")[2]
        pci = read_pci(host, f"{folder}/device")
        if pci.vendor != "0x8086":
            continue
        card = _card(host, folder, pci, family)
        why = _closed(host, driver, host.glob(f"{folder}/device/drm/renderD*"))
        if why:
            name, model = pci.address or folder, card.device.model
            rejected.append(Rejected(name=name, why=why, model=model))
        else:
            cards.append(card)
    cards.sort(key=lambda card: card.device.pci or "")
    entries = _starts(cards, is_flat=is_flat)
    if host.environ.get(ORDER, "0") in ("", "0"):
        cards.sort(key=lambda card: card.device.integrated)
    starts = _starts(cards, is_flat=is_flat)
    tiles = [_tiles(card, starts, entries, is_flat=is_flat) for card in cards]
    if is_flat:
        counted = tuple(tile for several in tiles for tile in several)
        return Gpus(counted, ((),) * len(counted)), rejected
    counted = tuple(_named(c.device, starts[c], entries[c]) for c in cards)
    several = tuple(each if len(each) > 1 else () for each in tiles)
    return Gpus(counted, several), rejected


def _starts(cards: Sequence[_Card], *, is_flat: bool) -> dict[_Card, int]:
    """Returns the number of each card, or of its first tile if tiles count."""
    sizes = [len(card.tiles) if is_flat else 1 for card in cards]
    return dict(zip(cards, accumulate(sizes, initial=0), strict=False))


def _tiles(
    card: _Card,
    starts: Mapping[_Card, int],
    entries: Mapping[_Card, int],
    *,
    is_flat: bool,
) -> tuple[Device, ...]:
    def name(numbers: Mapping[_Card, int], tile: int) -> str:
        start = numbers[card]
        return str(start + tile) if is_flat else f"{start}.{tile}"

    names = [name(starts, tile) for tile in range(len(card.tiles))]
    return tuple(
        replace(
            _named(card.device, own, name(entries, tile)),
            memory=memory,
            peers=frozenset(names) - {own},
        )
        for tile, (own, memory) in enumerate(zip(names, card.tiles, strict=True))
    )


def _named(device: Device, name: object, entry: object) -> Device:
    return replace(device, id=str(name), entry="" if name == entry else str(entry))


def _card(host: Host, folder: str, pci: Pci, family: str) -> _Card:
    """Reads a card with its tiles, for either driver."""
    xe = host.glob(f"{folder}/device/tile[0-9]*")
    listed = [host.read_number(f"{tile}/physical_vram_size_bytes") or 0 for tile in xe]
    whole = host.read_number(f"{folder}/lmem_total_bytes") or sum(listed) or None
    model = _MODELS.get(pci.device)
    place = pci.address or ""
    integrated = place.endswith(":00:02.0") and model is None and whole is None
    count = (
        len(xe) or (0 if integrated else len(host.glob(f"{folder}/gt/gt[0-9]*"))) or 1
    )
    share = whole and whole // count
    device = Device(
        family=family,
        kind=GPU.name,
        id="",
        pci=pci.address,
        model=f"Intel(R) {model}" if model else f"Intel graphics {pci.device}",
        type="-".join(("Intel-GPU", *model.split()[-2:])) if model else None,
        memory=whole,
        integrated=integrated,
        source="DRM",
    )
    return _Card(device, tuple(size or share for size in listed) or (share,) * count)


def _closed(host: Host, driver: str, renders: Sequence[str]) -> str:
    """Returns why a GPU is unusable here; empty if it is usable."""
    if driver not in ("i915", "xe"):
        return f"its driver is {driver or 'missing'}, and Level Zero needs xe or i915"
    files = [f"/dev/dri/{path.rpartition('/')[2]}" for path in renders]
    # In this order: one that opens, "no permission", "there is no".
    return min(closed(host, path) for path in files or ["render node"])
