"""Decides which worker runs which call of a function, and which calls run again.

Calls with equal requests wait in one queue, and any of its workers may run them. A call
is in one place at a time, in the queue or with one worker:

    add -> take -> begin -> end                  answered, or cancelled there
                         -> end -> put_back      unstarted, retried, or the worker ended
        -> cancel                                cancelled in the queue

``TaskWorkers`` carries the decisions out: it sends, starts and ends. ``Mailbox`` is the
counterpart for the calls of an actor.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from actorlib._options.resources import CPU
from actorlib._owner.calls.mailbox import Retries

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from actorlib._base.ids import CountedId
    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.function_options import FunctionOptions
    from actorlib._owner.functions.task_slots import PendingLease, Slots
    from actorlib._scheduler.catalogue import Demand
    from actorlib._shm.memory import Payload

W = TypeVar("W", bound="WorkerLoad")

MIN_DEPTH = 1
MAX_DEPTH = 128
QUICK = 1e-3
"""Seconds that a function may take so that a call is sent behind one of its calls."""
MOST_AHEAD = 2e-3
"""Seconds that the calls of one worker may take together."""
MOST_SLOTS = 512
"""How many workers run calls without a request at once."""


def prefetch_depth(seconds: float) -> int:
    """Returns how many calls of a function one worker has at once.

    Args:
        seconds: The time that the function takes at present.
    """
    if seconds > QUICK:
        return MIN_DEPTH
    return min(MAX_DEPTH, max(MIN_DEPTH, int(MOST_AHEAD / max(seconds, 1e-9))))


class FunctionCode:
    """A function as it is sent, once to each worker that runs it.

    Attributes:
        number: Its number in this runtime.
        label: Its name.
        source: The pickled function.
        borrowed: The borrowed references in it.
        method: The method of its calls in frames.
        depth: How many of its calls one worker has at once.
        entries: Its entries, by the options that workers sent.
    """

    __slots__ = (
        "__weakref__",
        "borrowed",
        "depth",
        "entries",
        "label",
        "method",
        "number",
        "source",
    )

    def __init__(
        self, number: int, label: str, source: bytes, borrowed: Sequence[CountedId]
    ) -> None:
        self.number = number
        self.label = label
        self.source = source
        self.borrowed = borrowed
        self.method = f"{number}:{label}"
        self.depth = MIN_DEPTH
        self.entries: dict[bytes, FunctionEntry[Any]] = {}


class FunctionEntry(Generic[W]):
    """The common part of all calls of a function with the same options.

    Attributes:
        code: The function.
        label: The name of its calls in messages.
        queue: Where its calls wait; None if they can never run.
        error: The error of its calls if they can never run.
        is_stream: Whether a call yields items.
        retries: How often a call may be made again.
        may_prefetch: Whether a call may be sent behind another one.
        max_calls: After how many calls its worker ends; 0 for never.
    """

    __slots__ = (
        "code",
        "error",
        "is_stream",
        "label",
        "max_calls",
        "may_prefetch",
        "queue",
        "retries",
    )

    def __init__(
        self,
        code: FunctionCode,
        label: str,
        options: FunctionOptions,
        queue: TaskQueue[W] | None,
        error: BaseException | None = None,
        *,
        is_stream: bool = False,
    ) -> None:
        self.code = code
        self.label = label
        self.queue = queue
        self.error = error
        self.is_stream = is_stream
        self.retries = Retries(options.max_retries, options.retried)
        # A call that ran and was not answered runs again if its process dies. And it
        # is unknown when the reader of a stream lets it go on.
        self.may_prefetch = bool(options.max_retries) and not is_stream
        self.max_calls = options.max_calls or 0
        if queue is not None and queue.concurrency:
            self.may_prefetch = True
        elif queue is not None and queue.is_per_worker and options.max_calls is None:
            self.max_calls = 1


class Task(Generic[W]):
    """One call of a function.

    Attributes:
        number: Its call number, in this runtime and in its worker.
        entry: The function.
        borrowed: The borrowed references in its arguments, held until it is over.
        payload: The arguments.
        headers: The headers that the caller sets for this call.
        is_nested: Whether a worker makes it, so that a caller that holds something may
            wait for it.
        retries: How often it may still be made again.
        worker: Its worker; None while it waits for one.
        is_cancelled: Whether it was cancelled while it waited for a worker.
    """

    __slots__ = (
        "borrowed",
        "entry",
        "headers",
        "is_cancelled",
        "is_nested",
        "number",
        "payload",
        "retries",
        "worker",
    )

    def __init__(
        self,
        entry: FunctionEntry[W],
        borrowed: Collection[CountedId] | None,
        payload: Payload | tuple[object, ...],
        headers: Mapping[str, object] | None,
        *,
        is_nested: bool,
    ) -> None:
        self.number = 0
        self.entry = entry
        self.borrowed = borrowed
        self.payload = payload
        self.headers = headers
        self.retries = entry.retries
        self.worker: W | None = None
        self.is_cancelled = False
        self.is_nested = is_nested


class WorkerLoad:
    """The calls of one worker, and whether it may have more.

    Attributes:
        tasks: The calls, in the order in which it runs them.
        has_slot: Whether it may run calls.
        is_leaving: Whether it gets no more calls.
        is_stuck: Whether no call is sent behind its call, as that takes long or may not
            be run again.
        is_blocked: Whether its call waits for a result, or for its CPUs after that.
        answer_count: How many calls it has answered.
        depth: How many calls it has at most, by the slowest of them.
        call_counts: How many calls it was sent of functions that limit them
            (max_calls).
        runs_all: Whether it runs all of its calls at once.
    """

    def __init__(self, *, runs_all: bool = False) -> None:
        self.tasks: dict[Task[Any], None] = {}
        self.runs_all = runs_all
        self.has_slot = False
        self.is_leaving = False
        self.is_stuck = False
        self.is_blocked = False
        self.answer_count = 0
        self.depth = MIN_DEPTH
        self.call_counts: Counter[int] = Counter()

    @property
    def may_be_filled(self) -> bool:
        """Whether it has so few calls that more are sent, several at a time.

        To send one after each answer would look for a worker twice for each call.
        """
        return len(self.tasks) * 2 <= self.depth

    def begin(self, task: Task[Any]) -> None:
        """Adds a call, behind its others."""
        entry = task.entry
        code = entry.code
        if entry.max_calls:
            self.call_counts[code.number] += 1
            if self.call_counts[code.number] >= entry.max_calls:
                self.is_leaving = True
        self.is_stuck = not entry.may_prefetch
        self.depth = min(self.depth, code.depth) if self.tasks else code.depth
        self.tasks[task] = None
        task.worker = self

    def end(self, task: Task[Any]) -> None:
        task.worker = None
        self.tasks.pop(task, None)
        self.answer_count += 1
        self.is_stuck = False

    def return_unstarted(self, task: Task[Any]) -> None:
        """Removes a call that it gives back and has not begun."""
        self.end(task)
        if task.entry.max_calls:
            self.call_counts[task.entry.code.number] -= 1

    def label(self, idle: str) -> str:
        """Returns the name of its call for messages.

        Args:
            idle: The name if it has no call.
        """
        return next((task.entry.label for task in self.tasks), idle)

    def runs(self, task: Task[Any]) -> bool:
        """Whether a call runs, and does not wait behind another one."""
        return self.runs_all or next(iter(self.tasks)) is task

    def runs_alone(self, task: Task[Any]) -> bool:
        """Whether a call runs and no other does."""
        return self.runs(task) and not (self.runs_all and len(self.tasks) > 1)

    def running_count(self) -> int:
        return len(self.tasks) if self.runs_all else min(len(self.tasks), 1)

    def tasks_that_ran(self, last_call: int) -> list[Task[Any]]:
        """Returns the calls that ran when its process ended.

        Args:
            last_call: The number of the call that it has begun last; 0 if unknown. If
                it has no such call, the oldest one ran: its arguments are loaded before
                it is noted as begun.
        """
        if self.runs_all:
            return [*self.tasks]
        begun = [task for task in self.tasks if task.number == last_call]
        return begun or [*self.tasks][:1]

    def lose_tasks(self, last_call: int) -> tuple[list[Task[Any]], list[Task[Any]]]:
        """Removes all calls after the end of the process.

        Returns:
            The calls that ran, and the others.
        """
        ran = self.tasks_that_ran(last_call)
        tasks, self.tasks = self.tasks, {}
        for task in tasks:
            task.worker = None
        return ran, [task for task in tasks if task not in ran]

    def note_duration(self, number: int, seconds: float) -> None:
        """Notes how long a function takes at present."""
        codes = (task.entry.code for task in self.tasks)
        code = next((code for code in codes if code.number == number), None)
        depth = prefetch_depth(seconds)
        if code is not None and code.depth != depth:
            code.depth = depth
            self.depth = min(task.entry.code.depth for task in self.tasks)


class Backlog(Generic[W]):
    """The waiting calls of a queue, either nested or not, and their requests.

    Attributes:
        is_nested: Whether they are nested ones.
        waiting: The calls in order, including cancelled ones.
        pending: Their request for a slot, if they have one.
        starting_worker: The worker that is started on a device for them, if any.
    """

    __slots__ = ("is_nested", "pending", "starting_worker", "waiting")

    def __init__(self, *, is_nested: bool) -> None:
        self.is_nested = is_nested
        self.waiting: deque[Task[W]] = deque()
        self.pending: PendingLease | None = None
        self.starting_worker: W | None = None


class TaskQueue(Generic[W]):
    """The waiting calls with equal requests, and the workers that run them.

    Attributes:
        slots: Grants slots to its workers.
        demand: The request of a call.
        options: The options of its workers.
        is_per_worker: Whether the workers request everything that a call requests.
        concurrency: How many calls one worker runs at once if they are ``async def``,
            else None.
        cpus: The units of CPUs that a call requests.
        usual: The waiting calls except nested ones.
        nested: The waiting nested calls.
        waiting_count: How many calls wait.
        workers: All its workers.
        in_slots: The workers that have a slot.
        idle: The workers that have no slot and may get one.
        start_error: Why the last start of a worker failed; empty after a success.
        logged_error: The last start_error in the log.
        is_start_paused: Whether no worker is started for a while, as a start has
            failed.
    """

    def __init__(
        self,
        slots: Slots,
        demand: Demand,
        options: ActorOptions,
        *,
        is_per_worker: bool,
        most_workers: int = MOST_SLOTS,
    ) -> None:
        self.slots = slots
        self.concurrency = options.max_concurrency
        self._most_workers = most_workers
        self.demand = demand
        self.options = options
        self.is_per_worker = is_per_worker
        self.cpus = demand.resources.amounts.get(CPU, 0)
        self.usual: Backlog[W] = Backlog(is_nested=False)
        self.nested: Backlog[W] = Backlog(is_nested=True)
        self.waiting_count = 0
        self.workers: dict[W, None] = {}
        self.in_slots: list[W] = []
        self.idle: list[W] = []
        self.start_error = self.logged_error = ""
        self.is_start_paused = False

    def __repr__(self) -> str:
        return (
            f"<TaskQueue {self.waiting_count} waiting, {len(self.workers)} workers, "
            f"{len(self.in_slots)} in slots>"
        )

    # Calls that wait.

    def add(self, task: Task[W]) -> bool:
        """Adds a call behind those that wait.

        Returns:
            Whether a worker may take it: no other of its kind waits.
        """
        backlog = self.nested if task.is_nested else self.usual
        backlog.waiting.append(task)
        self.waiting_count += 1
        return len(backlog.waiting) == 1

    def put_back(self, tasks: Sequence[Task[W]]) -> None:
        """Adds calls that were sent and came back before those that wait."""
        for task in reversed(tasks):
            backlog = self.nested if task.is_nested else self.usual
            backlog.waiting.appendleft(task)
        self.waiting_count += len(tasks)

    def first(self, *, nested_first: bool = False) -> list[Task[W]]:
        """Returns the first nested call and the first other call, the older one first.

        Args:
            nested_first: Whether the nested one is first, whichever is older.
        """
        usual, nested = self.usual.waiting, self.nested.waiting
        if usual and not (nested or usual[0].is_cancelled):  # the usual case
            return [usual[0]]
        first: list[Task[W]] = []
        for waiting in (usual, nested):
            while waiting and waiting[0].is_cancelled:
                waiting.popleft()
            if waiting:
                first.append(waiting[0])
        if len(first) > 1:
            first.sort(key=lambda task: (nested_first > task.is_nested, task.number))
        return first

    def take(self, task: Task[W]) -> None:
        """Removes the first call of its kind, as a worker gets it."""
        (self.nested if task.is_nested else self.usual).waiting.popleft()
        self.waiting_count -= 1

    def take_newest_nested(self) -> Task[W] | None:
        """Removes the newest nested call and returns it, if one waits."""
        waiting = self.nested.waiting
        while waiting and waiting[-1].is_cancelled:
            waiting.pop()
        if not waiting:
            return None
        self.waiting_count -= 1
        return waiting.pop()

    def cancel(self, task: Task[W]) -> None:
        task.is_cancelled = True
        self.waiting_count -= 1

    def clear(self) -> list[Task[W]]:
        tasks = [
            task
            for backlog in (self.usual, self.nested)
            for task in backlog.waiting
            if not task.is_cancelled
        ]
        self.waiting_count = 0
        for backlog in (self.usual, self.nested):
            backlog.waiting.clear()
        return tasks

    # Workers that take them.

    def choose(self, task: Task[W]) -> W | None:
        """Chooses a worker that has a slot: a free one, else the least busy.

        A call is sent behind others only while all of them are quick. The first worker
        with room is chosen for a call that runs beside others.
        """
        if self.concurrency is not None:
            open_workers = (each for each in self.in_slots if not each.is_leaving)
            return next(
                (w for w in open_workers if len(w.tasks) < self.concurrency), None
            )
        depth = task.entry.code.depth if task.entry.may_prefetch else MIN_DEPTH
        best, least = None, depth
        for worker in self.in_slots:
            if worker.is_leaving or worker.is_stuck or worker.is_blocked:
                continue
            count = len(worker.tasks)
            if not count:
                return worker
            if count < least and count < worker.depth:
                best, least = worker, count
        return best

    def can_run_calls(self) -> bool:
        """Whether a worker runs or is started that does not wait for a result."""
        return any(not worker.is_blocked for worker in self.workers)

    def may_fill_slot(self, *, may_start: bool, is_nested: bool) -> bool:
        """Whether there is a worker for one more slot.

        Args:
            may_start: Whether one more may be started now.
            is_nested: Whether it is for a nested call, which a running call may wait
                for.
        """
        if not (self.idle or may_start):
            return False
        if self.is_start_paused and not self.idle and self.can_run_calls():
            return False
        is_counted = bool(self.demand.resources.amounts)
        most = MOST_SLOTS if is_nested else self._most_workers
        return is_counted or len(self.in_slots) < most

    def count_in_line(self) -> int:
        """Counts its own requests for slots, or for workers that hold them."""
        usual, nested = self.usual, self.nested
        if self.is_per_worker:
            usual_start, nested_start = usual.starting_worker, nested.starting_worker
            return (usual_start is not None) + (nested_start is not None)
        return (usual.pending is not None) + (nested.pending is not None)

    def put_in_slot(self, worker: W) -> None:
        worker.has_slot = True
        self.in_slots.append(worker)

    def take_from_slot(self, worker: W) -> None:
        if worker.has_slot:
            worker.has_slot = False
            self.in_slots.remove(worker)

    def remove_worker(self, worker: W) -> None:
        """Forgets a worker whose process is gone, or is about to be."""
        self.workers.pop(worker, None)
        if worker in self.idle:
            self.idle.remove(worker)
        for backlog in (self.usual, self.nested):
            if backlog.starting_worker is worker:
                backlog.starting_worker = None


def retries_after_end(
    task: Task[Any], cause: str, *, can_start_workers: bool
) -> Retries | None:
    """Returns the retries of a call that ran when its worker ended; None if it is lost.

    Args:
        task: The call.
        cause: Why the worker has ended; see ``Exit``.
        can_start_workers: Whether other workers of its queue have been started.
    """
    if cause == "failed to start":
        return task.retries if can_start_workers else None
    return None if cause == "lost" else task.retries.after_end(ran=True)
