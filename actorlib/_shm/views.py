"""Makes views of mapped memory: read-only ones, and private copies to be written.

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

    from actorlib._shm.layout import Buffer


class _Buffer(ctypes.Structure):
    """Maps ``Py_buffer``, as the interpreter's buffer protocol fills it."""

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


# Its own, and not an attribute of ``pythonapi``: what it takes is told to it once.
_untrack: Any = ctypes.PYFUNCTYPE(None, ctypes.py_object)(
    ("PyObject_GC_UnTrack", ctypes.pythonapi)
)

# A class for each size would be garbage for the collector: one is long enough for all.
_Bytes: Any = ctypes.c_ubyte * sys.maxsize


class _Part(_Bytes):  # type: ignore[misc]  # a class that is made
    """Stands for memory from an address on; what it is a part of lives with it."""

    keepalive: tuple[object, ...]
    file: Mapped | None


class Mapped(Protocol):
    """Stands for a segment whose file is mapped.

    Attributes:
        fd: Its descriptor; -1 when it is closed.
        address: Where it was mapped.
    """

    fd: int
    address: int


class ViewToken(bytes):
    """Names a part of memory, and is dropped with the last view of that part."""

    __slots__ = ()

    def __del__(self) -> None:
        self.on_release()

    def on_release(self) -> None:
        """Called once, in any thread; a subclass says what is to be done."""


def view_token_class(release: Callable[[bytes], None]) -> type[ViewToken]:
    """Makes a class of tokens that call back when the views of their parts are gone.

    Args:
        release: Called with the name, in any thread, as destructors run anywhere.
    """

    def on_release(self: ViewToken) -> None:
        release(bytes(self))

    return type("Token", (ViewToken,), {"__slots__": (), "on_release": on_release})


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
    token: ViewToken,
    file: Mapped | None = None,
) -> memoryview:
    """Makes a read-only view of a part of mapped memory.

    Args:
        memory: What keeps the whole there; held while a view of the part lives.
        address: Where the part begins.
        nbytes: Its size.
        token: Dropped with the last view.
        file: What is mapped there; see ``file_of``.
    """
    _untrack(token)
    return writable_memory(address, nbytes, memory, token, file=file).toreadonly()


def writable_memory(
    address: int, nbytes: int, *keepalive: object, file: Mapped | None = None
) -> memoryview:
    """Makes a view of memory of this process that may be written.

    Args:
        address: Where it begins.
        nbytes: Its size.
        keepalive: What lives for as long as a view of it.
        file: What is mapped there; see ``file_of``.
    """
    part = cast("_Part", _Part.from_address(address))
    part.keepalive = keepalive
    part.file = file
    return memoryview(cast("Any", part)).cast("B")[:nbytes]


def file_of(part: memoryview) -> tuple[Mapped, int] | None:
    """Finds the mapped file that a view is of, and its first byte there; or None."""
    whole: object = part.obj
    if not isinstance(whole, _Part) or whole.file is None:
        return None
    return whole.file, address_of(part) - whole.file.address


def private_writable(view: memoryview) -> Buffer:
    """Gives the bytes of a view in memory that may be written and nobody else sees.

    Args:
        view: Contiguous bytes; its memory lives for as long as the result.

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
