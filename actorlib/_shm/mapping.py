"""Maps parts of files, without a descriptor for each.

Until Python 3.13 ``mmap.mmap`` keeps a separate descriptor for each mapping. A process
that reads the memory of hundreds of others has none to waste. A process that has run
out of them could not map anything.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from typing import Any

_FAILED = ctypes.c_void_p(-1).value
_libc: Any = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_REMOVE: int | None = getattr(mmap, "MADV_REMOVE", None)
_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE of Linux 5.14; ``mmap`` has no name for it."""
_LARGE = 64 << 20
"""The bytes for which a thread is worth starting: 50 ms of work of the kernel."""
_MOST_THREADS = 4

READ = mmap.PROT_READ, mmap.MAP_SHARED
"""Shared and read-only: writes of other processes are visible."""
COPY = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE
"""Private: a page is copied before a write, which no other process sees."""


class Mapping:
    """Maps a part of a file into memory, and unmaps it when this object is dropped.

    Args:
        fd: The file; it need not stay open.
        start: The start of the part; at a page.

    Raises:
        OSError: The system cannot map it.
    """

    def __init__(self, fd: int, start: int, nbytes: int, mode: tuple[int, int]) -> None:
        self.address: int = 0
        self._nbytes = nbytes
        self._unmap = _libc.munmap
        address = _libc.mmap(None, nbytes, *mode, fd, start)
        if address == _FAILED:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self.address = address

    def __del__(self) -> None:
        if self.address:
            self._unmap(self.address, self._nbytes)


def populate_pages(address: int, nbytes: int) -> bool:
    """Allocates the memory of a part of a mapped file.

    Several threads do so for large parts. On two cores one thread takes 198 ms for 256
    MiB, two or four take 115 ms, with the same CPU time. Other threads run meanwhile,
    unlike with ``mmap.madvise``.

    Returns:
        False if some pages have no memory: the system has none left, or cannot do this.
    """
    count = min(nbytes // _LARGE + 1, _MOST_THREADS)
    step = -(-nbytes // count // mmap.PAGESIZE) * mmap.PAGESIZE
    results: list[int] = []

    def populate(start: int) -> None:
        end = min(start + step, address + nbytes)
        results.append(_libc.madvise(start, end - start, _POPULATE_WRITE))

    threads: list[threading.Thread] = []
    for start in range(address + step, address + nbytes, step):
        thread = threading.Thread(target=populate, args=(start,))
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads, or the interpreter ends
            populate(start)
        else:
            threads.append(thread)
    populate(address)
    for thread in threads:
        thread.join()
    return not any(results)


def free_pages(address: int, nbytes: int) -> bool:
    """Frees the pages of a part of a mapped file, in all processes; they read as zeros.

    Other threads run meanwhile, unlike with ``mmap.madvise``: for 1 GiB it takes up to
    a second. Returns False if the system cannot do that: only Linux can.
    """
    return _REMOVE is not None and not _libc.madvise(address, nbytes, _REMOVE)
