"""Who wants the answer of a call: a ref of the owner's, or a worker."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from actorlib._reading import Reading
from actorlib._ref import ObjectRef
from actorlib.exceptions import ActorDiedError, ActorUnavailableError

if TYPE_CHECKING:
    from actorlib._wire.frames import Frame


class Asker(Protocol):
    """A worker that waits for an answer."""

    def answer(self, frame: Frame) -> None:
        """Passes the answer on."""
        ...

    def fail(self, error: BaseException) -> None:
        """Tells that there will be none."""
        ...


Reply: TypeAlias = ObjectRef[Any] | weakref.ref[ObjectRef[Any]] | Reading | Asker


def fail_reply(reply: Reply, error: BaseException) -> None:
    """Gives an error to whoever wants an answer, if somebody still does."""
    ref: ObjectRef[Any] | Reading | None
    if isinstance(reply, weakref.ref):
        ref = reply()
    elif isinstance(reply, ObjectRef | Reading):
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
