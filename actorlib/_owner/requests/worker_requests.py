"""Serves the requests of workers: calls of actors and functions, creations, endings.

Workers send the operations of the engine as frames. Payloads are relayed without
decoding. A request for an unknown actor is answered with an error, as in the owner's
own code.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from actorlib._base.ids import LINKED
from actorlib._base.log import warn
from actorlib._owner.actors.exit_reason import lost
from actorlib._owner.actors.worker_session import Phase
from actorlib._owner.calls.response_target import IS_CANCELLED
from actorlib._owner.objects.refcount import OWNER
from actorlib._owner.requests.deadlocks import Deadlocks
from actorlib._owner.requests.peer_links import LinkBroker
from actorlib._owner.requests.pending_creations import PendingCreations
from actorlib._owner.requests.placement_groups import serve as serve_group
from actorlib._owner.requests.worker_calls import (
    WorkerCall,
    WorkerCalls,
    WorkerStream,
    answer_when,
)
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
    ActorNotFoundError,
    ProtocolError,
    SerializationError,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Mapping

    from actorlib._base.ids import ActorId, CountedId, ObjectId
    from actorlib._core.current_call import Deadline
    from actorlib._owner.actors.actor_table import ActorTable
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._shm.memory import Payload
    from actorlib._wire.arguments import SendingEngine
    from actorlib.exceptions import ActorDiedError

_CLIENT_ANSWER = 0.5
"""Seconds that a client may take to report whether it has calls over links."""


class WorkerRequests:
    """Serves the requests of the workers of one runtime.

    Args:
        engine: The owner's engine.
        table: The actors; this object serves their sessions from now on.
        lists: The lists that a worker may request, by their names.

    Attributes:
        links: The links between workers.
        others: The handlers of all kinds of frames but CALL_ACTOR and CALL_ACTOR_WITH.
            Features add their own.
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
            RELEASE_REFS: self._release,
            CREATE: self._create,
            CREATE_ARGUMENTS: _without_session(self._creations.give),
            LIST: self._list,
            AWAIT: self._await_actor,
            END: self._await_actor,
            CANCEL: self._cancel,
            CALL_DEFERRED: self._defer,
            WAITS: self._deadlocks.wait,
            FIND: self._find,
            LEAVE: self._leave,
            GROUP: self._group,
            STREAM_ACK: self._calls.acknowledge,
            OBJECT_ANNOUNCE: self._announce_object,
            OBJECT_PUT: _without_session(table.objects.keep),
            OBJECT_GET: self._get_object,
            OBJECT_CANCEL: _without_session(table.objects.revoke),
            RUN: self._run,
            FORCE_CANCEL: self._force,
            STUCK: self._warn_stuck,
            REGISTER_FUNCTION: table.pool.functions.register,
            DURATION: self._note_duration,
            BLOCKED: self._block,
            RESUMED: self._resume,
            LINK_CALLS: self._take_link_calls,
            NOTE_CALLS: self._stop_noting_calls,
            **self.links.handlers,
        }

    def serve(self, session: WorkerSession, frame: Frame) -> None:
        """Serves one frame of a worker.

        Raises:
            ProtocolError: Workers do not send this kind of frame.
        """
        kind = frame[0]
        if kind == CALL_ACTOR:
            self._call_actor(session, *frame[1:])
        elif kind == CALL_ACTOR_WITH:
            _, call, parent_call, actor, method, borrowed, headers, payload = frame
            self._call_actor(
                session, call, parent_call, actor, method, borrowed, payload, headers
            )
        elif kind in self.others:
            self.others[kind](session, *frame[1:])
        else:
            raise ProtocolError(f"no worker sends {name_of(kind)}")

    def _release(self, session: WorkerSession, counted: CountedId, count: int) -> None:
        self._references.release(counted, session.number, count)
        # Another of its threads may have received a handle since, and a link.
        if not self._references.has(counted, session.number):
            self.links.returned(session, counted)

    def _create(self, session: WorkerSession, call: int, *creation: Any) -> None:
        waiting = WorkerCall(self._calls, session, call) if call else None
        self._creations.create(waiting, session, *creation)

    def _list(self, session: WorkerSession, call: int, name: str) -> None:
        rows = dump(self._lists[name]())
        WorkerCall(self._calls, session, call).answer((RESULT, call, None, rows))

    def _group(
        self, session: WorkerSession, call: int, verb: str, arguments: Payload
    ) -> None:
        request = self._calls.expect(session, call)
        session.cleanup.add(Phase.GROUPS, self._remove_groups)
        serve_group(self._table.groups, request, verb, arguments)

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
        worker_call = WorkerCall(
            self._calls, session, call, supervisor, method, parent_call
        )
        if supervisor is None:
            self._calls.give_up(borrowed)
            worker_call.fail(_unknown(actor))
            return
        if self._calls.deferred.calls:
            self._calls.deferred.discard((session.number, call))
        if headers and "retries" in headers:
            try:
                headers = _load_retries(headers)
            except Exception as error:  # noqa: BLE001  # the user's classes: fails the call
                self._calls.give_up(borrowed)
                worker_call.fail(_unreadable(method, error))
                return
        if borrowed:
            # The worker still holds them; this process does too, until they are sent.
            self._references.arrived(borrowed, OWNER)
        target: WorkerCall | WorkerStream = worker_call
        if headers is not None and "stream" in headers:
            target = WorkerStream(
                self._calls,
                worker_call,
                supervisor.router,
                is_detached="detach" in headers,
                is_capped=supervisor.record.interface.max_unread > 0,
            )
        number = supervisor.router.send(target, method, borrowed, payload, headers)
        if number:
            worker_call.number = number
            worker_call.has_deadline = headers is not None and "deadline" in headers
            self._calls.put(worker_call)

    def _run(
        self,
        session: WorkerSession,
        call: int,
        parent_call: int,
        number: int,
        declaration: bytes,
        headers: dict[str, Any] | None,
        borrowed: tuple[CountedId, ...] | None,
        payload: Payload,
    ) -> None:
        """Posts a call of a function, which has a number in that worker."""
        pool = self._pool
        if self._calls.deferred.calls:
            self._calls.deferred.discard((session.number, call))
        entry = pool.functions.entry_for_worker(session.number, number, declaration)
        worker_call = WorkerCall(
            self._calls, session, call, None, entry.label, parent_call, pool
        )
        worker_call.has_deadline = headers is not None and "deadline" in headers
        if borrowed:
            # The worker still holds them; this process does too, until the answer.
            self._references.arrived(borrowed, OWNER)
        target: WorkerCall | WorkerStream = worker_call
        if entry.is_stream:
            is_detached = bool(headers and "detach" in headers)
            target = WorkerStream(
                self._calls, worker_call, pool, is_detached=is_detached
            )
        worker_call.number = pool.post(
            target, entry, borrowed, payload, headers, is_nested=not session.is_client
        )
        if worker_call.number:
            self._calls.put(worker_call)

    # Workers of functions.

    def _note_duration(
        self, session: WorkerSession, function: str, seconds: float
    ) -> None:
        worker = self._pool.workers.by_id.get(session.actor)
        if worker is not None:
            self._pool.note_duration(worker, function, seconds)

    def _block(
        self, session: WorkerSession, number: int, calls: Collection[int], count: int
    ) -> None:
        workers = self._pool.workers
        worker = workers.by_id.get(session.actor)
        if worker is None:
            return
        if not worker.tasks:
            raise ProtocolError("it runs no call that could wait")
        pending = {call for call in calls if self._calls.get(session.number, call)}
        missing = count - (len(calls) - len(pending))
        if calls and missing <= 0:  # the answers are in transit
            session.channel.send((RESUME, number))
            return
        session.when_answered = _until_answered(
            partial(workers.worker_resumed, worker), pending, missing
        )
        workers.worker_blocked(worker, number)

    def _resume(self, session: WorkerSession, _: int) -> None:
        worker = self._pool.workers.by_id.get(session.actor)
        if worker is not None:
            session.when_answered = None
            self._pool.workers.worker_resumed(worker)

    def _force(self, session: WorkerSession, call: int, recursive: bool) -> None:  # noqa: FBT001  # a field of the frame
        forced = self._calls.pop(session.number, call)
        if forced is not None and forced.pool is not None:
            forced.pool.force_cancel(forced.number, recursive=recursive)

    def _warn_stuck(
        self, session: WorkerSession, call: int, waiting: tuple[str, ...], method: str
    ) -> None:
        """Warns of a call that awaits another one, which may wait for its slot."""
        inner = self._calls.get(session.number, call)
        if inner is None or inner.supervisor is None or inner.method not in waiting:
            return
        if inner.supervisor.record.id == session.actor:
            warn(
                "%s awaits %s of its own actor, which waits for the only slot: "
                "neither goes on. Raise max_concurrency (or the limit of the "
                "concurrency group), or await self.%s() itself",
                inner.supervisor.record.method(method),
                inner.supervisor.record.called.method(inner.method),
                inner.method,
            )

    def _stop_noting_calls(self, session: WorkerSession, _: int) -> None:
        supervisor = self._find_actor(session.actor)
        if supervisor is not None:
            supervisor.router.notes_calls = False

    def _take_link_calls(
        self, session: WorkerSession, calls: Any, count: int, number: int
    ) -> None:
        del count
        self._table.inquiries.answered(session, LINK_CALLS, calls, number)

    async def client_calls(self, patience: float) -> list[asyncio.Future[None]]:
        """Returns a future for each unanswered call of a client, done at its end.

        Args:
            patience: Seconds to wait for the calls over links. The owner does not see
                these: they are not in the result.
        """
        linked = [session for session in self.links.callers() if session.is_client]
        if linked:
            # A client that hangs is not awaited: it reads no answer either.
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
        """Adds a call that waits for its arguments: it may end before they arrive."""
        supervisor = self._find_actor(actor)
        if supervisor is None and actor:  # refused when the call itself arrives
            return
        deferred = WorkerCall(
            self._calls, session, call, supervisor, method, parent_call
        )
        self._calls.defer(deferred, deadline)

    def _announce_object(
        self, session: WorkerSession, name: ObjectId, call: int
    ) -> None:
        self._references.arrived((name,), session.number)
        revoke = partial(self._cancel_announced, session, call)
        supervisor = self._find_actor(session.actor)
        unsent = supervisor.route.unsent if supervisor is not None else None
        self._table.objects.expect(name, revoke, unsent)
        session.cleanup.add(Phase.ANSWERS, self._table.objects.on_worker_gone)

    def _get_object(self, session: WorkerSession, call: int, name: ObjectId) -> None:
        self._table.objects.fetch(name, self._calls.expect(session, call).answer)

    def _cancel_announced(self, session: WorkerSession, call: int) -> None:
        """Cancels a worker's call for another process that has its ref."""
        announced = self._calls.get(session.number, call)
        if announced is not None and not announced.drop():
            announced.answer(IS_CANCELLED)

    def _cancel(self, session: WorkerSession, call: int, recursive: bool) -> None:  # noqa: FBT001  # a field of the frame
        self._calls.streams.pop((session.number, call), None)
        cancelled = self._calls.get(session.number, call)
        if cancelled is None or cancelled.drop(recursive=recursive):
            return
        if cancelled.supervisor is not None and 0 < cancelled.number < LINKED:
            cancelled.answer(IS_CANCELLED)  # the worker may wait for its end
        else:
            self._calls.pop(session.number, call)

    def cancel_children(
        self, session: int, parent_call: int, *, by_force: bool = False
    ) -> None:
        """Cancels the child calls of a call, including those over links, recursively.

        See ``WorkerCalls.cancel_children``.
        """
        self._calls.cancel_children(session, parent_call, by_force=by_force)
        self.links.cancel_children(session, parent_call)

    def _await_actor(
        self, session: WorkerSession, call: int, actor: ActorId, *ending: int
    ) -> None:
        request = self._calls.expect(session, call)
        if (supervisor := self._find_actor(actor)) is None:
            request.fail(_unknown(actor))
        else:
            by = f"a {session.title}" if session.is_client else "another actor"
            answer_when(request, supervisor, *ending, by=by)

    def _find(
        self, session: WorkerSession, call: int, name: str, namespace: str | None
    ) -> None:
        request = WorkerCall(self._calls, session, call)
        try:
            supervisor = self._table.actor_names.find(name, namespace)
        except ActorNotFoundError as error:
            request.fail(error)
        else:
            request.answer_with(supervisor)

    def _leave(self, session: WorkerSession, call: int) -> None:
        supervisor = self._find_actor(session.actor)
        if supervisor is not None:
            supervisor.leave("it left by exit_actor()")
            supervisor.router.fail(call)


