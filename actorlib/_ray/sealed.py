"""Values that only those load who asked for them: bytes, and Ray's own things beside.

Between a client and the cluster stands a client server, which loads what passes by and
pickles it anew. It has none of the user's modules, and no runtime to whom a handle or a
ref could arrive. So what is the user's passes it as bytes; what Ray counts lies beside
them, where Ray sees it.
"""

from __future__ import annotations

import io
import pickle
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from actorlib._ray.deadlines import arriving
from actorlib._ray.library import is_rays, ray, travels_now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib._ray.crossing import Sent

sealing: ContextVar[bool] = ContextVar("actorlib_sealing", default=False)
"""Whether a value is being sealed, and Ray counts what is in it."""

_Pickler: Any = ray.cloudpickle.CloudPickler


class Sealed(NamedTuple):
    """A value on its way.

    Attributes:
        payload: It, pickled.
        things: Ray's refs and handles that are in it.
    """

    payload: bytes
    things: list[Any]


def seal(value: object) -> Sealed:
    """Seals a value.

    Raises:
        Exception: It cannot be sent.
    """
    things: list[Any] = []
    token = sealing.set(True)
    try:
        with io.BytesIO() as file:
            _Sealer(file, things).dump(value)
            return Sealed(file.getvalue(), things)
    finally:
        sealing.reset(token)


def opened(value: Any) -> Any:
    """A value as it was, sealed or not.

    Raises:
        Exception: It cannot be loaded here.
    """
    if type(value) is not Sealed:
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


def received(
    sent: Sent | Sealed, values: tuple[Any, ...]
) -> tuple[Sent, tuple[Any, ...], Mapping[str, Any]]:
    """A call where it runs, and its arguments.

    Args:
        sent: What was sent.
        values: The values of the refs among the arguments.
    """
    asked: Sent = opened(sent)
    if asked.told is not None:
        told = arriving(asked.told, time.monotonic(), time.time())
        asked = asked._replace(told=told)
    args, kwargs = asked.filled(tuple(map(opened, values)))
    return asked, args, kwargs


def answered(sent: Sent, value: object) -> object:
    """What a call answers: the value, or that sealed."""
    return seal(value) if sent.is_far else value


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
