"""The differences of Ray's client from a process of the cluster.

A client is not part of the cluster and uses a client server. Ray's public functions
support that. The rest is here: the id of a ref comes late, the server does not pass on
some results, and some queries have to run in a worker.
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
"""The beginning of the addresses of client servers."""
_PATIENCE = 60.0
"""Seconds for the answer of a worker, which may have to be started."""


def fetch(ray_ref: Any, then: Callable[[Any], None]) -> None:
    """Calls back with the value or the error of a ref, on a Ray thread.

    The server numbers refs, and Ray blocks all callers that use a ref without a number.
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
        ray_ref._on_completed(partial(_come, then))  # noqa: SLF001  # as above
    except Exception as error:  # noqa: BLE001  # a caller waits for the answer
        then(undelivered(error))


def _come(then: Callable[[Any], None], answer: Any) -> None:
    """Passes an answer on; values are pickled, so an exception is a lost answer."""
    then(undelivered(answer) if isinstance(answer, Exception) else answer)


def with_methods(handle: Any, host: type[object]) -> Any:
    """Adds the methods of a class to a client's handle; Ray would query a worker."""
    methods = dict(inspect.getmembers(host, inspect.isfunction))
    handle._method_num_returns = dict.fromkeys(methods)  # noqa: SLF001  # where Ray keeps it
    handle._method_signatures = {  # noqa: SLF001  # as above
        name: _unbound(method) for name, method in methods.items()
    }
    return handle


def _unbound(method: Callable[..., Any]) -> inspect.Signature:
    signature = inspect.signature(method)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


class ClusterQuery:
    """Runs queries that a client server does not answer, in a worker.

    It blocks until the answer, as Ray's own queries do.

    Processes that are not clients run the queries themselves.
    """

    def __init__(self, *, is_client: bool) -> None:
        self._is_client = is_client
        self._remote: Any = None

    def __call__(self, function: Callable[..., R], *args: Any) -> R:
        """Calls a function of a module, here or in a worker.

        The arguments have to be plain data.

        Raises:
            ClusterError: No worker has answered in time.
        """
        if not self._is_client:
            return function(*args)
        if self._remote is None:
            self._remote = ray.remote(num_cpus=0)(_call_pickled)
        try:
            pickled = ray.get(self._remote.remote(function, *args), timeout=_PATIENCE)
        except ray.exceptions.GetTimeoutError as error:
            raise ClusterError(
                f"no worker of the cluster has answered within {_PATIENCE:g} s: check "
                "its machines with 'ray status', and whether workers can start there"
            ) from error
        answer: R = unpickle_value(pickled)
        return answer


def _call_pickled(function: Callable[..., object], *args: Any) -> PickledValue:
    return pickle_value(function(*args))


def no_streams(where: str) -> UnsupportedOptionError:
    """Makes the error of a generator that a client calls."""
    return UnsupportedOptionError(
        f"{where} is a generator, and Ray passes no streams through a client server: "
        "have it return a list, read it in an actor or a function on the cluster, or "
        "connect from a machine of the cluster (address='auto')"
    )
