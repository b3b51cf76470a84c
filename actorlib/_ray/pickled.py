"""Pickles values so that a client server does not load them.

A client is connected through a client server, which loads all values and pickles them
again. It has neither the user's modules nor a runtime for handles and refs. So values
pass it as bytes, with Ray's refs and handles beside them, where Ray counts them.
"""

from __future__ import annotations

import io
import pickle
import weakref
from contextvars import ContextVar
from typing import Any, NamedTuple

from actorlib._ray.ray_api import is_pickling_now, is_ray_object, ray
from actorlib.exceptions import SerializationError

is_pickling: ContextVar[bool] = ContextVar("actorlib_is_pickling", default=False)
"""Whether a value is being pickled, and Ray counts its refs and handles."""

_Pickler: Any = ray.cloudpickle.CloudPickler


class PickledValue(NamedTuple):
    """A pickled value.

    Attributes:
        payload: The pickle.
        things: Ray's refs and handles in the value.
        buffers: The bytes of arrays. Arrays that are loaded from the pickle itself
            would be writable, and they are read-only on all engines.
    """

    payload: bytes
    things: list[Any]
    buffers: list[bytes]


def pickle_value(value: object) -> PickledValue:
    """Pickles a value, without Ray's refs and handles.

    Raises:
        Exception: It cannot be pickled.
    """
    things: list[Any] = []
    buffers: list[bytes] = []
    token = is_pickling.set(True)
    try:
        with io.BytesIO() as file:
            _ValuePickler(file, things, buffers).dump(value)
            return PickledValue(file.getvalue(), things, buffers)
    finally:
        is_pickling.reset(token)


def unpickle_value(value: Any) -> Any:
    """Loads a PickledValue; returns other values unchanged.

    Raises:
        Exception: It cannot be loaded here.
    """
    if type(value) is not PickledValue:
        return value
    with io.BytesIO(value.payload) as file:
        return _ValueUnpickler(file, value).load()


def check_pickled_by_ray(what: str) -> None:
    """Makes sure that Ray pickles the value, so that it counts refs and handles.

    Raises:
        TypeError: It does not.
    """
    if not (is_pickling.get() or is_pickling_now()):
        raise TypeError(
            f"{what} travels only as an argument or a result of an actor's method: "
            "pickled otherwise, what it stands for could be gone when it is loaded"
        )


class PickledSources:
    """Pickles functions and actor classes once, and holds the refs in them."""

    def __init__(self) -> None:
        self._pickled: weakref.WeakKeyDictionary[object, PickledValue] = (
            weakref.WeakKeyDictionary()
        )

    def pickled(self, label: str, source: object) -> PickledValue:
        """Returns a pickled function or class.

        ``label`` is its kind and name, for messages.

        Raises:
            SerializationError: It cannot be sent, for example because it uses a global
                that cannot.
        """
        pickled = self._pickled.get(source)
        if pickled is None:
            try:
                pickled = self._pickled[source] = pickle_value(source)
            except Exception as error:
                raise SerializationError(
                    f"{label} cannot be sent to another process: {error}"
                ) from error
        return pickled


class _ValuePickler(_Pickler):  # type: ignore[misc]  # Ray is Any
    def __init__(
        self, file: io.BytesIO, things: list[Any], buffers: list[bytes]
    ) -> None:
        def keep_outside(buffer: pickle.PickleBuffer) -> None:
            buffers.append(bytes(buffer.raw()))

        super().__init__(file, 5, keep_outside)  # pyright: ignore[reportUnknownMemberType]  # Ray is Any
        self._things = things

    def persistent_id(self, obj: object) -> int | None:
        if not is_ray_object(obj):
            return None
        self._things.append(obj)
        return len(self._things) - 1


class _ValueUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, value: PickledValue) -> None:
        super().__init__(file, buffers=value.buffers)
        self._things = value.things

    def persistent_load(self, pid: Any) -> Any:
        return self._things[pid]
