"""What becomes of a call of a function: whoever waits for it is told."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from actorlib._local.holders import OWNER
from actorlib._local.loans import passing
from actorlib._local.retries import is_retried
from actorlib._reading import Reading
from actorlib._ref import ObjectRef
from actorlib._wire.answers import error_of, fill

if TYPE_CHECKING:
    from actorlib._local.loans import Loans
    from actorlib._local.retries import Retries
    from actorlib._local.tasks import Reply
    from actorlib._wire.frames import Frame

_OWN = (ObjectRef, weakref.ref, Reading)
"""What the owner's own code waits with."""


class Verdicts:
    """Gives answers to those who wait for them.

    Args:
        loans: Counts what is in answers.
    """

    def __init__(self, loans: Loans) -> None:
        self._loans = loans

    def give(self, reply: Reply | None, frame: Frame) -> None:
        """Gives an answer to whoever waits, if anybody does."""
        loans = frame[-2]
        if type(reply) is ObjectRef and loans is None:
            if not reply.done():
                fill(reply, frame)
        elif reply is None:
            self.drop(frame)
        elif not isinstance(reply, _OWN):
            reply.answer(frame)
        else:
            ref = reply() if isinstance(reply, weakref.ref) else reply
            with passing(self._loans, loans, OWNER):
                if ref is not None and not ref.done():
                    fill(ref, frame)

    def drop(self, frame: Frame) -> None:
        """Nobody waits for an answer: what it brought is in nobody's hands."""
        self._loans.arrived(frame[-2] or (), OWNER)
        self._loans.returned(frame[-2] or (), OWNER)

    def fail(
        self, reply: Reply | None, error: BaseException, *, is_known: bool
    ) -> None:
        """Tells whoever waits that there is no value.

        Args:
            reply: Who waits.
            error: Why.
            is_known: Whether it is not to be reported where nobody awaits it.
        """
        if reply is None:
            return
        if not isinstance(reply, _OWN):
            reply.fail(error)
            return
        ref = reply() if isinstance(reply, weakref.ref) else reply
        if ref is not None and not ref.done():
            ref.set_exception(error)
            if is_known:
                ref.exception()

    def is_retried(self, retries: Retries, frame: Frame) -> bool:
        """Whether a call is made again after what its function raised."""
        if not retries.exceptions:
            return False
        if not retries.depends_on_error:
            return is_retried(retries, None)
        _, _, kind, summary, text, where, loans, payload = frame
        with passing(self._loans, loans, OWNER):
            error = error_of(kind, summary, text, where, payload)
        return is_retried(retries, error)
