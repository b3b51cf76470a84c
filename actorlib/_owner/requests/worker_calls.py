"""Calls of workers that have no answer: who gets it, and which call made which.

A worker's call may be of an actor, of a function, or for an actor's end. Its answer is
passed on as it came, and so are the items of a stream.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, final

from actorlib._base.ids import LINKED
from actorlib._futures.flow_control import UNREAD
from actorlib._owner.calls.deadlines import Clock, Timed, Timekeeper
from actorlib._owner.calls.response_target import IS_CANCELLED
from actorlib._owner.objects.refcount import OWNER
from actorlib._owner.teardown import Phase, tear_down
from actorlib._wire.arguments import PickledHandle
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
from actorlib._wire.serialization import dump, encode, one_line
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
    """Keeps the calls of all workers that have no answer.

    A call is known by the number of its worker's session and by its own number there.

    Args:
        references: Counts what answers bring.
        clock: Says whose time is over.

    Attributes:
        references: As given.
        streams: Those of which a worker may still say what it has taken.
        deferred: Those with a deadline whose arguments are not there yet. All others'
            deadlines are kept where they went.
    """

    def __init__(self, references: BorrowedReferences, clock: Clock) -> None:
        self.streams = WorkerStreams()
        self.deferred: Timekeeper[tuple[int, int]] = Timekeeper(clock, self._is_late)
        self.references = references
        self._calls: dict[tuple[int, int], WorkerCall] = {}
        self._children: dict[tuple[int, int], set[int]] = {}
        self._awaited: dict[tuple[int, int], asyncio.Future[None]] = {}

    def __len__(self) -> int:
        """Counts the calls without an answer."""
        return len(self._calls)

    def put(self, call: WorkerCall) -> None:
        """Takes a call, or what has changed about it."""
        session, number, parent = call.session.number, call.call_id, call.parent_call
        self._calls[session, number] = call
        if parent:
            children = self._children.get((session, parent))
            if children is None:
                self._children[session, parent] = {number}
            else:
                children.add(number)

    def defer(self, call: WorkerCall, deadline: Deadline | None) -> None:
        """Takes a call that waits for its arguments: it may end before they come."""
        self.put(call)
        call.session.cleanup.add(Phase.ANSWERS, self.on_worker_gone)
        if deadline is not None:
            key = call.session.number, call.call_id
            self.deferred.add(key, call.method, deadline)

    def expect(self, session: WorkerSession, call: int) -> WorkerCall:
        """Adds a worker's question that may have to wait for its answer."""
        question = WorkerCall(self, session, call)
        self.put(question)
        session.cleanup.add(Phase.ANSWERS, self.on_worker_gone)
        return question

    def get(self, session: int, call: int) -> WorkerCall | None:
        """Finds a call that has no answer; None if it has one."""
        return self._calls.get((session, call))

    def pop(self, session: int, call: int) -> WorkerCall | None:
        """Removes a call that is answered or not wanted; None if it was before."""
        if self.deferred.calls:
            self.deferred.discard((session, call))
        if self._awaited:
            over = self._awaited.pop((session, call), None)
            if over is not None and not over.done():
                over.set_result(None)
        found = self._calls.pop((session, call), None)
        if found is not None and found.parent_call:
            key = session, found.parent_call
            children = self._children[key]
            children.discard(call)
            if not children:
                del self._children[key]
        return found

    def of_clients(self) -> list[asyncio.Future[None]]:
        """Gives the calls of clients that have no answer, each done when it is over."""
        new_future = asyncio.get_running_loop().create_future
        return [
            self._awaited.get(key) or self._awaited.setdefault(key, new_future())
            for key, call in self._calls.items()
            if call.session.is_client
        ]

    def children(self, session: int, parent_call: int) -> list[int]:
        """Lists the calls that a call has made, in order."""
        return sorted(self._children.get((session, parent_call), ()))

    def cancel_children(
        self, session: int, parent_call: int, *, by_force: bool = False
    ) -> None:
        """Cancels the calls that a call has made, and theirs.

        Args:
            session: The number of the session of the actor that ran it.
            parent_call: Its number there.
            by_force: Whether the processes of functions that run are ended.
        """
        for number in self.children(session, parent_call):
            call = self.get(session, number)
            self.streams.end(session, number)
            # First: whoever waits may be the one to run it.
            if call is not None and not call.drop(by_force=by_force):
                call.answer(IS_CANCELLED)

    def give_up(self, borrowed: tuple[CountedId, ...] | None) -> None:
        """Gives back what a frame brought and nobody gets."""
        if borrowed:
            self.references.arrived(borrowed, OWNER)
            self.references.returned(borrowed, OWNER)

    def on_worker_gone(self, session: WorkerSession) -> None:
        """Leaves a worker's streams, and forgets calls that the owner has no answer of.

        Those waited for their arguments or went over a link; all others go on, and are
        forgotten when they are answered.
        """
        streams = self.streams.forget(session.number)
        tear_down(session, *(partial(self._leave, stream) for stream in streams))
        number = session.number
        calls = [call for call in self._calls.values() if call.session.number == number]
        for call in calls:
            if not 0 < call.number < LINKED:
                self.pop(number, call.call_id)

    def _leave(self, stream: WorkerStream) -> None:
        self.pop(stream.session.number, stream.call.call_id)
        stream.leave()

    def _is_late(self, key: tuple[int, int], timed: Timed) -> None:
        call = self.get(*key)
        self.streams.end(*key)
        if call is not None:
            call.fail(late_error(call.where, timed.deadline))


