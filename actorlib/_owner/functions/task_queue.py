"""Decides which worker runs which call of a function, and which calls go again.

The calls that ask for the same wait in one queue, and any of its workers may run them.
A call is in one place at a time, in line or with one worker::

    add -> take -> begin -> end                  answered, or cancelled there
                         -> end -> put_back      unstarted, retried, or the worker ended
        -> cancel                                cancelled in line

``TaskWorkers`` does what is decided here: it sends, starts and ends. ``Mailbox`` is the
counterpart for the calls of an actor.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from actorlib._options.resources import CPU
from actorlib._owner.calls.call_policy import Retries

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
"""Seconds that a function may take for another call to be sent behind one of it."""
MOST_AHEAD = 2e-3
"""Seconds that the calls which one worker has may take together."""


MOST_SLOTS = 512
"""How many calls that ask for nothing run at once."""


def prefetch_depth(seconds: float) -> int:
    """Says how many calls of a function one worker has at once.

    Args:
        seconds: How long the function takes of late.
    """
    if seconds > QUICK:
        return MIN_DEPTH
    return min(MAX_DEPTH, max(MIN_DEPTH, int(MOST_AHEAD / max(seconds, 1e-9))))


class FunctionCode:
    """Holds a function as it is sent, once to each worker that runs it.

    Args:
        number: Its number in this runtime.
        label: Its name.
        source: The pickled function.
        borrowed: What is in it and counted.

    Attributes:
        method: What its calls are called on the pipe.
        depth: How many of its calls one worker has at once.
        entries: What is known of its calls, by the options that workers sent.
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
    """Holds what all calls of a function with the same options have in common.

    Args:
        code: The function.
        label: What a call is called in messages.
        options: What it asks for.
        queue: Where its calls wait; None if nobody can ever run them.
        error: Why nobody can, as calls are told.
        is_stream: Whether a call gives items, one after the other.
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
        # What ran and was not answered yet is run once more if its process dies. And
        # nobody knows when the reader of a stream lets it go on.
        self.may_prefetch = bool(options.max_retries) and not is_stream
        limit = options.max_calls
        on_device = queue is not None and queue.is_on_device
        self.max_calls = int(on_device) if limit is None else limit


class Task(Generic[W]):
    """Holds one call of a function.

    Args:
        entry: What it is a call of.
        borrowed: What is in its arguments and counted, held until it is over.
        payload: The arguments.
        headers: What the caller says of this call alone.
        is_nested: Whether a worker makes it, so that somebody may wait for it who holds
            something.

    Attributes:
        number: Its number in this runtime, and in the worker that has it.
        entry: As given, like borrowed, payload, headers and is_nested.
        retries: How often it may still be made again.
        worker: The worker that has it, if one has.
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
    """Holds the calls that one worker has, and whether it may have more.

    Attributes:
        tasks: The calls, in the order in which it runs them.
        has_slot: Whether it may run calls.
        is_leaving: Whether it gets no more calls.
        is_stuck: Whether none is sent behind its call, as that takes long, or may not
            be run again.
        is_blocked: Whether its call waits for a result, or for its CPUs after that.
        answer_count: How many calls it has answered.
        depth: How many calls it has at the most, by the slowest of them.
        call_counts: How many calls it was sent of those that end it after some.
    """

    def __init__(self) -> None:
        self.tasks: dict[Task[Any], None] = {}
        self.has_slot = False
        self.is_leaving = False
        self.is_stuck = False
        self.is_blocked = False
        self.answer_count = 0
        self.depth = MIN_DEPTH
        self.call_counts: Counter[int] = Counter()

    @property
    def may_be_filled(self) -> bool:
        """Whether it has so few calls that more are sent: several at a time.

        To send one behind each answer would look for a worker twice for each call.
        """
        return len(self.tasks) * 2 <= self.depth

    def begin(self, task: Task[Any]) -> None:
        """Takes a call, behind those that it has."""
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
        """Takes note that it is done with a call."""
        task.worker = None
        self.tasks.pop(task, None)
        self.answer_count += 1
        self.is_stuck = False

    def return_unstarted(self, task: Task[Any]) -> None:
        """Takes note that it gives a call back that has not begun there."""
        self.end(task)
        if task.entry.max_calls:
            self.call_counts[task.entry.code.number] -= 1

    def label(self, idle: str) -> str:
        """What it runs, in the words of messages.

        Args:
            idle: What is said if it has no call.
        """
        return next((task.entry.label for task in self.tasks), idle)

    def task_that_ran(self, last_call: int) -> Task[Any] | None:
        """The call that ran when its process ended.

        Args:
            last_call: The number of the call that it has begun last; 0 if unknown. The
                oldest call ran if it has none by that number: its arguments are loaded
                before it is noted as begun.
        """
        begun = (task for task in self.tasks if task.number == last_call)
        return next(begun, None) or next(iter(self.tasks), None)

    def lose_tasks(self, last_call: int) -> tuple[Task[Any] | None, list[Task[Any]]]:
        """Its process has ended; gives the call that ran, and the others."""
        ran = self.task_that_ran(last_call)
        tasks, self.tasks = self.tasks, {}
        for task in tasks:
            task.worker = None
        return ran, [task for task in tasks if task is not ran]

    def note_duration(self, number: int, seconds: float) -> None:
        """Takes note how long a function takes of late.

        Args:
            number: The function's.
            seconds: How long.
        """
        codes = (task.entry.code for task in self.tasks)
        code = next((code for code in codes if code.number == number), None)
        depth = prefetch_depth(seconds)
        if code is not None and code.depth != depth:
            code.depth = depth
            self.depth = min(task.entry.code.depth for task in self.tasks)


