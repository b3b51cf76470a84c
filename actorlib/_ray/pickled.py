"""Pickles values so that a client server passes them on without loading them.

Between a client and the cluster stands a client server, which loads what passes by and
pickles it anew. It has none of the user's modules, and no runtime to whom a handle or a
ref could arrive. So what is the user's passes it as bytes; what Ray counts lies beside
them, where Ray sees it.
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
"""Whether a value is being pickled, and Ray counts what is in it."""

_Pickler: Any = ray.cloudpickle.CloudPickler


class PickledValue(NamedTuple):
    """A pickled value, and Ray's objects that are in it.

    Attributes:
        payload: It, pickled.
        things: Ray's refs and handles that are in it.
        buffers: The bytes of arrays. Loaded from the pickle, arrays could be written,
            and they are read-only on every engine.
    """

    payload: bytes
    things: list[Any]
    buffers: list[bytes]


def pickle_value(value: object) -> PickledValue:
    """Pickles a value; Ray's objects in it stay as they are.

    Raises:
        Exception: It cannot be sent.
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
    """Gives a value as it was, if it was pickled by this file or not.

    Raises:
        Exception: It cannot be loaded here.
    """
    if type(value) is not PickledValue:
        return value
    with io.BytesIO(value.payload) as file:
        return _ValueUnpickler(file, value).load()


def check_pickled_by_ray(what: str) -> None:
    """Refuses what is pickled for something else than Ray, which would not count it.

    Raises:
        TypeError: It is.
    """
    if not (is_pickling.get() or is_pickling_now()):
        raise TypeError(
            f"{what} travels only as an argument or a result of an actor's method: "
            "pickled otherwise, what it stands for could be gone when it is loaded"
        )


class PickledSources:
    """Pickles functions and actor classes, each once for as long as it exists.

    What they capture is held by what Ray has of it in here.
    """

    def __init__(self) -> None:
        self._pickled: weakref.WeakKeyDictionary[object, PickledValue] = (
            weakref.WeakKeyDictionary()
        )

    def pickled(self, label: str, source: object) -> PickledValue:
        """Gives a function or a class pickled.

        Args:
            label: What it is, and what it is called, for messages.
            source: It.

        Raises:
            SerializationError: It cannot be sent, for example because it uses a global
                that cannot.
        """
        found = self._pickled.get(source)
        if found is None:
            try:
                found = self._pickled[source] = pickle_value(source)
            except Exception as error:
                raise SerializationError(
                    f"{label} cannot be sent to another process: {error}"
                ) from error
        return found


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
