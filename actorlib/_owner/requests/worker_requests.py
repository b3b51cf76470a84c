"""Requests of workers: calls of actors and functions, creations, endings.

A worker speaks the same verbs as the owner's own code, as frames. Payloads pass through
without being decoded. A worker that asks about an actor this runtime does not know gets
an error, as would be the owner's own code.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from actorlib._base.ids import LINKED
from actorlib._base.log import warn
from actorlib._owner.calls.response_target import IS_CANCELLED
from actorlib._owner.objects.refcount import OWNER
from actorlib._owner.requests.deadlocks import Deadlocks
from actorlib._owner.requests.peer_links import OF_LINKS, LinkBroker
from actorlib._owner.requests.pending_creations import PendingCreations
from actorlib._owner.requests.placement_groups import serve as serve_group
from actorlib._owner.requests.worker_calls import (
    WorkerCall,
    WorkerCalls,
    WorkerStream,
    answer_when,
)
from actorlib._owner.teardown import Phase
from actorlib._wire.messages import (
    AWAIT,
    BLOCKED,
    CALL_ACTOR,
    CALL_ACTOR_WITH,
    CALL_DEFERRED,
    CANCEL,
    CREATE,
    CREATE_ARGUMENTS,
    DURATION,
    END,
    FIND,
    FORCE_CANCEL,
    GROUP,
    LEAVE,
    LINK_CALLS,
    LIST,
    NOTE_CALLS,
    OBJECT_ANNOUNCE,
    OBJECT_CANCEL,
    OBJECT_GET,
    OBJECT_PUT,
    REGISTER_FUNCTION,
    RELEASE_REFS,
    RESULT,
    RESUME,
    RESUMED,
    RUN,
    STREAM_ACK,
    STUCK,
    WAITS,
    Frame,
    name_of,
)
from actorlib._wire.serialization import decode, dump
from actorlib.exceptions import (
    ActorDiedError,
    ActorNotFoundError,
    Exit,
    ProtocolError,
    SerializationError,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from actorlib._base.ids import ActorId, CountedId, ObjectId
    from actorlib._core.current_call import Deadline
    from actorlib._owner.actors.actor_table import ActorTable
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._shm.memory import Payload
    from actorlib._wire.arguments import SendingEngine

_CLIENT_ANSWER = 0.5
"""Seconds that a client may take to tell whether it has calls over links."""

_OF_TASK_WORKERS = frozenset({REGISTER_FUNCTION, DURATION, BLOCKED, RESUMED})


class WorkerRequests:
    """Serves the requests of the workers of one runtime.

    Args:
        engine: The owner's.
        table: The actors; their sessions are served from now on.
        lists: What a worker may have listed, by the name that it gives that.

    Attributes:
        links: The links between workers.
        others: Serves the kinds of frames that are none of the frequent ones. Features
            add their own.
    """

    def __init__(
        self,
        engine: SendingEngine,
        table: ActorTable,
        lists: Mapping[str, Callable[[], object]],
    ) -> None:
        table.sessions.serve = self.serve
        table.sessions.cancel_children = self.cancel_children
        find = self._find_actor = table.by_id.get
        self._table = table
        self._lists = lists
        self._references = table.references
        self._pool = table.pool
        self._calls = WorkerCalls(table.references, table.clock)
        self._deadlocks = Deadlocks(self._calls.get, find)
        self._creations = PendingCreations(engine, table)
        self.links = LinkBroker(self._calls, find, self.cancel_children)
        self.others: dict[int, Callable[..., None]] = {
            AWAIT: self._await_actor,
            END: self._await_actor,
            CANCEL: self._cancel,
            CALL_DEFERRED: self._defer,
            WAITS: self._wait,
            FIND: self._find,
            LEAVE: self._leave,
            GROUP: self._group,
            STREAM_ACK: self._acknowledge,
            OBJECT_ANNOUNCE: self._announce_object,
            OBJECT_PUT: self._put_object,
            OBJECT_GET: self._get_object,
            OBJECT_CANCEL: self._cancel_object,
            RUN: self._run,
            FORCE_CANCEL: self._force,
            STUCK: self._warn_stuck,
            LINK_CALLS: self._tell_link_calls,
            NOTE_CALLS: self._cannot_note,
        }

    def serve(self, session: WorkerSession, frame: Frame) -> None:
        """Serves one frame of a worker.

        Raises:
            ProtocolError: It is of no kind that workers send.
        """
        kind = frame[0]
        if kind == CALL_ACTOR:
            self._call_actor(session, *frame[1:])
        elif kind == CALL_ACTOR_WITH:
            _, call, parent_call, actor, method, borrowed, headers, payload = frame
            self._call_actor(
                session, call, parent_call, actor, method, borrowed, payload, headers
            )
        elif kind == RELEASE_REFS:
            _, actor, count = frame
            self._references.release(actor, session.number, count)
            # Another of its threads may have got a handle since, and a link.
            if not self._references.has(actor, session.number):
                self.links.returned(session, actor)
        elif kind == CREATE:
            _, call, *creation = frame
            made = WorkerCall(self._calls, session, call) if call else None
            self._creations.create(made, session, *creation)
        elif kind == CREATE_ARGUMENTS:
            self._creations.give(*frame[1:])
        elif kind == LIST:
            self._list(session, *frame[1:])
        elif kind in self.others:
            self.others[kind](session, *frame[1:])
        elif kind in OF_LINKS:
            self.links.serve(session, frame)
        elif kind in _OF_TASK_WORKERS:
            self._serve_task_worker(session, *frame)
        else:
            raise ProtocolError(f"no worker sends {name_of(kind)}")

    def _list(self, session: WorkerSession, call: int, what: str) -> None:
        listed = dump(self._lists[what]())
        WorkerCall(self._calls, session, call).answer((RESULT, call, None, listed))

    def _acknowledge(self, session: WorkerSession, call: int, count: int) -> None:
        self._calls.streams.took(session.number, call, count)

    def _group(
        self, session: WorkerSession, call: int, verb: str, about: Payload
    ) -> None:
        made = self._calls.expect(session, call)
        session.cleanup.add(Phase.GROUPS, self._remove_groups)
        serve_group(self._table.groups, made, session.number, verb, about)

    def _remove_groups(self, session: WorkerSession) -> None:
        self._table.groups.orphan(session.number)

    def _call_actor(
        self,
        session: WorkerSession,
        call: int,
        parent_call: int,
        actor: ActorId,
        method: str,
        borrowed: tuple[CountedId, ...] | None,
        payload: Payload,
        headers: dict[str, Any] | None = None,
    ) -> None:
        supervisor = self._find_actor(actor)
        made = WorkerCall(self._calls, session, call, supervisor, method, parent_call)
        if supervisor is None:
            self._calls.give_up(borrowed)
            made.fail(_unknown(actor))
            return
        if self._calls.deferred.calls:
            self._calls.deferred.discard((session.number, call))
        if headers and "retries" in headers:
            try:
                headers = _load_retries(headers)
            except Exception as error:  # noqa: BLE001  # the user's classes: nobody calls
                made.fail(_unreadable(method, error))
                return
        if borrowed:
            # The worker still holds them; this process does too, until they are sent.
            self._references.arrived(borrowed, OWNER)
        target: WorkerCall | WorkerStream = made
        if headers is not None and "stream" in headers:
            target = WorkerStream(
                self._calls,
                made,
                supervisor.router,
                is_detached="detach" in headers,
                is_capped=supervisor.record.interface.max_unread > 0,
            )
        number = supervisor.router.send(target, method, borrowed, payload, headers)
        if number:
            made.number = number
            made.has_deadline = headers is not None and "deadline" in headers
            self._calls.put(made)

    def _run(
        self,
        session: WorkerSession,
        call: int,
        parent_call: int,
        number: int,
        face: bytes,
        headers: dict[str, Any] | None,
        borrowed: tuple[CountedId, ...] | None,
        payload: Payload,
    ) -> None:
        """Posts a call of a function, which has a number in that worker."""
        pool = self._pool
        if self._calls.deferred.calls:
            self._calls.deferred.discard((session.number, call))
        entry = pool.functions.entry_for_worker(session.number, number, face)
        made = WorkerCall(
            self._calls, session, call, None, entry.label, parent_call, pool
        )
        made.has_deadline = headers is not None and "deadline" in headers
        if borrowed:
            # The worker still holds them; this process does too, until it is answered.
            self._references.arrived(borrowed, OWNER)
        target: WorkerCall | WorkerStream = made
        if entry.is_stream:
            is_detached = bool(headers and "detach" in headers)
            target = WorkerStream(self._calls, made, pool, is_detached=is_detached)
        made.number = pool.post(
            target, entry, borrowed, payload, headers, is_nested=not session.is_client
        )
        if made.number:
            self._calls.put(made)

    def _serve_task_worker(
        self, session: WorkerSession, kind: int, *fields: Any
    ) -> None:
        """Serves what a worker of functions says of itself."""
        pool = self._pool
        if kind == REGISTER_FUNCTION:
            pool.functions.register(session, *fields)
            return
        worker = pool.workers.by_id.get(session.actor)
        if worker is None:
            return
        if kind == DURATION:
            pool.note_duration(worker, *fields)
        elif kind == BLOCKED:
            if not worker.tasks:
                raise ProtocolError("no call runs there that could wait")
            number, calls, count = fields
            pending = {call for call in calls if self._calls.get(session.number, call)}
            left = count - (len(calls) - len(pending))
            if calls and left <= 0:  # the answers are on their way there
                session.channel.send((RESUME, number))
                return
            session.when_answered = _until_answered(
                partial(pool.workers.worker_resumed, worker), pending, left
            )
            pool.workers.worker_blocked(worker, number)
        else:
            session.when_answered = None
            pool.workers.worker_resumed(worker)

    def _force(self, session: WorkerSession, call: int, recursive: bool) -> None:  # noqa: FBT001  # a field of the frame
        made = self._calls.pop(session.number, call)
        if made is not None and made.pool is not None:
            made.pool.force_cancel(made.number, recursive=recursive)

    def _warn_stuck(
        self, session: WorkerSession, call: int, waiting: tuple[str, ...], method: str
    ) -> None:
        """Warns of a call that awaits another one, which may wait for its place."""
        made = self._calls.get(session.number, call)
        if made is None or made.supervisor is None or made.method not in waiting:
            return
        if made.supervisor.record.id == session.actor:
            warn(
                "%s awaits %s of its own actor, which waits for the only "
                "place there is: neither goes on. Raise max_concurrency (or the limit "
                "of the concurrency group), or await self.%s() itself",
                made.supervisor.record.method(method),
                made.supervisor.record.called.method(made.method),
                made.method,
            )

    def _cannot_note(self, session: WorkerSession, _: int) -> None:
        supervisor = self._find_actor(session.actor)
        if supervisor is not None:
            supervisor.router.notes_calls = False

    def _tell_link_calls(
        self, session: WorkerSession, calls: Any, count: int, number: int
    ) -> None:
        del count
        self._table.inquiries.answered(session, LINK_CALLS, calls, number)

    async def client_calls(self, patience: float) -> list[asyncio.Future[None]]:
        """Gives the calls of clients that have no answer, each done when it has one.

        Args:
            patience: Seconds to wait for the calls over links, which the owner does not
                see: they are not given.
        """
        linked = [session for session in self.links.callers() if session.is_client]
        if linked:
            # A client that is stuck is not waited for: it takes no answer either.
            limit = min(_CLIENT_ANSWER, patience)
            ask = self._table.inquiries.ask
            first = await ask(linked, (LINK_CALLS,), limit)
            busy = [session for session, calls in first.answers if calls]
            await ask(busy, (LINK_CALLS, 1), patience, 1)
        return self._calls.of_clients()

    def _defer(
        self,
        session: WorkerSession,
        call: int,
        parent_call: int,
        actor: ActorId,
        deadline: Deadline | None,
        method: str,
    ) -> None:
        """Takes a call that waits for its arguments: it may end before they come."""
        supervisor = self._find_actor(actor)
        if supervisor is None and actor:  # refused when the call itself comes
            return
        made = WorkerCall(self._calls, session, call, supervisor, method, parent_call)
        self._calls.defer(made, deadline)

    def _wait(self, session: WorkerSession, call: int, method: str) -> None:
        session.cleanup.add(Phase.ROUTES, self._deadlocks.on_worker_gone)
        self._deadlocks.wait(session, call, method)

    def _announce_object(
        self, session: WorkerSession, name: ObjectId, call: int
    ) -> None:
        self._references.arrived((name,), session.number)
        revoke = partial(self._cancelled, session, call)
        supervisor = self._find_actor(session.actor)
        unsent = supervisor.route.unsent if supervisor is not None else None
        self._table.objects.expect(name, revoke, unsent)
        session.cleanup.add(Phase.ANSWERS, self._table.objects.on_worker_gone)

    def _put_object(self, session: WorkerSession, name: ObjectId, *value: Any) -> None:
        del session
        self._table.objects.keep(name, *value)

    def _get_object(self, session: WorkerSession, call: int, name: ObjectId) -> None:
        self._table.objects.fetch(name, self._calls.expect(session, call).answer)

    def _cancel_object(self, session: WorkerSession, name: ObjectId) -> None:
        del session
        self._table.objects.revoke(name)

    def _cancelled(self, session: WorkerSession, call: int) -> None:
        """Cancels a worker's call, as somebody else who has its ref wants."""
        made = self._calls.get(session.number, call)
        if made is not None and not made.drop():
            made.answer(IS_CANCELLED)

    def _cancel(self, session: WorkerSession, call: int, recursive: bool) -> None:  # noqa: FBT001  # a field of the frame
        self._calls.streams.end(session.number, call)
        made = self._calls.get(session.number, call)
        if made is None or made.drop(recursive=recursive):
            return
        if made.supervisor is not None and 0 < made.number < LINKED:
            made.answer(IS_CANCELLED)  # the worker may wait for its end
        else:
            self._calls.pop(session.number, call)

    def cancel_children(
        self, session: int, parent_call: int, *, by_force: bool = False
    ) -> None:
        """Cancels the calls that a call has made, also over links, and theirs.

        Args:
            session: The number of the session of the actor that ran it.
            parent_call: Its number there.
            by_force: Whether the processes of functions that run are ended.
        """
        self._calls.cancel_children(session, parent_call, by_force=by_force)
        self.links.cancel_children(session, parent_call)

    def _await_actor(
        self, session: WorkerSession, call: int, actor: ActorId, *ending: int
    ) -> None:
        made = self._calls.expect(session, call)
        if (supervisor := self._find_actor(actor)) is None:
            made.fail(_unknown(actor))
        else:
            by = f"a {session.title}" if session.is_client else "another actor"
            answer_when(made, supervisor, *ending, by=by)

    def _find(
        self, session: WorkerSession, call: int, name: str, namespace: str | None
    ) -> None:
        made = WorkerCall(self._calls, session, call)
        try:
            supervisor = self._table.actor_names.find(name, namespace)
        except ActorNotFoundError as error:
            made.fail(error)
        else:
            made.answer_with(supervisor)

    def _leave(self, session: WorkerSession, call: int) -> None:
        supervisor = self._find_actor(session.actor)
        if supervisor is not None:
            supervisor.leave("it left by exit_actor()")
            supervisor.router.fail(call)


