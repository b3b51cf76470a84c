"""How long a large array takes as an argument and as a result, and what it costs.

Run it with ``python -m benchmarks.payload``.
"""

from typing import Final

from benchmarks._cases import FLOOR, OURS, RAY, Case, Curve, Panel, Plan, Target, Unit
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job

_MB: Final = 1_000_000
_TIME = Unit(name="ms", scale=1e3)
_MEMORY = Unit(name="MB", scale=1e-6)
_PIPE: Final = f"{OURS} by pipe"
_EDGE: Final = tuple(1 << power for power in range(16, 23))
"""Sizes around the one from which values go into shared memory."""

_NOTES = (
    "Cells: median of the rounds, then min..max. Ratios are taken round by round.",
    "floor: one copy into warm shared memory in the process that measures, without "
    "any call.",
    "argument: a call with the array that gives its last number. result: a call that "
    "gives an array which lies ready in the actor. Medians of the trips of a round.",
    "fan-out: one array to 8 actors at once, and the shared memory it takes.",
    "The fan-out is by put() in both; Ray: an argument by value.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    sizes = (1, 64) if scale.is_quick else (1, 64, 512)
    told = {
        "sizes": [size * _MB for size in sizes],
        "trips": 15 if scale.is_quick else 30,
        "spread": (64 if scale.is_quick else 256) * _MB,
    }
    jobs = [
        Job(name=OURS, subject="payload_actorlib", arguments=told),
        Job(name=FLOOR, subject="payload_floor", arguments=told),
        *(
            Job(
                name=name,
                subject="payload_actorlib",
                arguments={
                    "sizes": _EDGE,
                    "trips": 150,
                    "spread": 0,
                    "above": above,
                },
            )
            for name, above in ((_PIPE, 1 << 40), (f"{OURS} shared", 1))
        ),
    ]
    if "ray" in scale.peers:
        jobs.append(Job(name=RAY, subject="payload_ray", arguments=told))
    names = {job.name for job in jobs}
    cases = [
        Case(
            section=way,
            title=f"{size} MB",
            unit=_TIME,
            cells={
                column: f"{column}/{way if column != FLOOR else 'copy'} {size * _MB}"
                for column in (OURS, FLOOR, RAY)
                if column in names
            },
            targets=(Target(bound=1.5, against=FLOOR),) if size > 1 else (),
        )
        for way in ("argument", "result")
        for size in sizes
    ]
    cases += [
        Case(
            section="fan-out to 8 actors",
            title=title,
            unit=unit,
            cells={c: f"{c}/fan-out {title}" for c in (OURS, RAY) if c in names},
        )
        for title, unit in (("time", _TIME), ("memory", _MEMORY))
    ]
    return Plan(
        name="payload",
        question="Large arrays as arguments and results",
        notes=_NOTES,
        jobs=jobs,
        cases=cases,
        panels=[
            Panel(title=way, cases=[case for case in cases if case.section == way])
            for way in ("argument", "result")
        ],
        curves=[
            Curve(
                title=f"{way}, by pipe or shared",
                across="bytes",
                unit=Unit(name="us", scale=1e6),
                lines={
                    name: {size: f"{name}/{way} {size}" for size in _EDGE}
                    for name in (f"{OURS} shared", _PIPE)
                },
            )
            for way in ("argument", "result")
        ],
    )


if __name__ == "__main__":
    conduct(make_plan)
