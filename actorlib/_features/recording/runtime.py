"""Records what a runtime does while somebody wants to know, for a timeline.

What is written down here of a call is when it got its number, who made it and for
whom, as the tables of calls tell it (``call_table``). When a call ran is written down
by its worker (``worker``), and comes in pieces that nobody looks into
before the end. So a call costs the owner little while this goes on.

Several may record at once: there is one record, and each gets what is of its time. The
newest is kept, and how much is not.
"""

from __future__ import annotations

import os
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeVar, final

import msgpack  # pyright: ignore[reportMissingTypeStubs]  # it ships none

from actorlib._base.ids import ActorId
from actorlib._features.recording.trace_events import (
    Actor,
    Made,
    Moved,
    Ran,
    Recorded,
    read_piece,
)
from actorlib._futures.object_ref import ObjectRef
from actorlib._owner.actors.actor_record import ActorState
from actorlib._owner.requests.worker_calls import WorkerCall, WorkerStream
from actorlib._wire.function_code import ADD_FUNCTION
from actorlib._wire.messages import (
    RECORD,
    RECORD_BEGIN,
    RECORD_END,
    RECORD_TELL,
    RECORDED,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from actorlib._owner.actors.actor_record import ActorRecord
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.engine import LocalEngine
    from actorlib._owner.observation.inquiries import Answers

_MOVES: Final = 10_000
_ACTORS: Final = 10_000
"""How many actors that have changed, and how many sessions, are kept."""
_PUTS: Final = 10_000
_PIECES: Final = 100_000
_msgpack: Any = msgpack

V = TypeVar("V")


class _User(NamedTuple):
    """One who wants to know.

    Attributes:
        kept: How many calls, and how many runs, they get at the most.
        actors: The actors that there were at the beginning.
        calls: How many calls were recorded before.
        runs: How many runs were recorded before.
    """

    kept: int
    actors: dict[bytes, Actor]
    calls: int
    runs: int


@final
class CallRecording:
    """Records for all who want to know of one runtime; see ``RuntimeEngine.attached``.

    Args:
        engine: That of the runtime.
    """

    command: ClassVar[str] = "actorlib trace"
    on_ray: ClassVar[str] = (
        "calls are Ray's, which draws them itself: by the command 'ray timeline'"
    )

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        table = engine.actor_table
        table.watch = self._watch_new
        engine.requests.others[RECORDED] = self._add
        self._supervisors = table.by_id
        self._pool = table.pool
        self._objects = table.objects
        self._inquiries = table.inquiries
        self._loop = table.loop
        # By when they began, and whether they go on.
        self._users: dict[float, _User] = {}
        self._active: set[float] = set()
        self._recorded_calls = 0  # also those that are not kept
        self._calls: deque[Any] = deque(maxlen=1)
        self._pieces: deque[tuple[int, int, bytes]] = deque()
        self._piece_runs = 0
        self._kept = 0
        self._moves: deque[Moved] = deque(maxlen=_MOVES)
        self._puts: deque[tuple[float, int]] = deque(maxlen=_PUTS)
        self._sessions: dict[int, bytes] = {}
        self._actors: dict[bytes, Actor] = {}
        self._dropped = 0
        self._questions = 0

    def begin(self, kept: int) -> float:
        """Somebody wants to know; gives when that began, which says who it is.

        Args:
            kept: How many calls, and how many runs, are kept at the most.

        Raises:
            RuntimeError: The runtime was shut down, or this is not its loop's thread.
        """
        self._engine.check_open()
        began = time.monotonic()
        while began in self._users:  # the clock is coarse on some systems
            began += 1e-6
        if kept > self._kept:
            self._kept = kept
            self._calls = deque(self._calls, maxlen=kept)
        first: dict[bytes, Actor] = {
            actor: _described(one.record, one.record.state.value)
            for actor, one in self._supervisors.items()
        }
        runs = self._dropped + self._piece_runs
        self._users[began] = _User(kept, first, self._recorded_calls, runs)
        self._active.add(began)
        if len(self._active) == 1:
            self._switch_on()
        return began

    def end(
        self, began: float, patience: float, *, goes_on: bool = False
    ) -> asyncio.Future[Callable[[], Recorded]]:
        """They want to know no more, or what there is so far.

        Args:
            began: Who, as ``begin`` has said.
            patience: Seconds that workers may take to tell the rest.
            goes_on: Whether they want to know more later. Default: False.

        Returns:
            Done when they have, with what makes the record, on any thread.
        """
        ended = time.monotonic()
        if not goes_on:
            self._active.discard(began)
        gone = self._recorded_calls - len(self._calls)
        overflow = max(0, gone - self._users[began].calls)
        if not self._active:
            self._switch_off()
        self._questions += 1
        mode = RECORD_TELL if self._active else RECORD_END
        sessions = [
            found
            for supervisor in self._supervisors.values()
            if (found := _session_of(supervisor)) is not None
        ]
        question = (RECORD, mode, self._questions)
        telling = self._inquiries.ask(sessions, question, patience, self._questions)
        result: asyncio.Future[Callable[[], Recorded]] = self._loop.create_future()
        telling.add_done_callback(partial(self._told, began, ended, overflow, result))
        return result

    def _told(
        self,
        began: float,
        ended: float,
        overflow: int,
        result: asyncio.Future[Callable[[], Recorded]],
        telling: asyncio.Future[Answers],
    ) -> None:
        recorded = self._recorded(began, ended, overflow, telling.result())
        if began not in self._active:
            del self._users[began]
        if not self._users:
            self._clear()
        if not result.done():  # who has asked may be gone
            result.set_result(recorded)

    def _clear(self) -> None:
        self._calls.clear()
        self._pieces.clear()
        self._moves.clear()
        self._puts.clear()
        self._sessions.clear()
        self._actors.clear()
        self._piece_runs = self._dropped = self._kept = self._recorded_calls = 0

    # What is recorded.

    def _watch_new(self, supervisor: ActorSupervisor) -> None:
        """Records what happens to an actor that is made now."""
        if self._active:
            self._moved(supervisor.record)
            self._watch(supervisor)

    def _add(
        self, session: WorkerSession, number: int, runs: int, piece: bytes
    ) -> None:
        """Takes a piece of what a worker has recorded, with so many runs."""
        self._keep_piece(session, runs, piece)
        if number:
            self._inquiries.answered(session, RECORD, None, number)

    def _keep_piece(self, session: WorkerSession, runs: int, piece: bytes) -> None:
        if not self._users:
            return
        _keep(self._sessions, session.number, session.actor)
        self._pieces.append((session.number, runs, piece))
        self._piece_runs += runs
        # A piece may have more runs than are kept: what is told is cut to that.
        while (
            self._piece_runs - self._pieces[0][1] >= self._kept
            or len(self._pieces) > _PIECES
        ):
            _, gone, _ = self._pieces.popleft()
            self._piece_runs -= gone
            self._dropped += gone

    def _switch_on(self) -> None:
        for supervisor in self._supervisors.values():
            self._watch(supervisor)
            self._begin(supervisor)
        self._pool.calls.note_sent = partial(self._sent, b"")
        self._objects.note_put = self._put

    def _switch_off(self) -> None:
        for supervisor in self._supervisors.values():
            supervisor.record.watcher = None
        for supervisor in self._callees():
            supervisor.router.calls.note_sent = None
        self._pool.calls.note_sent = None
        self._objects.note_put = None

    def _callees(self) -> Iterator[ActorSupervisor]:
        """Walks over all but workers of functions, whose calls are the pool's."""
        return (one for one in self._supervisors.values() if one.record.is_actor)

    def _begin(self, supervisor: ActorSupervisor) -> None:
        session = _session_of(supervisor)
        if session is not None:
            _keep(self._sessions, session.number, session.actor)
            session.channel.send((RECORD, RECORD_BEGIN, 0))

    def _watch(self, supervisor: ActorSupervisor) -> None:
        supervisor.record.watcher = self._moved
        if supervisor.record.is_actor:
            sent = partial(self._sent, supervisor.record.id)
            supervisor.router.calls.note_sent = sent

    def _sent(self, callee: bytes, number: int, target: object, what: Any) -> None:
        """A call has this number from now on.

        Args:
            callee: The actor that it is for; empty for a function.
            number: As the table of calls tells it, and so the rest.
            target: Who wants the answer.
            what: What is called.
        """
        self._recorded_calls += 1
        session = parent = 0
        # The usual call is the program's.
        if type(target) is not ObjectRef and isinstance(
            target, (WorkerCall, WorkerStream)
        ):
            session, parent = target.session.number, target.parent_call
        name = what if type(what) is str else what.entry.label
        # The fields of ``Made``: a bare tuple is made in half the time.
        self._calls.append((callee, number, time.monotonic(), session, parent, name))

    def _moved(self, record: ActorRecord) -> None:
        why = str(record.exit or "")
        _keep(self._actors, record.id, _described(record))
        move = Moved(record.id, time.monotonic(), record.state.value, why)
        self._moves.append(move)
        if record.state is ActorState.ALIVE:
            self._begin(self._supervisors[record.id])  # before any call is sent to it

    def _put(self, nbytes: int) -> None:
        self._puts.append((time.monotonic(), nbytes))

    # What is told.

    def _recorded(
        self, began: float, ended: float, overflow: int, told: Answers
    ) -> Callable[[], Recorded]:
        kept, first, _, earlier_runs = self._users[began]
        living: dict[bytes, Actor] = {
            actor: _described(one.record) for actor, one in self._supervisors.items()
        }
        known: dict[bytes, Actor] = {**first, **self._actors, **living}
        waiting = {
            (supervisor.record.id, call.number)
            for supervisor in self._callees()
            for call in supervisor.router.unanswered()
        } | {(b"", call.number) for call in self._pool.unanswered()}
        silent = (self._supervisors.get(ActorId(s.actor)) for s in told.silent)
        recorded = Recorded(
            began=began,
            ended=ended,
            pid=os.getpid(),
            actors=[
                actor._replace(state=first[key].state if key in first else "")
                for key, actor in known.items()
            ],
            sessions=dict(self._sessions),
            calls=[],
            link_calls=[],
            runs=[],
            moves=[move for move in self._moves if began <= move.at <= ended],
            puts=[put for put in self._puts if began <= put[0] <= ended],
            waiting=waiting,
            dropped=max(0, self._dropped - earlier_runs) + overflow,
            silent=[one.record.title for one in silent if one is not None],
        )
        return partial(_completed, recorded, [*self._calls], [*self._pieces], kept)


def _completed(
    recorded: Recorded,
    calls: list[Any],
    pieces: list[tuple[int, int, bytes]],
    kept: int,
) -> Recorded:
    """Puts what is of its time into a record."""
    began, ended, dropped = recorded.began, recorded.ended, recorded.dropped
    runs: list[Ran] = []
    link_calls: list[tuple[int, int, float]] = []
    for session, count, piece in pieces:
        try:
            found, sent = read_piece(session, _msgpack.unpackb(piece))
        except Exception:  # noqa: BLE001  # a worker has sent it, and may send anything
            dropped += count
            continue
        runs += [run for run in found if run.ended >= began and run.began <= ended]
        link_calls += [call for call in sent if began <= call[2] <= ended]
    calls = [call for call in calls if began <= call[2] <= ended]
    return recorded._replace(
        calls=[Made(*call) for call in calls[-kept:]],
        runs=[run for run in runs[-kept:] if run.name != ADD_FUNCTION],
        link_calls=link_calls,
        dropped=dropped + max(0, len(calls) - kept) + max(0, len(runs) - kept),
    )


def _keep(kept: dict[Any, V], key: object, value: V) -> None:
    """Adds something; the oldest goes if there is no room."""
    kept[key] = value
    if len(kept) > _ACTORS:
        del kept[next(iter(kept))]


def _session_of(supervisor: ActorSupervisor) -> WorkerSession | None:
    """Gives the worker of an actor that has begun and not ended."""
    session = supervisor.session
    if session is None or not session.channel.is_open:
        return None
    # Before it is alive, START may be still to come, in front of which nothing goes.
    return None if supervisor.record.state is ActorState.STARTING else session


def _described(record: ActorRecord, state: str = "") -> Actor:
    return Actor(record.id, record.label, record.pid, state)
