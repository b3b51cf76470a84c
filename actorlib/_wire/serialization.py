"""Serializes values: by msgpack if it preserves them, else by pickle.

A value arrives unchanged in type and in value, or not at all. msgpack alone cannot
guarantee that: it would turn tuples into lists, bytearrays into bytes and instances of
subclasses into their base, and it would lose that two names refer to one list. So it
encodes plain values only (``None``, bool, int, float, str, bytes), arrays of numbers,
and flat lists and dicts of them, where none of that can happen. cloudpickle encodes the
others, including classes of ``__main__`` and lambdas. The first bytes distinguish the
two.

Buffers of a large value (arrays, long bytes) are not copied into the pickle: they
follow the frame unchanged.

Code without a file (of a notebook's cells) is sent with its lines, so that tracebacks
show them in every process.

Tensors are reduced here and not by PyTorch, which pickles their bytes into the stream
and so copies them twice on each side. Here a storage is one buffer, like an array of
NumPy. A tensor over a private mapping of the shared memory arrives: nothing is copied,
and no other process sees the writes of the receiver. Other storages (CUDA, for example)
are pickled by PyTorch. Tensors that share a storage still share it when they arrive.
"""

from __future__ import annotations

import functools
import io
import linecache
import pickle
import sys
import threading
import traceback
import types
from collections import ChainMap
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, cast

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]  # it ships none
import msgpack  # pyright: ignore[reportMissingTypeStubs]  # it ships none

from actorlib._core.serializers import REDUCERS
from actorlib._shm.memory import SharedPayload
from actorlib._shm.views import private_writable, writable_memory
from actorlib._wire.arrays import (
    array_class,
    load_inside,
    reduce_array,
    stand_in,
    stand_in_for_bytes,
    unpack_with_arrays,
)
from actorlib.exceptions import SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actorlib._shm.layout import Buffer
    from actorlib._shm.memory import Payload


LARGE = 64 * 1024
"""Bytes from which a buffer is sent outside of its frame, without a copy."""

_PROTOCOL = 5
_PICKLED = b"\x80\x05"  # in msgpack: an empty map, followed by other bytes
_NO_ARGUMENTS = b"\x90"
_NO_NAMES: Mapping[str, object] = types.MappingProxyType({})
_POSITIONAL = ""
"""The key of the positional arguments in a map of the keyword arguments."""
_TORCH = "torch.storage"
_OF_LIBRARIES: dict[type, Any] = {}
"""Reducers of arrays, once NumPy is loaded, and of tensors, once PyTorch is."""
_NUMBERS = frozenset({type(None), bool, int, float})
_SCALARS = _NUMBERS | {str, bytes}

_cloudpickle: Any = cloudpickle
_msgpack: Any = msgpack
_unpack: Any = _msgpack.unpackb
_pack: Callable[[object], bytes] = _msgpack.Packer(
    use_bin_type=True, autoreset=True
).pack
_pack_head: Callable[[int], bytes] = _msgpack.Packer(autoreset=True).pack_array_header
# The errors for values that msgpack does not support: integers beyond 64 bits, lone
# surrogates, sizes beyond its limits.
_NOT_PLAIN = (OverflowError, UnicodeEncodeError, ValueError, MemoryError)


def encode(value: object) -> Payload:
    """Encodes a value into a payload.

    Raises:
        Exception: Pickling raised it; the value cannot be sent. A BaseException becomes
            a SerializationError.
        KeyboardInterrupt: The user pressed Ctrl-C meanwhile.
    """
    if _is_plain(value):
        try:
            return _pack(value)
        except _NOT_PLAIN:
            pass
    if type(value) is bytes:
        buffers: list[Buffer] = []
        return [_pack(stand_in_for_bytes(value, buffers)), *buffers]
    # A tuple would arrive as a list.
    is_tuple = type(value) is tuple
    payload = None if is_tuple else _pack_arrays(value)
    return _pickle(value) if payload is None else payload


