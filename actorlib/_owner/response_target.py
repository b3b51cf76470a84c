"""Delivers the answer of a call to whoever wants it: the owner's code, or a worker."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from actorlib._core.object_ref import ObjectRef, mark_cancelled
from actorlib._core.stream_reader import StreamReader
from actorlib._owner.call_policy import Retries, is_retried
from actorlib._owner.refcount import OWNER, passing
from actorlib._wire.errors import exception_of, fill_future
from actorlib._wire.messages import CANCELLED, FAILURE, RAISED, Frame
from actorlib.exceptions import ActorDiedError, ActorUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._owner.refcount import BorrowedReferences


class RemoteTarget(Protocol):
    """Receives an answer as a frame, to pass it on: a worker that waits for it."""

    def answer(self, frame: Frame) -> None:
        """Passes the answer on."""
        ...

    def fail(self, error: BaseException) -> None:
        """Tells that there will be none."""
        ...


ResponseTarget: TypeAlias = (
    ObjectRef[Any] | weakref.ref[ObjectRef[Any]] | StreamReader | RemoteTarget
)
"""Whoever wants the answer of a call."""

_IN_OWNER = (ObjectRef, weakref.ref, StreamReader)
IS_CANCELLED: Frame = (FAILURE, 0, CANCELLED, "", "", "", None, b"")


class CancelledTarget:
    """Tells whoever has cancelled a call when the call has ended.

    Args:
        target: Who made the call and cancelled it.
        drop: Gives back what is in an answer that nobody wants.

    Attributes:
        target: See above.
    """

    __slots__ = ("_drop", "target")

    def __init__(self, target: ResponseTarget, drop: Callable[[Frame], None]) -> None:
        self.target = target
        self._drop = drop

    def answer(self, frame: Frame) -> None:
        """Tells that the call has ended, in whatever way; see RemoteTarget."""
        self._drop(frame)
        self._tell()

    def fail(self, error: BaseException) -> None:
        """Tells that the call has ended with its actor; see RemoteTarget."""
        del error  # whoever cancelled it knows enough
        self._tell()

    def _tell(self) -> None:
        target = self.target
        ref = target() if isinstance(target, weakref.ref) else target
        if isinstance(ref, ObjectRef):
            if not ref.done():
                mark_cancelled(ref)
        elif ref is not None and not isinstance(ref, StreamReader):
            ref.answer(IS_CANCELLED)


def awaited(target: ResponseTarget | None) -> ObjectRef[Any] | StreamReader | None:
    """The ref or the reader that still waits in this process; None if none does."""
    ref = target() if isinstance(target, weakref.ref) else target
    if isinstance(ref, ObjectRef | StreamReader) and not ref.done():
        return ref
    return None


def give_answer(
    target: ResponseTarget | None, frame: Frame, counted: BorrowedReferences
) -> None:
    """Gives an answer to whoever wants it; what it brought is dropped if nobody does.

    Args:
        target: Who wants it.
        frame: The answer.
        counted: Where the handles in it are counted.
    """
    loans = frame[-2]
    if type(target) is ObjectRef and loans is None:  # the usual case
        if not target.done():
            fill_future(target, frame)
    elif target is not None and not isinstance(target, _IN_OWNER):
        target.answer(frame)  # the handles are counted for the worker
    elif loans:
        with passing(counted, loans, OWNER):
            _fill(target, frame)
    else:
        _fill(target, frame)


def _fill(target: ResponseTarget | None, frame: Frame) -> None:
    ref = awaited(target)
    if ref is not None:
        fill_future(ref, frame)


def give_error(
    target: ResponseTarget | None, error: BaseException, *, is_known: bool = False
) -> None:
    """Gives an error to whoever wants an answer, if somebody still does.

    Args:
        target: Who wants it.
        error: Why there is none. Each target needs an error of its own: it keeps the
            frames that it was raised through.
        is_known: Whether it is not to be reported where nobody awaits the ref.
    """
    if target is not None and not isinstance(target, _IN_OWNER):
        target.fail(error)
        return
    ref = awaited(target)
    if ref is not None:
        ref.set_exception(error)
        if is_known or _was_asked_for(error):
            ref.exception()  # which marks it as seen


def _was_asked_for(error: BaseException) -> bool:
    """Whether somebody ended the actor on purpose, and so knows why."""
    if not isinstance(error, ActorDiedError | ActorUnavailableError):
        return False
    return error.exit.cause in ("asked", "restarted")


def is_answer_retried(
    retries: Retries, answer: Frame, counted: BorrowedReferences
) -> bool:
    """Whether a call is sent again after an answer.

    Args:
        retries: What is left of its retries.
        answer: The answer.
        counted: Where the handles in it are counted, as it may have to be loaded.
    """
    if answer[0] != FAILURE or answer[2] != RAISED or not retries.exceptions:
        return False
    if not retries.depends_on_error:
        return is_retried(retries, None)
    _, _, kind, summary, text, where, loans, payload = answer
    with passing(counted, loans, OWNER):
        error = exception_of(kind, summary, text, where, payload)
    return is_retried(retries, error)
