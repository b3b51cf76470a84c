"""``python -m benchmarks compare``: its statistics, its order, and its two versions."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from benchmarks._cases import FLOOR, OURS, RAY, Case, Job, Plan, Target, Unit
from benchmarks._compare import (
    WORK,
    Measurements,
    Row,
    Work,
    _cells,
    _measure_all,
    _root_of,
    _table,
    _turns,
)
from benchmarks._figures import (
    ahead,
    describe,
    multiple,
    ratio,
    report,
    spread,
    verdict,
)
from benchmarks._intervals import compare
from benchmarks._jobs import Samples, in_rounds
from benchmarks._markdown import targets_of
from benchmarks._quiet import Usage, others_share
from benchmarks._run import Outcome
from benchmarks._table import text_of

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.goldens import Golden


STEADY = [1.0, 1.1, 0.9, 1.05, 0.95] * 4


def test_compare_of_a_version_twice_as_slow_excludes_one() -> None:
    same = compare(STEADY, STEADY[::-1])
    twice = compare(STEADY, [2 * cost for cost in STEADY])
    partly = compare([1.0, None, 3.0], [2.0, 9.0, None])

    assert same is not None
    assert same.low < same.ratio == 1.0 < same.high
    assert same.rounds == 20
    assert twice is not None
    assert (twice.low, twice.ratio, twice.high) == pytest.approx((2.0, 2.0, 2.0))
    assert partly is not None
    assert (partly.old, partly.new, partly.rounds) == (1.0, 2.0, 1)


@pytest.mark.parametrize(
    ("old", "new"), [([], []), ([1.0], [None]), ([0.0, 0.0], [1.0, 1.0])]
)
def test_compare_without_a_common_cost_is_none(
    old: list[float | None], new: list[float | None]
) -> None:
    assert compare(old, new) is None


def test_others_share_leaves_out_own_cpu_time() -> None:
    before = Usage(total=100.0, busy=40.0, own=10.0)
    after = Usage(total=110.0, busy=46.0, own=13.0)

    assert others_share(before, after) == pytest.approx(0.3)
    assert others_share(before, before) == 0.0


def test_versions_are_measured_in_alternating_order() -> None:
    work = [Work(job=Job(name=name, subject="x.y"), rows=()) for name in "ab"]

    order = [(turn, each.job.name, side) for turn, each, side in _turns(work, 2)]

    assert order == [
        (0, "a", "old"),
        (0, "a", "new"),
        (0, "b", "old"),
        (0, "b", "new"),
        (1, "a", "new"),
        (1, "a", "old"),
        (1, "b", "new"),
        (1, "b", "old"),
    ]


def test_rate_twice_as_high_is_half_the_cost() -> None:
    results = Measurements()
    results.add("old", "job", 0, {"rate": 1000.0})
    results.add("new", "job", 0, {"rate": 2000.0})

    found = results.row("job", "rate", is_rate=True)

    assert found is not None
    assert (found.old, found.new, found.ratio) == (0.001, 0.0005, 0.5)


def test_row_that_one_version_lacks_shows_the_other() -> None:
    results = Measurements()
    results.add("new", "job", 0, {"time": 0.002})

    cells = _cells("job", Row(title="work", figure="time"), results)

    assert cells[:3] == ["work", "failed", "2,000 us"]


def test_table_marks_only_rows_whose_interval_excludes_noise() -> None:
    results = Measurements(others=[0.0, 0.5])
    for turn, cost in enumerate(STEADY):
        results.add("old", "job", turn, {"time": cost, "same": cost})
        results.add("new", "job", turn, {"time": 2 * cost, "same": cost})
    work = Work(
        job=Job(name="job", subject="x.y"),
        rows=(Row(title="slow", figure="time"), Row(title="equal", figure="same")),
    )
    options = argparse.Namespace(old="one", new="two", rounds=20)

    text = "\n".join(_table([work], results, options))

    slow, equal = (line for line in text.splitlines() if " us |" in line)
    assert "**worse**" in slow
    assert "worse" not in equal
    assert "better" not in equal
    assert "in 1 of 2 measurements, at most 50%" in text


def test_every_row_has_a_title_of_its_own() -> None:
    titles = [row.title for work in WORK for row in work.rows]

    assert len(set(titles)) == len(titles)


def test_place_that_is_neither_folder_nor_commit_is_refused(tmp_path: Path) -> None:
    with ExitStack() as stack, pytest.raises(SystemExit, match="neither a folder"):
        _root_of(str(tmp_path), stack)


def test_package_of_a_side_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "actorlib").mkdir()
    (tmp_path / "actorlib" / "module.py").write_text("x = 1\n")

    with ExitStack() as stack:
        package = _root_of(str(tmp_path), stack) / "actorlib"
        assert [*package.glob("__pycache__/module.*.pyc")]


def test_compare_when_interrupted_then_the_complete_rounds_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    work = [
        Work(
            job=Job(name="fake", subject="fake"),
            rows=(Row(title="row", figure="time"),),
        )
    ]
    figures = iter([1.0, 2.0, 3.0])

    def measure(job: Job, root: Path) -> dict[str, float]:
        del job, root
        value = next(figures, None)
        if value is None:
            raise KeyboardInterrupt
        return {"time": value}

    monkeypatch.setattr("benchmarks._compare.measure", measure)
    monkeypatch.setattr("benchmarks._compare.await_quiet", lambda _: True)
    roots = {"old": tmp_path, "new": tmp_path}

    results = _measure_all(work, roots, 5, 0.0)

    assert results.rounds == 1
    found = results.row(work[0].job.name, "time")
    assert found is not None
    assert (found.old, found.new, found.rounds) == (1.0, 2.0, 1)


# What benchmarks make of their figures: medians, ratios, verdicts, tables.


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
