"""Makes views of mapped memory: read-only views, and private writable copies.

A read-only view reports when the last view of the same part is gone. A weak reference
to a ``memoryview`` cannot: code that derives another view from it, as numpy does,
shares the exporting object and drops the ``memoryview``. So the exporting object must
be a separate object for each part, and ``ctypes`` makes such objects at any address.

The report comes from a destructor, of an object that the garbage collector does not
track. For garbage in a cycle the collector runs destructors and callbacks of weak
references in any order, so possibly before a ``__del__`` of the user that still reads
the part.

NumPy supports read-only arrays. A library that does not would write to the memory,
which would end the process. It gets a private mapping of the same pages: the kernel
copies the pages that are written, and no other process sees the writes.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from actorlib._shm.mapping import COPY, Mapping

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._shm.layout import Buffer


class _Buffer(ctypes.Structure):
    """The ``Py_buffer`` that the interpreter's buffer protocol fills."""

    _fields_: ClassVar = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.py_object),
        ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p),
        ("internal", ctypes.c_void_p),
    ]
    buf: int


# Not an attribute of ``pythonapi``: other users could change its argument types.
_untrack: Any = ctypes.PYFUNCTYPE(None, ctypes.py_object)(
    ("PyObject_GC_UnTrack", ctypes.pythonapi)
)

# One class for all sizes: a class for each size would be garbage for the collector.
_Bytes: Any = ctypes.c_ubyte * sys.maxsize


class _Part(_Bytes):  # type: ignore[misc]  # a class made at run time
    """Memory from an address on; it keeps the memory's owner alive."""

    keepalive: tuple[object, ...]
    file: Mapped | None


class Mapped(Protocol):
    """A segment whose file is mapped.

    Attributes:
        fd: Its descriptor; -1 after it was closed.
    """

    fd: int
    address: int


class ViewToken(bytes):
    """The name of a part of memory; dropped with the last view of that part."""

    __slots__ = ()

    def __del__(self) -> None:
        self.on_release()

    def on_release(self) -> None:
        """Called once, in any thread; a subclass overrides it."""


def view_token_class(release: Callable[[bytes], None]) -> type[ViewToken]:
    """Makes a class of tokens that call back when the views of their parts are gone.

    ``release`` is called with the name, in any thread, as destructors run anywhere.
    """

    def on_release(self: ViewToken) -> None:
        release(bytes(self))

    return type("Token", (ViewToken,), {"__slots__": (), "on_release": on_release})


def address_of(memory: mmap.mmap | memoryview) -> int:
    """Returns the address of memory, even of read-only memory, unlike ``ctypes``."""
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(
        ctypes.py_object(memory), ctypes.byref(buffer), 0
    )
    try:
        return buffer.buf
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))


def read_only_view(
    memory: object,
    address: int,
    nbytes: int,
    token: ViewToken,
    file: Mapped | None = None,
) -> memoryview:
    """Makes a read-only view of a part of mapped memory.

    The view holds ``memory``, which keeps the whole memory mapped. The token is dropped
    with the last view of the part.
    """
    _untrack(token)
    return writable_memory(address, nbytes, memory, token, file=file).toreadonly()


def writable_memory(
    address: int, nbytes: int, *keepalive: object, file: Mapped | None = None
) -> memoryview:
    part = cast("_Part", _Part.from_address(address))
    part.keepalive = keepalive
    part.file = file
    return memoryview(cast("Any", part)).cast("B")[:nbytes]


def file_of(part: memoryview) -> tuple[Mapped, int] | None:
    """Returns the mapped file of a view and the view's offset there, or None."""
    whole: object = part.obj
    if not isinstance(whole, _Part) or whole.file is None:
        return None
    return whole.file, address_of(part) - whole.file.address


def private_writable(view: memoryview) -> Buffer:
    """Returns the bytes of a view in writable memory that no other process sees.

    The memory of the view, of contiguous bytes, lives as long as the result.

    Returns:
        A private mapping of the same pages if possible, else a copy.
    """
    if not view.readonly:
        return view
    location = file_of(view)
    if location is not None:
        file, start = location
        page = start // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        try:
            mapping = Mapping(file.fd, page, start - page + view.nbytes, COPY)
        except OSError:  # closed, or no room for more mappings; a copy costs more
            pass
        else:
            return writable_memory(
                mapping.address + start - page, view.nbytes, mapping, view
            )
    return bytearray(view)
