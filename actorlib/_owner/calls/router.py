"""The way to one worker and back: calls in order, answers and items.

An answer to the owner's own call fills an ``ObjectRef``, and an item of a stream a
``StreamReader``. Answers to a worker's call are forwarded without being decoded.

The number of taken items is reported only in response to an item, so an actor receives
reports only for streams that it knows. An actor that was ended (``end``, or the end of
its block) first finishes the calls that it was sent. A stream that is not read would
keep it alive for ever. So such a stream is stopped if no item was taken for a while.
The worker knows which streams these are.
"""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from actorlib._base.ids import LINKED
from actorlib._core.engine import CallQueue
from actorlib._futures.object_ref import IMMUTABLE, ObjectRef
from actorlib._futures.stream_reader import StreamReader
from actorlib._loops.loop_thread import block
from actorlib._owner.calls.call_table import RunningCalls
from actorlib._owner.calls.link_callers import LinkCallers
from actorlib._owner.calls.mailbox import CallTerms, Mailbox, retries_of, terms_of
from actorlib._owner.calls.response_target import (
    CancelledTarget,
    ResponseTarget,
    UnansweredCalls,
    awaited,
    give_answer,
    give_error,
    retries_after,
)
from actorlib._owner.objects.refcount import OWNER, UnsentResults, passing
from actorlib._owner.teardown import tear_down
from actorlib._shm.running_calls import MARK, read_begun
from actorlib._wire.codec import pack
from actorlib._wire.errors import fail_to_load, kept_with, load_result
from actorlib._wire.forkserver_protocol import INTERRUPT_SIGNAL
from actorlib._wire.messages import (
    CALL,
    CALL_SCALARS,
    CALL_WITH,
    CANCEL,
    NOTE_CALLS,
    RESULT,
    STREAM_ACK,
    STREAM_EXPIRE,
    Frame,
)
from actorlib._wire.serialization import decode, encode, encode_call
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from actorlib._base.ids import ActorId, CountedId
    from actorlib._futures.object_ref import KeptValue
    from actorlib._owner.actors.actor_record import ActorRecord
    from actorlib._owner.actors.worker_session import CancelChildren, WorkerSession
    from actorlib._owner.calls.call_table import UnderWay
    from actorlib._owner.calls.response_target import Clock
    from actorlib._owner.objects.objects import ObjectTable
    from actorlib._owner.objects.refcount import BorrowedReferences
    from actorlib._shm.memory import Payload
    from actorlib._wire.async_channel import AsyncChannel


_UNSENT_DELAY = 0.005
"""Seconds after which the signal is sent again that came before unsent frames."""
_LEAST_PATIENCE = 0.05
_MOST_ASKED = 1000
"""Of how many calls is asked whether they ran when a process ended: the oldest."""


