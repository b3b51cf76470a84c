"""How long a whole program takes: import, start, one actor, one answer, a clean end.

Run it with ``python -m benchmarks.whole``.
"""

from benchmarks._cases import (
    DASK,
    OURS,
    POOL,
    RAY,
    XOSCAR,
    Case,
    Panel,
    Plan,
    Target,
    Unit,
)
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job

_PROGRAMS = {
    OURS: ("whole_actorlib", ""),
    POOL: ("whole_pool", "stdlib"),
    RAY: ("whole_ray", "ray"),
    XOSCAR: ("whole_xoscar", "xoscar"),
    DASK: ("whole_distributed", "distributed"),
}

_NOTES = (
    "From the start of the interpreter until it has ended. process pool: one worker.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    times = 3 if scale.is_quick else 7
    case = Case(
        section="a whole program",
        title="import, start, one actor, one answer, end",
        unit=Unit(name="s"),
        cells={column: f"{column}/time" for column in _PROGRAMS},
        targets=(Target(bound=2, against=POOL), Target(bound=0.1, against=RAY)),
    )
    return Plan(
        name="whole",
        question="A whole program",
        notes=_NOTES,
        jobs=[
            Job(
                name=column,
                subject="whole_process",
                arguments={"program": program, "times": 1 if column == RAY else times},
                peer=peer,
            )
            for column, (program, peer) in _PROGRAMS.items()
        ],
        cases=[case],
        panels=[Panel(title=case.title, cases=[case], is_logarithmic=True)],
    )


if __name__ == "__main__":
    conduct(make_plan)
