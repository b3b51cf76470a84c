"""What a visibility variable says, read as CUDA's driver reads it.

The driver is strict in ways that a ``split(",")`` is not: it stops at the first entry
that it cannot follow, and one repeated entry hides every device. Whoever counts
commas instead grants devices that no framework will ever see, so the rules are kept
here, and every loss comes with a sentence for the user.

The rules: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#env-vars; what the
guide leaves open is settled as PyTorch settles it (``torch/cuda/__init__.py``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_UUID_KINDS = ("GPU-", "MIG-")
# What C's strtoul takes: leading blanks, a sign; the rest of the text is ignored.
_ORDINAL = re.compile(r"\s*([+-]?\d+)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """The devices a visibility variable lets through, in its own order.

    Attributes:
        said: The variable as it was set, for messages: ``CUDA_VISIBLE_DEVICES='0'``.
        entries: What it names: indices in plain decimal (``"1"`` for ``" +1gpu"``), or
            UUIDs as they were written, perhaps shortened. All of one kind, each once.
        reason: Why there is less than was written, or nothing; empty if all is there.
    """

    said: str
    entries: tuple[str, ...]
    reason: str = ""

    @property
    def ordinal(self) -> bool:
        """Whether it names devices by index, and not by UUID."""
        return all(entry.isdecimal() for entry in self.entries)


def read_mask(variable: str, value: str | None) -> Mask | None:
    """Reads a visibility variable, without knowing which devices there are.

    Args:
        variable: Its name, for the reason.
        value: Its value, or None if it is unset.

    Returns:
        None if it is unset: then it hides nothing.
    """
    if value is None:
        return None
    said = f"{variable}={value!r}"
    # The first entry decides what kind of list it is.
    kind = next((kind for kind in _UUID_KINDS if value.startswith(kind)), None)
    texts = value.split(",")
    entries: list[str] = []
    reason = ""
    for place, text in enumerate(texts):
        entry = _entry(kind, text)
        if entry is None:
            # A comma too many at the very end loses nothing.
            if any(lost.strip() for lost in texts[place:]):
                wanted = "index" if kind is None else f"{kind} UUID"
                reason = f"{said} ends before {text!r}, which is no {wanted}"
            break
        if entry in entries:
            return Mask(said=said, entries=(), reason=_void(said, entry))
        entries.append(entry)
    if not entries:
        reason = f"{said} hides every device"
    return Mask(said=said, entries=tuple(entries), reason=reason)


def choose(mask: Mask, uuids: Sequence[str | None]) -> tuple[tuple[int, ...], str]:
    """Finds the devices of one machine that a mask names.

    Args:
        mask: The mask.
        uuids: The machine's devices in the order of their indices; None where the UUID
            is unknown.

    Returns:
        A place in ``uuids`` for each entry that counts, in the mask's order; and why
        there are fewer than were written, or the empty string.
    """
    places: list[int] = []
    for entry in mask.entries:
        matches = _matches(entry, uuids)
        if len(matches) != 1:
            fault = "several devices match" if matches else "there is no such device"
            return tuple(places), f"{mask.said} ends before {entry!r}: {fault}"
        if matches[0] in places:
            return (), _void(mask.said, entry)
        places.append(matches[0])
    return tuple(places), mask.reason


def _entry(kind: str | None, text: str) -> str | None:
    """The entry as the driver takes it, or None if the list ends before it."""
    if kind is not None:
        return text if text.startswith(kind) else None
    match = _ORDINAL.match(text)
    number = int(match[1]) if match else -1
    return str(number) if number >= 0 else None


def _matches(entry: str, uuids: Sequence[str | None]) -> list[int]:
    if entry.isdecimal():
        return [int(entry)] if int(entry) < len(uuids) else []
    return [
        place for place, uuid in enumerate(uuids) if uuid and uuid.startswith(entry)
    ]


def _void(said: str, entry: str) -> str:
    return f"{said} names {entry!r} twice, which hides every device"
