"""The rows of answers to queries.

The rows of actors, calls, objects and lines are in ``_rows/snapshot.py``. Here are the
rows that contain them, and those of threads, tasks and frames.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from actorlib._base.value import dataclass
from actorlib._rows.rows import extend_row
from actorlib._rows.snapshot import (
    ActorInfo,
    CallInfo,
    LogLine,
    ObjectInfo,
    ObjectStoreInfo,
    Snapshot,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A runtime and its state: the answer to ``status``.

    Attributes:
        version: The version of actorlib.
        python: The version of Python.
        pid: Its process.
        program: Its command line.
        snapshot: Its state; ``waiting`` has the first of the waiting requests.
        waiting_count: The number of waiting requests.
        running_calls: The number of running calls by the id of the actor; None if there
            are too many calls.
        reasons: What waiting actors wait for and who holds it, by the id of the actor.
    """

    version: str
    python: str
    pid: int
    program: tuple[str, ...]
    snapshot: Snapshot
    waiting_count: int
    running_calls: dict[str, int] | None
    reasons: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUse:
    """The system's figures of a process.

    Attributes:
        cpu: The load since the figures before, in per cent of one CPU.
        pss: Bytes of memory, with shared memory divided among the processes.
        rss: Bytes of memory, with shared memory counted in full.
        is_stopped: True if it is stopped, by SIGSTOP or a debugger.
    """

    cpu: float | None = None
    pss: int | None = None
    rss: int | None = None
    is_stopped: bool = False


UNKNOWN_USE: Final = ProcessUse()
"""The figures of a process that has ended or cannot be examined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorStatus(ActorInfo):
    """An actor and its process, as commands and the page show them.

    Attributes:
        seen_at: The time of the answer, in seconds since the epoch.
        running_calls: The number of its running calls; None if there are too many.
        why: What it waits for and who holds it; empty if it does not wait.
        rate: Calls per second since the answer before; None if unknown.
        process: The system's figures of its process.
    """

    seen_at: float
    running_calls: int | None = None
    why: str = ""
    rate: float | None = None
    process: ProcessUse = UNKNOWN_USE

    @property
    def waiting_calls(self) -> int | None:
        """The number of calls that do not run yet; None if unknown."""
        running = self.running_calls
        return None if running is None else max(0, self.pending_calls - running)

    @property
    def age(self) -> float | None:
        """Seconds from when it was ready until now or its end; None before that."""
        if self.started_at is None:
            return None
        return max(0.0, (self.ended_at or self.seen_at) - self.started_at)

    @property
    def enforced_by(self) -> str:
        """The tier of its share, the weakest of several; empty without devices."""
        return self.share.enforced_by if self.share else ""


def describe_actor(
    actor: ActorInfo,
    status: Status,
    seen_at: float,
    process: ProcessUse | None = None,
    rate: float | None = None,
) -> ActorStatus:
    """Joins the figures of a runtime and of the system; see ActorStatus."""
    running = status.running_calls
    return extend_row(
        ActorStatus,
        actor,
        seen_at=seen_at,
        running_calls=None
        if running is None
        else min(running.get(actor.actor_id, 0), actor.pending_calls),
        why=status.reasons.get(actor.actor_id, ""),
        process=process or UNKNOWN_USE,
        rate=rate,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A frame of a thread or a task.

    Attributes:
        file: Its file.
        line: The line that runs; 0 if unknown.
        function: The name of the function.
        code: The text of that line, or empty.
        is_users: True if the file belongs neither to actorlib nor to Python.
    """

    file: str
    line: int
    function: str
    code: str
    is_users: bool

    def lines(self) -> Iterator[str]:
        """Describes it in indented lines of text."""
        yield f"  {self.file}:{self.line} in {self.function}"
        if self.code:
            yield f"    {self.code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A thread.

    Attributes:
        name: Its name.
        number: The system's number of it, or None.
        frames: Its stack, the outermost frame first.
    """

    name: str
    number: int | None
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of an event loop.

    Attributes:
        name: Its name.
        coroutine: The name of its coroutine.
        is_running: True if it runs now.
        frames: Its frames; each awaits the next.
        method: The method of an actor that it runs a call of, or empty.
        call: The id of that call, or empty.
    """

    name: str
    coroutine: str
    is_running: bool
    frames: tuple[Frame, ...]
    method: str = ""
    call: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """The stacks of the threads and tasks of a process: the answer to ``stack``.

    Attributes:
        pid: The process.
        title: Its name in messages.
        threads: Its threads.
        tasks: The tasks of its event loops.
        tasks_missing: Why tasks are missing; empty if they are complete.
    """

    pid: int
    title: str
    threads: tuple[Thread, ...]
    tasks: tuple[Task, ...]
    tasks_missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """The stack of an event loop that does not answer.

    Attributes:
        seconds: For how long it has been blocked: exactly, or at least.
        is_exact: True if ``seconds`` is exact.
        is_running: True if a thread runs the loop.
        frames: The stack of that thread, the outermost frame first.
    """

    seconds: float
    is_exact: bool
    is_running: bool
    frames: tuple[Frame, ...]

    @property
    def duration(self) -> str:
        """For how long it has been blocked: ``for at least 2.0 s``."""
        bound = "for" if self.is_exact else "for at least"
        return f"{bound} {self.seconds:.1f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The unanswered calls of a runtime: the answer to ``calls``.

    Attributes:
        pid: The process of the program.
        calls: The calls, those of one actor together, the oldest first.
        left_out: The number of further calls.
        silent: The actors that did not report in time which calls they have made over
            links.
    """

    pid: int
    calls: tuple[CallInfo, ...]
    left_out: int
    silent: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """The objects in the object store of a runtime: the answer to ``objects``.

    Attributes:
        pid: The process of the program.
        objects: The objects.
        has_more: Whether there are further objects.
        object_store: The shared memory for large values.
    """

    pid: int
    objects: tuple[ObjectInfo, ...]
    has_more: bool
    object_store: ObjectStoreInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """Lines of a runtime: the answer to ``logs``.

    Attributes:
        pid: The process of the program.
        lines: The lines. Each has the number of lines that were lost directly before.
        lost: The number of lines that were lost after the last one.
        number: The position where the next page begins.
    """

    pid: int
    lines: tuple[LogLine, ...]
    lost: int
    number: int

    @property
    def has_lost(self) -> bool:
        """Whether any lines were lost."""
        return self.lost > 0 or any(line.lost for line in self.lines)


ROWS: Final[Mapping[str, type[object]]] = {
    "calls": Calls,
    "logs": Logs,
    "objects": Objects,
    "stack": Stacks,
    "status": Status,
}
"""The class of the row that answers a query; other answers are plain values."""
