"""Runs one call: its arguments decoded, in its context, its answer a frame.

What a method returned or raised always arrives: a value that cannot be sent is the
method's failure and nobody else's; an exception that cannot be sent arrives as its
text.
"""

from __future__ import annotations

from contextvars import Context, copy_context
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from actorlib._core.current_call import running
from actorlib._core.engine import collecting
from actorlib._shm.memory import share_payload
from actorlib._wire import serialization as payloads
from actorlib._wire.arguments import encode_error
from actorlib._wire.batches import await_each, call_each
from actorlib._wire.call_headers import enter_variables
from actorlib._wire.errors import traceback_of, unsendable_reason
from actorlib._wire.messages import CANCELLED, FAILURE, ITEM, RAISED, RESULT, Frame
from actorlib._wire.serialization import dump, encode, one_line
from actorlib.exceptions import ObjectStoreFullError, SerializationError

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Coroutine,
        Iterator,
        Mapping,
        Sequence,
    )

    from actorlib._core.ids import LoanId
    from actorlib._shm.memory import Payload
    from actorlib._wire.arguments import SendingEngine

    class Answering(SendingEngine, Protocol):
        """The engine of a worker, as far as its answers need it."""

        is_over: bool
        """Whether the code that is answered for may have ended the actor, or be run by
        a fork of this process, which answers nobody."""

        def over(self, call: int, error: BaseException | None = None) -> None:
            """Does not come back if it was so.

            Args:
                call: The call that would be answered.
                error: What its code raised, if it did.

            Raises:
                ActorExit: The call has ended the actor, whatever it did then.
            """
            ...

    class Invoking(Answering, Protocol):
        """The same, as far as its calls need it."""

        def arguments(
            self, loans: Collection[LoanId] | None, payload: Payload
        ) -> tuple[list[Any] | tuple[Any, ...], dict[str, Any]]:
            """The arguments of a call."""
            ...

        def where(self, method: str) -> str:
            """Names a method of the actor, for messages."""
            ...


_SIMPLE = frozenset({type(None), bool, int, float})
_WITHOUT_HANDLES = _SIMPLE | {str, bytes}


def result(engine: Invoking, call: int, value: object, method: str) -> Frame:
    """The answer with a method's value, or with why it cannot be sent.

    Raises:
        ActorExit: The method has ended the actor.
    """
    if engine.is_over:
        engine.over(call)
    if type(value) in _SIMPLE:
        try:
            return (RESULT, call, None, encode(value))
        except OverflowError:  # pragma: no cover  # encode() has a way around it
            pass
    try:
        payload, loans = _encoded(engine, value)
    except ObjectStoreFullError as error:
        return failure(engine, call, error, engine.where(method))
    except Exception as error:  # noqa: BLE001  # pickling runs the user's code
        trouble = _unsendable(engine, f"{engine.where(method)} returned", value, error)
        return failure(engine, call, trouble, engine.where(method))
    return (RESULT, call, loans, payload)


def invoke(engine: Invoking, instance: object, frame: Frame) -> tuple[Frame, object]:
    """Runs one call of a plain method: decodes, calls, and encodes what comes of it.

    Args:
        engine: That of this worker.
        instance: The actor's object.
        frame: The call.

    Returns:
        The answer, and what the method gave or raised. That is to be held until the
        answer was sent: a handle in it is given back behind it.

    Raises:
        SystemExit: It has ended the actor: there is no answer.
    """
    _, call, name, loans, *told, payload = frame
    running.set((call, name, told[0] if told else None))
    try:
        args, kwargs = engine.arguments(loans, payload)
        method = getattr(instance, name)
        if told:
            value = call_with(told[0], method, args, kwargs)
        else:
            value = method(*args, **kwargs)
    except BaseException as error:  # noqa: BLE001  # the user's code
        answer = failure(engine, call, error, engine.where(name))
        running.set(None)
        return answer, error  # in no variable here: its traceback holds this frame
    answer = result(engine, call, value, name)
    running.set(None)
    return answer, value


def kept(frame: Frame) -> Frame:
    """A frame whose payload has buffers of its own, for one that is not sent at once.

    Args:
        frame: An answer or an item; see ``payload.kept``.
    """
    payload: Payload = frame[-1]
    whole = payloads.with_own_buffers(payload)
    return frame if whole is payload else (*frame[:-1], whole)


