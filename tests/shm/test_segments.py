from __future__ import annotations

import errno
import mmap
import os
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib._shm.allocator import PAGE
from actorlib._shm.segments import (
    ForeignSegment,
    MemoryBudget,
    Segment,
    grown_size,
    read_only_fd,
)
from actorlib._shm.views import ViewToken, view_token_class
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME = b"n" * 12
MIB = 1 << 20


@pytest.fixture
def segment() -> Iterator[Segment]:
    segment = Segment(NAME, 64 * PAGE)
    yield segment
    segment.close()
    del segment._memory  # it has a descriptor of its own while it is mapped


def cost(segment: Segment) -> int:
    """The bytes that the system has given it."""
    return os.fstat(segment.fd).st_blocks * 512


def test_segment_when_it_is_touched_and_trimmed_then_it_costs_what_is_left(
    segment: Segment,
) -> None:
    assert (segment.size, cost(segment)) == (64 * PAGE, 0)
    segment.touch(8 * PAGE)
    touched = cost(segment)
    segment.trim(PAGE + 1)

    assert touched == 8 * PAGE
    assert (segment.touched, cost(segment)) == (2 * PAGE, 2 * PAGE)


@pytest.mark.parametrize("lacks", ["MADV_POPULATE_WRITE", "posix_fallocate"])
def test_segment_when_the_system_is_older_then_it_is_touched_all_the_same(
    segment: Segment, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    monkeypatch.setattr("actorlib._shm.mapping._POPULATE_WRITE", 999_999)
    if lacks == "posix_fallocate":
        monkeypatch.delattr(os, lacks)
    segment.touch(3 * PAGE)

    assert cost(segment) == 3 * PAGE
    assert bytes(segment.writable_part(0, 3 * PAGE)) == bytes(3 * PAGE)


@pytest.mark.parametrize("has_threads", [True, False])
def test_segment_when_much_is_touched_then_each_part_by_whoever_can(
    segment: Segment, monkeypatch: pytest.MonkeyPatch, *, has_threads: bool
) -> None:
    monkeypatch.setattr("actorlib._shm.mapping._LARGE", 2 * PAGE)
    if not has_threads:
        start = Mock(side_effect=RuntimeError("can't start new thread"))
        monkeypatch.setattr(threading.Thread, "start", start)
    segment.touch(8 * PAGE)

    assert (segment.touched, cost(segment)) == (8 * PAGE, 8 * PAGE)


def test_segment_when_the_system_has_no_memory_left_then_an_error_and_no_cost(
    segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment.touch(PAGE)
    fallocate = os.posix_fallocate

    def half(fd: int, start: int, nbytes: int) -> None:
        fallocate(fd, start, nbytes // 2)
        raise OSError("no space left")

    monkeypatch.setattr("actorlib._shm.mapping._POPULATE_WRITE", 999_999)
    monkeypatch.setattr(os, "posix_fallocate", half)
    with pytest.raises(OSError, match="no space"):
        segment.touch(9 * PAGE)

    assert (segment.touched, cost(segment)) == (PAGE, PAGE)


def test_segment_when_it_is_shown_then_what_is_written_is_read(
    segment: Segment,
) -> None:
    segment.touch(2 * PAGE)
    shown = ForeignSegment(os.dup(segment.fd), segment.size)
    assert shown.map()
    segment.writable_part(PAGE, 3)[:] = b"abc"
    part = shown.view(PAGE, 3, ViewToken(b""))
    shown.close()

    assert bytes(part) == b"abc"


def test_segment_when_somebody_cuts_it_then_the_system_refuses(
    segment: Segment,
) -> None:
    with pytest.raises(PermissionError):
        os.ftruncate(segment.fd, PAGE)


def test_segment_when_there_is_no_memfd_then_a_file_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    segment = Segment(NAME, 2 * PAGE)
    segment.touch(PAGE)
    segment.writable_part(0, 3)[:] = b"abc"
    shown = ForeignSegment(os.dup(segment.fd), segment.size)
    shown.map()
    part = shown.view(0, 3, ViewToken(b""))
    shown.close()
    segment.close()

    assert bytes(part) == b"abc"


def test_segment_when_it_cannot_be_mapped_then_no_descriptor_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(OSError, match="allocate"):  # the guard looks for descriptors
        Segment(NAME, PAGE)


def test_shown_when_it_is_no_such_file_then_an_error_and_no_descriptor_is_left() -> (
    None
):
    near, far = socket.socketpair()
    loose = os.memfd_create("loose", os.MFD_ALLOW_SEALING)
    os.ftruncate(loose, 4 * PAGE)  # not sealed: it may be cut
    small = Segment(NAME, PAGE)
    with near, far:
        for fd, size in (
            (os.dup(near.fileno()), PAGE),
            (loose, PAGE),
            (os.dup(small.fd), 2 * PAGE),
            (os.dup(small.fd), 0),
            (os.dup(small.fd), -1),
        ):
            with pytest.raises(ValueError, match="a file without"):
                ForeignSegment(fd, size)
    small.close()


def test_shown_when_a_file_cannot_say_that_it_stays_then_only_whoever_may_is_believed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(PAGE))  # anybody may cut it, and a reader dies of SIGBUS

    ForeignSegment(os.open(path, os.O_RDONLY), PAGE).close()
    with pytest.raises(ValueError, match="a file without"):
        ForeignSegment(os.open(path, os.O_RDONLY), PAGE, is_sealed=True)


def test_readers_when_they_get_a_segment_then_they_cannot_write_to_it(
    segment: Segment,
) -> None:
    segment.touch(PAGE)
    readable = read_only_fd(segment.fd)
    try:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.pwrite(readable, b"x", 0)
        with pytest.raises(PermissionError):
            mmap.mmap(readable, PAGE, mmap.MAP_SHARED, mmap.PROT_WRITE)
        ForeignSegment(os.dup(readable), PAGE, is_sealed=True).close()
    finally:
        os.close(readable)


# The budget.


@pytest.mark.parametrize("place", [0, 16])
@pytest.mark.parametrize("value", [2**64 - 1, 2**63, 2**57])
def test_budget_when_its_counters_hold_nonsense_then_it_says_so_until_it_is_repaired(
    place: int, value: int
) -> None:
    budget = MemoryBudget(10 * MIB)
    budget.add_slot(1)
    assert budget.set_touched(MIB)
    os.pwrite(budget.fd, value.to_bytes(8, sys.byteorder), place)

    with pytest.raises(ProtocolError, match="is invalid"):
        budget.used()
    assert not budget.set_touched(2 * MIB)
    budget.repair()
    assert budget.set_touched(3 * MIB)
    assert budget.used() == 3 * MIB
    budget.close()


@pytest.mark.parametrize("slot", [1, 30, 31, 100])
def test_budget_when_there_are_many_processes_then_all_count(slot: int) -> None:
    budget = MemoryBudget(10 * MIB)
    budget.add_slot(slot)
    other = MemoryBudget(10 * MIB, slot, budget.fd)

    assert other.set_touched(MIB)
    assert budget.used() == MIB
    assert not budget.set_touched(10 * MIB)
    budget.close()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), max_size=40))
