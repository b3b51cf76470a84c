"""Describes functions, their calls and the workers that run them.

Calls of quick functions are sent ahead, several to one worker; how many, is said here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from actorlib._owner.call_policy import Retries
from actorlib._owner.read_signal import UNSENT_DELAY, ask_to_read

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Mapping, Sequence

    from actorlib._core.function_options import FunctionOptions
    from actorlib._core.ids import CountedId
    from actorlib._owner.supervisor import ActorSupervisor
    from actorlib._scheduler.catalogue import Demand
    from actorlib._shm.memory import Payload
    from actorlib._wire.messages import Frame
    from actorlib.accelerators.base import Lease


MIN_DEPTH = 1
MAX_DEPTH = 128
QUICK = 1e-3
"""Seconds that a function may take for another call to be sent behind one of it."""
MOST_AHEAD = 2e-3
"""Seconds that the calls which one worker has may take together."""
STUCK_AFTER = 10e-3
"""Seconds without an answer after which what was sent ahead is taken back."""


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
        self.entries: dict[bytes, FunctionEntry] = {}


class TaskRunner(Protocol):
    """Runs the calls of functions that ask for the same; see WorkerGroup."""

    workers: dict[TaskWorker, None]
    is_on_device: bool
    demand: Demand
    waiting_count: int

    def post(self, task: Task) -> None:
        """Adds a call behind those that wait."""
        ...

    def post_again(self, tasks: list[Task]) -> None:
        """Adds calls before those that wait."""
        ...

    def task_cancelled(self) -> None:
        """A call that waited is over."""
        ...

    def feed(self) -> None:
        """Sends the calls that may go."""
        ...

    def start_failed(self, label: str, reason: str) -> None:
        """Takes note that a worker could not be started."""
        ...

    def start_succeeded(self) -> None:
        """Takes note that a worker was started."""
        ...

    def can_run_calls(self) -> bool:
        """Whether a worker can run calls, now or later."""
        ...

    def dismiss(self, worker: TaskWorker, why: str) -> None:
        """Ends a worker that has nothing to do."""
        ...

    def worker_answered(self, worker: TaskWorker) -> None:
        """A worker has answered a call."""
        ...

    def worker_blocked(self, worker: TaskWorker, number: int) -> None:
        """The call of a worker waits for a result."""
        ...

    def worker_resumed(self, worker: TaskWorker) -> None:
        """It has that, and goes on when it has its CPUs."""
        ...

    def worker_gone(self, worker: TaskWorker) -> None:
        """The process of a worker is gone."""
        ...

    def give_up(self) -> list[Task]:
        """Forgets the calls that wait."""
        ...


class FunctionEntry:
    """Holds what all calls of a function with the same options have in common.

    Args:
        code: The function.
        label: What a call is called in messages.
        options: What it asks for.
        group: Who runs it; None if nobody ever can.
        error: Why nobody can, as calls are told.
        is_stream: Whether a call gives items, one after the other.
    """

    __slots__ = (
        "code",
        "error",
        "group",
        "is_stream",
        "label",
        "max_calls",
        "may_prefetch",
        "retries",
    )

    def __init__(
        self,
        code: FunctionCode,
        label: str,
        options: FunctionOptions,
        group: TaskRunner | None,
        error: BaseException | None = None,
        *,
        is_stream: bool = False,
    ) -> None:
        self.code = code
        self.label = label
        self.group = group
        self.error = error
        self.is_stream = is_stream
        self.retries = Retries(options.max_retries, options.retried)
        # What ran and was not answered yet is run once more if its process dies. And
        # nobody knows when the reader of a stream lets it go on.
        self.may_prefetch = bool(options.max_retries) and not is_stream
        limit = options.max_calls
        on_device = group is not None and group.is_on_device
        self.max_calls = int(on_device) if limit is None else limit


class Task:
    """Holds one call of a function; the target of what its worker answers.

    Args:
        entry: What it is a call of.
        borrowed: What is in its arguments and counted, held until it is over.
        payload: The arguments.
        headers: What the caller says of this call alone.
        on_answer: Takes the answer of its worker, with this.
        on_item: Takes each item of a stream, with this.

    Attributes:
        number: Its number in this runtime.
        entry: As given, like borrowed, payload and headers.
        retries: How often it may still be made again.
        worker: The worker that has it, if one has.
        sent_as: Its number there.
        is_cancelled: Whether it was cancelled while it waited for a worker.
        was_forced: Whether that worker is ended for its sake.
        is_nested: Whether a worker makes it, so that somebody may wait for it who holds
            something.
    """

    __slots__ = (
        "borrowed",
        "entry",
        "headers",
        "is_cancelled",
        "is_nested",
        "number",
        "on_answer",
        "on_item",
        "payload",
        "retries",
        "sent_as",
        "was_forced",
        "worker",
    )

    def __init__(
        self,
        entry: FunctionEntry,
        borrowed: Collection[CountedId] | None,
        payload: Payload,
        headers: Mapping[str, object] | None,
        on_answer: Callable[[Task, Frame], None],
        on_item: Callable[[Task, Frame], None],
    ) -> None:
        self.number = 0
        self.on_answer = on_answer
        self.on_item = on_item
        self.entry = entry
        self.borrowed = borrowed
        self.payload = payload
        self.headers = headers
        self.retries = entry.retries
        self.worker: TaskWorker | None = None
        self.sent_as = 0
        self.is_cancelled = False
        self.was_forced = False
        self.is_nested = False

    def answer(self, frame: Frame) -> None:
        """Passes an answer of the worker on; see RemoteTarget."""
        self.on_answer(self, frame)

    def item(self, frame: Frame) -> None:
        """Passes an item of the worker on; see Reader."""
        self.on_item(self, frame)

    def fail(self, error: BaseException) -> None:
        """Does nothing: what becomes of it is decided when the worker is gone."""


class TaskWorker:
    """Holds what is known of one worker of functions, and the calls that it has.

    Attributes:
        supervisor: Starts and ends its process.
        group: Whose it is.
        tasks: The calls that it has, in the order in which it runs them.
        lease: What it holds for the call that runs, if the group gives that.
        has_slot: Whether it may run calls.
        is_leaving: Whether it gets no more calls.
        is_stuck: Whether none is sent behind its call, as that takes long, or may not
            be run again.
        is_blocked: Whether its call waits for a result, or for its CPUs after that.
        wait_number: The number of that wait there.
        pending_cpus: Its place in line for its CPUs, if it is in line.
        is_interrupting: Whether the signal is about to be sent.
        answer_count: How many calls it has answered.
        answers_before: How many it had when stuck calls were looked for last.
        idle_since: When it ran its last call.
        depth: How many calls it has at the most, by the slowest of them.
        last_call: The number of the call that ran when its process ended; 0 if unknown.
        functions: The numbers of the functions that it was sent.
        call_counts: How many calls it was sent of those that end it after some.
    """

    __slots__ = (
        "_loop",
        "answer_count",
        "answers_before",
        "call_counts",
        "depth",
        "functions",
        "group",
        "has_slot",
        "idle_since",
        "is_blocked",
        "is_interrupting",
        "is_leaving",
        "is_stuck",
        "last_call",
        "lease",
        "pending_cpus",
        "supervisor",
        "tasks",
        "wait_number",
    )

    def __init__(self, group: TaskRunner, supervisor: ActorSupervisor) -> None:
        self.group = group
        self.supervisor = supervisor
        self._loop = supervisor.ended.get_loop()
        self.tasks: dict[Task, None] = {}
        self.lease: Lease | None = None
        self.has_slot = False
        self.is_leaving = False
        self.is_stuck = False
        self.is_blocked = False
        self.wait_number = 0
        self.pending_cpus: asyncio.Future[Lease] | None = None
        self.is_interrupting = False
        self.answer_count = 0
        self.answers_before = -1
        self.idle_since = 0.0
        self.last_call = 0
        self.depth = MIN_DEPTH
        self.functions: set[int] = set()
        self.call_counts: Counter[int] = Counter()

    @property
    def title(self) -> str:
        """What it is called in messages: by the call that it runs."""
        label = next((task.entry.label for task in self.tasks), "a worker of functions")
        return f"{label} (pid {self.supervisor.pid})" if self.supervisor.pid else label

    @property
    def is_ready(self) -> bool:
        """Whether its process is ready for calls."""
        return self.supervisor.router.channel is not None

    def answered(self, task: Task) -> None:
        """Takes note that it is done with a call."""
        task.worker = None
        self.tasks.pop(task, None)
        self.answer_count += 1
        self.is_stuck = False

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
        supervisor = self.supervisor
        channel = supervisor.router.channel
        if channel is not None and ask_to_read(supervisor.pid, channel):
            self.is_interrupting = True
            self._loop.call_later(UNSENT_DELAY, self._send_signal)


class NoReply:
    """Takes the answer of a worker that was sent a function: nobody waits for it."""

    def answer(self, frame: Frame) -> None:
        """Does nothing: the worker knows the function; see RemoteTarget."""

    def fail(self, error: BaseException) -> None:
        """Does nothing: the worker is gone; see RemoteTarget."""
