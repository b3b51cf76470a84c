"""The owner's end of one actor's calls: out in order, back to whoever asked.

Answers of the owner's own calls fill an ``ObjectRef``; those that were asked for by a
worker are passed on to it without being decoded.
"""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from actorlib._local.holders import OWNER
from actorlib._local.mailbox import Mailbox
from actorlib._local.retries import Retries, is_retried
from actorlib._ref import ObjectRef
from actorlib._wire.answers import error_of, fill
from actorlib._wire.frames import CANCEL, FAILURE, RAISED, RESULT, Frame, Payload
from actorlib._wire.payload import decode
from actorlib.exceptions import ActorDiedError, ActorUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from actorlib._engine import LoanId
    from actorlib._local.objects import Objects
    from actorlib._wire.channel import Channel


class Asker(Protocol):
    """A worker that waits for an answer."""

    def answer(self, frame: Frame) -> None:
        """Passes the answer on."""
        ...

    def fail(self, error: BaseException) -> None:
        """Tells that there will be none."""
        ...


Reply: TypeAlias = ObjectRef[Any] | weakref.ref[ObjectRef[Any]] | Asker


class Loans(Protocol):
    """Counts handles in payloads; see Holders."""

    objects: Objects

    def arrived(self, loans: Collection[LoanId], holder: int) -> None:
        """Counts what a frame brought to a holder."""
        ...

    def returned(self, loans: Collection[LoanId], holder: int) -> None:
        """Counts what a holder does not hold any more."""
        ...

    def lent(self, loans: Collection[LoanId], holder: int) -> None:
        """Hands over to a worker what this process kept for it."""
        ...


