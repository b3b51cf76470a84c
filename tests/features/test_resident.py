"""What workers have of the host's memory, and whether somebody is told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actorlib._base.process_stat import ProcessStat
from actorlib._enforcement.host_memory import Resident, proportional_of, tallied
from actorlib._features.watchdog.resident import Watched, confirm, judge

PAGE = 4096


def process(pid: int, parent: int, session: int, pages: int) -> ProcessStat:
    """A process with so many pages of memory; the rest does not matter."""
    return ProcessStat(pid, "x", "S", parent, session, session, 0, 0, 0, pages)


@given(st.text())
def test_rollup_when_it_is_anything_then_nothing_is_raised(text: str) -> None:
    proportional_of(text)


def test_tally_when_a_child_is_in_the_session_then_it_counts() -> None:
    worker, child = process(10, 1, 10, 100), process(11, 1, 10, 20)
    assert tallied([worker, child], {10}, PAGE) == {10: Resident(120 * PAGE, (10, 11))}


def test_tally_when_a_descendant_left_the_session_then_its_parents_count() -> None:
    worker = process(10, 1, 10, 100)
    child = process(11, 10, 11, 20)
    grandchild = process(12, 11, 12, 3)
    assert tallied([grandchild, worker, child], {10}, PAGE)[10].nbytes == 123 * PAGE


def test_tally_when_a_worker_is_below_another_then_each_has_its_own() -> None:
    above, below = process(10, 1, 10, 100), process(11, 10, 11, 20)
    found = tallied([above, below], {10, 11}, 1)
    assert [found[10].nbytes, found[11].nbytes] == [100, 20]


def test_tally_when_the_worker_is_gone_then_it_has_nothing() -> None:
    assert tallied([process(11, 1, 10, 20)], {10}, PAGE) == {}


@given(
    st.lists(
        st.builds(
            process,
            st.integers(2, 12),
            st.integers(0, 12),
            st.integers(0, 12),
            st.integers(0, 1000),
        ),
        unique_by=lambda each: each.pid,
    ),
    st.sets(st.integers(2, 12)),
)
def test_tally_whatever_the_parents_then_no_process_counts_twice(
    processes: list[ProcessStat], workers: set[int]
) -> None:
    found = tallied(processes, workers, PAGE)  # parents may run in a circle
    counted = [pid for its in found.values() for pid in its.pids]
    assert len(counted) == len(set(counted))
    assert found.keys() <= workers
    assert all(worker in its.pids for worker, its in found.items())


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