def encode_plain_call(
    args: tuple[object, ...], kwargs: Mapping[str, object] = _NO_NAMES
) -> bytes | None:
    """Encodes plain arguments of a call; None if one of them is not plain.

    Two arguments that are the same list or dict arrive as two.
    """
    for value in args:
        if type(value) not in _NUMBERS and not _is_plain(value):
            return None
    if kwargs and not (
        _POSITIONAL not in kwargs and all(map(_is_plain, kwargs.values()))
    ):
        return None
    try:
        return _pack({_POSITIONAL: args, **kwargs} if kwargs else args)
    except _NOT_PLAIN:
        return None


def join_plain_call(args: Sequence[object], encoded: Mapping[int, object]) -> bytes:
    """Joins positional arguments, some of which are encoded, to those of a call.

    ``encoded`` has the payloads of the encoded ones, by their position.

    Returns:
        Empty if they cannot be joined: one is pickled, or not plain.
    """
    parts: list[bytes] = [_pack_head(len(args))]
    for place, arg in enumerate(args):
        if place in encoded:
            part = encoded[place]
            if type(part) is not bytes or part[:2] == _PICKLED:
                return b""
            parts.append(part)
            continue
        plain = encode_plain_call((arg,))
        if plain is None:
            return b""
        parts.append(plain[1:])  # without the head of one argument
    return b"".join(parts)


