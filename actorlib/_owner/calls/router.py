"""The way to one worker and back, and the calls of an actor on it: out in order.

Answers of the owner's own calls fill an ``ObjectRef``, and items of their streams a
``StreamReader``; those of a worker's calls are passed on to it without being decoded.

What was taken of a stream is said only in answer to an item, so an actor hears only of
streams that it knows. An actor that was ended by name (``end``, the end of
its block) leaves behind what it was sent. A stream that nobody takes anything of would
keep it for ever: it is cut off when nothing was taken of it for a while. Its worker
knows which those are.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from actorlib._base.ids import LINKED
from actorlib._futures.object_ref import IMMUTABLE, ObjectRef
from actorlib._futures.stream_reader import StreamReader
from actorlib._loops.loop_thread import block
from actorlib._owner.calls.call_policy import CallTerms, retries_of
from actorlib._owner.calls.calls_under_way import with_states
from actorlib._owner.calls.link_callers import LinkCallers
from actorlib._owner.calls.mailbox import Mailbox
from actorlib._owner.calls.response_target import (
    CancelledTarget,
    ResponseTarget,
    UnansweredCalls,
    awaited,
    give_answer,
    give_error,
    retries_after,
)
from actorlib._owner.objects.objects import UnsentResults
from actorlib._owner.objects.refcount import OWNER, passing
from actorlib._owner.teardown import tear_down
from actorlib._shm.running_calls import MARK, read_begun
from actorlib._wire.codec import pack
from actorlib._wire.errors import fail_to_load, kept_with, load_result
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
    from actorlib._owner.calls.call_policy import CallPolicy
    from actorlib._owner.calls.calls_under_way import UnderWay
    from actorlib._owner.objects.objects import ObjectTable
    from actorlib._owner.objects.refcount import BorrowedReferences
    from actorlib._shm.memory import Payload
    from actorlib._wire.async_channel import AsyncChannel


_LEAST_PATIENCE = 0.05
_MOST_ASKED = 1000
"""Of how many calls is asked whether they ran when a process ended: the oldest."""


class WorkerRoute(ABC):
    """Sends calls to one worker, and takes what it answers.

    A ``CallRouter`` has the calls of an actor. A ``TaskWorker`` has some of the calls
    of functions, which are the pool's.

    Args:
        when_idle: Called when the worker has passed on everything that it owes.

    Attributes:
        channel: The pipe to the worker; None while it takes no calls.
        unsent: The refs that it has sent, and whose values it has not passed on yet.
        is_closed: Whether new calls are refused.
    """

    _cancel_children: CancelChildren | None = None

    def __init__(self, when_idle: Callable[[], None]) -> None:
        self.channel: AsyncChannel | None = None
        self.unsent = UnsentResults(when_idle)
        self.is_closed = False
        self._session = OWNER

    @property
    def session(self) -> int:
        """The number of the session that calls are sent to; 0 while there is none."""
        return 0 if self.channel is None else self._session

    def tell(self, frame: Frame) -> None:
        """Sends a frame that is no call, if the worker is ready for calls."""
        if self.channel is not None:
            self.channel.send(frame)

    def cancel_children(self, number: int, *, by_force: bool = False) -> None:
        """Cancels the calls that one of its calls has made, and theirs."""
        if self._cancel_children is not None:
            self._cancel_children(self._session, number, by_force=by_force)

    def close(self) -> None:
        """Refuses new calls; those that were sent go on."""
        self.is_closed = True

    def drain(self) -> None:
        """Refuses new calls, and sends none again: the worker was told to leave."""
        self.close()

    # What the worker answers.

    @abstractmethod
    def settle(self, frame: Frame) -> None:
        """Gives an answer to the caller, or sends the call again."""

    @abstractmethod
    def settle_scalar(self, number: int, value: object) -> None:
        """Gives an answer that stood in its frame to the caller; see ``settle``."""

    @abstractmethod
    def item(self, frame: Frame) -> None:
        """Gives an item to the reader of a stream; drops one that has no reader.

        Raises:
            ProtocolError: It is of a call that is no stream.
        """

    # What becomes of the worker.

    def opened(self, session: WorkerSession) -> None:
        """The worker is ready: what waited is sent."""
        self.channel, self._session = session.channel, session.number
        self._cancel_children = session.cancel_children

    def interrupted(self) -> None:
        """The worker died and is restarted."""
        self.channel = None

    def over(self) -> None:
        """The worker is gone for good."""
        self.close()
        self.channel = None

    @abstractmethod
    def note_cells(self, cells: Sequence[int], record: ActorRecord) -> None:
        """Takes what the worker has noted of its calls, as its process is gone.

        Args:
            cells: See ``running_calls``; empty if there are none.
            record: What is known of its actor.
        """

    @abstractmethod
    def is_over(self) -> bool:
        """Whether no call waits; asks the worker if only it knows that."""

    @property
    def outlives(self) -> bool:
        """Whether a call would wait for the worker if it died and was restarted."""
        return False

    # What is known of its calls.

    @abstractmethod
    def method_of(self, number: int) -> str | None:
        """The method of a call that was sent and has no answer."""

    @abstractmethod
    def under_way(self, record: ActorRecord) -> tuple[str, ...] | None:
        """The methods that may have run when its process ended; None if unknown."""


class CallRouter(UnansweredCalls[str], WorkerRoute):
    """Routes the calls of one actor.

    Args:
        references: Counts the handles in arguments and results.
        objects: Names what refs stand for that are sent inside of values.
        died: Gives the error of a call that will have no answer.
        unavailable: Gives it for a call that is lost while the actor restarts.
        idle: Called when the last call without an answer has got one.
        policy: Says what holds for each of them.
        find_router: Finds what routes the calls of another actor; None if there is none
            by that id.

    Attributes:
        notes_calls: Whether the worker notes which calls run, if it was told to.
    """

    def __init__(
        self,
        references: BorrowedReferences,
        objects: ObjectTable,
        died: Callable[[], BaseException],
        unavailable: Callable[[], BaseException],
        idle: Callable[[], None],
        policy: CallPolicy,
        find_router: Callable[[ActorId], CallRouter | None] = lambda _: None,
    ) -> None:
        self._mailbox: Mailbox[ResponseTarget] = Mailbox()
        super().__init__(self._mailbox.calls, policy.clock, objects)
        WorkerRoute.__init__(self, self._tell_idle)
        self._find_router = find_router
        self._loans = references
        self._died = died
        self._unavailable = unavailable
        self._idle = idle
        self._policy = policy
        # What holds for a call without headers.
        self._usual_terms = CallTerms(None, retries_of(policy.options))
        # The same while a call goes at once and once only; None while any has to be
        # kept or refused. So one look tells the usual call from all others.
        self._usual_channel: AsyncChannel | None = None
        self.notes_calls = True
        self._is_noting = False
        self._is_draining = False
        self._is_held = False

    @cached_property
    def callers(self) -> LinkCallers:
        """The workers that call it over links; most actors have none."""
        return LinkCallers(self._loans, self.unsent, self.tell)

    @property
    def is_idle(self) -> bool:
        """Whether no call waits, for its arguments or for its answer."""
        return not (self.calls or self.unsent)

    def is_over(self) -> bool:
        """The same, of calls over links too; asks the actor if only it knows that."""
        return self.is_idle and self.callers.have_parted()

    @property
    def outlives(self) -> bool:
        """Whether a call would wait for the actor if it died and was restarted."""
        return bool(self.calls.deferred) or self._mailbox.outlives

    @property
    def load(self) -> int | None:
        """How many calls it has to do; None while the actor takes no calls.

        One that is wanted no more, and has not ended yet, counts twice: it takes longer
        than its caller would wait.
        """
        if self.channel is None or self._is_held:
            return None
        return len(self.calls) + 2 * len(self._mailbox.abandoned)

    def unanswered(self, most: int | None = None) -> Iterator[UnderWay]:
        """Walks over the calls without an answer; see ``Mailbox``."""
        for call in self._mailbox.unanswered(most):
            if isinstance(call.target, StreamReader) and call.target.lags:
                yield call._replace(gives_way=True)
            else:
                yield call

    def borrowing(self) -> Iterator[tuple[str, Collection[CountedId]]]:
        """Walks over the calls whose arguments are here; see ``Mailbox``."""
        return self._mailbox.borrowing()

    def method_of(self, number: int) -> str | None:
        """The method of a call that was sent and has no answer."""
        sent = self._mailbox.answerable.get(number)
        return None if sent is None else sent[1]

    def under_way(self, record: ActorRecord) -> tuple[str, ...] | None:
        """The methods that may have run when its process ended; None if unknown."""
        mailbox, over_link = self._mailbox, self.callers.ran
        calls = (call for call in self.unanswered(_MOST_ASKED) if call.state == "sent")
        if mailbox.begun is not None:
            ran = [call.method for call in calls if mailbox.begun.runs(call.number)]
        else:
            refused = self.channel.refused if self.channel is not None else 0
            came = [*islice(calls, max(0, mailbox.under_way - refused))]
            if len(came) > 1 or over_link is not None:  # one alone runs
                is_busy = over_link is not None
                states = with_states(
                    came, record.interface, record.options, is_busy=is_busy
                )
                came = [call for call in states if call.state == "running"]
            ran = [call.method for call in came]
        if over_link is not None:
            ran.insert(0, over_link)
        if not ran and mailbox.has_dropped:
            return None  # a plain method runs on when its call is cancelled
        return tuple(ran)

    def call(
        self,
        ref: ObjectRef[Any] | StreamReader,
        method: str,
        payload: bytes | tuple[object, ...],
        headers: Mapping[str, object] | None,
    ) -> None:
        """Sends a call without handles, and binds its ref; see ``send``.

        Args:
            ref: Who gets the answer, or the items.
            method: The name of the method.
            payload: The arguments, or a tuple of them if all of them are scalars.
            headers: What the caller says of this call alone.
        """
        channel = self._usual_channel
        if headers or channel is None:
            whole = encode_call(payload, {}) if isinstance(payload, tuple) else payload
            ref.bind(self, self.send(ref, method, None, whole, headers))
            return
        # The usual case, in as few steps as there are.
        number = self.calls.begin(ref, method)
        if not channel.is_turn_timed:
            channel.is_turn_timed = True
            self.calls.mark(self._now())
        ref.bind(self, number)
        if isinstance(payload, tuple):
            # To unpack the tuple into another one would take three times as long.
            channel.write(pack((CALL_SCALARS, number, method) + payload))  # noqa: RUF005
        else:
            channel.write(pack((CALL, number, method, None, payload)))

    def send(
        self,
        target: ResponseTarget,
        method: str,
        loans: Collection[CountedId] | None,
        payload: Payload,
        headers: Mapping[str, object] | None = None,
    ) -> int:
        """Sends a call, or keeps it until the actor is ready; gives its number.

        Args:
            target: Who gets the answer.
            method: The name of the method.
            loans: The actors whose handles are in the payload; this process holds
                them once more until the call has gone.
            payload: The arguments.
            headers: What the caller says of this call alone.
        """
        if self.is_closed:
            self._refuse(target, loans, self._died())
            return 0
        terms = self._usual_terms
        if headers:
            terms = self._policy.terms_of(headers, terms)
        number = self._post(target, method, loans, payload, terms)
        if not number:
            self._refuse(target, loans, self._unavailable())
        return number

    def _post(
        self,
        target: ResponseTarget,
        method: str,
        loans: Collection[CountedId] | None,
        payload: Payload,
        terms: CallTerms,
    ) -> int:
        """Sends or keeps a call; gives its number, or 0 if it may not wait."""
        headers, retries, deadline, mover = terms
        number, frame = self._mailbox.post(
            target, method, loans, payload, headers, retries, mover
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
                self._have_noted()
            self.channel.send(frame)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]  # open with the mailbox
            if loans:
                self._lend(frame)
        return number

    def opened(self, session: WorkerSession) -> None:
        """The actor is ready: what waited is sent."""
        super().opened(session)
        channel = session.channel
        if self._usual_terms.retries is None and not self.is_closed:
            self._usual_channel = channel
        self.notes_calls = True
        self._is_noting = False
        self._send_all(channel, self._mailbox.opened())

    def _have_noted(self) -> None:
        """Has the worker note which calls run, before the first that may go again."""
        if not self._is_noting and self.channel is not None:
            self._is_noting = True
            self.channel.send((NOTE_CALLS, 0))

    def note_cells(self, cells: Sequence[int], record: ActorRecord) -> None:
        """Takes what the worker has noted of its calls, as its process is gone."""
        self.callers.note(cells[MARK] if cells else 0, record.interface.methods)
        is_known = bool(cells) and self._is_noting and self.notes_calls
        self._mailbox.note_begun(read_begun(cells) if is_known else None)

    def _send_all(self, channel: AsyncChannel, frames: list[Frame]) -> None:
        if frames and self._mailbox.kept:
            self._have_noted()
        for frame in frames:
            channel.send(frame)
            if frame[3]:
                self._lend(frame)

    def hold(self) -> None:
        """Keeps new calls here until they are let go; what was sent goes on."""
        self._is_held = True
        self._usual_channel = None
        self._mailbox.hold()

    def let_go(self) -> None:
        """Sends what was kept, and keeps nothing any more."""
        self._is_held = False
        channel, frames = self.channel, self._mailbox.let_go()
        if channel is None:
            return
        if self._usual_terms.retries is None and not self.is_closed:
            self._usual_channel = channel
        self._send_all(channel, frames)

    @property
    def sent(self) -> int:
        """How many calls went to the actor, by way of the owner, without an answer."""
        return self._mailbox.under_way

    def settle(self, frame: Frame) -> None:
        """Gives an answer to whoever asked, or sends the call again."""
        mailbox, number = self._mailbox, frame[1]
        if self._timed and number in mailbox.answerable and self.is_late(number):
            self._return(mailbox.drop(number))
            mailbox.abandoned.discard(number)  # this is its end
            self._drop_answer(frame)
            self._tell_idle()
            return
        if number in mailbox.kept and number in mailbox.answerable:
            self._settle_kept(frame)
            return
        # It is there until it is answered: if that fails, its actor's end answers it.
        sent = mailbox.answerable.get(number)
        target = None if sent is None else sent[0]
        if type(target) is ObjectRef and frame[0] == RESULT and frame[2] is None:
            kept: KeptValue | None = None
            try:
                payload = frame[3]
                value = decode(payload)
                if type(payload) is not bytes:
                    kept = kept_with(value, payload)
                elif type(value) not in IMMUTABLE:  # as kept_with(), at hand
                    kept = payload, None, None, False
            except BaseException as error:  # noqa: BLE001  # loading runs the user's code
                fail_to_load(target, error)
            else:
                if not target.done():
                    target.set_result(value, kept)
        elif number >= LINKED:
            self.callers.answer(frame)
        else:
            mailbox.abandoned.discard(number)
            give_answer(target, frame, self._loans)
        mailbox.answerable.pop(number, None)  # as mailbox.settle(), at hand
        if self._timed and sent is not None:
            self._timekeeper.discard(number)
        calls = self.calls
        if self._is_held or not (calls.posted or calls.deferred):
            self._idle()

    def settle_scalar(self, number: int, value: object) -> None:
        """Gives an answer that stood in its frame to whoever asked; see ``settle``."""
        sent = self._mailbox.answerable
        target = sent[number][0] if number in sent else None
        if type(target) is not ObjectRef or self._timed or self._mailbox.kept:
            # As it would have come in a payload, for whoever passes it on.
            self.settle((RESULT, number, None, encode(value)))
            return
        if not target.done():
            target.set_result(value)
        sent.pop(number, None)
        calls = self.calls
        if self._is_held or not (calls.posted or calls.deferred):
            self._idle()

    def _tell_idle(self) -> None:
        if self._is_held or self.is_idle:
            self._idle()

    def fail(self, call: int) -> None:
        """A call gets no answer, as the actor leaves."""
        self._timekeeper.discard(call)
        self._mailbox.abandoned.discard(call)
        target = self._mailbox.settle(call)
        self._return(self._mailbox.release(call))
        if target is not None:
            give_error(target, self._died())

    def close(self) -> None:
        """Refuses new calls; those that were sent go on."""
        super().close()
        self._usual_channel = None

    def drain(self) -> None:
        """Refuses new calls, and sends none again: the actor was told to leave."""
        super().drain()
        self._is_draining = True

    def interrupted(self) -> None:
        """The actor died and is restarted: calls on their way fail or wait for it."""
        super().interrupted()
        self._usual_channel = None
        self._is_held = False
        tear_down(
            self,
            self._move_calls,
            lambda: self._give_up(*self._mailbox.interrupted(), self._unavailable),
            lambda: self.callers.lost(self._unavailable),
            lambda: self._timekeeper.keep(self._has),
        )

    def over(self) -> None:
        """The actor is gone: every call without an answer fails, and every new one."""
        super().over()
        self._is_held = False
        tear_down(
            self,
            self._move_calls,
            lambda: self._give_up(*self._mailbox.closed(), self._died),
            lambda: self.callers.lost(self._died),
            lambda: self._timekeeper.keep(self._has),
        )

    # Streams.

    def item(self, frame: Frame) -> None:
        """Gives an item to whoever reads; one that nobody wants is dropped.

        Raises:
            ProtocolError: It is of a call that is no stream.
        """
        number = frame[1]
        sent = self._mailbox.answerable.get(number)
        target = None if sent is None else sent[0]
        if target is None and frame[2] == 0 and self.channel is not None:
            # The cancellation met the call on the way from its line to its thread.
            self.channel.send((CANCEL, number))
        give_item(target, frame, self._loans)

    def acknowledge(self, call: int, count: int) -> None:
        """Tells the actor how many items of a stream were taken."""
        self.tell((STREAM_ACK, call, count))

    def expire_streams(self, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        """Cuts off, now and again, what nobody has taken anything of meanwhile.

        It goes on until the actor has nothing left to do.

        Args:
            loop: The owner's loop.
            patience: Seconds.
        """
        if self.is_idle:
            return
        targets = (target for target, *_ in self.calls.posted.values())
        if self.channel is not None and any(map(_is_stream, targets)):
            self.channel.send((STREAM_EXPIRE, 0))
        after = max(patience, _LEAST_PATIENCE)
        loop.call_later(after, self.expire_streams, loop, patience)

    # Calls that may be sent again: this process holds the handles in them meanwhile.

    def _lend(self, frame: Frame) -> None:
        if frame[1] in self._mailbox.kept:
            self._loans.arrived(frame[3], self._session)
        else:
            self._loans.lent(frame[3], self._session)

    def _settle_kept(self, answer: Frame) -> None:
        # What it brought is held until it is known whose that is.
        with passing(self._loans, answer[-2], OWNER):
            if not self._goes_again(answer):
                self.settle(answer)

    def _goes_again(self, answer: Frame) -> bool:
        """Whether a call failed and is sent once more; else it is kept no longer."""
        mailbox, number = self._mailbox, answer[1]
        kept = mailbox.kept.get(number)
        if kept is None:
            return False
        mailbox.note_finished()
        left = None
        if not self._is_draining:
            left = retries_after(kept.retries, answer, self._loans)
        if left is not None:
            frame = mailbox.again(number, left)
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
        """The actor is gone: others get the calls that they may have; see Replicas."""
        for number in self._mailbox.movable():
            self._move(number)

    def _move(self, number: int) -> None:
        mailbox = self._mailbox
        kept, (target, method, _) = mailbox.kept[number], self.calls.posted[number]
        reader = awaited(target)
        if kept.mover is None or reader is None or _has_items(reader):
            return
        actor = kept.mover()
        router = None if actor is None else self._find_router(actor)
        if router is None or router is self:
            return
        timed = self._timed.get(number)
        deadline = None if timed is None else timed.deadline
        frame = kept.frame
        headers = frame[4] if frame[0] == CALL_WITH else None
        terms = CallTerms(headers, mailbox.left_of(number), deadline, kept.mover)
        taken = router.adopt(reader, method, frame[3], frame[-1], terms)
        if not taken:
            return
        mailbox.moved(number)
        self._timekeeper.discard(number)
        if isinstance(target, weakref.ref) and isinstance(reader, ObjectRef):
            router.release_if_unused(reader)

    def adopt(
        self,
        reader: ObjectRef[Any] | StreamReader,
        method: str,
        loans: Collection[CountedId] | None,
        payload: Payload,
        terms: CallTerms,
    ) -> bool:
        """Takes a call of another actor that has died; False if it cannot be.

        Args:
            reader: Gets the answer, or the items.
            method: The name of the method.
            loans: What is counted in the payload, which this process holds.
            payload: The arguments.
            terms: What holds for it.
        """
        if self.is_closed:
            return False
        if isinstance(reader, StreamReader):
            reader.move_to(self)
        number = self._post(reader, method, loans, payload, terms)
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
        """Gives up the handles in a frame that is not sent any more."""
        if frame is not None and frame[3]:
            self._loans.returned(frame[3], OWNER)

    def _refuse(
        self,
        target: ResponseTarget,
        loans: Collection[CountedId] | None,
        error: BaseException,
    ) -> None:
        if loans:
            self._loans.returned(loans, OWNER)
        give_error(target, error)

    # What refs ask of who fills them; see ResultOwner.

    def cancel(self, call: int, *, recursive: bool = True) -> bool:
        """Stops a call; True if its end is reported later; see ResultOwner."""
        number = self.current(call)
        target, method, _ = self._mailbox.answerable.get(number, (None, "", None))
        if (
            target is None
            or self.channel is None
            or not self._policy.ends_later(method)
            or not self._mailbox.was_sent(number)
        ):
            self.drop(call, recursive=recursive)
            return False
        if type(target) is not CancelledTarget:
            self.calls.replace(number, CancelledTarget(target, self._drop_answer))
            self.channel.send((CANCEL, number))
            if recursive:
                self.cancel_children(number)
            self._return(self._mailbox.release(number))  # it does not go again
        return True

    def interrupt(self, call: int, *, recursive: bool = True) -> bool:
        """Stops a call, also where a plain method is running; see ResultOwner."""
        number = self.current(call)
        sent = self._mailbox.answerable.get(number)
        if (
            sent is None
            or self._policy.ends_later(sent[1])
            or not self._mailbox.was_sent(number)
        ):
            return self.cancel(call, recursive=recursive)
        self.drop(call, recursive=recursive, interrupts=True)
        self._policy.have_read()
        return False

    def _drop_answer(self, frame: Frame) -> None:
        give_answer(None, frame, self._loans)

    def drop(self, call: int, *, recursive: bool, interrupts: bool = False) -> None:
        """Forgets a call, and stops it if it was sent."""
        number = self.current(call)
        self._timekeeper.discard(number)
        if self._mailbox.was_sent(call) and self.channel is not None:
            self.channel.send((CANCEL, number, *((True,) if interrupts else ())))
            if recursive:
                self.cancel_children(number)
        self._return(self._mailbox.drop(call))
        self._tell_idle()

    def _has(self, call: int) -> bool:
        return self.calls.target(call) is not None

    def current(self, call: int) -> int:
        """The number that a call has now, from the one that it was posted with."""
        return self._mailbox.current(call)

    def where(self, label: str) -> str:
        """Names a method, with the class."""
        return self._policy.where(label)

    def label_of(self, call: int) -> str:
        """What a call without an answer is called in messages; see ResultOwner."""
        calls, number = self.calls, self.current(call)
        found = calls.posted.get(number) or calls.deferred.get(number)
        return "" if found is None else self._policy.where(found[1])

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks a thread beside the loop it comes through; see ResultOwner."""
        refusal = (
            "get() would block the event loop that the answer comes through: await "
            "the ref instead"
        )
        block(ref, timeout, refusal)


