"""Measures leaks: actors created and dropped, many alive, many calls for one.

No figure here is about speed alone. A runtime that has made and dropped ten thousand
actors has to hold what it held after the first thousand.

Run it with ``python -m benchmarks.churn``.
"""

import asyncio
import ctypes
import gc
import os
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import actorlib
from benchmarks._cases import OURS, Case, Curve, Job, Plan, Scale, Target, Unit
from benchmarks._processes import children, memory_each
from benchmarks._subject import Figures, distinct, main, prefixed

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
    "Growth is the level at the end minus the level after the first thousand, divided "
    "by the thousands between. Growth that occurs once, with the first thousand, does "
    "not count.",
    "An actor is created, called once and dropped; the next one is created while it "
    "ends. Each must have its own process, or the figures are refused. A level is "
    "measured when no actor and no process of one remains, after a full garbage "
    "collection.",
    "Memory is the unshared memory of a process. The interpreter has about 100,000 "
    "blocks (up to 512 bytes each).",
    "Rows with many living actors or waiting calls are measured twice, and growth is "
    "from the end of the first time to the end of the second. The owner's memory then "
    "has no target, because the allocator keeps holes of that size. The figures are "
    "those of the second time, but memory for each is that of the first, which finds "
    "no free memory.",
    "The queue is filled without a turn of the loop, so all calls wait at once. "
    "Answers that are lost or out of order fail the run.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    thousands = 2 if scale.is_quick else 10
    alive = 200 if scale.is_quick else 1_000
    calls = 20_000 if scale.is_quick else 100_000
    churns = _CHURNS[:2] if scale.is_quick else _CHURNS
    drops = {churn: _drop(churn, thousands) for churn in churns}
    at_once = Job(
        name=f"{OURS} alive", subject="churn.alive", arguments={"count": alive}
    )
    queues = {
        title: Job(
            name=f"{OURS} queue {kind}",
            subject="churn.queued",
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
        subject="churn.dropped",
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


@actorlib.remote
class Plain:
    """An actor with a plain method."""

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


@actorlib.remote
class Looped:
    """An actor with a loop."""

    async def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


@actorlib.remote
class PlainSteps:
    """An actor that counts its calls."""

    def __init__(self) -> None:
        self._count = 0

    def step(self, number: int) -> tuple[int, int]:
        """The number, and how many calls came before."""
        self._count += 1
        return number, self._count - 1


@actorlib.remote
class LoopedSteps:
    """An actor with a loop that counts its calls."""

    def __init__(self) -> None:
        self._count = 0

    async def step(self, number: int) -> tuple[int, int]:
        """The number, and how many calls came before."""
        self._count += 1
        return number, self._count - 1


def measure_dropped(thousands: int, kind: str, lanes: int) -> Figures:
    """Actors that are made, asked once and dropped, a thousand and a thousand again.

    Args:
        thousands: How many thousand actors are made in all.
        kind: ``plain``, ``async`` or ``named``.
        lanes: How many are made at a time.
    """

    async def measured() -> Figures:
        metrics: Figures = {}
        rates: list[float] = []
        levels: list[Figures] = []
        async with actorlib.init() as runtime:
            for thousand in range(1, thousands + 1):
                rates.append(await _thousand(kind, lanes))
                levels.append(await _at_rest(runtime))
                for name, value in levels[-1].items():
                    metrics[f"{name} {thousand * _THOUSAND}"] = value
        for name, first in levels[0].items():
            growth = (levels[-1][name] - first) / max(1, thousands - 1)
            metrics[f"{name} growth"] = growth
        return metrics | {"rate": sum(rates) / len(rates)}

    return actorlib.run(measured())


async def _thousand(kind: str, lanes: int) -> float:
    count = _THOUSAND // lanes
    begun = time.perf_counter()
    each = await asyncio.gather(
        *(_lane(_maker(kind, lane), count) for lane in range(lanes))
    )
    took = time.perf_counter() - begun
    pids = [pid for lane in each for pid in lane]
    distinct(pids, len(pids))
    return len(pids) / took


def _maker(kind: str, lane: int) -> Callable[[], Any]:
    if kind == "async":
        return Looped.remote
    if kind == "named":  # one name for each lane, again and again
        return Plain.options(name=f"lane {lane}", get_if_exists=True).remote
    return Plain.remote


async def _lane(make: Callable[[], Any], count: int) -> list[int]:
    pids: list[int] = []
    for _ in range(count):
        actor = make()
        pids.append(await actor.pid.remote())
        del actor
        # A handle that is gone is counted in the next turn of the loop. From then on
        # the actor leaves, and has lost its name, while the next one is made.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    return pids


def measure_alive(count: int) -> Figures:
    """Actors that are all alive at once, and what is left when they are dropped."""

    async def measured() -> Figures:
        # What is remembered of the dead is full when the first of them are dead.
        async with actorlib.init(actor_history=count) as runtime:
            # What is made once and kept; the second time finds the memory of the first.
            fresh = await _all_at_once(count)
            first = await _at_rest(runtime)
            metrics = await _all_at_once(count)
            begun = time.perf_counter()
            last = await _at_rest(runtime)
            metrics["down"] = count / (time.perf_counter() - begun)
        return _growth_of(metrics, fresh, first, last)

    return actorlib.run(measured())


async def _all_at_once(count: int) -> Figures:
    begun = time.perf_counter()
    before = _of_process(os.getpid())
    actors = [Plain.remote() for _ in range(count)]
    pids = await asyncio.gather(*(actor.pid.remote() for actor in actors))
    metrics = {"rate": count / (time.perf_counter() - begun)}
    distinct(pids, count)
    begun = time.perf_counter()
    again = await asyncio.gather(*(actor.pid.remote() for actor in actors))
    metrics["calls"] = count / (time.perf_counter() - begun)
    if again != pids:
        raise RuntimeError("an actor answered from another process than before")
    for name, value in _of_process(os.getpid()).items():
        metrics[f"{name} each"] = (value - before[name]) / count
    return metrics | memory_each(pids)


def measure_queued(calls: int, kind: str) -> Figures:
    """Calls that all wait for one actor, and what is left when they are answered."""
    steps: Any = LoopedSteps if kind == "async" else PlainSteps

    async def measured() -> Figures:
        async with actorlib.init() as runtime:
            # What is made once and kept; the second wave finds the memory of the first.
            fresh = await _queue(steps.remote(), calls)
            first = await _at_rest(runtime)
            metrics = await _queue(steps.remote(), calls)
            last = await _at_rest(runtime)
        return _growth_of(metrics, fresh, first, last)

    return actorlib.run(measured())


async def _queue(actor: Any, calls: int) -> Figures:
    before = _of_process(os.getpid())
    begun = time.perf_counter()
    # No turn of the loop until the last one is made, and no process for the first.
    refs = [actor.step.remote(number) for number in range(calls)]
    made = time.perf_counter()
    metrics = {"made": calls / (made - begun)}
    for name, value in _of_process(os.getpid()).items():
        metrics[f"{name} each"] = (value - before[name]) / calls
    made = time.perf_counter()
    answers = await asyncio.gather(*refs)
    metrics["rate"] = calls / (time.perf_counter() - made)
    if answers != [(number, number) for number in range(calls)]:
        raise RuntimeError("calls were lost, or came in another order")
    return metrics


def _growth_of(
    metrics: Figures, fresh: Figures, first: Figures, last: Figures
) -> Figures:
    """The figures of the second time, and what the first has left behind."""
    metrics |= {"memory each": fresh["memory each"]} if "memory each" in fresh else {}
    return metrics | {f"{name} growth": last[name] - first[name] for name in first}


# What a runtime holds when nobody uses it. Where the system does not tell a figure,
# that figure is missing.

_PATIENCE: Final = 30.0
_LAST_SPARE: Final = 0.3
"""Seconds in which the template forks all spares that it keeps after a burst."""
_FIELDS: Final = (
    "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
)


class _Heap(ctypes.Structure):
    """What glibc says of its heap; see mallinfo2(3)."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS.split()]


async def _at_rest(runtime: Any) -> Figures:
    """The figures of a runtime whose actors were dropped, once all are gone.

    Raises:
        RuntimeError: An actor, or a process of one, is still there long afterwards.
    """
    (template,) = children(os.getpid())
    deadline = time.monotonic() + _PATIENCE
    # Spares are there at rest, and share pages with the template, whose own they would
    # be without them.
    while (left := _living(runtime)) or not _has_spares_alone(template):
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"{_PATIENCE:.0f} s after they were dropped {left} actors are left, "
                f"and below the template {list(map(_name, children(template)))}"
            )
        await asyncio.sleep(0.01)
    await asyncio.sleep(_LAST_SPARE)
    gc.collect()
    figures = {
        "objects": float(len(gc.get_objects())),
        "blocks": float(sys.getallocatedblocks()),
        "processes": float(len(children(os.getpid()))),
    }
    figures |= _heap()
    for name, pid in (("owner", os.getpid()), ("template", template)):
        figures |= prefixed(name, _of_process(pid))
    # The template holds an end of a socket for each spare.
    figures["template descriptors"] -= len(children(template))
    return figures


def _living(runtime: Any) -> int:
    return sum(actor.state != "dead" for actor in runtime.snapshot().actors)


def _has_spares_alone(template: int) -> bool:
    """Whether its children are spares, which are called as the template is.

    There is one at least; how many, says what was asked for lately.
    """
    return {_name(pid) for pid in children(template)} == {_name(template)}


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
    return ""


def _of_process(pid: int) -> Figures:
    """A process's memory that it shares with nobody, and its open descriptors."""
    figures: Figures = {}
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
        sizes = {line.split()[0]: line.split()[1] for line in lines[1:]}
        own = int(sizes["Private_Clean:"]) + int(sizes["Private_Dirty:"])
        figures["memory"] = own * 1024.0
    with suppress(OSError):
        figures["descriptors"] = float(len(list(Path(f"/proc/{pid}/fd").iterdir())))
    return figures


def _heap() -> Figures:
    """The bytes that C code has asked for and not given back, as the figure ``heap``.

    Unlike the memory of the process this does not depend on where in it they lie.
    """
    try:
        ask: Any = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError):
        return {}
    ask.restype = _Heap
    found = ask()
    return {"heap": float(found.uordblks + found.hblkhd)}


SUBJECTS: Final = {
    "dropped": measure_dropped,
    "alive": measure_alive,
    "queued": measure_queued,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
