"""The rows with which a runtime answers over its socket.

Actors, calls, objects and lines are those of ``_rows/snapshot.py``. Here is what stands
around them in an answer, and what is known of threads, tasks and frames.
"""

from collections.abc import Mapping
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
    """A runtime and all that it knows of its state: the answer to ``status``.

    Attributes:
        version: Which actorlib it is.
        python: Which Python runs it.
        pid: Its process.
        program: The words of its command line.
        snapshot: Its state; ``waiting`` has the first of those who wait.
        waiting_count: How many wait.
        running_calls: How many calls run in actors, by the id of the actor; None if
            there are too many calls to look at.
        reasons: What some of the actors wait for and who has that, by their ids.
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
    """What the system says of a process.

    Attributes:
        cpu: How busy it was over the last moment, in per cent of one CPU.
        pss: Bytes of its memory, what it shares with others divided among them.
        rss: Bytes of its memory, what it shares counted in full.
        is_stopped: True if it is stopped, by SIGSTOP or a debugger.
    """

    cpu: float | None = None
    pss: int | None = None
    rss: int | None = None
    is_stopped: bool = False


UNKNOWN_USE: Final = ProcessUse()
"""Of a process that is gone, or that nobody may look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorStatus(ActorInfo):
    """An actor and its process, as a command and the page show them.

    Attributes:
        seen_at: When the runtime was asked, in seconds since the epoch.
        running_calls: How many of its calls run; None if there were too many calls to
            look at.
        why: What it waits for and who has that; empty if it does not wait.
        rate: Calls a second that it was sent since the look before; None if unknown.
        process: What the system says of its process.
    """

    seen_at: float
    running_calls: int | None = None
    why: str = ""
    rate: float | None = None
    process: ProcessUse = UNKNOWN_USE

    @property
    def waiting_calls(self) -> int | None:
        """How many of its calls do not run yet; None if that is unknown."""
        running = self.running_calls
        return None if running is None else max(0, self.pending_calls - running)

    @property
    def age(self) -> float | None:
        """Seconds since it was ready, to its end; None if it was not ready yet."""
        if self.started_at is None:
            return None
        return max(0.0, (self.ended_at or self.seen_at) - self.started_at)

    @property
    def enforced_by(self) -> str:
        """What keeps it to its share, the weakest of several; empty without devices."""
        return self.share.enforced_by if self.share else ""


def describe_actor(
    actor: ActorInfo,
    status: Status,
    seen_at: float,
    process: ProcessUse | None = None,
    rate: float | None = None,
) -> ActorStatus:
    """Joins what a runtime and the system say of an actor.

    Args:
        actor: The actor.
        status: What the runtime answered.
        seen_at: When that was, in seconds since the epoch.
        process: What the system says of its process, if it says anything.
        rate: Calls a second that it was sent.
    """
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
        line: The line that runs; 0 if that is unknown.
        function: The name of the function.
        code: What stands in that line, or empty.
        is_users: True if it is neither of actorlib nor of Python itself.
    """

    file: str
    line: int
    function: str
    code: str
    is_users: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A thread.

    Attributes:
        name: Its name.
        number: The system's number for it, or None.
        frames: Where it stands, the outermost frame first.
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
        frames: Its frames: each awaits the one behind it.
        method: The method of an actor whose call it is of, or empty.
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
    """Where the threads and tasks of a process stand: the answer to ``stack``.

    Attributes:
        pid: The process.
        title: What messages call it.
        threads: Its threads.
        tasks: The tasks of its event loops.
        tasks_missing: Why tasks are missing; empty if none are.
    """

    pid: int
    title: str
    threads: tuple[Thread, ...]
    tasks: tuple[Task, ...]
    tasks_missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """Where an event loop stands that does not answer.

    Attributes:
        seconds: For how long it has not answered: exactly, or at least.
        is_exact: True if it was not longer.
        is_running: True if a thread runs the loop.
        frames: Where that thread is, the outermost frame first.
    """

    seconds: float
    is_exact: bool
    is_running: bool
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The calls of a runtime that have no answer: the answer to ``calls``.

    Attributes:
        pid: The process of the program.
        calls: The calls, those of one actor together and the oldest of it first.
        left_out: How many more there are.
        silent: The actors that did not say in time which calls they have made without
            the program's process.
    """

    pid: int
    calls: tuple[CallInfo, ...]
    left_out: int
    silent: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """What the object store of a runtime keeps: the answer to ``objects``.

    Attributes:
        pid: The process of the program.
        objects: What it keeps.
        has_more: Whether some of it was left out.
        object_store: The shared memory that large values lie in.
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
        lines: The lines. Each counts those that were lost directly before it.
        lost: How many lines were lost behind the last of these.
        number: The position behind these, where the next page begins.
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
"""The row that answers a question; any other answer is a plain value."""
