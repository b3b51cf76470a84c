"""Reads visibility variables as the vendors' own software does.

CUDA's driver is strict in ways that a ``split(",")`` is not: it stops at the first
entry that it cannot follow, and one repeated entry hides every device. Whoever counts
commas instead grants devices that no framework will ever see, so the rules are kept
here, and every loss comes with a sentence for the user.

CUDA's rules: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#env-vars; what the
guide leaves open is settled as PyTorch settles it (``torch/cuda/__init__.py``). The
other vendors document less. They are read with the same care (a list ends before what
it cannot mean; ``NoDevFiles``, as Slurm writes it, and ``-1`` hide everything), and a
family that differs says so in its ``Syntax``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from actorlib._base.public import public
from actorlib._base.value import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_UUID_KINDS = ("GPU-", "MIG-")
# What C's strtoul takes: leading blanks, a sign; the rest of the text is ignored.
_ORDINAL = re.compile(r"\s*([+-]?\d{1,20})", re.ASCII)
_NUMBER = re.compile(r"\s*(\d{1,20})\s*", re.ASCII)
"""No device has a longer one, and Python refuses to read a very long one."""


@public("actorlib.accelerators")
@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax:
    """How a visibility variable is written.

    Attributes:
        wanted: What an entry is, for messages, for example ``"index"``.
        read: The entries that one piece between commas stands for (several for a
            range), or None if the list ends before it. It is given the first piece as
            well, for lists whose kind that decides.
        is_void_by_repeating: Whether one entry named twice hides every device; if not,
            the second time counts for nothing.
    """

    wanted: str
    read: Callable[[str, str], Sequence[str] | None]
    is_void_by_repeating: bool = False


@public("actorlib.accelerators")
@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """The devices a visibility variable lets through, in its own order.

    Attributes:
        said: The variable as it was set, for messages: ``CUDA_VISIBLE_DEVICES='0'``.
        entries: What it names: indices in plain decimal (``"1"`` for ``" +1gpu"``), or
            UUIDs as they were written, perhaps shortened. Each once.
        reason: Why there is less than was written, or nothing; empty if all is there.
        is_void_by_repeating: As its syntax says.
    """

    said: str
    entries: tuple[str, ...]
    reason: str = ""
    is_void_by_repeating: bool = False

    @property
    def ordinal(self) -> bool:
        """Whether it names devices by index, and not by UUID."""
        return all(entry.isdecimal() for entry in self.entries)


def number(text: str) -> str | None:
    """Reads a plain decimal number, without leading zeros and blanks; else None."""
    match = _NUMBER.fullmatch(text)
    return str(int(match[1])) if match else None


def _plain(text: str, _: str) -> Sequence[str] | None:
    found = number(text)
    return None if found is None else (found,)


def _cuda(text: str, first: str) -> Sequence[str] | None:
    # The first entry decides what kind of list it is.
    kind = next((kind for kind in _UUID_KINDS if first.startswith(kind)), None)
    if kind is not None:
        return (text,) if text.startswith(kind) else None
    match = _ORDINAL.match(text)
    ordinal = int(match[1]) if match else -1
    return (str(ordinal),) if ordinal >= 0 else None


PLAIN = Syntax(wanted="index", read=_plain)
"""Indices between commas."""

CUDA = Syntax(wanted="index or UUID", read=_cuda, is_void_by_repeating=True)
"""Indices, or UUIDs of one kind, as CUDA's driver takes them."""


def read_mask(variable: str, value: str | None, syntax: Syntax = PLAIN) -> Mask | None:
    """Reads a visibility variable, without knowing which devices there are.

    Args:
        variable: Its name, for the reason.
        value: Its value, or None if it is unset.
        syntax: How it is written.

    Returns:
        None if it is unset: then it hides nothing.
    """
    if value is None:
        return None
    said = f"{variable}={value!r}"
    texts = value.split(",")
    entries: dict[str, None] = {}
    reason = ""
    for place, text in enumerate(texts):
        named = syntax.read(text, texts[0])
        if named is None:
            # A comma too many at the very end loses nothing.
            if any(lost.strip() for lost in texts[place:]):
                reason = f"{said} ends before {text!r}, which is no {syntax.wanted}"
            break
        repeated = next((entry for entry in named if entry in entries), None)
        if repeated is not None:
            if syntax.is_void_by_repeating:
                return Mask(said=said, entries=(), reason=_void(said, repeated))
            reason = f"{said} names {repeated!r} twice, which counts once"
        entries.update(dict.fromkeys(named))
    if not entries:
        reason = f"{said} hides every device"
    return Mask(
        said=said,
        entries=tuple(entries),
        reason=reason,
        is_void_by_repeating=syntax.is_void_by_repeating,
    )


def choose(mask: Mask, names: Sequence[Sequence[str]]) -> tuple[tuple[int, ...], str]:
    """Finds the devices of one machine that a mask names.

    Args:
        mask: The mask.
        names: The machine's devices in order, each by what it may be called: numbers
            have to be equal, anything else may be shortened while it names one device
            alone. A device without a name is never chosen.

    Returns:
        A place in ``names`` for each entry that counts, in the mask's order; and why
        there are fewer than were written, or the empty string.
    """
    places: list[int] = []
    for entry in mask.entries:
        matches = [place for place, known in enumerate(names) if _means(entry, known)]
        if len(matches) != 1:
            fault = "several devices match" if matches else "there is no such device"
            return tuple(places), f"{mask.said} ends before {entry!r}: {fault}"
        if matches[0] in places:
            if mask.is_void_by_repeating:
                return (), _void(mask.said, entry)
            return tuple(places), f"{mask.said} ends before {entry!r}: named before"
        places.append(matches[0])
    return tuple(places), mask.reason


def _means(entry: str, names: Sequence[str]) -> bool:
    if entry.isdecimal():
        return entry in names
    return any(name.startswith(entry) for name in names if not name.isdecimal())


def _void(said: str, entry: str) -> str:
    return f"{said} names {entry!r} twice, which hides every device"