class WorkerRoute(ABC):
    """Sends calls to one worker, and receives its answers.

    A ``CallRouter`` has the calls of an actor. A ``TaskWorker`` has some of the calls
    of functions, which belong to the pool.

    Args:
        record: The record of its actor.
        loop: The owner's loop.
        when_idle: Called when the worker has sent all values that it has to send.

    Attributes:
        channel: The pipe to the worker; None while it takes no calls.
        unsent: The refs that it has sent and whose values it has not sent yet.
        is_closed: Whether new calls are refused.
        output_label: Returns the name that output is shown behind now; None if that is
            fixed.
    """

    output_label: Callable[[], str] | None = None
    _cancel_children: CancelChildren | None = None

    def __init__(
        self,
        record: ActorRecord,
        loop: asyncio.AbstractEventLoop,
        when_idle: Callable[[], None],
    ) -> None:
        self._record = record
        self._loop = loop
        self._is_waking = False
        self.channel: AsyncChannel | None = None
        self.unsent = UnsentResults(when_idle)
        self.is_closed = False
        self._session = OWNER

    @property
    def session(self) -> int:
        """The number of the session that calls are sent to; 0 while there is none."""
        return 0 if self.channel is None else self._session

    def tell(self, frame: Frame) -> None:
        """Sends a frame that is not a call, if the worker is ready for calls."""
        if self.channel is not None:
            self.channel.send(frame)

    def cancel_children(self, number: int, *, by_force: bool = False) -> None:
        """Cancels the calls that one of its calls has made, and the calls of those."""
        if self._cancel_children is not None:
            self._cancel_children(self._session, number, by_force=by_force)

    def wake_worker(self) -> None:
        """Has the worker read its pipe, even while the user's code runs there.

        The signal follows the frames that this turn of the loop gathers.
        """
        if not self._is_waking:
            self._is_waking = True
            self._loop.call_soon(self._send_signal)

    def _send_signal(self) -> None:
        self._is_waking = False
        channel, pid = self.channel, self._record.pid
        # A worker that is a thread of this process gets no signal.
        if channel is None or pid in (0, os.getpid()):
            return
        with suppress(ProcessLookupError):
            os.kill(pid, INTERRUPT_SIGNAL)
            if channel.unsent:
                self._is_waking = True
                self._loop.call_later(_UNSENT_DELAY, self._send_signal)

    def close(self) -> None:
        """Refuses new calls. Calls that were sent go on."""
        self.is_closed = True

    def drain(self) -> None:
        """Refuses new calls and retries, as the worker was asked to end."""
        self.close()

    # Answers of the worker.

    @abstractmethod
    def settle(self, frame: Frame) -> None:
        """Delivers an answer to the caller, or sends the call again."""

    @abstractmethod
    def settle_scalar(self, number: int, value: object) -> None:
        """Delivers an answer whose value is in its frame; see ``settle``."""

    @abstractmethod
    def item(self, frame: Frame) -> None:
        """Delivers an item to the reader of a stream; drops it if there is no reader.

        Raises:
            ProtocolError: The call is not a stream.
        """

    # Starts and ends of the worker.

    def opened(self, session: WorkerSession) -> None:
        """Sends the calls that waited, as the worker is ready."""
        self.channel, self._session = session.channel, session.number
        self._cancel_children = session.cancel_children

    def interrupted(self) -> None:
        """Handles the end of a worker that is restarted."""
        self.channel = None

    def over(self) -> None:
        """Handles the end of a worker that is gone for good."""
        self.close()
        self.channel = None

    @abstractmethod
    def note_cells(self, cells: Sequence[int]) -> None:
        """Reads what the ended process has noted of its calls.

        Args:
            cells: See ``running_calls``; empty if there are none.
        """

    @abstractmethod
    def is_over(self) -> bool:
        """Whether no call waits; asks the worker if only it knows that."""

    @property
    def survives_restart(self) -> bool:
        """Whether a call would wait for the worker if it died and was restarted."""
        return False

    # Its calls.

    @abstractmethod
    def method_of(self, number: int) -> str | None:
        """Returns the method of a call that was sent and has no answer."""

    @abstractmethod
    def under_way(self) -> tuple[str, ...] | None:
        """Returns the methods that may have run when the process ended, or None."""


