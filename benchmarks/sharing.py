"""One large array for eight actors: how long it takes, and how much memory.

Run it with ``python -m benchmarks.sharing``.
"""

from typing import Final

from benchmarks._cases import FLOOR, OURS, RAY, Case, Panel, Plan, Target, Unit
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job

_NBYTES: Final = 256_000_000
_ACTORS: Final = 8

_NOTES = (
    "The array is put once (actorlib.put, ray.put), every actor gets the ref and keeps "
    "what it stands for. Time: from before the put to the last actor's answer, in "
    "memory that was used before. Extra memory: what all processes together have more "
    "of (PSS) while all keep it, the first time.",
    "floor: one copy into shared memory.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    told = {
        "nbytes": _NBYTES,
        "actors": _ACTORS,
        "times": 5 if scale.is_quick else 15,
    }
    rows = (
        ("time", Unit(name="ms", scale=1e3), Target(bound=1 / 5, against=RAY)),
        ("memory", Unit(name="MB", scale=1e-6), Target(bound=1.05, against=FLOOR)),
    )
    cases = [
        Case(
            section=f"{_NBYTES // 1_000_000} MB to {_ACTORS} actors by put",
            title="extra memory" if figure == "memory" else figure,
            unit=unit,
            cells={column: f"{column}/{figure}" for column in (OURS, FLOOR, RAY)},
            targets=(target,),
        )
        for figure, unit, target in rows
    ]
    return Plan(
        name="sharing",
        question="One array for many actors",
        notes=_NOTES,
        jobs=[
            Job(name=OURS, subject="sharing_actorlib", arguments=told),
            Job(name=FLOOR, subject="sharing_floor", arguments=told),
            Job(name=RAY, subject="sharing_ray", arguments=told, peer="ray"),
        ],
        cases=cases,
        panels=[Panel(title=case.title, cases=[case]) for case in cases],
    )


if __name__ == "__main__":
    conduct(make_plan)
