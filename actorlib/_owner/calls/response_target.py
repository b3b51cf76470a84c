"""Keeps calls that await answers, and gives those to the callers.

A caller is the owner's own code, or a worker. What is called is an actor, which runs
the calls in order, or a function, which any of several workers runs: ``CallRouter``
and ``TaskPool`` say where a call goes. What is here holds for both.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, cast

from actorlib._futures.object_ref import ObjectRef
from actorlib._futures.stream_reader import StreamReader
from actorlib._loops.loop_thread import call_soon_on
from actorlib._owner.calls.deadlines import Timekeeper
from actorlib._owner.objects.refcount import OWNER, passing
from actorlib._wire.call_headers import late_error
from actorlib._wire.errors import exception_of, fill_future
from actorlib._wire.messages import CANCELLED, FAILURE, RAISED, Frame
from actorlib.exceptions import ActorDiedError, ActorUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._core.current_call import Deadline
    from actorlib._owner.calls.call_policy import Retries
    from actorlib._owner.calls.call_table import CallTable
    from actorlib._owner.calls.deadlines import Clock, Timed
    from actorlib._owner.objects.objects import ObjectTable
    from actorlib._owner.objects.refcount import BorrowedReferences


W = TypeVar("W")


class RemoteTarget(Protocol):
    """Receives an answer as a frame, to pass it on: a worker that waits for it."""

    def answer(self, frame: Frame) -> None:
        """Passes the answer on."""
        ...

    def fail(self, error: BaseException) -> None:
        """Tells that there will be none."""
        ...


ResponseTarget: TypeAlias = (
    ObjectRef[Any] | weakref.ref[ObjectRef[Any]] | StreamReader | RemoteTarget
)
"""Whoever wants the answer of a call."""

_IN_OWNER = (ObjectRef, weakref.ref, StreamReader)
IS_CANCELLED: Frame = (FAILURE, 0, CANCELLED, "", "", "", None, b"")


class CancelledTarget:
    """Tells whoever has cancelled a call when the call has ended.

    Args:
        target: Who made the call and cancelled it.
        drop: Gives back what is in an answer that nobody wants.

    Attributes:
        target: See above.
    """

    __slots__ = ("_drop", "target")

    def __init__(self, target: ResponseTarget, drop: Callable[[Frame], None]) -> None:
        self.target = target
        self._drop = drop

    def answer(self, frame: Frame) -> None:
        """Tells that the call has ended, in whatever way; see RemoteTarget."""
        self._drop(frame)
        self._tell()

    def fail(self, error: BaseException) -> None:
        """Tells that the call has ended with its actor; see RemoteTarget."""
        del error  # whoever cancelled it knows enough
        self._tell()

    def _tell(self) -> None:
        target = self.target
        ref = target() if isinstance(target, weakref.ref) else target
        if isinstance(ref, ObjectRef):
            if not ref.done():
                ref.set_cancelled()
        elif ref is not None and not isinstance(ref, StreamReader):
            ref.answer(IS_CANCELLED)


class UnansweredCalls(ABC, Generic[W]):
    """Keeps the calls of one actor, or of all functions; see StreamOwner.

    Args:
        calls: The table that they are in.
        clock: Says when a deadline is over.
        objects: Serves refs, as far as it is the same for all of them.

    Attributes:
        calls: The calls without an answer.
    """

    def __init__(
        self, calls: CallTable[ResponseTarget, W], clock: Clock, objects: ObjectTable
    ) -> None:
        self.calls = calls
        self._timekeeper: Timekeeper[int] = Timekeeper(clock, self._time_out)
        self._timed = self._timekeeper.calls  # at hand for every answer
        self._now = clock.now
        self._loop = clock.loop
        self._thread = threading.get_ident()
        self.watch = objects.watch
        self.name = objects.name
        self.travel = objects.travel

    def cancel(self, call: int, *, recursive: bool = True) -> bool:
        """Stops a call; see ResultOwner."""
        self.drop(call, recursive=recursive)
        return False

    def interrupt(self, call: int, *, recursive: bool = True) -> bool:
        """Stops a call wherever it is; see ResultOwner."""
        return self.cancel(call, recursive=recursive)

    @abstractmethod
    def drop(self, call: int, *, recursive: bool) -> None:
        """Stops a call that has no caller any more."""

    @abstractmethod
    def acknowledge(self, call: int, count: int) -> None:
        """Tells the worker how many items of a stream were taken."""

    @abstractmethod
    def label_of(self, call: int) -> str:
        """Names a call in messages; empty if it is over."""

    @abstractmethod
    def where(self, label: str) -> str:
        """Names what is called in messages, from how calls name it."""

    def current(self, call: int) -> int:
        """The number that a call has now, from the one that it was made with."""
        return call

    def defer(
        self,
        ref: ObjectRef[Any] | StreamReader,
        label: str,
        headers: Mapping[str, object] | None = None,
    ) -> int:
        """Keeps the place of a call that waits for its arguments; gives its number."""
        number = self.calls.defer(ref, label, self._now())
        if headers is not None:
            self.set_deadline(number, label, headers)
        return number

    def take_deferred(self, number: int) -> ObjectRef[Any] | StreamReader | None:
        """The arguments are there: who wants the answer, or None if it is cancelled."""
        if self._timed:
            self._timekeeper.discard(number)
        return awaited(self.calls.take(number))

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """Cancels the call as soon as nobody holds the ref; see ResultOwner."""
        call = ref.call

        def gone(_: object) -> None:
            # A destructor may run anywhere, also in the middle of a write.
            call_soon_on(self._loop, partial(self.cancel, call))

        number = self.current(call)
        if isinstance(self.calls.target(number), ObjectRef):
            self.calls.replace(number, weakref.ref(ref, gone))

    # Streams that the owner's own code reads, on any thread.

    def taken(self, number: int, count: int) -> None:
        """Tells the worker how many items of a stream were taken; see StreamOwner."""
        if threading.get_ident() == self._thread:
            self.acknowledge(number, count)
        else:
            self._loop.call_soon_threadsafe(self.acknowledge, number, count)

    def later(self, callback: Callable[[], None]) -> None:
        """Calls back from the loop; see StreamOwner."""
        call_soon_on(self._loop, callback)

    # Deadlines.

    def set_deadline(
        self, number: int, label: str, headers: Mapping[str, object]
    ) -> None:
        """Stops a call when its time is over, if its headers say when that is."""
        if "deadline" in headers:
            deadline = cast("Deadline", headers["deadline"])
            self._timekeeper.add(number, label, deadline)

    def _time_out(self, number: int, timed: Timed) -> None:
        """Stops a call whose time is over; what it made has inherited that."""
        target = self.calls.target(number)
        self.drop(number, recursive=False)
        give_error(target, late_error(self.where(timed.method), timed.deadline))

    def is_late(self, number: int) -> bool:
        """Whether an answer came too late, before the timer could say so.

        Then the caller has got an error instead, and the call is for nobody.
        """
        timed = self._timed.get(number)
        if timed is None or not timed.is_over:
            return False
        self._timekeeper.discard(number)
        target = self.calls.abandon(number)
        give_error(target, late_error(self.where(timed.method), timed.deadline))
        return True


def awaited(target: ResponseTarget | None) -> ObjectRef[Any] | StreamReader | None:
    """The ref or the reader that still waits in this process; None if none does."""
    ref = target() if isinstance(target, weakref.ref) else target
    if isinstance(ref, ObjectRef | StreamReader) and not ref.done():
        return ref
    return None


def give_answer(
    target: ResponseTarget | None, frame: Frame, counted: BorrowedReferences
) -> None:
    """Gives an answer to whoever wants it; what it brought is dropped if nobody does.

    Args:
        target: Who wants it.
        frame: The answer.
        counted: Where the handles in it are counted.
    """
    loans = frame[-2]
    if type(target) is ObjectRef and loans is None:  # the usual case
        if not target.done():
            fill_future(target, frame)
    elif target is not None and not isinstance(target, _IN_OWNER):
        target.answer(frame)  # the handles are counted for the worker
    elif loans:
        with passing(counted, loans, OWNER):
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
    """Gives an error to whoever wants an answer, if somebody still does.

    Args:
        target: Who wants it.
        error: Why there is none. Each target needs an error of its own: it keeps the
            frames that it was raised through.
        is_known: Whether it is not to be reported where nobody awaits the ref.
    """
    if target is not None and not isinstance(target, _IN_OWNER):
        target.fail(error)
        return
    ref = awaited(target)
    if ref is not None:
        ref.set_exception(error)
        if is_known or _was_asked_for(error):
            ref.exception()  # which marks it as seen


def _was_asked_for(error: BaseException) -> bool:
    """Whether somebody ended the actor on purpose, and so knows why."""
    if not isinstance(error, ActorDiedError | ActorUnavailableError):
        return False
    return error.exit.cause in ("asked", "restarted")


def retries_after(
    retries: Retries, answer: Frame, counted: BorrowedReferences
) -> Retries | None:
    """What a call has left that is sent again after an answer; None if it is not.

    Args:
        retries: What it had left.
        answer: The answer.
        counted: Where the handles in it are counted, as it may have to be loaded.
    """
    if answer[0] != FAILURE or answer[2] != RAISED or not retries.exceptions:
        return None
    if not retries.depends_on_error:
        return retries.after_error(None)
    _, _, kind, summary, text, where, loans, payload = answer
    with passing(counted, loans, OWNER):
        error = exception_of(kind, summary, text, where, payload)
    return retries.after_error(error)
