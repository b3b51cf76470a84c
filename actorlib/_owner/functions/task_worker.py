"""Sends calls of functions to one worker, and takes care of workers without any.

Each worker is a supervised process like that of an actor, which nobody sees as such.
Those that have nothing to do stay for a while. Calls that were sent ahead to a worker
whose call takes long are taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from actorlib._owner.calls.router import WorkerRoute
from actorlib._owner.functions.read_signal import UNSENT_DELAY, ask_to_read
from actorlib._owner.functions.task_queue import (
    FunctionEntry,
    Task,
    TaskQueue,
    WorkerLoad,
)
from actorlib._shm.running_calls import MARK
from actorlib._wire.codec import pack
from actorlib._wire.function_code import ADD_FUNCTION, NO_CALL, PickledFunction
from actorlib._wire.messages import CALL, CALL_SCALARS, CALL_WITH, RETURN_UNSTARTED
from actorlib._wire.serialization import encode_call

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Sequence

    from actorlib._owner.actors.actor_record import ActorRecord
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
"""Seconds without an answer after which what was sent ahead is taken back."""
MOST_FUNCTIONS = 256
"""How many functions a worker is sent before it is replaced."""
IDLE_LIMIT = 30.0
"""Seconds after which a worker without anything to do is ended."""
_SWEEP = 1.0


class TaskWorker(WorkerLoad, WorkerRoute):
    """Holds what is known of one worker of functions, and the calls that it has.

    What it answers is for the pool, which says how; see ``WorkerRoute``.

    Args:
        references: Counts what is in functions and arguments.
        queue: Whose calls it runs.
        supervisor: Starts and ends its process.

    Attributes:
        supervisor: As given, like queue.
        tasks: The calls that it has; see ``WorkerLoad``.
        lease: What it holds for the call that runs, if its queue gives that.
        wait_number: The number there of the wait of its call.
        pending_cpus: Its place in line for its CPUs, if it is in line.
        is_interrupting: Whether the signal is about to be sent.
        answers_before: How many calls it had answered when stuck ones were looked for.
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
        super().__init__()
        WorkerRoute.__init__(self, supervisor.idle)
        self.queue = queue
        self.supervisor = supervisor
        self._references = references
        self._loop = supervisor.ended.get_loop()
        self.lease: Lease | None = None
        self.wait_number = 0
        self.pending_cpus: PendingLease | None = None
        self.is_interrupting = False
        self.answers_before = -1
        self.idle_since = 0.0
        self.last_call = 0
        self.functions: set[int] = set()
        self.last_sent: CalledFunction | None = None

    @property
    def title(self) -> str:
        """What it is called in messages: by the call that it runs."""
        label = self.label("a worker of functions")
        return f"{label} (pid {self.supervisor.pid})" if self.supervisor.pid else label

    @property
    def output_label(self) -> Callable[[], str]:
        """Returns the name of the function that runs, or has run last."""
        return self._output_label

    def _output_label(self) -> str:
        return self.label(
            "function" if self.last_sent is None else self.last_sent.label
        )

    def write(self, task: FunctionCall, channel: AsyncChannel) -> None:
        """Sends a call; the first of a function behind the function itself."""
        self.last_sent = task.entry
        code, borrowed, payload = task.entry.code, task.borrowed, task.payload
        if code.number not in self.functions:
            self._register(code, channel)
        if borrowed:  # this process holds it, too: it may have to be sent again
            self._references.arrived(borrowed, self._session)
        if isinstance(payload, tuple) and not task.headers:
            scalars = (CALL_SCALARS, task.number, code.method)
            channel.write(pack(scalars + payload))  # as CallRouter
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
        payload = encode_call((code.method, PickledFunction(code.source)), {})
        borrowed = code.borrowed or None
        channel.send((CALL, NO_CALL, ADD_FUNCTION, borrowed, payload))

    def opened(self, session: WorkerSession) -> None:
        """Sends the calls that it has got meanwhile; see WorkerRoute."""
        super().opened(session)
        for task in self.tasks:
            self.write(task, session.channel)

    def note_cells(self, cells: Sequence[int], record: ActorRecord) -> None:
        """Takes which call it ran last; see WorkerRoute."""
        del record
        self.last_call = cells[MARK] if cells else 0

    def is_over(self) -> bool:
        """Whether it has nothing to run, or to pass on; see WorkerRoute."""
        return not (self.tasks or self.unsent)

    def method_of(self, number: int) -> str | None:
        """The function of a call that it has."""
        labels = (task.entry.code.label for task in self.tasks if task.number == number)
        return next(labels, None)

    def under_way(self, record: ActorRecord) -> tuple[str, ...]:
        """The function that ran when its process ended."""
        del record
        refused = self.channel.refused if self.channel is not None else 0
        ran = self.task_that_ran(self.last_call)
        if ran is None or len(self.tasks) <= refused:
            return ()
        return (ran.entry.code.label,)

    def interrupt(self) -> None:
        """Has the worker read what was sent, though a function runs there."""
        if not self.is_interrupting:
            self.is_interrupting = True
            # Behind what this turn of the loop has gathered for it.
            self._loop.call_soon(self._send_signal)

    def _send_signal(self) -> None:
        self.is_interrupting = False
        if not self.tasks:
            return
        channel = self.channel
        if channel is not None and ask_to_read(self.supervisor.pid, channel):
            self.is_interrupting = True
            self._loop.call_later(UNSENT_DELAY, self._send_signal)


class IdleWorkers:
    """Keeps workers that have no call, and ends those that are not worth their memory.

    There are never more than the machine has CPUs and workers have been blocked at once
    of late together; and none where memory is short.

    Args:
        loop: The owner's loop.
        machine: Where they are.
        dismiss: Ends a worker of a queue that has nothing to do; given it and why.
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
        for worker in [worker for worker in self._workers if worker.queue.is_on_device]:
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
