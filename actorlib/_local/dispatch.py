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
from actorlib._ref import ObjectRef
from actorlib._wire.answers import fill
from actorlib._wire.frames import CANCEL, RESULT, Frame, Payload
from actorlib._wire.payload import decode
from actorlib.exceptions import ActorDiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from actorlib._engine import ActorId
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

    def arrived(self, loans: Collection[ActorId], holder: int) -> None:
        """Counts what a frame brought to a holder."""
        ...

    def returned(self, loans: Collection[ActorId], holder: int) -> None:
        """Counts what a holder does not hold any more."""
        ...

    def lent(self, loans: Collection[ActorId], holder: int) -> None:
        """Hands over to a worker what this process kept for it."""
        ...


class Dispatch:
    """Calls of one actor; the replier of the owner's refs.

    Args:
        loans: Counts the handles in arguments and results.
        died: Gives the error of a call that will have no answer.
        idle: Called when the last call without an answer has got one.
    """

    def __init__(
        self,
        loans: Loans,
        died: Callable[[], BaseException],
        idle: Callable[[], None],
    ) -> None:
        self._loans = loans
        self._died = died
        self._idle = idle
        self._mailbox: Mailbox[Reply] = Mailbox()
        self._channel: Channel | None = None
        self._session = OWNER
        self._is_closed = False
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

    def running(self) -> str | None:
        """The method of the oldest call without an answer that was sent."""
        return self._mailbox.running()

    def send(
        self,
        reply: ObjectRef[Any] | Asker,
        method: str,
        loans: Collection[ActorId] | None,
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
            if loans:
                self._loans.returned(loans, OWNER)
            _fail(reply, self._died())
            return 0
        number, frame = self._mailbox.post(reply, method, loans, payload, told)
        if frame is not None:
            self._channel.send(frame)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]  # open with the mailbox
            if loans:
                self._loans.lent(loans, self._session)
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
                self._loans.lent(frame[3], session)

    def settle(self, frame: Frame) -> None:
        """Gives an answer to whoever asked."""
        reply = self._mailbox.settle(frame[1])
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
        elif isinstance(reply, weakref.ref):
            ref = reply()
            if ref is not None:
                self._fill(ref, frame)
        elif reply is not None and not isinstance(reply, ObjectRef):
            reply.answer(frame)
        if not self._mailbox and not self._held_back:
            self._idle()

    def fail(self, call: int) -> None:
        """A call gets no answer, as the actor leaves."""
        reply = self._mailbox.settle(call)
        if reply is not None:
            _fail(reply, self._died())

    def close(self) -> None:
        """Refuses new calls; those that were sent go on."""
        self._is_closed = True

    def over(self) -> None:
        """The actor is gone: every call without an answer fails, and every new one."""
        self._is_closed = True
        self._channel = None
        replies, frames = self._mailbox.closed()
        for frame in frames:
            if frame[3]:
                self._loans.returned(frame[3], OWNER)
        for reply in replies:
            _fail(reply, self._died())

    # The replier of the owner's refs.

    def cancel(self, call: int) -> None:
        """Stops a call; see Replier."""
        self._held_back.pop(call, None)
        if self._mailbox.was_sent(call) and self._channel is not None:
            self._channel.send((CANCEL, call))
        frame = self._mailbox.drop(call)
        if frame is not None and frame[3]:
            self._loans.returned(frame[3], OWNER)
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

    def _fill(self, ref: ObjectRef[Any], frame: Frame) -> None:
        loans = frame[-2]
        if loans:
            self._loans.arrived(loans, OWNER)
        if not ref.done():
            fill(ref, frame)
        if loans:
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
        if isinstance(error, ActorDiedError) and error.exit.cause == "asked":
            # Whoever ended the actor knows: no report of a ref that nobody awaits.
            ref.exception()
