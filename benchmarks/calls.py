"""How long a call of an actor takes, and how many a second there can be.

A round trip is one call awaited before the next is made. Pipelined calls are made in
windows of 1,000 that end in one ``asyncio.gather``.

Run it with ``python -m benchmarks.calls``.
"""

from typing import Final

from benchmarks._cases import (
    DASK,
    FLOOR,
    OURS,
    POOL,
    RAY,
    XOSCAR,
    Case,
    Plan,
    Target,
)
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job
from benchmarks._traffic import SECTIONS, UNITS, panels

_GOALS: Final = {
    "p50": (Target(bound=1.3, against=FLOOR),),
    "p99": (Target(bound=1.3, against=FLOOR),),
    "rate": (Target(bound=0.45, against=FLOOR), Target(bound=40, against=RAY)),
}
"""What actors are to reach on uvloop, by figure."""

_TOGETHER = "uvloop, one CPU"
_LOOPED = f"{FLOOR} uvloop"
_BLOCKING = f"{FLOOR} blocking"
_SCRIPT = "a script"
"""The blocking face: the loop in a thread of its own, no end bound to a CPU."""

_NOTES = (
    "floor: msgpack frames over a socket pair, a protocol on uvloop, a future for each "
    "call; the far end for round trips a protocol on uvloop, for windows a blocking "
    "read loop that answers a chunk in one write.",
    "a script: the blocking face by ray.get, its loop in a thread, nothing bound.",
    "actorlib and floor have both ends bound to a CPU each (one CPU: to the same, "
    "which leaves out the wake-up of another CPU); peers are left to the scheduler. "
    "On a busy machine the 99th percentile of bound ends is a wait for a time slice.",
    "Ray: the better one of ray.get and await. xoscar: actors without a lock, in a "
    "process of their own. distributed: actors, asynchronous client. process pool: "
    "submit and result of a ProcessPoolExecutor with one worker.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    cases: list[Case] = []
    loops = ("uvloop", _SCRIPT)
    if not scale.is_quick:
        loops += ("asyncio", _TOGETHER)
    for figure in SECTIONS:
        cases += [
            _case(figure, kind, loop) for loop in loops for kind in ("sync", "async")
        ]
        cases += _bare(figure)
    shown = [case for case in cases if OURS in case.cells]
    return Plan(
        name="calls",
        question="Calls of one actor",
        notes=_NOTES,
        jobs=_jobs(scale),
        cases=cases,
        panels=panels(shown),
    )


def _jobs(scale: Scale) -> list[Job]:
    trips, windows = (1500, 15) if scale.is_quick else (5000, 40)
    fast = {"trips": trips, "windows": windows}
    slow = {"trips": trips // 3, "windows": 2 if scale.is_quick else 5}
    ours_and_floors = [
        (f"{OURS} uvloop", "calls_actorlib", "uvloop"),
        (_LOOPED, "calls_floor", "uvloop"),
        (_BLOCKING, "calls_floor", "blocking"),
        (f"{OURS} {_SCRIPT}", "calls_blocking", ""),
    ]
    if not scale.is_quick:
        ours_and_floors += [
            (f"{OURS} {_TOGETHER}", "calls_actorlib", "uvloop"),
            (f"{_LOOPED}, one CPU", "calls_floor", "uvloop"),
            (f"{_BLOCKING}, one CPU", "calls_floor", "blocking"),
            (f"{OURS} asyncio", "calls_actorlib", "asyncio"),
        ]
    jobs = [
        Job(
            name=name,
            subject=subject,
            arguments={**fast, "method": method, "apart": not name.endswith("one CPU")},
        )
        for name, subject, method in ours_and_floors
    ]
    jobs += [
        Job(name=name, subject=subject, arguments=slow, peer=peer)
        for name, subject, peer in (
            (POOL, "calls_pool", "stdlib"),
            (RAY, "calls_ray", "ray"),
            (XOSCAR, "calls_xoscar", "xoscar"),
            (DASK, "calls_distributed", "distributed"),
        )
    ]
    return jobs


def _case(figure: str, kind: str, loop: str) -> Case:
    floor = _BLOCKING if figure == "rate" else _LOOPED
    if loop == _TOGETHER:
        floor += ", one CPU"
    cells = {OURS: f"{OURS} {loop}/{kind} {figure}", FLOOR: f"{floor}/{figure}"}
    if loop != _TOGETHER:
        cells |= {name: f"{name}/{kind} {figure}" for name in (RAY, XOSCAR, DASK)}
        cells |= {POOL: f"{POOL}/{figure}"} if kind == "sync" else {}
    return Case(
        section=SECTIONS[figure],
        title=f"{kind} actor, {loop}",
        unit=UNITS[figure],
        cells=cells,
        targets=_GOALS.get(figure, ()) if loop == "uvloop" else (),
    )


def _bare(figure: str) -> list[Case]:
    """What other floors there are: rows without anybody beside them."""
    if figure == "rate":
        title, metric = "frames only counted, no futures", "frames rate"
    else:
        title, metric = "far end with a blocking read loop", figure
    return [
        Case(
            section=SECTIONS[figure],
            title=title,
            unit=UNITS[figure],
            cells={FLOOR: f"{_BLOCKING}/{metric}"},
        )
    ]


if __name__ == "__main__":
    conduct(make_plan)
