"""PyTorch's tensors in main memory: the memory of a tensor travels as it is.

PyTorch pickles the bytes of a tensor into the stream, which copies them twice on each
side. Here a storage is one buffer, like an array of NumPy's, and what arrives is a
tensor over a private mapping of the shared memory: nothing is copied, and what the
receiver writes into it is its own. Storages elsewhere (CUDA, for example) are pickled
as PyTorch does it. Tensors that share a storage share it when they arrive, too.
"""

from __future__ import annotations

import pickle
from importlib import import_module
from typing import TYPE_CHECKING, Any

from actorlib._wire.exports import at
from actorlib._wire.private import writable

if TYPE_CHECKING:
    from collections.abc import Callable

_MODULE = "torch.storage"


def reducers(storage: Any) -> dict[type, Callable[[Any], Any]]:
    """How storages are pickled, by their class.

    Args:
        storage: The module ``torch.storage``, which may still be on its way.
    """
    try:
        return {
            storage.TypedStorage: _reduce_typed,
            storage.UntypedStorage: _reduce_untyped,
        }
    except AttributeError:
        return {}


def _reduce_typed(storage: Any) -> Any:
    untyped = storage._untyped_storage  # noqa: SLF001  # as torch._utils asks for it
    if untyped.device.type != "cpu":
        return storage.__reduce__()
    return _typed, (untyped, storage.dtype)


def _reduce_untyped(storage: Any) -> Any:
    if storage.device.type != "cpu":
        return storage.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
    memory = at(storage.data_ptr(), storage.nbytes(), storage)
    return _untyped, (pickle.PickleBuffer(memory),)


def _typed(untyped: Any, dtype: Any) -> Any:
    storage: Any = import_module(_MODULE)
    return storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def _untyped(buffer: Any) -> Any:
    torch: Any = import_module("torch")  # the sender has it
    memory = writable(memoryview(buffer).cast("B"))
    if not len(memory):
        return torch.UntypedStorage(0)
    return torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
