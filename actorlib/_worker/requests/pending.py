"""Keeps the calls of a worker that are not sent yet, and those without an answer.

A call whose arguments are refs of this worker waits here until they have their values,
and those behind it to the same actor wait with it. The ref of an answer is held
strongly until a wait for it is cancelled, and weakly from then on.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from actorlib._futures.object_ref import ObjectRef, mark_seen
from actorlib._futures.stream_reader import StreamReader
from actorlib._wire.arguments import Arguments, Call, call_when_done
from actorlib._wire.errors import fill_future, load_result
from actorlib._wire.messages import CANCEL, CANCELLED, FAILURE, Frame
from actorlib._wire.ordering import CallOrder

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from actorlib._base.ids import ActorId, CountedId
    from actorlib._core.engine import Engine
    from actorlib._futures.object_ref import ResultOwner
    from actorlib._shm.memory import Payload

    FrameMaker: TypeAlias = Callable[
        [Call, Payload, list[CountedId] | None], Frame | None
    ]


_Entry = ObjectRef[Any] | weakref.ref[ObjectRef[Any]] | StreamReader


class PendingResults:
    """Fills the refs and streams that wait for an answer, by number.

    Args:
        loop: What they take for their loop.
        owner: The engine that they belong to.

    Attributes:
        stopped: The calls that were cancelled, and are answered when they have ended:
            their refs are cancelled then, whatever the answer is.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, owner: ResultOwner) -> None:
        self.stopped: set[int] = set()
        self._loop = loop
        self._owner = owner
        self._numbers = itertools.count(1)
        self._entries: dict[int, _Entry] = {}
        self._lost: Exception | None = None

    def __contains__(self, call: object) -> bool:
        """Whether somebody waits for a call."""
        return call in self._entries

    def new(self, owner: ResultOwner | None = None) -> ObjectRef[Any]:
        """A ref with the number under which its answer will come.

        Args:
            owner: Cancels it and waits for it; None for the engine.
        """
        ref: ObjectRef[Any] = ObjectRef(loop=self._loop)
        self.adopt(ref)
        if owner is not None:
            ref.result_owner = owner
        return ref

    def new_unasked(self, cls: type[ObjectRef[Any]]) -> ObjectRef[Any]:
        """A ref that no answer comes for yet."""
        ref = cls(loop=self._loop)
        ref.bind(self._owner, 0)
        return ref

    def adopt(self, ref: ObjectRef[Any]) -> None:
        """Gives a ref the number under which its answer will come."""
        ref.bind(self._owner, next(self._numbers))
        self._entries[ref.call] = ref
        if self._lost is not None:
            self.fail(ref.call, self._lost)

    def add(self, reader: StreamReader) -> None:
        """Gives a stream the number under which its items will come."""
        reader.bind(self._owner, next(self._numbers))
        self._entries[reader.call] = reader

    def drop(self, call: int) -> bool:
        """Forgets a call that nobody waits for any more; False if nobody did."""
        return self._entries.pop(call, None) is not None

    def release_if_unused(
        self, ref: ObjectRef[Any], gone: Callable[[object], None]
    ) -> None:
        """Holds a ref weakly from now on.

        Args:
            ref: The ref.
            gone: Called when nobody holds it; anywhere.
        """
        if ref.call in self._entries:
            self._entries[ref.call] = weakref.ref(ref, gone)

    def settle(self, frame: Frame) -> None:
        """Fills the ref that a frame answers."""
        ref = self._take_out(frame[1])
        if self.stopped and frame[1] in self.stopped:
            self.stopped.discard(frame[1])
            if isinstance(ref, ObjectRef) and not ref.done():
                ref.set_cancelled()
        elif ref is not None and not ref.done():
            fill_future(ref, frame)
            if frame[0] == FAILURE and frame[2] == CANCELLED:
                ref.exception()  # no report of a ref that nobody awaits any more

    def item(self, frame: Frame) -> None:
        """Gives an item to the stream that it is of."""
        reader = self._entries.get(frame[1])
        if isinstance(reader, StreamReader):
            reader.put(
                frame[1], frame[2], frame[4], partial(load_result, borrowed=frame[3])
            )

    def fail(self, call: int, error: BaseException) -> None:
        """Fails the ref of a call: it gets no answer."""
        ref = self._take_out(call)
        if ref is not None and not ref.done():
            ref.set_exception(error)

    def fail_all(self, error: Exception) -> None:
        """Fails all refs, those of later calls too; nobody need look at them."""
        self._lost = error
        self.stopped.clear()
        for call, entry in list(self._entries.items()):
            ref = entry() if isinstance(entry, weakref.ref) else entry
            self.fail(call, error)
            if isinstance(ref, ObjectRef):
                mark_seen(ref)  # it is not a fault of a call's

    def _take_out(self, call: int) -> ObjectRef[Any] | StreamReader | None:
        entry = self._entries.pop(call, None)
        return entry() if isinstance(entry, weakref.ref) else entry


