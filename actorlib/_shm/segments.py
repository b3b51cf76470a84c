"""Makes segments of shared memory, maps those of others, and limits their memory.

A segment is an anonymous file, sent from one process to another. It has no name, so it
needs no unlinking: the kernel frees it after the end of the last process that has it,
however that process ended. The size of /dev/shm, 64 MiB in containers, does not limit
it. Its size is sealed, and its pages are allocated before any data is written, so
access to it never ends in SIGBUS.

A segment is large and sparse: it costs the memory that was touched. So a process rarely
needs more than one, and others map that one once. A ``MemoryBudget``, which is a file
too, keeps the memory touched by all processes of a runtime below a limit.
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
"""More bytes than a process can address: a larger number in the budget is invalid."""
_PAGE = mmap.ALLOCATIONGRANULARITY


_OUT_OF_FDS = (
    "this process has as many open files as it may (ulimit -n), and could not open the "
    "memory that contains the value"
)


class Segment:
    """A segment that this process made: this process writes, others read.

    Attributes:
        size: Its size, in whole pages.
        touched: The bytes that have memory.
        top: The end of the last part that has memory.
        recent_end: The end of the highest block that was allocated or freed since the
            last sweep.
        unused_from: The start of the part without a block between the last two sweeps.
    """

    def __init__(self, name: bytes, nbytes: int) -> None:
        self.name = name
        self.size = whole_pages(nbytes)
        self.blocks = BlockAllocator(self.size)
        self.touched = self.top = self.recent_end = self.unused_from = 0
        # The parts without memory, in order. They lie after the last block and, after a
        # sweep, in gaps between blocks.
        self._missing: list[tuple[int, int]] = [(0, self.size)]
        self.fd = anonymous_file(self.size)
        try:
            self._memory = mmap.mmap(self.fd, self.size)
        except BaseException:
            os.close(self.fd)
            raise
        self.address = address_of(self._memory)

    def missing(self, start: int, end: int) -> list[tuple[int, int]]:
        """Lists the parts between two positions that have no memory."""
        missing = self._missing
        if not missing or end <= missing[0][0]:  # the usual case
            return []
        return _overlap(missing, start, end)

    def touch(self, end: int, start: int = 0) -> None:
        """Allocates the memory of all bytes between two positions."""
        missing = self.missing(start, end)
        try:
            for begin, stop in missing:
                if not populate_pages(self.address + begin, stop - begin):
                    _allocate(self.fd, begin, stop - begin)
        except OSError:
            for begin, stop in missing:
                free_pages(self.address + begin, stop - begin)  # in case of a part
            raise
        if missing:
            self._set_missing(_without(self._missing, start, end))

    def trim(self, end: int) -> None:
        """Returns the memory after an end to the system; no block may lie there."""
        end = whole_pages(end) if end else 0
        if end < self.top:
            self.give_back(end, self.top)

    def give_back(self, start: int, end: int) -> bool:
        """Returns memory without a block to the system; False if that fails."""
        if not free_pages(self.address + start, end - start):
            return False
        missing = [*_without(self._missing, start, end), (start, end)]
        self._set_missing(sorted(missing))
        return True

    def unused_part(self) -> tuple[int, int] | None:
        """Returns the first part with memory that had no block between two sweeps."""
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
        return memoryview(self._memory)[start : start + nbytes]

    def view(self, start: int, nbytes: int, token: ViewToken) -> memoryview:
        """Returns a read-only view of a part; it keeps the segment mapped."""
        return read_only_view(self._memory, self.address + start, nbytes, token, self)

    def map(self) -> bool:
        """Does nothing: a segment of this process is always mapped."""
        return True

    def close(self) -> None:
        """Closes the descriptor; views and other processes keep the memory."""
        os.close(self.fd)
        self.fd = -1


class ForeignSegment:
    """A segment that another process made; mapped when it is first read.

    Where there are not enough addresses (``ulimit -v``), the values that are read are
    copied out of the file instead.

    Args:
        is_sealed: Whether the file must be sealed, so that no process can shrink it. A
            file on a disk cannot prove that.

    Attributes:
        fd: Its descriptor; closed by ``close``, and by the constructor if the file is
            too small. -1 if this process could not open it, or after it was closed.
            Then it can still be read if it is mapped, but not shared with others.

    Raises:
        ValueError: The descriptor is of no such file, or of one that may shrink:
            reading it could end in SIGBUS.
    """

    def __init__(self, fd: int, size: int, *, is_sealed: bool = False) -> None:
        self.fd = fd
        self.size = size
        self._memory: Mapping | None = None
        self.address = 0
        is_large_enough = fd < 0 or (os.fstat(fd).st_size >= size > 0)
        if not is_large_enough or (
            fd >= 0 and not is_size_sealed(fd, is_strict=is_sealed)
        ):
            os.close(fd)
            raise ValueError(f"a file without {size} permanent bytes")

    def map(self) -> bool:
        """Maps the segment; False if there are not enough addresses."""
        if self._memory is None:
            try:
                self._memory = Mapping(self.fd, 0, self.size, READ)
            except OSError:
                return False
            self.address = self._memory.address
        return True

    def view(self, start: int, nbytes: int, token: ViewToken) -> memoryview:
        """Returns a view of a part of the segment; it keeps the segment mapped.

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
    """Keeps the memory touched by all processes of a runtime within a limit.

    Each process writes its touched bytes into a slot of a shared file, and then reads
    all slots. A process that finds a larger sum than the limit reverts its write. So
    there is no lock, which a stopped process could hold, and the sum never exceeds the
    limit. In the worst case two processes that want the last bytes at once are both
    refused.

    Args:
        fd: The file. Default: None, for a new one.
    """

    SLOTS = 1 << 16
    CALL_CELLS = SLOTS * _SLOT + _PAGE
    """The offset of the cells in which workers record their running calls."""

    def __init__(self, limit: int, slot: int = 0, fd: int | None = None) -> None:
        self.limit = limit
        self.fd = (
            anonymous_file(self.CALL_CELLS + self.SLOTS * _ROW) if fd is None else fd
        )
        self._slot = slot
        self._touched = 0
        self._admitted = 0

    def call_cells(self) -> memoryview:
        """Returns the cells of this process for its calls, which outlive it."""
        place = self._slot * _ROW
        page, inside = place // _PAGE * _PAGE, place % _PAGE
        view = memoryview(mmap.mmap(self.fd, _PAGE, offset=self.CALL_CELLS + page))
        return view[inside : inside + _ROW].cast("Q")

    def call_cells_of(self, slot: int, count: int = CELLS) -> Sequence[int]:
        data = os.pread(self.fd, count * _SLOT, self.CALL_CELLS + slot * _ROW)
        return memoryview(data).cast("Q").tolist()

    def set_touched(self, touched: int) -> bool:
        """Writes how many bytes this process has touched.

        Returns False, and changes nothing, if all together would exceed the limit.
        """
        before, self._touched = self._touched, touched
        self._write(self._slot, touched)
        if touched > before and not self._is_within():
            self._touched = before
            self._write(self._slot, before)
            return False
        return True

    def add_slot(self, slot: int) -> None:
        """Opens a slot for another process; only the owner calls this."""
        if slot > self._admitted:
            self._admitted = slot
            self._write_slot_count()

    def repair(self) -> None:
        """Clears invalid slots; only the owner calls this.

        Every process writes its touched bytes again at their next change.
        """
        self._write_slot_count()
        for slot, touched in enumerate(self.slots()):
            if touched > _ADDRESSABLE:
                self._write(slot, 0)

    def clear_slot(self, slot: int) -> None:
        """Clears the slot of a process whose memory is gone."""
        self._write(slot, 0)
        # Most processes have written none, and a write would allocate memory.
        if any(self.call_cells_of(slot)):
            os.pwrite(self.fd, bytes(_ROW), self.CALL_CELLS + slot * _ROW)

    def used(self) -> int:
        """Returns the bytes that all processes have touched.

        Raises ProtocolError if a process has written where it should not.
        """
        slots = self.slots()
        most = max(slots)
        if most > _ADDRESSABLE:
            raise ProtocolError(
                "the budget of shared memory is invalid: process "
                f"{slots.index(most)} has reported {most:,} touched bytes"
            )
        return sum(slots)

    def slots(self) -> list[int]:
        """Returns the touched bytes of each process, by its slot."""
        # The number of slots and the first slots: most runtimes need only this read.
        data = os.pread(self.fd, _READ_AT_ONCE, 0)
        last = int.from_bytes(data[:_SLOT], sys.byteorder)
        if last >= self.SLOTS:
            raise ProtocolError(
                f"the budget of shared memory is invalid: it has {last:,} processes, "
                f"and there is room for {self.SLOTS:,}"
            )
        end = (last + 2) * _SLOT
        if end > _READ_AT_ONCE:
            data = os.pread(self.fd, end, 0)
        return memoryview(data)[_SLOT:end].cast("Q").tolist()

    def close(self) -> None:
        os.close(self.fd)

    def _is_within(self) -> bool:
        try:
            return self.used() <= self.limit
        except ProtocolError:  # without a known sum no process may touch more
            return False

    def _write_slot_count(self) -> None:
        os.pwrite(self.fd, self._admitted.to_bytes(_SLOT, sys.byteorder), 0)

    def _write(self, slot: int, touched: int) -> None:
        os.pwrite(self.fd, touched.to_bytes(_SLOT, sys.byteorder), (slot + 1) * _SLOT)


