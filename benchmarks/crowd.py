"""Whether the thousandth actor is placed as fast as the first.

Run it with ``python -m benchmarks.crowd``.
"""

from typing import Final

from benchmarks._cases import OURS, Case, Curve, Plan, Target, Unit
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job

_HUNDREDS: Final = 10
_RATE = Unit(name="actors/s", more_is_better=True)
_FIRST: Final = "the first hundred"
"""Ourselves with nobody else alive: to compare with."""

_NOTES = (
    "Fractional actors, made a hundred at a time, timed until the last first answer of "
    "a hundred is there; all that were made before stay alive.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows, quick or not: it takes seconds."""
    del scale
    alive = [hundred * 100 for hundred in range(1, _HUNDREDS + 1)]
    cells = {size: f"{OURS}/rate {size}" for size in alive}
    return Plan(
        name="crowd",
        question="A thousand actors alive",
        notes=_NOTES,
        jobs=[
            Job(name=OURS, subject="crowd_actorlib", arguments={"hundreds": _HUNDREDS})
        ],
        cases=[
            Case(
                section="a hundred actors to their first answers",
                title=f"with {size - 100:,} others alive",
                unit=_RATE,
                cells={OURS: cells[size], _FIRST: cells[alive[0]]},
                targets=(Target(bound=0.8, against=_FIRST),)
                if size == alive[-1]
                else (),
            )
            for size in (alive[0], alive[-1])
        ],
        curves=[
            Curve(
                title="placement while others live",
                across="actors alive",
                unit=_RATE,
                lines={OURS: cells},
                is_linear=True,
            )
        ],
    )


if __name__ == "__main__":
    conduct(make_plan)
