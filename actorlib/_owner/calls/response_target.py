"""Calls that await answers: their deadlines, and the delivery of the answers.

A caller is the owner's own code, or a worker. The callee is an actor, which runs its
calls in order, or a function, which several workers run: ``CallRouter`` and
``TaskPool`` route the calls. What is here serves both.
"""

from __future__ import annotations

import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
)

from actorlib._base.deadlines import Deadlines
from actorlib._futures.object_ref import ObjectRef
from actorlib._futures.stream_reader import StreamReader
from actorlib._loops.loop_thread import call_soon_on
from actorlib._owner.objects.refcount import OWNER, passing
from actorlib._wire.call_headers import late_error
from actorlib._wire.errors import exception_of, fill_future
from actorlib._wire.messages import CANCELLED, FAILURE, RAISED, Frame
from actorlib.exceptions import ActorDiedError, ActorUnavailableError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from actorlib._core.current_call import Deadline
    from actorlib._owner.calls.call_table import CallTable
    from actorlib._owner.calls.mailbox import Retries
    from actorlib._owner.objects.objects import ObjectTable
    from actorlib._owner.objects.refcount import BorrowedReferences


K = TypeVar("K", bound=Hashable)
W = TypeVar("W")


class RemoteTarget(Protocol):
    """Receives an answer as a frame to forward: a worker that waits for it."""

    def answer(self, frame: Frame) -> None: ...

    def fail(self, error: BaseException) -> None:
        """Answers the worker with an error."""
        ...


ResponseTarget: TypeAlias = (
    ObjectRef[Any] | weakref.ref[ObjectRef[Any]] | StreamReader | RemoteTarget
)
"""The recipient of an answer."""

_IN_OWNER = (ObjectRef, weakref.ref, StreamReader)
IS_CANCELLED: Frame = (FAILURE, 0, CANCELLED, "", "", "", None, b"")


class CancelledTarget:
    """Reports the end of a cancelled call to the caller that cancelled it.

    Attributes:
        target: The caller.
    """

    __slots__ = ("_drop", "target")

    def __init__(self, target: ResponseTarget, drop: Callable[[Frame], None]) -> None:
        self.target = target
        self._drop = drop

    def answer(self, frame: Frame) -> None:
        self._drop(frame)
        self._report_end()

    def fail(self, error: BaseException) -> None:
        del error  # the caller that cancelled it needs no reason
        self._report_end()

    def _report_end(self) -> None:
        target = self.target
        ref = target() if isinstance(target, weakref.ref) else target
        if isinstance(ref, ObjectRef):
            if not ref.done():
                ref.set_cancelled()
        elif ref is not None and not isinstance(ref, StreamReader):
            ref.answer(IS_CANCELLED)


class Timed(NamedTuple):
    """A call with a deadline.

    Attributes:
        method: The name of the method or function.
        deadline: The end of its time.
    """

    method: str
    deadline: Deadline

    @property
    def is_over(self) -> bool:
        return self.deadline[0] <= time.monotonic()


