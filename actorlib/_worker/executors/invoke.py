"""Runs one call: loads its arguments, calls the method, encodes the answer.

``CallExecutor`` runs plain methods and functions, and plain generators until they end
or are too far ahead of their readers. Executors inherit it, and decide on which thread
a call runs and how its frames are sent. Coroutines and async generators (see
``coroutines``) use the same functions to load arguments and encode answers.

Every call gets an answer. A value that cannot be sent becomes a failure of its method
alone. An exception that cannot be sent arrives as its text.
"""

from __future__ import annotations

import operator
import os
import time
from abc import ABC, abstractmethod
from contextvars import Context, copy_context
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from actorlib._base.ids import LINKED
from actorlib._core.current_call import is_late, running
from actorlib._core.engine import Engine, collecting_ids
from actorlib._options.interface import bind_method
from actorlib._shm.memory import share_payload
from actorlib._wire import serialization
from actorlib._wire.call_headers import enter_variables
from actorlib._wire.codec import are_scalars
from actorlib._wire.messages import (
    CALL,
    CALL_WITH,
    CANCELLED,
    FAILURE,
    ITEM,
    RAISED,
    RESULT,
    RESULT_SCALAR,
    STREAM_ACK,
    Frame,
)
from actorlib._wire.serialization import dump, encode, one_line
from actorlib._worker.executors.generators import nbytes_of
from actorlib.exceptions import ObjectStoreFullError, SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from actorlib._base.ids import CountedId
    from actorlib._shm.memory import Payload
    from actorlib._shm.running_calls import RunningCalls
    from actorlib._wire.arguments import SendingEngine
    from actorlib._worker.executors.generators import OutgoingStream, OutgoingStreams
    from actorlib._worker.executors.run_events import CallRun
    from actorlib._worker.requests.engine import WorkerEngine


E = TypeVar("E", bound="WorkerEngine")

_SIMPLE = frozenset({type(None), bool, int, float})
_WITHOUT_HANDLES = _SIMPLE | {str, bytes}
_NO_KEYWORDS: dict[str, Any] = {}
_QUICK = 100e-6
"""Seconds that a quick method takes at most."""
_FORGIVENESS = 0.98
"""The factor by which the longest run of a method shrinks with each run."""
_READ_MASK = 0x3F
"""A quick generator reads the pipe every 64 items."""


def result(engine: WorkerEngine, call: int, value: object, method: str) -> Frame:
    """Encodes the value of a method, or the reason why it cannot be sent.

    Raises ActorExit if the method has ended the actor.
    """
    if engine.is_over:
        engine.check_over(call)
    if type(value) in _SIMPLE:
        try:
            return (RESULT, call, None, encode(value))
        except OverflowError:  # pragma: no cover  # encode() handles it
            pass
    try:
        payload, borrowed = _encoded(engine, value)
    except ObjectStoreFullError as error:
        return failure(engine, call, error, engine.where(method))
    except Exception as error:  # noqa: BLE001  # pickling runs the user's code
        return _unsendable_answer(engine, call, value, method, error)
    return (RESULT, call, borrowed, payload)


def _unsendable_answer(
    engine: WorkerEngine, call: int, value: Any, method: str, error: Exception
) -> Frame:
    """Answers a call whose value cannot be sent; the other values of a chunk arrive."""
    where, current = engine.where(method), running.get()
    if current is not None and "batch" in (current[2] or ()):
        from actorlib._wire.errors import PartialChunk  # noqa: PLC0415  # asyncio

        seconds, values = value
        with collecting_ids(engine):  # handles inside are not to blame
            chunk = PartialChunk(seconds, values, [])
            chunk = chunk.without_unsendable(where, encode)
        if chunk.failures:
            return failure(engine, call, chunk.error(), where)
    unsendable = _unsendable(engine, f"{where} returned", value, error)
    return failure(engine, call, unsendable, where)


def own_result(engine: WorkerEngine, call: int, value: object, method: str) -> Frame:
    """Encodes the value of a method; a scalar is put into the frame as it is.

    Only the owner, which makes most calls, accepts that. Calls over links are answered
    with a payload.
    """
    if call < LINKED and are_scalars((value,)) and not engine.is_over:
        return (RESULT_SCALAR, call, value)
    return result(engine, call, value, method)


