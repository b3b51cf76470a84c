"""Makes of what a runtime tells what its page shows.

Rates come from two looks: what was counted at one and at the next. How long a call
takes, with its time in line, follows from how many there were on the average and how
many were answered a second (Little's law), so that no call is timed for it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib._door.processes import Usage

Row = dict[str, Any]

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


def counted(told: Mapping[str, Any], usages: Mapping[int, Usage], at: float) -> Counts:
    """Takes out of a status what is counted."""
    own = told["pid"]
    found: dict[str, Count] = {}
    for row in told["actors"]:
        usage = usages.get(row["pid"]) if row["pid"] != own else None
        found[row["actor_id"]] = Count(
            row["made_calls"], row["pending_calls"], usage.cpu if usage else None
        )
    usage = usages.get(own)
    found[""] = Count(0, 0, usage.cpu if usage else None)
    return Counts(at, found)


def described(
    told: Mapping[str, Any],
    usages: Mapping[int, Usage],
    rates: Rates,
    at: float,
) -> Row:
    """Makes what the page shows of a status.

    Args:
        told: The status, with the dead.
        usages: What processes use, by pid.
        rates: What was counted, this look included.
        at: When it was, in seconds since the epoch.
    """
    living = [row for row in told["actors"] if row["state"] != "dead"]
    dead = [row for row in told["actors"] if row["state"] == "dead"]
    dead.sort(key=lambda row: row["ended_at"] or 0.0, reverse=True)
    own = usages.get(told["pid"])
    actors = [
        _actor(row, usages, rates, told["pid"]) for row in [*living, *dead[:MOST_DEAD]]
    ]
    return {
        "state": "live",
        "at": at,
        "runtime": {
            "pid": told["pid"],
            "program": " ".join(told["program"]),
            "version": told["version"],
            "python": told["python"],
            "cpu": _rounded(rates.cpu(""), 1),
            "rss": own.rss if own else None,
            "total": told["total"],
            "available": told["available"],
            "store": told["object_store"],
        },
        "devices": [_device(row) for row in told["devices"]],
        "actors": actors,
        "dead_left_out": max(0, len(dead) - MOST_DEAD),
        "line": _line(told, actors),
        "line_left_out": told["waiting_count"] - len(told["waiting"]),
        "functions": [
            {name: row[name] for name in ("resources", "waiting", "running", "pids")}
            for row in told["functions"]
        ],
        "draining": told["draining"],
        "point": _point(living, rates, at),
    }


def _actor(
    row: Mapping[str, Any], usages: Mapping[int, Usage], rates: Rates, own: int
) -> Row:
    actor, pid, state = row["actor_id"], row["pid"], row["state"]
    # Inline, all actors are threads of one process, and none has its figures.
    usage = None if pid == own or state == "dead" else usages.get(pid)
    running = row["running_calls"]
    return {
        "id": actor,
        "kind": row["class_name"],
        "said": row["repr_name"],
        "name": row["name"],
        "state": state,
        "pid": pid,
        "asked": row["resources"],
        "devices": row["devices"],
        "granted": row["device_nbytes"],
        "used": row["device_memory"],
        "hold": row["share"]["devices"],
        "running": running,
        "pending": row["pending_calls"],
        "waiting": None if running is None else max(0, row["pending_calls"] - running),
        "rate": _rounded(rates.calls(actor), 1) if state != "dead" else None,
        "cpu": _rounded(rates.cpu(actor), 1),
        "rss": usage.rss if usage else None,
        "is_stopped": usage is not None and usage.state in "tT",
        "restarts": row["restarts"],
        "started": row["started_at"],
        "ended": row["ended_at"],
        "why": row["why"],
        "death": row["death"],
        "earlier": list(row["earlier_deaths"]),
    }


def _device(row: Mapping[str, Any]) -> Row:
    return {
        "id": row["device"],
        "kind": row["kind"],
        "model": row["model"],
        "nbytes": row["nbytes"],
        "free": row["available"],
        "is_logical": row["is_logical"],
    }


def _line(told: Mapping[str, Any], actors: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Who waits, in order, as far as is known, and behind them those out of line."""
    reasons = {label_of(row): row for row in actors if row["why"]}
    line: list[Row] = []
    for entry in told["waiting"]:
        label, _, asks = entry.partition(": ")
        row = reasons.pop(label, None)
        why, actor = (row["why"], row["id"]) if row else ("", None)
        line.append({"label": label, "asks": asks, "why": why, "actor": actor})
    line += [
        {"label": label, "asks": "", "why": row["why"], "actor": row["id"]}
        for label, row in reasons.items()
    ]
    return line


def label_of(row: Mapping[str, Any]) -> str:
    """Names an actor that is shown: ``Model 'm1'``."""
    head = row["said"] or row["kind"]
    return head if row["name"] is None else f"{head} {row['name']!r}"


def _point(living: Sequence[Mapping[str, Any]], rates: Rates, at: float) -> Row:
    ids = [row["actor_id"] for row in living]
    each = [rates.calls(actor) for actor in ids]
    known = [rate for rate in each if rate is not None]
    return {
        "at": at,
        "rate": _rounded(sum(known), 1) if known or not ids else None,
        "took": rates.seconds_a_call(ids),
        "pending": sum(row["pending_calls"] for row in living),
        "cpu": _rounded(rates.cpu(""), 1),
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