def _without_session(handle: Callable[..., None]) -> Callable[..., None]:
    def handle_frame(_: WorkerSession, *fields: Any) -> None:
        handle(*fields)

    return handle_frame


def _until_answered(
    resume: Callable[[], None], calls: set[int], count: int
) -> Callable[[int], None] | None:
    """Resumes a function when ``count`` of the calls are answered.

    Its worker reports that as well. But by then a call that has not begun would have
    the CPU of the answering function, and more and more calls would begin and wait.
    """
    if not calls:
        return None
    missing = count

    def answered(call: int) -> None:
        nonlocal missing
        if call in calls:
            calls.discard(call)
            missing -= 1
            if not missing:
                resume()

    return answered


def _unreadable(method: str, error: Exception) -> SerializationError:
    failure = SerializationError(
        f"retry_exceptions of a call of {method} names a class that cannot be loaded "
        f"in the owner: {error}"
    )
    failure.__cause__ = error
    return failure


def _unknown(actor: ActorId) -> ActorDiedError:
    message = f"this runtime has no actor {actor.hex()}"
    return lost(actor, message, "this runtime has no such actor")


def _load_retries(headers: dict[str, Any]) -> dict[str, Any]:
    """Loads the classes of exceptions in the headers of a worker's call.

    Raises:
        Exception: Loading them may raise anything.
    """
    times, exceptions = headers.get("retries", (None, None))
    if not isinstance(exceptions, bytes):
        return headers
    return {**headers, "retries": (times, decode(exceptions))}
