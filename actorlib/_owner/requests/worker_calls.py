"""Unanswered calls of workers: the recipient and the parent of each.

A worker's call may call an actor or a function, or end an actor. Its answer is relayed
unchanged, and so are the items of a stream.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, final

from actorlib._base.ids import LINKED
from actorlib._futures.flow_control import UNREAD
from actorlib._owner.actors.worker_session import Phase
from actorlib._owner.calls.response_target import IS_CANCELLED, Clock, Timed, Timekeeper
from actorlib._owner.objects.refcount import OWNER
from actorlib._owner.teardown import tear_down
from actorlib._wire.arguments import load_handle
from actorlib._wire.call_headers import late_error
from actorlib._wire.errors import dump_exception
from actorlib._wire.messages import (
    AT_ONCE,
    BEHIND_CALLS,
    CANCELLED,
    DIED,
    FAILURE,
    ITEM,
    RESULT,
    TO_RESTART,
)
from actorlib._wire.serialization import Reduced, dump, encode, one_line
from actorlib.exceptions import DeadlineExceededError

if TYPE_CHECKING:
    from actorlib._base.ids import CountedId
    from actorlib._core.current_call import Deadline
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.calls.response_target import RemoteTarget, UnansweredCalls
    from actorlib._owner.functions.task_pool import TaskPool
    from actorlib._owner.objects.refcount import BorrowedReferences
    from actorlib._wire.messages import Frame


@final
class WorkerCalls:
    """Keeps the unanswered calls of all workers.

    The key of a call is the number of its worker's session and its own number there.

    Attributes:
        streams: The streams that workers may still acknowledge, by the same keys.
        deferred: The calls with a deadline whose arguments have not arrived. The callee
            keeps the deadlines of all others.
    """

    def __init__(self, references: BorrowedReferences, clock: Clock) -> None:
        self.streams: dict[tuple[int, int], WorkerStream] = {}
        self.deferred: Timekeeper[tuple[int, int]] = Timekeeper(clock, self._is_late)
        self.references = references
        self._calls: dict[tuple[int, int], WorkerCall] = {}
        self._children: dict[tuple[int, int], set[int]] = {}
        self._awaited: dict[tuple[int, int], asyncio.Future[None]] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def put(self, call: WorkerCall) -> None:
        """Adds a call, or updates it."""
        session, number, parent = call.session.number, call.call_id, call.parent_call
        self._calls[session, number] = call
        if parent:
            children = self._children.get((session, parent))
            if children is None:
                self._children[session, parent] = {number}
            else:
                children.add(number)

    def defer(self, call: WorkerCall, deadline: Deadline | None) -> None:
        """Adds a call that waits for its arguments: it may end before they arrive."""
        self.put(call)
        call.session.cleanup.add(Phase.ANSWERS, self.on_worker_gone)
        if deadline is not None:
            key = call.session.number, call.call_id
            self.deferred.add(key, call.method, deadline)

    def expect(self, session: WorkerSession, call: int) -> WorkerCall:
        """Adds a worker's request whose answer may come later."""
        request = WorkerCall(self, session, call)
        self.put(request)
        session.cleanup.add(Phase.ANSWERS, self.on_worker_gone)
        return request

    def get(self, session: int, call: int) -> WorkerCall | None:
        return self._calls.get((session, call))

    def pop(self, session: int, call: int) -> WorkerCall | None:
        """Removes a call; None if it was removed before."""
        if self.deferred.calls:
            self.deferred.discard((session, call))
        if self._awaited:
            waiter = self._awaited.pop((session, call), None)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
        worker_call = self._calls.pop((session, call), None)
        if worker_call is not None and worker_call.parent_call:
            key = session, worker_call.parent_call
            children = self._children[key]
            children.discard(call)
            if not children:
                del self._children[key]
        return worker_call

    def of_clients(self) -> list[asyncio.Future[None]]:
        """Returns a future for each unanswered call of a client, done at its end."""
        new_future = asyncio.get_running_loop().create_future
        return [
            self._awaited.get(key) or self._awaited.setdefault(key, new_future())
            for key, call in self._calls.items()
            if call.session.is_client
        ]

    def children(self, session: int, parent_call: int) -> list[int]:
        return sorted(self._children.get((session, parent_call), ()))

    def cancel_children(
        self, session: int, parent_call: int, *, by_force: bool = False
    ) -> None:
        """Cancels the child calls of a call, recursively.

        Args:
            session: The number of the session that ran the parent call.
            parent_call: Its number there.
            by_force: Whether the processes of running functions are ended.
        """
        for number in self.children(session, parent_call):
            call = self.get(session, number)
            self.streams.pop((session, number), None)
            # First: the waiting thread may be the one to run it.
            if call is not None and not call.drop(by_force=by_force):
                call.answer(IS_CANCELLED)

    def acknowledge(self, session: WorkerSession, call: int, count: int) -> None:
        """Relays the number of items that a worker has taken from a stream."""
        stream = self.streams.get((session.number, call))
        if stream is not None:
            stream.took(count)

    def give_up(self, borrowed: tuple[CountedId, ...] | None) -> None:
        """Returns the borrowed references of a frame without a recipient."""
        if borrowed:
            self.references.arrived(borrowed, OWNER)
            self.references.returned(borrowed, OWNER)

    def on_worker_gone(self, session: WorkerSession) -> None:
        """Leaves a worker's streams, and removes calls that the callee does not answer.

        These wait for their arguments or went over a link; all others go on, and are
        removed when they are answered.
        """
        number = session.number
        keys = [key for key in self.streams if key[0] == number]
        streams = [self.streams.pop(key) for key in keys]
        tear_down(session, *(partial(self._leave, stream) for stream in streams))
        calls = [call for call in self._calls.values() if call.session.number == number]
        for call in calls:
            if not 0 < call.number < LINKED:
                self.pop(number, call.call_id)

    def _leave(self, stream: WorkerStream) -> None:
        self.pop(stream.session.number, stream.call.call_id)
        stream.leave()

    def _is_late(self, key: tuple[int, int], timed: Timed) -> None:
        call = self.get(*key)
        self.streams.pop(key, None)
        if call is not None:
            call.fail(late_error(call.where, timed.deadline))


