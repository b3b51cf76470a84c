"""Runs one call: decodes its arguments, calls the method, encodes the answer.

What a method returned or raised always arrives: a value that cannot be sent is the
method's failure and nobody else's; an exception that cannot be sent arrives as its
text.
"""

from __future__ import annotations

import operator
from contextvars import Context, copy_context
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

from actorlib._core.current_call import running
from actorlib._core.engine import collecting_ids
from actorlib._core.interface import bind_method, find_method
from actorlib._shm.memory import share_payload
from actorlib._wire import serialization
from actorlib._wire.call_headers import enter_variables
from actorlib._wire.codec import are_scalars
from actorlib._wire.messages import (
    CALL_WITH,
    CANCELLED,
    FAILURE,
    ITEM,
    LINKED,
    RAISED,
    RESULT,
    RESULT_SCALAR,
    Frame,
)
from actorlib._wire.serialization import dump, encode, one_line
from actorlib.exceptions import ObjectStoreFullError, SerializationError

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Coroutine,
        Mapping,
        Sequence,
    )

    from actorlib._core.ids import CountedId
    from actorlib._shm.memory import Payload
    from actorlib._wire.arguments import SendingEngine
    from actorlib._worker.engine import WorkerEngine
    from actorlib._worker.run_events import CallRun


_SIMPLE = frozenset({type(None), bool, int, float})
_WITHOUT_HANDLES = _SIMPLE | {str, bytes}


def result(engine: WorkerEngine, call: int, value: object, method: str) -> Frame:
    """Encodes the answer with a method's value, or with why it cannot be sent.

    Raises:
        ActorExit: The method has ended the actor.
    """
    if engine.is_over:
        engine.check_over(call)
    if type(value) in _SIMPLE:
        try:
            return (RESULT, call, None, encode(value))
        except OverflowError:  # pragma: no cover  # encode() has a way around it
            pass
    try:
        payload, lent = _encoded(engine, value)
    except ObjectStoreFullError as error:
        return failure(engine, call, error, engine.where(method))
    except Exception as error:  # noqa: BLE001  # pickling runs the user's code
        return _unsendable_answer(engine, call, value, method, error)
    return (RESULT, call, lent, payload)


def _unsendable_answer(
    engine: WorkerEngine, call: int, value: Any, method: str, error: Exception
) -> Frame:
    """Answers a call whose value cannot be sent; of a chunk the others arrive."""
    where, current = engine.where(method), running.get()
    if current is not None and "batch" in (current[2] or ()):
        from actorlib._wire.errors import PartialChunk  # noqa: PLC0415  # asyncio

        seconds, values = value
        with collecting_ids(engine):  # what is in it and counted is not to blame
            chunk = PartialChunk(seconds, values, [])
            chunk = chunk.without_unsendable(where, encode)
        if chunk.failures:
            return failure(engine, call, chunk.error(), where)
    unsendable = _unsendable(engine, f"{where} returned", value, error)
    return failure(engine, call, unsendable, where)


def own_result(engine: WorkerEngine, call: int, value: object, method: str) -> Frame:
    """Encodes the answer of an actor's call, in its frame if it is a scalar.

    Only the owner, for whom most calls are, takes that: what comes over a link is
    answered with a payload.

    Raises:
        ActorExit: The method has ended the actor.
    """
    if call < LINKED and are_scalars((value,)) and not engine.is_over:
        return (RESULT_SCALAR, call, value)
    return result(engine, call, value, method)


