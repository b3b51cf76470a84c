"""Keeps the calls of a worker that are not sent yet, and those without an answer.

A call whose arguments are refs of this worker waits here for their values, and later
calls to the same actor wait behind it. The ref of an answer is held strongly until its
holder cancels the wait, and weakly from then on.
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

    Attributes:
        stopped: Calls that were cancelled and are answered when they have ended. Their
            refs are cancelled then, whatever the answer is.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, owner: ResultOwner) -> None:
        self.stopped: set[int] = set()
        self.loop = loop
        self._owner = owner
        self._numbers = itertools.count(1)
        self._entries: dict[int, _Entry] = {}
        self._lost: Exception | None = None

    def __contains__(self, call: object) -> bool:
        return call in self._entries

    def new(self, owner: ResultOwner | None = None) -> ObjectRef[Any]:
        """Creates a ref with the number of its answer; its owner may be another one."""
        ref: ObjectRef[Any] = ObjectRef(loop=self.loop)
        self.adopt(ref)
        if owner is not None:
            ref.result_owner = owner
        return ref

    def new_unasked(self, cls: type[ObjectRef[Any]]) -> ObjectRef[Any]:
        """Creates a ref without a number: nothing was requested yet."""
        ref = cls(loop=self.loop)
        ref.bind(self._owner, 0)
        return ref

    def adopt(self, ref: ObjectRef[Any]) -> None:
        """Assigns a ref the number of its answer."""
        ref.bind(self._owner, next(self._numbers))
        self._entries[ref.call] = ref
        if self._lost is not None:
            self.fail(ref.call, self._lost)

    def add(self, reader: StreamReader) -> None:
        reader.bind(self._owner, next(self._numbers))
        self._entries[reader.call] = reader

    def drop(self, call: int) -> bool:
        """Forgets a call; returns False if it was answered or forgotten before."""
        return self._entries.pop(call, None) is not None

    def release_if_unused(
        self, ref: ObjectRef[Any], gone: Callable[[object], None]
    ) -> None:
        """Holds a ref weakly from now on.

        ``gone`` is called when the ref has no holder, on any thread.
        """
        if ref.call in self._entries:
            self._entries[ref.call] = weakref.ref(ref, gone)

    def settle(self, frame: Frame) -> None:
        ref = self._take_out(frame[1])
        if self.stopped and frame[1] in self.stopped:
            self.stopped.discard(frame[1])
            if isinstance(ref, ObjectRef) and not ref.done():
                ref.set_cancelled()
        elif ref is not None and not ref.done():
            fill_future(ref, frame)
            if frame[0] == FAILURE and frame[2] == CANCELLED:
                ref.exception()  # no report of a ref that is no longer awaited

    def item(self, frame: Frame) -> None:
        reader = self._entries.get(frame[1])
        if isinstance(reader, StreamReader):
            reader.put(
                frame[1], frame[2], frame[4], partial(load_result, borrowed=frame[3])
            )

    def fail(self, call: int, error: BaseException) -> None:
        ref = self._take_out(call)
        if ref is not None and not ref.done():
            ref.set_exception(error)

    def fail_all(self, error: Exception) -> None:
        """Fails all refs, and those of later calls; their errors need no retrieval."""
        self._lost = error
        self.stopped.clear()
        for call, entry in list(self._entries.items()):
            ref = entry() if isinstance(entry, weakref.ref) else entry
            self.fail(call, error)
            if isinstance(ref, ObjectRef):
                mark_seen(ref)  # the call is not to blame

    def _take_out(self, call: int) -> ObjectRef[Any] | StreamReader | None:
        entry = self._entries.pop(call, None)
        return entry() if isinstance(entry, weakref.ref) else entry


class RefOwner:
    """Owns refs in place of the engine: cancels their calls in another way.

    ``cancel`` returns True if the call is answered when it has ended.
    """

    def __init__(self, engine: ResultOwner, cancel: Callable[..., bool | None]) -> None:
        self.cancel = cancel
        self.release_if_unused = engine.release_if_unused
        self.watch = engine.watch
        self.wait = engine.wait
        self.name = engine.name
        self.travel = engine.travel


class OrderedSender:
    """Sends frames about actors, each behind earlier frames that wait for arguments.

    Attributes:
        lock: Held while a frame is sent, so that no frame overtakes another.
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
        """Whether a frame waits, so that others may have to wait behind it."""
        return bool(self._order)

    def send(self, call: Call, frame: FrameMaker) -> None:
        """Sends a call when its arguments are ready and earlier calls were sent.

        ``frame`` creates its frame from its arguments and their references, or returns
        None if it has sent the call over a link.
        """
        with self.lock:
            if not call.arguments.refs and not self._order:  # the usual case
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
            payload, borrowed = call.arguments.payload()
        except Exception as error:  # noqa: BLE001  # it becomes the answer
            self._results.fail(call.number, error)
            return (CANCEL, call.number, False)
        return frame(call, payload, borrowed)

    def post(
        self,
        actor: ActorId,
        frame: Callable[[], Frame | None],
        arguments: Arguments | None = None,
        *,
        may_overtake: bool = False,
        call: Call | None = None,
    ) -> None:
        """Sends a frame about an actor, behind frames that wait for their arguments.

        ``frame`` creates the frame when it is sent, or returns None if it is no longer
        needed. The call of the frame, if any, is announced if it has to wait.
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
            for other in actors:  # held until the frame is sent
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
        """Sends the frames whose arguments are ready, while the loop is blocked."""
        for settled, refs in list(self._unready.items()):
            if all(ref.done() for ref in refs):
                settled()

    def when_all_sent(self, then: Callable[[], None]) -> None:
        """Calls a function when no frame waits for its arguments, possibly now."""
        with self.lock:
            if self._order:
                self._when_all_sent.append(then)
                return
        then()

    def _post_if(self, frame: Frame | None) -> None:
        if frame is not None:
            self._post(frame)
