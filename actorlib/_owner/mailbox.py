"""The calls of one actor that wait and those that are on their way.

A call is in exactly one place: waiting for the actor to be ready, or sent and not
answered. What becomes of it when the actor dies follows from that, and from how often
it may be sent again: only a call that may is kept after it was sent.

Calls that wait for an argument, a ref without a value, and keep their place.
"""

from __future__ import annotations

import itertools
import weakref
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    TypeAlias,
    TypeVar,
)

from actorlib._owner.calls_under_way import (
    Marks,
    UnderWay,
)
from actorlib._wire.messages import (
    CALL,
    CALL_WITH,
    Frame,
)

if TYPE_CHECKING:
    from collections.abc import (
        Collection,
        Mapping,
    )

    from actorlib._core.ids import (
        LoanId,
    )
    from actorlib._core.object_ref import (
        ObjectRef,
    )
    from actorlib._core.stream_reader import (
        StreamReader,
    )
    from actorlib._owner.restart_policy import (
        Retries,
    )
    from actorlib._shm.payload import (
        Payload,
    )

    Waiting: TypeAlias = "ObjectRef[Any] | StreamReader"


R = TypeVar("R")


class Posted(NamedTuple, Generic[R]):
    """A call that waits for the actor to be ready."""

    reply: R
    frame: Frame


class Kept(NamedTuple):
    """A call that is kept until it is answered, as it may be sent again.

    Attributes:
        first: The number that it was posted with.
        frame: What is sent.
        retries: How often it may still be sent again, and after what.
    """

    first: int
    frame: Frame
    retries: Retries


