"""Draws a recording as trace events for Perfetto and Chrome.

The format is Chrome's "Trace Event Format" in JSON: ``X`` is a span, ``i`` an instant,
``s`` and ``f`` are the ends of an arrow, and ``M`` names a track. Times are in
microseconds from the beginning of the trace.

The program is one process in the drawing, and each actor another: its states on top,
its runs below, and its waiting calls below these. An arrow leads from the caller of a
call to its run. Overlapping spans are drawn in separate lanes: in one lane the later
one would look like a call of the earlier one.
"""

from __future__ import annotations

import heapq
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias, cast

from actorlib._base.ids import LINKED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Event: TypeAlias = dict[str, Any]

PROGRAM: Final = 0
"""The process of the program in the drawing; actors follow."""
LIFE: Final = 0
"""The lane of an actor's states."""
_RUNS: Final = 1
_QUEUE: Final = 1_000_000
"""The first lane of waiting calls; the lower ones are for runs."""
_ENDED: Final = "dead"


class Made(NamedTuple):
    """A call, as recorded by the owner.

    Attributes:
        callee: The id of the actor; empty for a function.
        number: Its number there, or among the calls of all functions.
        session: The session of the worker that made it; 0 for the program.
        parent: The call in that worker that made it, or 0.
    """

    callee: bytes
    number: int
    at: float
    session: int
    parent: int
    name: str


class Ran(NamedTuple):
    """A run of a call, or of a part of a stream.

    Attributes:
        call: The number of the call there.
        error: The class name of its error, or empty.
        is_part: Whether it is a part of a stream.
    """

    session: int
    call: int
    name: str
    began: float
    ended: float
    error: str
    is_part: bool


class Moved(NamedTuple):
    """A change of an actor's state.

    Attributes:
        why: The reason of the end, if it has ended.
    """

    actor: bytes
    at: float
    state: str
    why: str = ""


class Actor(NamedTuple):
    """An actor in a trace.

    Attributes:
        label: Its class, and its name if it has one.
        pid: Its process, or 0.
        state: Its state when the trace began; empty for a later actor.
    """

    id: bytes
    label: str
    pid: int
    state: str = ""


class Recorded(NamedTuple):
    """A recording; all times are of the machine's monotonic clock.

    Attributes:
        actors: The actors, and the workers of functions.
        sessions: The actor of each session.
        calls: The calls that the program's process has sent.
        link_calls: The calls over links: number, the caller's own call, time.
        puts: The time and bytes of each put value.
        waiting: The callee and number of calls without an answer at the end.
        silent: The actors that did not send their recordings.
    """

    began: float
    ended: float
    pid: int
    actors: list[Actor]
    sessions: dict[int, bytes]
    calls: list[Made]
    link_calls: list[tuple[int, int, float]]
    runs: list[Ran]
    moves: list[Moved]
    puts: list[tuple[float, int]]
    waiting: set[tuple[bytes, int]]
    dropped: int
    silent: list[str]

    def document(self) -> dict[str, Any]:
        """Makes the document for Perfetto."""
        return {
            "traceEvents": self.events(),
            "displayTimeUnit": "ms",
            "otherData": {
                "calls": len(self.calls) + len(self.link_calls),
                "runs": len(self.runs),
                "dropped": self.dropped,
                "silent": self.silent,
            },
        }

    def events(self) -> list[Event]:
        return list(_Drawing(self).events())

    def to_plain(self) -> Mapping[str, Any]:
        """Converts a recording to values that can be sent to another process."""
        return {
            **self._asdict(),
            "actors": [list(actor) for actor in self.actors],
            "sessions": list(self.sessions.items()),
            "waiting": list(self.waiting),
        }

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Self:
        """Reverts ``to_plain``."""
        rows: dict[str, Any] = {
            "actors": [Actor(*row) for row in values["actors"]],
            "sessions": dict(values["sessions"]),
            "calls": [Made(*row) for row in values["calls"]],
            "link_calls": [tuple(call) for call in values["link_calls"]],
            "runs": [Ran(*row) for row in values["runs"]],
            "moves": [Moved(*row) for row in values["moves"]],
            "puts": [tuple(put) for put in values["puts"]],
            "waiting": {tuple(call) for call in values["waiting"]},
        }
        return cls(**{**values, **rows})


def lanes(spans: Iterable[tuple[float, float]]) -> list[int]:
    """Assigns to each span the first lane that is free when it begins.

    Returns:
        A lane for each, in the same order.
    """
    listed = list(spans)
    result = [0] * len(listed)
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    for place in sorted(range(len(listed)), key=lambda n: listed[n]):
        begun, ended = listed[place]
        while busy and busy[0][0] <= begun:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (ended, lane))
        result[place] = lane
    return result


