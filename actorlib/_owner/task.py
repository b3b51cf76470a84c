"""Describes functions, their calls and the workers that run them.

Calls of quick functions are sent ahead, several to one worker; how many, is said here.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Protocol

from actorlib._owner.call_policy import Retries
from actorlib._owner.exit_reason import under_way
from actorlib._owner.read_signal import UNSENT_DELAY, ask_to_read
from actorlib._owner.router import WorkerRoute
from actorlib._shm.running_calls import MARK
from actorlib._wire.codec import pack
from actorlib._wire.function_code import ADD_FUNCTION, NO_CALL, PickledFunction
from actorlib._wire.messages import CALL, CALL_SCALARS, CALL_WITH
from actorlib._wire.serialization import encode_call

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Mapping, Sequence

    from actorlib._core.function_options import FunctionOptions
    from actorlib._core.ids import CountedId
    from actorlib._owner.actor_record import ActorRecord
    from actorlib._owner.call_policy import CancelChildren
    from actorlib._owner.refcount import BorrowedReferences
    from actorlib._owner.supervisor import ActorSupervisor
    from actorlib._scheduler.catalogue import Demand
    from actorlib._shm.memory import Payload
    from actorlib._wire.async_channel import AsyncChannel
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
MOST_FUNCTIONS = 256
"""How many functions a worker is sent before it is replaced."""


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
        entry: FunctionEntry,
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
        self.worker: TaskWorker | None = None
        self.is_cancelled = False
        self.is_nested = is_nested


class FunctionCalls(Protocol):
    """Keeps the calls of functions that have no answer; see TaskPool."""

    def settle(self, worker: TaskWorker, frame: Frame) -> None:
        """Gives an answer to the caller, or sends the call once more."""
        ...

    def settle_scalar(self, worker: TaskWorker, number: int, value: object) -> None:
        """Gives an answer that stood in its frame to the caller."""
        ...

    def item(self, worker: TaskWorker, frame: Frame) -> None:
        """Gives an item to the reader of a stream."""
        ...

    def refuse(self, task: Task, error: BaseException) -> None:
        """Fails a call that no worker will run."""
        ...

    def worker_lost(self, worker: TaskWorker) -> None:
        """Gives the calls of a worker whose process is gone to others."""
        ...


class TaskWorker(WorkerRoute):
    """Holds what is known of one worker of functions, and the calls that it has.

    Args:
        group: Whose it is.
        supervisor: Starts and ends its process.
        calls: Takes what it answers.
        references: Counts what is in functions and arguments.
        cancel_children: Cancels what a call has made; see ``WorkerRoute``.

    Attributes:
        supervisor: As given, like group.
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

    def __init__(
        self,
        group: TaskRunner,
        supervisor: ActorSupervisor,
        calls: FunctionCalls,
        references: BorrowedReferences,
        cancel_children: CancelChildren,
    ) -> None:
        super().__init__(supervisor.idle, cancel_children)
        self.group = group
        self.supervisor = supervisor
        self._calls = calls
        self._references = references
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

    def send(self, task: Task) -> None:
        """Sends a call; the first of a function behind the function itself."""
        self.tasks[task] = None
        task.worker = self
        if self.channel is not None:  # else it waits for the worker to be ready
            self._send(task, self.channel)

    def _send(self, task: Task, channel: AsyncChannel) -> None:
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

    def answered(self, task: Task) -> None:
        """Takes note that it is done with a call."""
        task.worker = None
        self.tasks.pop(task, None)
        self.answer_count += 1
        self.is_stuck = False
        if self.is_closed and not self.tasks:
            self.supervisor.idle()

    def settle(self, frame: Frame) -> None:
        """Passes an answer on; see WorkerRoute."""
        self._calls.settle(self, frame)

    def settle_scalar(self, number: int, value: object) -> None:
        """Passes an answer on that stood in its frame; see WorkerRoute."""
        self._calls.settle_scalar(self, number, value)

    def item(self, frame: Frame) -> None:
        """Passes an item on; see WorkerRoute."""
        self._calls.item(self, frame)

    def opened(self, channel: AsyncChannel, session: int) -> None:
        """Sends the calls that it has got meanwhile; see WorkerRoute."""
        self.channel, self._session = channel, session
        for task in self.tasks:
            self._send(task, channel)

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
        """The function that may have run when its process ended."""
        refused = self.channel.refused if self.channel is not None else 0
        labels = [task.entry.code.label for task in self.tasks]
        return under_way(record, labels[: max(0, len(labels) - refused)])

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
