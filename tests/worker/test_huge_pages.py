"""Which memory of a template goes into huge pages, and that it stays what it was."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from helpers.program_runner import printed_by

from actorlib._worker.template.huge_pages import SIZE, pieces, runs

AREAS = """\
00400000-00c00000 r-xp 00000000 fe:00 11  /usr/bin/python3
00c00000-01200000 rw-p 00000000 fe:00 11  /usr/bin/python3
01300000-01a00000 rw-p 00000000 00:00 0  [heap]
7f0000000000-7f0000500000 rw-p 00000000 00:00 0
7f0000600000-7f0000900000 ---p 00000000 00:00 0
7f0000a00000-7f0000b00000 rw-p 00000000 00:00 0
7f0000c00000-7f0001000000 rw-s 00000000 00:01 5  /memfd:shared (deleted)
7ffc00000000-7ffc00400000 rw-p 00000000 00:00 0  [stack]
"""

PROGRAM = """
import re
from actorlib._worker.template.huge_pages import SIZE, collapse_heap

def huge():
    with open("/proc/self/smaps_rollup") as memory:
        return int(re.search(r"AnonHugePages: +([0-9]+)", memory.read())[1]) * 1024

small = collapse_heap()
blocks = [bytes([n % 251]) * 400 for n in range(400_000)]
number = collapse_heap()
assert all(block == bytes([n % 251]) * 400 for n, block in enumerate(blocks))
print(small, number, number * SIZE <= huge())
"""


def test_pieces_when_areas_are_of_many_kinds_then_they_are_private_and_whole() -> None:
    assert list(pieces(AREAS)) == [
        *(0x1400000, 0x1600000, 0x1800000),
        *(0x7F0000000000, 0x7F0000200000),
    ]


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([], []),
        ([3], [(3, 1)]),
        ([3, 4, 6, 8, 9, 10], [(3, 2), (6, 1), (8, 3)]),
    ],
)
def test_runs_when_pieces_lie_side_by_side_then_they_are_one(
    starts: list[int], expected: list[tuple[int, int]]
) -> None:
    found = runs([start * SIZE for start in starts])
    assert [(start // SIZE, size // SIZE) for start, size in found] == expected


def _has_huge_pages() -> bool:
    switch = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    known = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) >= (6, 1)
    return known and switch.exists() and "[never]" not in switch.read_text()


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="the template is for Linux")
@pytest.mark.thorough
def test_heap_when_it_is_large_then_it_is_in_huge_pages_and_the_same() -> None:
    small, number, is_huge = printed_by(PROGRAM).split()
    assert small == "0"
    assert is_huge == "True"
    # The system may have no memory of that kind left.
    assert int(number) > 0 or not _has_huge_pages()