def item(
    engine: Answering, call: int, index: int, value: object, where: Callable[[], str]
) -> Frame:
    """The next item of a stream.

    Raises:
        SerializationError: It cannot be sent.
        ActorExit: The generator has ended the actor.
    """
    if engine.is_over:
        engine.over(call)
    try:
        if type(value) in _WITHOUT_HANDLES:
            return (ITEM, call, index, None, encode(value))
        payload, loans = _encoded(engine, value)
    except Exception as error:
        raise _unsendable(engine, f"{where()} yielded", value, error) from error
    return (ITEM, call, index, loans, payload)


def _unsendable(
    engine: SendingEngine, did: str, value: object, error: Exception
) -> SerializationError:
    with collecting(engine):  # what is in it and counted is not to blame
        why = unsendable_reason(value, error)
    trouble = SerializationError(
        f"{did} a {type(value).__qualname__}, which cannot be sent to another process: "
        f"{why}"
    )
    trouble.__cause__ = error
    return trouble


def failure(engine: Answering, call: int, error: BaseException, where: str) -> Frame:
    """The answer with what a method raised.

    Raises:
        SystemExit: That is what it raised, or it has ended the actor: no answer.
    """
    if engine.is_over:
        engine.over(call, error)
    if isinstance(error, SystemExit):
        raise error
    return _failure(engine, call, error, where)


def unmade(engine: Answering, error: BaseException, where: str) -> Frame:
    """What is said of a constructor that raised, SystemExit too."""
    if engine.is_over:
        engine.over(0, error)
    return _failure(engine, 0, error, where)


def _failure(
    engine: SendingEngine, call: int, error: BaseException, where: str
) -> Frame:
    text = traceback_of(error)
    summary = one_line(error)
    payload, loans = encode_error(engine, error)
    return (FAILURE, call, RAISED, summary, text, where, loans, payload)


def cancelled(call: int, why: str = "") -> Frame:
    """The answer of a call that was cancelled while it ran, and why if it is known."""
    return (FAILURE, call, CANCELLED, why, "", "", None, b"")


def _encoded(
    engine: SendingEngine, value: object
) -> tuple[Payload, list[LoanId] | None]:
    with collecting(engine) as loans:
        payload = share_payload(engine.memory, encode(value), loans)
        return payload, loans or None


_dumped = lru_cache(maxsize=64)(dump)


def call_with(
    told: Mapping[str, Any],
    method: Callable[..., object],
    args: list[Any] | tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> object:
    """Calls a plain method, or each of a batch, in the context variables of the caller.

    The thread has its own context back afterwards.

    Args:
        told: What the caller said of the call.
        method: The method.
        args: Its positional arguments.
        kwargs: Its keyword arguments.

    Raises:
        SerializationError: A context variable's value cannot be loaded here.
        BaseException: What the method raised.
    """
    if "batch" in told:
        method = partial(call_each, method, told["batch"])
        args = (args,)
    if "variables" not in told:
        return method(*args, **kwargs)
    return _context(told).run(method, *args, **kwargs)


def within(
    told: Mapping[str, Any], function: Callable[..., object]
) -> Callable[..., object]:
    """A function as it is called in such a context; see call_with.

    No code of ours stands between its caller and it: see Attention.
    """
    if "variables" not in told:
        return function
    return partial(_context(told).run, function)


def begun_with(
    told: Mapping[str, Any],
    method: Callable[..., Any],
    given: tuple[Sequence[Any], Mapping[str, Any]],
    places: tuple[Callable[[], bool], Callable[[], None]],
    stream: Callable[[Any], Coroutine[Any, Any, object]],
) -> Coroutine[Any, Any, object]:
    """A call of an ``async def``, or each of a batch, or a stream, to be awaited.

    Args:
        told: What the caller said of the call.
        method: The method.
        given: Its positional and its keyword arguments.
        places: For the calls of a batch; see await_each.
        stream: Sends the items of a generator.
    """
    if "batch" in told:
        return await_each(method, told["batch"], given[0], places)
    begun: Coroutine[Any, Any, object] = method(*given[0], **given[1])
    return stream(begun) if "stream" in told else begun


def stepper(told: Mapping[str, Any], source: Iterator[Any]) -> Callable[[], Any]:
    """Takes the next item of a generator, each in the same context; see call_with."""
    if "variables" not in told:
        return source.__next__
    return partial(_context(told).run, source.__next__)


def _context(told: Mapping[str, Any]) -> Context:
    context = copy_context()
    context.run(enter_variables, told)
    return context


def packed(told: dict[str, Any] | None) -> dict[str, Any] | None:
    """What is said of a call, as frames carry it: the owner may lack the classes."""
    if told is None or "retries" not in told:
        return told
    times, listed = told["retries"]
    if isinstance(listed, tuple):
        listed = _dumped(cast("tuple[type, ...]", listed))
    return {**told, "retries": (times, listed)}
