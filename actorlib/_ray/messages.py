"""Messages between a caller and a host: calls, their failures, and configuration."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from actorlib._core.current_call import deadline_of, is_late, running
from actorlib._ray.deadlines import from_clock_time
from actorlib._wire.arguments import with_values
from actorlib._wire.call_headers import enter_variables, late_error
from actorlib._wire.errors import encode_exception, traceback_of
from actorlib._wire.serialization import dump, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._options.runtime_env import RuntimeEnv
    from actorlib._ray.pickled import PickledValue


RetriedErrors: TypeAlias = bool | tuple[type[Exception], ...]
"""The exceptions after which a call is sent again: all, none, or these."""


class CallMessage(NamedTuple):
    """A call as it is sent: method, arguments, headers.

    Attributes:
        name: The method.
        args: The positional arguments; a ref among them has left a hole.
        kwargs: The keyword arguments, with such holes.
        places: The places of the holes: positions, and names of keyword arguments. Ray
            passes the values in this order.
        headers: The headers, or None; see ``call_headers``.
        retried: The exceptions after which it is sent again.
        is_client: Whether its answer is pickled, as a client has sent it.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    places: tuple[int | str, ...] = ()
    headers: Mapping[str, Any] | None = None
    retried: RetriedErrors = False
    is_client: bool = False

    @property
    def batch(self) -> tuple[int, bool] | None:
        """Set if it is a batch of calls; see ``call_headers``."""
        return None if self.headers is None else self.headers.get("batch")


class HostConfig(NamedTuple):
    """The configuration of a host.

    Attributes:
        source: The class.
        label: Its name.
        resources: The resources of the actor, by name, as the user wrote them.
        runtime_env: Its environment, with the inherited one.
        hides: Whether accelerators that it did not request are hidden from it.
        limits: The most running calls by group, if the host limits them.
        groups: The concurrency group of each method that has one.
        group: The spec of its placement group, or None.
        captures: Whether actors that it creates are placed in that group by default.
        runtime: The configuration of the runtime.
        begin: Prepares its process.
    """

    source: PickledValue
    label: str
    resources: Mapping[str, float]
    runtime_env: RuntimeEnv
    hides: bool
    limits: Mapping[str, int]
    groups: Mapping[str, str]
    group: Any
    captures: bool
    runtime: RuntimeConfig
    begin: Callable[[Any, Any], tuple[type, Any]]


class RuntimeConfig(NamedTuple):
    """The configuration of a runtime, the same in every process.

    Attributes:
        namespace: The default namespace of names.
        waits: Whether requests wait that no machine can fulfil.
    """

    namespace: str = "default"
    waits: bool = False


class UserFailure(Exception):  # noqa: N818  # it reports an error
    """Carries an exception of the user's code to the caller.

    Ray carries this class, because it can always be loaded, whatever the user's class
    is. Its arguments are those of ``error_of``: the last line of the traceback, the
    traceback, the method, and the pickled exception or nothing.
    """

    def __str__(self) -> str:
        """The traceback, for Ray's own logs."""
        return str(self.args[1]) if len(self.args) > 1 else ""


class RetryableFailure(UserFailure):
    """Carries an exception after which Ray sends the call again."""


def failure_of(error: BaseException, where: str, retried: RetriedErrors) -> UserFailure:
    """Makes the exception that carries one of the user's."""
    is_again = retried if isinstance(retried, bool) else isinstance(error, retried)
    kind = RetryableFailure if is_again else UserFailure
    summary, text = one_line(error), traceback_of(error)
    return kind(summary, text, where, encode_exception(error, dump))


def enter_call(number: int, sent: CallMessage, label: str) -> None:
    """Makes a call the current one.

    Raises:
        DeadlineExceededError: Its deadline passed before it began.
    """
    running.set((number, sent.name, sent.headers))
    if sent.headers is not None:
        refuse_late(sent, label)
        enter_variables(sent.headers)


def read_call(
    sent: CallMessage | PickledValue, values: tuple[Any, ...]
) -> tuple[CallMessage, tuple[Any, ...], Mapping[str, Any]]:
    """Decodes a received call; returns it and its arguments."""
    from actorlib._ray.pickled import unpickle_value  # noqa: PLC0415  # ``errors`` works without Ray

    call: CallMessage = unpickle_value(sent)
    if call.headers is not None:
        headers = from_clock_time(call.headers, time.monotonic(), time.time())
        call = call._replace(headers=headers)
    if not call.places:
        return call, call.args, call.kwargs
    loaded = tuple(map(unpickle_value, values))
    return call, *with_values(call.args, call.kwargs, call.places, loaded)


def answer_to(sent: CallMessage, value: object) -> object:
    """Returns the answer of a call: the value, pickled for a client."""
    from actorlib._ray.pickled import pickle_value  # noqa: PLC0415  # as above

    return pickle_value(value) if sent.is_client else value


def refuse_late(sent: CallMessage, label: str) -> None:
    """Refuses a call after its deadline: it may have waited.

    Raises:
        DeadlineExceededError: The deadline has passed.
    """
    deadline = deadline_of(sent.headers)
    if deadline is not None and is_late(sent.headers):
        raise late_error(label, deadline)