def _overlap(
    ranges: list[tuple[int, int]], start: int, end: int
) -> list[tuple[int, int]]:
    """Returns the parts of sorted ranges that lie between two positions."""
    return [(max(a, start), min(b, end)) for a, b in ranges if a < end and b > start]


def _without(
    ranges: list[tuple[int, int]], start: int, end: int
) -> list[tuple[int, int]]:
    """Returns the parts of sorted ranges that do not lie between two positions."""
    size = max(end, ranges[-1][1]) if ranges else end
    return _overlap(ranges, 0, start) + _overlap(ranges, end, size)


def grown_size(touched: int, end: int, size: int) -> int:
    """Returns how far to touch a segment that has to reach an end: a bit further.

    So small values do not cost a system call each.
    """
    ahead = touched + min(max(_STEP, touched // 4), 64 * _STEP)
    return min(-(-max(end, ahead) // _STEP) * _STEP, size)


def anonymous_file(nbytes: int) -> int:
    """Creates a file without a name, of a size that costs no memory yet."""
    try:
        fd = os.memfd_create("actorlib", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except (AttributeError, OSError):  # another system, or a sandbox
        import tempfile  # noqa: PLC0415  # rarely needed, and it imports three compression modules

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
            raise EOFError("a segment is shorter than its reported size")
        start, into = start + count, into[count:]


def can_seal() -> bool:
    """Whether this process can make files that never shrink."""
    try:
        fd = anonymous_file(1)
    except OSError:
        return False
    try:
        return is_size_sealed(fd, is_strict=True)
    finally:
        os.close(fd)


def is_size_sealed(fd: int, *, is_strict: bool) -> bool:
    """Whether a file can never shrink.

    With ``is_strict`` a file without seals, such as one on a disk, counts as one that
    can.
    """
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except (AttributeError, OSError):
        return not is_strict
    return seals & _SEALS == _SEALS


def read_only_fd(fd: int) -> int:
    """Opens a file again, read-only where the system can do that.

    A write through another process's descriptor would be visible to all processes.

    Raises:
        OSError: This process may not open more files.
    """
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):  # another system
        return os.dup(fd)


def _allocate(fd: int, start: int, nbytes: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, start, nbytes)
        return
    for place in range(start, start + nbytes, _STEP):
        os.pwrite(fd, bytes(min(_STEP, start + nbytes - place)), place)
