"""Parts of mapped memory as objects that say when the last view of them is gone.

A weak reference to a ``memoryview`` says nothing: whoever makes another one of it, as
numpy does, shares what is behind it and lets it go. What is behind has to be an object
for each part, and ``ctypes`` makes such objects at any address.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, ClassVar, TypeAlias

if TYPE_CHECKING:
    import mmap

Export: TypeAlias = "ctypes.Array[ctypes.c_ubyte]"


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


def address_of(memory: mmap.mmap) -> int:
    """Where mapped memory begins; ``ctypes`` itself tells it of writable ones only."""
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(
        ctypes.py_object(memory), ctypes.byref(buffer), 0
    )
    try:
        return buffer.buf
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))


def export(memory: mmap.mmap, address: int, nbytes: int) -> Export:
    """A part of mapped memory; it may be referred to weakly.

    Args:
        memory: The whole, which stays mapped while the part or a view of it lives.
        address: Where the part begins.
        nbytes: Its size.
    """
    part = (ctypes.c_ubyte * nbytes).from_address(address)
    part.memory = memory  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]  # keeps it
    return part


def view_of(part: Export) -> memoryview:
    """The bytes of a part, read-only."""
    return memoryview(part).cast("B").toreadonly()
