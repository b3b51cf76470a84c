"""What workers have of the host's memory, and whether somebody is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib._enforcement.resident import (
    ProcessMemory,
    Resident,
    Watched,
    confirm,
    judge,
    memory_of,
    proportional_of,
    tallied,
)

STAT = (
    "812 (a) (b c)) S 700 812 812 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 4 0 12345 "
    "99999 250 18446744073709551615"
)


def test_stat_when_the_name_holds_brackets_then_it_is_read_all_the_same() -> None:
    assert memory_of(STAT, 4096) == ProcessMemory(812, 700, 812, 250 * 4096)


@pytest.mark.parametrize("text", ["", "812", "812 (a) S", "x (a) S 1 2 3", STAT[:60]])
def test_stat_when_it_makes_no_sense_then_there_is_none(text: str) -> None:
    assert memory_of(text, 4096) is None


@given(st.text())
def test_stat_when_it_is_anything_then_nothing_is_raised(text: str) -> None:
    memory_of(text, 4096)
    proportional_of(text)


def test_tally_when_a_child_is_in_the_session_then_it_counts() -> None:
    worker, child = ProcessMemory(10, 1, 10, 100), ProcessMemory(11, 1, 10, 20)
    assert tallied([worker, child], {10}) == {10: Resident(120, (10, 11))}


def test_tally_when_a_descendant_left_the_session_then_its_parents_count() -> None:
    worker = ProcessMemory(10, 1, 10, 100)
    child = ProcessMemory(11, 10, 11, 20)
    grandchild = ProcessMemory(12, 11, 12, 3)
    assert tallied([grandchild, worker, child], {10})[10].nbytes == 123


def test_tally_when_a_worker_is_below_another_then_each_has_its_own() -> None:
    above, below = ProcessMemory(10, 1, 10, 100), ProcessMemory(11, 10, 11, 20)
    found = tallied([above, below], {10, 11})
    assert [found[10].nbytes, found[11].nbytes] == [100, 20]


def test_tally_when_the_worker_is_gone_then_it_has_nothing() -> None:
    assert tallied([ProcessMemory(11, 1, 10, 20)], {10}) == {}


@given(
    st.lists(
        st.builds(
            ProcessMemory,
            st.integers(2, 12),
            st.integers(0, 12),
            st.integers(0, 12),
            st.integers(0, 1000),
        ),
        unique_by=lambda process: process.pid,
    ),
    st.sets(st.integers(2, 12)),
)
def test_tally_whatever_the_parents_then_no_process_counts_twice(
    processes: list[ProcessMemory], workers: set[int]
) -> None:
    found = tallied(processes, workers)  # parents may run in a circle
    counted = [pid for its in found.values() for pid in its.pids]
    assert len(counted) == len(set(counted))
    assert found.keys() <= workers
    assert all(worker in its.pids for worker, its in found.items())


def test_judge_when_one_look_is_over_then_nobody_is_told() -> None:
    watched, is_due = judge(Watched(), 100, 101)
    assert not is_due
    watched, is_due = judge(watched, 100, 100)
    assert (watched.overs, is_due) == (0, False)


def test_judge_when_two_in_a_row_are_over_then_the_kernel_is_asked() -> None:
    watched, _ = judge(Watched(), 100, 101)
    watched, is_due = judge(watched, 100, 102)
    assert is_due
    assert confirm(watched, 100, 102, 101).is_told


def test_judge_when_it_was_told_then_never_again() -> None:
    watched = Watched(is_told=True)
    for _ in range(3):
        watched, is_due = judge(watched, 100, 500)
        assert not is_due


def test_confirm_when_pages_are_shared_then_they_are_taken_off() -> None:
    watched = confirm(Watched(overs=2), 100, 150, 60)
    assert not watched.is_told
    for _ in range(3):
        watched, is_due = judge(watched, 100, 190)
        assert not is_due
    watched, _ = judge(watched, 100, 191)
    assert judge(watched, 100, 191)[1]


def test_confirm_when_the_kernel_does_not_say_then_what_is_resident_counts() -> None:
    assert confirm(Watched(overs=2), 100, 150, None).is_told


def test_rollup_when_it_is_read_then_the_proportional_size_is_in_bytes() -> None:
    text = (
        "aaa-bbb ---p 00000000 00:00 0 [rollup]\n"
        "Rss:        2048 kB\nPss:        1024 kB\nPss_Anon:     12 kB\n"
    )
    assert proportional_of(text) == 1024 * 1024
    assert proportional_of("Rss: 1 kB\n") is None
