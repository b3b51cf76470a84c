"""How fast a large array goes to an actor, and comes from one.

Run it with ``python -m benchmarks.payload``.
"""

from typing import Final

from benchmarks._cases import (
    DASK,
    FLOOR,
    OURS,
    RAY,
    XOSCAR,
    Case,
    Curve,
    Panel,
    Plan,
    Target,
    Unit,
)
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job

_MB: Final = 1_000_000
_RATE = Unit(name="GB/s", scale=1e-9, more_is_better=True)
_PIPE: Final = f"{OURS} by pipe"
_SHARED: Final = f"{OURS} shared"
_EDGE: Final = tuple(1 << power for power in range(16, 23))
"""Sizes around the one from which values go into shared memory."""

_GOALS: Final = (Target(bound=0.7, against=FLOOR), Target(bound=3, against=RAY))

_NOTES = (
    "floor: one copy into warm shared memory in the process that measures, without "
    "any call; 1 MB is then in the caches of one CPU, and copied in less time than it "
    "takes to wake another one.",
    "argument: a call with the array that gives its last number. result: a call that "
    "gives an array which lies ready in the actor. Medians of the trips of a round.",
    "Ray: by value, which it puts into its store itself. xoscar: buffers beside the "
    "pickle, by a Unix socket. distributed: an actor, asynchronous client.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    sizes = (1, 64) if scale.is_quick else (1, 64, 512)
    told = {
        "sizes": [size * _MB for size in sizes],
        "trips": 100 if scale.is_quick else 300,
        "volume": (640 if scale.is_quick else 3_000) * _MB,
    }
    edge = {"sizes": _EDGE, "trips": 150, "volume": 150 * _EDGE[-1]}
    jobs = [
        Job(name=OURS, subject="payload_actorlib", arguments=told),
        Job(name=FLOOR, subject="payload_floor", arguments=told),
        *(
            Job(
                name=name,
                subject="payload_actorlib",
                arguments={**edge, "above": above},
            )
            for name, above in ((_PIPE, 1 << 40), (_SHARED, 1))
        ),
        Job(name=RAY, subject="payload_ray", arguments=told, peer="ray"),
        Job(name=XOSCAR, subject="payload_xoscar", arguments=told, peer="xoscar"),
        Job(
            name=DASK,
            subject="payload_distributed",
            arguments=told,
            peer="distributed",
        ),
    ]
    cases = [_case(way, size) for way in ("argument", "result") for size in sizes]
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
                unit=_RATE,
                lines={
                    name: {size: f"{name}/{way} {size}" for size in _EDGE}
                    for name in (_SHARED, _PIPE)
                },
            )
            for way in ("argument", "result")
        ],
    )


def _case(way: str, size: int) -> Case:
    cells = {
        column: f"{column}/{way} {size * _MB}" for column in (OURS, RAY, XOSCAR, DASK)
    }
    return Case(
        section=way,
        title=f"{size} MB",
        unit=_RATE,
        cells={**cells, FLOOR: f"{FLOOR}/copy {size * _MB}"},
        targets=_GOALS,
    )


if __name__ == "__main__":
    conduct(make_plan)
