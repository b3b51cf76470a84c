"""Messages between a caller and a host: calls, their failures, and configuration."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from actorlib._base.labels import Label, own_name
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
"""The exceptions after which a call is made again: all, none, or those listed."""


class CallMessage(NamedTuple):
    """A call as it is sent: method, arguments, headers.

    Attributes:
        name: The method.
        args: The positional arguments; a ref among them has left a hole.
        kwargs: The keyword arguments likewise.
        places: Where the holes are: positions, and names of keyword arguments. Ray
            gives the values in this order.
        headers: What the caller says of this call alone, or None; see ``call_headers``.
        retried: The exceptions after which it is to be made again.
        is_client: Whether its answer is pickled, as it came from a client.
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

    def filled(
        self, values: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """All arguments, with the values of the refs."""
        if not self.places:
            return self.args, self.kwargs
        return with_values(self.args, self.kwargs, self.places, values)


class HostConfig(NamedTuple):
    """What a host needs to make its actor, besides the arguments.

    Attributes:
        source: The class.
        label: Its name.
        resources: What the actor holds, by resource name, as the user wrote it.
        runtime_env: What was said of its process, with what it inherited.
        hides: Whether accelerators that it did not ask for are closed to it.
        limits: How many calls run at once, by group, where that is counted here.
        groups: The methods that are in a group, each with its name.
        group: The spec of the placement group that it is in, or None.
        captures: Whether the actors that it makes go into that group by default.
        runtime: What holds for the whole runtime.
        begin: Makes a process the actor's.
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
        namespace: Where names are looked for that say nothing else.
        waits: Whether what no node has is waited for.
    """

    namespace: str = "default"
    waits: bool = False


class UserFailure(Exception):  # noqa: N818  # it reports an error
    """Carries an exception of the user's code to the caller.

    It is what Ray carries, because it always loads, whatever the user's class is like.
    Its arguments are those of ``error_of``: the last line of the traceback, the
    traceback, where it was, and the pickled exception or nothing.
    """

    def __str__(self) -> str:
        """The traceback, for Ray's own logs."""
        return str(self.args[1]) if len(self.args) > 1 else ""


class RetryableFailure(UserFailure):
    """Carries an exception after which Ray makes the call again."""


def failure_of(error: BaseException, where: str, retried: RetriedErrors) -> UserFailure:
    """Makes what is raised in the place of an exception of the user's.

    Args:
        error: The exception.
        where: Which method of which actor.
        retried: The exceptions after which the call is made again.
    """
    is_again = retried if isinstance(retried, bool) else isinstance(error, retried)
    kind = RetryableFailure if is_again else UserFailure
    summary, text = one_line(error), traceback_of(error)
    return kind(summary, text, where, encode_exception(error, dump))


def enter_call(number: int, sent: CallMessage, label: str) -> None:
    """Makes a call the one whose code is running here.

    Args:
        number: Its number in this process.
        sent: The call.
        label: What it is called in messages.

    Raises:
        DeadlineExceededError: Its time was over before it was its turn.
    """
    running.set((number, sent.name, sent.headers))
    if sent.headers is not None:
        refuse_late(sent, label)
        enter_variables(sent.headers)


def read_call(
    sent: CallMessage | PickledValue, values: tuple[Any, ...]
) -> tuple[CallMessage, tuple[Any, ...], Mapping[str, Any]]:
    """Decodes a call where it runs; gives it and its arguments.

    Args:
        sent: What was sent.
        values: The values of the refs among the arguments.
    """
    from actorlib._ray.pickled import unpickle_value  # noqa: PLC0415  # errors are told without Ray

    asked: CallMessage = unpickle_value(sent)
    if asked.headers is not None:
        headers = from_clock_time(asked.headers, time.monotonic(), time.time())
        asked = asked._replace(headers=headers)
    args, kwargs = asked.filled(tuple(map(unpickle_value, values)))
    return asked, args, kwargs


def answer_to(sent: CallMessage, value: object) -> object:
    """Gives the answer of a call: the value, or the pickled one for a client."""
    from actorlib._ray.pickled import pickle_value  # noqa: PLC0415  # likewise

    return pickle_value(value) if sent.is_client else value


def refuse_late(sent: CallMessage, label: str) -> None:
    """Refuses a call whose time is over: it may have waited for its turn.

    Raises:
        DeadlineExceededError: It is.
    """
    deadline = deadline_of(sent.headers)
    if deadline is not None and is_late(sent.headers):
        raise late_error(label, deadline)


def method_label(instance: object, label: str, method: str) -> str:
    """Names a method of an actor, by the actor's own ``repr`` if it has one of use."""
    return Label(label, own=own_name(instance)).method(method, os.getpid())
