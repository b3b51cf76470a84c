"""How soon all who wait for an actor are told that it was killed.

Run it with ``python -m benchmarks.deaths``.
"""

from benchmarks._cases import OURS, POOL, RAY, Case, Panel, Plan, Target, Unit
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job

_CALLERS = 100

_NOTES = (
    "SIGKILL from outside, until the last caller has its error. actorlib and Ray: an "
    "async actor in which all the calls run, each awaited by a caller of its own. "
    "process pool: its only worker, in which one call runs while the others wait.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    times = {"callers": _CALLERS, "times": 10 if scale.is_quick else 30}
    few = {"callers": _CALLERS, "times": 3 if scale.is_quick else 10}
    case = Case(
        section="death",
        title=f"told to {_CALLERS} callers",
        unit=Unit(name="ms", scale=1e3),
        cells={column: f"{column}/time" for column in (OURS, RAY, POOL)},
        targets=(Target(bound=0.005),),
    )
    return Plan(
        name="deaths",
        question="The death of an actor",
        notes=_NOTES,
        jobs=[
            Job(name=OURS, subject="deaths_actorlib", arguments=times),
            Job(name=RAY, subject="deaths_ray", arguments=few, peer="ray"),
            Job(name=POOL, subject="deaths_pool", arguments=times, peer="stdlib"),
        ],
        cases=[case],
        panels=[Panel(title=case.title, cases=[case], is_logarithmic=True)],
    )


if __name__ == "__main__":
    conduct(make_plan)
