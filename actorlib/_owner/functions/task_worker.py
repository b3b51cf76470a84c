"""Sends calls of functions to one worker; ends idle workers, and frees stuck calls.

Each worker is a supervised process like that of an actor, and is not listed as one.
Idle workers stay for a while. Calls that were sent ahead to a worker whose call takes
long are taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from actorlib._owner.calls.router import WorkerRoute
from actorlib._owner.functions.task_queue import (
    FunctionEntry,
    Task,
    TaskQueue,
    WorkerLoad,
)
from actorlib._shm.running_calls import MARK
from actorlib._wire.codec import pack
from actorlib._wire.function_code import ADD_FUNCTION, NO_CALL, load_function
from actorlib._wire.messages import CALL, CALL_SCALARS, CALL_WITH, RETURN_UNSTARTED
from actorlib._wire.serialization import Reduced, encode_call

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Sequence

    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.functions.task_queue import FunctionCode
    from actorlib._owner.functions.task_slots import PendingLease
    from actorlib._owner.machine import LocalNode
    from actorlib._owner.objects.refcount import BorrowedReferences
    from actorlib._wire.async_channel import AsyncChannel
    from actorlib._wire.messages import Frame
    from actorlib.accelerators.base import Lease

FunctionCall: TypeAlias = "Task[TaskWorker]"
CalledFunction: TypeAlias = "FunctionEntry[TaskWorker]"
FunctionQueue: TypeAlias = "TaskQueue[TaskWorker]"

STUCK_AFTER = 10e-3
"""Seconds without an answer after which calls that were sent ahead are taken back."""
MOST_FUNCTIONS = 256
"""How many functions a worker is sent before it is replaced."""
IDLE_LIMIT = 30.0
"""Seconds after which an idle worker is ended."""
_SWEEP = 1.0


class TaskWorker(WorkerLoad, WorkerRoute):
    """One worker of functions, and the calls that it has.

    Its answers are for the pool, which implements the abstract methods of
    ``WorkerRoute``.

    Attributes:
        queue: The queue whose calls it runs.
        supervisor: Starts and ends its process.
        tasks: The calls that it has; see ``WorkerLoad``.
        lease: The lease of the call that runs, if its queue grants leases.
        wait_number: The number of its call's wait, in the worker.
        pending_cpus: Its request for its CPUs, if it has one.
        answers_before: How many calls it had answered at the last check for stuck
            calls.
        idle_since: When it ran its last call.
        last_call: The number of the call that ran when its process ended; 0 if unknown.
        functions: The numbers of the functions that it was sent.
        last_sent: The function of the call that was sent last.
    """

    tasks: dict[FunctionCall, None]

    def __init__(
        self,
        references: BorrowedReferences,
        queue: FunctionQueue,
        supervisor: ActorSupervisor,
    ) -> None:
        super().__init__(runs_all=queue.concurrency is not None)
        loop = supervisor.ended.get_loop()
        WorkerRoute.__init__(self, supervisor.record, loop, supervisor.idle)
        self.queue = queue
        self.supervisor = supervisor
        self._references = references
        self.lease: Lease | None = None
        self.wait_number = 0
        self.pending_cpus: PendingLease | None = None
        self.answers_before = -1
        self.idle_since = 0.0
        self.last_call = 0
        self.functions: set[int] = set()
        self.last_sent: CalledFunction | None = None
        self.output_label = self._name_output

    @property
    def title(self) -> str:
        """Its name in messages, with the call that it runs."""
        label = self.label("a worker of functions")
        return f"{label} (pid {self.supervisor.pid})" if self.supervisor.pid else label

    @property
    def is_retriable(self) -> bool:
        """Whether every call that it has runs again if it ends."""
        return all(task.retries.times for task in self.tasks)

    def _name_output(self) -> str:
        """Returns the name of the function that runs, or has run last."""
        return self.label(
            "function" if self.last_sent is None else self.last_sent.label
        )

    def write(self, task: FunctionCall, channel: AsyncChannel) -> None:
        """Sends a call. The first call of a function follows the function itself."""
        self.last_sent = task.entry
        code, borrowed, payload = task.entry.code, task.borrowed, task.payload
        if code.number not in self.functions:
            self._register(code, channel)
        if borrowed:  # this process holds them, too: the call may be sent again
            self._references.arrived(borrowed, self._session)
        if isinstance(payload, tuple) and not task.headers:
            scalars = (CALL_SCALARS, task.number, code.method)
            channel.write(pack(scalars + payload))  # as in CallRouter
            return
        if isinstance(payload, tuple):
            payload = encode_call(payload, {})
        frame: Frame = (CALL, task.number, code.method, borrowed, payload)
        if task.headers:
            frame = (CALL_WITH, *frame[1:4], task.headers, payload)
        channel.send(frame)

    def _register(self, code: FunctionCode, channel: AsyncChannel) -> None:
        """Sends a function, before its first call."""
        self.functions.add(code.number)
        if len(self.functions) >= MOST_FUNCTIONS:
            self.is_leaving = True
        self._references.arrived(code.borrowed, self._session)
        function = Reduced(load_function, code.source)
        payload = encode_call((code.method, function), {})
        borrowed = code.borrowed or None
        channel.send((CALL, NO_CALL, ADD_FUNCTION, borrowed, payload))

    def opened(self, session: WorkerSession) -> None:
        """Sends the calls that were assigned meanwhile."""
        super().opened(session)
        for task in self.tasks:
            self.write(task, session.channel)

    def note_cells(self, cells: Sequence[int]) -> None:
        self.last_call = cells[MARK] if cells else 0

    def is_over(self) -> bool:
        return not (self.tasks or self.unsent)

    def method_of(self, number: int) -> str | None:
        labels = (task.entry.code.label for task in self.tasks if task.number == number)
        return next(labels, None)

    def under_way(self) -> tuple[str, ...]:
        refused = self.channel.refused if self.channel is not None else 0
        if len(self.tasks) <= refused:
            return ()
        return tuple(
            task.entry.code.label for task in self.tasks_that_ran(self.last_call)
        )


class IdleWorkers:
    """Keeps workers without calls, and ends those that are not worth their memory.

    At most as many are kept as the machine has CPUs, plus the highest recent number of
    blocked workers. None is kept where memory is short.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        machine: LocalNode,
        dismiss: Callable[[TaskWorker, str], None],
    ) -> None:
        self._leaving: dict[TaskWorker, str] = {}
        self._loop = loop
        self._machine = machine
        self._dismiss_worker = dismiss
        self._parallel = machine.parallel
        self._workers: dict[TaskWorker, None] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._blocked = 0
        self._most_blocked = 0

    def count_blocked(self, number: int) -> None:
        """Counts workers that wait for results; other workers use their CPUs meanwhile.

        Args:
            number: How many more than before; negative for fewer.
        """
        self._blocked += number
        self._most_blocked = max(self._most_blocked, self._blocked)

    def add(self, worker: TaskWorker) -> None:
        worker.idle_since = self._loop.time()
        self._workers[worker] = None
        if len(self._workers) > self._parallel + self._most_blocked:
            self._dismiss_surplus()
        if self._sweeping is None:
            self._schedule_sweep()

    def _dismiss_surplus(self) -> None:
        """Ends the workers that have been idle for longest, if there are too many."""
        while len(self._workers) > self._parallel + self._most_blocked:
            self._dismiss(next(iter(self._workers)))

    def remove(self, worker: TaskWorker) -> None:
        self._workers.pop(worker, None)
        if worker.supervisor.ended.done():
            self._leaving.pop(worker, None)

    def make_room(self) -> None:
        """Ends workers that hold a device, as a request waits that may need it."""
        for worker in [
            worker for worker in self._workers if worker.queue.is_per_worker
        ]:
            self._dismiss(worker)

    def end(self, worker: TaskWorker, why: str) -> None:
        """Ends a worker as soon as it has sent all values that it has to send."""
        if worker.unsent:
            self._leaving[worker] = why
            self._schedule_sweep()
        else:
            worker.close()
            worker.supervisor.end_when_idle(why)

    def _schedule_sweep(self) -> None:
        if self._sweeping is None and (self._workers or self._leaving):
            self._sweeping = self._loop.call_later(_SWEEP, self._sweep)

    def close(self) -> None:
        self._workers.clear()
        self._leaving.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()

    def _dismiss(self, worker: TaskWorker) -> None:
        self._workers.pop(worker, None)
        self._dismiss_worker(worker, "it had nothing to do")

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
        self._schedule_sweep()


class StuckCallMonitor:
    """Returns calls that wait behind a long call in their worker to their queue.

    Attributes:
        is_watching: Whether a check is scheduled.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, workers: Collection[TaskWorker]
    ) -> None:
        self._loop = loop
        self._workers = workers
        self._timer: asyncio.TimerHandle | None = None
        self.is_watching = False

    def watch(self) -> None:
        """Schedules checks, as a worker has more than one call."""
        self.is_watching = True
        self._timer = self._loop.call_later(STUCK_AFTER, self._check)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        self.is_watching = False
        for worker in self._workers:
            if len(worker.tasks) < 2 or worker.runs_all:
                continue
            self.is_watching = True
            if worker.answer_count == worker.answers_before and not worker.is_stuck:
                worker.is_stuck = True
                worker.tell((RETURN_UNSTARTED,))
                worker.wake_worker()
            worker.answers_before = worker.answer_count
        if self.is_watching:
            self.watch()