@final
class WorkerCall:
    """Relays the answer of one call to the worker that waits; see RemoteTarget.

    Attributes:
        session: The calling worker.
        call_id: The number of the call in the worker.
        supervisor: The supervisor of the called actor; None for other calls.
        method: The name of the method or function.
        parent_call: The number in the worker of the parent call, or 0.
        pool: The pool that runs the called function; None for other calls.
        number: The number of the call at the actor or the pool; 0 while its arguments
            have not arrived.
        has_deadline: Whether it has a deadline.
    """

    __slots__ = (
        "_calls",
        "call_id",
        "has_deadline",
        "method",
        "number",
        "parent_call",
        "pool",
        "session",
        "supervisor",
    )

    def __init__(
        self,
        calls: WorkerCalls,
        session: WorkerSession,
        call_id: int,
        supervisor: ActorSupervisor | None = None,
        method: str = "",
        parent_call: int = 0,
        pool: TaskPool | None = None,
    ) -> None:
        self._calls = calls
        self.session = session
        self.call_id = call_id
        self.supervisor = supervisor
        self.method = method
        self.parent_call = parent_call
        self.pool = pool
        self.number = 0
        self.has_deadline = False

    @property
    def where(self) -> str:
        """The called method with its class, or the function."""
        if self.supervisor is None:  # a function
            return self.method
        return self.supervisor.record.method(self.method)

    def drop(self, *, recursive: bool = True, by_force: bool = False) -> bool:
        """Cancels the call, if it was sent; True if an answer follows at its end.

        Args:
            recursive: Whether its child calls are cancelled, too.
            by_force: Whether the process of a running function is ended.
        """
        if not self.number:
            return False
        if self.supervisor is not None:
            return self.supervisor.router.cancel(self.number, recursive=recursive)
        if self.pool is not None:
            stop = self.pool.force_cancel if by_force else self.pool.cancel
            stop(self.number, recursive=recursive)
        return False

    def answer(self, frame: Frame) -> None:
        session = self.session
        self._calls.pop(session.number, self.call_id)
        borrowed = frame[-2]
        if not session.channel.is_open:
            self._calls.give_up(borrowed)
            return
        if borrowed:
            self._calls.references.arrived(borrowed, session.number)
        session.channel.send((frame[0], self.call_id, *frame[2:]))
        if session.when_answered is not None:
            session.when_answered(self.call_id)

    def answer_with(self, supervisor: ActorSupervisor) -> None:
        """Answers with a handle of an actor, which the worker borrows."""
        record = supervisor.record
        name = record.options.name
        handle = Reduced(load_handle, record.id, record.interface, name)
        self.answer((RESULT, 0, (record.id,), dump(handle)))

    def fail(self, error: BaseException) -> None:
        kind = DIED
        if isinstance(error, DeadlineExceededError) and error.is_inherited:
            kind = CANCELLED  # the error goes to the callers of the parent call
        summary, payload = one_line(error), dump_exception(error)
        self.answer((FAILURE, 0, kind, summary, "", "", None, payload))


