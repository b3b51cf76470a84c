"""Requests of workers: calls to other actors, creations, endings, loans.

A worker speaks the same verbs as the owner's own code, as frames. Payloads pass through
without being decoded. A worker that asks about an actor this runtime does not know gets
an error, as would be the owner's own code.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from actorlib._core.log import warn
from actorlib._owner import submission
from actorlib._owner.call_policy import opened
from actorlib._owner.call_tree import CallTree
from actorlib._owner.deadlines import Clock, Timed, Timekeeper
from actorlib._owner.deadlocks import Deadlocks
from actorlib._owner.peer_links import OF_LINKS, LinkBroker
from actorlib._owner.pending_creations import PendingCreations
from actorlib._owner.placement_groups import serve as serve_group
from actorlib._owner.refcount import OWNER
from actorlib._owner.response_target import IS_CANCELLED
from actorlib._owner.streams import Reader, Readers
from actorlib._owner.teardown import Phase, WorkersGone, tear_down
from actorlib._owner.worker_calls import WorkerCall, answer_when
from actorlib._wire.call_headers import late_error
from actorlib._wire.messages import (
    AWAIT,
    CALL_ACTOR,
    CALL_ACTOR_WITH,
    CALL_DEFERRED,
    CANCEL,
    CREATE,
    CREATE_ARGUMENTS,
    END,
    FIND,
    FORCE_CANCEL,
    GROUP,
    LEAVE,
    LINKED,
    LIST,
    OBJECT_ANNOUNCE,
    OBJECT_CANCEL,
    OBJECT_GET,
    OBJECT_PUT,
    RELEASE_REFS,
    RESULT,
    RUN,
    STREAM_ACK,
    STUCK,
    WAITS,
    Frame,
    name_of,
)
from actorlib._wire.serialization import dump
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

    from actorlib._core.current_call import Deadline
    from actorlib._core.ids import ActorId, LoanId, ObjectId
    from actorlib._owner.creation import ActorDefinition, EncodedArguments
    from actorlib._owner.names import ActorNames
    from actorlib._owner.objects import ObjectTable
    from actorlib._owner.refcount import BorrowedReferences
    from actorlib._owner.supervisor import ActorSupervisor
    from actorlib._owner.task_pool import TaskPool
    from actorlib._owner.worker_session import WorkerSession
    from actorlib._scheduler.placement_group import GroupTable
    from actorlib._shm.memory import Payload
    from actorlib._wire.arguments import SendingEngine


class WorkerRequests:
    """Serves the requests of the workers of one runtime.

    Args:
        find: Finds the supervisor of an actor; None if there is none by that id.
        create: Creates an actor with the id that a worker gives it, by the number of
            the worker's session; gives what takes the constructor's arguments.
        lists: What a worker may have listed, by the name that it gives that.
        engine: The owner's.
        names: Who answers to which name.
        objects: What refs inside of values stand for.
        references: Counts what frames bring and take.
        groups: The placement groups.
        pool: Takes the calls of functions.
        clock: Says which calls' time is over.
        gone: Tells which workers are gone.

    Attributes:
        links: The links between workers.
    """

    def __init__(
        self,
        *,
        find: Callable[[ActorId], ActorSupervisor | None],
        create: Callable[
            [ActorId, ActorDefinition, int], asyncio.Future[EncodedArguments]
        ],
        lists: Mapping[str, Callable[[], object]],
        engine: SendingEngine,
        names: ActorNames,
        objects: ObjectTable,
        references: BorrowedReferences,
        groups: GroupTable,
        pool: TaskPool,
        clock: Clock,
        gone: WorkersGone,
    ) -> None:
        self._find_actor = find
        self._lists = lists
        self._names = names
        self._objects = objects
        self._references = references
        self._groups = groups
        self._pool = pool
        self._calls: CallTree[WorkerCall] = CallTree()
        self._deferred: Timekeeper[tuple[int, int]] = Timekeeper(clock, self._is_late)
        self._deadlocks = Deadlocks(self._calls.get, find)
        self._creations = PendingCreations(create, names, engine, references)
        self.links = LinkBroker(self, find)
        self._others: dict[int, Callable[..., None]] = {
            AWAIT: self._await_actor,
            END: self._await_actor,
            CANCEL: self._cancel,
            CALL_DEFERRED: self._defer,
            WAITS: self._deadlocks.wait,
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
        }
        self._readers = Readers()
        subscribe = gone.subscribe
        subscribe(Phase.ROUTES, self.links.on_worker_gone)
        subscribe(Phase.ROUTES, self._deadlocks.on_worker_gone)
        subscribe(Phase.ANSWERS, self._creations.on_worker_gone)
        subscribe(Phase.ANSWERS, self._leave_streams)
        subscribe(Phase.ANSWERS, self._forget_calls)

    def serve(self, session: WorkerSession, frame: Frame) -> None:
        """Serves one frame of a worker.

        Raises:
            ProtocolError: It is of no kind that rises.
        """
        kind = frame[0]
        if kind == CALL_ACTOR:
            self._call_actor(session, *frame[1:])
        elif kind == CALL_ACTOR_WITH:
            _, call, asking, actor, method, loans, headers, payload = frame
            self._call_actor(
                session, call, asking, actor, method, loans, payload, headers
            )
        elif kind == RELEASE_REFS:
            _, actor, count = frame
            self.links.returned(session, actor)
            self._references.release(actor, session.number, count)
        elif kind == CREATE:
            _, call, *creation = frame
            asker = WorkerCall(self, session, call) if call else None
            self._creations.create(asker, session.number, *creation)
        elif kind == CREATE_ARGUMENTS:
            self._creations.give(*frame[1:])
        elif kind == LIST:
            self._list(session, *frame[1:])
        elif kind in self._others:
            self._others[kind](session, *frame[1:])
        elif kind in OF_LINKS:
            self.links.serve(session, frame)
        elif kind in submission.OF_FUNCTIONS:
            submission.serve(self._pool, session, *frame)
        else:
            raise ProtocolError(f"no worker sends {name_of(kind)}")

    def _list(self, session: WorkerSession, call: int, what: str) -> None:
        listed = dump(self._lists[what]())
        WorkerCall(self, session, call).answer((RESULT, call, None, listed))

    def _acknowledge(self, session: WorkerSession, call: int, count: int) -> None:
        self._readers.took(session.number, call, count)

    def _group(
        self, session: WorkerSession, call: int, verb: str, about: Payload
    ) -> None:
        asker = WorkerCall(self, session, call)
        serve_group(self._groups, asker, session.number, verb, about)

    def _call_actor(
        self,
        session: WorkerSession,
        call: int,
        asking: int,
        actor: ActorId,
        method: str,
        loans: tuple[LoanId, ...] | None,
        payload: Payload,
        headers: dict[str, Any] | None = None,
    ) -> None:
        supervisor = self._find_actor(actor)
        asker = WorkerCall(self, session, call, supervisor, method, asking)
        if supervisor is None:
            self.give_up(loans)
            asker.fail(_unknown(actor))
            return
        if self._deferred.calls:
            self._deferred.discard((session.number, call))
        if headers and "retries" in headers:
            try:
                headers = opened(headers)
            except Exception as error:  # noqa: BLE001  # the user's classes: nobody calls
                asker.fail(_unreadable(method, error))
                return
        if loans:
            # The worker still holds them; this process does too, until they are sent.
            self._references.arrived(loans, OWNER)
        reply: WorkerCall | Reader = asker
        if headers is not None and "stream" in headers:
            is_capped = supervisor.record.interface.max_unread > 0
            streams = supervisor.router.streams
            reply = Reader(
                asker,
                self.lend_to,
                session,
                call,
                streams,
                is_detached="detach" in headers,
            )
            self._readers.add(reply, is_capped=is_capped)
        number = supervisor.router.send(reply, method, loans, payload, headers)
        if number:
            asker.number = number
            asker.has_end = headers is not None and "deadline" in headers
            self._calls.put(session.number, call, asker)

    def _run(self, session: WorkerSession, call: int, asking: int, *given: Any) -> None:
        pool = self._pool
        if self._deferred.calls:
            self._deferred.discard((session.number, call))
        asker = WorkerCall(self, session, call, asking=asking)
        asker.pool = pool

        def read(*, is_detached: bool) -> Reader:
            reader = Reader(
                asker, self.lend_to, session, call, pool, is_detached=is_detached
            )
            self._readers.add(reader, is_capped=False)
            return reader

        asker.number = submission.ask(pool, session.number, asker, read, *given)
        if asker.number:
            self._calls.put(session.number, call, asker)

    def _force(self, session: WorkerSession, call: int, recursive: bool) -> None:  # noqa: FBT001  # a field of the frame
        asked = self.answered(session, call)
        if asked is not None and asked.pool is not None:
            asked.pool.force(asked.number, recursive=recursive)

    def _warn_stuck(
        self, session: WorkerSession, call: int, waiting: tuple[str, ...], method: str
    ) -> None:
        """Warns of a call that awaits another one, which may wait for its place."""
        asked = self._calls.get(session.number, call)
        if asked is None or asked.supervisor is None or asked.method not in waiting:
            return
        if asked.supervisor.record.id == session.actor:
            warn(
                "%s awaits %s of its own actor, which waits for the only "
                "place there is: neither goes on. Raise max_concurrency (or the limit "
                "of the concurrency group), or await self.%s() itself",
                asked.supervisor.record.method(method),
                asked.supervisor.record.called.method(asked.method),
                asked.method,
            )

    def _defer(
        self,
        session: WorkerSession,
        call: int,
        asking: int,
        actor: ActorId,
        deadline: Deadline | None,
        method: str,
    ) -> None:
        """Takes a call that waits for its arguments: it may end before they come."""
        supervisor = self._find_actor(actor)
        if supervisor is None and actor:  # told when it is asked for
            return
        asker = WorkerCall(self, session, call, supervisor, method, asking)
        self._calls.put(session.number, call, asker)
        if deadline is not None:
            self._deferred.add((session.number, call), method, deadline)

    def _is_late(self, key: tuple[int, int], timed: Timed) -> None:
        asked = self._calls.get(*key)
        self._readers.end(*key)
        if asked is not None:
            asked.fail(late_error(asked.where, timed.deadline))

    def _announce_object(
        self, session: WorkerSession, name: ObjectId, call: int
    ) -> None:
        self._references.arrived((name,), session.number)
        revoke = partial(self._cancelled, session, call)
        supervisor = self._find_actor(session.actor)
        unsent = supervisor.router.unsent if supervisor is not None else None
        self._objects.expect(name, revoke, unsent)

    def _put_object(self, session: WorkerSession, name: ObjectId, *value: Any) -> None:
        del session
        self._objects.keep(name, *value)

    def _get_object(self, session: WorkerSession, call: int, name: ObjectId) -> None:
        self._objects.fetch(name, WorkerCall(self, session, call).answer)

    def _cancel_object(self, session: WorkerSession, name: ObjectId) -> None:
        del session
        self._objects.revoke(name)

    def _cancelled(self, session: WorkerSession, call: int) -> None:
        """Cancels a worker's call, as somebody else who has its ref wants."""
        asked = self._calls.get(session.number, call)
        if asked is not None and not asked.drop():
            asked.answer(IS_CANCELLED)

    def _cancel(self, session: WorkerSession, call: int, recursive: bool) -> None:  # noqa: FBT001  # a field of the frame
        self._readers.end(session.number, call)
        asked = self._calls.get(session.number, call)
        if asked is None or asked.drop(recursive=recursive):
            return
        if asked.supervisor is not None and 0 < asked.number < LINKED:
            asked.answer(IS_CANCELLED)  # the worker may wait for its end
        else:
            self.answered(session, call)

    def cancel_made(self, session: int, asking: int, *, by_force: bool = False) -> None:
        """Cancels the calls that a call has made, and theirs.

        Args:
            session: The number of the session of the actor that ran it.
            asking: Its number there.
            by_force: Whether the processes of functions that run are ended.
        """
        for call in self._calls.made(session, asking):
            asked = self._calls.get(session, call)
            self._readers.end(session, call)
            # First: whoever waits may be the one to run it.
            if asked is not None and not asked.drop(by_force=by_force):
                asked.answer(IS_CANCELLED)
        self.links.cancel_made(session, asking)

    def note(self, session: WorkerSession, call: int, asker: WorkerCall) -> None:
        """Takes a call that has no answer, and somebody waits for it."""
        self._calls.put(session.number, call, asker)

    def answered(self, session: WorkerSession, call: int) -> WorkerCall | None:
        """Forgets a call of a worker, which needs no cancelling any more; gives it."""
        if self._deferred.calls:
            self._deferred.discard((session.number, call))
        return self._calls.pop(session.number, call)

    def lend_to(self, loans: tuple[LoanId, ...], session: WorkerSession) -> None:
        """Counts handles that are about to be sent to a worker."""
        self._references.arrived(loans, session.number)

    def give_up(self, loans: tuple[LoanId, ...] | None) -> None:
        """Gives back what a frame brought and nobody gets."""
        if loans:
            self._references.arrived(loans, OWNER)
            self._references.returned(loans, OWNER)

    def _await_actor(
        self, session: WorkerSession, call: int, actor: ActorId, *manner: int
    ) -> None:
        asker = WorkerCall(self, session, call)
        if (supervisor := self._find_actor(actor)) is None:
            asker.fail(_unknown(actor))
        else:
            answer_when(asker, supervisor, *manner)

    def _find(
        self, session: WorkerSession, call: int, name: str, namespace: str | None
    ) -> None:
        asker = WorkerCall(self, session, call)
        try:
            supervisor = self._names.find(name, namespace)
        except ActorNotFoundError as error:
            asker.fail(error)
        else:
            asker.lend(supervisor)

    def _leave(self, session: WorkerSession, call: int) -> None:
        supervisor = self._find_actor(session.actor)
        if supervisor is not None:
            supervisor.leave("it left by exit_actor()")
            supervisor.router.fail(call)

    def _leave_streams(self, session: WorkerSession) -> None:
        readers = self._readers.forget(session.number)
        tear_down(session, *(partial(self._leave_stream, session, r) for r in readers))

    def _forget_calls(self, session: WorkerSession) -> None:
        """Forgets the calls that no answer comes for by way of the owner.

        Those are the ones that waited for their arguments or went over a link; all
        others go on, and are forgotten when they are answered.
        """
        for call in self._calls.of(session.number):
            asked = self._calls.get(session.number, call)
            if asked is not None and not 0 < asked.number < LINKED:
                self.answered(session, call)

    def _leave_stream(self, session: WorkerSession, reader: Reader) -> None:
        self.answered(session, reader.call)
        reader.leave()


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
