"""Keeps the calls that have no answer: whom each is for, and since when.

A call whose arguments are not there yet is *deferred*. With its arguments it is
*posted*, to the mailbox of an actor or to the pool of functions, under a number of its
own, until it is over::

    defer -> take  -> begin -> renumber ... -> drop       answered, refused or cancelled
          -> drop           -> abandon      -> drop       cancelled or late, still there

Where a posted call is, waiting for room or with a worker, is not written down here: for
a whole mailbox it is one and the same, and a function's call knows it itself. Numbers
go up and are never used twice, so an answer that comes too late finds nobody.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from actorlib._owner.calls.calls_under_way import UnderWay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from actorlib._rows.snapshot import CallState

R = TypeVar("R")
W = TypeVar("W")


class Deferred(NamedTuple, Generic[R]):
    """A call that waits for its arguments.

    Attributes:
        target: Who wants the answer.
        method: What is called, for messages.
        since: When it was made, by the clock of the loop.
    """

    target: R
    method: str
    since: float


class CallTable(Generic[R, W]):
    """Knows every call of one actor, or of all functions, until it is over.

    A target is whoever wants the answer; what is called is the name of a method, or
    whatever else its user needs to know of a call.

    Attributes:
        deferred: The calls that wait for their arguments, by numbers below 0.
        posted: The others, in the order of their numbers, which begin at 1: who wants
            the answer or None, what is called, and the headers.
        note_sent: Told of each call that gets a number, also another one as it goes
            once more: the number, who wants the answer, what is called. None while
            there is no consumer.
    """

    def __init__(self) -> None:
        self.deferred: dict[int, Deferred[R]] = {}
        # Bare tuples: anything with a constructor would cost each call of an actor.
        self.posted: dict[int, tuple[R | None, W, Mapping[str, object] | None]] = {}
        self._next_mark = 0.0
        self.note_sent: Callable[[int, R | None, W], None] | None = None
        self._next = 1
        self._next_deferred = -1
        self._marks = Marks()

    def __repr__(self) -> str:
        nobody = sum(target is None for target, *_ in self.posted.values())
        return (
            f"<CallTable {len(self.deferred)} deferred, {len(self.posted)} posted, "
            f"{nobody} of them for nobody>"
        )

    def __len__(self) -> int:
        """How many calls there are."""
        return len(self.deferred) + len(self.posted)

    @property
    def made(self) -> int:
        """How many calls were posted so far, again those that went once more."""
        return self._next - 1

    # Calls that wait for their arguments.

    def defer(self, target: R, method: str, now: float) -> int:
        """Takes a call that is made now; gives its number."""
        number = self._next_deferred
        self._next_deferred = number - 1
        self.deferred[number] = Deferred(target, method, now)
        return number

    def take(self, number: int) -> R | None:
        """The arguments are there: who wants the answer, unless it was cancelled."""
        call = self.deferred.pop(number, None)
        return None if call is None else call.target

    # Calls on their way.

    def begin(
        self, target: R, what: W, headers: Mapping[str, object] | None = None
    ) -> int:
        """Takes a call that has its arguments; gives its number."""
        number = self._next
        self._next = number + 1
        self.posted[number] = target, what, headers
        if self.note_sent is not None:
            self.note_sent(number, target, what)
        return number

    def mark(self, now: float) -> None:
        """The last call was made now, by the clock of this turn of the loop."""
        if now >= self._next_mark:
            oldest = next(iter(self.posted), 0)
            self._next_mark = self._marks.mark(self._next - 1, now, oldest)

    def since(self, number: int) -> float | None:
        """When a posted call was made, roughly; None if that is not known."""
        return self._marks.when(number)

    def renumber(self, number: int) -> int:
        """A posted call goes once more, behind all others: gives its new number.

        Workers rely on calls coming in the order of their numbers.
        """
        again = self._next
        self._next = again + 1
        self.posted[again] = target, what, _ = self.posted.pop(number)
        if self.note_sent is not None:
            self.note_sent(again, target, what)
        return again

    # All calls.

    def target(self, number: int) -> R | None:
        """Who wants the answer of a call; None if nobody does, or it is over."""
        call = self.posted.get(number) or self.deferred.get(number)
        return None if call is None else call[0]

    def replace(self, number: int, target: R) -> None:
        """Gives the answer of a call to somebody else, if the call is not over."""
        call = self.posted.get(number)
        if call is not None:
            self.posted[number] = (target, *call[1:])
        elif number in self.deferred:
            self.deferred[number] = self.deferred[number]._replace(target=target)

    def abandon(self, number: int) -> R | None:
        """A posted call is for nobody from now on, and not over: a worker has it.

        Returns:
            Who wanted the answer.
        """
        call = self.posted.get(number)
        if call is None:
            return None
        self.posted[number] = (None, *call[1:])
        return call[0]

    def drop(self, number: int) -> R | None:
        """A call is over, whatever state it is in; gives who wanted the answer."""
        call = self.posted.pop(number, None) or self.deferred.pop(number, None)
        return None if call is None else call[0]

    def clear(self) -> list[R]:
        """All posted calls are over; gives those who wanted an answer, in order."""
        targets = [target for target, *_ in self.posted.values() if target is not None]
        self.posted.clear()
        return targets

    def unanswered(
        self, most: int | None, describe: Callable[[int, W], tuple[str, CallState]]
    ) -> Iterator[UnderWay]:
        """Walks over the calls that a caller waits for, those without arguments last.

        Calls may be made and answered during the walk. It leaves out those.

        Args:
            most: How many of each kind at the most; None for all.
            describe: Says what a posted call is called, and where it is.
        """
        deferred = [*islice(self.deferred.values(), most)]
        for number, (target, what, headers) in [*islice(self.posted.items(), most)]:
            if number in self.posted and target is not None:
                method, state = describe(number, what)
                since = self.since(number)
                yield UnderWay(number, method, state, target, headers, since)
        for call in deferred:
            yield UnderWay(
                0, call.method, "pending_arguments", call.target, None, call.since
            )


_CLOSE = 0.05
_FEW = 32
_MOST = 256


class Marks:
    """Says roughly when numbers were given that go up by one.

    A clock read for each call would cost all of them what few ever ask for. So a mark
    is set where a turn of the loop gives its first number, unless the last one is
    close.
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._times: list[float] = []
        self._close = _CLOSE

    def __len__(self) -> int:
        """How many marks are kept."""
        return len(self._firsts)

    def mark(self, first: int, now: float, oldest: int) -> float:
        """A number is given now, and all lower ones were given before.

        Args:
            first: The number.
            now: The time, in seconds.
            oldest: The least number that is asked for from now on.

        Returns:
            When the next mark is due: none has to be set before.
        """
        over = bisect_right(self._firsts, oldest) - 1
        if over > 0:
            del self._firsts[:over], self._times[:over]
        self._firsts.append(first)
        self._times.append(now)
        if len(self._firsts) > _MOST:
            # Something is very old, and so its age may be coarser. The last mark stays.
            self._firsts, self._times = self._firsts[::2], self._times[::2]
            self._close = (now - self._times[0]) / (_MOST // 2)
        elif len(self._firsts) < _FEW:
            self._close = _CLOSE
        return now + self._close

    def when(self, number: int) -> float | None:
        """When a number was given, at most a twentieth of a second too early.

        Coarser if others have been given for long. None if nothing was marked yet.
        """
        place = bisect_right(self._firsts, number) - 1
        return self._times[place] if place >= 0 else None
