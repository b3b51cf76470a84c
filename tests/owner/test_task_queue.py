"""The queue of calls of functions, decided with values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from actorlib._options.actor_options import ActorOptions
from actorlib._options.function_options import FunctionOptions
from actorlib._options.resources import CPU, Resources
from actorlib._owner.calls.mailbox import Retries
from actorlib._owner.functions.task_queue import (
    MAX_DEPTH,
    MIN_DEPTH,
    MOST_SLOTS,
    FunctionCode,
    FunctionEntry,
    Task,
    TaskQueue,
    WorkerLoad,
    prefetch_depth,
    retries_after_end,
)
from actorlib._scheduler.catalogue import Demand
from actorlib._scheduler.request import ANYWHERE

if TYPE_CHECKING:
    from actorlib._owner.functions.task_slots import Slots

    Queue = TaskQueue[WorkerLoad]
    Call = Task[WorkerLoad]

NO_SLOTS = cast("Slots", None)  # the queue holds them for others


@pytest.fixture
def queue() -> Queue:
    return new_queue({CPU: 1})


def new_queue(amounts: dict[str, int], *, is_per_worker: bool = False) -> Queue:
    demand = Demand(Resources.of(amounts), ANYWHERE)
    return TaskQueue(NO_SLOTS, demand, ActorOptions(), is_per_worker=is_per_worker)


def entry_of(
    queue: Queue, *, depth: int = MIN_DEPTH, **options: Any
) -> FunctionEntry[WorkerLoad]:
    code = FunctionCode(1, "f", b"", ())
    code.depth = depth
    return FunctionEntry(code, "f", FunctionOptions(**options), queue)


def task(
    entry: FunctionEntry[WorkerLoad], number: int, *, is_nested: bool = False
) -> Call:
    call: Call = Task(entry, None, b"", None, is_nested=is_nested)
    call.number = number
    return call


def calls(queue: Queue, *numbers: int, is_nested: bool = False) -> list[Call]:
    entry = entry_of(queue)
    return [task(entry, number, is_nested=is_nested) for number in numbers]


def worker_in_slot(queue: Queue) -> WorkerLoad:
    worker = WorkerLoad()
    queue.workers[worker] = None
    queue.put_in_slot(worker)
    return worker


def taken(queue: Queue) -> list[int]:
    """The numbers of those that wait, in the order in which they are taken."""
    numbers: list[int] = []
    while first := queue.first():
        queue.take(first[0])
        numbers.append(first[0].number)
    return numbers


# Calls that wait.


def test_add_when_another_of_its_kind_waits_then_no_worker_takes_it_now(
    queue: Queue,
) -> None:
    one, two = calls(queue, 1, 2)
    (nested,) = calls(queue, 3, is_nested=True)

    assert [queue.add(call) for call in (one, two, nested)] == [True, False, True]


def test_first_when_nested_ones_wait_too_then_the_older_one_is_first(
    queue: Queue,
) -> None:
    for call in (*calls(queue, 1, 4), *calls(queue, 2, 3, is_nested=True)):
        queue.add(call)

    assert [call.number for call in queue.first()] == [1, 2]
    assert [call.number for call in queue.first(nested_first=True)] == [2, 1]
    assert taken(queue) == [1, 2, 3, 4]


def test_put_back_when_calls_come_back_then_they_go_before_those_that_wait(
    queue: Queue,
) -> None:
    one, two, three = calls(queue, 1, 2, 3)
    queue.add(three)

    queue.put_back([one, two])

    assert queue.waiting_count == 3
    assert taken(queue) == [1, 2, 3]


@pytest.mark.parametrize("cancelled", [0, 1, 2, 3])
def test_cancel_when_a_call_waits_then_the_others_are_taken_in_order(
    queue: Queue, cancelled: int
) -> None:
    waiting = calls(queue, 1, 2, 3)
    for call in waiting:
        queue.add(call)
    left = [number for number in (1, 2, 3) if number != cancelled]

    if cancelled:
        queue.cancel(waiting[cancelled - 1])

    count = len(left)
    assert repr(queue) == f"<TaskQueue {count} waiting, 0 workers, 0 in slots>"
    assert taken(queue) == left
    assert queue.waiting_count == 0


def test_take_newest_nested_when_the_last_is_cancelled_then_the_one_before(
    queue: Queue,
) -> None:
    nested = calls(queue, 1, 2, 3, is_nested=True)
    for call in nested:
        queue.add(call)
    queue.cancel(nested[2])

    assert queue.take_newest_nested() is nested[1]
    assert queue.take_newest_nested() is nested[0]
    assert queue.take_newest_nested() is None
    assert queue.waiting_count == 0


def test_clear_when_calls_wait_then_those_that_are_not_cancelled(
    queue: Queue,
) -> None:
    one, two = calls(queue, 1, 2)
    (nested,) = calls(queue, 3, is_nested=True)
    for call in (one, two, nested):
        queue.add(call)
    queue.cancel(one)

    assert queue.clear() == [two, nested]
    assert (queue.waiting_count, queue.first()) == (0, [])
    assert queue.add(two)


# Which worker takes one.


def test_choose_when_one_is_free_then_that_one(queue: Queue) -> None:
    busy, free = worker_in_slot(queue), worker_in_slot(queue)
    entry = entry_of(queue, depth=8)
    busy.begin(task(entry, 1))

    assert queue.choose(task(entry, 2)) is free


def test_choose_when_all_are_busy_then_the_least_busy_that_is_quick(
    queue: Queue,
) -> None:
    entry = entry_of(queue, depth=3)
    workers = [worker_in_slot(queue) for _ in range(2)]
    for number in range(5):
        worker = queue.choose(task(entry, number))
        assert worker is not None
        worker.begin(task(entry, number))

    assert [len(worker.tasks) for worker in workers] == [3, 2]


@pytest.mark.parametrize(
    ("depth", "options"), [(MIN_DEPTH, {}), (MAX_DEPTH, {"max_retries": 0})]
)
def test_choose_when_a_call_is_slow_or_may_run_once_then_it_is_not_sent_behind(
    queue: Queue, depth: int, options: dict[str, Any]
) -> None:
    worker_in_slot(queue).begin(task(entry_of(queue, depth=MAX_DEPTH), 1))

    assert queue.choose(task(entry_of(queue, depth=depth, **options), 2)) is None


@pytest.mark.parametrize("state", ["is_leaving", "is_stuck", "is_blocked"])
def test_choose_when_a_worker_takes_no_more_then_none(queue: Queue, state: str) -> None:
    setattr(worker_in_slot(queue), state, True)

    assert queue.choose(*calls(queue, 1)) is None


def test_choose_when_a_worker_has_no_slot_then_none(queue: Queue) -> None:
    worker = worker_in_slot(queue)
    queue.take_from_slot(worker)
    queue.take_from_slot(worker)  # once is enough

    assert queue.choose(*calls(queue, 1)) is None


# What a worker has.


def test_begin_when_a_call_ran_often_enough_then_its_worker_leaves(
    queue: Queue,
) -> None:
    entry, worker = entry_of(queue, max_calls=2), WorkerLoad()
    returned = task(entry, 1)
    worker.begin(returned)
    worker.return_unstarted(returned)
    worker.begin(task(entry, 2))
    assert not worker.is_leaving

    worker.begin(task(entry, 3))

    assert worker.is_leaving


def test_end_when_a_call_is_over_then_another_may_be_sent_behind(
    queue: Queue,
) -> None:
    worker, call = worker_in_slot(queue), task(entry_of(queue, max_retries=0), 1)
    worker.begin(call)
    assert (call.worker, worker.is_stuck) == (worker, True)

    worker.end(call)

    assert (call.worker, worker.is_stuck, worker.answer_count) == (None, False, 1)
    assert worker.tasks == {}


def test_worker_when_more_than_half_is_left_then_it_is_not_filled(
    queue: Queue,
) -> None:
    entry, worker = entry_of(queue, depth=4), worker_in_slot(queue)
    tasks = [task(entry, number) for number in range(4)]
    for call in tasks:
        worker.begin(call)
    filled: list[bool] = []
    for call in tasks:
        worker.end(call)
        filled.append(worker.may_be_filled)

    assert filled == [False, True, True, True]


def test_duration_when_a_function_becomes_slow_then_its_worker_has_fewer(
    queue: Queue,
) -> None:
    worker = worker_in_slot(queue)
    quick, slow = entry_of(queue, depth=MAX_DEPTH), entry_of(queue, depth=MAX_DEPTH)
    slow.code.number = 2
    worker.begin(task(quick, 1))
    worker.begin(task(slow, 2))

    worker.note_duration(2, 1.0)
    worker.note_duration(3, 1.0)  # which has no call there

    assert (quick.code.depth, slow.code.depth) == (MAX_DEPTH, MIN_DEPTH)
    assert worker.depth == MIN_DEPTH


@pytest.mark.parametrize(
    ("seconds", "count"),
    [
        (0.0, MAX_DEPTH),
        (1e-6, MAX_DEPTH),
        (100e-6, 20),
        (1e-3, 2),
        (1.1e-3, MIN_DEPTH),
        (9.0, 1),
    ],
)
def test_prefetch_depth_when_asked_then_what_takes_two_milliseconds_together(
    seconds: float, count: int
) -> None:
    assert prefetch_depth(seconds) == count


# Slots.


@pytest.mark.parametrize(
    ("is_paused", "has_idle", "may_start", "may_fill"),
    [
        (False, False, True, True),
        (False, False, False, False),
        (False, True, False, True),
        (True, False, True, False),
        (True, True, True, True),
    ],
)
def test_may_fill_slot_when_starts_fail_then_only_with_idle_workers(
    queue: Queue, *, is_paused: bool, has_idle: bool, may_start: bool, may_fill: bool
) -> None:
    worker_in_slot(queue)
    queue.is_start_paused = is_paused
    if has_idle:
        queue.idle.append(WorkerLoad())

    assert queue.may_fill_slot(may_start=may_start, is_nested=False) is may_fill


def test_may_fill_slot_when_every_worker_waits_then_starts_are_tried(
    queue: Queue,
) -> None:
    worker_in_slot(queue).is_blocked = True
    queue.is_start_paused = True

    assert queue.may_fill_slot(may_start=True, is_nested=False)


def test_may_fill_slot_when_calls_ask_for_nothing_then_up_to_a_limit() -> None:
    queue = new_queue({})
    for _ in range(MOST_SLOTS - 1):
        worker_in_slot(queue)
    assert queue.may_fill_slot(may_start=True, is_nested=False)

    worker_in_slot(queue)

    assert not queue.may_fill_slot(may_start=True, is_nested=False)


def test_count_in_line_when_workers_hold_devices_then_those_that_are_started() -> None:
    queue = new_queue({"GPU": 1}, is_per_worker=True)
    worker = WorkerLoad()
    queue.workers[worker] = None
    queue.nested.starting_worker = worker

    assert queue.count_in_line() == 1
    queue.remove_worker(worker)
    assert (queue.count_in_line(), queue.workers) == (0, {})


# The end of a worker.


@pytest.mark.parametrize(("last_call", "ran"), [(0, 1), (1, 1), (2, 2), (9, 1)])
def test_worker_when_it_ended_then_the_call_that_it_began_last_ran(
    queue: Queue, last_call: int, ran: int
) -> None:
    entry, worker = entry_of(queue, depth=8), worker_in_slot(queue)
    tasks = [task(entry, number) for number in (1, 2, 3)]
    for call in tasks:
        worker.begin(call)

    [found], others = worker.lose_tasks(last_call)

    assert found is tasks[ran - 1]
    assert others == [call for call in tasks if call is not found]
    assert {call.worker for call in tasks} == {None}
    assert worker.lose_tasks(last_call) == ([], [])


@pytest.mark.parametrize(
    ("cause", "times", "can_start", "left"),
    [
        ("crashed", 3, True, 2),
        ("crashed", 0, True, None),
        ("exited", -1, False, -1),
        ("lost", 3, True, None),
        ("failed to start", 3, True, 3),
        ("failed to start", 0, True, 0),
        ("failed to start", 3, False, None),
    ],
)
def test_retries_when_the_worker_ended_then_a_call_that_ran_pays(
    queue: Queue, cause: str, times: int, *, can_start: bool, left: int | None
) -> None:
    call = task(entry_of(queue, max_retries=times), 1)

    found = retries_after_end(call, cause, can_start_workers=can_start)

    assert found == (None if left is None else Retries(left))