def test_budget_when_many_ask_then_never_more_than_the_limit(
    asked: list[tuple[int, int]],
) -> None:
    first = MemoryBudget(10)
    budgets = [first, *(MemoryBudget(10, slot, first.fd) for slot in (1, 2, 3))]
    first.add_slot(3)
    has = [0] * 4

    for slot, touched in asked:
        may = touched <= has[slot] or sum(has) - has[slot] + touched <= 10
        assert budgets[slot].set_touched(touched) is may
        has[slot] = touched if may else has[slot]
        assert first.used() == sum(has) <= 10
    first.clear_slot(2)
    assert first.used() == sum(has) - has[2]
    first.close()


@pytest.mark.parametrize(
    ("touched", "end", "reached"),
    [
        (0, 1, MIB),
        (0, 5 * MIB, 5 * MIB),
        (8 * MIB, 8 * MIB + 1, 10 * MIB),
        (1 << 30, (1 << 30) + 1, (1 << 30) + 64 * MIB),
    ],
)
def test_further_when_memory_is_touched_then_a_bit_more_than_is_needed(
    touched: int, end: int, reached: int
) -> None:
    assert grown_size(touched, end, 4 << 30) == reached
    assert grown_size(touched, end, end) == end


def test_shown_when_it_cannot_be_mapped_then_what_is_read_is_a_copy_that_holds_it(
    segment: Segment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> None:
        raise OSError(errno.ENOMEM, "no more addresses")

    monkeypatch.setattr("actorlib._shm.segments.Mapping", none_left)
    gone: list[bytes] = []
    segment.touch(3 * PAGE)
    segment.writable_part(PAGE, 4)[:] = b"data"
    shown = ForeignSegment(os.dup(segment.fd), segment.size)

    assert not shown.map()
    view = shown.view(PAGE, 4, view_token_class(gone.append)(b"block"))
    segment.writable_part(PAGE, 4)[:] = b"late"
    assert (bytes(view), view.readonly, gone) == (b"data", True, [])
    del view
    assert gone == [b"block"]
    shown.close()
