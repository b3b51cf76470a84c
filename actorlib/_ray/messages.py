"""What crosses between a caller and a host, besides the values themselves."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from actorlib._core.current_call import deadline_of, is_late, running
from actorlib._core.labels import Label, own_name
from actorlib._ray.deadlines import arriving
from actorlib._wire.arguments import with_values
from actorlib._wire.call_headers import enter_variables, late_error
from actorlib._wire.errors import encode_exception, traceback_of
from actorlib._wire.serialization import dump, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._core.runtime_env import RuntimeEnv
    from actorlib._ray.sealed import SealedValue


Retried: TypeAlias = bool | tuple[type[Exception], ...]
"""The exceptions after which a call is made again: all, none, or those listed."""


class Sent(NamedTuple):
    """The arguments of one call, and what is said of it.

    Attributes:
        name: The method.
        args: The positional arguments; a ref among them has left a hole.
        kwargs: The keyword arguments likewise.
        places: Where the holes are: positions, and names of keyword arguments. Ray
            gives the values in this order.
        headers: What the caller says of this call alone, or None; see ``call_headers``.
        retried: The exceptions after which it is to be made again.
        is_far: Whether its answer is sealed, as it came from a client.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    places: tuple[int | str, ...] = ()
    headers: Mapping[str, Any] | None = None
    retried: Retried = False
    is_far: bool = False

    @property
    def batch(self) -> tuple[int, int] | None:
        """That it is many calls; see ``call_headers``."""
        return None if self.headers is None else self.headers.get("batch")

    def filled(
        self, values: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """All arguments, with the values of the refs."""
        if not self.places:
            return self.args, self.kwargs
        return with_values(self.args, self.kwargs, self.places, values)


class Birth(NamedTuple):
    """What an actor is made from, besides its arguments.

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
        house: What holds for the whole runtime.
        begin: Makes a process the actor's.
    """

    source: SealedValue
    label: str
    resources: Mapping[str, float]
    runtime_env: RuntimeEnv
    hides: bool
    limits: Mapping[str, int]
    groups: Mapping[str, str]
    group: Any
    captures: bool
    house: RuntimeConfig
    begin: Callable[[Any, Any], tuple[Callable[..., object], Any]]


class RuntimeConfig(NamedTuple):
    """What holds for the whole runtime, in every process.

    Attributes:
        namespace: Where names are looked for that say nothing else.
        waits: Whether what no node has is waited for.
    """

    namespace: str = "default"
    waits: bool = False


class Raised(Exception):  # noqa: N818  # it reports an error
    """The user's code raised: what the caller is to be told of it.

    It is what Ray carries, because it always loads, whatever the user's class is like.
    Its arguments are those of ``error_of``: the last line of the traceback, the
    traceback, where it was, and the pickled exception or nothing.
    """

    def __str__(self) -> str:
        """The traceback, for Ray's own logs."""
        return str(self.args[1]) if len(self.args) > 1 else ""


class Again(Raised):
    """The same, of an exception after which the call is made again."""


def raised(error: BaseException, where: str, retried: Retried) -> Raised:
    """What is raised in the place of an exception of the user's.

    Args:
        error: The exception.
        where: Which method of which actor.
        retried: The exceptions after which the call is made again.
    """
    is_again = retried if isinstance(retried, bool) else isinstance(error, retried)
    kind = Again if is_again else Raised
    told = one_line(error), traceback_of(error)
    return kind(*told, where, encode_exception(error, dump))


def enter(number: int, sent: Sent, label: str) -> None:
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


def received(
    sent: Sent | SealedValue, values: tuple[Any, ...]
) -> tuple[Sent, tuple[Any, ...], Mapping[str, Any]]:
    """A call where it runs, and its arguments.

    Args:
        sent: What was sent.
        values: The values of the refs among the arguments.
    """
    from actorlib._ray.sealed import opened  # noqa: PLC0415  # errors are told without Ray

    asked: Sent = opened(sent)
    if asked.headers is not None:
        headers = arriving(asked.headers, time.monotonic(), time.time())
        asked = asked._replace(headers=headers)
    args, kwargs = asked.filled(tuple(map(opened, values)))
    return asked, args, kwargs


def answered(sent: Sent, value: object) -> object:
    """What a call answers: the value, or that sealed."""
    from actorlib._ray.sealed import seal  # noqa: PLC0415  # likewise

    return seal(value) if sent.is_far else value


def refuse_late(sent: Sent, label: str) -> None:
    """Refuses a call whose time is over: it may have waited for its turn.

    Raises:
        DeadlineExceededError: It is.
    """
    deadline = deadline_of(sent.headers)
    if deadline is not None and is_late(sent.headers):
        raise late_error(label, deadline)


def where(instance: object, label: str, method: str) -> str:
    """Names a method of an actor, by the actor's own ``repr`` if it has one of use."""
    return Label(label, own=own_name(instance)).method(method, os.getpid())