class _Drawing:
    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._actors = {actor.id: actor for actor in recorded.actors}
        self._pids = {
            actor.id: pid for pid, actor in enumerate(recorded.actors, PROGRAM + 1)
        }
        self._calls = {(call.callee, call.number): call for call in recorded.calls}
        self._link_calls = {
            number: Made(
                b"", number, at, number // LINKED, parent, "a call over a link"
            )
            for number, parent, at in recorded.link_calls
        }
        self._first: dict[tuple[bytes, int], Ran] = {}
        self._last: dict[tuple[bytes, int], Ran] = {}
        self._places: dict[tuple[int, int], list[tuple[Ran, int]]] = {}

    def events(self) -> Iterator[Event]:
        yield from self._names()
        yield from self._lives()
        yield from self._draw_runs()
        yield from self._draw_calls()
        for at, nbytes in self._recorded.puts:
            yield {
                **self._instant("put", "object", PROGRAM, at),
                "args": {"nbytes": nbytes},
            }

    # Tracks.

    def _names(self) -> Iterator[Event]:
        yield _about(PROGRAM, "process_name", name=f"program {self._recorded.pid}")
        yield _about(PROGRAM, "process_sort_index", sort_index=PROGRAM)
        if self._recorded.dropped:
            labels = f"{self._recorded.dropped} older calls and runs were not kept"
            yield _about(PROGRAM, "process_labels", labels=labels)
        for actor, pid in self._pids.items():
            row = self._actors[actor]
            where = f" {row.pid}" if row.pid else ""
            yield _about(pid, "process_name", name=f"{row.label}{where}")
            yield _about(pid, "process_sort_index", sort_index=pid)
            yield _about(pid, "thread_name", LIFE, name="state")

    def _lives(self) -> Iterator[Event]:
        moves: dict[bytes, list[Moved]] = {}
        began = self._recorded.began
        for actor in self._recorded.actors:
            first = [Moved(actor.id, began, actor.state)] if actor.state else []
            moves[actor.id] = first
        for move in self._recorded.moves:
            moves.setdefault(move.actor, []).append(move)
        for actor_id, its in moves.items():
            pid = self._pids.get(actor_id)
            if pid is None or not its:
                continue
            ends = [*(move.at for move in its[1:]), self._recorded.ended]
            for move, end in zip(its, ends, strict=True):
                if move.state == _ENDED:
                    at = self._instant(f"died: {move.why}", "death", pid, move.at)
                    yield {**at, "s": "p"}
                else:
                    yield self._span(move.state, "life", pid, LIFE, move.at, end)

    # Runs and calls.

    def _draw_runs(self) -> Iterator[Event]:
        by_actor: dict[bytes, list[Ran]] = {}
        for run in self._recorded.runs:
            actor = self._recorded.sessions.get(run.session, b"")
            if actor in self._pids:
                by_actor.setdefault(actor, []).append(run)
        for actor, runs in by_actor.items():
            pid = self._pids[actor]
            for run, lane in zip(
                runs, lanes((run.began, run.ended) for run in runs), strict=True
            ):
                key = self._key(actor, run)
                if key not in self._first or run.began < self._first[key].began:
                    self._first[key] = run
                if key not in self._last or run.ended > self._last[key].ended:
                    self._last[key] = run
                places = self._places.setdefault((run.session, run.call), [])
                places.append((run, _RUNS + lane))
                call = self._call(key)
                args = {
                    "outcome": run.error or "finished",
                    "call": key[1],
                    "caller": "" if call is None else self._caller(call),
                }
                yield {
                    **self._span(
                        self._named(actor, run.name),
                        "stream" if run.is_part else "run",
                        pid,
                        _RUNS + lane,
                        run.began,
                        run.ended,
                    ),
                    "args": args,
                }

    def _key(self, actor: bytes, run: Ran) -> tuple[bytes, int]:
        """Returns the key of a call; only that of a method has the actor."""
        is_of_actor = run.call < LINKED and ":" not in run.name
        return (actor if is_of_actor else b""), run.call

    def _call(self, key: tuple[bytes, int]) -> Made | None:
        if key[1] >= LINKED:
            return self._link_calls.get(key[1])
        return self._calls.get(key)

    def _draw_calls(self) -> Iterator[Event]:
        flow = 0
        queued: dict[int, list[tuple[str, float, float, int]]] = {}
        of_program: list[tuple[Made, float, str]] = []
        for key, call in (
            *self._calls.items(),
            *(((b"", number), call) for number, call in self._link_calls.items()),
        ):
            run = self._first.get(key)
            waits = key in self._recorded.waiting
            if run is None and not waits:
                at = self._instant(
                    f"{self._named(call.callee, call.name)}: no run was seen",
                    "call",
                    self._pids.get(call.callee, PROGRAM),
                    call.at,
                )
                yield at
                continue
            callee, name = call.callee, call.name
            if run is not None:
                callee = self._recorded.sessions.get(run.session, b"")
                name = run.name
            label = self._named(callee, name)
            pid = self._pids.get(callee, PROGRAM)
            until = self._recorded.ended if run is None else run.began
            queued.setdefault(pid, []).append((label, call.at, until, key[1]))
            if not call.session:
                last = self._last.get(key)
                end = last.ended if last and not waits else self._recorded.ended
                of_program.append((call, end, label))
                continue
            if run is not None:
                caller = self._place(call.session, call.parent, call.at)
                if caller is not None:
                    flow += 1
                    yield from self._arrow(flow, label, caller, call.at, run)
        for pid, spans in queued.items():
            where = lanes((begun, ended) for _, begun, ended, _ in spans)
            for (label, begun, ended, number), lane in zip(spans, where, strict=True):
                tid = _QUEUE + lane
                yield {
                    **self._span(label, "queue", pid, tid, begun, ended),
                    "args": {"call": number},
                }
            for lane in range(max(where) + 1):
                yield _about(pid, "thread_name", _QUEUE + lane, name="waits to run")
        where = lanes((call.at, end) for call, end, _ in of_program)
        for (call, end, label), lane in zip(of_program, where, strict=True):
            yield self._span(label, "call", PROGRAM, _RUNS + lane, call.at, end)
            run = self._first.get((call.callee, call.number))
            if run is not None:
                flow += 1
                caller = PROGRAM, _RUNS + lane
                yield from self._arrow(flow, label, caller, call.at, run)

    def _arrow(
        self, flow: int, label: str, caller: tuple[int, int], at: float, run: Ran
    ) -> Iterator[Event]:
        tids = (tid for one, tid in self._places[run.session, run.call] if one is run)
        end = self._pids[self._recorded.sessions[run.session]], next(tids)
        for phase, (pid, tid), when in (("s", caller, at), ("f", end, run.began)):
            yield {
                "ph": phase,
                "id": flow,
                "cat": "call",
                "name": label,
                "pid": pid,
                "tid": tid,
                "ts": self._ts(when),
                **({"bp": "e"} if phase == "f" else {}),
            }

    def _place(self, session: int, call: int, at: float) -> tuple[int, int] | None:
        """Returns the process and lane of a call that has made another one."""
        pid = self._pids.get(self._recorded.sessions.get(session, b""))
        for run, tid in self._places.get((session, call), ()):
            if pid is not None and run.began <= at <= run.ended:
                return pid, tid
        return None

    def _caller(self, call: Made) -> str:
        if not call.session:
            return "the program"
        actor = self._actors.get(self._recorded.sessions.get(call.session, b""))
        return "an actor that is gone" if actor is None else actor.label

    def _named(self, actor: bytes, name: str) -> str:
        row, method = self._actors.get(actor), name.rpartition(":")[2]
        if row is None or ":" in name:
            return method
        return f"{row.label.partition(' ')[0]}.{method}"

    def _span(
        self, name: str, cat: str, pid: int, tid: int, begun: float, ended: float
    ) -> Event:
        begun = max(begun, self._recorded.began)
        return {
            "ph": "X",
            "name": name,
            "cat": cat,
            "pid": pid,
            "tid": tid,
            "ts": self._ts(begun),
            "dur": max(0.0, round((ended - begun) * 1e6, 3)),
        }

    def _instant(self, name: str, cat: str, pid: int, at: float) -> Event:
        return {
            "ph": "i",
            "s": "t",
            "name": name,
            "cat": cat,
            "pid": pid,
            "tid": LIFE,
            "ts": self._ts(at),
        }

    def _ts(self, at: float) -> float:
        return round((at - self._recorded.began) * 1e6, 3)


