"""Devices of small machines, in a few characters each."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from actorlib.accelerators.base import Device

GIB = 2**30
NAMES = {"80GiB": "H100", "40GiB": "A100", "24GiB": "L4"}
"""What cards are called that are given by their memory."""


def devices_of(cards: str, links: str = "", kind: str = "GPU") -> tuple[Device, ...]:
    """Makes the devices of one kind.

    Args:
        cards: A number of devices that are alike, or the model of each with ``,``
            between them. ``part`` is a part of a card, ``MI300X`` is AMD's, ``?`` has
            no model, and ``24GiB`` is a model with so much memory.
        links: Pairs of indices that are linked, as in ``0-1,2-3``.
        kind: The kind.
    """
    usual = "L4" if kind == "GPU" else f"{kind}-V1"
    listed = [usual] * int(cards) if cards.isdecimal() else cards.split(",")
    pairs = [{*link.split("-")} for link in links.split(",") if link]
    devices = [_device(kind, index, card) for index, card in enumerate(listed)]
    return tuple(
        replace(
            device,
            peers=frozenset(
                devices[int(other)].key
                for pair in pairs
                if device.id in pair
                for other in pair - {device.id}
            ),
        )
        for device in devices
    )


def bytes_of(size: str) -> int:
    """Reads a size such as ``24GiB``."""
    return int(Fraction(size.removesuffix("GiB")) * GIB)


def _device(kind: str, index: int, card: str) -> Device:
    has_memory = card.endswith("GiB")
    model = NAMES.get(card, "") if has_memory else card.removesuffix("?")
    vendor = "amd" if card == "MI300X" else "nvidia"
    return Device(
        family=vendor,
        kind=kind,
        index=index,
        id=str(index),
        uuid=f"GPU-{chr(ord('a') + index)}{index}00" if kind == "GPU" else None,
        pci=f"0000:{index}b:00.0" if kind == "GPU" else None,
        model=f"{vendor.upper()} {model}" if model else None,
        type=model or None,
        memory=bytes_of(card) if has_memory else None,
        parent="GPU-9" if card == "part" else None,
    )