class Mailbox(Generic[R]):
    """Which frames may go, and whom their answers are for.

    A reply is whatever the caller wants back with the answer.

    Attributes:
        kept: The calls that may be sent again, by the number that they have now.
        sent: Whom the answers of those on their way are for, their methods, and what
            was said of them.
        waiting: Those that wait for the actor to be ready.
        has_dropped: Whether any was forgotten that was sent: it may run all the same.
    """

    def __init__(self) -> None:
        self.kept: dict[int, Kept] = {}
        self._next = 1
        self._is_open = False
        self._is_away = False
        self.waiting: dict[int, Posted[R]] = {}
        self.sent: dict[int, tuple[R, str, Mapping[str, object] | None]] = {}
        self._marks = Marks()
        self._renumbered: dict[int, int] = {}
        self.has_dropped = False

    def __repr__(self) -> str:
        state = "open" if self._is_open else "away" if self._is_away else "closed"
        return f"<Mailbox {state}, {len(self.waiting)} waiting, {len(self.sent)} sent>"

    def __len__(self) -> int:
        """How many calls have no answer yet."""
        return len(self.waiting) + len(self.sent)

    def begin(self, reply: R, method: str) -> int:
        """Takes a call that goes now and once, to an actor that is ready."""
        number = self._next
        self._next = number + 1
        self.sent[number] = reply, method, None
        return number

    def mark(self, now: float) -> float:
        """The last call was made now, and is the first of its turn of the loop.

        Returns:
            When this is to be said of another one; see Marks.
        """
        oldest = next(iter(self.sent or self.waiting), 0)
        return self._marks.mark(self._next - 1, now, oldest)

    def post(
        self,
        reply: R,
        method: str,
        loans: Collection[LoanId] | None,
        payload: Payload,
        told: Mapping[str, object] | None = None,
        retries: Retries | None = None,
    ) -> tuple[int, Frame | None]:
        """Takes a call; gives its number, and its frame if that may go now.

        While the actor restarts, a call waits at the cost of one retry; one that has
        none is not taken, and its number is 0.
        """
        number = self._next
        self._next = number + 1
        frame: Frame = (CALL, number, method, loans, payload)
        if told:
            frame = (CALL_WITH, number, method, loans, told, payload)
        if retries is not None:
            left = retries.one_less if self._is_away else retries
            self.kept[number] = Kept(number, frame, left)
        if self._is_open:
            self.sent[number] = (reply, method, told)
            return number, frame
        if self._is_away and retries is None:
            return 0, None
        self.waiting[number] = Posted(reply, frame)
        return number, None

    def opened(self) -> list[Frame]:
        """The actor is ready: the frames that go now, in order."""
        self._is_open = True
        self._is_away = False
        waiting, self.waiting = self.waiting, {}
        for number, (reply, frame) in waiting.items():
            self.sent[number] = (reply, frame[2], _told_in(frame))
        return [posted.frame for posted in waiting.values()]

    def settle(self, number: int) -> R | None:
        """An answer came: whom it is for, or None if nobody wants it any more."""
        sent = self.sent.pop(number, None)
        return None if sent is None else sent[0]

    def reply_of(self, number: int) -> R | None:
        """Who waits for the answer of a call that was sent, by its number now."""
        sent = self.sent.get(number)
        return None if sent is None else sent[0]

    def replies(self) -> list[R]:
        """Everybody who waits for an answer."""
        sent = [reply for reply, *_ in self.sent.values()]
        return sent + [posted.reply for posted in self.waiting.values()]

    def replace(self, number: int, reply: R) -> None:
        """Gives the answer of a call to somebody else, if it has none yet."""
        number = self.current(number)
        if number in self.sent:
            self.sent[number] = (reply, *self.sent[number][1:])
        elif number in self.waiting:
            self.waiting[number] = self.waiting[number]._replace(reply=reply)

    def reply(self, number: int) -> R | None:
        """Whom the answer of a call is for; None if it is none that has none yet."""
        posted = self.waiting.get(number)
        if posted is not None:
            return posted.reply
        sent = self.sent.get(number)
        return None if sent is None else sent[0]

    def method(self, number: int) -> str:
        """The method of a call that has no answer yet; empty if it is none."""
        # In the order in which a call goes: another thread may look.
        posted = self.waiting.get(number)
        if posted is not None:
            method: str = posted.frame[2]
            return method
        sent = self.sent.get(number)
        return "" if sent is None else sent[1]

    def drop(self, number: int) -> Frame | None:
        """Forgets a call; gives its frame if that is still here, sent or not."""
        number = self.current(number)
        if self.sent.pop(number, None) is not None:
            self.has_dropped = True
        posted = self.waiting.pop(number, None)
        frame = self.release(number)
        return posted.frame if posted is not None else frame

    def was_sent(self, number: int) -> bool:
        """Whether a call is on its way and has no answer."""
        return self.current(number) in self.sent

    def unanswered(self) -> list[UnderWay]:
        """All calls here, and where each is."""
        when = self._marks.when
        sent = [
            UnderWay(number, method, "sent", reply, told, when(number))
            for number, (reply, method, told) in self.sent.items()
        ]
        return sent + [
            UnderWay(
                number, frame[2], "pending_actor", reply, _told_in(frame), when(number)
            )
            for number, (reply, frame) in self.waiting.items()
        ]

    # Calls that are sent again.

    def current(self, number: int) -> int:
        """The number that a call has now, from the one that it was posted with."""
        return self._renumbered.get(number, number)

    def again(self, number: int) -> Frame | None:
        """A call has failed: the frame that goes once more, or None if none may.

        It has a new number, behind all that were sent meanwhile: workers rely on calls
        coming in the order of their numbers.
        """
        kept = self.kept.get(number)
        if kept is None or not kept.retries.times or number not in self.sent:
            return None
        self.release(number)
        again = self._next
        self._next = again + 1
        frame = (kept.frame[0], again, *kept.frame[2:])
        self.sent[again] = self.sent.pop(number)
        self._renumbered[kept.first] = again
        self.kept[again] = Kept(kept.first, frame, kept.retries.one_less)
        return frame

    def release(self, number: int) -> Frame | None:
        """A call will not be sent again; gives its frame if it was kept for that."""
        kept = self.kept.pop(number, None)
        if kept is None:
            return None
        self._renumbered.pop(kept.first, None)
        return kept.frame

    @property
    def outlives(self) -> bool:
        """Whether a call would wait for the actor if it died and was restarted."""
        may_go_again = (kept.retries.times for kept in self.kept.values())
        return bool(self.waiting) or any(may_go_again)

    # The end of a process.

    def interrupted(self) -> tuple[list[R], list[Frame]]:
        """The actor died and is restarted: calls that were sent go again if they may.

        They keep their order, before those that wait.

        Returns:
            Who will get no answer, and the frames that were kept in vain.
        """
        lost: list[R] = []
        frames: list[Frame] = []
        again: dict[int, Posted[R]] = {}
        for number, (reply, *_) in self.sent.items():
            kept = self.kept.get(number)
            if kept is not None and kept.retries.times:
                self.kept[number] = kept._replace(retries=kept.retries.one_less)
                again[number] = Posted(reply, kept.frame)
                continue
            lost.append(reply)
            frame = self.release(number)
            if frame is not None:
                frames.append(frame)
        self.waiting = again | self.waiting
        self.sent = {}
        self._is_open = False
        self._is_away = True
        return lost, frames

    def closed(self) -> tuple[list[R], list[Frame]]:
        """The actor is gone for good.

        Returns:
            Who will get no answer, and the frames that are still here, sent or not.
        """
        replies = [reply for reply, *_ in self.sent.values()]
        replies += [posted.reply for posted in self.waiting.values()]
        kept = [k.frame for number, k in self.kept.items() if number in self.sent]
        frames = [posted.frame for posted in self.waiting.values()]
        self.sent, self.waiting, self.kept, self._renumbered = {}, {}, {}, {}
        self._is_open = self._is_away = False
        return replies, kept + frames

    def check(self) -> None:
        """Raises if a call is in two places, or waits for nothing.

        Raises:
            AssertionError: An invariant is broken.
        """
        if self._is_open and self.waiting:
            raise AssertionError(f"{self!r}: calls wait although the actor is ready")
        both = self.waiting.keys() & self.sent.keys()
        if both:
            raise AssertionError(f"{self!r}: calls {sorted(both)} are in two places")
        over = self.kept.keys() - self.waiting.keys() - self.sent.keys()
        if over:
            raise AssertionError(f"{self!r}: calls {sorted(over)} are kept for nothing")
        if not self.kept.keys() >= set(self._renumbered.values()):
            raise AssertionError(f"{self!r}: numbers of calls that are over are left")


