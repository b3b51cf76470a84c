"""What was done and when, as Chrome draws it: calls from being made to their answer.

The newest are kept, and how many were not is told. A call that is in the line of its
actor is drawn as one that runs: both is time that its caller waits.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
        self._living: dict[bytes, tuple[float, str]] = {}

    def __len__(self) -> int:
        """How many spans are kept."""
        return len(self._spans)

    def add(self, span: Span) -> None:
        """Takes a span; the oldest goes if there is no room."""
        if len(self._spans) == self._spans.maxlen:
            self.dropped += 1
        self._spans.append(span)

    def begin_life(self, actor: bytes, label: str, now: float) -> None:
        """An actor was made."""
        self._labels[actor] = label
        self._living[actor] = now, label

    def end_life(self, actor: bytes, outcome: str, now: float) -> None:
        """An actor is gone."""
        begun, label = self._living.pop(actor)
        self.add(Span(LIFE, begun, now, actor, label, outcome))
        if len(self._labels) > 2 * (self._spans.maxlen or 0):
            kept = {span.track for span in self._spans} | self._living.keys()
            self._labels = {a: name for a, name in self._labels.items() if a in kept}

    def events(self, now: float, epoch: float) -> list[dict[str, Any]]:
        """What there is, in the words of Chrome's trace events.

        Args:
            now: The time by the clock of the spans.
            epoch: What that clock showed at the beginning of 1970.
        """
        living = (
            Span(LIFE, begun, now, actor, label, "alive")
            for actor, (begun, label) in self._living.items()
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
