"""What benchmarks make of their figures: medians, ratios, verdicts, tables."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("unit", "target", "words"),
    [
        (RATE, Target(bound=500_000), ">= 500000 calls/s"),
        (TIME, Target(bound=0.005), "<= 5 ms"),
        (RATE, Target(bound=0.45, against=FLOOR), ">= 45% of floor"),
        (TIME, Target(bound=1.3, against=FLOOR), "<= 1.3 x floor"),
        (RATE, Target(bound=40, against=RAY), ">= 40 x Ray"),
    ],
)
def test_target_is_told_in_the_unit_of_its_row(
    unit: Unit, target: Target, words: str
) -> None:
    assert describe(case(unit, target), target) == words


@pytest.mark.parametrize(
    ("unit", "theirs", "found"),
    [(RATE, 30.0, {RAY: 3.0}), (RATE, 5.0, {}), (TIME, 5.0, {RAY: 2.0})],
)
def test_peer_is_ahead_where_it_does_better(
    *, unit: Unit, theirs: float, found: dict[str, float]
) -> None:
    measured = samples(actorlib=[10.0], floor=[1000.0], Ray=[theirs])

    assert ahead(case(unit), measured) == pytest.approx(found)


def test_table_says_what_a_peer_does_better() -> None:
    measured = samples(actorlib=[10.0], Ray=[30.0])

    text = text_of([outcome(case(RATE), measured)], "m")

    assert "Ray does better in some: calls, of one (3 x)" in text


def test_multiple_is_a_share_below_one() -> None:
    assert (multiple(0.257), multiple(1.5), multiple(132.4)) == (
        "25.7%",
        "1.5 x",
        "132 x",
    )


def test_report_gives_figures_ratios_and_why_a_cell_is_empty() -> None:
    target = Target(bound=0.5, against=FLOOR)
    measured = samples(actorlib=[5.0], floor=[10.0])
    measured.absences["Ray"] = ABSENT

    found = report(case(RATE, target), measured)

    assert found["figures"] == {
        OURS: {"median": 5.0, "min": 5.0, "max": 5.0},
        FLOOR: {"median": 10.0, "min": 10.0, "max": 10.0},
    }
    assert found["ratios"] == {FLOOR: {"median": 0.5, "min": 0.5, "max": 0.5}}
    assert found["unmeasured"] == {RAY: ABSENT}
    assert found["targets"] == [{"target": ">= 50% of floor", "reached": True}]


def test_table_shows_ends_ratio_remark_target_and_verdict() -> None:
    row = case(RATE, Target(bound=40, against=RAY), Ray="of 16")
    measured = samples(actorlib=[100.0, 300.0, 200.0], Ray=[1.0, 1.0, 1.0])

    (line,) = [
        line
        for line in text_of([outcome(row, measured)], "a machine").splitlines()
        if "of one" in line
    ]

    assert "200 100..300" in line
    assert "1.00 (200 x) of 16" in line
    assert "failed" in line, "the floor was neither measured nor absent"
    assert ">= 40 x Ray: 200 x yes" in line


def test_table_says_who_is_not_installed_what_failed_and_the_machine() -> None:
    measured = samples(actorlib=[1.0], floor=[1.0])
    measured.absences["Ray"] = ABSENT
    measured.failures["floor"] = "not done after 300 s"

    text = text_of([outcome(case(RATE), measured)], "a machine of two cores")

    assert ABSENT in text
    assert "some: floor failed: not done after 300 s" in text
    assert "Machine: a machine of two cores" in text
    assert "some: A note." in text


def test_markdown_has_a_line_for_each_target_and_figures_in_the_first() -> None:
    targets = (Target(bound=0.5, against=FLOOR), Target(bound=40, against=RAY))
    measured = samples(actorlib=[4.0], floor=[10.0])
    measured.absences["Ray"] = ABSENT

    lines = targets_of([outcome(case(RATE, *targets), measured)], "m").splitlines()

    assert lines[0] == "| what | actorlib | floor | Ray | target | met |"
    assert lines[2] == (
        "| calls: of one | 4.00 calls/s | 10.0 (40.0%) | not installed "
        "| >= 50% of floor: 40.0% | **no** |"
    )
    assert lines[3] == "|  |  |  |  | >= 40 x Ray | not measured |"


def test_every_other_round_is_run_backwards() -> None:
    first, last = Job(name="a", subject="a"), Job(name="b", subject="b")

    turns = [(turn, job.name) for turn, job in in_rounds([first, last], 3)]

    assert turns == [(0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b")]


def test_samples_of_a_round_that_failed_before_stay_empty() -> None:
    found = Samples()

    found.add(Job(name="a", subject="a"), 2, {"x": 1.0})

    assert found.figures == {"a/x": [None, None, 1.0]}