def _about(pid: int, what: str, tid: int = 0, **args: str | int) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def read_piece(
    session: int, piece: object
) -> tuple[list[Ran], list[tuple[int, int, float]]]:
    """Parses a worker's piece of a recording, which may be anything.

    Returns:
        The runs, and the calls over links.

    Raises:
        ValueError: It is invalid.
    """
    if isinstance(piece, list) and len(parts := cast("list[object]", piece)) == 2:
        runs, sent = parts
        if isinstance(runs, list) and isinstance(sent, list):
            return (
                [_run(session, row) for row in cast("list[object]", runs)],
                [_link_call(session, row) for row in cast("list[object]", sent)],
            )
    raise ValueError("a piece has runs and calls over links")


def _run(session: int, row: object) -> Ran:
    match row:
        case [int(call), str(name), float(began), float(ended), str(error), bool(part)]:
            if isfinite(began) and began <= ended < float("inf") and call > 0:
                return Ran(session, call, name, began, ended, error, part)
        case _:
            pass
    raise ValueError(f"no run: {row!r:.100}")


def _link_call(session: int, row: object) -> tuple[int, int, float]:
    match row:
        case [int(number), int(parent), float(at)]:
            if number // LINKED == session and isfinite(at):
                return number, parent, at
        case _:
            pass
    raise ValueError(f"no call over a link: {row!r:.100}")
