"""Starts the workers of functions, assigns slots and calls to them, and ends them.

A worker has a *slot* while it may run calls: the share of the machine that each call
holds. If calls request no device, slots come from the machine or a placement group, in
line with all other requests, and a worker without one is idle and holds nothing. If
they request devices, a worker is started with its slot, and its end frees the slot.

If a worker cannot be started, its calls wait for the other workers of the queue. They
fail only if there are none, or if each of those waits for a result itself: they could
wait for one another. Another start is tried after a pause, or once no worker is left.

A slot is kept while more calls wait and no other request of at least their priority is
in line. While a call waits
for a result, its CPUs are lent. They go first to a nested call, one that another call
has made: otherwise more and more calls would begin and wait. The call goes on when it
has its CPUs back. It keeps the rest of its lease.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING

from actorlib._base.log import warn
from actorlib._options.resources import CPU, MEMORY
from actorlib._owner.actors.actor_record import EncodedArguments
from actorlib._owner.functions.task_worker import IdleWorkers, StuckCallMonitor
from actorlib._rows.snapshot import WorkerGroupInfo
from actorlib._scheduler.request import LeaseRequest
from actorlib._wire.messages import RESUME, RETURN_UNSTARTED
from actorlib._wire.serialization import encode_call

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from actorlib._base.ids import ActorId
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.functions.task_queue import Backlog
    from actorlib._owner.functions.task_slots import PendingLease
    from actorlib._owner.functions.task_worker import (
        FunctionCall,
        FunctionQueue,
        TaskWorker,
    )
    from actorlib._owner.machine import LocalNode
    from actorlib._scheduler.scheduler import Scheduler
    from actorlib.accelerators.base import Lease

START_RETRY_PAUSE = 1.0
"""Seconds after a start that failed, while other workers can run the calls."""

_NOTHING = encode_call((), {})


class TaskWorkers:
    """Starts and ends the workers of every queue of functions, and sends calls to them.

    Args:
        create_worker: Creates the supervisor of a worker.
        machine: Where workers run.
        scheduler: Grants the slots that queues wait for.
        new_worker: Creates the TaskWorker of a supervisor.
        refuse: Fails a call that no worker will run.
        on_lost: Queues the calls of an ended worker again, or fails them.

    Attributes:
        queues: The queues, by the requests of their calls.
        by_id: The workers.
        idle: The idle workers.
    """

    def __init__(
        self,
        create_worker: Callable[..., ActorSupervisor],
        machine: LocalNode,
        scheduler: Scheduler,
        new_worker: Callable[[FunctionQueue, ActorSupervisor], TaskWorker],
        refuse: Callable[[FunctionCall, BaseException], None],
        on_lost: Callable[[TaskWorker], None],
    ) -> None:
        self.by_id: dict[ActorId, TaskWorker] = {}
        self._make_worker = new_worker
        self._refuse = refuse
        self._on_lost = on_lost
        self._create_worker = create_worker
        self._long_waits = scheduler.long_waits
        self._machine = machine
        self._loop = scheduler.loop
        self._parallel = machine.parallel
        self.idle = IdleWorkers(scheduler.loop, machine, self._dismiss)
        self.queues: weakref.WeakValueDictionary[tuple[object, ...], FunctionQueue] = (
            weakref.WeakValueDictionary()
        )
        self._starting = 0
        self._start_retries: dict[FunctionQueue, asyncio.TimerHandle] = {}
        self._stuck_calls = StuckCallMonitor(scheduler.loop, self.by_id.values())

    # Calls.

    def post(self, task: FunctionCall, queue: FunctionQueue) -> None:
        """Sends a call, or adds it behind those that wait."""
        if not (queue.waiting_count or task.is_nested or queue.nested.pending):
            # No call waits, so this one skips the queue. This and the usual answer in
            # TaskPool are 6 % of a pipelined call's CPU here.
            worker = self._next_worker(queue, task)
            if worker is not None:
                self._send(task, worker)
                return
        if queue.add(task):
            self.feed(queue)

    def cancel(self, task: FunctionCall, queue: FunctionQueue) -> None:
        queue.cancel(task)
        if not queue.waiting_count:
            self._give_up(queue)

    def _give_up(self, queue: FunctionQueue) -> list[FunctionCall]:
        """Forgets the calls that wait; returns them."""
        tasks = queue.clear()
        self._leave_lines(queue)
        retry = self._start_retries.pop(queue, None)
        if retry is not None:
            queue.is_start_paused = False
            retry.cancel()
        return tasks

    def feed(self, queue: FunctionQueue, *, nested_first: bool = False) -> None:
        """Sends the calls that may be sent.

        Args:
            queue: Where they wait.
            nested_first: Whether a nested call is first, even if it is newer.
        """
        while first := queue.first(nested_first=nested_first):
            nested_first = False
            for task in first:
                worker = self._next_worker(queue, task)
                if worker is not None:
                    queue.take(task)
                    self._send(task, worker)
                    break
            else:
                self._refuse_if_hopeless(queue)
                break
        nested = queue.nested
        if nested.pending is not None and not nested.waiting:
            # A request that has passed others is not for calls that are not nested.
            pending, nested.pending = nested.pending, None
            queue.slots.leave(pending)

    def _send(self, task: FunctionCall, worker: TaskWorker) -> None:
        worker.begin(task)
        if worker.channel is not None:  # else it waits for the worker to be ready
            worker.write(task, worker.channel)
        if (
            len(worker.tasks) > 1
            and not worker.runs_all
            and not self._stuck_calls.is_watching
        ):
            self._stuck_calls.watch()

    def _feed_all(self) -> None:
        # Only some workers are started at once: those of the highest priority first.
        waiting = [queue for queue in self.queues.values() if queue.waiting_count]
        for queue in sorted(waiting, key=lambda queue: -queue.slots.priority):
            self.feed(queue)

    def _refuse_if_hopeless(self, queue: FunctionQueue) -> None:
        """Fails the calls that wait if no worker can ever run them."""
        error = queue.slots.error()
        if error is not None:
            for task in self._give_up(queue):
                self._refuse(task, type(error)(str(error)))

    def _next_worker(
        self, queue: FunctionQueue, task: FunctionCall
    ) -> TaskWorker | None:
        """Returns a worker for a call: a free, a new, or one with quick calls."""
        best = queue.choose(task)
        if best is not None:
            if not best.tasks or (best.runs_all and not _must_yield(queue)):
                return best
            if best.runs_all or not _has_cpus(best):
                best = None
        backlog, new = queue.nested if task.is_nested else queue.usual, None
        if backlog.pending is None:  # else they are in line for one already
            new = self._new_slot(queue, backlog, task.entry.label)
        if new is not None or best is None:
            return new
        return None if _others_come_first(queue) else best

    # Slots.

    def _new_slot(
        self, queue: FunctionQueue, backlog: Backlog[TaskWorker], label: str
    ) -> TaskWorker | None:
        """Assigns a further worker to a free slot, or requests one."""
        if queue.is_per_worker:
            return self._start_on_device(queue, backlog, label)
        if not self._may_fill_slot(queue, backlog):
            return None
        pending = queue.slots.acquire(label, is_nested=backlog.is_nested)
        if pending.done():
            return self._fill_slot(queue, pending.result())
        backlog.pending = pending
        pending.add_done_callback(partial(self._slot_granted, queue, backlog))
        self._log_long_wait(queue, pending, label)
        return None

    def _log_long_wait(
        self, queue: FunctionQueue, pending: PendingLease, label: str
    ) -> None:
        """Logs why a function waits for a slot, if it waits long and no call runs."""

        def explain() -> str | None:
            if any(worker.tasks for worker in queue.workers):
                return None  # waiting is normal then
            return queue.slots.explain(label, pending)

        self._long_waits.add(pending, label, explain, label, is_one_of_many=True)

    def _may_fill_slot(
        self, queue: FunctionQueue, backlog: Backlog[TaskWorker]
    ) -> bool:
        return (
            queue.may_fill_slot(
                may_start=self._starting < self._parallel, is_nested=backlog.is_nested
            )
            and queue.slots.error() is None
        )

    def _slot_granted(
        self, queue: FunctionQueue, backlog: Backlog[TaskWorker], pending: PendingLease
    ) -> None:
        if backlog.pending is not pending:
            return  # given up, and returned already
        backlog.pending = None
        if pending.cancelled() or pending.exception() is not None:
            self.feed(queue)  # finds the reason, and fails the calls
            return
        if not (backlog.waiting if backlog.is_nested else queue.waiting_count):
            queue.slots.leave(pending)
            return
        self._fill_slot(queue, pending.result())
        self.feed(queue, nested_first=backlog.is_nested)
        self._free_idle_slots(queue)

    def _fill_slot(self, queue: FunctionQueue, lease: Lease) -> TaskWorker:
        if queue.idle:
            worker = queue.idle.pop()
            self.idle.remove(worker)
        else:
            worker = self._start(queue, "function")
        worker.lease = lease
        queue.slots.mark_transient(lease)
        queue.put_in_slot(worker)
        return worker

    def _start_on_device(
        self, queue: FunctionQueue, backlog: Backlog[TaskWorker], label: str
    ) -> TaskWorker | None:
        """Starts a worker that holds devices itself, and so requests them itself."""
        if backlog.starting_worker is not None or not self._may_fill_slot(
            queue, backlog
        ):
            return None
        worker = self._start(queue, label, is_nested=backlog.is_nested)
        placement = worker.supervisor.placement
        pending = placement.pending
        if pending is not None and pending.done():
            queue.slots.mark_transient(pending.result())
            queue.put_in_slot(worker)
            return worker
        backlog.starting_worker = worker
        if pending is not None:
            self._log_long_wait(queue, pending, label)
        placement.settled().add_done_callback(
            lambda _: self._worker_placed(worker, backlog)
        )
        return None

    def _worker_placed(self, worker: TaskWorker, backlog: Backlog[TaskWorker]) -> None:
        if backlog.starting_worker is not worker:
            return
        backlog.starting_worker = None
        queue, lease = worker.queue, worker.supervisor.record.lease
        if (
            worker.supervisor.placement.is_awaited
            or worker not in queue.workers
            or lease is None
        ):
            return  # it never will be placed
        queue.slots.mark_transient(lease)
        queue.put_in_slot(worker)
        self.feed(queue, nested_first=backlog.is_nested)
        self._free_idle_slots(queue)

    def _free_idle_slots(self, queue: FunctionQueue) -> None:
        for worker in list(queue.in_slots):
            if not worker.tasks:
                self._free_slot(worker)

    def _free_slot(self, worker: TaskWorker) -> None:
        """Frees the slot of an idle worker."""
        queue, is_leaving = worker.queue, worker.is_leaving
        if queue.is_per_worker:
            is_leaving = is_leaving or not _has_cpus(worker) or _others_wait(queue)
        else:
            self._leave_slot(worker)
        if is_leaving:
            self._dismiss(worker, "it has run what it was started for")
            return
        if not queue.is_per_worker:
            queue.idle.append(worker)
        self.idle.add(worker)

    def _leave_slot(self, worker: TaskWorker) -> None:
        worker.queue.take_from_slot(worker)
        lease, worker.lease = worker.lease, None
        if lease is not None:
            worker.queue.slots.release(lease)

    def _leave_lines(self, queue: FunctionQueue) -> None:
        """Cancels the requests for slots, as no call waits."""
        for backlog in (queue.usual, queue.nested):
            pending, backlog.pending = backlog.pending, None
            if pending is not None:
                queue.slots.leave(pending)
            worker, backlog.starting_worker = backlog.starting_worker, None
            if worker is not None:
                worker.supervisor.kill("no call needed it")

    # Starts and ends of workers.

    def _start(
        self, queue: FunctionQueue, label: str, *, is_nested: bool = False
    ) -> TaskWorker:
        supervisor = self._create_worker(
            label,
            queue.options,
            queue.demand,
            EncodedArguments(_NOTHING, None),
            partial(self._new_worker, queue),
            is_nested=is_nested,
        )
        worker = self.by_id[supervisor.record.id]
        queue.workers[worker] = None
        if not queue.is_per_worker:
            self._starting += 1
        supervisor.ready().add_done_callback(lambda ready: self._started(worker, ready))
        memory = queue.demand.resources.amounts.get(MEMORY)
        if memory:
            supervisor.ready().add_done_callback(
                lambda ready: self._watch_memory(worker, memory, ready)
            )
        supervisor.ended.add_done_callback(lambda _: self._worker_gone(worker))
        return worker

    def _new_worker(
        self, queue: FunctionQueue, supervisor: ActorSupervisor
    ) -> TaskWorker:
        worker = self._make_worker(queue, supervisor)
        self.by_id[supervisor.record.id] = worker
        return worker

    def _watch_memory(
        self, worker: TaskWorker, memory: int, ready: asyncio.Future[None]
    ) -> None:
        record = worker.supervisor.record
        if ready.cancelled() or ready.exception() or record.process is None:
            return
        self._machine.enforcement.watch_memory(
            record.process,
            partial(worker.label, "an idle worker of functions"),
            memory,
            record.options,
        )

    def _started(self, worker: TaskWorker, ready: asyncio.Future[None]) -> None:
        queue, how = worker.queue, worker.supervisor.record.exit
        if not queue.is_per_worker:
            self._starting -= 1
        if ready.cancelled():
            pass
        elif ready.exception() is None:
            if not queue.is_start_paused:  # else it may have begun before the failure
                queue.start_error = ""
        elif how is not None and how.cause == "failed to start":
            self._start_failed(queue, worker.label("a function"), how.reason)
        self._feed_all()

    def _start_failed(self, queue: FunctionQueue, label: str, reason: str) -> None:
        """Logs why a worker could not be started, and tries another start later."""
        if reason != queue.logged_error:
            queue.logged_error = reason
            warn(
                "no further worker can be started that runs %s, and its calls wait for "
                "those that run, if there are any. Another start is tried every "
                "second. The reason: %s",
                label,
                reason,
            )
        queue.start_error = reason
        if not queue.is_start_paused:
            queue.is_start_paused = True
            self._start_retries[queue] = self._loop.call_later(
                START_RETRY_PAUSE, self._retry_start, queue
            )

    def _retry_start(self, queue: FunctionQueue) -> None:
        del self._start_retries[queue]
        queue.is_start_paused = False
        if queue.waiting_count:
            self.feed(queue)

    def _worker_gone(self, worker: TaskWorker) -> None:
        """Handles the end of a worker: its calls move to others or fail."""
        del self.by_id[worker.supervisor.record.id]
        worker.queue.remove_worker(worker)
        self._end_wait(worker)
        self._leave_slot(worker)
        self.idle.remove(worker)
        self._on_lost(worker)
        self._feed_all()

    def _dismiss(self, worker: TaskWorker, why: str) -> None:
        worker.is_leaving = True
        if worker in worker.queue.idle:
            worker.queue.idle.remove(worker)
        worker.queue.take_from_slot(worker)
        self.idle.end(worker, why)

    # Reports of workers.

    def worker_answered(self, worker: TaskWorker) -> None:
        """Sends more calls to a worker that has answered one."""
        queue = worker.queue
        if worker.is_blocked and not worker.tasks:
            self._end_wait(worker)  # it was cancelled, and did not wait for its CPUs
        if worker.tasks:
            if queue.waiting_count and (worker.runs_all or worker.may_be_filled):
                self.feed(queue)
            return
        if worker.is_closed:
            worker.supervisor.idle()
        may_keep = _has_cpus(worker) and not worker.is_leaving
        if queue.waiting_count and may_keep and not _others_come_first(queue):
            self.feed(queue)
            if worker.tasks:
                return
        if worker in queue.workers:
            self._free_slot(worker)
        if queue.waiting_count:
            self.feed(queue)

    def worker_blocked(self, worker: TaskWorker, number: int) -> None:
        """Lends the CPUs of a worker to others, as its call waits for a result.

        Args:
            worker: The worker.
            number: The number of the wait there.
        """
        queue = worker.queue
        self._end_wait(worker)
        worker.wait_number = number
        worker.is_blocked = True
        self.idle.count_blocked(1)
        if len(worker.tasks) > 1:
            worker.tell((RETURN_UNSTARTED,))
        if not queue.is_per_worker:
            queue.take_from_slot(worker)
        lease = _lease_of(worker)
        if lease is not None and {CPU} == {*lease.amounts}:
            _set_lease(worker, None)
            if not self._lend_to_nested(queue, lease):
                queue.slots.release(lease)
        elif lease is not None and lease.amounts:
            _set_lease(worker, queue.slots.release_cpus(lease))
        self.feed(queue)

    def _lend_to_nested(self, queue: FunctionQueue, lease: Lease) -> bool:
        """Lends a slot to a nested call, if one waits.

        The newest one is probably the very call that is waited for. The oldest one may
        belong to another call that waits, and again more calls would have begun.
        """
        nested = queue.nested
        if not (nested.waiting and self._may_fill_slot(queue, nested)):
            return False
        task = queue.take_newest_nested()
        if task is not None:
            self._send(task, self._fill_slot(queue, lease))
        return task is not None

    def worker_resumed(self, worker: TaskWorker) -> None:
        """Resumes the call of a worker, which has its result, when it has its CPUs."""
        if not worker.is_blocked or worker.pending_cpus is not None:
            return
        queue, pending = worker.queue, None
        if not _has_cpus(worker) and queue.slots.error() is None:
            pending = queue.slots.reacquire(
                worker.label("function"), queue.cpus, _lease_of(worker)
            )
        if pending is None:
            self._resume(worker, None)
        elif pending.done():
            self._resume(worker, pending.result())
        else:
            worker.pending_cpus = pending
            pending.add_done_callback(partial(self._cpus_granted, worker))

    def _cpus_granted(self, worker: TaskWorker, pending: PendingLease) -> None:
        if worker.pending_cpus is pending:
            has_failed = pending.cancelled() or pending.exception() is not None
            self._resume(worker, None if has_failed else pending.result())

    def _resume(self, worker: TaskWorker, cpus: Lease | None) -> None:
        queue = worker.queue
        worker.pending_cpus = None
        self._end_wait(worker)
        lease = _lease_of(worker)
        if cpus is not None:
            lease = cpus if lease is None else queue.slots.merge(lease, cpus)
            _set_lease(worker, lease)
        if lease is not None:
            queue.slots.mark_transient(lease)
        if not queue.is_per_worker:
            queue.put_in_slot(worker)
        worker.tell((RESUME, worker.wait_number))

    def _end_wait(self, worker: TaskWorker) -> None:
        pending, worker.pending_cpus = worker.pending_cpus, None
        if pending is not None:
            worker.queue.slots.leave(pending)
        if worker.is_blocked:
            worker.is_blocked = False
            self.idle.count_blocked(-1)

    # Information, and the end.

    def info(self) -> tuple[WorkerGroupInfo, ...]:
        """Describes the workers of each queue."""
        return tuple(
            WorkerGroupInfo(
                resources=LeaseRequest("", *queue.demand).described,
                waiting=queue.waiting_count,
                running=sum(worker.running_count() for worker in queue.workers),
                blocked=sum(worker.is_blocked for worker in queue.workers),
                pids=tuple(worker.supervisor.pid for worker in queue.workers),
                host_memory=tuple(
                    self._machine.enforcement.memory_used(
                        worker.supervisor.record.process
                    )
                    for worker in queue.workers
                ),
            )
            for queue in list(self.queues.values())
            if queue.workers or queue.waiting_count
        )

    def close(self) -> list[FunctionCall]:
        """Stops the timers; returns the calls that wait."""
        self.idle.close()
        self._stuck_calls.close()
        return [
            task
            for queue in list(self.queues.values())
            for task in self._give_up(queue)
        ]


def _lease_of(worker: TaskWorker) -> Lease | None:
    return (
        worker.supervisor.record.lease if worker.queue.is_per_worker else worker.lease
    )


def _set_lease(worker: TaskWorker, lease: Lease | None) -> None:
    if worker.queue.is_per_worker:
        worker.supervisor.record.lease = lease
    else:
        worker.lease = lease


def _has_cpus(worker: TaskWorker) -> bool:
    """Whether a worker has the CPUs that a call requests, and has not lent them."""
    queue = worker.queue
    lease = worker.supervisor.record.lease if queue.is_per_worker else worker.lease
    if lease is None:
        return queue.is_per_worker  # it is started with them
    return not queue.cpus or CPU in lease.amounts


def _must_yield(queue: FunctionQueue) -> bool:
    """Whether others come first, perhaps for what a worker of the queue holds."""
    return queue.is_per_worker and _others_come_first(queue)


def _others_wait(queue: FunctionQueue) -> bool:
    """Whether other requests than this queue's wait for what its slots are made of."""
    return queue.slots.others_wait(queue.count_in_line())


def _others_come_first(queue: FunctionQueue) -> bool:
    """Whether one of them has no lower priority than the calls of this queue."""
    return queue.slots.others_come_first(queue.count_in_line())
