"""``python -m benchmarks compare``: its statistics, its order, and its two versions."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from benchmarks._cases import Job
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
from benchmarks._intervals import compare
from benchmarks._quiet import Usage, others_share

if TYPE_CHECKING:
    from pathlib import Path

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
