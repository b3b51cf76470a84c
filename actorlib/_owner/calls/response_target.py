"""Calls that await answers, and the delivery of answers to the callers.

A caller is the owner's own code, or a worker. The callee is an actor, which runs its
calls in order, or a function, which several workers run: ``CallRouter`` and
``TaskPool`` route the calls. What is here serves both.
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
    """Delivers an answer; without a recipient its borrowed references are returned.

    Args:
        target: The recipient.
        frame: The answer.
        references: Counts the borrowed references in it.
    """
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
    """Returns the retries of a call that is sent again after an answer, or None.

    Args:
        retries: The retries so far.
        answer: The answer.
        references: Counts the borrowed references in it, as it may have to be loaded.
    """
    if answer[0] != FAILURE or answer[2] != RAISED or not retries.exceptions:
        return None
    if not retries.depends_on_error:
        return retries.after_error(None)
    _, _, kind, summary, text, where, borrowed, payload = answer
    with passing(references, borrowed, OWNER):
        error = exception_of(kind, summary, text, where, payload)
    return retries.after_error(error)
