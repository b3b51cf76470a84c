"""Touches memory before anything is timed, so that no figure pays for the machine's.

A virtual machine has a page from its host when it writes to it for the first time,
which takes eight times as long as a page that it has had before (12 us instead of 1.5
on the machine of the published figures). Whoever needs more memory than anybody before
pays for that: the last hundred of a thousand actors, and not the first. What was
touched once is the machine's, also when it is free again.
"""

import mmap
import re
from pathlib import Path
from typing import Final

_PIECE: Final = bytes(2**20)
_MOST: Final = 0.8
"""The share of the available memory that may be touched."""


def touch(nbytes: int) -> None:
    """Writes to so much memory, or to as much as is there to spare, and frees it."""
    pieces = int(min(nbytes, _MOST * _available())) // len(_PIECE)
    if pieces:
        with mmap.mmap(-1, pieces * len(_PIECE)) as memory:
            for _ in range(pieces):
                memory.write(_PIECE)


def _available() -> float:
    """The bytes that programs can have without others losing theirs; 0 if unknown."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return 0.0
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", text, re.MULTILINE)
    return float(found[1]) * 1024 if found else 0.0
