"""The calls that have no answer: the recipient, the time and the state of each.

A call that waits for its arguments is *deferred*. With its arguments it is *posted* to
the mailbox of an actor or to the pool of functions, under a call number, until it is
over:

    defer -> take  -> begin -> renumber ... -> drop       answered, refused or cancelled
          -> drop           -> abandon      -> drop       cancelled or late, still there

The table does not record whether a posted call waits or was sent: in a mailbox that is
the same for all calls, and a function's call knows it. Numbers increase and are never
used twice, so an answer that comes too late has no recipient.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from actorlib._options.actor_options import LOOPED_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.interface import Interface
    from actorlib._rows.snapshot import CallState

R = TypeVar("R")
W = TypeVar("W")
MAIN_THREAD = "the main thread"


class Deferred(NamedTuple, Generic[R]):
    """A call that waits for its arguments.

    Attributes:
        target: The recipient of the answer.
        method: The name of the method, for messages.
        since: The time of the call, by the clock of the loop.
    """

    target: R
    method: str
    since: float


class UnderWay(NamedTuple):
    """A call without an answer.

    Attributes:
        number: Its number in its actor; 0 before it has one.
        method: The name of the method.
        state: Its state; ``sent`` if it is in the worker.
        target: The recipient of the answer.
        headers: The headers of the call.
        since: The time of the call, by the clock of the loop; None if unknown.
        gives_way: Whether others run beside it, as with a stream whose reader lags.
    """

    number: int
    method: str
    state: CallState
    target: Any
    headers: Mapping[str, Any] | None
    since: float | None
    gives_way: bool = False


class CallTable(Generic[R, W]):
    """Records every call of one actor, or of all functions, until it is over.

    ``R`` is the type of the recipients. ``W`` describes a posted call: the name of the
    method, or what else the user of the table needs to know of it.

    Attributes:
        deferred: The calls that wait for their arguments, by numbers below 0.
        posted: The other calls in the order of their numbers, which begin at 1: the
            recipient or None, the description, and the headers.
        note_sent: Receives each call that gets a number, even a second one: the number,
            the recipient, the description. None without a consumer.
    """

    def __init__(self) -> None:
        self.deferred: dict[int, Deferred[R]] = {}
        # Bare tuples: a constructor would cost each call of an actor.
        self.posted: dict[int, tuple[R | None, W, Mapping[str, object] | None]] = {}
        self._next_mark = 0.0
        self.note_sent: Callable[[int, R | None, W], None] | None = None
        self._next = 1
        self._next_deferred = -1
        self._marks = Marks()

    def __repr__(self) -> str:
        abandoned = sum(target is None for target, *_ in self.posted.values())
        return (
            f"<CallTable {len(self.deferred)} deferred, {len(self.posted)} posted, "
            f"{abandoned} of them abandoned>"
        )

    def __len__(self) -> int:
        return len(self.deferred) + len(self.posted)

    @property
    def made(self) -> int:
        """The number of calls that were posted so far; each retry counts."""
        return self._next - 1

    # Calls that wait for their arguments.

    def defer(self, target: R, method: str, now: float) -> int:
        """Adds a call whose arguments are missing; returns its number."""
        number = self._next_deferred
        self._next_deferred = number - 1
        self.deferred[number] = Deferred(target, method, now)
        return number

    def take(self, number: int) -> R | None:
        """Removes a call that has its arguments; returns its recipient or None."""
        call = self.deferred.pop(number, None)
        return None if call is None else call.target

    # Calls on their way.

    def begin(
        self, target: R, what: W, headers: Mapping[str, object] | None = None
    ) -> int:
        """Adds a call that has its arguments; returns its number."""
        number = self._next
        self._next = number + 1
        self.posted[number] = target, what, headers
        if self.note_sent is not None:
            self.note_sent(number, target, what)
        return number

    def mark(self, now: float) -> None:
        """Notes the time of the last call, by the clock of this turn of the loop."""
        if now >= self._next_mark:
            oldest = next(iter(self.posted), 0)
            self._next_mark = self._marks.mark(self._next - 1, now, oldest)

    def since(self, number: int) -> float | None:
        """Returns roughly when a posted call was made; None if unknown."""
        return self._marks.when(number)

    def renumber(self, number: int) -> int:
        """Moves a posted call that is sent again behind all others; returns its number.

        Workers rely on calls that arrive in the order of their numbers.
        """
        again = self._next
        self._next = again + 1
        self.posted[again] = target, what, _ = self.posted.pop(number)
        if self.note_sent is not None:
            self.note_sent(again, target, what)
        return again

    # All calls.

    def target(self, number: int) -> R | None:
        """Returns the recipient of a call; None if it has none, or is over."""
        call = self.posted.get(number) or self.deferred.get(number)
        return None if call is None else call[0]

    def replace(self, number: int, target: R) -> None:
        """Changes the recipient of a call, if the call is not over."""
        call = self.posted.get(number)
        if call is not None:
            self.posted[number] = (target, *call[1:])
        elif number in self.deferred:
            self.deferred[number] = self.deferred[number]._replace(target=target)

    def abandon(self, number: int) -> R | None:
        """Removes the recipient of a posted call that is not over, as a worker has it.

        Returns:
            The recipient so far.
        """
        call = self.posted.get(number)
        if call is None:
            return None
        self.posted[number] = (None, *call[1:])
        return call[0]

    def drop(self, number: int) -> R | None:
        """Removes a call in any state; returns its recipient."""
        call = self.posted.pop(number, None) or self.deferred.pop(number, None)
        return None if call is None else call[0]

    def clear(self) -> list[R]:
        """Removes all posted calls; returns their recipients in order."""
        targets = [target for target, *_ in self.posted.values() if target is not None]
        self.posted.clear()
        return targets

    def unanswered(
        self, most: int | None, describe: Callable[[int, W], tuple[str, CallState]]
    ) -> Iterator[UnderWay]:
        """Yields the calls that have a recipient, those that wait for arguments last.

        Calls may be made and answered during the iteration. It omits them.

        Args:
            most: The maximum number of each kind; None for all.
            describe: Returns the method and the state of a posted call.
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
    """Maps increasing numbers roughly to the times when they were assigned.

    Reading the clock for each call would cost every call what few callers ask for. So a
    mark is set for the first number of a turn of the loop, unless the last mark is
    recent.
    """

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._times: list[float] = []
        self._close = _CLOSE

    def __len__(self) -> int:
        return len(self._firsts)

    def mark(self, first: int, now: float, oldest: int) -> float:
        """Sets a mark for a number that is assigned now, after all lower ones.

        Args:
            first: The number.
            now: The time, in seconds.
            oldest: The lowest number for which times are still needed.

        Returns:
            The time before which no further mark is needed.
        """
        over = bisect_right(self._firsts, oldest) - 1
        if over > 0:
            del self._firsts[:over], self._times[:over]
        self._firsts.append(first)
        self._times.append(now)
        if len(self._firsts) > _MOST:
            # A number is very old, so its age may be coarser. The last mark stays.
            self._firsts, self._times = self._firsts[::2], self._times[::2]
            self._close = (now - self._times[0]) / (_MOST // 2)
        elif len(self._firsts) < _FEW:
            self._close = _CLOSE
        return now + self._close

    def when(self, number: int) -> float | None:
        """Returns when a number was assigned, at most a twentieth of a second early.

        It is coarser if other numbers are very old. None before the first mark.
        """
        place = bisect_right(self._firsts, number) - 1
        return self._times[place] if place >= 0 else None


def with_states(
    calls: Iterable[UnderWay],
    interface: Interface,
    options: ActorOptions,
    *,
    is_busy: bool = False,
) -> Iterator[UnderWay]:
    """Yields the same calls, with the state running or queued for those in the worker.

    Args:
        calls: Those of one actor, in the order in which they were sent.
        interface: The interface of the actor's class.
        options: The options of the actor, with its limits.
        is_busy: Whether it runs a call that is not among these.
    """
    running = RunningCalls(interface, options, is_busy=is_busy)
    for call in calls:
        if call.state != "sent":
            yield call
            continue
        runs = running.add(call.method, call.headers, gives_way=call.gives_way)
        yield call._replace(state="running" if runs else "queued")


class RunningCalls:
    """Derives which of the unanswered calls in a worker run.

    No frame reports that a call begins. An actor begins calls in the order of their
    arrival, as many as its limits allow, so the unanswered calls show which of them
    run.

    Args:
        interface: The interface of the actor's class.
        options: The options of the actor, with its limits.
        is_busy: Whether it runs a call that is not added.
    """

    def __init__(
        self, interface: Interface, options: ActorOptions, *, is_busy: bool = False
    ) -> None:
        self._interface = interface
        self._limits = options.limits(is_async=interface.is_async)
        self._groups = interface.grouped()
        self._counts: Counter[str] = Counter()
        if is_busy:
            self._counts[MAIN_THREAD] = 1
        # By method and group: often all calls are of one method.
        self._places: dict[tuple[str, str | None], list[tuple[str, int]]] = {}

    def add(
        self,
        method: str,
        headers: Mapping[str, Any] | None,
        *,
        gives_way: bool = False,
    ) -> bool:
        """Adds the next unanswered call; returns whether it runs.

        Args:
            method: The name of the method.
            headers: The headers of the call.
            gives_way: Whether others run beside it.
        """
        group = None if headers is None else headers.get("group")
        places = self._places.get((method, group))
        if places is None:
            places = _places(method, group, self._interface, self._groups, self._limits)
            self._places[method, group] = places
        counts = self._counts
        for place, limit in places:
            if counts[place] >= limit:
                return False
        if not gives_way:
            for place, _ in places:
                counts[place] += 1
        return True


def _places(
    name: str,
    group: str | None,
    interface: Interface,
    groups: Mapping[str, str],
    limits: Mapping[str, int],
) -> list[tuple[str, int]]:
    """Returns the places that a call of a method needs to run, with their capacities.

    Args:
        name: The name of the method.
        group: The group that the caller has named, if any.
        interface: The interface of the actor's class.
        groups: The groups of methods, by their names.
        limits: The capacity of each group.
    """
    group = group or groups.get(name, "")
    method = interface.methods.get(name)
    is_async = method is not None and method.is_async
    places: list[tuple[str, int]] = []
    if limits:
        places.append((f"group {group}", limits[group]))
    elif is_async:
        places.append(("group ", LOOPED_LIMIT))
    if is_async:
        return places
    if not limits or (interface.is_async and not group):
        places.append((MAIN_THREAD, 1))
    elif any(
        interface.methods[name].is_async for name in groups if groups[name] == group
    ):
        places.append((f"the thread of group {group}", 1))
    return places
