"""What is left behind: actors made and dropped, many alive, many calls for one.

No figure here is about speed alone. A runtime that has made and dropped ten thousand
actors has to hold what it held after the first thousand.

Run it with ``python -m benchmarks.churn``.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks._cases import OURS, Case, Curve, Plan, Target, Unit
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job

_THOUSAND: Final = 1000
_RATE = Unit(name="actors/s", more_is_better=True)
_CALLS = Unit(name="calls/s", more_is_better=True)
_COUNT = Unit(name="")
_BYTES = Unit(name="bytes")
_KIB = Unit(name="KiB", scale=1 / 1024)
_MIB = Unit(name="MiB", scale=1 / 1024**2)

_NONE: Final = (Target(bound=0),)
_HALF_EACH: Final = (Target(bound=_THOUSAND / 2),)
"""An object that is forgotten with each actor makes a thousand; what the interpreter
fills up over time (its tables and free lists) makes tens, and fewer each time."""

_HEAP: Final = (Target(bound=1024.0 * _THOUSAND),)
"""One pipe that is forgotten with each actor makes 64 MiB; that the interpreter's table
of names doubles, once in ten thousand actors, makes half a MiB."""

_MEMORY: Final = (Target(bound=1024.0 * _THOUSAND),)
"""What is forgotten of one actor is a record, a life and its calls, together some KiB;
less than one KiB each is where the allocator happens to have its holes."""

_GROWTHS: Final = (
    ("owner's memory", _KIB, "owner memory", _MEMORY),
    ("owner's heap, what C code asked for", _KIB, "heap", _HEAP),
    ("owner's blocks of Python memory", _COUNT, "blocks", _HALF_EACH),
    ("owner's objects in the collector", _COUNT, "objects", _HALF_EACH),
    ("owner's descriptors", _COUNT, "owner descriptors", _NONE),
    ("template's memory", _KIB, "template memory", _MEMORY),
    ("template's descriptors", _COUNT, "template descriptors", _NONE),
    ("processes", _COUNT, "processes", _NONE),
)
"""A title, its unit, the subject's name of it, and what is aimed at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Churn:
    """One way to make actors and to drop them.

    Attributes:
        title: What it is.
        kind: The same in the words of the subject.
        lanes: How many are made at a time.
    """

    title: str
    kind: str
    lanes: int


_CHURNS: Final = (
    _Churn(title="one after another", kind="plain", lanes=1),
    _Churn(title="ten at a time", kind="plain", lanes=10),
    _Churn(title="with a loop, ten at a time", kind="async", lanes=10),
    _Churn(title="get or create of ten names", kind="named", lanes=10),
)

