"""Converts samples of a runtime to the content of its page.

Rates are the differences of two samples. The time of a call, with its time in the
queue, follows from the average number of unanswered calls and the answers per second
(Little's law), so no call is timed for it.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, final

from actorlib._base.value import dataclass
from actorlib._queries.processes import Usage
from actorlib._queries.rows import (
    ActorStatus,
    ProcessUse,
    Standstill,
    Status,
    describe_actor,
)
from actorlib._rows.rows import RowEncoder
from actorlib._rows.snapshot import ActorInfo, WorkerGroupInfo

POINTS: Final = 180
"""The number of samples in the curves."""
MOST_DEAD: Final = 100
"""The most dead actors that are shown, the latest."""
_WINDOW = 10
"""The number of samples over which the time of a call is averaged."""
_GAP = 10.0
"""Seconds without a sample after which the curves begin again."""


class Count(NamedTuple):
    """The counts of one actor in one sample; CPU time in seconds, None if unknown."""

    made: int
    pending: int
    cpu: float | None


class Counts(NamedTuple):
    """The counts of all actors in one sample by their ids, and its time in seconds."""

    at: float
    actors: Mapping[str, Count]


@final
class Rates:
    """Computes rates from the counts in the last samples."""

    def __init__(self) -> None:
        self._samples: deque[Counts] = deque(maxlen=_WINDOW + 1)

    def add(self, counts: Counts) -> bool:
        """Adds the counts of a sample; returns True if the history begins again.

        That is the case if the sample before was long ago or the clock was set back.
        """
        samples = self._samples
        begins = bool(samples) and not 0 <= counts.at - samples[-1].at <= _GAP
        if begins:
            self._samples.clear()
        self._samples.append(counts)
        return begins

    def calls(self, actor: str) -> float | None:
        """Returns the calls per second of an actor; None for the first sample."""
        seconds, old, new = self._latest(actor)
        if new is None or seconds <= 0:
            return None
        return max(0, new.made - (old.made if old else 0)) / seconds

    def cpu(self, actor: str) -> float | None:
        """Returns the CPU time of an actor's process, in per cent of one CPU."""
        seconds, old, new = self._latest(actor)
        if not old or not new or old.cpu is None or new.cpu is None or seconds <= 0:
            return None
        return max(0.0, new.cpu - old.cpu) / seconds * 100

    def _latest(self, actor: str) -> tuple[float, Count | None, Count | None]:
        """Returns the seconds between the last two samples, and an actor's counts."""
        if len(self._samples) < 2:
            return 0.0, None, None
        before, now = self._samples[-2], self._samples[-1]
        return now.at - before.at, before.actors.get(actor), now.actors.get(actor)

    def seconds_a_call(self, actors: Sequence[str]) -> float | None:
        """Returns the average time of calls of actors, with their time in the queue.

        None if no call was answered in the history, or if no sample contains a call:
        then they are too short to be measured.
        """
        if len(self._samples) < 2:
            return None
        first, last = self._samples[0], self._samples[-1]
        answered = 0
        nothing = Count(0, 0, None)
        for actor in actors:
            new = last.actors.get(actor)
            if new is not None:
                old = first.actors.get(actor, nothing)
                answered += (new.made - new.pending) - (old.made - old.pending)
        if answered <= 0:
            return None
        pending = [
            sum(sample.actors.get(actor, nothing).pending for actor in actors)
            for sample in self._samples
        ]
        average = sum(pending) / len(pending)
        return average * (last.at - first.at) / answered if average else None


