"""Starts the workers of functions, sends them functions and calls, and ends them.

Each of them is a supervised process like that of an actor, which nobody sees as such.
Those that have nothing to do stay for a while. Calls that were sent ahead to a worker
whose call takes long are taken back.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING

from actorlib._core.resources import MEMORY
from actorlib._core.snapshot import WorkerGroupInfo
from actorlib._owner.creation import EncodedArguments
from actorlib._owner.task import STUCK_AFTER, TaskWorker
from actorlib._scheduler.request import described
from actorlib._wire.messages import RETURN_UNSTARTED
from actorlib._wire.serialization import encode_call

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection

    from actorlib._core.actor_options import ActorOptions
    from actorlib._core.ids import ActorId
    from actorlib._owner.call_policy import CancelChildren
    from actorlib._owner.machine import LocalNode
    from actorlib._owner.refcount import BorrowedReferences
    from actorlib._owner.supervisor import ActorSupervisor
    from actorlib._owner.task import FunctionCalls, Task, TaskRunner
    from actorlib._scheduler.scheduler import Scheduler
    from actorlib.accelerators.base import Lease


IDLE_LIMIT = 30.0
"""Seconds after which a worker without anything to do is ended."""
_SWEEP = 1.0


class IdleWorkers:
    """Keeps workers that have no call, and ends those that are not worth their memory.

    There are never more than the machine has CPUs and workers have been blocked at once
    of late together; and none where memory is short.

    Args:
        loop: The owner's loop.
        machine: Where they are.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, machine: LocalNode) -> None:
        self._leaving: dict[TaskWorker, str] = {}
        self._loop = loop
        self._machine = machine
        self._parallel = machine.parallel
        self._workers: dict[TaskWorker, None] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._blocked = 0
        self._most_blocked = 0

    def count_blocked(self, number: int) -> None:
        """Counts workers that wait for results; their CPUs want workers meanwhile.

        Args:
            number: How many more than before, or fewer.
        """
        self._blocked += number
        self._most_blocked = max(self._most_blocked, self._blocked)

    def add(self, worker: TaskWorker) -> None:
        """Takes a worker that has nothing to do."""
        worker.idle_since = self._loop.time()
        self._workers[worker] = None
        if len(self._workers) > self._parallel + self._most_blocked:
            self._dismiss_surplus()
        if self._sweeping is None:
            self._begin()

    def _dismiss_surplus(self) -> None:
        """Ends those too many that have had nothing to do for longest."""
        while len(self._workers) > self._parallel + self._most_blocked:
            self._dismiss(next(iter(self._workers)))

    def remove(self, worker: TaskWorker) -> None:
        """Lets a worker go that has something to do again, or is gone."""
        self._workers.pop(worker, None)
        if worker.supervisor.ended.done():
            self._leaving.pop(worker, None)

    def make_room(self) -> None:
        """Ends workers that hold a device, as a request waits that may want it."""
        for worker in [worker for worker in self._workers if worker.group.is_on_device]:
            self._dismiss(worker)

    def end(self, worker: TaskWorker, why: str) -> None:
        """Ends a worker when all it has to pass on is passed on."""
        if worker.unsent:
            self._leaving[worker] = why
            self._begin()
        else:
            worker.close()
            worker.supervisor.end_when_idle(why)

    def _begin(self) -> None:
        if self._sweeping is None and (self._workers or self._leaving):
            self._sweeping = self._loop.call_later(_SWEEP, self._sweep)

    def close(self) -> None:
        """Stops looking."""
        self._workers.clear()
        self._leaving.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()

    def _dismiss(self, worker: TaskWorker) -> None:
        self._workers.pop(worker, None)
        worker.group.dismiss(worker, "it had nothing to do")

    def _sweep(self) -> None:
        self._sweeping = None
        now = self._loop.time()
        is_short = self._machine.has_little_memory()
        for worker in list(self._workers):
            if is_short or now - worker.idle_since >= IDLE_LIMIT:
                self._dismiss(worker)
        self._dismiss_surplus()
        self._most_blocked = self._blocked
        leaving, self._leaving = self._leaving, {}
        for worker, why in leaving.items():
            self.end(worker, why)
        self._begin()


class StuckCallMonitor:
    """Takes calls back that wait behind one that takes long in their worker.

    Args:
        loop: The owner's loop.
        workers: The workers, live.

    Attributes:
        is_watching: Whether it looks again soon.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, workers: Collection[TaskWorker]
    ) -> None:
        self._loop = loop
        self._workers = workers
        self._timer: asyncio.TimerHandle | None = None
        self.is_watching = False

    def watch(self) -> None:
        """Looks again and again from now on, as a worker has more than one call."""
        self.is_watching = True
        self._timer = self._loop.call_later(STUCK_AFTER, self._look)

    def close(self) -> None:
        """Stops looking."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self.is_watching = False
        for worker in self._workers:
            if len(worker.tasks) < 2:
                continue
            self.is_watching = True
            if worker.answer_count == worker.answers_before and not worker.is_stuck:
                worker.is_stuck = True
                worker.tell((RETURN_UNSTARTED,))
                worker.interrupt()
            worker.answers_before = worker.answer_count
        if self.is_watching:
            self.watch()


_NOTHING = encode_call((), {})


