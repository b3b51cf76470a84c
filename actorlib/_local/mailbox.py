"""The calls of one actor that wait and those that are on their way.

A call is in exactly one place: waiting for the actor to be ready, or sent and not
answered. What becomes of it when the actor dies follows from that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from actorlib._wire.frames import CALL, CALL_WITH, Frame, Payload

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from actorlib._engine import ActorId

R = TypeVar("R")


class Posted(NamedTuple, Generic[R]):
    """A call that waits for the actor to be ready."""

    reply: R
    frame: Frame


class Mailbox(Generic[R]):
    """Which frames may go, and whom their answers are for.

    A reply is whatever the caller wants back with the answer.
    """

    def __init__(self) -> None:
        self._next = 1
        self._is_open = False
        self._waiting: dict[int, Posted[R]] = {}
        self._sent: dict[int, tuple[R, str]] = {}

    def __repr__(self) -> str:
        state = "open" if self._is_open else "closed"
        return (
            f"<Mailbox {state}, {len(self._waiting)} waiting, {len(self._sent)} sent>"
        )

    def __len__(self) -> int:
        """How many calls have no answer yet."""
        return len(self._waiting) + len(self._sent)

    def post(
        self,
        reply: R,
        method: str,
        loans: Collection[ActorId] | None,
        payload: Payload,
        told: Mapping[str, object] | None = None,
    ) -> tuple[int, Frame | None]:
        """Takes a call; gives its number, and its frame if that may go now."""
        number = self._next
        self._next = number + 1
        frame: Frame = (CALL, number, method, loans, payload)
        if told:
            frame = (CALL_WITH, number, method, loans, told, payload)
        if self._is_open:
            self._sent[number] = (reply, method)
            return number, frame
        self._waiting[number] = Posted(reply, frame)
        return number, None

    def opened(self) -> list[Frame]:
        """The actor is ready: the frames that go now, in order."""
        self._is_open = True
        waiting, self._waiting = self._waiting, {}
        for number, (reply, frame) in waiting.items():
            self._sent[number] = (reply, frame[2])
        return [posted.frame for posted in waiting.values()]

    def settle(self, number: int) -> R | None:
        """An answer came: whom it is for, or None if nobody wants it any more."""
        sent = self._sent.pop(number, None)
        return None if sent is None else sent[0]

    def replace(self, number: int, reply: R) -> None:
        """Gives the answer of a call to somebody else, if it has none yet."""
        if number in self._sent:
            self._sent[number] = (reply, self._sent[number][1])
        elif number in self._waiting:
            self._waiting[number] = self._waiting[number]._replace(reply=reply)

    def drop(self, number: int) -> Frame | None:
        """Forgets a call; gives its frame if it never went."""
        self._sent.pop(number, None)
        posted = self._waiting.pop(number, None)
        return posted.frame if posted is not None else None

    def was_sent(self, number: int) -> bool:
        """Whether a call is on its way and has no answer."""
        return number in self._sent

    def running(self) -> str | None:
        """The method of the oldest call that was sent and has no answer."""
        for _, method in self._sent.values():
            return method
        return None

    def closed(self) -> tuple[list[R], list[Frame]]:
        """The actor is gone: who will get no answer, and the frames that never went."""
        replies = [reply for reply, _ in self._sent.values()]
        replies += [posted.reply for posted in self._waiting.values()]
        frames = [posted.frame for posted in self._waiting.values()]
        self._sent, self._waiting = {}, {}
        self._is_open = False
        return replies, frames

    def check(self) -> None:
        """Raises if a call is in two places, or waits for nothing.

        Raises:
            AssertionError: An invariant is broken.
        """
        if self._is_open and self._waiting:
            raise AssertionError(f"{self!r}: calls wait although the actor is ready")
        both = self._waiting.keys() & self._sent.keys()
        if both:
            raise AssertionError(f"{self!r}: calls {sorted(both)} are in two places")