def _fail(target: ResponseTarget, why: Callable[[], BaseException]) -> None:
    give_error(target, why())  # an error of its own for each: it keeps their frames


def give_item(
    target: ResponseTarget | None, frame: Frame, counted: BorrowedReferences
) -> None:
    """Gives an item to the reader of a stream; one that has no reader is dropped.

    Args:
        target: The reader.
        frame: The item.
        counted: Where the handles in it are counted.

    Raises:
        ProtocolError: It is of a call that is no stream.
    """
    _, number, index, loans, payload = frame
    if isinstance(target, StreamReader):
        load = partial(load_result, borrowed=loans)
        if loans:
            with passing(counted, loans, OWNER):
                target.put(number, index, payload, load)
        else:
            target.put(number, index, payload, load)
    elif target is None:
        give_answer(None, frame, counted)
    elif _is_stream(target):
        with passing(counted, loans, OWNER):
            cast("Any", target).item(frame)
    else:
        raise ProtocolError(f"an item of call {number}, which is no stream")


def _has_items(reader: ObjectRef[Any] | StreamReader) -> bool:
    return isinstance(reader, StreamReader) and reader.has_received


def _is_stream(target: ResponseTarget | None) -> bool:
    """Whether it gets items: a StreamReader, or a worker's WorkerStream."""
    return isinstance(target, StreamReader) or hasattr(target, "item")