class Backlog(Generic[W]):
    """Keeps the calls of a queue that wait, nested or not, and what they wait for.

    Attributes:
        is_nested: Whether they are nested ones.
        waiting: The calls, in order; also some that were cancelled.
        pending: Their place in the line for a slot, if they have one.
        starting_worker: The worker that is started on a device for them, if one is.
    """

    __slots__ = ("is_nested", "pending", "starting_worker", "waiting")

    def __init__(self, *, is_nested: bool) -> None:
        self.is_nested = is_nested
        self.waiting: deque[Task[W]] = deque()
        self.pending: PendingLease | None = None
        self.starting_worker: W | None = None


class TaskQueue(Generic[W]):
    """Keeps the calls that ask for the same, and the workers that run them.

    Args:
        slots: Gives its workers their slots.
        demand: What a call asks for.
        options: What a worker asks for itself.
        is_on_device: Whether that is everything that a call asks for.

    Attributes:
        demand: As given, like slots, options and is_on_device.
        cpus: How many units of CPUs a call asks for.
        usual: The calls that wait, but for nested ones.
        nested: The nested ones.
        waiting_count: How many calls wait.
        workers: All its workers.
        in_slots: Those that have a slot.
        idle: Those that have none, and may be given one.
        start_error: Why a worker could not be started last; empty if one could since.
        logged_error: The last such reason that is in the log.
        is_start_paused: Whether none is started for a while, as that has failed.
    """

    def __init__(
        self,
        slots: Slots,
        demand: Demand,
        options: ActorOptions,
        *,
        is_on_device: bool,
    ) -> None:
        self.slots = slots
        self.demand = demand
        self.options = options
        self.is_on_device = is_on_device
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
            Whether a worker may take it: no other of its kind waits for one.
        """
        backlog = self.nested if task.is_nested else self.usual
        backlog.waiting.append(task)
        self.waiting_count += 1
        return len(backlog.waiting) == 1

    def put_back(self, tasks: Sequence[Task[W]]) -> None:
        """Adds calls before those that wait: they were sent before, and came back."""
        for task in reversed(tasks):
            backlog = self.nested if task.is_nested else self.usual
            backlog.waiting.appendleft(task)
        self.waiting_count += len(tasks)

    def first(self, *, nested_first: bool = False) -> list[Task[W]]:
        """The first nested call and the first other one, the older one first.

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
        """Takes a call out that is the first of its kind: it goes to a worker."""
        (self.nested if task.is_nested else self.usual).waiting.popleft()
        self.waiting_count -= 1

    def take_newest_nested(self) -> Task[W] | None:
        """Takes the nested call out that came last, if one waits."""
        waiting = self.nested.waiting
        while waiting and waiting[-1].is_cancelled:
            waiting.pop()
        if not waiting:
            return None
        self.waiting_count -= 1
        return waiting.pop()

    def cancel(self, task: Task[W]) -> None:
        """Takes note that a call is cancelled that waits."""
        task.is_cancelled = True
        self.waiting_count -= 1

    def clear(self) -> list[Task[W]]:
        """Forgets the calls that wait; gives them."""
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

        A call is sent behind others only while all of them are quick.
        """
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

    def may_fill_slot(self, *, may_start: bool) -> bool:
        """Whether there is a worker for one more slot.

        Args:
            may_start: Whether one more may be started now.
        """
        if not (self.idle or may_start):
            return False
        if self.is_start_paused and not self.idle and self.can_run_calls():
            return False
        is_counted = bool(self.demand.resources.amounts)
        return is_counted or len(self.in_slots) < MOST_SLOTS

    def count_in_line(self) -> int:
        """Counts its own requests for slots, or for workers that hold them."""
        usual, nested = self.usual, self.nested
        if self.is_on_device:
            usual_start, nested_start = usual.starting_worker, nested.starting_worker
            return (usual_start is not None) + (nested_start is not None)
        return (usual.pending is not None) + (nested.pending is not None)

    def put_in_slot(self, worker: W) -> None:
        """Lets a worker have calls."""
        worker.has_slot = True
        self.in_slots.append(worker)

    def take_from_slot(self, worker: W) -> None:
        """Lets a worker have no more calls."""
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
    """What a call has left that ran when its worker ended; None if it is lost.

    Args:
        task: The call.
        cause: Why the worker has ended; see ``Exit``.
        can_start_workers: Whether others of its queue have been started.
    """
    if cause == "failed to start":
        return task.retries if can_start_workers else None
    return None if cause == "lost" else task.retries.after_end(ran=True)
