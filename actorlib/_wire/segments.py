"""Memory that processes share: anonymous files, handed from one to the other.

A segment has no name, so there is nothing to unlink: the kernel frees it when the last
process that has it is gone, however it went. It is not bounded by the size of /dev/shm
either, which containers keep at 64 MiB. Its size is sealed, and its pages are there
before anything is written, so touching it never ends in SIGBUS.

A segment is large and sparse: it costs what was touched of it. So a process rarely
needs more than one, and others map that one once.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import tempfile
from typing import TYPE_CHECKING

from actorlib._wire.blocks import Blocks, whole_pages
from actorlib._wire.exports import Export, address_of, export

if TYPE_CHECKING:
    from collections.abc import Generator

SPARSE = 1 << 30
"""The bytes of a segment, unless one value is larger."""
_STEP = 1 << 20
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14; mmap does not name it
_SEALS = 0x1 | 0x2 | 0x4  # F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW
_SLOT = 8
_PAGE = mmap.ALLOCATIONGRANULARITY


class Segment:
    """A segment of this process: it writes, others read.

    Args:
        name: What it is called by whoever it is shown to.
        nbytes: Its size.

    Attributes:
        name: The same.
        size: The same, in whole pages.
        fd: Its descriptor.
        blocks: Which bytes are whose.
        touched: The bytes, from its beginning, that have cost memory.
    """

    def __init__(self, name: bytes, nbytes: int) -> None:
        self.name = name
        self.size = whole_pages(nbytes)
        self.blocks = Blocks(self.size)
        self.touched = 0
        self.fd = _anonymous(self.size)
        self._memory = mmap.mmap(self.fd, self.size)
        self._address = address_of(self._memory)

    def touch(self, end: int) -> None:
        """Makes sure that everything up to an end has memory.

        Raises:
            OSError: The system has none left.
        """
        if end <= self.touched:
            return
        try:
            self._memory.madvise(_POPULATE_WRITE, self.touched, end - self.touched)
        except (OSError, ValueError):  # an older kernel, another system, or no memory
            os.posix_fallocate(self.fd, self.touched, end - self.touched)
        self.touched = end

    def trim(self, end: int) -> None:
        """Gives the system back what lies behind an end; no block may."""
        if end >= self.touched:
            return
        with contextlib.suppress(OSError, AttributeError):  # only Linux has a way
            self._memory.madvise(mmap.MADV_REMOVE, end, self.touched - end)
            self.touched = end

    def at(self, start: int, nbytes: int) -> memoryview:
        """A part of it, to be written."""
        return memoryview(self._memory)[start : start + nbytes]

    def export(self, start: int, nbytes: int) -> Export:
        """A part of it, to be read; it stays mapped while that lives."""
        return export(self._memory, self._address + start, nbytes)

    def close(self) -> None:
        """Closes it here; views of it, and other processes, keep its memory."""
        os.close(self.fd)


class Shown:
    """A segment of another process, to be read.

    Args:
        fd: Its descriptor; closed by ``close``.
        size: Its bytes.

    Attributes:
        fd: The same.
        size: The same.
    """

    def __init__(self, fd: int, size: int) -> None:
        self.fd = fd
        self.size = size
        self._memory = mmap.mmap(fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
        self._address = address_of(self._memory)

    def export(self, start: int, nbytes: int) -> Export:
        """A part of it; it stays mapped while that lives."""
        return export(self._memory, self._address + start, nbytes)

    def close(self) -> None:
        """Closes it here; views of it keep its memory."""
        os.close(self.fd)


class Budget:
    """The bytes that all processes of a runtime may touch together.

    Each process writes what it has touched in a slot of a file that all of them have.
    The lock is the kernel's, so a process that dies with it does not keep it.

    Args:
        limit: The bytes.
        slot: Which slot is this process's.
        fd: The file; a new one if it is not given.

    Attributes:
        limit: The same.
        fd: The file.
    """

    SLOTS = 1 << 16
    MARKS = SLOTS * _SLOT + _PAGE
    """Where a second row of slots begins, in which workers say what they run."""

    def __init__(self, limit: int, slot: int = 0, fd: int | None = None) -> None:
        self.limit = limit
        self.fd = _anonymous(self.MARKS + self.SLOTS * _SLOT) if fd is None else fd
        self._slot = slot

    def marker(self) -> memoryview:
        """One number of this process that outlives it; see ``mark``."""
        place = self._slot * _SLOT
        page, inside = place // _PAGE * _PAGE, place % _PAGE
        view = memoryview(mmap.mmap(self.fd, _PAGE, offset=self.MARKS + page))
        return view[inside : inside + _SLOT].cast("Q")

    def mark(self, slot: int) -> int:
        """The number that the process of a slot has written."""
        data = os.pread(self.fd, _SLOT, self.MARKS + slot * _SLOT)
        return int.from_bytes(data, "little")

    def set(self, touched: int) -> bool:
        """Says how much this process has touched, if that is within the limit.

        Returns:
            False if all processes together would have more than the limit: nothing
            was changed.
        """
        with self._locked():
            before, others = self._read()
            if touched > before and touched + others > self.limit:
                return False
            self._write(self._slot, touched)
        return True

    def clear(self, slot: int) -> None:
        """What the process of a slot has touched is gone."""
        with self._locked():
            self._write(slot, 0)
        os.pwrite(self.fd, bytes(_SLOT), self.MARKS + slot * _SLOT)

    def used(self) -> int:
        """The bytes that all processes have touched."""
        with self._locked():
            return sum(self._read())

    def close(self) -> None:
        """Closes the file here."""
        os.close(self.fd)

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        fcntl.lockf(self.fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN)

    def _read(self) -> tuple[int, int]:
        """What is in this process's slot, and in all others together."""
        last = int.from_bytes(os.pread(self.fd, _SLOT, 0), "little")
        data = os.pread(self.fd, (last + 1) * _SLOT, _SLOT)
        slots = memoryview(data).cast("Q").tolist() if data else []
        own = slots[self._slot] if self._slot < len(slots) else 0
        return own, sum(slots) - own

    def _write(self, slot: int, touched: int) -> None:
        last = int.from_bytes(os.pread(self.fd, _SLOT, 0), "little")
        if slot > last:
            os.pwrite(self.fd, slot.to_bytes(_SLOT, "little"), 0)
        os.pwrite(self.fd, touched.to_bytes(_SLOT, "little"), (slot + 1) * _SLOT)


def further(touched: int, end: int, size: int) -> int:
    """Up to where a segment is touched when it has to reach an end: a bit further.

    So small values do not cost a system call each.
    """
    ahead = touched + min(max(_STEP, touched // 4), 64 * _STEP)
    return min(-(-max(end, ahead) // _STEP) * _STEP, size)


def _anonymous(nbytes: int) -> int:
    """A file without a name, of so many bytes that cost nothing yet."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("actorlib", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, nbytes)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
        return fd
    with tempfile.TemporaryFile() as file:
        fd = os.dup(file.fileno())
    os.ftruncate(fd, nbytes)
    return fd