def with_own_buffers(frame: Frame) -> Frame:
    """Copies buffers of the user's values into an answer or item that is sent later."""
    payload: Payload = frame[-1]
    whole = serialization.with_own_buffers(payload)
    return frame if whole is payload else (*frame[:-1], whole)


def encode_item(
    engine: WorkerEngine, call: int, index: int, value: object, where: Callable[[], str]
) -> Frame:
    """Encodes the next item of a stream.

    Raises:
        SerializationError: The item cannot be sent.
        ObjectStoreFullError: There is no room, and it may not be sent another way.
        ActorExit: The generator has ended the actor.
    """
    if engine.is_over:
        engine.check_over(call)
    try:
        if type(value) in _WITHOUT_HANDLES:
            return (ITEM, call, index, None, encode(value))
        payload, borrowed = _encoded(engine, value)
    except ObjectStoreFullError:
        raise
    except Exception as error:
        raise _unsendable(engine, f"{where()} yielded", value, error) from error
    return (ITEM, call, index, borrowed, payload)


def _unsendable(
    engine: SendingEngine, action: str, value: object, error: Exception
) -> SerializationError:
    from actorlib._wire.errors import unsendable_reason  # noqa: PLC0415  # asyncio

    with collecting_ids(engine):  # handles inside are not to blame
        why = unsendable_reason(value, error)
    unsendable = SerializationError(
        f"{action} a {type(value).__qualname__}, which cannot be sent to another "
        f"process: {why}"
    )
    unsendable.__cause__ = error
    return unsendable


def failure(engine: WorkerEngine, call: int, error: BaseException, where: str) -> Frame:
    """Encodes the error of a method; raises SystemExit if the actor ends instead."""
    if engine.is_over:
        engine.check_over(call, error)
    if isinstance(error, SystemExit):
        raise error
    return _failure(engine, call, error, where)


def constructor_failure(
    engine: WorkerEngine, error: BaseException, where: str
) -> Frame:
    """Encodes the error of a constructor, even a SystemExit."""
    if engine.is_over:
        engine.check_over(0, error)
    return _failure(engine, 0, error, where)


def _failure(
    engine: SendingEngine, call: int, error: BaseException, where: str
) -> Frame:
    # Both load asyncio, which would double the imports of a template before it can fork
    # its first worker.
    from actorlib._wire.arguments import encode_error  # noqa: PLC0415
    from actorlib._wire.errors import traceback_of  # noqa: PLC0415

    text = traceback_of(error)
    summary = one_line(error)
    payload, borrowed = encode_error(engine, error)
    return (FAILURE, call, RAISED, summary, text, where, borrowed, payload)


def cancelled(call: int, why: str = "") -> Frame:
    return (FAILURE, call, CANCELLED, why, "", "", None, b"")


def is_cancelled(answer: Frame) -> bool:
    return bool(answer[0] == FAILURE and answer[2] == CANCELLED)


def _encoded(
    engine: SendingEngine, value: object
) -> tuple[Payload, list[CountedId] | None]:
    with collecting_ids(engine) as borrowed:
        payload = share_payload(engine.memory, encode(value), borrowed)
        return payload, borrowed or None


_dumped = lru_cache(maxsize=64)(dump)


def context_of(engine: WorkerEngine, frame: Frame) -> Context | None:
    """Creates the context of a call, or returns None if it needs none of its own."""
    if frame[0] != CALL_WITH:
        return None
    headers, events = frame[4], engine.events
    is_needed = "variables" in headers or (
        events is not None and events.sets_context(headers)
    )
    return copy_context() if is_needed else None


def begin_run(
    engine: WorkerEngine, frame: Frame, context: Context | None
) -> tuple[Sequence[Any], dict[str, Any], CallRun | None]:
    """Loads the arguments of a call, and begins its run.

    The context is that of its code; None for the context of this thread. Without a
    consumer of events there is no run, and None is returned for it.
    """
    events = engine.events
    run_in: Any = operator.call if context is None else context.run
    try:
        args, kwargs = run_in(_load, engine, frame)
    except BaseException as error:
        if events is not None:
            events.started(frame, context).finish(error)
        raise
    return args, kwargs, None if events is None else events.started(frame, context)