_NOTES = (
    "Growth is what was there at the end "
    "less what was there after the first thousand, for each thousand between; what "
    "grew with the first, once and for all, is no growth.",
    "An actor is made, asked once and dropped; the next one is made while it leaves. "
    "Each has a process of its own, or the figures are refused. A level is taken when "
    "no actor and no process of one is left, after a full garbage collection.",
    "Memory is what a process shares with nobody. Of the interpreter's own blocks (up "
    "to 512 bytes each) there are about 100,000.",
    "Where many are alive, or many calls wait, that is done twice, and growth is from "
    "the end of the first time to that of the second; the owner's memory then has no "
    "aim, as the allocator keeps holes of the size of the crowd. The figures are the "
    "second's, but memory for each is the first's, which finds none that is free.",
    "The queue is made without a turn of the loop, so all calls wait at once; answers "
    "that are lost or come in another order fail the run.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    thousands = 2 if scale.is_quick else 10
    alive = 200 if scale.is_quick else 1_000
    calls = 20_000 if scale.is_quick else 100_000
    churns = _CHURNS[:2] if scale.is_quick else _CHURNS
    drops = {churn: _drop(churn, thousands) for churn in churns}
    at_once = Job(
        name=f"{OURS} alive", subject="churn_alive", arguments={"count": alive}
    )
    queues = {
        title: Job(
            name=f"{OURS} queue {kind}",
            subject="churn_queue",
            arguments={"calls": calls, "kind": kind},
        )
        for kind, title in (("plain", "a plain actor"), ("async", "one with a loop"))
    }
    return Plan(
        name="churn",
        question="What actors leave behind",
        notes=_NOTES,
        jobs=[*drops.values(), at_once, *queues.values()],
        cases=[
            *(
                case
                for churn, job in drops.items()
                for case in _drop_cases(churn, job, thousands)
            ),
            *_alive_cases(at_once, alive),
            *(
                case
                for title, job in queues.items()
                for case in _queue_cases(title, job, calls)
            ),
        ],
        curves=list(_curves(drops, thousands)),
    )


def _drop(churn: _Churn, thousands: int) -> Job:
    return Job(
        name=f"{OURS} {churn.kind} {churn.lanes}",
        subject="churn_drop",
        arguments={"thousands": thousands, "kind": churn.kind, "lanes": churn.lanes},
        limit=600,
    )


def _drop_cases(churn: _Churn, job: Job, thousands: int) -> Iterator[Case]:
    section = f"{thousands * _THOUSAND:,} actors, {churn.title}"
    rate = {OURS: f"{job.name}/rate"}
    yield Case(section=section, title="made and dropped", unit=_RATE, cells=rate)
    yield from _growths(section, job, "a thousand")


def _alive_cases(job: Job, count: int) -> Iterator[Case]:
    section = f"{count:,} actors alive at once"
    rows = (
        ("to their first answers", _RATE, "rate"),
        ("a call of each", _CALLS, "calls"),
        ("dropped, until all are gone", _RATE, "down"),
        ("memory of each (PSS)", _MIB, "pss"),
        ("owner's memory for each", _KIB, "memory each"),
        ("owner's descriptors for each", _COUNT, "descriptors each"),
    )
    for title, unit, figure in rows:
        cells = {OURS: f"{job.name}/{figure}"}
        yield Case(section=section, title=title, unit=unit, cells=cells)
    yield from _growths(section, job, "a second time", unaimed={"owner memory"})


def _queue_cases(title: str, job: Job, calls: int) -> Iterator[Case]:
    section = f"{calls:,} calls wait for {title}"
    rows = (
        ("made", _CALLS, "made"),
        ("answered", _CALLS, "rate"),
        ("owner's memory for each", _BYTES, "memory each"),
    )
    for name, unit, figure in rows:
        cells = {OURS: f"{job.name}/{figure}"}
        yield Case(section=section, title=name, unit=unit, cells=cells)
    yield from _growths(section, job, "a second time", unaimed={"owner memory"})


def _growths(
    section: str, job: Job, each: str, *, unaimed: Collection[str] = ()
) -> Iterator[Case]:
    for title, unit, figure, targets in _GROWTHS:
        yield Case(
            section=section,
            title=f"growth with {each}: {title}",
            unit=unit,
            cells={OURS: f"{job.name}/{figure} growth"},
            targets=() if figure in unaimed else targets,
        )


def _curves(drops: Mapping[_Churn, Job], thousands: int) -> Iterator[Curve]:
    sizes = [thousand * _THOUSAND for thousand in range(1, thousands + 1)]

    def line(job: Job, figure: str) -> Mapping[int, str]:
        return {size: f"{job.name}/{figure} {size}" for size in sizes}

    for who in ("owner", "template"):
        yield Curve(
            title=f"memory of the {who} at rest",
            across="actors made and dropped",
            unit=_MIB,
            lines={
                churn.title: line(job, f"{who} memory") for churn, job in drops.items()
            },
            is_linear=True,
        )
    job = drops[_CHURNS[0]]
    yield Curve(
        title=f"what is open at rest, {_CHURNS[0].title}",
        across="actors made and dropped",
        unit=Unit(name="open"),
        lines={
            figure: line(job, figure)
            for figure in ("owner descriptors", "template descriptors", "processes")
        },
        is_linear=True,
    )


if __name__ == "__main__":
    conduct(make_plan)
