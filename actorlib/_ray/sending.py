"""The arguments of a call on their way to a host."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from actorlib._calling import deadline_of, running
from actorlib._label import Label
from actorlib._propagation import MARKED
from actorlib._ray.crossing import Retried, Sent
from actorlib._ray.deadlines import leaving
from actorlib._ray.sealed import Sealed, seal
from actorlib._ray.tasks import ray_ref_of
from actorlib._ref import REFS
from actorlib._telling import tell
from actorlib.exceptions import ActorlibError, ClusterError, SerializationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib._ref import ObjectRef
    from actorlib._telling import Called

_SAID = ("batch", "deadline", "group", "name", "variables")
"""What a host has to know of what is said of a call; the rest Ray is told."""


def packed(
    name: str,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    told: Mapping[str, Any] | None = None,
    retried: Retried = False,  # noqa: FBT002  # as in the options
) -> tuple[Sent, list[Any]]:
    """The arguments of a call, and apart from them the refs, whose values Ray gives.

    Args:
        name: What is called.
        args: The positional arguments.
        kwargs: The keyword arguments.
        told: What is said of this call alone.
        retried: The exceptions after which it is made again.

    Raises:
        UnsupportedOptionError: One is a part of a result that is not there yet.
    """
    holes: dict[int | str, object] = dict(enumerate(args))
    holes.update(kwargs)
    if REFS.isdisjoint(map(type, holes.values())):
        return Sent(name, args, kwargs, (), told, retried), []
    places: list[int | str] = []
    given: list[Any] = []
    for place, value in holes.items():
        if type(value) in REFS:
            places.append(place)
            given.append(ray_ref_of(cast("ObjectRef[Any]", value)))
            holes[place] = None
    rest = tuple(holes[place] for place in range(len(args)))
    named = {key: holes[key] for key in kwargs}
    return Sent(name, rest, named, tuple(places), told, retried), given


def said(method: Called, label: str) -> dict[str, Any] | None:
    """What a host has to know of one call besides its arguments.

    Args:
        method: The method or the function that is called.
        label: The class of the actor that calls, if one does.
    """
    asking = running.get()
    is_silent = method.told is None and not MARKED
    if is_silent and (asking is None or deadline_of(asking[2]) is None):
        return None
    where = Label(label).method if label else str
    told = tell(method, asking, where) or {}
    return {name: told[name] for name in _SAID if name in told} or None


def on_its_way(sent: Sent, *, is_far: bool) -> Sent | Sealed:
    """A call as Ray is given it.

    Args:
        sent: What is sent.
        is_far: Whether a client server stands between.

    Raises:
        Exception: An argument cannot be sent.
    """
    if sent.told is not None:
        told = leaving(sent.told, time.monotonic(), time.time())
        sent = sent._replace(told=told)
    return seal(sent._replace(is_far=True)) if is_far else sent


def disconnected(where: str, error: Exception) -> ClusterError:
    """What is told of something that no client server took any more."""
    return ClusterError(
        f"{where} was not sent: the connection to the client server is lost, and with "
        f"it this runtime: {' '.join(str(error).split())}"
    )


def unsendable(where: str, sent: Sent, error: Exception) -> ActorlibError:
    """Says which argument of a call Ray cannot send, and why.

    Args:
        where: What is called.
        sent: Its arguments.
        error: What came of the attempt to send all of them.
    """
    if isinstance(error, ConnectionError):
        return disconnected(where, error)
    for place, value in (*enumerate(sent.args), *sent.kwargs.items()):
        label = f"argument {place}="
        if isinstance(place, int):
            label = f"argument {place + 1}"
        try:
            seal(value)
        except Exception as own:  # noqa: BLE001  # any reason will do
            return SerializationError(
                f"{label} of {where}, a {type(value).__qualname__}, cannot be sent to "
                f"another process: {own}"
            )
    return SerializationError(
        f"the arguments of {where} cannot be sent to another process: {error}"
    )
