"""Views of mapped memory, read-only ones and private copies that may be written.

A read-only view says when the last view of the same part is gone. A weak reference to a
``memoryview`` says nothing: whoever makes another one of it, as numpy does, shares what
is behind it and lets it go. What is behind has to be an object for each part, and
``ctypes`` makes such objects at any address.

It says so with a destructor, of an object that the garbage collector does not know. Of
garbage in a circle it would run destructors and callbacks of weak references in any
order, so before a ``__del__`` of the user's that still looks at the part.

NumPy can say that an array is read-only. A library that cannot (to write to such memory
would end the process) gets a private mapping of the same pages: the kernel copies those
that are written, and nobody else sees it.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from actorlib._shm.mapping import COPY, Mapping

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._shm.payload import Buffer


class _Buffer(ctypes.Structure):
    """``Py_buffer``, as the interpreter's buffer protocol fills it."""

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


# A class for each size would be garbage for the collector: one is long enough for all.
_Bytes: Any = ctypes.c_ubyte * sys.maxsize


class _Part(_Bytes):  # type: ignore[misc]  # a class that is made
    """Memory from an address on; only its beginning is looked at."""

    held: tuple[object, ...]
    file: Mapped | None


class Mapped(Protocol):
    """A file that is mapped.

    Attributes:
        fd: Its descriptor; -1 when it is closed.
        address: Where it was mapped.
    """

    fd: int
    address: int


class ViewToken(bytes):
    """The name of a part of memory; it goes with the last view of that part."""

    __slots__ = ()

    def __del__(self) -> None:
        self.gone()

    def gone(self) -> None:
        """Called once, in any thread; a subclass says what is to be done."""


def view_token_class(gone: Callable[[bytes], None]) -> type[ViewToken]:
    """Makes a class of tokens that call back when the views of their parts are gone.

    Args:
        gone: Called with the name, in any thread, as destructors run anywhere.
    """

    def tell(self: ViewToken) -> None:
        gone(bytes(self))

    return type("Token", (ViewToken,), {"__slots__": (), "gone": tell})


def address_of(memory: mmap.mmap | memoryview) -> int:
    """The address of memory, also of such as ``ctypes`` refuses as read-only."""
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
    last: ViewToken,
    file: Mapped | None = None,
) -> memoryview:
    """Makes a read-only view of a part of mapped memory.

    Args:
        memory: What keeps the whole there; held while a view of the part lives.
        address: Where the part begins.
        nbytes: Its size.
        last: Let go with the last view.
        file: What is mapped there; see ``file_of``.
    """
    ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.py_object(last))
    return writable_memory(address, nbytes, memory, last, file=file).toreadonly()


def writable_memory(
    address: int, nbytes: int, *held: object, file: Mapped | None = None
) -> memoryview:
    """Makes a view of memory of this process that may be written.

    Args:
        address: Where it begins.
        nbytes: Its size.
        held: What lives for as long as a view of it.
        file: What is mapped there; see ``file_of``.
    """
    part = cast("_Part", _Part.from_address(address))
    part.held = held
    part.file = file
    return memoryview(cast("Any", part)).cast("B")[:nbytes]


def file_of(part: memoryview) -> tuple[Mapped, int] | None:
    """The mapped file that a view shows, and from which byte on; None if none."""
    shown: object = part.obj
    if not isinstance(shown, _Part) or shown.file is None:
        return None
    return shown.file, address_of(part) - shown.file.address


def private_writable(view: memoryview) -> Buffer:
    """Gives the bytes of a view in memory that may be written, and nobody else sees.

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
            mapping = Mapping(file.fd, page, start - page + view.nbytes, COPY)
        except OSError:  # closed, or no room for more mappings: a copy costs more
            pass
        else:
            return writable_memory(
                mapping.address + start - page, view.nbytes, mapping, view
            )
    return bytearray(view)
