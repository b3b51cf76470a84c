"""Makes segments of shared memory, maps those of others, and limits what they cost.

A segment is an anonymous file, handed from one process to another.

It has no name, so there is nothing to unlink: the kernel frees it when the last process
that has it is gone, however it went. It is not bounded by the size of /dev/shm
either, which containers keep at 64 MiB. Its size is sealed, and its pages are there
before anything is written, so touching it never ends in SIGBUS.

A segment is large and sparse: it costs what was touched of it. So a process rarely
needs more than one, and others map that one once. What all processes of a runtime have
touched together is kept below a limit by a ``MemoryBudget``, which is a file likewise.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import sys
from typing import TYPE_CHECKING

from actorlib._shm.allocator import BlockAllocator, whole_pages
from actorlib._shm.layout import ALIGNMENT
from actorlib._shm.mapping import READ, Mapping, free_pages, populate_pages
from actorlib._shm.running_calls import CELLS
from actorlib._shm.views import ViewToken, address_of, read_only_view
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Sequence

SEGMENT_SIZE = 1 << 30
"""The bytes of a segment, unless one value is larger."""
_STEP = 1 << 20
_SEALS = 0x1 | 0x2 | 0x4  # F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW
_SLOT = 8
_ROW = CELLS * _SLOT
_READ_AT_ONCE = 32 * _SLOT
_ADDRESSABLE = 1 << 56
"""More bytes than a process can address: who says so has written nonsense."""
_PAGE = mmap.ALLOCATIONGRANULARITY


_OUT_OF_FDS = (
    "this process has as many files open as it may (ulimit -n), and could not take the "
    "memory that the value lies in"
)


class Segment:
    """Owns a segment that this process made: it writes, others read.

    Args:
        name: What it is called by whoever it is shared with.
        nbytes: Its size.

    Attributes:
        name: The same.
        size: The same, in whole pages.
        fd: Its descriptor.
        address: Where it is mapped.
        blocks: Allocates in it.
        touched: The bytes that have cost memory.
        top: The end of the last part that has memory.
        recent_end: The end of the highest block that was allocated or freed since the
            last sweep.
        unused_from: Where what no block was in between the last two sweeps begins.
    """

    def __init__(self, name: bytes, nbytes: int) -> None:
        self.name = name
        self.size = whole_pages(nbytes)
        self.blocks = BlockAllocator(self.size)
        self.touched = self.top = self.recent_end = self.unused_from = 0
        # Without memory, in order. Behind the last block, and after a sweep also in
        # gaps between blocks.
        self._missing: list[tuple[int, int]] = [(0, self.size)]
        self.fd = anonymous_file(self.size)
        try:
            self._memory = mmap.mmap(self.fd, self.size)
        except BaseException:
            os.close(self.fd)
            raise
        self.address = address_of(self._memory)

    def missing(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts between two places that have no memory."""
        missing = self._missing
        if not missing or end <= missing[0][0]:  # the usual case, at hand
            return []
        return _overlap(missing, start, end)

    def touch(self, end: int, start: int = 0) -> None:
        """Makes sure that everything up to an end has memory.

        Raises:
            OSError: The system has none left.
        """
        missing = self.missing(start, end)
        try:
            for begin, stop in missing:
                if not populate_pages(self.address + begin, stop - begin):
                    _allocate(self.fd, begin, stop - begin)
        except OSError:
            for begin, stop in missing:
                free_pages(self.address + begin, stop - begin)  # a part may be there
            raise
        if missing:
            self._set_missing(_without(self._missing, start, end))

    def trim(self, end: int) -> None:
        """Gives the system back what lies behind an end; no block may."""
        end = whole_pages(end) if end else 0
        if end < self.top:
            self.give_back(end, self.top)

    def give_back(self, start: int, end: int) -> bool:
        """Gives the system back what lies between two places; no block may.

        Returns:
            False if the system cannot take it.
        """
        if not free_pages(self.address + start, end - start):
            return False
        missing = [*_without(self._missing, start, end), (start, end)]
        self._set_missing(sorted(missing))
        return True

    def unused_part(self) -> tuple[int, int] | None:
        """The first part that has memory, and that no block was in for a while."""
        start = max(self.unused_from, self.recent_end)
        for gap in _overlap(self.blocks.gaps(), start, self.size):
            parts = [gap]
            for missing in self.missing(*gap):
                parts = _without(parts, *missing)
            if parts:
                return parts[0]
        return None

    def _set_missing(self, missing: list[tuple[int, int]]) -> None:
        joined: list[tuple[int, int]] = []
        for start, end in missing:
            if joined and joined[-1][1] == start:
                joined[-1] = joined[-1][0], end
            else:
                joined.append((start, end))
        self._missing = joined
        start, end = joined[-1] if joined else (0, 0)
        self.top = start if end == self.size else self.size
        self.touched = self.size - sum(end - start for start, end in joined)

    def writable_part(self, start: int, nbytes: int) -> memoryview:
        """A part of the segment, to be written."""
        return memoryview(self._memory)[start : start + nbytes]

    def view(self, start: int, nbytes: int, token: ViewToken) -> memoryview:
        """A part of the segment, to be read; it stays mapped while that lives."""
        return read_only_view(self._memory, self.address + start, nbytes, token, self)

    def map(self) -> bool:
        """Does nothing: a segment of this process is always mapped."""
        return True

    def close(self) -> None:
        """Closes the descriptor; views, and other processes, keep the memory."""
        os.close(self.fd)
        self.fd = -1


