"""Reads oneAPI's masks: ``ZE_AFFINITY_MASK``, then ``ONEAPI_DEVICE_SELECTOR``.

Both are sets: devices keep the order of their numbers. The mask is Level Zero's. It
skips missing devices, and tiles such as ``0.1`` where an index counts tiles
(intel/compute-runtime, execution_environment.cpp). The selector is SYCL's, and its
numbers **count the devices that the mask leaves** (intel/llvm, device_filter.cpp):
terms such as ``level_zero:0,1``, ``*:gpu`` or ``!level_zero:1``, between semicolons. A
selector that SYCL refuses ends every program that uses it, so it hides all devices.
SYCL refuses ``1,3`` without a backend, too, but older versions of Ray read and wrote it
and their documents still do: it counts as ``level_zero:1,3``.

Level Zero and SYCL ignore an empty variable. Here it hides every device, as in Ray.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from actorlib.accelerators.masks import Mask, Syntax, read_mask

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MASK = "ZE_AFFINITY_MASK"
SELECTOR = "ONEAPI_DEVICE_SELECTOR"
HIERARCHY = "ZE_FLAT_DEVICE_HIERARCHY"

_PLACE = re.compile(r"(\d{1,20})(?:\.(\d{1,20}))?", re.ASCII)
_BARE = re.compile(r"[\d.,\s]+", re.ASCII)
_TERM = re.compile(r"(!?)(level_zero|opencl|cuda|hip|native_cpu|\*):([^:]+)")
_TARGET = re.compile(
    r"\*(\.\*){0,2}|gpu|cpu|fpga|acc|\d{1,20}(\.(\d{1,20}|\*)){0,2}", re.ASCII
)
_MOST = 16
"""The most tiles of a card without known hardware."""


def hierarchy(environ: Mapping[str, str]) -> str:
    """Returns the hierarchy. An index counts cards in ``COMPOSITE``, else tiles."""
    value = environ.get(HIERARCHY, "")
    return value if value in ("COMPOSITE", "COMBINED") else "FLAT"


def read_layers(
    environ: Mapping[str, str], sizes: Sequence[int] | None
) -> tuple[Mask, ...]:
    """Reads the mask, and the selector on the devices that it leaves.

    ``sizes`` contains the number of tiles of each device that an index counts; None if
    there is no hardware to compare.

    Returns:
        The variables that are set and restrict something, each with the devices that it
        leaves, in the machine's numbers.
    """
    mask = _read_mask(environ, sizes)
    visible = None if sizes is None else [str(place) for place in range(len(sizes))]
    visible = visible if mask is None else list(mask.entries)
    selector = _read_selector(environ, visible, sizes)
    return tuple(layer for layer in (mask, selector) if layer is not None)


def _read_mask(environ: Mapping[str, str], sizes: Sequence[int] | None) -> Mask | None:
    lost: list[str] = []

    def read(text: str, _: str) -> Sequence[str] | None:
        match = _PLACE.fullmatch(text.strip())
        if match is None:
            return None
        card, tile = str(int(match[1])), match[2]
        count = _count(sizes, card)
        if count <= int(tile or 0) or (tile and hierarchy(environ) != "COMPOSITE"):
            lost.append(text.strip())
            return ()
        return (card if tile is None or count == 1 else f"{card}.{int(tile)}",)

    wanted = "index or index of a tile"
    mask = read_mask(MASK, environ.get(MASK), Syntax(wanted=wanted, read=read))
    if mask is None:
        return None
    why = (_lost(mask.said, lost), mask.reason)
    entries = _settled(mask.entries)
    return replace(mask, entries=entries, reason="; ".join(filter(None, why)))


def _read_selector(
    environ: Mapping[str, str], visible: list[str] | None, sizes: Sequence[int] | None
) -> Mask | None:
    value = environ.get(SELECTOR)
    if value is None:
        return None
    assignment = f"{SELECTOR}={value!r}"
    targets, fault = _targets(value)
    chosen: tuple[list[str], list[str]] = ([], [])
    lost: list[str] = []
    for is_discarding, target in targets:
        names = _named(target, environ, visible, sizes)
        chosen[is_discarding].extend(names)
        if not names and target[0].isdecimal():
            lost.append(target)
    rest = set[str]() if "*" in chosen[True] else {*chosen[False]} - {*chosen[True]}
    if "*" in rest:
        return None  # all devices of unknown hardware: it restricts nothing
    entries = _settled(rest)
    empty = "" if entries else f"{assignment} hides every device"
    why = (": ".join(filter(None, (empty, fault))), _lost(assignment, lost))
    return Mask(said=assignment, entries=entries, reason="; ".join(filter(None, why)))


def _targets(value: str) -> tuple[list[tuple[bool, str]], str]:
    """Parses a selector for Level Zero.

    Returns:
        Its targets, each with whether it discards them; and the fault of the selector.
    """
    text = value.strip().lower()
    if text in ("", "nodevfiles", "-1"):
        return [], ""
    text = f"level_zero:{text}" if _BARE.fullmatch(text) else text
    targets: list[tuple[bool, str]] = []
    signs: list[bool] = []
    for term in filter(None, text.split(";")):
        match = _TERM.fullmatch(term)
        named = [one.strip() for one in match[3].split(",") if one] if match else []
        if match is None or not all(map(_TARGET.fullmatch, named)):
            return [], f"SYCL refuses {term!r}, which is not backend:devices"
        signs.append(bool(match[1]))
        if signs != sorted(signs):
            return [], f"SYCL refuses {term!r} after a discarded term"
        if match[2] in ("level_zero", "*"):
            targets += [(signs[-1], "*" if one == "gpu" else one) for one in named]
    if all(signs):
        targets.insert(0, (False, "*"))  # only discarding terms: from all devices
    return targets, ""


def _named(
    target: str,
    environ: Mapping[str, str],
    visible: list[str] | None,
    sizes: Sequence[int] | None,
) -> list[str]:
    """Lists the visible devices that a target names; ``*`` itself if unknown."""
    card, _, tile = target.partition(".")
    if visible is None and card == "*":
        return ["*"]
    cards: dict[str, list[str]] = {}
    for name in [card] if visible is None else visible:
        cards.setdefault(name.partition(".")[0], []).append(name)
    groups = list(cards.values())
    if card.isdecimal():
        place = 0 if visible is None else int(card)
        groups = groups[place : place + 1]
    elif card != "*":
        return []  # of another kind
    if not tile:
        return [name for group in groups for name in group]
    if hierarchy(environ) != "COMPOSITE" or tile.count("."):
        return []
    tiles = [_tiles(group, sizes) for group in groups]
    if tile == "*":
        return [name for several in tiles for name in several]
    return [name for several in tiles for name in several[int(tile) : int(tile) + 1]]


def _tiles(group: list[str], sizes: Sequence[int] | None) -> list[str]:
    """Lists the visible tiles of a card, if it has several."""
    if len(group) > 1 or "." in group[0]:
        return group if len(group) > 1 else []
    count = _count(sizes, group[0])
    return [f"{group[0]}.{tile}" for tile in range(count)] if count > 1 else []


def _count(sizes: Sequence[int] | None, card: str) -> int:
    if sizes is None:
        return _MOST
    return sizes[int(card)] if int(card) < len(sizes) else 0


def _settled(names: Iterable[str]) -> tuple[str, ...]:
    """Sorts names by number, without the tiles of cards that are in it whole."""
    every = set(names)
    rest = {name for name in every if name.partition(".")[0] not in every - {name}}
    return tuple(sorted(rest, key=lambda name: [int(part) for part in name.split(".")]))


def _lost(assignment: str, names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"{assignment} passes over {', '.join(names)}: there is no such device"
