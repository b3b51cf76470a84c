"""How long one actor takes to its first answer in a runtime that has nothing to do.

Run it with ``python -m benchmarks.first``.
"""

from benchmarks._cases import OURS, POOL, RAY, Case, Panel, Plan, Target, Unit
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job

_NOTES = (
    "One fractional actor is made, asked once and killed; the next one is made when "
    "nothing is left to do.",
    "Ray has as many idle worker processes as CPUs when it starts, here two. The first "
    "actors take those: they are the fastest, and the median is of later ones.",
    "process pool: a ProcessPoolExecutor with one worker, by fork, from its making to "
    "its first answer.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    times = 30 if scale.is_quick else 100
    rows = (
        ("time", "made, and its first answer: median", (Target(bound=0.003),)),
        ("fastest", "the fastest", ()),
    )
    cases = [
        Case(
            section="one actor",
            title=title,
            unit=Unit(name="ms", scale=1e3),
            cells={column: f"{column}/{figure}" for column in (OURS, RAY, POOL)},
            targets=targets,
        )
        for figure, title, targets in rows
    ]
    return Plan(
        name="first",
        question="The first answer of one actor",
        notes=_NOTES,
        jobs=[
            Job(name=OURS, subject="first_actorlib", arguments={"times": times}),
            Job(
                name=POOL,
                subject="first_pool",
                arguments={"times": times},
                peer="stdlib",
            ),
            Job(
                name=RAY,
                subject="first_ray",
                arguments={"times": 7 if scale.is_quick else 15},
                peer="ray",
            ),
        ],
        cases=cases,
        panels=[Panel(title="one actor", cases=cases, is_logarithmic=True)],
    )


if __name__ == "__main__":
    conduct(make_plan)
