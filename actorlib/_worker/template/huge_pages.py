"""Puts the heap of a large template into huge pages, so that a fork copies less.

A fork copies one page table entry for each 4 KiB page of the heap, and the end of the
child removes it: 60 us per MiB, even if the child never uses it. A huge page has one
entry for 2 MiB. A write splits the huge page, which costs as much as the fork would
have cost, and copies the single page that is written. No additional memory is used.

Workers write into every part of a small heap, so nothing would be gained there.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 2 << 20
"""Bytes of a huge page; on machines with larger ones nothing changes."""

_PAGE = 4096
_PAGES = SIZE // _PAGE
_MOST_MISSING = _PAGES // 16
_COLLAPSE = 25  # MADV_COLLAPSE, since Linux 6.1; unknown elsewhere, and an error
_ENOUGH = 16
"""The smallest heap, in huge pages: 32 MiB, twice the heap of a small template."""
_SWITCH = "/sys/kernel/mm/transparent_hugepage/enabled"


def collapse_heap() -> int:
    """Moves the memory of this process into huge pages; returns their number.

    Each takes about a millisecond. Does nothing if the system has no huge pages or has
    switched them off.
    """
    try:
        with open(_SWITCH) as switch, open("/proc/self/maps") as maps:  # noqa: PTH123  # no pathlib in the template
            if "[never]" in switch.read():
                return 0
            areas = maps.read()
        libc: Any = ctypes.CDLL(None)
        collapse, look = libc.madvise, libc.mincore
    except (OSError, AttributeError):
        return 0
    starts = [start for start in pieces(areas) if _is_full(look, start)]
    if len(starts) < _ENOUGH:
        return 0
    count = 0
    for start, size in runs(starts):
        if collapse(ctypes.c_void_p(start), ctypes.c_size_t(size), _COLLAPSE) == 0:
            count += size // SIZE
    return count


def pieces(areas: str) -> Iterator[int]:
    """Yields the addresses of pieces of private memory that fit a huge page.

    The memory areas are as in ``/proc/self/maps``.
    """
    for line in areas.splitlines():
        bounds, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights == "rw-p" and name in ([], ["[heap]"]):
            start, end = (int(bound, 16) for bound in bounds.split("-"))
            yield from range(-(-start // SIZE) * SIZE, end // SIZE * SIZE, SIZE)


def runs(pieces: list[int]) -> Iterator[tuple[int, int]]:
    """Yields the address and the size of each run of adjacent pieces.

    The kernel interrupts every CPU for each request, so adjacent pieces are requested
    together.
    """
    begin = 0
    for index, start in enumerate(pieces, 1):
        if index == len(pieces) or pieces[index] != start + SIZE:
            yield pieces[begin], start + SIZE - pieces[begin]
            begin = index


def _is_full(look: Any, start: int) -> bool:
    """Whether nearly all of a piece is in memory: the rest will be, too, afterwards."""
    residency = ctypes.create_string_buffer(_PAGES)
    at, size = ctypes.c_void_p(start), ctypes.c_size_t(SIZE)
    return look(at, size, residency) == 0 and residency.raw.count(0) <= _MOST_MISSING