def count_calls(status: Status, usages: Mapping[int, Usage], at: float) -> Counts:
    """Extracts the counts of a status."""
    counts: dict[str, Count] = {}
    for actor in status.snapshot.actors:
        usage = usages.get(actor.pid) if actor.pid != status.pid else None
        counts[actor.actor_id] = Count(
            actor.made_calls, actor.pending_calls, usage.cpu if usage else None
        )
    usage = usages.get(status.pid)
    counts[""] = Count(0, 0, usage.cpu if usage else None)
    return Counts(at, counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class InLine:
    """An entry of the waiting line.

    Attributes:
        label: The name of the actor or function.
        asks: The requested resources; empty for an actor outside the wait queue.
        why: What it waits for and who holds it, if known.
        actor: The id of the actor, or None.
    """

    label: str
    asks: str
    why: str
    actor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of the curves.

    Attributes:
        at: The time, in seconds since the epoch.
        rate: Calls per second, or None if unknown.
        took: The seconds of a call, or None if unknown.
        pending: The number of unanswered calls.
        cpu: CPU time of the program, in per cent of one CPU; None if unknown.
    """

    at: float
    rate: float | None
    took: float | None
    pending: int
    cpu: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The content of the page for a runtime that answers.

    Attributes:
        state: ``"live"``.
        at: The time, in seconds since the epoch.
        status: The answer of the runtime.
        process: The system's figures of the program.
        actors: The living actors, and the latest dead ones.
        dead_left_out: The number of further dead actors.
        line: The wait queue, in order.
        point: The latest point of the curves.
    """

    state: str = "live"
    at: float
    status: Status
    process: ProcessUse
    actors: tuple[ActorStatus, ...]
    dead_left_out: int
    line: tuple[InLine, ...]
    point: Point

    @property
    def program(self) -> str:
        """The command line of the program."""
        return " ".join(self.status.program)

    @property
    def line_left_out(self) -> int:
        """The number of further waiting requests."""
        return self.status.waiting_count - len(self.status.snapshot.waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """The content of the page for a runtime whose loop does not answer."""

    state: str = "blocked"
    at: float
    standstill: Standstill


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """The content of the page for a runtime that does not answer, with the reason."""

    state: str = "gone"
    at: float
    reason: str


PAGE: Final = RowEncoder(
    {
        Shown: (
            "state at pid=status.pid program version=status.version "
            "python=status.python cpu=process.cpu rss=process.rss "
            "total=status.snapshot.total available=status.snapshot.available "
            "object_store=status.snapshot.object_store "
            "devices=status.snapshot.devices actors dead_left_out line "
            "line_left_out functions=status.snapshot.worker_groups "
            "draining=status.snapshot.draining point"
        ),
        ActorStatus: (
            "actor_id class_name repr_name name slot state pid resources devices "
            "device_nbytes device_memory share running_calls pending_calls "
            "waiting_calls rate cpu=process.cpu rss=process.rss "
            "is_stopped=process.is_stopped restarts age why death "
            "earlier_deaths"
        ),
        WorkerGroupInfo: "resources waiting running pids",
        Blocked: (
            "state at seconds=standstill.seconds is_exact=standstill.is_exact "
            "is_running=standstill.is_running frames=standstill.frames"
        ),
    }
)
"""The columns of the rows. ``page.html`` reads them by these names."""


def describe_status(
    status: Status, usages: Mapping[int, Usage], rates: Rates, at: float
) -> Shown:
    """Converts a status, with dead actors, to the content of the page.

    The rates include this sample.
    """
    living = [one for one in status.snapshot.actors if one.state != "dead"]
    dead = [one for one in status.snapshot.actors if one.state == "dead"]
    dead.sort(key=lambda actor: actor.ended_at or 0.0, reverse=True)
    own = usages.get(status.pid)
    actors = tuple(
        _actor(actor, status, usages, rates, at)
        for actor in (*living, *dead[:MOST_DEAD])
    )
    return Shown(
        at=at,
        status=status,
        process=ProcessUse(
            cpu=_rounded(rates.cpu(""), 1), rss=own.rss if own else None
        ),
        actors=actors,
        dead_left_out=max(0, len(dead) - MOST_DEAD),
        line=_line(status, actors),
        point=_point(living, rates, at),
    )


def _actor(
    actor: ActorInfo,
    status: Status,
    usages: Mapping[int, Usage],
    rates: Rates,
    at: float,
) -> ActorStatus:
    is_dead = actor.state == "dead"
    # Inline actors are threads of one process, so its figures belong to none of them.
    usage = None if is_dead or actor.pid == status.pid else usages.get(actor.pid)
    process = ProcessUse(
        cpu=_rounded(rates.cpu(actor.actor_id), 1),
        rss=usage.rss if usage else None,
        is_stopped=usage is not None and usage.is_stopped,
    )
    rate = None if is_dead else _rounded(rates.calls(actor.actor_id), 1)
    return describe_actor(actor, status, at, process, rate)


def _line(status: Status, actors: Sequence[ActorStatus]) -> tuple[InLine, ...]:
    """Returns the wait queue in order, and then the actors that wait outside of it."""
    waiting: dict[str, list[ActorStatus]] = {}
    for one in actors:
        if one.why:
            waiting.setdefault(one.label, []).append(one)
    line: list[InLine] = []
    for entry in status.snapshot.waiting:
        # A name may contain the separator.
        labels = (label for label in waiting if entry.startswith(f"{label}: "))
        label = next(labels, entry.partition(": ")[0])
        same = waiting.get(label)
        actor = same.pop(0) if same else None
        line.append(
            InLine(
                label=label,
                asks=entry[len(label) + 2 :],
                why=actor.why if actor else "",
                actor=actor.actor_id if actor else None,
            )
        )
    line += [
        InLine(label=label, asks="", why=one.why, actor=one.actor_id)
        for label, same in waiting.items()
        for one in same
    ]
    return tuple(line)


def _point(living: Sequence[ActorInfo], rates: Rates, at: float) -> Point:
    ids = [actor.actor_id for actor in living]
    each = [rates.calls(actor) for actor in ids]
    rated = [rate for rate in each if rate is not None]
    return Point(
        at=at,
        rate=_rounded(sum(rated), 1) if rated or not ids else None,
        took=rates.seconds_a_call(ids),
        pending=sum(actor.pending_calls for actor in living),
        cpu=_rounded(rates.cpu(""), 1),
    )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
