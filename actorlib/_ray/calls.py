"""Sends calls of actors and of functions.

Ray inserts the values of refs among the arguments, so the call has holes in their
places. A call of a function is a Ray task, which runs in any free process.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
import os
import time
import weakref
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from actorlib._core.current_call import deadline_of, running
from actorlib._core.propagation import PROPAGATED
from actorlib._ray import client_mode
from actorlib._ray.deadlines import to_clock_time
from actorlib._ray.messages import (
    CallMessage,
    RetriedErrors,
    RetryableFailure,
    RuntimeConfig,
    answer_to,
    enter_call,
    failure_of,
    read_call,
)
from actorlib._ray.options import function_options
from actorlib._ray.pickled import (
    PickledSources,
    PickledValue,
    pickle_value,
    unpickle_value,
)
from actorlib._ray.ray_api import ray, scheduling_strategy
from actorlib._ray.refs import (
    FailedAnswer,
    FunctionTask,
    PendingCall,
    RayTask,
    ray_ref_of,
    tasks_among,
)
from actorlib._ray.streams import RayStreamReader
from actorlib._wire.arguments import without_refs
from actorlib._wire.batches import call_each
from actorlib._wire.call_headers import headers_of
from actorlib._wire.errors import blame_argument
from actorlib.exceptions import (
    ActorlibError,
    ClusterError,
    SerializationError,
    TaskUnschedulableError,
)

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Callable,
        Generator,
        Iterator,
        Mapping,
    )

    from actorlib._core.current_call import Deadline
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._options.callee import BoundMethod, Callee
    from actorlib._options.function_options import FunctionSpec
    from actorlib._ray.actors import Actor
    from actorlib._ray.process import ProcessState
    from actorlib._ray.state import ClusterNodes


_HEADERS = ("batch", "deadline", "group", "name", "variables")
"""The headers of a call that the host needs; Ray gets the others as options."""


def split_refs(
    name: str,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    headers: Mapping[str, Any] | None = None,
    retried: RetriedErrors = False,  # noqa: FBT002  # as in the options
) -> tuple[CallMessage, list[Any]]:
    """Separates the arguments of a call from refs among them, which Ray resolves.

    Args:
        name: The method or function.
        args: The positional arguments.
        kwargs: The keyword arguments.
        headers: The headers of the call.
        retried: The exceptions after which it is sent again.

    Raises:
        UnsupportedOptionError: A ref is a part of a result that does not exist yet.
    """
    rest, named, places, refs = without_refs(args, kwargs)
    sent = CallMessage(name, rest, named, tuple(places), headers, retried)
    return sent, list(map(ray_ref_of, refs))


def headers_to_send(
    callee: Callee, where: Callable[[str], str]
) -> dict[str, Any] | None:
    """Returns the headers of a call that its host needs.

    Args:
        callee: The method or function.
        where: Returns the name of the calling code, by its method or function.
    """
    parent_call = running.get()
    is_plain = callee.headers is None and not PROPAGATED
    if is_plain and (parent_call is None or deadline_of(parent_call[2]) is None):
        return None
    headers = headers_of(callee, parent_call, where) or {}
    return {name: headers[name] for name in _HEADERS if name in headers} or None


def prepare_call(sent: CallMessage, *, is_client: bool) -> CallMessage | PickledValue:
    """Converts the deadline of a call to clock time; pickles the call of a client.

    Args:
        sent: The call.
        is_client: Whether the call goes through a client server.

    Raises:
        Exception: An argument cannot be sent.
    """
    if sent.headers is not None:
        headers = to_clock_time(sent.headers, time.monotonic(), time.time())
        sent = sent._replace(headers=headers)
    return pickle_value(sent._replace(is_client=True)) if is_client else sent


def connection_lost(where: str, error: Exception) -> ClusterError:
    """Makes the error of a call after the connection to the client server was lost."""
    return ClusterError(
        f"{where} was not sent: the connection to the client server is lost, and with "
        f"it this runtime: {' '.join(str(error).split())}"
    )


def unsendable_call(where: str, sent: CallMessage, error: Exception) -> ActorlibError:
    """Makes the error of a call that names the argument that cannot be sent.

    Args:
        where: The method or function.
        sent: The call.
        error: The error of the attempt to send it.
    """
    if isinstance(error, ConnectionError):
        return connection_lost(where, error)
    named: list[tuple[int | str, object]] = [
        *enumerate(sent.args),
        *sent.kwargs.items(),
    ]
    return SerializationError(blame_argument(where, named, error, pickle_value))


class SentCall(NamedTuple):
    """A call that was passed to Ray.

    Attributes:
        result: Ray's ref or generator.
        where: The method, for messages.
        pending_call: The state of the call until its answer.
        deadline: Its deadline.
    """

    result: Any
    where: str
    pending_call: PendingCall
    deadline: Deadline | None


class MethodCalls:
    """Calls methods of actors, for one process.

    Args:
        process: Fills their refs.
        where: Returns the name of the calling method, for messages.
    """

    def __init__(self, process: ProcessState, where: Callable[[str], str]) -> None:
        self._process = process
        self._where = where

    def call(
        self,
        actor: Actor,
        callee: BoundMethod,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Sends a call; see Engine."""
        sent_call = self._sent(actor, callee, args, kwargs)
        if sent_call is None:
            failed = FailedAnswer(cast("Exception", actor.creation_error))
            return RayTask(self._process, None, actor.label, actor).filled(failed)
        task = RayTask(
            self._process,
            sent_call.result,
            sent_call.where,
            actor,
            None,
            sent_call.pending_call,
        )
        ref = task.ref()
        if sent_call.deadline is not None:
            task.is_due(sent_call.deadline)
        return ref

    def stream(
        self,
        actor: Actor,
        callee: BoundMethod,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> RayStreamReader:
        """Sends a call of a generator; see ``call``.

        Raises:
            UnsupportedOptionError: This process is a client.
        """
        if self._process.is_client:
            raise client_mode.no_streams(f"{actor.label}.{callee.name}")
        sent_call = self._sent(actor, callee, args, kwargs)
        if sent_call is None:
            raise cast("Exception", actor.creation_error)
        stream = RayStreamReader(
            self._process,
            sent_call.result,
            sent_call.where,
            actor,
            sent_call.pending_call,
            is_detached=bool(callee.options.detach),
        )
        if sent_call.deadline is not None:
            stream.is_due(sent_call.deadline)
        return stream

    def _sent(
        self,
        actor: Actor,
        callee: BoundMethod,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> SentCall | None:
        """Sends a call; returns None if its actor was never created."""
        where = f"{actor.label}.{callee.name}"
        headers = headers_to_send(callee, self._where)
        listed = callee.options.retry_exceptions
        retried = cast(
            "RetriedErrors", actor.traits.retried if listed is None else listed
        )
        sent, values_of_refs = split_refs(callee.name, args, kwargs, headers, retried)
        if actor.creation_error is not None:
            return None
        call = actor.call_of(callee.method)
        sent_at = None
        if callee.keeps_order:
            sent_at = math.inf if values_of_refs else time.monotonic()
        try:
            result = call.remote(
                prepare_call(sent, is_client=self._process.is_client), *values_of_refs
            )
        except Exception as error:
            raise unsendable_call(where, sent, error) from error
        waits = tuple(tasks_among((*args, *kwargs.values()))) if values_of_refs else ()
        ends_later = callee.method.is_async and not callee.method.is_stream
        pending_call = PendingCall(callee.name, sent_at, waits, ends_later)
        return SentCall(result, where, pending_call, deadline_of(headers))


_numbers = itertools.count(1)


class FunctionCalls:
    """Calls functions, for one process.

    Args:
        process: Fills their refs.
        runtime: Returns the configuration of the runtime.
        nodes: The resources of the machines.
        where: Returns the name of the calling method, for messages.
    """

    def __init__(
        self,
        process: ProcessState,
        runtime: Callable[[], RuntimeConfig],
        nodes: ClusterNodes,
        where: Callable[[str], str],
    ) -> None:
        self._where = where
        self._process = process
        self._runtime = runtime
        self._nodes = nodes
        self._sources = PickledSources()
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
            return RayTask(self._process, None, spec.name).filled(FailedAnswer(error))
        called, deadline = self._called(spec, args, kwargs)
        task = FunctionTask(self._process, called, spec.name)
        ref = task.ref()
        if deadline is not None:
            task.is_due(deadline)
        return ref

    def stream(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> RayStreamReader:
        """Calls a function that yields; see Engine.

        Raises:
            TaskUnschedulableError: It can run on no machine.
            UnsupportedOptionError: This process is a client.
        """
        error = self._unschedulable(spec)
        if error is not None:
            raise error
        if self._process.is_client:
            raise client_mode.no_streams(spec.name)
        generator, deadline = self._called(spec, args, kwargs)
        is_detached = bool(spec.options.detach)
        stream = RayStreamReader(
            self._process, generator, spec.name, None, is_detached=is_detached
        )
        if deadline is not None:
            stream.is_due(deadline)
        return stream

    def _unschedulable(self, spec: FunctionSpec) -> TaskUnschedulableError | None:
        """Returns the error of a function that can run on no machine."""
        if self._runtime().waits:
            return None
        why = self._nodes.fault(spec.name, spec.options)
        return None if why is None else TaskUnschedulableError(str(why))

    def _called(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> tuple[Any, Deadline | None]:
        """Sends a call; returns Ray's ref or generator, and the deadline."""
        label = spec.name
        headers = headers_to_send(spec, self._where)
        sent, values_of_refs = split_refs(
            label, args, kwargs, headers, spec.options.retried
        )
        call = self._runs.get(spec)
        if call is None:
            call = self._runs[spec] = _remote_function(spec, label)
        source = self._sources.pickled(f"the function {label}", spec.source)
        try:
            begin = self._process.entry_points.function
            sent_call = prepare_call(sent, is_client=self._process.is_client)
            called = call.remote(
                begin, self._runtime(), source, sent_call, *values_of_refs
            )
        except Exception as error:
            raise unsendable_call(label, sent, error) from error
        return called, deadline_of(headers)


def _remote_function(spec: FunctionSpec, label: str) -> Any:
    """Makes the Ray function that calls a function of the user."""
    options = spec.options
    decorate: Any = ray.remote
    if options.max_calls is not None:
        decorate = ray.remote(max_calls=options.max_calls)
    keywords = function_options(label, options, is_stream=spec.is_stream)
    keywords["scheduling_strategy"] = scheduling_strategy(options)
    function = decorate(yield_function if spec.is_stream else run_function)
    return function.options(retry_exceptions=[RetryableFailure], **keywords)


def run_function(
    begin: Callable[[RuntimeConfig], None],
    runtime: RuntimeConfig,
    source: PickledValue,
    sent: CallMessage | PickledValue,
    *values: Any,
) -> Any:
    """Calls the user's function in a Ray worker.

    Args:
        begin: Prepares the process for the runtime.
        runtime: The configuration of the runtime.
        source: The function.
        sent: The call.
        *values: The values of the refs among its arguments.
    """
    begin(runtime)
    call, args, kwargs = read_call(sent, values)
    with _entered(source, call) as function:
        if call.batch is not None:
            return answer_to(call, call_each(function, call.batch, args))
        return answer_to(call, function(*args, **kwargs))


def yield_function(
    begin: Callable[[RuntimeConfig], None],
    runtime: RuntimeConfig,
    source: PickledValue,
    sent: CallMessage,
    *values: Any,
) -> Iterator[Any]:
    """Yields the items of the user's generator; see ``run_function``."""
    begin(runtime)
    call, args, kwargs = read_call(sent, values)
    with _entered(source, call) as function:
        yield from function(*args, **kwargs)


@contextmanager
def _entered(source: PickledValue, sent: CallMessage) -> Generator[Callable[..., Any]]:
    """Enters the call, and yields the user's function."""
    before = running.get()
    try:
        enter_call(next(_numbers), sent, sent.name)
        function = unpickle_value(source)
        yield _as_plain(getattr(function, "__wrapped__", function))
    except Exception as error:  # noqa: BLE001  # the user's code
        where = f"{sent.name} (pid {os.getpid()})"
        raise failure_of(error, where, sent.retried) from None
    finally:
        running.set(before)


def _as_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a plain function for an ``async def``: a Ray worker has no loop."""
    if inspect.iscoroutinefunction(function):
        return lambda *args, **kwargs: asyncio.run(function(*args, **kwargs))
    if inspect.isasyncgenfunction(function):
        return partial(_items_of, function)
    return function


def _items_of(
    function: Callable[..., AsyncGenerator[Any]], *args: Any, **kwargs: Any
) -> Iterator[Any]:
    items = function(*args, **kwargs)

    async def next_item() -> Any:
        return await anext(items)

    with asyncio.Runner() as runner:
        try:
            while True:
                try:
                    item = runner.run(next_item())
                except StopAsyncIteration:
                    return
                yield item
        finally:
            runner.run(items.aclose())
