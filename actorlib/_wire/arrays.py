"""Arrays of NumPy in a payload: a header of dtype and shape, and the bytes.

An exact ``numpy.ndarray`` of numbers, whose memory is one piece, needs no pickle: an
extension of msgpack stands for it, and its bytes follow the frame or, if they are few,
the header. The sender has imported NumPy already, so nothing here does before the first
array comes. What arrives is as it was with pickle: a large array is a read-only view of
shared memory, a small one is writable if the one that was sent was.

All other arrays (objects, strings, dates, records, views with gaps, subclasses) are
pickled, and so are two places that hold the same array, as pickle keeps them one.
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
"""The types of extensions."""
_NUMBERS = frozenset("biufc")
_INSIDE = -1
_IS_WRITABLE, _IS_FORTRAN = 1, 2


def array_class() -> type | None:
    """The class of arrays; None if this process has not imported NumPy."""
    return getattr(sys.modules.get("numpy"), "ndarray", None)


def stand_in(array: Any, buffers: list[Buffer], outside: int) -> Any:
    """What stands for an array in a value that msgpack packs.

    Args:
        array: The array.
        buffers: Gets its bytes, if they are to follow.
        outside: How many bytes make them follow.

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
    how = _IS_WRITABLE * flags.writeable + _IS_FORTRAN * (not in_order)
    # Unlike a view of memory, this knows every format, and arrays without elements.
    raw = pickle.PickleBuffer(array).raw()
    if raw.nbytes < outside:
        packed = _pack((dtype.str, array.shape, how, _INSIDE, raw))
    else:
        packed = _pack((dtype.str, array.shape, how, len(buffers)))
        buffers.append(raw)
    return _extension(_ARRAY, packed)


def stand_in_for_bytes(value: bytes, buffers: list[Buffer]) -> Any:
    """What stands for long bytes in a value that msgpack packs.

    Pickled they take three times as long, apart from the copy of them.

    Args:
        value: The bytes.
        buffers: Gets them, as they follow.
    """
    buffers.append(value)
    return _extension(_BYTES, _pack(len(buffers) - 1))


def unpack_with_arrays(head: Buffer, buffers: Sequence[Buffer]) -> Any:
    """Unpacks a value with headers of arrays.

    Raises:
        ValueError: It is no such thing.
    """
    return _unpack(head, strict_map_key=False, ext_hook=partial(_load, buffers))


def load_inside(code: int, data: bytes) -> Any:
    """Makes an array whose bytes are in the header; a hook of msgpack's.

    Raises:
        ValueError: It is no such thing.
    """
    return _load((), code, data)


def _load(buffers: Sequence[Buffer], code: int, data: bytes) -> Any:
    if code == _BYTES:
        index: int = _unpack(data)
        return bytes(buffers[index])
    if code != _ARRAY:
        raise ValueError(f"an extension of msgpack that nobody sends: {code}")
    kind, shape, how, at, *inside = _unpack(data, use_list=False)
    # A copy is aligned as arrays should be, and may be written.
    raw = cast("bytes", bytearray(inside[0]) if at == _INSIDE else buffers[at])
    import numpy as np  # noqa: PLC0415  # only who is sent an array needs it

    order: Any = "F" if how & _IS_FORTRAN else "C"
    array: Any = np.ndarray(shape, np.dtype(kind), raw, order=order)
    if not how & _IS_WRITABLE:
        array.flags.writeable = False
    return array