class CallRouter(UnansweredCalls[str], WorkerRoute):
    """Routes the calls of one actor.

    Args:
        references: Counts the borrowed references in arguments and results.
        objects: Names the objects of refs that are sent inside of values.
        clock: Watches the deadlines.
        record: The record of the actor.
        died: Makes the error of a call that gets no answer.
        unavailable: Makes the error of a call that is lost while the actor restarts.
        idle: Called when the last unanswered call was answered.
        find_router: Returns the router of another actor; None if that is unknown.

    Attributes:
        notes_calls: Whether the worker notes which calls run, if it was asked to.
    """

    def __init__(
        self,
        references: BorrowedReferences,
        objects: ObjectTable,
        clock: Clock,
        record: ActorRecord,
        died: Callable[[], BaseException],
        unavailable: Callable[[], BaseException],
        idle: Callable[[], None],
        find_router: Callable[[ActorId], CallRouter | None] = lambda _: None,
    ) -> None:
        self._mailbox: Mailbox[ResponseTarget] = Mailbox()
        super().__init__(self._mailbox.calls, clock, objects)
        WorkerRoute.__init__(self, record, clock.loop, self._report_idle)
        self._find_router = find_router
        self._references = references
        self._died = died
        self._unavailable = unavailable
        self._idle = idle
        # The terms of a call without headers.
        self._usual_terms = CallTerms(None, retries_of(record.options))
        # The channel while each call is sent at once and only once; None while a call
        # may have to be kept or refused. So one check recognizes the usual call.
        self._usual_channel: AsyncChannel | None = None
        self._callers: LinkCallers | None = None
        self.notes_calls = True
        self._is_noting = False
        self._is_draining = False
        self._is_held = False

    @property
    def callers(self) -> LinkCallers:
        """The workers that call it over links; most actors have none."""
        if self._callers is None:
            self._callers = LinkCallers(self._references, self.unsent, self.tell)
        return self._callers

    @property
    def is_idle(self) -> bool:
        """Whether no call waits, for its arguments or for its answer."""
        return not (self.calls or self.unsent)

    def is_over(self) -> bool:
        """Whether no call waits, not even over links.

        Asks the actor if it is unknown.
        """
        callers = self._callers
        return self.is_idle and (callers is None or callers.have_parted())

    @property
    def survives_restart(self) -> bool:
        return bool(self.calls.deferred) or self._mailbox.survives_restart

    @property
    def load(self) -> int | None:
        """The number of calls that the actor has to do; None while it takes no calls.

        A call that has no recipient and has not ended yet counts twice: it takes longer
        than its caller would wait.
        """
        return None if self.channel is None or self._is_held else self.backlog

    @property
    def backlog(self) -> int:
        """The number of calls that it has to do, counted as in ``load``."""
        return len(self.calls) + 2 * len(self._mailbox.abandoned)

    def queue(self) -> CallQueue:
        """Returns which calls the actor has not begun, as far as that is known."""
        calls, record, oldest = self._mailbox.calls, self._record, 0
        interface, options = record.interface, record.options
        if self.channel is not None and not self._is_held:
            running = RunningCalls(interface, options)
            for method, headers in self._mailbox.abandoned.values():
                running.add(method, headers)
            waiting = (
                number
                for number, target, method, headers in self._mailbox.sent_calls()
                if not running.add(method, headers, gives_way=_gives_way(target))
            )
            oldest = next(waiting, 0)
        return CallQueue(oldest, calls.made)

    def unanswered(self, most: int | None = None) -> Iterator[UnderWay]:
        for call in self._mailbox.unanswered(most):
            if _gives_way(call.target):
                yield call._replace(gives_way=True)
            else:
                yield call

    def borrowing(self) -> Iterator[tuple[str, Collection[CountedId]]]:
        """Yields the calls whose arguments are here; see ``Mailbox``."""
        return self._mailbox.borrowing()

    def method_of(self, number: int) -> str | None:
        sent = self._mailbox.answerable.get(number)
        return None if sent is None else sent[1]

    def under_way(self) -> tuple[str, ...] | None:
        mailbox, record = self._mailbox, self._record
        over_link = None if self._callers is None else self._callers.ran
        sent = [*islice(mailbox.sent_calls(), _MOST_ASKED)]
        if mailbox.begun is not None:
            runs = mailbox.begun.runs
            ran = [method for number, _, method, _ in sent if runs(number)]
        else:
            refused = self.channel.refused if self.channel is not None else 0
            received = sent[: max(0, mailbox.under_way - refused)]
            ran = [method for _, _, method, _ in received]
            if len(ran) > 1 or over_link is not None:  # a single call runs
                running = RunningCalls(
                    record.interface, record.options, is_busy=over_link is not None
                )
                ran = [
                    method
                    for _, target, method, headers in received
                    if running.add(method, headers, gives_way=_gives_way(target))
                ]
        if over_link is not None:
            ran.insert(0, over_link)
        if not ran and mailbox.abandoned:
            return None  # a plain method runs on when its call is cancelled
        return tuple(ran)

    def call(
        self,
        ref: ObjectRef[Any] | StreamReader,
        method: str,
        payload: bytes | tuple[object, ...],
        headers: Mapping[str, object] | None,
    ) -> None:
        """Sends a call without borrowed references, and binds its ref; see ``send``.

        Args:
            ref: Receives the answer or the items.
            method: The name of the method.
            payload: The arguments, or a tuple of them if all of them are scalars.
            headers: The headers that the caller sets for this call.
        """
        channel = self._usual_channel
        if headers or channel is None:
            whole = encode_call(payload, {}) if isinstance(payload, tuple) else payload
            ref.bind(self, self.send(ref, method, None, whole, headers))
            return
        # The usual case, in as few steps as possible.
        number = self.calls.begin(ref, method)
        if not channel.is_turn_timed:
            channel.is_turn_timed = True
            self.calls.mark(self._now())
        ref.bind(self, number)
        if isinstance(payload, tuple):
            # Unpacking the tuple into another one takes three times as long.
            channel.write(pack((CALL_SCALARS, number, method) + payload))  # noqa: RUF005
        else:
            channel.write(pack((CALL, number, method, None, payload)))

    def send(
        self,
        target: ResponseTarget,
        method: str,
        borrowed: Collection[CountedId] | None,
        payload: Payload,
        headers: Mapping[str, object] | None = None,
    ) -> int:
        """Sends a call, or keeps it until the actor is ready; returns its number.

        Args:
            target: The recipient of the answer.
            method: The name of the method.
            borrowed: The borrowed references in the payload. This process holds each
                once more until the call was sent.
            payload: The arguments.
            headers: The headers that the caller sets for this call.
        """
        if self.is_closed:
            self._refuse(target, borrowed, self._died())
            return 0
        terms = self._usual_terms
        if headers:
            terms = terms_of(headers, terms, self._record.options)
        number = self._post(target, method, borrowed, payload, terms)
        if not number:
            self._refuse(target, borrowed, self._unavailable())
        return number

    def _post(
        self,
        target: ResponseTarget,
        method: str,
        borrowed: Collection[CountedId] | None,
        payload: Payload,
        terms: CallTerms,
    ) -> int:
        """Sends or keeps a call; returns its number, or 0 if it may not wait."""
        headers, retries, deadline, mover = terms
        number, frame = self._mailbox.post(
            target, method, borrowed, payload, headers, retries, mover
        )
        channel = self.channel
        if number and (frame is None or channel is None or not channel.is_turn_timed):
            if frame is not None and channel is not None:
                channel.is_turn_timed = True
            self.calls.mark(self._now())
        if deadline is not None and number:
            self._timekeeper.add(number, method, deadline)
        if frame is not None:
            if retries is not None or mover is not None:
                self._request_notes()
            self.channel.send(frame)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]  # open with the mailbox
            if borrowed:
                self._lend(frame)
        return number

    def opened(self, session: WorkerSession) -> None:
        super().opened(session)
        channel = session.channel
        if self._usual_terms.retries is None and not self.is_closed:
            self._usual_channel = channel
        self.notes_calls = True
        self._is_noting = False
        self._send_all(channel, self._mailbox.opened())

    def _request_notes(self) -> None:
        """Has the worker note which calls run, before the first that is kept."""
        if not self._is_noting and self.channel is not None:
            self._is_noting = True
            self.channel.send((NOTE_CALLS, 0))

    def note_cells(self, cells: Sequence[int]) -> None:
        if self._callers is not None:
            methods = self._record.interface.methods
            self._callers.note(cells[MARK] if cells else 0, methods)
        is_known = bool(cells) and self._is_noting and self.notes_calls
        self._mailbox.note_begun(read_begun(cells) if is_known else None)

    def _send_all(self, channel: AsyncChannel, frames: list[Frame]) -> None:
        if frames and self._mailbox.kept:
            self._request_notes()
        for frame in frames:
            channel.send(frame)
            if frame[3]:
                self._lend(frame)

    def hold(self) -> None:
        """Holds new calls back until ``let_go``. Calls that were sent go on."""
        self._is_held = True
        self._usual_channel = None
        self._mailbox.hold()

    def let_go(self) -> None:
        """Sends the calls that were held back."""
        self._is_held = False
        channel, frames = self.channel, self._mailbox.let_go()
        if channel is None:
            return
        if self._usual_terms.retries is None and not self.is_closed:
            self._usual_channel = channel
        self._send_all(channel, frames)

    @property
    def sent(self) -> int:
        """The number of unanswered calls that the owner has sent to the actor."""
        return self._mailbox.under_way

    def settle(self, frame: Frame) -> None:
        mailbox, number = self._mailbox, frame[1]
        if self._timed and number in mailbox.answerable and self.is_late(number):
            self._return(mailbox.drop(number))
            mailbox.abandoned.pop(number, None)  # this is its end
            self._drop_answer(frame)
            self._report_idle()
            return
        if number in mailbox.kept and number in mailbox.answerable:
            self._settle_kept(frame)
            return
        # It is removed after the answer: if that fails, the actor's end answers it.
        sent = mailbox.answerable.get(number)
        target = None if sent is None else sent[0]
        if type(target) is ObjectRef and frame[0] == RESULT and frame[2] is None:
            kept_value: KeptValue | None = None
            try:
                payload = frame[3]
                value = decode(payload)
                if type(payload) is not bytes:
                    kept_value = kept_with(value, payload)
                elif type(value) not in IMMUTABLE:  # kept_with(), inlined
                    kept_value = payload, None, None, False
            except BaseException as error:  # noqa: BLE001  # loading runs the user's code
                fail_to_load(target, error)
            else:
                if not target.done():
                    target.set_result(value, kept_value)
        elif number >= LINKED:
            self.callers.answer(frame)
        else:
            mailbox.abandoned.pop(number, None)
            give_answer(target, frame, self._references)
        mailbox.answerable.pop(number, None)  # mailbox.settle(), inlined
        if self._timed and sent is not None:
            self._timekeeper.discard(number)
        calls = self.calls
        if self._is_held or not (calls.posted or calls.deferred):
            self._idle()

    def settle_scalar(self, number: int, value: object) -> None:
        sent = self._mailbox.answerable
        target = sent[number][0] if number in sent else None
        if type(target) is not ObjectRef or self._timed or self._mailbox.kept:
            # The frame with a payload, which can be forwarded.
            self.settle((RESULT, number, None, encode(value)))
            return
        if not target.done():
            target.set_result(value)
        sent.pop(number, None)
        calls = self.calls
        if self._is_held or not (calls.posted or calls.deferred):
            self._idle()

    def _report_idle(self) -> None:
        if self._is_held or self.is_idle:
            self._idle()

    def fail(self, call: int) -> None:
        """Fails a call that gets no answer, as the actor ends."""
        self._timekeeper.discard(call)
        self._mailbox.abandoned.pop(call, None)
        target = self._mailbox.settle(call)
        self._return(self._mailbox.release(call))
        if target is not None:
            give_error(target, self._died())

    def close(self) -> None:
        super().close()
        self._usual_channel = None

    def drain(self) -> None:
        super().drain()
        self._is_draining = True

    def interrupted(self) -> None:
        super().interrupted()
        self._usual_channel = None
        self._lose_calls(self._mailbox.interrupted, self._unavailable)

    def over(self) -> None:
        super().over()
        self._lose_calls(self._mailbox.closed, self._died)

    def _lose_calls(
        self,
        take: Callable[[], tuple[list[ResponseTarget], list[Frame]]],
        why: Callable[[], BaseException],
    ) -> None:
        """Moves or fails the calls of a worker that has ended.

        Args:
            take: Removes the calls that get no answer from the mailbox.
            why: Makes the error of one of them.
        """
        self._is_held = False
        tear_down(
            self,
            self._move_calls,
            lambda: self._give_up(*take(), why),
            lambda: self._lose_callers(why),
            lambda: self._timekeeper.keep(self._has),
        )

    def _lose_callers(self, why: Callable[[], BaseException]) -> None:
        if self._callers is not None:
            self._callers.lost(why)

    # Streams.

    def item(self, frame: Frame) -> None:
        number = frame[1]
        sent = self._mailbox.answerable.get(number)
        target = None if sent is None else sent[0]
        if type(target) is StreamReader and not frame[3]:  # the usual case
            target.put(number, frame[2], frame[4], load_result)
            return
        if target is None and frame[2] == 0 and self.channel is not None:
            # The cancellation came while the call went from its queue to its thread.
            self.channel.send((CANCEL, number))
        give_item(target, frame, self._references)

    def acknowledge(self, call: int, count: int) -> None:
        self.tell((STREAM_ACK, call, count))

    def expire_streams(self, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        """Stops the streams of which no item was taken meanwhile, again and again.

        It goes on until the actor is idle.

        Args:
            loop: The owner's loop.
            patience: The seconds between two steps.
        """
        if self.is_idle:
            return
        targets = (target for target, *_ in self.calls.posted.values())
        if self.channel is not None and any(map(_is_stream, targets)):
            self.channel.send((STREAM_EXPIRE, 0))
        after = max(patience, _LEAST_PATIENCE)
        loop.call_later(after, self.expire_streams, loop, patience)

    # Calls that may be sent again: this process holds the references in them.

    def _lend(self, frame: Frame) -> None:
        if frame[1] in self._mailbox.kept:
            self._references.arrived(frame[3], self._session)
        else:
            self._references.lent(frame[3], self._session)

    def _settle_kept(self, answer: Frame) -> None:
        # Its references are held until their recipient is known.
        with passing(self._references, answer[-2], OWNER):
            if not self._retry(answer):
                self.settle(answer)

    def _retry(self, answer: Frame) -> bool:
        """Sends a failed call again; if it may not, releases it and returns False."""
        mailbox, number = self._mailbox, answer[1]
        call = mailbox.kept.get(number)
        if call is None:
            return False
        retries = None
        if not self._is_draining:
            retries = retries_after(call.retries, answer, self._references)
        if retries is not None:
            frame = mailbox.again(number, retries)
            if frame is not None and self.channel is not None:
                self._timekeeper.rename(number, frame[1])
                self.channel.send(frame)
                if frame[3]:
                    self._lend(frame)
                return True
        self._timekeeper.discard(number)
        self._return(mailbox.release(number))
        return False

    def _move_calls(self) -> None:
        """Moves calls to other actors where they may run, as this one is gone."""
        for number in self._mailbox.movable():
            self._move(number)

    def _move(self, number: int) -> None:
        mailbox = self._mailbox
        call, (target, method, _) = mailbox.kept[number], self.calls.posted[number]
        reader = awaited(target)
        has_items = isinstance(reader, StreamReader) and reader.has_received
        if call.mover is None or reader is None or has_items:
            return
        actor = call.mover()
        router = None if actor is None else self._find_router(actor)
        if router is None or router is self:
            return
        timed = self._timed.get(number)
        deadline = None if timed is None else timed.deadline
        frame = call.frame
        headers = frame[4] if frame[0] == CALL_WITH else None
        terms = CallTerms(headers, mailbox.left_of(number), deadline, call.mover)
        if not router.adopt(reader, method, frame[3], frame[-1], terms):
            return
        mailbox.moved(number)
        self._timekeeper.discard(number)
        if isinstance(target, weakref.ref) and isinstance(reader, ObjectRef):
            router.release_if_unused(reader)

    def adopt(
        self,
        reader: ObjectRef[Any] | StreamReader,
        method: str,
        borrowed: Collection[CountedId] | None,
        payload: Payload,
        terms: CallTerms,
    ) -> bool:
        """Accepts a call of another actor that has died; False if it cannot."""
        if self.is_closed:
            return False
        if isinstance(reader, StreamReader):
            reader.move_to(self)
        number = self._post(reader, method, borrowed, payload, terms)
        if number:
            reader.bind(self, number)
        return bool(number)

    def _give_up(
        self,
        targets: list[ResponseTarget],
        frames: list[Frame],
        why: Callable[[], BaseException],
    ) -> None:
        tear_down(
            self,
            *(partial(self._return, frame) for frame in frames),
            *(partial(_fail, target, why) for target in targets),
        )

    def _return(self, frame: Frame | None) -> None:
        """Returns the borrowed references in a frame that is no longer sent."""
        if frame is not None and frame[3]:
            self._references.returned(frame[3], OWNER)

    def _refuse(
        self,
        target: ResponseTarget,
        borrowed: Collection[CountedId] | None,
        error: BaseException,
    ) -> None:
        if borrowed:
            self._references.returned(borrowed, OWNER)
        give_error(target, error)

    # Operations of refs; see ResultOwner.

    def cancel(self, call: int, *, recursive: bool = True) -> bool:
        """Stops a call; True if its end is reported later; see ResultOwner."""
        number = self.current(call)
        target, method, _ = self._mailbox.answerable.get(number, (None, "", None))
        if (
            target is None
            or self.channel is None
            or not self._record.interface.awaits(method)
            or not self._mailbox.was_sent(number)
        ):
            self.drop(call, recursive=recursive)
            return False
        if type(target) is not CancelledTarget:
            self.calls.replace(number, CancelledTarget(target, self._drop_answer))
            self.channel.send((CANCEL, number))
            if recursive:
                self.cancel_children(number)
            self._return(self._mailbox.release(number))  # it is not sent again
        return True

    def interrupt(self, call: int, *, recursive: bool = True) -> bool:
        number = self.current(call)
        sent = self._mailbox.answerable.get(number)
        if (
            sent is None
            or self._record.interface.awaits(sent[1])
            or not self._mailbox.was_sent(number)
        ):
            return self.cancel(call, recursive=recursive)
        self.drop(call, recursive=recursive, interrupts=True)
        self.wake_worker()
        return False

    def _drop_answer(self, frame: Frame) -> None:
        give_answer(None, frame, self._references)

    def drop(self, call: int, *, recursive: bool, interrupts: bool = False) -> None:
        """Forgets a call, and stops it if it was sent."""
        number = self.current(call)
        self._timekeeper.discard(number)
        if self._mailbox.was_sent(call) and self.channel is not None:
            self.channel.send((CANCEL, number, *((True,) if interrupts else ())))
            if recursive:
                self.cancel_children(number)
        self._return(self._mailbox.drop(call))
        self._report_idle()

    def _has(self, call: int) -> bool:
        return self.calls.target(call) is not None

    def current(self, call: int) -> int:
        return self._mailbox.current(call)

    def where(self, label: str) -> str:
        return self._record.method(label)

    def label_of(self, call: int) -> str:
        calls, number = self.calls, self.current(call)
        entry = calls.posted.get(number) or calls.deferred.get(number)
        return "" if entry is None else self._record.method(entry[1])

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks another thread than that of the loop; see ResultOwner."""
        refusal = (
            "get() would block the event loop that the answer comes through: await "
            "the ref instead"
        )
        block(ref, timeout, refusal)


def _fail(target: ResponseTarget, why: Callable[[], BaseException]) -> None:
    give_error(target, why())  # each gets its own error, which keeps its frames


def give_item(
    target: ResponseTarget | None, frame: Frame, references: BorrowedReferences
) -> None:
    """Delivers an item to the reader of a stream; drops it if there is no reader.

    Raises:
        ProtocolError: The call is not a stream.
    """
    _, number, index, borrowed, payload = frame
    if isinstance(target, StreamReader):
        if borrowed:
            with passing(references, borrowed, OWNER):
                load = partial(load_result, borrowed=borrowed)
                target.put(number, index, payload, load)
        else:
            target.put(number, index, payload, load_result)
    elif target is None:
        give_answer(None, frame, references)
    elif _is_stream(target):
        with passing(references, borrowed, OWNER):
            cast("Any", target).item(frame)
    else:
        raise ProtocolError(f"an item of call {number}, which is not a stream")


def _gives_way(target: ResponseTarget) -> bool:
    """Whether other calls run beside it: a stream whose reader lags is paused."""
    return isinstance(target, StreamReader) and target.lags


def _is_stream(target: ResponseTarget | None) -> bool:
    """Whether the recipient takes items: a StreamReader, or a worker's WorkerStream."""
    return isinstance(target, StreamReader) or hasattr(target, "item")