def _until_answered(
    resume: Callable[[], None], calls: set[int], count: int
) -> Callable[[int], None] | None:
    """Lets a function go on when so many of some calls are answered.

    Its worker says so as well. But by then the CPU of who gave the answer would be with
    somebody who has not begun, and more and more would have begun and wait.
    """
    if not calls:
        return None
    left = count

    def answered(call: int) -> None:
        nonlocal left
        if call in calls:
            calls.discard(call)
            left -= 1
            if not left:
                resume()

    return answered


def _unreadable(method: str, error: Exception) -> SerializationError:
    trouble = SerializationError(
        f"retry_exceptions of a call of {method} names a class that cannot be loaded "
        f"in the owner: {error}"
    )
    trouble.__cause__ = error
    return trouble


def _unknown(actor: ActorId) -> ActorDiedError:
    how = Exit(cause="lost", reason="this runtime has no such actor")
    return ActorDiedError(
        f"actor {actor.hex()} is not one of this runtime",
        exit=how,
        actor_id=actor.hex(),
    )


def _load_retries(headers: dict[str, Any]) -> dict[str, Any]:
    """The headers of a worker's call, with the classes of exceptions loaded.

    Raises:
        Exception: Whatever loading them raised.
    """
    times, listed = headers.get("retries", (None, None))
    if not isinstance(listed, bytes):
        return headers
    return {**headers, "retries": (times, decode(listed))}