class OrderedSender:
    """Sends frames about actors, each behind those that wait for their arguments.

    Args:
        engine: Counts the holders of the references in frames that wait.
        results: The calls without an answer.
        post: Sends a frame.

    Attributes:
        lock: Held while a frame is sent, so that none passes another.
        deferred: The numbers of the calls that wait for their arguments.
    """

    def __init__(
        self, engine: Engine, results: PendingResults, post: Callable[[Frame], None]
    ) -> None:
        self._engine = engine
        self._results = results
        self._post = post
        self.lock = threading.RLock()
        self.deferred: set[int] = set()
        self._order: CallOrder[ActorId, Callable[[], None]] = CallOrder()
        self._unready: dict[Callable[[], None], Sequence[ObjectRef[Any]]] = {}
        self._when_all_sent: list[Callable[[], None]] = []

    @property
    def is_blocked(self) -> bool:
        """Whether a frame waits, so that another may have to wait behind it."""
        return bool(self._order)

    def send(self, call: Call, frame: FrameMaker) -> None:
        """Sends a call when it has its arguments and those before it have gone.

        Args:
            call: The call.
            frame: Makes its frame from its arguments and what they lend; None if it is
                sent already.
        """
        with self.lock:
            if not call.arguments.refs and not self._order:  # the usual case, at hand
                self._post_if(self._frame_of(call, frame))
                return
            self.post(
                call.callee.actor,
                partial(self._frame_of, call, frame),
                call.arguments,
                may_overtake=not call.callee.keeps_order,
                call=call,
            )

    def _frame_of(self, call: Call, frame: FrameMaker) -> Frame | None:
        if call.number not in self._results:  # cancelled while it waited
            return None
        try:
            payload, lent = call.arguments.payload()
        except Exception as error:  # noqa: BLE001  # it is the answer
            self._results.fail(call.number, error)
            return (CANCEL, call.number, False)
        return frame(call, payload, lent)

    def post(
        self,
        actor: ActorId,
        frame: Callable[[], Frame | None],
        arguments: Arguments | None = None,
        *,
        may_overtake: bool = False,
        call: Call | None = None,
    ) -> None:
        """Sends a frame about an actor, behind those that wait for their arguments.

        Args:
            actor: Whom it is about.
            frame: Makes it when it may go; None if it need not any more.
            arguments: What it waits for.
            may_overtake: Whether it may go before what waits longer.
            call: The call that it makes, which is announced if it has to wait.
        """
        refs = arguments.refs if arguments is not None else ()
        actors: list[CountedId] = [actor]
        if arguments is not None:
            actors += arguments.borrowed

        def send_deferred() -> None:
            self._post_if(frame())
            if call is not None:
                self.deferred.discard(call.number)
            for other in actors:
                self._engine.release(other)

        with self.lock:
            if not refs and not self._order:
                self._post_if(frame())
                return
            ready = arguments is None or arguments.are_ready
            if self._order.add(actor, send_deferred, ready=ready, passes=may_overtake):
                self._post_if(frame())
                return
            if call is not None:
                self.deferred.add(call.number)
                self._post(call.deferred())
            for other in actors:  # until the frame has gone: nobody else may hold them
                self._engine.retain(other)

        def settled() -> None:
            with self.lock:
                self._unready.pop(settled, None)
                for send_next in self._order.resolve(actor, send_deferred):
                    send_next()

            if not self._order:
                waiting, self._when_all_sent = self._when_all_sent, []
                for callback in waiting:
                    callback()

        if refs:
            self._unready[settled] = refs
        call_when_done(refs, settled)

    def send_ready(self) -> None:
        """Sends what has its arguments by now, while the loop cannot say so."""
        for settled, refs in list(self._unready.items()):
            if all(ref.done() for ref in refs):
                settled()

    def when_all_sent(self, then: Callable[[], None]) -> None:
        """Calls back when no frame waits for its arguments any more, perhaps now."""
        with self.lock:
            if self._order:
                self._when_all_sent.append(then)
                return
        then()

    def _post_if(self, frame: Frame | None) -> None:
        if frame is not None:
            self._post(frame)
