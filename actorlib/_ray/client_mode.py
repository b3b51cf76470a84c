"""Works around what Ray's client does differently from a process of the cluster.

A client is no part of the cluster; it asks a client server. Ray's own functions do
so by themselves. Here is the rest: the id of a ref comes late, some things the server
does not pass on, and some are asked of a worker instead.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from actorlib._ray.pickled import PickledValue, pickle_value, unpickle_value
from actorlib._ray.ray_api import ray, undelivered
from actorlib.exceptions import ClusterError, UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")
PREFIX = "ray://"
"""How the addresses of client servers begin."""
_PATIENCE = 60.0
"""Seconds that a worker is given, which may have to be started."""


def fetch(ray_ref: Any, then: Callable[[Any], None]) -> None:
    """Calls back with the value of a ref, or its error, on a thread of Ray's.

    The server gives a ref its number, and until then nothing can be asked about it; so
    Ray would block whoever asks.
    """
    number = getattr(ray_ref, "_id_future", None)
    if number is None:
        ray_ref._on_completed(partial(_come, then))  # noqa: SLF001  # as Ray's own futures do
    else:
        number.add_done_callback(partial(_numbered, ray_ref, then))


def _numbered(ray_ref: Any, then: Callable[[Any], None], number: Any) -> None:
    refusal = number.exception()
    if refusal is not None:
        then(undelivered(refusal))
        return
    try:
        ray_ref._on_completed(partial(_come, then))  # noqa: SLF001  # likewise
    except Exception as error:  # noqa: BLE001  # whatever it is, somebody waits
        then(undelivered(error))


def _come(then: Callable[[Any], None], answer: Any) -> None:
    """Users' values come pickled: an exception is what became of the way here."""
    then(undelivered(answer) if isinstance(answer, Exception) else answer)


def with_methods(handle: Any, host: type[object]) -> Any:
    """A handle that knows the methods of its actor; Ray would ask a worker for them.

    Args:
        handle: One of Ray's client, as it came or was made.
        host: The class of the actor.
    """
    methods = dict(inspect.getmembers(host, inspect.isfunction))
    handle._method_num_returns = dict.fromkeys(methods)  # noqa: SLF001  # where Ray keeps it
    handle._method_signatures = {  # noqa: SLF001  # likewise
        name: _unbound(method) for name, method in methods.items()
    }
    return handle


def _unbound(method: Callable[..., Any]) -> inspect.Signature:
    said = inspect.signature(method)
    return said.replace(parameters=list(said.parameters.values())[1:])


class ClusterQuery:
    """Runs a function on the cluster whose answer a client server does not give.

    It blocks until there is an answer, as Ray's own questions about a cluster do.

    Args:
        is_client: Whether this process is a client; others answer for themselves.
    """

    def __init__(self, *, is_client: bool) -> None:
        self._is_far = is_client
        self._asked: Any = None

    def __call__(self, function: Callable[..., R], *args: Any) -> R:
        """Calls a function of a module, here or in a worker.

        Args:
            function: The function.
            *args: What it is given: plain data.

        Raises:
            ClusterError: No worker has answered in time.
        """
        if not self._is_far:
            return function(*args)
        if self._asked is None:
            self._asked = ray.remote(num_cpus=0)(_answered)
        try:
            came = ray.get(self._asked.remote(function, *args), timeout=_PATIENCE)
        except ray.exceptions.GetTimeoutError as error:
            raise ClusterError(
                f"no worker of the cluster has answered within {_PATIENCE:g} s: look "
                "at its machines with 'ray status', and whether workers can start there"
            ) from error
        answer: R = unpickle_value(came)
        return answer


def _answered(function: Callable[..., object], *args: Any) -> PickledValue:
    return pickle_value(function(*args))


def no_streams(where: str) -> UnsupportedOptionError:
    """Makes the error that says why a client can call no generator."""
    return UnsupportedOptionError(
        f"{where} is a generator, and Ray passes no streams through a client server: "
        "have it return a list, read it in an actor or a function on the cluster, or "
        "connect from a machine of the cluster (address='auto')"
    )
