"""Calls on their way out: of actors, whose hosts call a method, and of functions.

The values of refs among the arguments are Ray's to give: in their places stand holes.
A function is one of Ray's tasks, which runs it in whatever process is free.
"""

from __future__ import annotations

import itertools
import math
import os
import time
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from actorlib._core.current_call import deadline_of, running
from actorlib._core.propagation import PROPAGATED
from actorlib._ray import client_mode
from actorlib._ray.deadlines import leaving
from actorlib._ray.messages import (
    Again,
    Retried,
    RuntimeConfig,
    Sent,
    answered,
    enter,
    raised,
    received,
)
from actorlib._ray.options import function_options
from actorlib._ray.ray_api import inside, ray
from actorlib._ray.refs import Asked, Failed, Force, RayTask, ray_ref_of, tasks_among
from actorlib._ray.sealed import SealedValue, Sources, opened, seal
from actorlib._ray.streams import Stream
from actorlib._wire.arguments import without_refs
from actorlib._wire.call_headers import headers_of
from actorlib._wire.errors import blame_argument
from actorlib.exceptions import (
    ActorlibError,
    ClusterError,
    SerializationError,
    TaskUnschedulableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from actorlib._core.callee import BoundMethod, Callee
    from actorlib._core.current_call import Deadline
    from actorlib._core.function_options import FunctionSpec
    from actorlib._core.object_ref import ObjectRef
    from actorlib._ray.actors import Actor
    from actorlib._ray.process import ProcessState
    from actorlib._ray.state import Nodes


_SAID = ("batch", "deadline", "group", "name", "variables")
"""What a host has to know of what is said of a call; the rest Ray is told."""


def packed(
    name: str,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    headers: Mapping[str, Any] | None = None,
    retried: Retried = False,  # noqa: FBT002  # as in the options
) -> tuple[Sent, list[Any]]:
    """The arguments of a call, and apart from them the refs, whose values Ray gives.

    Args:
        name: What is called.
        args: The positional arguments.
        kwargs: The keyword arguments.
        headers: What is said of this call alone.
        retried: The exceptions after which it is made again.

    Raises:
        UnsupportedOptionError: One is a part of a result that is not there yet.
    """
    rest, named, places, refs = without_refs(args, kwargs)
    sent = Sent(name, rest, named, tuple(places), headers, retried)
    return sent, list(map(ray_ref_of, refs))


def said(callee: Callee, where: Callable[[str], str]) -> dict[str, Any] | None:
    """What a host has to know of one call besides its arguments.

    Args:
        callee: What is called.
        where: Names the call that makes it, by its method or its function.
    """
    parent_call = running.get()
    is_silent = callee.headers is None and not PROPAGATED
    if is_silent and (parent_call is None or deadline_of(parent_call[2]) is None):
        return None
    headers = headers_of(callee, parent_call, where) or {}
    return {name: headers[name] for name in _SAID if name in headers} or None


def on_its_way(sent: Sent, *, is_far: bool) -> Sent | SealedValue:
    """A call as Ray is given it.

    Args:
        sent: What is sent.
        is_far: Whether a client server stands between.

    Raises:
        Exception: An argument cannot be sent.
    """
    if sent.headers is not None:
        headers = leaving(sent.headers, time.monotonic(), time.time())
        sent = sent._replace(headers=headers)
    return seal(sent._replace(is_far=True)) if is_far else sent


def disconnected(where: str, error: Exception) -> ClusterError:
    """What is told of something that no client server took any more."""
    return ClusterError(
        f"{where} was not sent: the connection to the client server is lost, and with "
        f"it this runtime: {' '.join(str(error).split())}"
    )


def unsendable_call(where: str, sent: Sent, error: Exception) -> ActorlibError:
    """Says which argument of a call Ray cannot send, and why.

    Args:
        where: What is called.
        sent: Its arguments.
        error: What came of the attempt to send all of them.
    """
    if isinstance(error, ConnectionError):
        return disconnected(where, error)
    named: list[tuple[int | str, object]] = [
        *enumerate(sent.args),
        *sent.kwargs.items(),
    ]
    return SerializationError(blame_argument(where, named, error, seal))


class Going(NamedTuple):
    """A call that Ray has.

    Attributes:
        result: What Ray gave for it: a ref, or a generator.
        where: What was called, for messages.
        asked: What is known of it until it is answered.
        deadline: When its time is over.
    """

    result: Any
    where: str
    asked: Asked
    deadline: Deadline | None


class Calls:
    """The calls of actors that one process makes.

    Args:
        home: Where their refs are filled.
        where: Names a method of the actor whose code calls, for messages.
    """

    def __init__(self, home: ProcessState, where: Callable[[str], str]) -> None:
        self._home = home
        self._where = where

    def call(
        self,
        actor: Actor,
        callee: BoundMethod,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Sends a call; see Engine.

        Args:
            actor: The actor.
            callee: What is called.
            args: The positional arguments.
            kwargs: The keyword arguments.
        """
        going = self._sent(actor, callee, args, kwargs)
        if going is None:
            failed = Failed(cast("Exception", actor.why))
            return RayTask(self._home, None, actor.label, actor).filled(failed)
        task = RayTask(self._home, going.result, going.where, actor, None, going.asked)
        ref = task.ref()
        if going.deadline is not None:
            task.is_due(going.deadline)
        return ref

    def stream(
        self,
        actor: Actor,
        callee: BoundMethod,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> Stream:
        """Sends a call of a generator; see ``call``.

        Raises:
            UnsupportedOptionError: This process is a client.
        """
        if self._home.is_far:
            raise client_mode.refuse_stream(f"{actor.label}.{callee.name}")
        going = self._sent(actor, callee, args, kwargs)
        if going is None:
            raise cast("Exception", actor.why)
        stream = Stream(
            self._home,
            going.result,
            going.where,
            actor,
            going.asked,
            is_detached=bool(callee.options.detach),
        )
        if going.deadline is not None:
            stream.is_due(going.deadline)
        return stream

    def _sent(
        self,
        actor: Actor,
        callee: BoundMethod,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> Going | None:
        """None for an actor that was never made."""
        where = f"{actor.label}.{callee.name}"
        headers = said(callee, self._where)
        listed = callee.options.retry_exceptions
        retried = cast("Retried", actor.traits.retried if listed is None else listed)
        sent, given = packed(callee.name, args, kwargs, headers, retried)
        if actor.why is not None:
            return None
        call = actor.call_of(callee.method)
        sent_at = None
        if callee.keeps_order:
            sent_at = math.inf if given else time.monotonic()
        try:
            result = call.remote(on_its_way(sent, is_far=self._home.is_far), *given)
        except Exception as error:
            raise unsendable_call(where, sent, error) from error
        waits = tuple(tasks_among((*args, *kwargs.values()))) if given else ()
        ends_later = callee.method.is_async and not callee.method.is_stream
        asked = Asked(callee.name, sent_at, waits, ends_later)
        return Going(result, where, asked, deadline_of(headers))


_numbers = itertools.count(1)


class Functions:
    """The functions that this process calls.

    Args:
        home: Where its refs are filled.
        house: Gives what holds for the whole runtime.
        nodes: What the machines have.
        where: Names a method of the actor whose code calls, for messages.
    """

    def __init__(
        self,
        home: ProcessState,
        house: Callable[[], RuntimeConfig],
        nodes: Nodes,
        where: Callable[[str], str],
    ) -> None:
        self._where = where
        self._home = home
        self._house = house
        self._nodes = nodes
        self._sources = Sources()
        self._runs: weakref.WeakKeyDictionary[FunctionSpec, Any] = (
            weakref.WeakKeyDictionary()
        )

    def call(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Calls a function; see Engine."""
        error = self._unschedulable(spec)
        if error is not None:
            return RayTask(self._home, None, spec.name).filled(Failed(error))
        called, deadline = self._called(spec, args, kwargs)
        task = Force(self._home, called, spec.name)
        ref = task.ref()
        if deadline is not None:
            task.is_due(deadline)
        return ref

    def stream(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> Stream:
        """Calls a function that yields; see Engine.

        Raises:
            TaskUnschedulableError: It can run nowhere.
            UnsupportedOptionError: This process is a client.
        """
        error = self._unschedulable(spec)
        if error is not None:
            raise error
        if self._home.is_far:
            raise client_mode.refuse_stream(spec.name)
        generator, deadline = self._called(spec, args, kwargs)
        is_detached = bool(spec.options.detach)
        stream = Stream(self._home, generator, spec.name, None, is_detached=is_detached)
        if deadline is not None:
            stream.is_due(deadline)
        return stream

    def _unschedulable(self, spec: FunctionSpec) -> TaskUnschedulableError | None:
        """Why a function can run nowhere, if that is so."""
        if self._house().waits:
            return None
        why = self._nodes.fault(spec.name, spec.options.worker)
        return None if why is None else TaskUnschedulableError(str(why))

    def _called(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> tuple[Any, Deadline | None]:
        """What Ray gives for a call, and when its time is over."""
        label = spec.name
        headers = said(spec, self._where)
        sent, given = packed(label, args, kwargs, headers, spec.options.retried)
        call = self._runs.get(spec)
        if call is None:
            call = self._runs[spec] = _made(spec, label)
        source = self._sources.sealed(f"the function {label}", spec.source)
        try:
            begin = self._home.arrivals.function
            going = on_its_way(sent, is_far=self._home.is_far)
            called = call.remote(begin, self._house(), source, going, *given)
        except Exception as error:
            raise unsendable_call(label, sent, error) from error
        return called, deadline_of(headers)


def _made(spec: FunctionSpec, label: str) -> Any:
    """What Ray calls for a function."""
    options = spec.options
    decorate: Any = ray.remote
    if options.max_calls is not None:
        decorate = ray.remote(max_calls=options.max_calls)
    keywords = function_options(label, options, is_stream=spec.is_stream)
    worker = options.worker
    if worker.group is not None:
        keywords["scheduling_strategy"] = inside(
            worker.group.id,
            worker.placement_group_bundle_index,
            captures=bool(worker.placement_group_capture_child_tasks),
        )
    made = decorate(yield_function if spec.is_stream else run_function)
    return made.options(name=label, retry_exceptions=[Again], **keywords)


def run_function(
    begin: Callable[[RuntimeConfig], None],
    house: RuntimeConfig,
    source: SealedValue,
    sent: Sent | SealedValue,
    *values: Any,
) -> Any:
    """Calls the user's function in a worker of Ray's.

    Args:
        begin: Makes the process one of the runtime's.
        house: What holds for the whole runtime.
        source: The function.
        sent: Its arguments.
        *values: The values of the refs among them.
    """
    begin(house)
    asked, args, kwargs = received(sent, values)
    with _entered(source, asked) as function:
        return answered(asked, function(*args, **kwargs))


def yield_function(
    begin: Callable[[RuntimeConfig], None],
    house: RuntimeConfig,
    source: SealedValue,
    sent: Sent,
    *values: Any,
) -> Iterator[Any]:
    """The same for a function that yields; see ``run_function``."""
    begin(house)
    asked, args, kwargs = received(sent, values)
    with _entered(source, asked) as function:
        yield from function(*args, **kwargs)


@contextmanager
def _entered(source: SealedValue, sent: Sent) -> Generator[Callable[..., Any]]:
    """The user's function, where it is being called."""
    before = running.get()
    try:
        enter(next(_numbers), sent, sent.name)
        found = opened(source)
        yield getattr(found, "__wrapped__", found)
    except Exception as error:  # noqa: BLE001  # the user's code
        where = f"{sent.name} (pid {os.getpid()})"
        raise raised(error, where, sent.retried) from None
    finally:
        running.set(before)