class ForeignSegment:
    """Reads a segment that another process made; maps it when it is first read.

    Where there is no room for so many addresses (``ulimit -v``), what is read is copied
    out of the file instead.

    Args:
        fd: Its descriptor; closed by ``close``, and here if it does not hold so much.
            -1 if this process could not open it.
        size: Its bytes.
        is_sealed: Whether only a file is taken of which it is certain that nobody can
            cut it: one on a disk cannot say.

    Attributes:
        fd: The same; -1 when it is closed. Then it can still be read if it is mapped,
            but not be shared with others.
        size: The same.
        address: Where it is mapped.

    Raises:
        ValueError: The descriptor is of no such file, or one that may shrink: reading
            it could end in SIGBUS.
    """

    def __init__(self, fd: int, size: int, *, is_sealed: bool = False) -> None:
        self.fd = fd
        self.size = size
        self._memory: Mapping | None = None
        self.address = 0
        is_known = fd < 0 or (os.fstat(fd).st_size >= size > 0)
        if not is_known or (fd >= 0 and not is_size_sealed(fd, is_strict=is_sealed)):
            os.close(fd)
            raise ValueError(f"a file without {size} bytes that stay")

    def map(self) -> bool:
        """Maps the segment; False if there are no addresses left for so much."""
        if self._memory is None:
            try:
                self._memory = Mapping(self.fd, 0, self.size, READ)
            except OSError:
                return False
            self.address = self._memory.address
        return True

    def view(self, start: int, nbytes: int, token: ViewToken) -> memoryview:
        """A part of the segment; it stays mapped while that lives.

        Raises:
            MemoryError: It is not mapped, and there is no room for a copy either.
            OSError: It is not mapped, and there is no descriptor.
        """
        if self._memory is None:
            if self.fd < 0:
                raise OSError(errno.EMFILE, _OUT_OF_FDS)
            copy = memoryview(bytearray(nbytes + ALIGNMENT))
            skipped = -address_of(copy) % ALIGNMENT
            _read(self.fd, start, copy[skipped : skipped + nbytes])
            return read_only_view(copy, address_of(copy) + skipped, nbytes, token)
        return read_only_view(self._memory, self.address + start, nbytes, token, self)

    def close(self) -> None:
        """Closes the descriptor; views keep the memory."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


class MemoryBudget:
    """Keeps what all processes of a runtime have touched together within a limit.

    Each process writes what it has touched in a slot of a file that all of them have,
    and then looks at all slots: who finds too much takes it back. So there is no lock,
    which a process that was stopped could hold, and never too much; at the worst two
    that want the last bytes at once are both refused.

    Args:
        limit: The bytes.
        slot: Which slot is this process's.
        fd: The file; a new one if it is not given.

    Attributes:
        limit: The same.
        fd: The file.
    """

    SLOTS = 1 << 16
    CALL_CELLS = SLOTS * _SLOT + _PAGE
    """Where the rows of cells begin in which workers note the calls that they run."""

    def __init__(self, limit: int, slot: int = 0, fd: int | None = None) -> None:
        self.limit = limit
        self.fd = (
            anonymous_file(self.CALL_CELLS + self.SLOTS * _ROW) if fd is None else fd
        )
        self._slot = slot
        self._touched = 0
        self._admitted = 0

    def call_cells(self) -> memoryview:
        """The cells of this process for its calls, which outlive the process.

        Raises:
            OSError: The system has no addresses left.
        """
        place = self._slot * _ROW
        page, inside = place // _PAGE * _PAGE, place % _PAGE
        view = memoryview(mmap.mmap(self.fd, _PAGE, offset=self.CALL_CELLS + page))
        return view[inside : inside + _ROW].cast("Q")

    def call_cells_of(self, slot: int, count: int = CELLS) -> Sequence[int]:
        """What the process of a slot has written into the first of its cells."""
        data = os.pread(self.fd, count * _SLOT, self.CALL_CELLS + slot * _ROW)
        return memoryview(data).cast("Q").tolist()

    def set_touched(self, touched: int) -> bool:
        """Writes how much this process has touched, if that is within the limit.

        Returns:
            False if all processes together would have more than the limit: nothing
            was changed.
        """
        before, self._touched = self._touched, touched
        self._write(self._slot, touched)
        if touched > before and not self._is_within():
            self._touched = before
            self._write(self._slot, before)
            return False
        return True

    def add_slot(self, slot: int) -> None:
        """Opens a slot for another process; only the owner does."""
        if slot > self._admitted:
            self._admitted = slot
            self._write_slot_count()

    def repair(self) -> None:
        """Forgets what makes no sense; only the owner does.

        Every process writes anew what it has touched when that changes.
        """
        self._write_slot_count()
        for slot, touched in enumerate(self.slots()):
            if touched > _ADDRESSABLE:
                self._write(slot, 0)

    def clear_slot(self, slot: int) -> None:
        """Empties the slot of a process whose memory is gone."""
        self._write(slot, 0)
        if any(self.call_cells_of(slot)):  # most have written none, and have no memory
            os.pwrite(self.fd, bytes(_ROW), self.CALL_CELLS + slot * _ROW)

    def used(self) -> int:
        """The bytes that all processes have touched.

        Raises:
            ProtocolError: What they say makes no sense: one of them has written where
                it should not.
        """
        slots = self.slots()
        most = max(slots)
        if most > _ADDRESSABLE:
            raise ProtocolError(
                "the budget of shared memory makes no sense: process "
                f"{slots.index(most)} says that it has touched {most:,} bytes"
            )
        return sum(slots)

    def slots(self) -> list[int]:
        """The bytes that each process says it has touched, by its slot.

        Raises:
            ProtocolError: What is said makes no sense.
        """
        # The number of slots with the first of them: most runtimes have no more.
        data = os.pread(self.fd, _READ_AT_ONCE, 0)
        last = int.from_bytes(data[:_SLOT], sys.byteorder)
        if last >= self.SLOTS:
            raise ProtocolError(
                f"the budget of shared memory makes no sense: {last:,} processes are "
                f"said to share it, and there is room for {self.SLOTS:,}"
            )
        end = (last + 2) * _SLOT
        if end > _READ_AT_ONCE:
            data = os.pread(self.fd, end, 0)
        return memoryview(data)[_SLOT:end].cast("Q").tolist()

    def close(self) -> None:
        """Closes the file here."""
        os.close(self.fd)

    def _is_within(self) -> bool:
        try:
            return self.used() <= self.limit
        except ProtocolError:  # who cannot know how much there is takes nothing
            return False

    def _write_slot_count(self) -> None:
        os.pwrite(self.fd, self._admitted.to_bytes(_SLOT, sys.byteorder), 0)

    def _write(self, slot: int, touched: int) -> None:
        os.pwrite(self.fd, touched.to_bytes(_SLOT, sys.byteorder), (slot + 1) * _SLOT)


def _overlap(
    ranges: list[tuple[int, int]], start: int, end: int
) -> list[tuple[int, int]]:
    """What lies between two places, of ranges in order."""
    return [(max(a, start), min(b, end)) for a, b in ranges if a < end and b > start]


def _without(
    ranges: list[tuple[int, int]], start: int, end: int
) -> list[tuple[int, int]]:
    """What lies not between two places, of ranges in order."""
    size = max(end, ranges[-1][1]) if ranges else end
    return _overlap(ranges, 0, start) + _overlap(ranges, end, size)


def grown_size(touched: int, end: int, size: int) -> int:
    """Says how far to touch a segment that has to reach an end: a bit further.

    So small values do not cost a system call each.
    """
    ahead = touched + min(max(_STEP, touched // 4), 64 * _STEP)
    return min(-(-max(end, ahead) // _STEP) * _STEP, size)


def anonymous_file(nbytes: int) -> int:
    """Makes a file without a name, of so many bytes that cost nothing yet.

    Raises:
        OSError: There can be none.
    """
    try:
        fd = os.memfd_create("actorlib", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except (AttributeError, OSError):  # another system, or a sandbox
        import tempfile  # noqa: PLC0415  # it brings three packers, and is seldom asked

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        os.ftruncate(fd, nbytes)
        with contextlib.suppress(AttributeError, OSError):
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _read(fd: int, start: int, into: memoryview) -> None:
    """Reads a part of a file that cannot be mapped."""
    while into:
        count = os.preadv(fd, [into], start)
        if not count:
            raise EOFError("a segment is shorter than it was said to be")
        start, into = start + count, into[count:]


def is_size_sealed(fd: int, *, is_strict: bool) -> bool:
    """Whether a file can never shrink.

    Args:
        fd: The file.
        is_strict: Whether a file that cannot say, as one on a disk, counts as one that
            can shrink.
    """
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except (AttributeError, OSError):
        return not is_strict
    return seals & _SEALS == _SEALS


def read_only_fd(fd: int) -> int:
    """Opens a file again, for reading alone where the system can do that.

    What is written through one that another process gave would be seen by everybody.

    Raises:
        OSError: This process may not open any more files.
    """
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):  # another system
        return os.dup(fd)


def _allocate(fd: int, start: int, nbytes: int) -> None:
    """Has the system give a file its memory.

    Raises:
        OSError: There is none left.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, start, nbytes)
        return
    for place in range(start, start + nbytes, _STEP):
        os.pwrite(fd, bytes(min(_STEP, start + nbytes - place)), place)