@final
class WorkerCall:
    """Passes the answer of one call on to the worker that waits; see RemoteTarget.

    Args:
        calls: Keeps those that have no answer.
        session: The worker.
        call_id: The number of the call in the worker.
        supervisor: That of the actor that it calls, if it calls one.
        method: What it calls.
        parent_call: The number in the worker of the call that made it, or 0.
        pool: Who runs the function that it calls, if it calls one.

    Attributes:
        session: See above.
        call_id: See above.
        supervisor: See above.
        method: See above.
        parent_call: See above.
        pool: See above.
        number: The number that the call has with the actor or the pool; 0 while its
            arguments are not there.
        has_deadline: Whether it has one.
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
        """Names what it calls, with the class."""
        if self.supervisor is None:  # a function
            return self.method
        return self.supervisor.record.method(self.method)

    def drop(self, *, recursive: bool = True, by_force: bool = False) -> bool:
        """Cancels the call, if it was made; True if it answers when it has ended.

        Args:
            recursive: If True, the calls that it has made are cancelled, too.
            by_force: Whether the process of a function that runs is ended.
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
        """Passes the answer on."""
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
        """Answers with an actor, which the worker holds from then on."""
        record = supervisor.record
        lent = PickledHandle(record.id, record.interface, record.options.name)
        self.answer((RESULT, 0, (record.id,), dump(lent)))

    def fail(self, error: BaseException) -> None:
        """Tells that there will be none."""
        kind = DIED
        if isinstance(error, DeadlineExceededError) and error.is_inherited:
            kind = CANCELLED  # as whoever waits for the parent call hears
        summary, payload = one_line(error), dump_exception(error)
        self.answer((FAILURE, 0, kind, summary, "", "", None, payload))


@final
class WorkerStream:
    """Passes one stream, of an actor or a function, on to the worker that reads it.

    Args:
        calls: Keeps the calls of workers that have no answer.
        call: The call of the worker's that it is the answer of.
        source: Where the items come from.
        is_detached: Whether the call goes on when the worker is gone.
        is_capped: Whether what the worker takes matters also behind the end.

    Attributes:
        call: See above.
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
        calls.streams.add(self)
        call.session.cleanup.add(Phase.ANSWERS, calls.on_worker_gone)

    @property
    def session(self) -> WorkerSession:
        """The worker."""
        return self.call.session

    @property
    def parent_call(self) -> int:
        """The number in the worker of the call that reads it, or 0."""
        return self.call.parent_call

    def item(self, frame: Frame) -> None:
        """Passes an item on."""
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
        """Tells the source that the worker has taken items, or is gone."""
        self._is_gone = self._is_gone or count == UNREAD
        if self._number:
            self._source.acknowledge(self._number, count)

    def leave(self) -> None:
        """Cancels the call of a worker that is gone, unless it is detached."""
        self.took(UNREAD)
        if not self._is_detached:
            self.call.drop()

    def answer(self, frame: Frame) -> None:
        """Passes the end on."""
        self.call.answer(frame)
        self._end()

    def fail(self, error: BaseException) -> None:
        """Passes on why there is no end."""
        self.call.fail(error)
        self._end()

    def _end(self) -> None:
        if not self._is_capped:
            self._calls.streams.end(self.call.session.number, self.call.call_id)


@final
class WorkerStreams:
    """Finds the streams that workers read, by the worker's own number for each."""

    def __init__(self) -> None:
        self._open: dict[int, dict[int, WorkerStream]] = {}

    def __len__(self) -> int:
        """Counts the streams that workers read."""
        return sum(map(len, self._open.values()))

    def add(self, stream: WorkerStream) -> None:
        """Takes a stream that a worker begins to read."""
        call = stream.call
        self._open.setdefault(call.session.number, {})[call.call_id] = stream

    def took(self, session: int, call: int, count: int) -> None:
        """Passes on how many items a worker has taken."""
        stream = self._open.get(session, {}).get(call)
        if stream is not None:
            stream.took(count)

    def end(self, session: int, call: int) -> None:
        """Forgets a stream of which a worker needs to hear no more."""
        streams = self._open.get(session)
        if streams is not None:
            streams.pop(call, None)
            if not streams:
                del self._open[session]

    def forget(self, session: int) -> list[WorkerStream]:
        """Forgets a worker that is gone; gives what it read, to be left."""
        return list(self._open.pop(session, {}).values())


def answer_when(
    call: RemoteTarget,
    supervisor: ActorSupervisor,
    ending: int | None = None,
    *,
    by: str = "another actor",
) -> None:
    """Answers a worker when an actor is ready, or was ended.

    Args:
        call: The worker.
        supervisor: That of the actor.
        ending: How it is ended; None if it is not.
        by: Who ends it, for people.
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