class Dispatch:
    """Calls of one actor; the replier of the owner's refs.

    Args:
        loans: Counts the handles in arguments and results.
        died: Gives the error of a call that will have no answer.
        unavailable: Gives it for a call that is lost while the actor restarts.
        idle: Called when the last call without an answer has got one.
        retries: How often calls are sent again, or None if none is.
    """

    def __init__(
        self,
        loans: Loans,
        died: Callable[[], BaseException],
        unavailable: Callable[[], BaseException],
        idle: Callable[[], None],
        retries: Retries | None = None,
    ) -> None:
        self._loans = loans
        self._died = died
        self._unavailable = unavailable
        self._idle = idle
        self._retries = retries
        self._mailbox: Mailbox[Reply] = Mailbox()
        self._channel: Channel | None = None
        self._session = OWNER
        self._is_closed = False
        self._is_draining = False
        self._held_back: dict[int, ObjectRef[Any] | weakref.ref[ObjectRef[Any]]] = {}
        self._places = itertools.count(-1, -1)

    @property
    def is_idle(self) -> bool:
        """Whether no call waits, for its arguments or for its answer."""
        return not self._mailbox and not self._held_back

    @property
    def is_closed(self) -> bool:
        """Whether new calls are refused."""
        return self._is_closed

    @property
    def pending(self) -> int:
        """How many calls have no answer yet."""
        return len(self._mailbox) + len(self._held_back)

    @property
    def outlives(self) -> bool:
        """Whether a call would wait for the actor if it died and was restarted."""
        return bool(self._held_back) or self._mailbox.outlives

    def running(self) -> str | None:
        """The method of the oldest call without an answer that was sent."""
        method = self._mailbox.running()
        # A function's call has its number before it, which nobody else knows.
        return None if method is None else method.rpartition(":")[2]

    def send(
        self,
        reply: ObjectRef[Any] | Asker,
        method: str,
        loans: Collection[LoanId] | None,
        payload: Payload,
        told: Mapping[str, object] | None = None,
    ) -> int:
        """Sends a call, or keeps it until the actor is ready; gives its number.

        Args:
            reply: Who gets the answer.
            method: The name of the method.
            loans: The actors whose handles are in the payload; this process holds
                them once more until the call has gone.
            payload: The arguments.
            told: What the worker has to be told about this call alone.
        """
        if self._is_closed:
            self._refuse(reply, loans, self._died())
            return 0
        number, frame = self._mailbox.post(
            reply, method, loans, payload, told, self._retries
        )
        if frame is not None:
            self._channel.send(frame)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]  # open with the mailbox
            if loans:
                self._lend(frame)
        elif not number:
            self._refuse(reply, loans, self._unavailable())
        return number

    def hold_back(self, ref: ObjectRef[Any]) -> int:
        """Keeps the place of a call that waits for its arguments; gives its number."""
        place = next(self._places)
        self._held_back[place] = ref
        return place

    def let_go(self, place: int) -> ObjectRef[Any] | None:
        """The arguments are there: whom the answer is for, or None if nobody waits."""
        entry = self._held_back.pop(place, None)
        ref = entry() if isinstance(entry, weakref.ref) else entry
        return None if ref is None or ref.done() else ref

    def opened(self, channel: Channel, session: int) -> None:
        """The actor is ready: what waited is sent."""
        self._channel = channel
        self._session = session
        for frame in self._mailbox.opened():
            channel.send(frame)
            if frame[3]:
                self._lend(frame)

    def settle(self, frame: Frame) -> None:
        """Gives an answer to whoever asked, or sends the call again."""
        mailbox = self._mailbox
        if mailbox.kept and self._goes_again(frame):
            return
        reply = mailbox.settle(frame[1])
        if type(reply) is ObjectRef:
            if frame[0] == RESULT and frame[2] is None:
                try:
                    value = decode(frame[3])
                except Exception:  # noqa: BLE001  # told the long way
                    fill(reply, frame)
                else:
                    if not reply.done():
                        reply.set_result(value)
            else:
                self._fill(reply, frame)
        elif reply is not None and not isinstance(reply, ObjectRef | weakref.ref):
            reply.answer(frame)
        else:
            ref = reply() if isinstance(reply, weakref.ref) else reply
            self._fill(ref, frame)
        if not mailbox and not self._held_back:
            self._idle()

    def fail(self, call: int) -> None:
        """A call gets no answer, as the actor leaves."""
        reply = self._mailbox.settle(call)
        self._return(self._mailbox.release(call))
        if reply is not None:
            _fail(reply, self._died())

    def close(self) -> None:
        """Refuses new calls; those that were sent go on."""
        self._is_closed = True

    def drain(self) -> None:
        """Refuses new calls, and sends none again: the actor was told to leave."""
        self._is_closed = self._is_draining = True

    def interrupted(self) -> None:
        """The actor died and is restarted: calls on their way fail or wait for it."""
        self._channel = None
        self._give_up(*self._mailbox.interrupted(), self._unavailable)

    def over(self) -> None:
        """The actor is gone: every call without an answer fails, and every new one."""
        self._is_closed = True
        self._channel = None
        self._give_up(*self._mailbox.closed(), self._died)

    # Calls that may be sent again: this process holds the handles in them meanwhile.

    def _lend(self, frame: Frame) -> None:
        if frame[1] in self._mailbox.kept:
            self._loans.arrived(frame[3], self._session)
        else:
            self._loans.lent(frame[3], self._session)

    def _goes_again(self, answer: Frame) -> bool:
        """Whether a call failed and is sent once more; else it is kept no longer."""
        mailbox, number = self._mailbox, answer[1]
        kept = mailbox.kept.get(number)
        if kept is None:
            return False
        if not self._is_draining and self._is_retried(kept.retries, answer):
            frame = mailbox.again(number)
            if frame is not None and self._channel is not None:
                self._channel.send(frame)
                if frame[3]:
                    self._lend(frame)
                return True
        self._return(mailbox.release(number))
        return False

    def _is_retried(self, retries: Retries, answer: Frame) -> bool:
        if answer[0] != FAILURE or answer[2] != RAISED:
            return False
        if not retries.depends_on_error:
            return is_retried(retries, None)
        _, _, kind, summary, text, where, loans, payload = answer
        self._loans.arrived(loans or (), OWNER)
        error = error_of(kind, summary, text, where, payload)
        self._loans.returned(loans or (), OWNER)
        return is_retried(retries, error)

    def _give_up(
        self,
        replies: list[Reply],
        frames: list[Frame],
        why: Callable[[], BaseException],
    ) -> None:
        for frame in frames:
            self._return(frame)
        for reply in replies:
            _fail(reply, why())

    def _return(self, frame: Frame | None) -> None:
        """Gives up the handles in a frame that is not sent any more."""
        if frame is not None and frame[3]:
            self._loans.returned(frame[3], OWNER)

    def _refuse(
        self,
        reply: Reply,
        loans: Collection[LoanId] | None,
        error: BaseException,
    ) -> None:
        if loans:
            self._loans.returned(loans, OWNER)
        _fail(reply, error)

    # The replier of the owner's refs.

    def cancel(self, call: int) -> None:
        """Stops a call; see Replier."""
        self._held_back.pop(call, None)
        if self._mailbox.was_sent(call) and self._channel is not None:
            self._channel.send((CANCEL, self._mailbox.current(call)))
        self._return(self._mailbox.drop(call))
        if self.is_idle:
            self._idle()

    def loosen(self, ref: ObjectRef[Any]) -> None:
        """From now on the call is cancelled if nobody holds the ref; see Replier."""
        call, loop = ref.call, ref.get_loop()

        def gone(_: object) -> None:
            # A destructor may run anywhere, also in the middle of a write.
            loop.call_soon(self.cancel, call)

        loose = weakref.ref(ref, gone)
        if call in self._held_back:
            self._held_back[call] = loose
        self._mailbox.replace(call, loose)

    def tell(self, frame: Frame) -> None:
        """Sends a frame that is no call, if the worker is ready for calls."""
        if self._channel is not None:
            self._channel.send(frame)

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; see Replier."""
        ref.add_done_callback(lambda _: then())

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Refuses to block the loop that the answer comes through; see Replier."""
        del ref, timeout
        raise RuntimeError(
            "get() would block the event loop that the answer comes through: await "
            "the ref instead"
        )

    def name(self) -> bytes:
        """An id for what a ref stands for; see Replier."""
        return self._loans.objects.name()

    def travel(self, ref: ObjectRef[Any]) -> tuple[object, ...]:
        """How a ref is pickled into a value that is being sent; see Replier."""
        return self._loans.objects.travel(ref)

    def _fill(self, ref: ObjectRef[Any] | None, frame: Frame) -> None:
        loans = frame[-2]
        if loans:
            self._loans.arrived(loans, OWNER)
        if ref is not None and not ref.done():
            fill(ref, frame)
        if loans:  # also if nobody wants it any more: it is in nobody's hands now
            self._loans.returned(loans, OWNER)


def _fail(reply: Reply, error: BaseException) -> None:
    if isinstance(reply, weakref.ref):
        ref = reply()
    elif isinstance(reply, ObjectRef):
        ref = reply
    else:
        reply.fail(error)
        return
    if ref is not None and not ref.done():
        ref.set_exception(error)
        if _was_asked_for(error):
            # Whoever ended the actor knows: no report of a ref that nobody awaits.
            ref.exception()


def _was_asked_for(error: BaseException) -> bool:
    if not isinstance(error, ActorDiedError | ActorUnavailableError):
        return False
    return error.exit.cause in ("asked", "restarted")