def encode_array_call(
    args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Payload | None:
    """Encodes arrays and long bytes among plain arguments; None for all others.

    They contain no handles or refs, so the caller has no references to collect.
    """
    return None if kwargs else _pack_arrays(args, are_arguments=True)


def pickle_call(args: tuple[object, ...], kwargs: Mapping[str, object]) -> Payload:
    """Encodes arguments of a call that are neither plain nor arrays."""
    return _pickle((tuple(_wrap_long_bytes(value) for value in args), dict(kwargs)))


def encode_call(args: tuple[object, ...], kwargs: Mapping[str, object]) -> Payload:
    """Encodes a call's arguments, for ``decode_call``."""
    payload: Payload | None = encode_plain_call(args, kwargs)
    if payload is None:
        payload = encode_array_call(args, kwargs)
    return pickle_call(args, kwargs) if payload is None else payload


def decode(payload: Payload) -> Any:
    """Decodes a payload into its value.

    Raises:
        Exception: Unpickling raised it, for example ModuleNotFoundError. It runs the
            user's code: a BaseException becomes a SerializationError, because it would
            end or cancel the task that loads for others.
        KeyboardInterrupt: The user pressed Ctrl-C meanwhile.
    """
    try:
        if type(payload) is bytes:
            if payload[:2] == _PICKLED:
                return pickle.loads(payload)
            return _unpack(payload, strict_map_key=False, ext_hook=load_inside)
        pieces: Sequence[Buffer]
        if isinstance(payload, SharedPayload):
            pieces = payload.buffers()
        else:
            buffers = cast("list[Buffer]", payload)
            # As in shared memory: writability must not depend on the size.
            pieces = [memoryview(piece).toreadonly() for piece in buffers]
        head, *rest = cast("Sequence[Buffer]", pieces)
        if head[:2] != _PICKLED:
            return unpack_with_arrays(head, rest)
        return pickle.loads(head, buffers=rest)
    except BaseException as error:
        if _may_propagate(error):
            raise
        raise SerializationError(f"unpickling raised {one_line(error)}") from error


def decode_call(payload: Payload) -> tuple[list[Any] | tuple[Any, ...], dict[str, Any]]:
    """Decodes the positional and the keyword arguments of a call; see ``decode``."""
    if payload == _NO_ARGUMENTS:
        return (), {}
    return split_arguments(decode(payload))


def split_arguments(value: Any) -> tuple[list[Any] | tuple[Any, ...], dict[str, Any]]:
    """Splits the decoded arguments of a call into positional and keyword arguments."""
    if type(value) is list:
        return cast("list[Any]", value), {}
    if type(value) is dict:
        kwargs = cast("dict[str, Any]", value)
        return kwargs.pop(_POSITIONAL), kwargs
    return cast("tuple[tuple[Any, ...], dict[str, Any]]", value)


def with_own_buffers(payload: Payload) -> Payload:
    """Copies the buffers of a payload that is not sent at once.

    Buffers of a new payload are those of the value itself, and its owner may change
    them as soon as the call has returned, even through another view than a read-only
    one.
    """
    if type(payload) is not list:
        return payload
    return [
        buffer if type(memoryview(buffer).obj) is bytes else bytes(buffer)
        for buffer in payload
    ]


def dump(value: object) -> bytes:
    """Pickles a value in one piece: for values that are kept and sent many times."""
    stream = io.BytesIO()
    try:
        _WholePickler(stream, _PROTOCOL).dump(value)
    except BaseException as error:
        if _may_propagate(error):
            raise
        raise SerializationError(f"pickling it raised {one_line(error)}") from error
    return stream.getvalue()


def one_line(error: BaseException) -> str:
    """Formats an exception in one line, whatever the methods of its class do."""
    try:
        return "".join(traceback.format_exception_only(error)).strip()
    except Exception:  # noqa: BLE001  # ``__getattr__`` on Python 3.11, for example
        return type(error).__name__


def _may_propagate(error: BaseException) -> bool:
    """Whether an exception may propagate through code that loads for others.

    Ctrl-C comes to the main thread alone; a KeyboardInterrupt anywhere else is raised
    by the user's code.
    """
    is_main = threading.current_thread() is threading.main_thread()
    return isinstance(error, Exception) or (
        isinstance(error, KeyboardInterrupt) and is_main
    )


def _is_plain(value: object) -> bool:
    kind = type(value)
    if kind in _SCALARS:
        return not (kind is bytes or kind is str) or len(cast("bytes", value)) < LARGE
    if kind is list:
        items = cast("list[object]", value)
        return _SCALARS.issuperset(map(type, items)) and len(items) < LARGE
    if kind is dict:
        pairs = cast("dict[object, object]", value)
        return (
            _SCALARS.issuperset(map(type, pairs))
            and _SCALARS.issuperset(map(type, pairs.values()))
            and len(pairs) < LARGE
        )
    return False


def _is_scalar(value: object) -> bool:
    return type(value) in _SCALARS


def _pack_arrays(value: object, *, are_arguments: bool = False) -> Payload | None:
    """Packs arrays and long bytes among plain values; None for all others.

    Arguments may be plain containers, and their long bytes are sent beside the frame.
    """
    array = array_class()
    if array in REDUCERS:
        array = None
    items = _items(value) if are_arguments or array is not None else None
    if items is None:
        return None
    arrays = [item for item in items if type(item) is array]
    if not arrays and not (are_arguments and bytes in map(type, items)):
        return None
    if len(items) >= LARGE or (
        len(arrays) > 1 and len(set(map(id, arrays))) < len(arrays)
    ):
        return None  # pickle preserves the identity of an array
    buffers: list[Buffer] = []
    is_plain = _is_plain if are_arguments else _is_scalar
    packed: Any = _stand_ins(items, array, is_plain, buffers)
    if packed is None:
        return None
    if type(value) is array:
        packed = packed[0]
    elif type(value) is dict:
        packed = dict(zip(cast("dict[Any, Any]", value), packed, strict=True))
    try:
        head = _pack(packed)
    except _NOT_PLAIN:
        return None
    return [head, *buffers] if buffers or len(head) >= LARGE else head


def _stand_ins(
    items: Sequence[object],
    array: type | None,
    is_plain: Callable[[object], bool],
    buffers: list[Buffer],
) -> list[object] | None:
    """Returns the representations of the items of a payload; None if one has none."""
    packed: list[object] = []
    for item in items:
        part = item
        if type(item) is array:
            part = stand_in(item, buffers, LARGE)
            if part is None:
                return None
        elif not is_plain(item):
            if type(item) is not bytes:
                return None
            part = stand_in_for_bytes(item, buffers)
        packed.append(part)
    return packed


def _items(value: object) -> Sequence[object] | None:
    """Returns the items that may be arrays; None if the rest is not plain."""
    if type(value) in {list, tuple}:
        return cast("Sequence[object]", value)
    if type(value) is dict:
        pairs = cast("dict[object, object]", value)
        return [*pairs.values()] if all(map(_is_scalar, pairs)) else None
    return (value,)


def _pickle(value: object) -> Payload:
    buffers: list[Buffer] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        # In the pickle a copy of a writable buffer would be writable, too.
        if raw.nbytes < LARGE and raw.readonly:
            return True
        buffers.append(raw)
        return False

    if (array := array_class()) is not None and array not in _OF_LIBRARIES:
        _OF_LIBRARIES[array] = reduce_array
    if _TORCH in sys.modules and len(_OF_LIBRARIES) < 2:
        _OF_LIBRARIES.update(storage_reducers(sys.modules[_TORCH]))
    stream = io.BytesIO()
    try:
        _Pickler(stream, _PROTOCOL, keep_inside).dump(value)
    except BaseException as error:
        if _may_propagate(error):
            raise
        raise SerializationError(f"pickling it raised {one_line(error)}") from error
    if not buffers and stream.tell() < LARGE:
        return stream.getvalue()
    return [stream.getvalue(), *buffers]


def _view(buffer: Buffer, kind: str, shape: tuple[int, ...]) -> memoryview:
    flat: Any = memoryview(buffer).cast("B")
    # An empty view has one dimension: a cast cannot add more.
    view: memoryview = flat.cast(kind, shape) if all(shape) else flat.cast(kind)
    return view


def _reduce_view(view: memoryview) -> tuple[object, ...]:
    """Reduces a view to its bytes; it arrives read-only, as an array does."""
    plain = view.toreadonly()
    whole = pickle.PickleBuffer(plain) if plain.c_contiguous else plain.tobytes()
    return _view, (whole, plain.format, plain.shape)


_cloudpickles: ChainMap[type, Any] = _cloudpickle.Pickler.dispatch_table
_reduce_plain_code: Any = _cloudpickles[types.CodeType]
_FILENAME = 10
"""The position of the file name in the arguments of CodeType, in 3.11 to 3.14."""


def _reduce_code(code: types.CodeType) -> tuple[object, ...]:
    make, reduced = _reduce_plain_code(code)
    # cloudpickle 3.1.3 names every file "<dynamic-code>", and tracebacks would have
    # neither the file nor its lines. A new string, because pickle would write a
    # reference to a string that other code shares, and equal code would not give equal
    # bytes.
    filename = "".join(code.co_filename)
    parts = (*reduced[:_FILENAME], filename, *reduced[_FILENAME + 1 :])
    entry: Any = linecache.cache.get(code.co_filename)
    # Libraries that add lines without a file (IPython, attrs) set no time.
    if entry is None or len(entry) != 4 or entry[1] is not None or entry[0] >= LARGE:
        return make, parts
    # The list itself, not a copy: pickle writes it once for all code of one cell.
    return _code_with_lines, (code.co_filename, entry[2], make, parts)


def _code_with_lines(
    filename: str, lines: list[str], make: Callable[..., Any], parts: tuple[Any, ...]
) -> types.CodeType:
    linecache.cache[filename] = (sum(map(len, lines)), None, lines, filename)
    return cast("types.CodeType", make(*parts))


def _reduce_cached(function: Any) -> str | tuple[object, ...]:
    # If others can import it, it is sent by its name, as pickle does.
    name = getattr(function, "__qualname__", "<locals>")  # a cached partial has none
    if function.__module__ != "__main__" and "<locals>" not in name:
        return cast("str", name)
    return _load_cached, (function.cache_parameters(), function.__wrapped__)


def _load_cached(parameters: Mapping[str, Any], function: Callable[..., Any]) -> object:
    return functools.lru_cache(**parameters)(function)


def _reduce_cached_property(value: Any) -> tuple[object, ...]:
    state = {"attrname": value.attrname, "__doc__": value.__doc__}
    return functools.cached_property, (value.func,), state


def _reduce_partial_method(method: functools.partialmethod[Any]) -> tuple[object, ...]:
    return functools.partialmethod, (method.func,), vars(method)


_OWN: dict[type, Any] = {
    memoryview: _reduce_view,
    types.CodeType: _reduce_code,
    type(functools.cache(int)): _reduce_cached,
    functools.cached_property: _reduce_cached_property,
    functools.partialmethod: _reduce_partial_method,
}
"""Reducers for classes that the libraries do not pickle correctly.

cloudpickle would turn memoryviews into bytes, send cached functions of ``__main__`` by
names that no worker knows, and fail on the lock of a cached property (Python 3.11).
pickle restores partial methods without the function that they need (Python 3.14).
"""


def _with_annotations(function: types.FunctionType) -> types.FunctionType:
    """Returns the function, or a copy if its annotations cannot be evaluated.

    The copy has them as strings. cloudpickle reads them all, and from Python 3.14 on
    that evaluates them, including names that only type checkers import.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations  # noqa: PLC0415  # 3.14 has it

        try:
            function.__annotations__  # noqa: B018  # evaluates them
        except Exception:  # noqa: BLE001  # they are code of the user
            names = function.__globals__, function.__name__, function.__defaults__
            copy = types.FunctionType(function.__code__, *names, function.__closure__)
            functools.update_wrapper(copy, function)
            copy.__dict__ = function.__dict__  # without __wrapped__
            copy.__kwdefaults__ = function.__kwdefaults__
            copy.__annotations__ = get_annotations(function, format=Format.STRING)
            return copy
    return function


class _DeferringPickler(_cloudpickle.Pickler):  # type: ignore[misc]  # it ships no types
    """Pickles functions by value, even if their annotations cannot be evaluated."""

    def _dynamic_function_reduce(self, func: types.FunctionType) -> tuple[Any, ...]:
        base: Any = super()
        parts = base._dynamic_function_reduce(_with_annotations(func))  # noqa: SLF001  # of its base
        return cast("tuple[Any, ...]", parts)


class _Pickler(_DeferringPickler):
    """Pickles one value whose buffers may be sent beside the pickle."""

    dispatch_table: ClassVar[Any] = ChainMap[Any, Any](
        _OWN, REDUCERS, _OF_LIBRARIES, _cloudpickles
    )


class _WholePickler(_DeferringPickler):
    """Pickles in one piece; PyTorch pickles tensors itself."""

    dispatch_table: ClassVar[Any] = ChainMap[Any, Any](_OWN, REDUCERS, _cloudpickles)


class Reduced:
    """Pickles as a call of a function, and arrives as the value of that call."""

    __slots__ = ("_reduced",)

    def __init__(self, function: Callable[..., object], *args: object) -> None:
        self._reduced = function, args

    def __reduce__(self) -> tuple[object, ...]:
        return self._reduced


def _wrap_long_bytes(value: object) -> object:
    """Makes pickle send long bytes as a buffer, which it would copy otherwise."""
    if type(value) is bytes and len(value) >= LARGE:
        return Reduced(bytes, pickle.PickleBuffer(value))
    return value


def storage_reducers(storage: Any) -> dict[type, Callable[[Any], Any]]:
    """Returns the reducers of the storages of tensors, by their class.

    The import of the module ``torch.storage`` may still be running.
    """
    try:
        return {
            storage.TypedStorage: _reduce_typed,
            storage.UntypedStorage: _reduce_untyped,
        }
    except AttributeError:
        return {}


def _reduce_typed(storage: Any) -> Any:
    untyped = storage._untyped_storage  # noqa: SLF001  # as in torch._utils
    if untyped.device.type != "cpu":
        return storage.__reduce__()
    return _typed, (untyped, storage.dtype)


def _reduce_untyped(storage: Any) -> Any:
    if storage.device.type != "cpu":
        return storage.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    memory = writable_memory(storage.data_ptr(), storage.nbytes(), storage)
    return _untyped, (pickle.PickleBuffer(memory.toreadonly()),)


def _typed(untyped: Any, dtype: Any) -> Any:
    storage: Any = import_module(_TORCH)
    return storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def _untyped(buffer: Any) -> Any:
    torch: Any = import_module("torch")  # the sender has it
    memory = private_writable(memoryview(buffer).cast("B"))
    if not len(memory):
        return torch.UntypedStorage(0)
    return torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
