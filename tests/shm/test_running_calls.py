"""Which calls run, as it is read when their process is gone."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib._shm.running_calls import (
    ALONE,
    CELLS,
    HIGHEST,
    MARK,
    BegunCalls,
    RunningCalls,
    SharedRunningCalls,
    read_begun,
)
from actorlib._shm.segments import MemoryBudget

LIMIT = 1 << 40


def new(kind: type[RunningCalls] = RunningCalls) -> RunningCalls:
    return kind([0] * CELLS, LIMIT)


def test_calls_when_they_begin_and_end_then_those_between_run() -> None:
    calls = new()
    calls.begin(1)
    calls.begin(2)
    calls.end(1)

    begun = read_begun(calls.cells)

    assert begun == BegunCalls(2, frozenset({2}))
    assert [begun.runs(call) for call in (1, 2, 3)] == [False, True, False]
    assert [begun.may_have_begun(call) for call in (1, 2, 3)] == [True, True, False]
    assert repr(calls) == "<RunningCalls [2], 2 the highest>"


def test_calls_when_the_mark_is_used_then_they_are_none_of_its_affair() -> None:
    calls = new()
    calls.cells[MARK] = 77

    assert read_begun(calls.cells) == BegunCalls(0, frozenset())


def test_calls_when_one_runs_alone_then_it_is_among_them() -> None:
    calls = new()
    calls.begin(3)
    calls.cells[HIGHEST] = calls.cells[ALONE] = 4

    assert read_begun(calls.cells) == BegunCalls(4, frozenset({3, 4}))


def test_calls_when_they_came_over_a_link_then_they_are_not_noted() -> None:
    calls = new()
    calls.begin(LIMIT)
    calls.end(LIMIT)

    assert read_begun(calls.cells) == BegunCalls(0, frozenset())


def test_calls_when_one_begins_twice_then_one_end_is_enough() -> None:
    calls = new()
    calls.begin(1)
    calls.begin(1)
    calls.end(1)
    calls.end(1)

    assert not any(calls.cells[HIGHEST + 1 :])


def test_calls_when_more_run_than_there_are_cells_then_all_are_taken_to_run() -> None:
    calls = new()
    for call in range(1, CELLS + 1):
        calls.begin(call)

    begun = read_begun(calls.cells)

    assert begun.is_crowded
    assert all(begun.runs(call) for call in range(1, CELLS + 1))
    assert not begun.runs(CELLS + 1)

    for call in range(1, CELLS + 1):
        calls.end(call)
    assert read_begun(calls.cells) == BegunCalls(CELLS, frozenset())


@pytest.mark.parametrize("kind", [RunningCalls, SharedRunningCalls])
@given(data=st.data())
def test_calls_when_any_begin_and_end_then_those_between_are_known(
    kind: type[RunningCalls], data: st.DataObject
) -> None:
    calls, running, highest = new(kind), set[int](), 0
    for call in data.draw(st.lists(st.integers(1, 20))):
        if call in running:
            calls.end(call)
            running.discard(call)
        else:
            calls.begin(call)
            running.add(call)
            highest = max(highest, call)

    assert read_begun(calls.cells) == BegunCalls(highest, frozenset(running))


def test_calls_when_threads_begin_and_end_them_then_none_is_left() -> None:
    calls = new(SharedRunningCalls)

    def run(first: int) -> None:
        for call in range(first, 2000, 4):
            calls.begin(call)
            calls.end(call)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(1, 5)))

    assert read_begun(calls.cells) == BegunCalls(1999, frozenset())


def test_cells_when_a_process_wrote_them_then_the_owner_reads_them_behind_its_end() -> (
    None
):
    own = MemoryBudget(1 << 20)
    for slot in (1, 2):
        own.add_slot(slot)
    child = os.fork()
    if not child:
        RunningCalls(MemoryBudget(1 << 20, 1, own.fd).call_cells(), LIMIT).begin(5)
        os._exit(0)
    os.waitpid(child, 0)

    assert read_begun(own.call_cells_of(1)) == BegunCalls(5, frozenset({5}))
    assert read_begun(own.call_cells_of(2)) == BegunCalls(0, frozenset())
    own.clear_slot(1)
    assert not any(own.call_cells_of(1))
    own.close()
