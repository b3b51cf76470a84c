"""Makes of what a runtime tells what its page shows.

Rates come from two looks: what was counted at one and at the next. How long a call
takes, with its time in line, follows from how many there were on the average and how
many were answered a second (Little's law), so that no call is timed for it.
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
"""How many looks the curves show."""
MOST_DEAD: Final = 100
"""How many actors that are dead are shown, the latest."""
_WINDOW = 10
"""Over so many looks the time that a call takes is averaged."""
_GAP = 10.0
"""Seconds without a look after which curves begin anew."""


class Count(NamedTuple):
    """What was counted at one look.

    Attributes:
        made: Calls that were made so far.
        pending: Calls without an answer.
        cpu: Seconds of CPU time that the process has had; None if nobody says.
    """

    made: int
    pending: int
    cpu: float | None


class Counts(NamedTuple):
    """What was counted of all actors at one look.

    Attributes:
        at: When, in seconds.
        actors: By their ids.
    """

    at: float
    actors: Mapping[str, Count]


@final
class Rates:
    """Remembers what was counted at the last looks, and tells rates."""

    def __init__(self) -> None:
        self._looks: deque[Counts] = deque(maxlen=_WINDOW + 1)

    def add(self, counts: Counts) -> bool:
        """Takes what was counted now; says whether it begins anew.

        It does if the look before was long ago, or the clock was set back.
        """
        begins = bool(self._looks) and not 0 <= counts.at - self._looks[-1].at <= _GAP
        if begins:
            self._looks.clear()
        self._looks.append(counts)
        return begins

    def calls(self, actor: str) -> float | None:
        """Calls a second that were made of an actor; None at the first look."""
        if len(self._looks) < 2:
            return None
        before, now = self._looks[-2], self._looks[-1]
        old, new = before.actors.get(actor), now.actors.get(actor)
        if new is None or now.at <= before.at:
            return None
        return max(0, new.made - (old.made if old else 0)) / (now.at - before.at)

    def cpu(self, actor: str) -> float | None:
        """CPU time of an actor's process, in per cent of one CPU."""
        if len(self._looks) < 2:
            return None
        before, now = self._looks[-2], self._looks[-1]
        old, new = before.actors.get(actor), now.actors.get(actor)
        if not old or not new or old.cpu is None or new.cpu is None:
            return None
        if now.at <= before.at:
            return None
        return max(0.0, new.cpu - old.cpu) / (now.at - before.at) * 100

    def seconds_a_call(self, actors: Sequence[str]) -> float | None:
        """How long calls of some actors took on the average, with their time in line.

        None if none was answered since the first look that is remembered, or if no look
        met a call: then they take too little time to be told.
        """
        if len(self._looks) < 2:
            return None
        first, last = self._looks[0], self._looks[-1]
        answered = 0
        for actor in actors:
            new = last.actors.get(actor)
            if new is not None:
                old = first.actors.get(actor, Count(0, 0, None))
                answered += (new.made - new.pending) - (old.made - old.pending)
        if answered <= 0:
            return None
        nobody = Count(0, 0, None)
        there = [
            sum(look.actors.get(actor, nobody).pending for actor in actors)
            for look in self._looks
        ]
        average = sum(there) / len(there)
        return average * (last.at - first.at) / answered if average else None


def counted(status: Status, usages: Mapping[int, Usage], at: float) -> Counts:
    """Takes out of a status what is counted."""
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
        label: Who waits.
        asks: What it asks for; empty for an actor that is out of line.
        why: What it waits for and who has that, as far as that is known.
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
        at: When it was, in seconds since the epoch.
        rate: Calls a second, or None if unknown.
        took: Seconds that a call takes, or None if unknown.
        pending: How many calls have no answer.
        cpu: CPU time of the program, in per cent of one CPU; None if unknown.
    """

    at: float
    rate: float | None
    took: float | None
    pending: int
    cpu: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the page shows of a runtime that answers.

    Attributes:
        state: ``"live"``.
        at: When it was, in seconds since the epoch.
        status: What the runtime answered.
        process: What the system says of the program.
        actors: The actors: those that live, and the latest of the dead.
        dead_left_out: How many dead actors there are besides.
        line: Those who wait, in order.
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
        """How many wait besides."""
        return self.status.waiting_count - len(self.status.snapshot.waiting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """What the page shows of a runtime whose loop does not answer."""

    state: str = "blocked"
    at: float
    standstill: Standstill


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """What the page shows of a runtime that does not answer at all.

    Attributes:
        state: ``"gone"``.
        at: When it was, in seconds since the epoch.
        reason: Why it does not.
    """

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
            "actor_id class_name repr_name name state pid resources devices "
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
"""What the page reads: ``page.html`` names these columns, and those of other rows."""


def described(
    status: Status, usages: Mapping[int, Usage], rates: Rates, at: float
) -> Shown:
    """Makes what the page shows of a status.

    Args:
        status: The status, with the dead.
        usages: What processes use, by pid.
        rates: What was counted, this look included.
        at: When it was, in seconds since the epoch.
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
    # Inline, all actors are threads of one process, and none has its figures.
    usage = None if is_dead or actor.pid == status.pid else usages.get(actor.pid)
    process = ProcessUse(
        cpu=_rounded(rates.cpu(actor.actor_id), 1),
        rss=usage.rss if usage else None,
        is_stopped=usage is not None and usage.state in "tT",
    )
    rate = None if is_dead else _rounded(rates.calls(actor.actor_id), 1)
    return describe_actor(actor, status, at, process, rate)


def _line(status: Status, actors: Sequence[ActorStatus]) -> tuple[InLine, ...]:
    """Who waits, in order, as far as is known, and behind them those out of line."""
    waiting = {actor.label: actor for actor in actors if actor.why}
    line: list[InLine] = []
    for entry in status.snapshot.waiting:
        label, _, asks = entry.partition(": ")
        actor = waiting.pop(label, None)
        line.append(
            InLine(
                label=label,
                asks=asks,
                why=actor.why if actor else "",
                actor=actor.actor_id if actor else None,
            )
        )
    line += [
        InLine(label=label, asks="", why=actor.why, actor=actor.actor_id)
        for label, actor in waiting.items()
    ]
    return tuple(line)


def _point(living: Sequence[ActorInfo], rates: Rates, at: float) -> Point:
    ids = [actor.actor_id for actor in living]
    each = [rates.calls(actor) for actor in ids]
    known = [rate for rate in each if rate is not None]
    return Point(
        at=at,
        rate=_rounded(sum(known), 1) if known or not ids else None,
        took=rates.seconds_a_call(ids),
        pending=sum(actor.pending_calls for actor in living),
        cpu=_rounded(rates.cpu(""), 1),
    )


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
