"""What a method returned or raised becomes a frame that always arrives.

A value that cannot be sent is the method's failure and nobody else's; an exception
that cannot be sent arrives as its text.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Protocol

from actorlib._engine import collecting
from actorlib._values import encoded_error
from actorlib._wire import payload as payloads
from actorlib._wire.blame import reason
from actorlib._wire.frames import CANCELLED, FAILURE, ITEM, RAISED, RESULT, Frame
from actorlib._wire.memory import shared
from actorlib._wire.payload import described, encode
from actorlib.exceptions import ObjectStoreFullError, SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from actorlib._ids import LoanId
    from actorlib._values import Sharing
    from actorlib._wire.shared import Payload

    class Answering(Sharing, Protocol):
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


_OURS = __file__.rpartition("_worker")[0]
_SIMPLE = frozenset({type(None), bool, int, float})
_WITHOUT_HANDLES = _SIMPLE | {str, bytes}


def result(
    engine: Answering, call: int, value: object, where: Callable[[], str]
) -> Frame:
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
        return failure(engine, call, error, where())
    except Exception as error:  # noqa: BLE001  # pickling runs the user's code
        trouble = _unsendable(engine, f"{where()} returned", value, error)
        return failure(engine, call, trouble, where())
    return (RESULT, call, loans, payload)


def kept(frame: Frame) -> Frame:
    """A frame whose payload has buffers of its own, for one that is not sent at once.

    Args:
        frame: An answer or an item; see ``payload.kept``.
    """
    payload: Payload = frame[-1]
    whole = payloads.kept(payload)
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
    engine: Sharing, did: str, value: object, error: Exception
) -> SerializationError:
    with collecting(engine):  # what is in it and counted is not to blame
        why = reason(value, error)
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


def _failure(engine: Sharing, call: int, error: BaseException, where: str) -> Frame:
    own = _of_user(error.__traceback__)
    text = "".join(traceback.format_exception(type(error), error, own))
    summary = described(error)
    payload, loans = encoded_error(engine, error)
    return (FAILURE, call, RAISED, summary, text, where, loans, payload)


def _of_user(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the outermost frames, which are ours and tell nothing."""
    first = inner = trace.tb_next if trace is not None else None
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith(_OURS):
        inner = inner.tb_next
    return inner or first or trace


def cancelled(call: int, why: str = "") -> Frame:
    """The answer of a call that was cancelled while it ran, and why if it is known."""
    return (FAILURE, call, CANCELLED, why, "", "", None, b"")


def _encoded(engine: Sharing, value: object) -> tuple[Payload, list[LoanId] | None]:
    with collecting(engine) as loans:
        payload = shared(engine.memory, encode(value), loans)
        return payload, loans or None