class Clock:
    """Watches the deadlines of all calls of a runtime by one timer.

    The timer is set for the earliest deadline, and not set again when that call is
    answered: then it only determines the next deadline.

    Of two calls with the same deadline, the one that was made first is stopped first: a
    call before the calls that it made, which have inherited its deadline.

    Attributes:
        loop: The loop of the timer.
        now: Returns the time of the loop, in seconds.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.now: Callable[[], float] = loop.time
        self._deadlines: Deadlines[tuple[Timekeeper[Any], Hashable]] = Deadlines()
        self._timer: asyncio.TimerHandle | None = None
        self._set_for = 0.0

    def add(self, keeper: Timekeeper[K], call: K, when: float) -> None:
        self._deadlines.add((keeper, call), when)
        if self._timer is None or when < self._set_for:
            self._set(when)

    def discard(self, keeper: Timekeeper[K], call: K) -> None:
        self._deadlines.discard((keeper, call))

    def stop_if_idle(self) -> None:
        if self._timer is not None and not self._deadlines.live:
            self._timer.cancel()
            self._timer = None

    def _set(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        after = max(0.0, when - time.monotonic())
        self._set_for = when
        self._timer = self.loop.call_later(after, self._check)

    def _check(self) -> None:
        self._timer = None
        for keeper, call in self._deadlines.due(time.monotonic()):
            keeper.is_due(call)
        when = self._deadlines.next()
        if when is not None and self._timer is None:
            self._set(when)


class Timekeeper(Generic[K]):
    """Keeps the deadlines of the unanswered calls of one table.

    Attributes:
        calls: The calls that have a deadline.
    """

    def __init__(self, clock: Clock, over: Callable[[K, Timed], None]) -> None:
        self.calls: dict[K, Timed] = {}
        self._clock = clock
        self._over = over

    def add(self, call: K, method: str, deadline: Deadline) -> None:
        self.calls[call] = Timed(method, deadline)
        self._clock.add(self, call, deadline[0])

    def discard(self, call: K) -> None:
        """Forgets a call, if it has a deadline."""
        if self.calls.pop(call, None) is not None:
            self._clock.discard(self, call)

    def rename(self, call: K, name: K) -> None:
        timed = self.calls.get(call)
        if timed is not None:
            self.discard(call)
            self.add(name, *timed)

    def keep(self, wanted: Callable[[K], bool]) -> None:
        """Forgets all calls except those that are wanted."""
        for call in [call for call in self.calls if not wanted(call)]:
            self.discard(call)
        self._clock.stop_if_idle()

    def is_due(self, call: K) -> None:
        """Reports a call whose time is over, unless another call's end has ended it."""
        timed = self.calls.pop(call, None)
        if timed is not None:
            self._over(call, timed)


class UnansweredCalls(ABC, Generic[W]):
    """Serves the refs and streams of the calls of one actor, or of all functions.

    It implements StreamOwner and ResultOwner, whose operations are described there.

    Attributes:
        calls: The table of the calls.
    """

    def __init__(
        self, calls: CallTable[ResponseTarget, W], clock: Clock, objects: ObjectTable
    ) -> None:
        self.calls = calls
        self._timekeeper: Timekeeper[int] = Timekeeper(clock, self._time_out)
        self._timed = self._timekeeper.calls  # looked up for every answer
        self._now = clock.now
        self._loop = clock.loop
        self._thread = threading.get_ident()
        self.watch = objects.watch
        self.name = objects.name
        self.travel = objects.travel

    def cancel(self, call: int, *, recursive: bool = True) -> bool:
        self.drop(call, recursive=recursive)
        return False

    def interrupt(self, call: int, *, recursive: bool = True) -> bool:
        return self.cancel(call, recursive=recursive)

    @abstractmethod
    def drop(self, call: int, *, recursive: bool) -> None:
        """Stops a call that has no caller."""

    @abstractmethod
    def acknowledge(self, call: int, count: int) -> None:
        """Reports the number of items that were taken from a stream to the worker."""

    @abstractmethod
    def label_of(self, call: int) -> str:
        """Returns the name of a call in messages; empty if it is over."""

    @abstractmethod
    def where(self, label: str) -> str:
        """Returns the name of a callee in messages from the label of its calls."""

    def current(self, call: int) -> int:
        """Returns the current number of a call from the one that it was made with."""
        return call

    def defer(
        self,
        ref: ObjectRef[Any] | StreamReader,
        label: str,
        headers: Mapping[str, object] | None = None,
    ) -> int:
        """Adds a call that waits for its arguments; returns its number."""
        number = self.calls.defer(ref, label, self._now())
        if headers is not None:
            self.set_deadline(number, label, headers)
        return number

    def take_deferred(self, number: int) -> ObjectRef[Any] | StreamReader | None:
        """Removes a call that has its arguments; returns its recipient or None."""
        if self._timed:
            self._timekeeper.discard(number)
        return awaited(self.calls.take(number))

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        call = ref.call

        def gone(_: object) -> None:
            # A destructor may run anywhere, even in the middle of a write.
            call_soon_on(self._loop, partial(self.cancel, call))

        number = self.current(call)
        if isinstance(self.calls.target(number), ObjectRef):
            self.calls.replace(number, weakref.ref(ref, gone))

    # Streams that the owner's own code reads, on any thread.

    def taken(self, number: int, count: int) -> None:
        if threading.get_ident() == self._thread:
            self.acknowledge(number, count)
        else:
            self._loop.call_soon_threadsafe(self.acknowledge, number, count)

    def later(self, callback: Callable[[], None]) -> None:
        call_soon_on(self._loop, callback)

    # Deadlines.

    def set_deadline(
        self, number: int, label: str, headers: Mapping[str, object]
    ) -> None:
        """Watches the deadline of a call, if its headers have one."""
        if "deadline" in headers:
            deadline = cast("Deadline", headers["deadline"])
            self._timekeeper.add(number, label, deadline)

    def _time_out(self, number: int, timed: Timed) -> None:
        """Stops a call whose time is over.

        The calls that it made inherit its deadline.
        """
        target = self.calls.target(number)
        self.drop(number, recursive=False)
        give_error(target, late_error(self.where(timed.method), timed.deadline))

    def is_late(self, number: int) -> bool:
        """Whether an answer came after the deadline, before the timer has fired.

        Then the caller gets an error instead, and the call has no recipient.
        """
        timed = self._timed.get(number)
        if timed is None or not timed.is_over:
            return False
        self._timekeeper.discard(number)
        target = self.calls.abandon(number)
        give_error(target, late_error(self.where(timed.method), timed.deadline))
        return True


