"""Encodes arrays of NumPy: a header of dtype and shape, and the bytes.

An exact ``numpy.ndarray`` of numbers in contiguous memory needs no pickle: an extension
of msgpack represents it. Its bytes follow the frame or, if they are few, the header.
The sender has imported NumPy already, so this module does not import NumPy before the
first array comes.

All other arrays (strings, dates, records, views with gaps) are pickled. So are two
references to the same array, because pickle preserves their identity.

An array that arrives is read-only, whatever its size and its position in a value. A
large one is a view of memory that other processes read, too, and a program that was
tested with small arrays must not fail with large ones. Arrays of objects and instances
of subclasses are copied, as NumPy pickles them, and are writable.
"""

from __future__ import annotations

import pickle
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs]  # it ships none

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actorlib._shm.layout import Buffer

_msgpack: Any = msgpack
_unpack: Any = _msgpack.unpackb
_extension: Any = _msgpack.ExtType
_pack: Callable[[object], bytes] = _msgpack.Packer(autoreset=True).pack
_ARRAY, _BYTES = 1, 2
"""The types of msgpack extensions."""
_NUMBERS = frozenset("biufc")
_INSIDE = -1


def array_class() -> type | None:
    """Returns the class of arrays; None if this process has not imported NumPy."""
    return getattr(sys.modules.get("numpy"), "ndarray", None)


def stand_in(array: Any, buffers: list[Buffer], outside: int) -> Any:
    """Returns the extension that represents an array in a value that msgpack packs.

    Arrays of at least ``outside`` bytes are appended to ``buffers``, and follow the
    value.

    Returns:
        None if it cannot be sent as a header and its bytes.
    """
    dtype, flags = array.dtype, array.flags
    in_order = flags.c_contiguous
    if (
        dtype.kind not in _NUMBERS
        or dtype.metadata is not None
        or not (in_order or flags.f_contiguous)
    ):
        return None
    # Unlike a memoryview, this supports every format, and arrays without elements.
    raw = pickle.PickleBuffer(array).raw()
    if raw.nbytes < outside:
        packed = _pack((dtype.str, array.shape, not in_order, _INSIDE, raw))
    else:
        packed = _pack((dtype.str, array.shape, not in_order, len(buffers)))
        buffers.append(raw)
    return _extension(_ARRAY, packed)


def reduce_array(array: Any) -> Any:
    """Reduces an array for pickle: to its dtype, its shape and one read-only buffer.

    NumPy's reducer would have pickle copy few bytes into writable memory, and all bytes
    of dates and of views with gaps.
    """
    dtype = array.dtype
    if dtype.hasobject or not dtype.itemsize:
        return array.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    flags = array.flags
    is_fortran = flags.f_contiguous and not flags.c_contiguous
    in_order = array.T if is_fortran else array
    raw = memoryview(in_order.ravel().view("u1")).toreadonly()
    return load_array, (pickle.PickleBuffer(raw), dtype, array.shape, is_fortran)


def load_array(
    buffer: Buffer,
    dtype: Any,
    shape: tuple[int, ...],
    is_fortran: bool,  # noqa: FBT001  # as pickle passes it
) -> Any:
    """Makes an array over a read-only buffer.

    The dtype may be the name of a dtype. With ``is_fortran`` the first index changes
    fastest.
    """
    import numpy as np  # noqa: PLC0415  # only receivers of arrays need it

    kind, data = np.dtype(dtype), cast("Any", buffer)
    if not len(data):
        return np.frombuffer(bytes(kind.itemsize), kind)[:0].reshape(shape)
    # ``ndarray(buffer=...)`` would keep the memory behind a view instead of the view.
    # It could be made writable, and a write to shared memory would end the process.
    flat = np.frombuffer(data, kind)
    return flat.reshape(shape, order="F" if is_fortran else "C")


def stand_in_for_bytes(value: bytes, buffers: list[Buffer]) -> Any:
    """Returns the extension for long bytes, which are appended to ``buffers``.

    Pickled bytes take three times as long, apart from their copy.
    """
    buffers.append(value)
    return _extension(_BYTES, _pack(len(buffers) - 1))


def unpack_with_arrays(head: Buffer, buffers: Sequence[Buffer]) -> Any:
    """Unpacks a value with headers of arrays."""
    return _unpack(head, strict_map_key=False, ext_hook=partial(_load, buffers))


def load_inside(code: int, data: bytes) -> Any:
    """Makes an array whose bytes are in the header; a hook of msgpack."""
    return _load((), code, data)


def _load(buffers: Sequence[Buffer], code: int, data: bytes) -> Any:
    if code == _BYTES:
        index: int = _unpack(data)
        return bytes(buffers[index])
    if code != _ARRAY:
        raise ValueError(f"an unknown extension of msgpack: {code}")
    fields: tuple[str, tuple[int, ...], bool, int, *tuple[bytes, ...]]
    fields = _unpack(data, use_list=False)
    kind, shape, is_fortran, at, *inside = fields
    buffer = inside[0] if at == _INSIDE else buffers[at]
    return load_array(buffer, kind, shape, is_fortran)
