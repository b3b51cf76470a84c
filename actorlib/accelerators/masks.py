"""Reads visibility variables as the vendors' own software does.

CUDA's driver is stricter than a ``split(",")``: it stops at the first entry that it
does not understand, and one repeated entry hides every device. A program that counts
commas instead grants devices that no framework will ever see. So the rules are
implemented here, and every loss has a sentence for the user.

CUDA's rules: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#env-vars; where the
guide is silent, PyTorch decides (``torch/cuda/__init__.py``). The other vendors
document less. Their variables are read with the same care (a list ends before an
invalid entry; ``NoDevFiles``, as Slurm writes it, and ``-1`` hide everything), and a
family with other rules has its own ``Syntax``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from actorlib._base.public import public
from actorlib._base.value import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_UUID_KINDS = ("GPU-", "MIG-")
# As C's strtoul: leading blanks, a sign; the rest of the text is ignored.
_ORDINAL = re.compile(r"\s*([+-]?\d{1,20})", re.ASCII)
_NUMBER = re.compile(r"\s*(\d{1,20})\s*", re.ASCII)
"""Device numbers are shorter, and Python refuses to read a very long number."""


@public("actorlib.accelerators")
@dataclass(frozen=True, slots=True, kw_only=True)
class Syntax:
    """How a visibility variable is written.

    Attributes:
        wanted: The name of an entry in messages, for example ``"index"``.
        read: Returns the entries for one piece between commas (several for a range), or
            None if the list ends before it. It also gets the first piece, for lists
            whose form that decides.
        is_void_by_repeating: Whether one entry named twice hides every device; if not,
            the second time is ignored.
    """

    wanted: str
    read: Callable[[str, str], Sequence[str] | None]
    is_void_by_repeating: bool = False


@public("actorlib.accelerators")
@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """The devices that a visibility variable shows, in its own order.

    Attributes:
        said: The variable as it was set, for messages: ``CUDA_VISIBLE_DEVICES='0'``.
        entries: Its entries: indices in plain decimal (``"1"`` for ``" +1gpu"``), or
            UUIDs as they were written, maybe shortened. Each once.
        reason: Why there are fewer entries than were written; else empty.
        is_void_by_repeating: As its syntax says.
    """

    said: str
    entries: tuple[str, ...]
    reason: str = ""
    is_void_by_repeating: bool = False

    @property
    def ordinal(self) -> bool:
        """Whether all its entries are indices."""
        return all(entry.isdecimal() for entry in self.entries)


def number(text: str) -> str | None:
    """Reads a plain decimal number without leading zeros and blanks; else None."""
    match = _NUMBER.fullmatch(text)
    return str(int(match[1])) if match else None


def _plain(text: str, _: str) -> Sequence[str] | None:
    index = number(text)
    return None if index is None else (index,)


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
"""Indices, or UUIDs of one kind, as CUDA's driver reads them."""


def read_mask(variable: str, value: str | None, syntax: Syntax = PLAIN) -> Mask | None:
    """Reads a visibility variable, without knowledge of the machine's devices.

    Args:
        variable: Its name, for the reason.
        value: Its value, or None if it is unset.
        syntax: How it is written.

    Returns:
        None if it is unset: then it hides nothing.
    """
    if value is None:
        return None
    assignment = f"{variable}={value!r}"
    texts = value.split(",")
    entries: dict[str, None] = {}
    reason = ""
    for place, text in enumerate(texts):
        named = syntax.read(text, texts[0])
        if named is None:
            # A trailing comma loses nothing.
            if any(lost.strip() for lost in texts[place:]):
                reason = (
                    f"{assignment} ends before {text!r}, which is no {syntax.wanted}"
                )
            break
        repeated = next((entry for entry in named if entry in entries), None)
        if repeated is not None:
            if syntax.is_void_by_repeating:
                reason = _void(assignment, repeated)
                return Mask(said=assignment, entries=(), reason=reason)
            reason = f"{assignment} names {repeated!r} twice, which counts once"
        entries.update(dict.fromkeys(named))
    if not entries:
        reason = f"{assignment} hides every device"
    return Mask(
        said=assignment,
        entries=tuple(entries),
        reason=reason,
        is_void_by_repeating=syntax.is_void_by_repeating,
    )


def choose(mask: Mask, names: Sequence[Sequence[str]]) -> tuple[tuple[int, ...], str]:
    """Returns the devices of one machine that a mask names.

    Args:
        mask: The mask.
        names: The names of the machine's devices, in order. Numbers have to be equal;
            other names may be shortened while they match one device. A device without a
            name is never chosen.

    Returns:
        A place in ``names`` for each valid entry, in the mask's order; and why there
        are fewer than were written, or the empty string.
    """
    places: list[int] = []
    for entry in mask.entries:
        matches = [place for place, own in enumerate(names) if _means(entry, own)]
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


def _void(assignment: str, entry: str) -> str:
    return f"{assignment} names {entry!r} twice, which hides every device"
