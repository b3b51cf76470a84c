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
from actorlib._options.callee import BoundMethod
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
    from actorlib._options.callee import Callee
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

    ``where`` returns the name of the calling code, by its method or function.
    """
    parent_call = running.get()
    is_plain = callee.headers is None and not PROPAGATED
    if is_plain and (parent_call is None or deadline_of(parent_call[2]) is None):
        return None
    headers = headers_of(callee, parent_call, where) or {}
    return {name: headers[name] for name in _HEADERS if name in headers} or None


def prepare_call(sent: CallMessage, *, is_client: bool) -> CallMessage | PickledValue:
    """Converts the deadline of a call to clock time; pickles the call of a client.

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
    """Makes the error of a call that names the argument that cannot be sent."""
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
        result: Ray's ref or generator; None if the call was not passed.
        where: The method or function, for messages.
        error: Why the call was not passed: its actor was never created, or no machine
            can run the function.
        deadline: Its deadline.
        pending_call: The state of a call of an actor until its answer.
    """

    result: Any
    where: str
    error: Exception | None = None
    deadline: Deadline | None = None
    pending_call: PendingCall | None = None


_numbers = itertools.count(1)


class Calls:
    """Calls methods of actors, and functions, for one process.

    ``where`` returns the name of the calling method, for messages.
    """

    def __init__(
        self,
        process: ProcessState,
        runtime: Callable[[], RuntimeConfig],
        nodes: ClusterNodes,
        where: Callable[[str], str],
    ) -> None:
        self._process = process
        self._runtime = runtime
        self._nodes = nodes
        self._where = where
        self._sources = PickledSources()
        self._runs: weakref.WeakKeyDictionary[FunctionSpec, Any] = (
            weakref.WeakKeyDictionary()
        )

    def call(
        self,
        actor: Actor | None,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Sends a call; see Engine. ``actor`` is None for a function."""
        result, where, error, deadline, pending_call = self._send(
            actor, callee, args, kwargs
        )
        kind = FunctionTask if actor is None else RayTask
        task = kind(self._process, result, where, actor, None, pending_call)
        if error is not None:
            return task.filled(FailedAnswer(error))
        ref = task.ref()
        if deadline is not None:
            task.is_due(deadline)
        return ref

    def stream(
        self,
        actor: Actor | None,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> RayStreamReader:
        """Sends a call of a generator; see ``call``.

        Raises:
            UnsupportedOptionError: This process is a client.
        """
        if self._process.is_client:
            name = callee.name if actor is None else f"{actor.label}.{callee.name}"
            raise client_mode.no_streams(name)
        generator, where, error, deadline, pending_call = self._send(
            actor, callee, args, kwargs
        )
        if error is not None:
            raise error
        is_detached = bool(callee.options.detach)
        stream = RayStreamReader(
            self._process,
            generator,
            where,
            actor,
            pending_call,
            is_detached=is_detached,
        )
        if deadline is not None:
            stream.is_due(deadline)
        return stream

    def _send(
        self,
        actor: Actor | None,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> SentCall:
        if isinstance(callee, BoundMethod):
            return self._send_method(cast("Actor", actor), callee, args, kwargs)
        return self._send_function(callee, args, kwargs)

    def _send_method(
        self,
        actor: Actor,
        callee: BoundMethod,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> SentCall:
        where = f"{actor.label}.{callee.name}"
        listed = callee.options.retry_exceptions
        retried = actor.traits.retried if listed is None else listed
        headers = headers_to_send(callee, self._where)
        sent, values = split_refs(
            callee.name, args, kwargs, headers, cast("RetriedErrors", retried)
        )
        if actor.creation_error is not None:
            return SentCall(None, where, actor.creation_error)
        call = actor.call_of(callee.method)
        sent_at = None
        if callee.keeps_order:
            sent_at = math.inf if values else time.monotonic()
        result = self._submit(where, call, (), sent, values)
        waits = tuple(tasks_among((*args, *kwargs.values()))) if values else ()
        ends_later = callee.method.is_async and not callee.method.is_stream
        pending_call = PendingCall(callee.name, sent_at, waits, ends_later)
        return SentCall(result, where, None, deadline_of(headers), pending_call)

    def _send_function(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> SentCall:
        name, options, runtime = spec.name, spec.options, self._runtime()
        why = None if runtime.waits else self._nodes.fault(name, options)
        if why is not None:
            return SentCall(None, name, TaskUnschedulableError(str(why)))
        headers = headers_to_send(spec, self._where)
        sent, values = split_refs(name, args, kwargs, headers, options.retried)
        call = self._runs.get(spec)
        if call is None:
            call = self._runs[spec] = _remote_function(spec)
        source = self._sources.pickled(f"the function {name}", spec.source)
        context = self._process.entry_points.function, runtime, source
        result = self._submit(name, call, context, sent, values)
        return SentCall(result, name, None, deadline_of(headers))

    def _submit(
        self,
        where: str,
        call: Any,
        context: tuple[object, ...],
        sent: CallMessage,
        values: list[Any],
    ) -> Any:
        try:
            prepared = prepare_call(sent, is_client=self._process.is_client)
            return call.remote(*context, prepared, *values)
        except Exception as error:
            raise unsendable_call(where, sent, error) from error


def _remote_function(spec: FunctionSpec) -> Any:
    """Makes the Ray function that calls a function of the user."""
    options = spec.options
    decorate: Any = ray.remote
    if options.max_calls is not None:
        decorate = ray.remote(max_calls=options.max_calls)
    keywords = function_options(spec.name, options, is_stream=spec.is_stream)
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

    ``begin`` prepares the process for the runtime. ``values`` are those of the refs
    among the arguments.
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
