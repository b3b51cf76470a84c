"""Shares out calls that ask for the same among the workers that run them.

A worker has a *slot* while it may run calls: the share of the machine that each of them
holds. Where calls ask for no device, slots are taken from the machine or a placement
group, in line with everybody else, and a worker without one is idle and holds nothing.
Where they ask for devices a worker is started with its slot, and its end is what frees
that.

If a worker cannot be started, its calls wait for the other workers of the group. They
fail only if each of those waits for a result itself, or if there are none: they might
wait for one another. Another start is tried after a pause, or once no worker is left.

A slot is kept while more calls wait and nobody else stands in line. While a call waits
for a result its CPUs are lent: first to a nested call, one that another call has made,
as otherwise more and more calls would begin and wait; and it goes on when it has them
back. What else it holds it keeps.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from actorlib._core.log import warn
from actorlib._core.resources import CPU
from actorlib._owner.task import MIN_DEPTH
from actorlib._wire.messages import RESUME, RETURN_UNSTARTED

if TYPE_CHECKING:
    import asyncio

    from actorlib._core.actor_options import ActorOptions
    from actorlib._owner.task import Task, TaskWorker
    from actorlib._owner.task_slots import Slots
    from actorlib._owner.task_workers import TaskWorkers
    from actorlib._scheduler.catalogue import Demand
    from actorlib.accelerators.base import Lease

START_RETRY_PAUSE = 1.0
"""Seconds after a start that failed, while other workers can run the calls."""

MOST_SLOTS = 512
"""How many calls that ask for nothing run at once."""


class _Backlog:
    """Keeps the calls of a group that wait, nested or not, and what they wait for.

    Attributes:
        is_nested: Whether they are nested ones.
        waiting: The calls, in order; also some that were cancelled.
        pending: Their place in the line for a slot, if they have one.
        starting_worker: The worker that is started on a device for them, if one is.
        has_no_worker: Whether no worker could take one when that was tried last.
    """

    __slots__ = ("has_no_worker", "is_nested", "pending", "starting_worker", "waiting")

    def __init__(self, *, is_nested: bool) -> None:
        self.is_nested = is_nested
        self.waiting: deque[Task] = deque()
        self.pending: asyncio.Future[Lease] | None = None
        self.starting_worker: TaskWorker | None = None
        self.has_no_worker = False


class WorkerGroup:
    """Sends calls that ask for the same to workers that have slots.

    Args:
        task_workers: Starts its workers, sends them calls and ends them.
        slots: Gives its workers their slots.
        demand: What a call asks for.
        options: What a worker asks for itself.
        is_on_device: Whether that is everything that a call asks for.

    Attributes:
        demand: As given, like is_on_device.
        workers: All its workers.
        waiting_count: How many calls wait.
        start_error: Why a worker could not be started last; empty if one could since.
    """

    def __init__(
        self,
        task_workers: TaskWorkers,
        slots: Slots,
        demand: Demand,
        options: ActorOptions,
        *,
        is_on_device: bool,
    ) -> None:
        self._task_workers = task_workers
        self._idle_workers = task_workers.idle
        self._slots = slots
        self.demand = demand
        self.is_on_device = is_on_device
        self.workers: dict[TaskWorker, None] = {}
        self.waiting_count = 0
        self.start_error = self._logged_error = ""
        self._start_retry: asyncio.TimerHandle | None = None
        self._options = options
        self._is_counted = bool(demand.resources.amounts)
        self._cpus = demand.resources.amounts.get(CPU, 0)
        self._usual = _Backlog(is_nested=False)
        self._nested = _Backlog(is_nested=True)
        self._in_slots: list[TaskWorker] = []
        self._idle: list[TaskWorker] = []
        task_workers.enter(self)

    # Calls.

    def post(self, task: Task) -> None:
        """Adds a call behind those that wait."""
        nested, usual = self._nested, self._usual
        if not (self.waiting_count or task.is_nested or nested.pending):
            # Nobody waits: it does not stand in line to leave it at once. This and
            # the usual answer in TaskPool are 6 % of a pipelined call's CPU here.
            worker = self._next_worker(task, usual)
            if worker is not None:
                self._task_workers.send(task, worker)
                return
        backlog = nested if task.is_nested else usual
        backlog.waiting.append(task)
        self.waiting_count += 1
        if not backlog.has_no_worker:
            self.feed()

    def post_again(self, tasks: list[Task]) -> None:
        """Adds calls before those that wait: they were sent before, and came back."""
        for task in reversed(tasks):
            self._backlog_of(task).waiting.appendleft(task)
        self.waiting_count += len(tasks)
        self._nested.has_no_worker = self._usual.has_no_worker = False

    def task_cancelled(self) -> None:
        """Takes note that a call is cancelled that waited here."""
        self.waiting_count -= 1
        if not self.waiting_count:
            self._forget_waiting()

    def give_up(self) -> list[Task]:
        """Forgets the calls that wait; gives them."""
        given_up = [
            task
            for backlog in (self._usual, self._nested)
            for task in backlog.waiting
            if not task.is_cancelled
        ]
        self.waiting_count = 0
        self._forget_waiting()
        return given_up

    def _forget_waiting(self) -> None:
        for backlog in (self._usual, self._nested):
            backlog.waiting.clear()
            backlog.has_no_worker = False
        self._leave_lines()
        if self._start_retry is not None:
            self._start_retry.cancel()
            self._start_retry = None

    def feed(self, *, nested_first: bool = False) -> None:
        """Sends the calls that may go.

        Args:
            nested_first: Whether the first of them is a nested one, if there is any,
                rather than the one that came first.
        """
        nested, usual = self._nested, self._usual
        nested.has_no_worker = usual.has_no_worker = False
        if nested.waiting:
            self._feed_in_turn(nested_first=nested_first)
        else:
            waiting = usual.waiting
            while waiting:
                task = waiting[0]
                if task.is_cancelled:
                    waiting.popleft()
                    continue
                worker = self._next_worker(task, usual)
                if worker is None:
                    usual.has_no_worker = not self._refuse_all()
                    break
                waiting.popleft()
                self.waiting_count -= 1
                self._task_workers.send(task, worker)
        if nested.pending is not None and not nested.waiting:
            # What has passed others is not for the rest of those who wait.
            pending, nested.pending = nested.pending, None
            self._slots.leave(pending)

    def _feed_in_turn(self, *, nested_first: bool) -> None:
        while first := self._first_of_each(nested_first=nested_first):
            nested_first = False
            for task in first:
                backlog = self._backlog_of(task)
                worker = self._next_worker(task, backlog)
                if worker is not None:
                    backlog.waiting.popleft()
                    self.waiting_count -= 1
                    self._task_workers.send(task, worker)
                    break
            else:
                if not self._refuse_all():
                    for task in first:
                        self._backlog_of(task).has_no_worker = True
                return

    def _first_of_each(self, *, nested_first: bool) -> list[Task]:
        """Lists the first nested call and the first other one, the older one first."""
        first: list[Task] = []
        for waiting in (self._usual.waiting, self._nested.waiting):
            while waiting and waiting[0].is_cancelled:
                waiting.popleft()
            if waiting:
                first.append(waiting[0])
        if len(first) > 1:
            first.sort(key=lambda task: (nested_first > task.is_nested, task.number))
        return first

    def _backlog_of(self, task: Task) -> _Backlog:
        return self._nested if task.is_nested else self._usual

    def _refuse_all(self) -> bool:
        """Fails the calls that wait if nobody can ever run them; says whether so."""
        error = self._slots.error()
        if error is not None:
            for task in self.give_up():
                self._task_workers.refuse(task, type(error)(str(error)))
        return error is not None

    def _next_worker(self, task: Task, backlog: _Backlog) -> TaskWorker | None:
        """Finds who runs a call: a free worker, a new one, or one that is quick."""
        depth = task.entry.code.depth if task.entry.may_prefetch else MIN_DEPTH
        best, least = None, depth
        for worker in self._in_slots:
            if worker.is_leaving or worker.is_stuck or worker.is_blocked:
                continue
            count = len(worker.tasks)
            if not count:
                return worker
            if count < least and count < worker.depth:
                best, least = worker, count
        if best is not None and not self._has_cpus(best):
            best = None
        new = None
        if backlog.pending is None:  # else they are in line for one already
            new = self._new_slot(task.entry.label, backlog)
        if new is not None or best is None:
            return new
        return None if self._others_wait() else best

    # Slots.

    def _new_slot(self, label: str, backlog: _Backlog) -> TaskWorker | None:
        """Gives a further worker a slot if there is one now; else it is waited for."""
        if self.is_on_device:
            return self._start_on_device(label, backlog)
        if not self._may_fill_slot():
            return None
        pending = self._slots.acquire(label, is_nested=backlog.is_nested)
        if pending.done():
            return self._fill_slot(pending.result())
        backlog.pending = pending
        pending.add_done_callback(partial(self._slot_granted, backlog))
        self._task_workers.log_long_wait(
            pending, label, lambda: self._explain_wait(label, pending)
        )
        return None

    def _explain_wait(self, label: str, pending: asyncio.Future[Lease]) -> str | None:
        """Says why no worker runs calls; None if one does, as waiting is usual then."""
        if any(worker.tasks for worker in self.workers):
            return None
        return self._slots.explain(label, pending)

    def _may_fill_slot(self) -> bool:
        if not (self._idle or self._task_workers.may_start()):
            return False
        if self._start_retry is not None and not self._idle and self.can_run_calls():
            return False
        is_full = not self._is_counted and len(self._in_slots) >= MOST_SLOTS
        return not is_full and self._slots.error() is None

    def _slot_granted(self, backlog: _Backlog, pending: asyncio.Future[Lease]) -> None:
        if backlog.pending is not pending:
            return  # given up, and back already
        backlog.pending = None
        if pending.cancelled() or pending.exception() is not None:
            self.feed()  # which finds out why, and tells
            return
        if not (backlog.waiting if backlog.is_nested else self.waiting_count):
            self._slots.leave(pending)
            return
        self._fill_slot(pending.result())
        self.feed(nested_first=backlog.is_nested)
        self._free_idle_slots()

    def _fill_slot(self, lease: Lease) -> TaskWorker:
        if self._idle:
            worker = self._idle.pop()
            self._idle_workers.remove(worker)
        else:
            worker = self._task_workers.start(self, "function", self._options)
            self.workers[worker] = None
        worker.lease = lease
        self._slots.mark_transient(lease)
        self._put_in_slot(worker)
        return worker

    # Starts that fail.

    def start_failed(self, label: str, reason: str) -> None:
        """Takes note that a worker could not be started; another is tried later.

        Args:
            label: What it was to run, for the log.
            reason: Why it could not.
        """
        if reason != self._logged_error:
            self._logged_error = reason
            warn(
                "no further worker can be started that runs %s, and its calls wait for "
                "those that run, if there are any. Another start is tried every "
                "second. The reason: %s",
                label,
                reason,
            )
        self.start_error = reason
        if self._start_retry is None:
            self._start_retry = self._task_workers.call_later(
                START_RETRY_PAUSE, self._retry_start
            )

    def start_succeeded(self) -> None:
        """Takes note that a worker was started."""
        if self._start_retry is None:  # else it may have begun before one that failed
            self.start_error = ""

    def _retry_start(self) -> None:
        self._start_retry = None
        if self.waiting_count:
            self.feed()

    def can_run_calls(self) -> bool:
        """Whether a worker runs or is started that does not wait for a result."""
        return any(not worker.is_blocked for worker in self.workers)

    def _put_in_slot(self, worker: TaskWorker) -> None:
        worker.has_slot = True
        self._in_slots.append(worker)

    def _start_on_device(self, label: str, backlog: _Backlog) -> TaskWorker | None:
        """Starts a worker that holds devices itself: it waits in line before."""
        if backlog.starting_worker is not None or not self._may_fill_slot():
            return None
        is_nested = backlog.is_nested
        worker = self._task_workers.start(
            self, label, self._options, is_nested=is_nested
        )
        self.workers[worker] = None
        pending = worker.supervisor.placement.pending
        if pending is not None and pending.done():
            self._slots.mark_transient(pending.result())
            self._put_in_slot(worker)
            return worker
        backlog.starting_worker = worker
        if pending is not None:
            self._task_workers.log_long_wait(
                pending, label, lambda: self._explain_wait(label, pending)
            )
        worker.supervisor.placement.settled().add_done_callback(
            lambda _: self._worker_placed(worker, backlog)
        )
        return None

    def _worker_placed(self, worker: TaskWorker, backlog: _Backlog) -> None:
        if backlog.starting_worker is not worker:
            return
        backlog.starting_worker = None
        lease = worker.supervisor.record.lease
        if (
            worker.supervisor.placement.is_awaited
            or worker not in self.workers
            or lease is None
        ):
            return  # it never will be
        self._slots.mark_transient(lease)
        self._put_in_slot(worker)
        self.feed(nested_first=backlog.is_nested)
        self._free_idle_slots()

    def _free_idle_slots(self) -> None:
        for worker in list(self._in_slots):
            if not worker.tasks:
                self._free_slot(worker)

    def _free_slot(self, worker: TaskWorker) -> None:
        """Takes the slot of a worker that has nothing to do."""
        if self.is_on_device:
            if worker.is_leaving or not self._has_cpus(worker) or self._others_wait():
                self.dismiss(worker, "it has run what it was started for")
            else:
                self._idle_workers.add(worker)
            return
        self._leave_slot(worker)
        if worker.is_leaving:
            self.dismiss(worker, "it has run what it was started for")
        else:
            self._idle.append(worker)
            self._idle_workers.add(worker)

    def _leave_slot(self, worker: TaskWorker) -> None:
        if worker.has_slot:
            worker.has_slot = False
            self._in_slots.remove(worker)
        lease, worker.lease = worker.lease, None
        if lease is not None:
            self._slots.release(lease)

    def dismiss(self, worker: TaskWorker, why: str) -> None:
        """Ends a worker that has nothing to do."""
        worker.is_leaving = True
        if worker in self._idle:
            self._idle.remove(worker)
        if worker.has_slot:
            worker.has_slot = False
            self._in_slots.remove(worker)
        self._idle_workers.end(worker, why)

    def _others_wait(self) -> bool:
        usual, nested = self._usual, self._nested
        if self.is_on_device:
            ours = (usual.starting_worker is not None) + (
                nested.starting_worker is not None
            )
        else:
            ours = (usual.pending is not None) + (nested.pending is not None)
        return self._slots.others_wait(ours)

    def _leave_lines(self) -> None:
        """Gives up the places in line for slots, as no call waits."""
        for backlog in (self._usual, self._nested):
            pending, backlog.pending = backlog.pending, None
            if pending is not None:
                self._slots.leave(pending)
            worker, backlog.starting_worker = backlog.starting_worker, None
            if worker is not None:
                worker.supervisor.kill("nobody needed it any more")

    # What becomes of workers.

    def worker_answered(self, worker: TaskWorker) -> None:
        """A worker has answered a call."""
        self._nested.has_no_worker = self._usual.has_no_worker = False
        if worker.is_blocked and not worker.tasks:
            self._end_wait(worker)  # it was cancelled, and did not wait for its CPUs
        if worker.tasks:
            if self.waiting_count:
                self.feed()
            return
        may_keep = self._has_cpus(worker) and not worker.is_leaving
        if self.waiting_count and may_keep and not self._others_wait():
            self.feed()
            if worker.tasks:
                return
        if worker in self.workers:
            self._free_slot(worker)
        if self.waiting_count:
            self.feed()

    def worker_blocked(self, worker: TaskWorker, number: int) -> None:
        """The call of a worker waits for a result: others may have its CPUs.

        Args:
            worker: The worker.
            number: The number of the wait there.
        """
        self._end_wait(worker)
        worker.wait_number = number
        worker.is_blocked = True
        self._idle_workers.count_blocked(1)
        if len(worker.tasks) > 1:
            worker.tell((RETURN_UNSTARTED,))
        if not self.is_on_device and worker.has_slot:
            worker.has_slot = False
            self._in_slots.remove(worker)
        lease = self._lease_of(worker)
        if lease is not None and {CPU} == {*lease.amounts}:
            self._set_lease(worker, None)
            if not self._lend_to_nested(lease):
                self._slots.release(lease)
        elif lease is not None and lease.amounts:
            self._set_lease(worker, self._slots.release_cpus(lease))
        self.feed()

    def _lend_to_nested(self, lease: Lease) -> bool:
        """Lends a slot to a nested call, if there is one.

        The last one is likely to be the very one that is waited for; by arrival it
        would be one of somebody who waits as well, and again more would have begun.
        """
        waiting = self._nested.waiting
        while waiting and waiting[-1].is_cancelled:
            waiting.pop()
        if not waiting or not self._may_fill_slot():
            return False
        task = waiting.pop()
        self.waiting_count -= 1
        self._task_workers.send(task, self._fill_slot(lease))
        return True

    def worker_resumed(self, worker: TaskWorker) -> None:
        """The call of a worker has that, and goes on when it has its CPUs."""
        if not worker.is_blocked or worker.pending_cpus is not None:
            return
        pending = None
        if not self._has_cpus(worker) and self._slots.error() is None:
            label = next((task.entry.label for task in worker.tasks), "function")
            pending = self._slots.reacquire(label, self._cpus, self._lease_of(worker))
        if pending is None:
            self._resume(worker, None)
        elif pending.done():
            self._resume(worker, pending.result())
        else:
            worker.pending_cpus = pending
            pending.add_done_callback(partial(self._cpus_granted, worker))

    def _cpus_granted(self, worker: TaskWorker, pending: asyncio.Future[Lease]) -> None:
        if worker.pending_cpus is pending:
            has_failed = pending.cancelled() or pending.exception() is not None
            self._resume(worker, None if has_failed else pending.result())

    def _resume(self, worker: TaskWorker, cpus: Lease | None) -> None:
        worker.pending_cpus = None
        self._end_wait(worker)
        lease = self._lease_of(worker)
        if cpus is not None:
            lease = cpus if lease is None else self._slots.merge(lease, cpus)
            self._set_lease(worker, lease)
        if lease is not None:
            self._slots.mark_transient(lease)
        if not self.is_on_device:
            self._put_in_slot(worker)
        worker.tell((RESUME, worker.wait_number))

    def _end_wait(self, worker: TaskWorker) -> None:
        """The call of a worker does not wait any more."""
        pending, worker.pending_cpus = worker.pending_cpus, None
        if pending is not None:
            self._slots.leave(pending)
        if worker.is_blocked:
            worker.is_blocked = False
            self._idle_workers.count_blocked(-1)

    def _lease_of(self, worker: TaskWorker) -> Lease | None:
        return worker.supervisor.record.lease if self.is_on_device else worker.lease

    def _set_lease(self, worker: TaskWorker, lease: Lease | None) -> None:
        if self.is_on_device:
            worker.supervisor.record.lease = lease
        else:
            worker.lease = lease

    def _has_cpus(self, worker: TaskWorker) -> bool:
        """Whether a worker has the CPUs that a call asks for, and has not lent them."""
        lease = worker.supervisor.record.lease if self.is_on_device else worker.lease
        if lease is None:
            return self.is_on_device  # it is being started with them
        return not self._cpus or CPU in lease.amounts

    def worker_gone(self, worker: TaskWorker) -> None:
        """The process of a worker is gone."""
        self.workers.pop(worker, None)
        self._end_wait(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        for backlog in (self._usual, self._nested):
            if backlog.starting_worker is worker:
                backlog.starting_worker = None
        self._leave_slot(worker)
        self._idle_workers.remove(worker)
        self._nested.has_no_worker = self._usual.has_no_worker = False
