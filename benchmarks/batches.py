"""How many calls of one method a second there can be if all are made at once.

Run it with ``python -m benchmarks.batches``.
"""

from actorlib import ActorMethod
from benchmarks._cases import OURS, POOL, XOSCAR, Case, Panel, Plan, Target, Unit
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job

_SIZES = (1_000, 10_000, 100_000)

_NOTES = (
    "actorlib: h.echo.map(items). xoscar: batch of an extensible method that has no "
    "batch of its own, so that every call is run. process pool: Pool(1).map with all "
    "items in one chunk. Ray and distributed have nothing of the kind for actors.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    sizes = _SIZES[:2] if scale.is_quick else _SIZES
    told = {"sizes": sizes, "times": 5 if scale.is_quick else 20}
    absence = "" if hasattr(ActorMethod, "map") else "no ActorMethod.map"
    cases = [
        Case(
            section="calls of one method, all at once",
            title=f"{size:,}",
            unit=Unit(name="calls/s", more_is_better=True),
            cells={column: f"{column}/rate {size}" for column in (OURS, XOSCAR, POOL)},
            targets=(Target(bound=500_000),) if size == _SIZES[1] else (),
        )
        for size in sizes
    ]
    return Plan(
        name="batches",
        question="Many calls at once",
        notes=_NOTES,
        jobs=[
            Job(
                name=OURS,
                subject="batches_actorlib",
                arguments=told,
                absence=absence,
            ),
            Job(name=XOSCAR, subject="batches_xoscar", arguments=told, peer="xoscar"),
            Job(name=POOL, subject="batches_pool", arguments=told, peer="stdlib"),
        ],
        cases=cases,
        panels=[Panel(title="calls a second", cases=cases)],
    )


if __name__ == "__main__":
    conduct(make_plan)
