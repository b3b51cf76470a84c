"""How long a call takes that one actor makes of another, and how many there can be.

It is compared with the same call made by the owner. A round trip is one call awaited
before the next is made; pipelined calls are made in windows of 1,000. Four pairs are
four callers that each call an actor of their own: what they reach together, beside one
pair, says whether the owner is in the way.

Run it with ``python -m benchmarks.between``.
"""

from typing import Final

from benchmarks._cases import OURS, OWNER, Case, Plan, Target
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job
from benchmarks._traffic import RATE, SECTIONS, UNITS, panels

_GOALS: Final = {"p50": (Target(bound=1.0, against=OWNER),)}
_SORTS: Final = {
    "sync": "plain methods at both ends",
    "async": "async methods at both ends",
}

_NOTES = (
    "Cells: median of the rounds, then min..max. Ratios are taken round by round.",
    "from the owner: the same actor, called by the program on uvloop in the same run.",
    "Everybody is left to the scheduler. Four pairs need eight CPUs to show what they "
    "can do; with fewer they share what there is.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    trips, windows = (1500, 10) if scale.is_quick else (5000, 30)
    job = Job(
        name=OURS,
        subject="between_actorlib",
        arguments={"trips": trips, "windows": windows},
    )
    cases = [
        Case(
            section=section,
            title=title,
            unit=UNITS[figure],
            cells={
                OURS: f"{OURS}/{sort} {figure}",
                OWNER: f"{OURS}/owner {sort} {figure}",
            },
            targets=_GOALS.get(figure, ()),
        )
        for figure, section in SECTIONS.items()
        for sort, title in _SORTS.items()
    ]
    cases += [
        Case(
            section="four pairs at once, together",
            title=title,
            unit=RATE,
            cells={OURS: f"{OURS}/four {sort} {figure}"},
        )
        for sort in _SORTS
        for figure, title in (
            ("trips", f"{_SORTS[sort]}, one after another"),
            ("rate", f"{_SORTS[sort]}, pipelined"),
        )
    ]
    return Plan(
        name="between",
        question="Calls between two actors",
        notes=_NOTES,
        jobs=[job],
        cases=cases,
        panels=panels(cases),
    )


if __name__ == "__main__":
    conduct(make_plan)