@final
class WorkerStream:
    """Relays one stream, of an actor or a function, to the worker that reads it.

    Args:
        calls: The unanswered calls of workers.
        call: The call of the worker that returns the stream.
        source: Sends the items.
        is_detached: Whether the call goes on when the worker has ended.
        is_capped: Whether acknowledgements matter even after the end of the stream.
    """

    __slots__ = (
        "_calls",
        "_is_capped",
        "_is_detached",
        "_is_gone",
        "_number",
        "_source",
        "call",
    )

    def __init__(
        self,
        calls: WorkerCalls,
        call: WorkerCall,
        source: UnansweredCalls[Any],
        *,
        is_detached: bool,
        is_capped: bool = False,
    ) -> None:
        self.call = call
        self._calls = calls
        self._source = source
        self._is_detached = is_detached
        self._is_capped = is_capped
        self._is_gone = False
        self._number = 0
        calls.streams[call.session.number, call.call_id] = self
        call.session.cleanup.add(Phase.ANSWERS, calls.on_worker_gone)

    @property
    def session(self) -> WorkerSession:
        return self.call.session

    @property
    def parent_call(self) -> int:
        """The number in the worker of the reading call, or 0."""
        return self.call.parent_call

    def item(self, frame: Frame) -> None:
        _, self._number, index, borrowed, payload = frame
        call = self.call
        channel = call.session.channel
        if self._is_gone or not channel.is_open:
            if index == 0:
                self.took(UNREAD)
            return
        if borrowed:
            self._calls.references.arrived(borrowed, call.session.number)
        channel.send((ITEM, call.call_id, index, borrowed, payload))

    def took(self, count: int) -> None:
        """Acknowledges items to the source, or with UNREAD the end of the worker."""
        self._is_gone = self._is_gone or count == UNREAD
        if self._number:
            self._source.acknowledge(self._number, count)

    def leave(self) -> None:
        """Cancels the call of a worker that has ended, unless it is detached."""
        self.took(UNREAD)
        if not self._is_detached:
            self.call.drop()

    def answer(self, frame: Frame) -> None:
        self.call.answer(frame)
        self._end()

    def fail(self, error: BaseException) -> None:
        self.call.fail(error)
        self._end()

    def _end(self) -> None:
        if not self._is_capped:
            key = self.call.session.number, self.call.call_id
            self._calls.streams.pop(key, None)


def answer_when(
    call: RemoteTarget,
    supervisor: ActorSupervisor,
    ending: int | None = None,
    *,
    by: str = "another actor",
) -> None:
    """Answers a worker when an actor is ready, or has ended.

    Args:
        call: The call of the worker.
        supervisor: The supervisor of the actor.
        ending: How the actor is ended; None to wait until it is ready.
        by: The caller that ends it, for people.
    """
    settled = supervisor.ready() if ending is None else _ENDINGS[ending](supervisor, by)

    def answer(future: asyncio.Future[None]) -> None:
        error = future.exception()
        if error is not None:
            call.fail(error)
        else:
            call.answer((RESULT, 0, None, encode(None)))

    settled.add_done_callback(answer)


def _end(supervisor: ActorSupervisor, by: str) -> asyncio.Future[None]:
    supervisor.end(f"it was ended by {by}")
    return supervisor.ended


def _kill(supervisor: ActorSupervisor, by: str) -> asyncio.Future[None]:
    supervisor.kill(f"it was killed by {by}")
    return supervisor.ended


def _restart(supervisor: ActorSupervisor, by: str) -> asyncio.Future[None]:
    return supervisor.interrupt(f"it was killed by {by}, to be restarted")


_ENDINGS = {BEHIND_CALLS: _end, AT_ONCE: _kill, TO_RESTART: _restart}
