"""Values that only those load who asked for them: bytes, and Ray's own things beside.

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

from actorlib._ray.ray_api import is_rays, ray, travels_now
from actorlib.exceptions import SerializationError

sealing: ContextVar[bool] = ContextVar("actorlib_sealing", default=False)
"""Whether a value is being sealed, and Ray counts what is in it."""

_Pickler: Any = ray.cloudpickle.CloudPickler


class SealedValue(NamedTuple):
    """A value on its way.

    Attributes:
        payload: It, pickled.
        things: Ray's refs and handles that are in it.
    """

    payload: bytes
    things: list[Any]


def seal(value: object) -> SealedValue:
    """Seals a value.

    Raises:
        Exception: It cannot be sent.
    """
    things: list[Any] = []
    token = sealing.set(True)
    try:
        with io.BytesIO() as file:
            _Sealer(file, things).dump(value)
            return SealedValue(file.getvalue(), things)
    finally:
        sealing.reset(token)


def opened(value: Any) -> Any:
    """A value as it was, sealed or not.

    Raises:
        Exception: It cannot be loaded here.
    """
    if type(value) is not SealedValue:
        return value
    with io.BytesIO(value.payload) as file:
        return _Opener(file, value.things).load()


def check_travelling(what: str) -> None:
    """Refuses what is pickled for something else than Ray, which would not count it.

    Raises:
        TypeError: It is.
    """
    if not (sealing.get() or travels_now()):
        raise TypeError(
            f"{what} travels only as an argument or a result of an actor's method: "
            "pickled otherwise, what it stands for could be gone when it is loaded"
        )


class Sources:
    """Functions and the classes of actors, each sealed once for as long as it exists.

    What they capture is held by what Ray has of it in here.
    """

    def __init__(self) -> None:
        self._sealed: weakref.WeakKeyDictionary[object, SealedValue] = (
            weakref.WeakKeyDictionary()
        )

    def sealed(self, label: str, source: object) -> SealedValue:
        """A function or a class as it is sent.

        Args:
            label: What it is, and what it is called, for messages.
            source: It.

        Raises:
            SerializationError: It cannot be sent, for example because it uses a global
                that cannot.
        """
        found = self._sealed.get(source)
        if found is None:
            try:
                found = self._sealed[source] = seal(source)
            except Exception as error:
                raise SerializationError(
                    f"{label} cannot be sent to another process: {error}"
                ) from error
        return found


class _Sealer(_Pickler):  # type: ignore[misc]  # Ray is Any
    def __init__(self, file: io.BytesIO, things: list[Any]) -> None:
        super().__init__(file)  # pyright: ignore[reportUnknownMemberType]  # likewise
        self._things = things

    def persistent_id(self, obj: object) -> int | None:
        if not is_rays(obj):
            return None
        self._things.append(obj)
        return len(self._things) - 1


class _Opener(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, things: list[Any]) -> None:
        super().__init__(file)
        self._things = things

    def persistent_load(self, pid: Any) -> Any:
        return self._things[pid]
