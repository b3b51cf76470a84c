"""What actors cost that have nothing to do: memory, processes beside them, CPU.

Run it with ``python -m benchmarks.idle``.
"""

from benchmarks._cases import OURS, POOL, RAY, Case, Panel, Plan, Target, Unit
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job

_MEMORY = Unit(name="MiB", scale=2**-20)
_COUNT = Unit(name="")
_SHARE = Unit(name="% CPU", scale=100)

_ACTORS = 16

_ROWS = (
    ("memory of each actor", _MEMORY, "actor", 6 * 2**20),
    ("memory beside actors and owner", _MEMORY, "beside", 15 * 2**20),
    ("processes beside actors and owner", _COUNT, "processes", 1),
    ("CPU of all processes", _SHARE, "cpu", 0.001),
)
"""A title, its unit, the subject's name of it, and what is aimed at."""

_NOTES = (
    "Memory is the proportional set size: bytes that processes share are divided among "
    "them. CPU: of all processes together, the owner with them, as a share of one CPU; "
    "the aim is none, but to read the figures takes a millisecond or two.",
    "process pool: as many workers, by fork.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    told = {
        "actors": _ACTORS,
        "settle": 1.0,
        "seconds": 4.0 if scale.is_quick else 20.0,
    }
    cases = [
        Case(
            section=f"{_ACTORS} idle actors",
            title=title,
            unit=unit,
            cells={column: f"{column}/{figure}" for column in (OURS, RAY, POOL)},
            targets=(Target(bound=bound),),
        )
        for title, unit, figure, bound in _ROWS
    ]
    return Plan(
        name="idle",
        question="What idle actors cost",
        notes=_NOTES,
        jobs=[
            Job(name=OURS, subject="idle_actorlib", arguments=told),
            Job(name=RAY, subject="idle_ray", arguments=told, peer="ray"),
            Job(name=POOL, subject="idle_pool", arguments=told, peer="stdlib"),
        ],
        cases=cases,
        panels=[Panel(title="memory", cases=cases[:2], is_logarithmic=True)],
    )


if __name__ == "__main__":
    conduct(make_plan)
