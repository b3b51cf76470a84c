"""What benchmarks make of their figures: medians, ratios, verdicts, tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks._cases import FLOOR, OURS, RAY, Case, Job, Plan, Target, Unit
from benchmarks._figures import (
    ahead,
    describe,
    multiple,
    ratio,
    report,
    spread,
    verdict,
)
from benchmarks._jobs import Samples, in_rounds
from benchmarks._markdown import targets_of
from benchmarks._run import Outcome
from benchmarks._table import text_of

if TYPE_CHECKING:
    from helpers.goldens import Golden

RATE = Unit(name="calls/s", more_is_better=True)
TIME = Unit(name="ms", scale=1e3)

ABSENT = "not installed"


def case(unit: Unit, *targets: Target, **remarks: str) -> Case:
    cells = {OURS: "actorlib/x", FLOOR: "floor/x", RAY: "Ray/x"}
    return Case(
        section="calls",
        title="of one",
        unit=unit,
        cells=cells,
        targets=targets,
        remarks=remarks,
    )


def samples(**figures: list[float | None]) -> Samples:
    return Samples(figures={f"{name}/x": values for name, values in figures.items()})


def outcome(row: Case, measured: Samples) -> Outcome:
    plan = Plan(name="some", question="How?", notes=("A note.",), jobs=[], cases=[row])
    return Outcome(plan=plan, samples=measured)


def test_figure_of_several_rounds_is_their_median_with_both_ends() -> None:
    found = spread(case(RATE), OURS, samples(actorlib=[3.0, None, 100.0, 2.0]))

    assert found is not None
    assert (found.median, found.low, found.high) == (3.0, 2.0, 100.0)


def test_ratio_is_taken_round_by_round_where_both_were_measured() -> None:
    measured = samples(actorlib=[10.0, 80.0, 9.0], floor=[1.0, 2.0, None])

    found = ratio(case(RATE), FLOOR, measured)

    assert found is not None
    assert (found.median, found.low, found.high) == (25.0, 10.0, 40.0)


@pytest.mark.parametrize(
    ("unit", "target", "ours", "is_met"),
    [
        (RATE, Target(bound=100.0), 100.0, True),
        (RATE, Target(bound=100.0), 99.0, False),
        (TIME, Target(bound=0.003), 0.003, True),
        (TIME, Target(bound=0.003), 0.004, False),
        (RATE, Target(bound=0.5, against=FLOOR), 5.0, True),
        (RATE, Target(bound=0.5, against=FLOOR), 4.9, False),
        (TIME, Target(bound=1.3, against=FLOOR), 13.0, True),
        (TIME, Target(bound=1.3, against=FLOOR), 14.0, False),
    ],
)
def test_verdict_of_a_target_follows_what_is_better(
    *, unit: Unit, target: Target, ours: float, is_met: bool
) -> None:
    measured = samples(actorlib=[ours], floor=[10.0])

    assert verdict(case(unit, target), target, measured) is is_met


def test_verdict_against_somebody_who_was_not_measured_is_none() -> None:
    target = Target(bound=40, against=RAY)

    assert verdict(case(RATE, target), target, samples(actorlib=[1.0])) is None


def test_tables_of_outcomes(golden: Golden) -> None:
    targets = (Target(bound=0.5, against=FLOOR), Target(bound=40, against=RAY))
    missing = samples(actorlib=[4.0], floor=[10.0])
    missing.absences["Ray"] = ABSENT
    failed = samples(actorlib=[10.0], Ray=[30.0])
    failed.failures["floor"] = "not done after 300 s"
    outcomes = {
        "of one": outcome(
            case(RATE, Target(bound=40, against=RAY), Ray="of 16"),
            samples(actorlib=[100.0, 300.0, 200.0], Ray=[1.0, 1.0, 1.0]),
        ),
        "missing": outcome(case(RATE, *targets), missing),
        "failed": outcome(case(RATE), failed),
    }

    tables = {
        name: [text_of([each], "a machine"), targets_of([each], "a machine")]
        for name, each in outcomes.items()
    }
    text = "\n\n".join(
        part for name, each in tables.items() for part in (f"== {name}", *each)
    )

    assert ">= 40 x Ray: 200 x yes" in text
    assert "Ray does better in some: calls, of one (3 x)" in text
    golden.check("benchmark-tables.txt", text)


def test_report_of_a_case(golden: Golden) -> None:
    target = Target(bound=0.5, against=FLOOR)
    bounds = (
        (RATE, Target(bound=500_000)),
        (TIME, Target(bound=0.005)),
        (TIME, Target(bound=1.3, against=FLOOR)),
    )
    measured = samples(actorlib=[5.0], floor=[10.0])
    measured.absences["Ray"] = ABSENT

    found = report(case(RATE, target), measured)

    assert found["targets"] == [{"target": ">= 50% of floor", "reached": True}]
    golden.check_value(
        "benchmark-report.txt",
        {
            "report": found,
            "targets": [describe(case(unit, bound), bound) for unit, bound in bounds],
            "multiples": [multiple(number) for number in (0.257, 1.5, 132.4)],
            "ahead": [
                ahead(case(unit), samples(actorlib=[10.0], Ray=[theirs]))
                for unit, theirs in ((RATE, 30.0), (RATE, 5.0), (TIME, 5.0))
            ],
        },
    )


def test_every_other_round_is_run_backwards() -> None:
    first, last = Job(name="a", subject="a"), Job(name="b", subject="b")

    turns = [(turn, job.name) for turn, job in in_rounds([first, last], 3)]

    assert turns == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]


def test_samples_of_a_round_that_failed_before_stay_empty() -> None:
    found = Samples()

    found.add(Job(name="a", subject="a"), 2, {"x": 1.0})

    assert found.figures == {"a/x": [None, None, 1.0]}