def _load(engine: WorkerEngine, frame: Frame) -> tuple[Sequence[Any], dict[str, Any]]:
    """Loads the arguments of a call, then sets its context variables.

    In this order, because the arguments may load the module that marks a variable.
    """
    arguments = engine.arguments(frame[3], frame[-1])
    if frame[0] == CALL_WITH and "variables" in frame[4]:
        enter_variables(frame[4])
    return arguments


def start_async(
    headers: Mapping[str, Any],
    method: Callable[..., Any],
    arguments: tuple[Sequence[Any], Mapping[str, Any]],
    gate_places: tuple[Callable[[], bool], Callable[[], None]],
    stream: Callable[[Any], Coroutine[Any, Any, object]],
) -> Coroutine[Any, Any, object]:
    """Returns the coroutine of a call of an ``async def``, of a batch, or of a stream.

    ``gate_places`` are for the calls of a batch; see await_each. ``stream`` sends the
    items of a generator.
    """
    if "batch" in headers:
        from actorlib._wire.batches import await_each  # noqa: PLC0415  # asyncio

        return await_each(method, headers["batch"], arguments[0], gate_places)
    work: Coroutine[Any, Any, object] = method(*arguments[0], **arguments[1])
    return stream(work) if "stream" in headers else work


def pack_headers(headers: dict[str, Any] | None) -> dict[str, Any] | None:
    """Pickles the errors to retry in headers: the owner may lack their classes."""
    if headers is None or "retries" not in headers:
        return headers
    times, listed = headers["retries"]
    if isinstance(listed, tuple):
        listed = _dumped(cast("tuple[type, ...]", listed))
    return {**headers, "retries": (times, listed)}


class MethodTiming:
    """Records the longest recent run of each method, in seconds.

    Executors use it to decide whether an answer may wait: only behind a method that is
    known to be quick. A slow run is forgiven after a few hundred quick runs, because
    every process is interrupted now and then on a busy machine.
    """

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}

    def is_quick(self, method: str) -> bool:
        """Whether the method ran before and no recent run was slow."""
        return self._longest.get(method, 1.0) <= _QUICK

    def record(self, method: str, seconds: float) -> bool:
        """Records a run; returns True if it was quick."""
        self._longest[method] = max(
            seconds, self._longest.get(method, 0.0) * _FORGIVENESS
        )
        return seconds <= _QUICK


