"""Records calls of a runtime on request, for a timeline.

The owner records when a call got its number, its caller and its callee, as reported by
the call tables (``call_table``). The worker records when the call ran (``worker``), and
sends that in pieces that are not parsed before the end. So a call costs the owner
little during a recording.

Several recordings may be active at once. They share one buffer, and each gets the part
of its time. The newest calls are kept, and the dropped ones are counted.
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
from actorlib._features.recording.worker import BEGIN, END, TELL
from actorlib._futures.object_ref import ObjectRef
from actorlib._owner.actors.actor_record import ActorState
from actorlib._owner.requests.worker_calls import WorkerCall, WorkerStream
from actorlib._wire.function_code import ADD_FUNCTION
from actorlib._wire.messages import FEATURE, RECORDED

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from actorlib._owner.actors.actor_record import ActorRecord
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.engine import LocalEngine
    from actorlib._owner.observation.inquiries import Answers

_NAME: Final = "recording"
"""The name of this folder: see ``_worker/features.py``."""
PATIENCE: Final = 1.0
"""Seconds that workers may take to send the rest of their recordings."""
_MOVES: Final = 10_000
_ACTORS: Final = 10_000
"""The most kept actors that have changed, and the most kept sessions."""
_PUTS: Final = 10_000
_PIECES: Final = 100_000
_msgpack: Any = msgpack

V = TypeVar("V")


class _Recording(NamedTuple):
    """One recording: its limit, and the actors at its beginning.

    ``calls`` and ``runs`` are the numbers that were recorded before.
    """

    most: int
    actors: dict[bytes, Actor]
    calls: int
    runs: int


@final
class CallRecording:
    """Records the calls of one runtime; see ``RuntimeEngine.attached``."""

    command: ClassVar[str] = "actorlib trace"
    on_ray: ClassVar[str] = (
        "calls are Ray's, which draws them itself: by the command 'ray timeline'"
    )

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._table = engine.actor_table
        self._table.watch = self._watch_new
        engine.requests.others[RECORDED] = self._add
        self._supervisors = self._table.by_id
        # By the time of their beginning.
        self._recordings: dict[float, _Recording] = {}
        self._active: set[float] = set()
        self._recorded_calls = 0  # with the dropped ones
        self._calls: deque[Any] = deque(maxlen=1)
        self._pieces: deque[tuple[int, int, bytes]] = deque()
        self._piece_runs = 0
        self._most = 0
        self._moves: deque[Moved] = deque(maxlen=_MOVES)
        self._puts: deque[tuple[float, int]] = deque(maxlen=_PUTS)
        self._sessions: dict[int, bytes] = {}
        self._actors: dict[bytes, Actor] = {}
        self._dropped = 0
        self._questions = 0

    def begin(self, most: int) -> float:
        """Begins a recording of at most so many calls, and as many runs.

        Returns:
            Its start time, which identifies it.

        Raises:
            RuntimeError: The runtime was shut down, or this is not its loop's thread.
        """
        self._engine.check_open()
        began = time.monotonic()
        while began in self._recordings:  # the clock is coarse on some systems
            began += 1e-6
        if most > self._most:
            self._most = most
            self._calls = deque(self._calls, maxlen=most)
        first: dict[bytes, Actor] = {
            actor: _describe(one.record, one.record.state.value)
            for actor, one in self._supervisors.items()
        }
        runs = self._dropped + self._piece_runs
        calls = self._recorded_calls
        self._recordings[began] = _Recording(most, first, calls, runs)
        self._active.add(began)
        if len(self._active) == 1:
            self._switch_on()
        return began

    def end(
        self, began: float, *, goes_on: bool = False
    ) -> asyncio.Future[Callable[[], Recorded]]:
        """Ends a recording, or returns its current part.

        Args:
            began: The start time of the recording.
            goes_on: Whether the recording continues. Default: False.

        Returns:
            Done when workers have sent the rest, with a function that makes the result,
            on any thread.
        """
        ended = time.monotonic()
        if not goes_on:
            self._active.discard(began)
        dropped = self._recorded_calls - len(self._calls)
        overflow = max(0, dropped - self._recordings[began].calls)
        if not self._active:
            self._switch_off()
        self._questions += 1
        mode = TELL if self._active else END
        sessions = [
            session
            for supervisor in self._supervisors.values()
            if (session := _session_of(supervisor)) is not None
        ]
        question = (FEATURE, _NAME, mode, self._questions)
        answers = self._table.inquiries.ask(
            sessions, question, PATIENCE, self._questions
        )
        result: asyncio.Future[Callable[[], Recorded]] = (
            self._table.loop.create_future()
        )
        answers.add_done_callback(partial(self._finish, began, ended, overflow, result))
        return result

    def _finish(
        self,
        began: float,
        ended: float,
        overflow: int,
        result: asyncio.Future[Callable[[], Recorded]],
        answers: asyncio.Future[Answers],
    ) -> None:
        recorded = self._make_recording(began, ended, overflow, answers.result())
        if began not in self._active:
            del self._recordings[began]
        if not self._recordings:
            self._clear()
        if not result.done():  # the caller may be cancelled
            result.set_result(recorded)

    def _clear(self) -> None:
        self._calls.clear()
        self._pieces.clear()
        self._moves.clear()
        self._puts.clear()
        self._sessions.clear()
        self._actors.clear()
        self._piece_runs = self._dropped = self._most = self._recorded_calls = 0

    # Events.

    def _watch_new(self, supervisor: ActorSupervisor) -> None:
        """Records the events of a new actor."""
        if self._active:
            self._note_move(supervisor.record)
            self._watch(supervisor)

    def _add(
        self, session: WorkerSession, number: int, runs: int, piece: bytes
    ) -> None:
        """Adds a piece of a worker's recording, with its number of runs."""
        if self._recordings:
            _keep(self._sessions, session.number, session.actor)
            self._pieces.append((session.number, runs, piece))
            self._piece_runs += runs
            self._drop_pieces()
        if number:
            self._table.inquiries.answered(session, FEATURE, None, number)

    def _drop_pieces(self) -> None:
        # A piece may have more runs than are kept: the result is cut to the limit.
        while (
            self._piece_runs - self._pieces[0][1] >= self._most
            or len(self._pieces) > _PIECES
        ):
            _, runs, _ = self._pieces.popleft()
            self._piece_runs -= runs
            self._dropped += runs

    def _switch_on(self) -> None:
        for supervisor in self._supervisors.values():
            self._watch(supervisor)
            self._begin(supervisor)
        self._table.pool.calls.note_sent = partial(self._note_call, b"")
        self._table.objects.note_put = self._note_put

    def _switch_off(self) -> None:
        for supervisor in self._supervisors.values():
            supervisor.record.watcher = None
        for supervisor in self._callees():
            supervisor.router.calls.note_sent = None
        self._table.pool.calls.note_sent = None
        self._table.objects.note_put = None

    def _callees(self) -> Iterator[ActorSupervisor]:
        """Yields all but the workers of functions, whose calls are in the pool."""
        return (one for one in self._supervisors.values() if one.record.is_actor)

    def _begin(self, supervisor: ActorSupervisor) -> None:
        session = _session_of(supervisor)
        if session is not None:
            _keep(self._sessions, session.number, session.actor)
            session.channel.send((FEATURE, _NAME, BEGIN, 0))

    def _watch(self, supervisor: ActorSupervisor) -> None:
        supervisor.record.watcher = self._note_move
        if supervisor.record.is_actor:
            sent = partial(self._note_call, supervisor.record.id)
            supervisor.router.calls.note_sent = sent

    def _note_call(self, callee: bytes, number: int, target: object, what: Any) -> None:
        """Records a call that has got its number; functions have an empty callee."""
        self._recorded_calls += 1
        session = parent = 0
        # Most calls are made by the program.
        if type(target) is not ObjectRef and isinstance(
            target, (WorkerCall, WorkerStream)
        ):
            session, parent = target.session.number, target.parent_call
        name = what if type(what) is str else what.entry.label
        # The fields of ``Made``: a plain tuple takes half the time.
        self._calls.append((callee, number, time.monotonic(), session, parent, name))

    def _note_move(self, record: ActorRecord) -> None:
        why = str(record.exit or "")
        _keep(self._actors, record.id, _describe(record))
        move = Moved(record.id, time.monotonic(), record.state.value, why)
        self._moves.append(move)
        if record.state is ActorState.ALIVE:
            self._begin(self._supervisors[record.id])  # before any call is sent to it

    def _note_put(self, nbytes: int) -> None:
        self._puts.append((time.monotonic(), nbytes))

    # The result.

    def _make_recording(
        self, began: float, ended: float, overflow: int, answers: Answers
    ) -> Callable[[], Recorded]:
        most, first, _, earlier_runs = self._recordings[began]
        living: dict[bytes, Actor] = {
            actor: _describe(one.record) for actor, one in self._supervisors.items()
        }
        actors: dict[bytes, Actor] = {**first, **self._actors, **living}
        waiting = {
            (supervisor.record.id, call.number)
            for supervisor in self._callees()
            for call in supervisor.router.unanswered()
        } | {(b"", call.number) for call in self._table.pool.unanswered()}
        silent = (self._supervisors.get(ActorId(s.actor)) for s in answers.silent)
        recorded = Recorded(
            began=began,
            ended=ended,
            pid=os.getpid(),
            actors=[
                actor._replace(state=first[key].state if key in first else "")
                for key, actor in actors.items()
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
        return partial(
            _complete_recording, recorded, [*self._calls], [*self._pieces], most
        )


def _complete_recording(
    recorded: Recorded,
    calls: list[Any],
    pieces: list[tuple[int, int, bytes]],
    most: int,
) -> Recorded:
    """Adds the calls and runs of the recording's time."""
    began, ended, dropped = recorded.began, recorded.ended, recorded.dropped
    runs: list[Ran] = []
    link_calls: list[tuple[int, int, float]] = []
    for session, count, piece in pieces:
        try:
            new_runs, new_calls = read_piece(session, _msgpack.unpackb(piece))
        except Exception:  # noqa: BLE001  # a worker may send anything
            dropped += count
            continue
        runs += [run for run in new_runs if run.ended >= began and run.began <= ended]
        link_calls += [call for call in new_calls if began <= call[2] <= ended]
    calls = [call for call in calls if began <= call[2] <= ended]
    return recorded._replace(
        calls=[Made(*call) for call in calls[-most:]],
        runs=[run for run in runs[-most:] if run.name != ADD_FUNCTION],
        link_calls=link_calls,
        dropped=dropped + max(0, len(calls) - most) + max(0, len(runs) - most),
    )


def _keep(entries: dict[Any, V], key: object, value: V) -> None:
    """Adds an entry; drops the oldest if there are too many."""
    entries[key] = value
    if len(entries) > _ACTORS:
        del entries[next(iter(entries))]


def _session_of(supervisor: ActorSupervisor) -> WorkerSession | None:
    """Returns the session of a worker that has begun and not ended."""
    session = supervisor.session
    if session is None or not session.channel.is_open:
        return None
    # Before it is alive, START may not be sent yet, and must be the first frame.
    return None if supervisor.record.state is ActorState.STARTING else session


def _describe(record: ActorRecord, state: str = "") -> Actor:
    return Actor(record.id, record.label, record.pid, state)