def _told_in(frame: Frame) -> Mapping[str, object] | None:
    """What is said of the call in a frame."""
    return frame[4] if frame[0] == CALL_WITH else None


class DeferredCalls:
    """The calls of one actor that are not sent yet, for want of arguments.

    Attributes:
        calls: Whom each is for, by its place, its method, and when it was made. Places
            are negative: numbers of calls are not.
    """

    def __init__(self) -> None:
        self.calls: dict[int, tuple[Waiting | weakref.ref[Any], str, float]] = {}
        self._places = itertools.count(-1, -1)

    def add(self, reply: Waiting, method: str, now: float) -> int:
        """Takes a call that is made now; gives its place."""
        place = next(self._places)
        self.calls[place] = reply, method, now
        return place

    def take(self, place: int) -> Waiting | None:
        """The arguments are there: whom the answer is for, or None if nobody waits."""
        reply, *_ = self.calls.pop(place, (None, ""))
        if isinstance(reply, weakref.ref):
            reply = reply()
        return None if reply is None or reply.done() else reply

    def drop(self, place: int) -> None:
        """Forgets a call, if it is one of these."""
        self.calls.pop(place, None)

    def reply(self, place: int) -> Waiting | weakref.ref[Any] | None:
        """Whom a call is for; None if it is none of these."""
        return self.calls.get(place, (None, ""))[0]

    def method(self, place: int) -> str:
        """The method of a call; empty if it is none of these."""
        return self.calls.get(place, (None, ""))[1]

    def loosen(self, place: int, reply: weakref.ref[Any]) -> None:
        """Holds whoever waits for a call weakly from now on, if it is one of these."""
        if place in self.calls:
            self.calls[place] = (reply, *self.calls[place][1:])

    def unanswered(self) -> list[UnderWay]:
        """All of them."""
        return [
            UnderWay(0, method, "pending_arguments", reply, None, since)
            for reply, method, since in self.calls.values()
        ]