class CallExecutor(ABC, Generic[E]):
    """Runs calls of plain code, each from its frame to its answer.

    A call that is late or was cancelled is answered, and its borrowed references are
    returned. Otherwise its arguments are loaded, its code runs, and its answer is sent
    while the value or the error is still held, so that a handle in it is returned
    behind the answer.

    A generator whose items are read keeps running. A generator whose reader is gone
    yields to every call that waits, because it runs only for its side effects and may
    never end.

    Args:
        cancelled: The calls that were cancelled; the reader of the pipe adds to it.
    """

    _instance: object
    _find: Callable[[str], Any]
    """Finds the method or function of a call, by its name."""
    _label_of: Callable[[str], str] | None = None
    """Returns the label of a call, for its own code; None if the label is the name."""

    def __init__(
        self, client: E, streams: OutgoingStreams, cancelled: set[int]
    ) -> None:
        self._client = client
        self._streams = streams
        self._cancelled = cancelled

    # What executors implement.

    @abstractmethod
    def _answer(self, answer: Frame) -> None:
        """Sends the last frame of a call."""

    @abstractmethod
    def _others_wait(self) -> bool: ...

    def _send_item(self, item: Frame) -> None:
        self._client.post(item)

    def _pause(self, call: int) -> None:
        self._streams.pause(self._streams.of(call))

    def _read_now(self) -> None:
        """Reads what has arrived, if no other thread reads."""

    def _note_begun(self, noted: RunningCalls, call: int) -> None:
        noted.begin(call)

    def _note_over(self, noted: RunningCalls, call: int) -> None:
        """Records that a call is over, after its answer is sent."""
        noted.end(call)

    def _code_of(self, frame: Frame) -> Callable[..., Any]:
        """Returns the code of a call; for a chunk, code that runs it for each item."""
        name = frame[2]
        code: Callable[..., Any] = self._find(name)
        if not callable(code):
            code = bind_method(self._instance, name)
        if frame[0] == CALL_WITH and "batch" in frame[4]:
            return code_of_chunk(code, frame[4]["batch"])
        return code

    def execute(self, frame: Frame) -> bool:
        """Runs a call to its end, or a stream until its reader is behind.

        The frame is the call, or wakes the stream. Returns False if the call was
        refused, because it is late or was cancelled. Raises SystemExit if it has ended
        the actor: it has no answer.
        """
        call, name = frame[1], frame[2]
        headers = None
        is_refused = call in self._cancelled
        if frame[0] != CALL:
            headers = frame[4]
            is_refused = frame[0] != STREAM_ACK and (is_refused or is_late(headers))
        if is_refused:
            self._refuse(frame, cancelled(call))
            return False
        if headers is not None and "stream" in headers:
            self._execute_stream(frame)
            return True
        noted = self._client.running_calls
        if call >= LINKED:
            self._client.link_call_began(call, name)
        if noted is not None:
            self._note_begun(noted, call)
        label = name if self._label_of is None else self._label_of(name)
        running.set((call, label, headers))
        events = self._client.events
        try:
            if headers or (events is not None and events.recorder is not None):
                value = self._run_with(frame)
            else:  # the usual call
                args: Sequence[Any] = frame[-1]
                kwargs = _NO_KEYWORDS
                if type(args) is not tuple:  # else they came as scalars
                    args, kwargs = self._client.arguments(frame[3], frame[-1])
                code = self._find(name)
                if not callable(code):
                    code = bind_method(self._instance, name)
                value = code(*args, **kwargs)
                args, kwargs = (), _NO_KEYWORDS  # released before the answer
            answer = own_result(self._client, call, value, name)
        except BaseException as error:  # noqa: BLE001  # the user's code
            answer = self._failure(call, name, error)
            self._end(call, answer)  # while the error is still referenced
        else:
            running.set(None)  # like ``_end``, inlined
            self._cancelled.discard(call)
            self._answer(answer)
        if noted is not None:
            self._note_over(noted, call)
        return True

    def _end(self, call: int, answer: Frame) -> None:
        running.set(None)
        self._cancelled.discard(call)
        self._answer(answer)

    def _refuse(self, frame: Frame, answer: Frame) -> None:
        """Answers a call that is not run; its borrowed references are returned."""
        self._cancelled.discard(frame[1])
        with self._client.borrowing(frame[3]):
            self._answer(answer)

    def _failure(self, call: int, name: str, error: BaseException) -> Frame:
        """Encodes the error of a call, which may be an interrupt."""
        if self._client.is_over:
            self._client.check_over(call, error)
        if call in self._cancelled and not isinstance(error, SystemExit):
            return cancelled(call)
        return failure(self._client, call, error, self._client.where(name))

    def _run_with(self, frame: Frame) -> object:
        """Runs a call that has headers, or consumers of events."""
        context = context_of(self._client, frame)
        args, kwargs, run = begin_run(self._client, frame, context)
        try:
            code = self._code_of(frame)
            if context is not None:
                code = partial(context.run, code)
            value: object = code(*args, **kwargs)
        except BaseException as error:
            if run is not None:
                run.finish(error, is_cancelled=frame[1] in self._cancelled)
            raise
        if run is not None:
            run.finish()
        return value

    def _execute_stream(self, frame: Frame) -> None:
        call, noted = frame[1], self._client.running_calls
        if noted is not None:
            noted.begin(call)
        if not self._run_stream(frame):
            self._pause(call)
        elif noted is not None:
            noted.end(call)

    def _run_stream(self, frame: Frame) -> bool:
        """Begins or resumes a stream; returns False if it is to be paused."""
        _, call, name, _, headers, _ = frame
        is_new = frame[0] != STREAM_ACK
        label = name if self._label_of is None else self._label_of(name)
        running.set((call, label, headers))
        stream = self._streams.begin(frame) if is_new else self._streams.of(call)
        try:
            if is_new:
                self._begin_stream(stream, frame)
            elif stream.run is not None:
                stream.run.resume()
            elif self._client.events is not None:
                stream.run = self._client.events.started(frame)
            answer = self._make_items(stream)
        except BaseException as error:  # noqa: BLE001  # the user's code
            # While the error is referenced: a handle in it is returned after it was
            # sent.
            self._end_stream(stream, self._failure(call, name, error), error)
            return True
        if answer is None:
            running.set(None)
            if stream.run is not None:
                stream.run.pause()
            return False
        self._end_stream(stream, answer)
        return True

    def _begin_stream(self, stream: OutgoingStream, frame: Frame) -> None:
        call, name = frame[1], frame[2]
        # In this order, because from now on a cancellation is the stream's.
        if call in self._cancelled:
            self._cancelled.discard(call)
            self._streams.cancel(call)
        context = context_of(self._client, frame)
        args, kwargs, stream.run = begin_run(self._client, frame, context)
        source = stream.source = self._code_of(frame)(*args, **kwargs)
        if not hasattr(source, "__next__"):
            kind = type(source).__qualname__
            raise TypeError(
                f"{name}() is a generator to its callers, and returned a {kind}"
            )
        # No actorlib code runs between its caller and it; see InterruptSignal.
        next_item = source.__next__
        stream.next_item = (
            next_item if context is None else partial(context.run, next_item)
        )

    def _end_stream(
        self, stream: OutgoingStream, answer: Frame, error: BaseException | None = None
    ) -> None:
        if stream.run is not None:
            stream.run.finish(error, is_cancelled=is_cancelled(answer))
        self._streams.end(stream.call)
        self._end(stream.call, answer)

    def close_streams(self) -> None:
        """Closes paused generators at the end of the actor: ``finally`` blocks run."""
        for stream in self._streams.clear():
            if stream.run is not None:
                stream.run.finish(is_cancelled=True)
            if stream.source is not None:
                try:
                    stream.source.close()
                except BaseException as error:  # noqa: BLE001  # the user's code
                    name = stream.wake_frame[2]
                    self._send_item(self._failure(stream.call, name, error))

    def _make_items(self, stream: OutgoingStream) -> Frame | None:
        """Runs a generator; returns its last frame, or None if it is to be paused."""
        streams, window = self._streams, stream.window
        clock = time.perf_counter
        while True:
            if not streams.may_go(stream):
                self._read_now()
                if not streams.may_go(stream):
                    return None
            if stream.end_reason is not None:
                _close(stream)
                return cancelled(stream.call, stream.end_reason)
            started = clock()
            try:
                value = stream.next_item()
            except StopIteration:
                self._check_over(stream)
                return (RESULT, stream.call, None, encode(stream.item_count))
            if window.is_read:
                self._encode_and_send(stream, value)
            else:
                self._check_over(stream)
            del value
            stream.item_count += 1
            if not window.is_read:
                self._read_now()
                if self._others_wait():
                    return None
            elif clock() - started > _QUICK or not stream.item_count & _READ_MASK:
                # Its reader may have reported items, or be gone.
                self._read_now()

    def _encode_and_send(self, stream: OutgoingStream, value: object) -> None:
        name = stream.wake_frame[2]
        try:
            frame = encode_item(
                self._client,
                stream.call,
                stream.item_count,
                value,
                lambda: self._client.where(name),
            )
        except Exception:
            _close(stream)
            raise
        self._streams.put(stream, nbytes_of(frame[4]))
        # The caller holds the value: a handle in it is returned after it was sent.
        self._send_item(frame)

    def _check_over(self, stream: OutgoingStream) -> None:
        if self._client.is_over:
            self._client.check_over(stream.call)


def label_of(method: str) -> str:
    """Returns the name of a function without its number, which only the owner uses."""
    return method.partition(":")[2]


class FunctionWorker:
    """A mixin for the engines of workers of functions."""

    functions: dict[str, Callable[..., Any]]
    """The functions, by their names on the pipe."""

    def where(self, method: str) -> str:
        """Returns the name of a function without its number, for messages."""
        return f"{method.rpartition(':')[2]} (pid {os.getpid()})"

    def function_name(self, method: str) -> str:
        """Returns the name of a function with its module; see CallLookup."""
        for name, function in self.functions.items():
            if label_of(name) == method:
                return f"{function.__module__}.{function.__qualname__}"
        return method

    leave = Engine.leave  # refuses, because this is not an actor


def code_of_chunk(
    code: Callable[..., Any], batch: tuple[int, bool]
) -> Callable[..., tuple[float, list[object]]]:
    """Returns code that calls a method or a function for each item of a chunk."""
    from actorlib._wire.batches import call_each  # noqa: PLC0415  # asyncio

    return lambda *args: call_each(code, batch, args)


def _close(stream: OutgoingStream) -> None:
    close = getattr(stream.source, "close", None)
    if close is not None:
        close()
