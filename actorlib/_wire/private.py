"""Parts of shared memory as memory of this process's own, copied where it is written.

Whoever gets an array sees it read-only, as NumPy can say so. A library that cannot (to
write to such memory would end the process) gets its own mapping of the same pages: the
kernel copies those that are written, and nobody else sees it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import TYPE_CHECKING, Any

from actorlib._wire.exports import at, file_of

if TYPE_CHECKING:
    from actorlib._wire.frames import Buffer

_FAILED = ctypes.c_void_p(-1).value
# By hand, as ``mmap.mmap`` keeps a descriptor for each mapping, until Python 3.13.
_libc: Any = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def writable(view: memoryview) -> Buffer:
    """The bytes of a view in memory that may be written, and that nobody else sees.

    Args:
        view: Contiguous bytes. What it shows is held for as long as the result lives.

    Returns:
        A private mapping of the same pages where there can be one, else a copy.
    """
    if not view.readonly:
        return view
    found = file_of(view)
    if found is not None:
        file, start = found
        page = start // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        try:
            mapping = _Mapping(file.fd, page, start - page + view.nbytes)
        except OSError:  # closed, or no room for more mappings: a copy costs more
            pass
        else:
            return at(mapping.address + start - page, view.nbytes, mapping, view)
    return bytearray(view)


class _Mapping:
    """A private mapping of a part of a file; it is undone when this goes.

    Raises:
        OSError: There can be none.
    """

    def __init__(self, fd: int, start: int, nbytes: int) -> None:
        self.address: int = 0
        self._nbytes = nbytes
        self._unmap = _libc.munmap
        access = mmap.PROT_READ | mmap.PROT_WRITE
        address = _libc.mmap(None, nbytes, access, mmap.MAP_PRIVATE, fd, start)
        if address == _FAILED:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self.address = address

    def __del__(self) -> None:
        if self.address:
            self._unmap(self.address, self._nbytes)