def invoke(
    engine: WorkerEngine, instance: object, frame: Frame
) -> tuple[Frame, object]:
    """Runs one call of a plain method: decodes, calls, and encodes what comes of it.

    Args:
        engine: The engine of this worker.
        instance: The actor's object.
        frame: The call.

    Returns:
        The answer, and what the method gave or raised. That is to be held until the
        answer was sent: a handle in it is given back behind it.

    Raises:
        SystemExit: It has ended the actor: there is no answer.
    """
    _, call, name, borrowed, *headers, payload = frame
    running.set((call, name, headers[0] if headers else None))
    try:
        events = engine.events
        if headers or (events is not None and events.recorder is not None):
            value = _run_with(engine, instance, frame)
        else:  # the usual call
            args, kwargs = engine.arguments(borrowed, payload)
            method = getattr(instance, name)
            if not callable(method):
                method = bind_method(instance, name)
            value = method(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001  # the user's code
        answer = failure(engine, call, error, engine.where(name))
        running.set(None)
        return answer, error  # in no variable here: its traceback holds this frame
    answer = own_result(engine, call, value, name)
    running.set(None)
    return answer, value


def with_own_buffers(frame: Frame) -> Frame:
    """Copies what a frame borrows from the user's values, if it is not sent at once.

    Args:
        frame: An answer or an item; see ``serialization.with_own_buffers``.
    """
    payload: Payload = frame[-1]
    whole = serialization.with_own_buffers(payload)
    return frame if whole is payload else (*frame[:-1], whole)


def encode_item(
    engine: WorkerEngine, call: int, index: int, value: object, where: Callable[[], str]
) -> Frame:
    """Encodes the next item of a stream.

    Raises:
        SerializationError: It cannot be sent.
        ActorExit: The generator has ended the actor.
    """
    if engine.is_over:
        engine.check_over(call)
    try:
        if type(value) in _WITHOUT_HANDLES:
            return (ITEM, call, index, None, encode(value))
        payload, lent = _encoded(engine, value)
    except Exception as error:
        raise _unsendable(engine, f"{where()} yielded", value, error) from error
    return (ITEM, call, index, lent, payload)


def _unsendable(
    engine: SendingEngine, action: str, value: object, error: Exception
) -> SerializationError:
    from actorlib._wire.errors import unsendable_reason  # noqa: PLC0415  # asyncio

    with collecting_ids(engine):  # what is in it and counted is not to blame
        why = unsendable_reason(value, error)
    unsendable = SerializationError(
        f"{action} a {type(value).__qualname__}, which cannot be sent to another "
        f"process: {why}"
    )
    unsendable.__cause__ = error
    return unsendable


def failure(engine: WorkerEngine, call: int, error: BaseException, where: str) -> Frame:
    """Encodes the answer with what a method raised.

    Raises:
        SystemExit: That is what it raised, or it has ended the actor: no answer.
    """
    if engine.is_over:
        engine.check_over(call, error)
    if isinstance(error, SystemExit):
        raise error
    return _failure(engine, call, error, where)


def constructor_failure(
    engine: WorkerEngine, error: BaseException, where: str
) -> Frame:
    """Encodes what a constructor raised, SystemExit too."""
    if engine.is_over:
        engine.check_over(0, error)
    return _failure(engine, 0, error, where)


def _failure(
    engine: SendingEngine, call: int, error: BaseException, where: str
) -> Frame:
    # Both load asyncio, which is half of what a template would have to import before
    # it can fork its first worker.
    from actorlib._wire.arguments import encode_error  # noqa: PLC0415
    from actorlib._wire.errors import traceback_of  # noqa: PLC0415

    text = traceback_of(error)
    summary = one_line(error)
    payload, lent = encode_error(engine, error)
    return (FAILURE, call, RAISED, summary, text, where, lent, payload)


def cancelled(call: int, why: str = "") -> Frame:
    """Makes the answer of a call that was cancelled, with the reason if it is known."""
    return (FAILURE, call, CANCELLED, why, "", "", None, b"")


def is_cancelled(answer: Frame) -> bool:
    """Whether an answer says that the call was cancelled."""
    return bool(answer[0] == FAILURE and answer[2] == CANCELLED)


def _encoded(
    engine: SendingEngine, value: object
) -> tuple[Payload, list[CountedId] | None]:
    with collecting_ids(engine) as lent:
        payload = share_payload(engine.memory, encode(value), lent)
        return payload, lent or None


_dumped = lru_cache(maxsize=64)(dump)


def _run_with(engine: WorkerEngine, instance: object, frame: Frame) -> object:
    """Runs a call that has headers, or that consumers of events are told of."""
    context = context_of(engine, frame)
    args, kwargs, run = begin_run(engine, frame, context)
    try:
        method = find_method(instance, frame[2])
        if frame[0] == CALL_WITH and "batch" in frame[4]:
            from actorlib._wire.batches import call_each  # noqa: PLC0415  # asyncio

            method, args = partial(call_each, method, frame[4]["batch"]), (args,)
        value: object
        if context is None:
            value = method(*args, **kwargs)
        else:
            value = context.run(method, *args, **kwargs)
    except BaseException as error:
        if run is not None:
            run.finish(error)
        raise
    if run is not None:
        run.finish()
    return value


def context_of(engine: WorkerEngine, frame: Frame) -> Context | None:
    """Makes the context that a call needs of its own; None if it needs none."""
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
    """Loads what came with a call, and begins to run its code.

    Args:
        engine: The engine of this worker.
        frame: The call.
        context: What the code runs in. None for the context of this thread.

    Returns:
        The positional and the keyword arguments, and the run. It is None if no consumer
        of events is told of it.

    Raises:
        Exception: An argument, or the value of a context variable, cannot be loaded.
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
    """Loads the arguments of a call, and sets the variables that came with it.

    In this order: the arguments may load the module that marks a variable.
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
    """Starts a call of an ``async def``, of each of a batch, or of a stream.

    Args:
        headers: The headers of the call.
        method: The method.
        arguments: Its positional and its keyword arguments.
        gate_places: For the calls of a batch; see await_each.
        stream: Sends the items of a generator.

    Returns:
        What is to be awaited.
    """
    if "batch" in headers:
        from actorlib._wire.batches import await_each  # noqa: PLC0415  # asyncio

        return await_each(method, headers["batch"], arguments[0], gate_places)
    begun: Coroutine[Any, Any, object] = method(*arguments[0], **arguments[1])
    return stream(begun) if "stream" in headers else begun


def pack_headers(headers: dict[str, Any] | None) -> dict[str, Any] | None:
    """Makes headers as frames carry them: the owner may lack the classes in them."""
    if headers is None or "retries" not in headers:
        return headers
    times, listed = headers["retries"]
    if isinstance(listed, tuple):
        listed = _dumped(cast("tuple[type, ...]", listed))
    return {**headers, "retries": (times, listed)}
