"""Decides which calls of one actor go to its worker, and which go again when it dies.

The calls wait for the actor to be ready, all of them, or are sent and not answered, all
of them; but while new ones are held back, those wait beside what was sent. What becomes
of a call when the actor dies follows from that, from whether it ran, and from how often
it may be sent again: only a call that may is kept after it was sent.

Only a call that ran when the process ended pays with a retry; see ``Retries``. That
others go again at no cost may not go on for ever: after ``MOST_IN_VAIN`` restarts in a
row in which no call was finished, calls fail. Those that may go again always wait on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from actorlib._owner.calls.call_policy import Retries
from actorlib._owner.calls.call_table import CallTable
from actorlib._wire.messages import CALL, CALL_WITH, Frame

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from actorlib._base.ids import ActorId, CountedId
    from actorlib._owner.calls.calls_under_way import UnderWay
    from actorlib._rows.snapshot import CallState
    from actorlib._shm.memory import Payload
    from actorlib._shm.running_calls import BegunCalls

R = TypeVar("R")

_NONE = Retries(0)
MOST_IN_VAIN = 10
"""After so many restarts in a row that finish no call, those that wait fail."""


class Kept(NamedTuple):
    """A call that is kept until it is answered, as it may be sent again.

    Attributes:
        first: The number that it was posted with.
        frame: What is sent.
        retries: How often it may still be sent again, and after what.
        runs_once: Whether it has no retries: it may only go again if it has not begun.
        mover: Gives another actor that may have it; None if no other may.
    """

    first: int
    frame: Frame
    retries: Retries
    runs_once: bool = False
    mover: Callable[[], ActorId | None] | None = None


class Mailbox(Generic[R]):
    """Knows which frames may go to one actor, in order, and which go once more.

    Attributes:
        calls: The calls without an answer, also those that wait for arguments.
        answerable: The calls that an answer is for if it comes: the posted ones while
            the actor is ready, none while it is not. Those that are held back count.
        waiting: The frames of those that wait for the actor to be ready, or are held
            back.
        kept: The calls that may be sent again, by the number that they have now.
        abandoned: The calls that were sent and are wanted no more, until the worker has
            said that they are over: a plain method runs on.
        begun: Which calls have begun in the process that is gone; None if unknown.
        has_dropped: Whether any was forgotten that was sent: it may run all the same.
    """

    def __init__(self) -> None:
        self.calls: CallTable[R, str] = CallTable()
        # Either the table's own, so that to post a call is to have sent it, or empty.
        self.answerable: dict[
            int, tuple[R | None, str, Mapping[str, object] | None]
        ] = {}
        self.waiting: dict[int, Frame] = {}
        self.kept: dict[int, Kept] = {}
        self.abandoned: set[int] = set()
        self.has_dropped = False
        self._is_open = False
        self._is_away = False
        self._is_held = False
        self._renumbered: dict[int, int] = {}
        self.begun: BegunCalls | None = None
        self._deaths_in_vain = 0

    def __repr__(self) -> str:
        state = "open" if self._is_open else "away" if self._is_away else "closed"
        return f"<Mailbox {state}, {len(self.waiting)} waiting, {self.under_way} sent>"

    def __len__(self) -> int:
        """How many calls wait for the actor or for its answer."""
        return len(self.calls.posted)

    def post(
        self,
        target: R,
        method: str,
        loans: Collection[CountedId] | None,
        payload: Payload,
        headers: Mapping[str, object] | None = None,
        retries: Retries | None = None,
        mover: Callable[[], ActorId | None] | None = None,
    ) -> tuple[int, Frame | None]:
        """Takes a call; gives its number, and its frame if that may go now.

        While the actor restarts, a call waits if it may be sent again; another is not
        taken, and its number is 0.
        """
        if self._is_away and retries is None:
            return 0, None
        number = self.calls.begin(target, method, headers)
        frame: Frame = (CALL, number, method, loans, payload)
        if headers:
            frame = (CALL_WITH, number, method, loans, headers, payload)
        if retries is not None:
            self.kept[number] = Kept(number, frame, retries, mover=mover)
        elif mover is not None:
            self.kept[number] = Kept(number, frame, _NONE, runs_once=True, mover=mover)
        if self._is_open and not self._is_held:
            return number, frame
        self.waiting[number] = frame
        return number, None

    def opened(self) -> list[Frame]:
        """The actor is ready: the frames that go now, in order."""
        self._is_open = True
        self._is_away = False
        self.begun = None
        self.answerable = self.calls.posted
        return self._taken()

    def hold(self) -> None:
        """Holds back what is posted from now on; what was sent goes on."""
        self._is_held = True

    def let_go(self) -> list[Frame]:
        """Holds nothing back any more: the frames that go now, in order."""
        self._is_held = False
        return self._taken() if self._is_open else []

    def _taken(self) -> list[Frame]:
        frames = list(self.waiting.values())
        self.waiting = {}
        return frames

    @property
    def under_way(self) -> int:
        """How many calls were sent and have no answer."""
        return len(self.answerable) - len(self.waiting) if self._is_open else 0

    def settle(self, number: int) -> R | None:
        """An answer came: whom it is for, or None if nobody wants it any more."""
        return self.calls.drop(number) if number in self.answerable else None

    def drop(self, number: int) -> Frame | None:
        """Forgets a call; gives its frame if that is still here, sent or not."""
        number = self.current(number)
        waits = self.waiting.pop(number, None)
        if waits is None and number in self.answerable:
            self.has_dropped = True
            self.abandoned.add(number)
        self.calls.drop(number)
        frame = self.release(number)
        return frame if waits is None else waits

    def was_sent(self, number: int) -> bool:
        """Whether a call is on its way and has no answer."""
        return self._is_sent(self.current(number))

    def _is_sent(self, number: int) -> bool:
        return number in self.answerable and number not in self.waiting

    def unanswered(self, most: int | None = None) -> Iterator[UnderWay]:
        """Walks over the calls without an answer; see ``CallTable``."""
        return self.calls.unanswered(most, self._described)

    def _described(self, number: int, method: str) -> tuple[str, CallState]:
        is_sent = self._is_open and number not in self.waiting
        return method, "sent" if is_sent else "pending_actor"

    def borrowing(self) -> Iterator[tuple[str, Collection[CountedId]]]:
        """Walks over the calls whose arguments are here, and what is counted in them.

        A call that was sent and may not go again is the worker's, with what is in it.
        """
        kept = {number: call.frame for number, call in self.kept.items()}
        for frame in (kept | self.waiting).values():
            if frame[3]:
                yield frame[2], frame[3]

    # Calls that are sent again.

    def current(self, number: int) -> int:
        """The number that a call has now, from the one that it was posted with."""
        return self._renumbered.get(number, number)

    def again(self, number: int, left: Retries) -> Frame | None:
        """A call has failed: the frame that goes once more, or None if none may.

        It has a new number, behind all that were sent meanwhile.

        Args:
            number: Its number so far.
            left: What it has left of its retries.
        """
        kept = self.kept.get(number)
        if kept is None or number not in self.answerable:
            return None
        self.release(number)
        again = self.calls.renumber(number)
        frame = (kept.frame[0], again, *kept.frame[2:])
        self._renumbered[kept.first] = again
        self.kept[again] = kept._replace(frame=frame, retries=left)
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
        left = map(self._retries_left, self.kept)
        return bool(self.waiting) or any(retries is not None for retries in left)

    # The end of a process.

    def note_begun(self, begun: BegunCalls | None) -> None:
        """The process is gone, and has told which calls have begun; None if unknown."""
        self.begun = begun
        self._deaths_in_vain += 1
        if None in map(self._retries_left, filter(self._ran, self.kept)):
            self._deaths_in_vain = 0  # a call has used up its retries: that is an end

    def note_finished(self) -> None:
        """A call that may go again was answered: the actor gets on."""
        self._deaths_in_vain = 0

    def _ran(self, number: int) -> bool:
        """Whether a call ran when the process ended, as far as that is known."""
        begun = self.begun
        return self._is_sent(number) and (begun is None or begun.runs(number))

    def _may_have_begun(self, number: int) -> bool:
        begun = self.begun
        return self._is_sent(number) and (begun is None or begun.may_have_begun(number))

    def movable(self) -> list[int]:
        """The calls that another actor may have, now that the process is gone."""
        return [
            number
            for number, kept in self.kept.items()
            if kept.mover is not None and self._retries_left(number) is not None
        ]

    def moved(self, number: int) -> None:
        """Another actor has a call, with all that was kept for it."""
        self.waiting.pop(number, None)
        self.calls.drop(number)
        self.release(number)

    def left_of(self, number: int) -> Retries | None:
        """The retries that a movable call takes along; None if it has none at all."""
        is_once = self.kept[number].runs_once
        return None if is_once else self._retries_left(number)

    def _retries_left(self, number: int) -> Retries | None:
        """What a kept call has left behind the end of its process; None if lost."""
        kept, ran = self.kept[number], self._ran(number)
        if kept.runs_once and self._may_have_begun(number):
            return None
        is_in_vain = self._deaths_in_vain > MOST_IN_VAIN and kept.retries.times >= 0
        return None if is_in_vain and not ran else kept.retries.after_end(ran=ran)

    def interrupted(self) -> tuple[list[R], list[Frame]]:
        """The actor died and is restarted: calls that were sent go again if they may.

        They keep their order, before those that wait.

        Returns:
            Who will get no answer, and the frames that were kept in vain.
        """
        lost: list[R] = []
        frames: list[Frame] = []
        again: dict[int, Frame] = {}
        for number in list(self.calls.posted):
            kept = self.kept.get(number)
            waits = number in self.waiting
            if kept is None and waits:
                continue
            left = None if kept is None else self._retries_left(number)
            if kept is not None and left is not None:
                self.kept[number] = kept._replace(retries=left)
                if not waits:
                    again[number] = kept.frame
                continue
            self.waiting.pop(number, None)
            target = self.calls.drop(number)
            if target is not None:
                lost.append(target)
            frame = self.release(number)
            if frame is not None:
                frames.append(frame)
        self.waiting = again | self.waiting
        self.answerable = {}
        self.abandoned.clear()
        self._is_open = self._is_held = False
        self._is_away = True
        return lost, frames

    def closed(self) -> tuple[list[R], list[Frame]]:
        """The actor is gone for good.

        Returns:
            Who will get no answer, and the frames that are still here, sent or not.
        """
        frames = [k.frame for number, k in self.kept.items() if self.was_sent(number)]
        frames += self.waiting.values()
        self.answerable, self.waiting, self.kept, self._renumbered = {}, {}, {}, {}
        self.abandoned.clear()
        self._is_open = self._is_away = self._is_held = False
        return self.calls.clear(), frames
