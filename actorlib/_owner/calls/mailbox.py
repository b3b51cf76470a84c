"""Decides which calls of one actor are sent to its worker, and which are sent again.

Either all calls wait for the actor to be ready, or all are sent and unanswered. Only
while new calls are held back, some wait beside those that were sent. What happens to a
call when the actor dies depends on that, on whether it ran, and on its retries. Only a
call that may be sent again is kept after it was sent.

Only a call that ran when the process ended costs a retry; see ``Retries``. The others
are sent again for free, but not for ever: after ``MOST_IN_VAIN`` restarts in a row in
which no call was finished, calls fail. Calls with unlimited retries always wait on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from actorlib._owner.calls.call_table import CallTable
from actorlib._wire.messages import CALL, CALL_WITH, Frame

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from actorlib._base.ids import ActorId, CountedId
    from actorlib._core.current_call import Deadline
    from actorlib._options.actor_options import ActorOptions
    from actorlib._owner.calls.call_table import UnderWay
    from actorlib._rows.snapshot import CallState
    from actorlib._shm.memory import Payload
    from actorlib._shm.running_calls import BegunCalls

R = TypeVar("R")

_FOR_THE_OWNER = frozenset({"retries", "mover"})
"""The headers that are not sent."""
MOST_IN_VAIN = 10
"""After so many restarts in a row that finish no call, those that wait fail."""


Listed: TypeAlias = bool | tuple[type[Exception], ...] | None


class Retries(NamedTuple):
    """How often a call may be sent again, and after which failures.

    Attributes:
        times: The number of retries; -1 for any number.
        exceptions: Which exceptions of the method are retried: all, none or these.
    """

    times: int
    exceptions: bool | tuple[type[Exception], ...] = False

    @property
    def depends_on_error(self) -> bool:
        """Whether the exception itself has to be loaded for the decision."""
        return bool(self.times) and not isinstance(self.exceptions, bool)

    def after_error(self, error: BaseException | None) -> Retries | None:
        """Returns what is left after the method has raised; None if the call is over.

        Args:
            error: The exception; needed if ``depends_on_error``.
        """
        exceptions = self.exceptions
        if not isinstance(exceptions, bool):
            exceptions = isinstance(error, exceptions)
        return self._one_less() if exceptions else None

    def after_end(self, *, ran: bool) -> Retries | None:
        """Returns what is left after the worker has ended; None if the call is lost.

        Only a call that ran costs a retry. A call that has not begun is sent again for
        free, and so is one that is over and whose answer was lost.

        Args:
            ran: Whether it ran when the worker ended.
        """
        return self._one_less() if ran else self

    def _one_less(self) -> Retries | None:
        if not self.times:
            return None
        return self._replace(times=self.times - 1) if self.times > 0 else self


def retries_of(
    options: ActorOptions,
    times: int | None = None,
    exceptions: bool | tuple[type[Exception], ...] | None = None,  # noqa: FBT001  # an option
) -> Retries | None:
    """Returns the retries of an actor's calls; None if none is ever sent again.

    A call that may be retried has to be kept until it is answered. So nothing is kept
    if the actor cannot be restarted and exceptions are not retried.

    Args:
        options: The options of the actor.
        times: The number that the call or its method sets; None for the actor's.
        exceptions: The exceptions that the call or its method sets; None for the
            actor's.
    """
    times = options.max_task_retries if times is None else times
    exceptions = options.retried if exceptions is None else exceptions
    if not times or not (options.max_restarts or exceptions):
        return None
    return Retries(times, exceptions)


class CallTerms(NamedTuple):
    """The headers, retries and deadline of one call.

    Attributes:
        headers: The headers that are sent to the worker.
        retries: How often it may be sent again.
        deadline: The time after which it is stopped.
        mover: Returns another actor that may get the call if this one dies; None if
            none may.
    """

    headers: Mapping[str, object] | None
    retries: Retries | None = None
    deadline: Deadline | None = None
    mover: Callable[[], ActorId | None] | None = None


def terms_of(
    headers: Mapping[str, object], usual: CallTerms, options: ActorOptions
) -> CallTerms:
    """Splits the headers of a call into retries, deadline and the rest."""
    deadline = cast("Deadline | None", headers.get("deadline"))
    if _FOR_THE_OWNER.isdisjoint(headers):
        return CallTerms(headers, usual.retries, deadline)
    retries = usual.retries
    if "retries" in headers:
        times, listed = cast("tuple[int | None, Listed]", headers["retries"])
        retries = retries_of(options, times, listed)
    rest = {
        name: value for name, value in headers.items() if name not in _FOR_THE_OWNER
    }
    return CallTerms(rest, retries, deadline, cast("Any", headers.get("mover")))


_NONE = Retries(0)


class Kept(NamedTuple):
    """A call that is kept until it is answered, as it may be sent again.

    Attributes:
        first: The number that it was posted with.
        frame: The frame that is sent.
        retries: How often it may still be sent again, and after what.
        runs_once: Whether it has no retries: it may only be sent again if it has not
            begun.
        mover: Returns another actor that may get it; None if none may.
    """

    first: int
    frame: Frame
    retries: Retries
    runs_once: bool = False
    mover: Callable[[], ActorId | None] | None = None


class Mailbox(Generic[R]):
    """Orders the frames for one actor, and decides which are sent again.

    Attributes:
        calls: The calls without an answer, including those that wait for arguments.
        answerable: The calls that may be answered: the posted ones while the actor is
            ready, including those that are held back, and none otherwise.
        waiting: The frames of calls that wait for the actor or are held back.
        kept: The calls that may be sent again, by their current numbers.
        abandoned: The methods and headers of calls that were sent and have no
            recipient, until the worker has reported their end: a plain method runs on.
        begun: Which calls have begun in the process that ended; None if unknown.
    """

    def __init__(self) -> None:
        self.calls: CallTable[R, str] = CallTable()
        # Either the table's own dict, so that a posted call counts as sent, or empty.
        self.answerable: dict[
            int, tuple[R | None, str, Mapping[str, object] | None]
        ] = {}
        self.waiting: dict[int, Frame] = {}
        self.kept: dict[int, Kept] = {}
        self.abandoned: dict[int, tuple[str, Mapping[str, object] | None]] = {}
        self._is_open = False
        self._is_away = False
        self._is_held = False
        self._renumbered: dict[int, int] = {}
        self.begun: BegunCalls | None = None
        self._deaths_in_vain = 0
        self._over = 0  # the calls that were over at the end of the last process

    def __repr__(self) -> str:
        state = "open" if self._is_open else "away" if self._is_away else "closed"
        return f"<Mailbox {state}, {len(self.waiting)} waiting, {self.under_way} sent>"

    def __len__(self) -> int:
        return len(self.calls.posted)

    def post(
        self,
        target: R,
        method: str,
        borrowed: Collection[CountedId] | None,
        payload: Payload,
        headers: Mapping[str, object] | None = None,
        retries: Retries | None = None,
        mover: Callable[[], ActorId | None] | None = None,
    ) -> tuple[int, Frame | None]:
        """Adds a call; returns its number, and its frame if that may be sent now.

        While the actor restarts, a call waits if it may be sent again. Any other call
        is refused with the number 0.
        """
        if self._is_away and retries is None:
            return 0, None
        number = self.calls.begin(target, method, headers)
        frame: Frame = (CALL, number, method, borrowed, payload)
        if headers:
            frame = (CALL_WITH, number, method, borrowed, headers, payload)
        if retries is not None:
            self.kept[number] = Kept(number, frame, retries, mover=mover)
        elif mover is not None:
            self.kept[number] = Kept(number, frame, _NONE, runs_once=True, mover=mover)
        if self._is_open and not self._is_held:
            return number, frame
        self.waiting[number] = frame
        return number, None

    def opened(self) -> list[Frame]:
        """Notes that the actor is ready; returns the frames to send, in order."""
        self._is_open = True
        self._is_away = False
        self.begun = None
        self.answerable = self.calls.posted
        return self._take_waiting()

    def hold(self) -> None:
        """Holds back the calls that are posted from now on."""
        self._is_held = True

    def let_go(self) -> list[Frame]:
        """Ends ``hold``; returns the frames to send, in order."""
        self._is_held = False
        return self._take_waiting() if self._is_open else []

    def _take_waiting(self) -> list[Frame]:
        frames = list(self.waiting.values())
        self.waiting = {}
        return frames

    @property
    def under_way(self) -> int:
        """The number of calls that were sent and have no answer."""
        return len(self.answerable) - len(self.waiting) if self._is_open else 0

    def settle(self, number: int) -> R | None:
        """Removes an answered call; returns its recipient, or None if it has none."""
        return self.calls.drop(number) if number in self.answerable else None

    def drop(self, number: int) -> Frame | None:
        """Forgets a call; returns its frame if that is still here, sent or not."""
        number = self.current(number)
        waits = self.waiting.pop(number, None)
        if number in self.calls.posted:
            self._over += 1
            if waits is None and number in self.answerable:
                self.abandoned[number] = self.answerable[number][1:]
        self.calls.drop(number)
        frame = self.release(number)
        return frame if waits is None else waits

    def was_sent(self, number: int) -> bool:
        return self._is_sent(self.current(number))

    def _is_sent(self, number: int) -> bool:
        return number in self.answerable and number not in self.waiting

    def sent_calls(
        self,
    ) -> Iterator[tuple[int, R, str, Mapping[str, object] | None]]:
        """Yields the calls that were sent, the oldest first.

        For each: its number, recipient, method and headers.
        """
        for number, (target, method, headers) in self.answerable.items():
            if target is not None and number not in self.waiting:
                yield number, target, method, headers

    def unanswered(self, most: int | None = None) -> Iterator[UnderWay]:
        return self.calls.unanswered(most, self._describe)

    def _describe(self, number: int, method: str) -> tuple[str, CallState]:
        is_sent = self._is_open and number not in self.waiting
        return method, "sent" if is_sent else "pending_actor"

    def borrowing(self) -> Iterator[tuple[str, Collection[CountedId]]]:
        """Yields the calls whose arguments are here, with their borrowed references.

        The arguments of a call that was sent and cannot be sent again belong to the
        worker.
        """
        frames = {number: call.frame for number, call in self.kept.items()}
        for frame in (frames | self.waiting).values():
            if frame[3]:
                yield frame[2], frame[3]

    # Calls that are sent again.

    def current(self, number: int) -> int:
        """Returns the current number of a call from the one that it was posted with."""
        return self._renumbered.get(number, number)

    def again(self, number: int, retries: Retries) -> Frame | None:
        """Returns the frame of a failed call that is sent again, or None if it is lost.

        It gets a new number behind all calls that were sent meanwhile.
        """
        call = self.kept.get(number)
        if call is None or number not in self.answerable:
            return None
        self.release(number)
        new_number = self.calls.renumber(number)
        frame = (call.frame[0], new_number, *call.frame[2:])
        self._renumbered[call.first] = new_number
        self.kept[new_number] = call._replace(frame=frame, retries=retries)
        return frame

    def release(self, number: int) -> Frame | None:
        """Keeps a call no longer; returns its frame if it was kept."""
        call = self.kept.pop(number, None)
        if call is None:
            return None
        self._renumbered.pop(call.first, None)
        return call.frame

    @property
    def survives_restart(self) -> bool:
        """Whether a call would wait for the actor if it died and was restarted."""
        retries = map(self._retries_left, self.kept)
        return bool(self.waiting) or any(one is not None for one in retries)

    # The end of a process.

    def note_begun(self, begun: BegunCalls | None) -> None:
        """Notes which calls had begun when the process ended; None if unknown."""
        self.begun = begun
        is_in_vain = self.calls.made - len(self) == self._over
        self._deaths_in_vain = self._deaths_in_vain + 1 if is_in_vain else 0
        if None in map(self._retries_left, filter(self._ran, self.kept)):
            self._deaths_in_vain = 0  # a call has used up its retries

    def _ran(self, number: int) -> bool:
        """Whether a call ran when the process ended, as far as that is known."""
        begun = self.begun
        return self._is_sent(number) and (begun is None or begun.runs(number))

    def _may_have_begun(self, number: int) -> bool:
        begun = self.begun
        return self._is_sent(number) and (begun is None or begun.may_have_begun(number))

    def movable(self) -> list[int]:
        """Lists the calls that another actor may get, after the end of the process."""
        return [
            number
            for number, call in self.kept.items()
            if call.mover is not None and self._retries_left(number) is not None
        ]

    def moved(self, number: int) -> None:
        self.waiting.pop(number, None)
        self.calls.drop(number)
        self.release(number)

    def left_of(self, number: int) -> Retries | None:
        """Returns the retries that a movable call keeps; None if it never had any."""
        is_once = self.kept[number].runs_once
        return None if is_once else self._retries_left(number)

    def _retries_left(self, number: int) -> Retries | None:
        """Returns the retries of a kept call after the end of the process, or None."""
        call, ran = self.kept[number], self._ran(number)
        if call.runs_once and self._may_have_begun(number):
            return None
        is_in_vain = self._deaths_in_vain > MOST_IN_VAIN and call.retries.times >= 0
        return None if is_in_vain and not ran else call.retries.after_end(ran=ran)

    def interrupted(self) -> tuple[list[R], list[Frame]]:
        """Decides the calls of an actor that died and is restarted.

        The calls that may be sent again keep their order, before those that wait.

        Returns:
            The recipients that get no answer, and the frames that are no longer kept.
        """
        lost: list[R] = []
        frames: list[Frame] = []
        again: dict[int, Frame] = {}
        for number in list(self.calls.posted):
            call = self.kept.get(number)
            waits = number in self.waiting
            if call is None and waits:
                continue
            retries = None if call is None else self._retries_left(number)
            if call is not None and retries is not None:
                self.kept[number] = call._replace(retries=retries)
                if not waits:
                    again[number] = call.frame
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
        self._over = self.calls.made - len(self)
        return lost, frames

    def closed(self) -> tuple[list[R], list[Frame]]:
        """Removes all calls of an actor that is gone for good.

        Returns:
            The recipients that get no answer, and the frames that are still here, sent
            or not.
        """
        frames = [k.frame for number, k in self.kept.items() if self.was_sent(number)]
        frames += self.waiting.values()
        self.answerable, self.waiting, self.kept, self._renumbered = {}, {}, {}, {}
        self.abandoned.clear()
        self._is_open = self._is_away = self._is_held = False
        return self.calls.clear(), frames