class TaskWorkers:
    """Starts, feeds and ends the workers of every worker group.

    Args:
        create_worker: Creates the supervisor of a worker.
        machine: Where workers live.
        scheduler: Grants the slots that groups wait for.
        references: Counts what is in functions and arguments.
        calls: The calls of functions.

    Attributes:
        by_id: The workers.
        idle: Those of them that have nothing to do.
    """

    def __init__(
        self,
        create_worker: Callable[..., ActorSupervisor],
        machine: LocalNode,
        scheduler: Scheduler,
        references: BorrowedReferences,
        calls: FunctionCalls,
    ) -> None:
        self.by_id: dict[ActorId, TaskWorker] = {}
        self._calls = calls
        self.refuse = calls.refuse
        self._create_worker = create_worker
        self._long_waits = scheduler.long_waits
        self._machine = machine
        self._loop = scheduler.loop
        self._parallel = machine.parallel
        self._references = references
        self.idle = IdleWorkers(scheduler.loop, machine)
        self._worker_groups: weakref.WeakSet[TaskRunner] = weakref.WeakSet()
        self._starting = 0
        self._stuck_calls = StuckCallMonitor(scheduler.loop, self.by_id.values())

    def start(
        self,
        group: TaskRunner,
        label: str,
        options: ActorOptions,
        *,
        is_nested: bool = False,
    ) -> TaskWorker:
        """Starts a worker."""
        supervisor = self._create_worker(
            label,
            options,
            group.demand,
            EncodedArguments(_NOTHING, None),
            partial(self._new_worker, group),
            is_nested=is_nested,
        )
        worker = self.by_id[supervisor.record.id]
        if not group.is_on_device:
            self._starting += 1
        supervisor.ready().add_done_callback(lambda ready: self._started(worker, ready))
        asked = group.demand.resources.amounts.get(MEMORY)
        if asked:
            supervisor.ready().add_done_callback(
                lambda ready: self._watch_memory(worker, asked, ready)
            )
        supervisor.ended.add_done_callback(lambda _: self._worker_gone(worker))
        return worker

    def _new_worker(
        self,
        group: TaskRunner,
        supervisor: ActorSupervisor,
        cancel_children: CancelChildren,
    ) -> TaskWorker:
        worker = TaskWorker(
            group, supervisor, self._calls, self._references, cancel_children
        )
        self.by_id[supervisor.record.id] = worker
        return worker

    def _watch_memory(
        self, worker: TaskWorker, asked: int, ready: asyncio.Future[None]
    ) -> None:
        record = worker.supervisor.record
        if ready.cancelled() or ready.exception() or record.process is None:
            return
        self._machine.enforcement.watch_memory(
            record.process, lambda: _at_work(worker), asked, record.options
        )

    def enter(self, group: TaskRunner) -> None:
        """Takes a group in."""
        self._worker_groups.add(group)

    def _started(self, worker: TaskWorker, ready: asyncio.Future[None]) -> None:
        group, how = worker.group, worker.supervisor.record.exit
        if not group.is_on_device:
            self._starting -= 1
        if ready.cancelled():
            pass
        elif ready.exception() is None:
            group.start_succeeded()
        elif how is not None and how.cause == "failed to start":
            label = next((task.entry.label for task in worker.tasks), "a function")
            group.start_failed(label, how.reason)
        self._feed_all()

    def call_later(
        self, seconds: float, callback: Callable[[], None]
    ) -> asyncio.TimerHandle:
        """Calls a group back after a while."""
        return self._loop.call_later(seconds, callback)

    def _worker_gone(self, worker: TaskWorker) -> None:
        """Gives the calls of a worker that ended to others, or fails them."""
        del self.by_id[worker.supervisor.record.id]
        worker.group.worker_gone(worker)
        self._calls.worker_lost(worker)
        self._feed_all()

    def _feed_all(self) -> None:
        for group in list(self._worker_groups):
            if group.waiting_count:
                group.feed()

    def may_start(self) -> bool:
        """Whether one more worker may be started now."""
        return self._starting < self._parallel

    def log_long_wait(
        self,
        pending: asyncio.Future[Lease],
        label: str,
        explain: Callable[[], str | None],
    ) -> None:
        """Has the log say why a function waits for a slot, if it does for long."""
        self._long_waits.add(pending, label, explain, label, is_one_of_many=True)

    def send(self, task: Task, worker: TaskWorker) -> None:
        """Sends a call to a worker."""
        entry = task.entry
        code = entry.code
        if entry.max_calls:
            worker.call_counts[code.number] += 1
            if worker.call_counts[code.number] >= entry.max_calls:
                worker.is_leaving = True
        worker.is_stuck = not entry.may_prefetch
        worker.depth = min(worker.depth, code.depth) if worker.tasks else code.depth
        worker.send(task)
        if len(worker.tasks) > 1 and not self._stuck_calls.is_watching:
            self._stuck_calls.watch()

    def info(self) -> tuple[WorkerGroupInfo, ...]:
        """What is known of each group."""
        return tuple(
            WorkerGroupInfo(
                resources=described(*group.demand),
                waiting=group.waiting_count,
                running=sum(bool(worker.tasks) for worker in group.workers),
                blocked=sum(worker.is_blocked for worker in group.workers),
                pids=tuple(worker.supervisor.pid for worker in group.workers),
                host_memory=tuple(
                    self._machine.enforcement.memory_used(
                        worker.supervisor.record.process
                    )
                    for worker in group.workers
                ),
            )
            for group in self._worker_groups
            if group.workers or group.waiting_count
        )

    def close(self) -> list[Task]:
        """Looks after nobody any more; gives the calls that wait."""
        self.idle.close()
        self._stuck_calls.close()
        return [task for group in list(self._worker_groups) for task in group.give_up()]


def _at_work(worker: TaskWorker) -> str:
    """Says what a worker runs, in the words of messages."""
    running = next((task.entry.label for task in worker.tasks), None)
    return running or "an idle worker of functions"
