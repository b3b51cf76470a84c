"""Who wants the answer of a call: a ref of the owner's, or a worker."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from actorlib._core.object_ref import (
    ObjectRef,
    give_up,
)
from actorlib._core.stream_reader import StreamReader
from actorlib._owner.restart_policy import Retries, is_retried
from actorlib._wire.errors import error_of
from actorlib._wire.messages import CANCELLED, FAILURE, RAISED, Frame
from actorlib.exceptions import ActorDiedError, ActorUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable


class ResponseTarget(Protocol):
    """A worker that waits for an answer."""

    def answer(self, frame: Frame) -> None:
        """Passes the answer on."""
        ...

    def fail(self, error: BaseException) -> None:
        """Tells that there will be none."""
        ...


IS_CANCELLED: Frame = (FAILURE, 0, CANCELLED, "", "", "", None, b"")
Reply: TypeAlias = (
    ObjectRef[Any] | weakref.ref[ObjectRef[Any]] | StreamReader | ResponseTarget
)


class Stopped:
    """Who asked, and has cancelled the call since: is told when that has ended.

    Args:
        reply: Who it is.
        drop: Gives back what is in an answer that nobody wants.

    Attributes:
        reply: The same.
    """

    __slots__ = ("_drop", "reply")

    def __init__(self, reply: Reply, drop: Callable[[Frame], None]) -> None:
        self.reply = reply
        self._drop = drop

    def answer(self, frame: Frame) -> None:
        """It has ended, in whatever way; see ResponseTarget."""
        self._drop(frame)
        self._tell()

    def fail(self, error: BaseException) -> None:
        """It has ended with its actor; see ResponseTarget."""
        del error  # whoever cancelled it knows enough
        self._tell()

    def _tell(self) -> None:
        reply = self.reply
        ref = reply() if isinstance(reply, weakref.ref) else reply
        if isinstance(ref, ObjectRef):
            if not ref.done():
                give_up(ref)
        elif ref is not None and not isinstance(ref, StreamReader):
            ref.answer(IS_CANCELLED)


def fail_reply(reply: Reply, error: BaseException) -> None:
    """Gives an error to whoever wants an answer, if somebody still does."""
    ref: ObjectRef[Any] | StreamReader | None
    if isinstance(reply, weakref.ref):
        ref = reply()
    elif isinstance(reply, ObjectRef | StreamReader):
        ref = reply
    else:
        reply.fail(error)
        return
    if ref is not None and not ref.done():
        ref.set_exception(error)
        if _was_asked_for(error):
            # Whoever ended the actor knows: no report of a ref that nobody awaits.
            ref.exception()


def _was_asked_for(error: BaseException) -> bool:
    if not isinstance(error, ActorDiedError | ActorUnavailableError):
        return False
    return error.exit.cause in ("asked", "restarted")


def is_answer_retried(retries: Retries, answer: Frame) -> bool:
    """Whether a call is sent again after an answer; see is_retried."""
    if answer[0] != FAILURE or answer[2] != RAISED:
        return False
    if not retries.depends_on_error:
        return is_retried(retries, None)
    _, _, kind, summary, text, where, _, payload = answer
    return is_retried(retries, error_of(kind, summary, text, where, payload))
