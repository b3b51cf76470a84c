"""The engine of a script that asks for its timeline, as Chrome draws one.

It writes down every call from being made to its answer, and every actor. The newest
are kept, and how many were not is said. A call that is in the line of its actor is
drawn as one that runs: both is time that its caller waits.

A call costs some 3 us more then, of ten in a burst; so this is the engine of nobody who
has not asked for it.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from actorlib._core.loop_thread import ThreadedLoop
from actorlib._owner.threadsafe_engine import CrossingEngine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from actorlib._core.callee import Callee
    from actorlib._core.engine import ActorSpec
    from actorlib._core.ids import ActorId
    from actorlib._core.object_ref import ObjectRef
    from actorlib._core.runtime_options import RuntimeOptions
    from actorlib._core.stream_reader import StreamReader
    from actorlib._owner.machine import LocalNode
    from actorlib._owner.supervisor import ActorSupervisor


CALL = "task"
LIFE = "actor"


class Span(NamedTuple):
    """Something that began and ended.

    Attributes:
        kind: ``CALL`` or ``LIFE``.
        begun: When it began, by a clock that never goes back.
        ended: When it ended.
        track: Whose it is: the id of an actor, or nothing for functions.
        name: The method, the function, or the class.
        outcome: ``"finished"``, or the name of the error.
    """

    kind: str
    begun: float
    ended: float
    track: bytes
    name: str
    outcome: str


class Timeline:
    """The newest spans.

    Args:
        limit: How many are kept.

    Attributes:
        dropped: How many were not.
    """

    def __init__(self, limit: int) -> None:
        self.dropped = 0
        self._spans: deque[Span] = deque(maxlen=limit)
        self._labels: dict[bytes, str] = {}
        self._alive: dict[bytes, tuple[float, str]] = {}

    def __len__(self) -> int:
        """How many spans are kept."""
        return len(self._spans)

    def add(self, span: Span) -> None:
        """Takes a span; the oldest goes if there is no room."""
        if len(self._spans) == self._spans.maxlen:
            self.dropped += 1
        self._spans.append(span)

    def begin_actor(self, actor: bytes, label: str, now: float) -> None:
        """An actor was made."""
        self._labels[actor] = label
        self._alive[actor] = now, label

    def end_actor(self, actor: bytes, outcome: str, now: float) -> None:
        """An actor is gone."""
        begun, label = self._alive.pop(actor)
        self.add(Span(LIFE, begun, now, actor, label, outcome))
        if len(self._labels) > 2 * (self._spans.maxlen or 0):
            kept = {span.track for span in self._spans} | self._alive.keys()
            self._labels = {a: name for a, name in self._labels.items() if a in kept}

    def events(self, now: float, epoch: float) -> list[dict[str, Any]]:
        """What there is, in the words of Chrome's trace events.

        Args:
            now: The time by the clock of the spans.
            epoch: What that clock showed at the beginning of 1970.
        """
        living = (
            Span(LIFE, begun, now, actor, label, "alive")
            for actor, (begun, label) in self._alive.items()
        )
        drawn = list(_drawn([*self._spans, *living], self._labels, epoch))
        if self.dropped:
            labels = f"{self.dropped} older events were not kept"
            drawn.append(_about(0, "process_labels", labels=labels))
        return drawn


def _drawn(
    spans: Iterable[Span], labels: dict[bytes, str], epoch: float
) -> Iterator[dict[str, Any]]:
    tracks: dict[bytes, list[Span]] = {b"": []}
    for span in spans:
        tracks.setdefault(span.track, []).append(span)
    for pid, (track, its) in enumerate(tracks.items()):
        label = labels.get(track, "Actor") if track else "functions"
        if its:
            yield _about(pid, "process_name", name=f"{label} {track.hex()}".strip())
        for tid, span in laned(its):
            name = f"{label}.{span.name}" if track and span.kind == CALL else span.name
            yield {
                "cat": span.kind,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": (span.begun - epoch) * 1e6,
                "dur": (span.ended - span.begun) * 1e6,
                "ph": "X",
                "args": {"actor_id": track.hex(), "outcome": span.outcome},
            }


def laned(spans: Iterable[Span]) -> Iterator[tuple[int, Span]]:
    """Spans by their beginnings, each in the first lane that is free by then.

    What overlaps in one lane would be drawn as if the one had called the other.
    """
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    for span in sorted(spans, key=_outermost):
        while busy and busy[0][0] <= span.begun:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (span.ended, lane))
        yield lane, span


def _outermost(span: Span) -> tuple[bool, float]:
    return span.kind != LIFE, span.begun


def _about(pid: int, what: str, **args: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": 0, "args": args}


_clock = time.perf_counter


class RecordingEngine(CrossingEngine):
    """A CrossingEngine that keeps a timeline of what its script does.

    Args:
        machine: What there is.
        options: How the runtime behaves.
        kept: How many events are kept.
    """

    def __init__(self, machine: LocalNode, options: RuntimeOptions, kept: int) -> None:
        super().__init__(machine, options)
        self._timeline = Timeline(kept)

    def timeline(self) -> list[dict[str, Any]]:
        """What was done and when, as Chrome's trace events."""
        now = _clock()
        epoch = now - time.time()
        return self._across(partial(self._timeline.events, now, epoch))

    def create(self, spec: ActorSpec) -> ActorId:
        """Creates an actor; see Engine."""
        actor = super().create(spec)
        begin = partial(self._begin, actor, spec.interface.class_name, _clock())
        if threading.get_ident() == self._thread:
            begin()
        else:
            self._home.post(begin)
        return actor

    def call(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Makes a call; see Engine."""
        begun = _clock()
        ref = super().call(callee, args, kwargs)
        ref.add_done_callback(partial(self._done, begun, callee.actor, callee.name))
        return ref

    def stream(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        """Calls a generator; see Engine."""
        begun = _clock()
        reading = super().stream(callee, args, kwargs)
        done = partial(self._done, begun, callee.actor, callee.name)
        reading.completed.add_done_callback(done)
        return reading

    # On the loop.

    def _begin(self, actor: ActorId, label: str, begun: float) -> None:
        supervisor = self._supervisors.get(actor)
        if supervisor is not None:
            self._timeline.begin_actor(actor, label, begun)
            supervisor.ended.add_done_callback(partial(self._ended, supervisor))

    def _ended(self, supervisor: ActorSupervisor, _: object) -> None:
        how = str(supervisor.record.exit or "ended")
        self._timeline.end_actor(supervisor.record.id, how, _clock())

    def _done(
        self, begun: float, track: bytes, name: str, ref: asyncio.Future[Any]
    ) -> None:
        # exception() would count as somebody's look at it, who would be told else.
        error = cast("Any", ref)._exception  # noqa: SLF001  # asyncio's name for it
        outcome = "finished" if error is None else type(error).__name__
        if ref.cancelled():
            outcome = "TaskCancelledError"
        self._timeline.add(Span(CALL, begun, _clock(), track, name, outcome))


VARIABLE = "ACTORLIB_TIMELINE"
"""``1`` has a script write down what it does; a greater number says how much of it."""
KEPT = 100_000


def engine_for(machine: LocalNode, options: RuntimeOptions) -> CrossingEngine:
    """The engine on the loop that is running.

    Args:
        machine: What there is.
        options: How the runtime behaves.
    """
    is_script = isinstance(asyncio.get_running_loop(), ThreadedLoop)
    kept = kept_events() if is_script else 0
    if kept:
        return RecordingEngine(machine, options, kept)
    return CrossingEngine(machine, options)


def kept_events() -> int:
    """How many of the newest events a script keeps of what it does; 0 for none.

    Raises:
        ValueError: The variable is no number.
    """
    said = os.environ.get(VARIABLE) or "0"
    if not said.isdecimal():
        raise ValueError(
            f"{VARIABLE} takes 1, or how many of the newest events are kept, not "
            f"{said!r}"
        )
    return KEPT if said == "1" else int(said)