def awaited(target: ResponseTarget | None) -> ObjectRef[Any] | StreamReader | None:
    """Returns the ref or the reader that still waits in this process, or None."""
    ref = target() if isinstance(target, weakref.ref) else target
    if isinstance(ref, ObjectRef | StreamReader) and not ref.done():
        return ref
    return None


def give_answer(
    target: ResponseTarget | None, frame: Frame, references: BorrowedReferences
) -> None:
    """Delivers an answer; without a recipient its borrowed references are returned."""
    borrowed = frame[-2]
    if type(target) is ObjectRef and borrowed is None:  # the usual case
        if not target.done():
            fill_future(target, frame)
    elif target is not None and not isinstance(target, _IN_OWNER):
        target.answer(frame)  # it counts the references for the worker
    elif borrowed:
        with passing(references, borrowed, OWNER):
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
    """Delivers an error to the recipient of an answer, if it still waits.

    Args:
        target: The recipient.
        error: Each recipient needs an error of its own: an error keeps the frames that
            it was raised through.
        is_known: Whether the error is not reported if no caller awaits the ref.
    """
    if target is not None and not isinstance(target, _IN_OWNER):
        target.fail(error)
        return
    ref = awaited(target)
    if ref is not None:
        ref.set_exception(error)
        if is_known or _was_asked_for(error):
            ref.exception()  # marks it as seen


def _was_asked_for(error: BaseException) -> bool:
    """Whether a caller ended the actor on purpose, and so knows the reason."""
    if not isinstance(error, ActorDiedError | ActorUnavailableError):
        return False
    return error.exit.cause in ("asked", "restarted")


def retries_after(
    retries: Retries, answer: Frame, references: BorrowedReferences
) -> Retries | None:
    """Returns the retries of a call that is sent again after an answer, or None."""
    if answer[0] != FAILURE or answer[2] != RAISED or not retries.exceptions:
        return None
    if not retries.depends_on_error:
        return retries.after_error(None)
    _, _, kind, summary, text, where, borrowed, payload = answer
    with passing(references, borrowed, OWNER):
        error = exception_of(kind, summary, text, where, payload)
    return retries.after_error(error)
