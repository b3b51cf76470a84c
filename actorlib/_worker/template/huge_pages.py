"""Puts the heap of a large template into huge pages, so that a fork copies less.

A fork copies an entry for each page of the heap, 4 KiB, and the end of the child takes
it away again: 60 us for each MiB, whether the child looks at it or not. One entry may
stand for 2 MiB. The kernel takes it apart when somebody writes into those, which costs
what the fork would have cost, and copies the one page that is written: no memory is
taken that was not taken before.

Of a small heap, the workers write into every part: there is nothing to be gained.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 2 << 20
"""Bytes of a huge page; where they are larger, nothing is changed."""

_PAGE = 4096
_PAGES = SIZE // _PAGE
_MOST_MISSING = _PAGES // 16
_COLLAPSE = 25  # MADV_COLLAPSE, since Linux 6.1; unknown elsewhere, and an error
_ENOUGH = 16
"""How many huge pages a heap is worth: 32 MiB, twice what every template has."""
_SWITCH = "/sys/kernel/mm/transparent_hugepage/enabled"


def collapse_heap() -> int:
    """Puts what this process has in memory into huge pages; gives how many those are.

    It takes about a millisecond for each. Where the system has none, or has switched
    them off, nothing is done.
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
    found = [start for start in pieces(areas) if _is_full(look, start)]
    if len(found) < _ENOUGH:
        return 0
    done = 0
    for start, size in runs(found):
        if collapse(ctypes.c_void_p(start), ctypes.c_size_t(size), _COLLAPSE) == 0:
            done += size // SIZE
    return done


def pieces(areas: str) -> Iterator[int]:
    """Gives the addresses of pieces of private memory that fit into a huge page.

    Args:
        areas: What the kernel says of the areas of a process: ``/proc/self/maps``.
    """
    for line in areas.splitlines():
        bounds, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights == "rw-p" and name in ([], ["[heap]"]):
            start, end = (int(bound, 16) for bound in bounds.split("-"))
            yield from range(-(-start // SIZE) * SIZE, end // SIZE * SIZE, SIZE)


def runs(pieces: list[int]) -> Iterator[tuple[int, int]]:
    """Gives the addresses and the sizes of what lies side by side.

    Each time that it is asked, the kernel first has every CPU finish something.

    Args:
        pieces: The addresses of huge pages, in order.
    """
    begin = 0
    for index, start in enumerate(pieces, 1):
        if index == len(pieces) or pieces[index] != start + SIZE:
            yield pieces[begin], start + SIZE - pieces[begin]
            begin = index


def _is_full(look: Any, start: int) -> bool:
    """Whether nearly all of a piece is in memory: the rest would be from then on."""
    found = ctypes.create_string_buffer(_PAGES)
    at, size = ctypes.c_void_p(start), ctypes.c_size_t(SIZE)
    return look(at, size, found) == 0 and found.raw.count(0) <= _MOST_MISSING
