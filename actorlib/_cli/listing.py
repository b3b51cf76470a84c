"""Queries the runtimes of this user and the system, and returns rows.

``actorlib ps --json`` prints a ``Listing`` with the columns of ``DOCUMENT``, whose
names are stable. Nothing here makes pages, so that programs which read the document do
not wait for the import of rich.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from actorlib._base.value import dataclass
from actorlib._options.resources import format_bytes, format_counted
from actorlib._queries import processes
from actorlib._queries.addresses import Address
from actorlib._queries.client import ask, user_name
from actorlib._queries.rows import (
    UNKNOWN_USE,
    ActorStatus,
    ProcessUse,
    Standstill,
    Status,
    describe_actor,
)
from actorlib._rows.rows import RowEncoder, extend_row
from actorlib._rows.snapshot import (
    ClientInfo,
    DeviceInfo,
    ObjectStoreInfo,
    Snapshot,
    WorkerGroupInfo,
)
from actorlib.exceptions import RuntimeUnreachableError

_INTERVAL = 0.1
"""Seconds over which CPU time is measured."""
_FEW = 250
"""The most processes for which PSS is read: that takes 1 ms each."""
_NOTHING: Final = Snapshot(
    total={}, available={}, waiting=(), actors=(), object_store=ObjectStoreInfo()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStatus(ClientInfo):
    """A program that is attached to a runtime.

    Attributes:
        seen_at: The time of the answer, in seconds since the epoch.
    """

    seen_at: float

    @property
    def age(self) -> float:
        """Seconds since it was attached."""
        return self.seen_at - self.attached_at

    @property
    def words(self) -> str:
        """Its shortened command line."""
        return processes.shortened(self.program)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeRow:
    """A runtime; fields are empty while its loop is blocked.

    Attributes:
        pid: The process of the program.
        user: Its user.
        program: Its shortened command line.
        version: The version of actorlib.
        error: Why it cannot be queried, or empty.
        stuck: The stack of its loop, if that does not answer.
        process: The system's figures of its process.
        snapshot: Its state, without actors; ``waiting`` has the first requests.
        in_line_count: The number of waiting requests.
        actors: Its actors, with their processes.
        clients: The programs that are attached to it.
    """

    pid: int
    user: str
    program: str
    version: str = ""
    error: str = ""
    stuck: Standstill | None = None
    process: ProcessUse = UNKNOWN_USE
    snapshot: Snapshot = _NOTHING
    in_line_count: int = 0
    actors: tuple[ActorStatus, ...] = ()
    clients: tuple[ClientStatus, ...] = ()

    @property
    def is_answering(self) -> bool:
        """Whether it has answered."""
        return not self.error and self.stuck is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All runtimes that were queried."""

    runtimes: tuple[RuntimeRow, ...]

    @property
    def exit_code(self) -> int:
        """The exit code of a command: 4 if one of them cannot be queried, else 0."""
        return 4 if any(runtime.error for runtime in self.runtimes) else 0


DOCUMENT: Final = RowEncoder(
    {
        RuntimeRow: (
            "pid user program name=snapshot.name version error stuck "
            "cpu=process.cpu pss=process.pss rss=process.rss "
            "total=snapshot.total available=snapshot.available "
            "object_store=snapshot.object_store in_line=snapshot.waiting "
            "in_line_count devices=snapshot.devices actors "
            "functions=snapshot.worker_groups clients"
        ),
        ActorStatus: (
            "id=actor_id class_name name label pid state resources devices "
            "device_nbytes device_memory enforced_by cpu=process.cpu "
            "pss=process.pss rss=process.rss pending=pending_calls "
            "running=running_calls waiting=waiting_calls made=made_calls "
            "restarts age death why"
        ),
        DeviceInfo: "id=device kind model nbytes available is_logical",
        WorkerGroupInfo: "resources running waiting pids",
        ClientStatus: "pid program=words age",
    }
)
"""The columns of the documents of ``ps`` and ``top``."""


class Reply(NamedTuple):
    """The answer of a runtime, and its time in seconds since the epoch.

    It is the status, the stack of the loop, or why the runtime cannot be queried.
    """

    address: Address
    at: float
    answer: Status | Standstill | str

    @property
    def pid(self) -> int:
        """The process of the program, as numbered by itself if it has answered."""
        answer = self.answer
        return answer.pid if isinstance(answer, Status) else self.address.pid

    def pids(self) -> Iterator[int]:
        """Lists the processes of the program and its actors."""
        yield self.pid
        if isinstance(self.answer, Status):
            for actor in self.answer.snapshot.actors:
                if actor.pid and actor.state != "dead":
                    yield actor.pid


def query_listing(
    addresses: Sequence[Address],
    *,
    has_dead: bool = False,
    meanwhile: Callable[[], object] | None = None,
) -> Listing:
    """Queries runtimes, and the system about their processes.

    ``meanwhile`` is called in the interval in which CPU time is measured.
    """
    replies = ask_runtimes(addresses, has_dead=has_dead)
    began, before = time.monotonic(), cpu_times(replies)
    memory = memory_of(replies)
    if meanwhile is not None:
        meanwhile()
    time.sleep(max(0.0, began + _INTERVAL - time.monotonic()))
    now = cpu_times(replies)
    busy = busyness(before, now, time.monotonic() - began)
    return list_runtimes(replies, memory, busy)


def ask_runtimes(
    addresses: Sequence[Address], *, has_dead: bool = False
) -> list[Reply]:
    """Queries runtimes, and not the system."""
    if len(addresses) == 1:
        return [_ask(addresses[0], has_dead=has_dead)]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # most users have one

    with ThreadPoolExecutor(max_workers=min(16, len(addresses))) as asking:
        return list(asking.map(partial(_ask, has_dead=has_dead), addresses))


def _ask(address: Address, *, has_dead: bool) -> Reply:
    try:
        answer = ask(address, "status", dead=has_dead).value
    except (RuntimeUnreachableError, ValueError) as error:
        answer = str(error)
    return Reply(address, time.time(), answer)


def cpu_times(replies: Sequence[Reply]) -> dict[int, float]:
    """Reads the CPU time of every process, in seconds, by its pid."""
    times = {pid: processes.cpu_time(pid) for each in replies for pid in each.pids()}
    return {pid: cpu for pid, cpu in times.items() if cpu is not None}


def busyness(
    before: Mapping[int, float], now: Mapping[int, float], took: float
) -> dict[int, float]:
    """Returns the load of processes in per cent of one CPU, from two CPU times."""
    if took <= 0:
        return {}
    return {
        pid: round(max(0.0, now[pid] - before[pid]) / took * 100, 1)
        for pid in before.keys() & now.keys()
    }


def memory_of(
    replies: Sequence[Reply], few: int = _FEW
) -> dict[int, tuple[int | None, int | None]]:
    """Reads PSS and RSS of the processes, by pid; PSS of at most ``few`` processes."""
    pids = {pid for reply in replies for pid in reply.pids()}
    memory: dict[int, tuple[int | None, int | None]] = {}
    for pid in pids:
        usage = processes.usage(pid)
        pss = processes.pss(pid) if len(pids) <= few else None
        memory[pid] = pss, None if usage is None else usage.rss
    return memory


def list_runtimes(
    replies: Sequence[Reply],
    memory: Mapping[int, tuple[int | None, int | None]],
    busy: Mapping[int, float],
    rates: Mapping[str, float] | None = None,
) -> Listing:
    """Joins the answers of runtimes and the figures of the system.

    Args:
        replies: The answers of runtimes.
        memory: The result of ``memory_of``.
        busy: The result of ``busyness``.
        rates: Calls per second by the id of the actor.
    """
    uses = {
        pid: ProcessUse(cpu=busy.get(pid), pss=pss, rss=rss)
        for pid, (pss, rss) in memory.items()
    }
    runtimes = (_runtime(reply, uses, rates or {}) for reply in replies)
    return Listing(runtimes=tuple(runtimes))


def _runtime(
    reply: Reply, uses: Mapping[int, ProcessUse], rates: Mapping[str, float]
) -> RuntimeRow:
    row = partial(
        RuntimeRow,
        pid=reply.pid,
        user=user_name(reply.address.uid),
        process=uses.get(reply.pid, UNKNOWN_USE),
    )
    answer = reply.answer
    if not isinstance(answer, Status):
        program = processes.program(reply.address.pid)
        if isinstance(answer, Standstill):
            return row(program=program, stuck=answer)
        return row(program=program, error=answer)
    snapshot = answer.snapshot
    return row(
        program=processes.shortened(" ".join(answer.program)),
        version=answer.version,
        snapshot=replace(snapshot, actors=()),
        in_line_count=answer.waiting_count,
        actors=tuple(
            describe_actor(
                actor,
                answer,
                reply.at,
                None if actor.state == "dead" else uses.get(actor.pid),
                rates.get(actor.actor_id),
            )
            for actor in snapshot.actors
        ),
        clients=tuple(
            extend_row(ClientStatus, client, seen_at=reply.at)
            for client in snapshot.clients
        ),
    )


def heading(runtime: RuntimeRow) -> str:
    """Returns one line about a runtime and its resources."""
    process, snapshot = runtime.process, runtime.snapshot
    parts = [f"pid {runtime.pid}"]
    if snapshot.name:
        parts.insert(0, f"{snapshot.name!r}")
    if runtime.program:
        parts.append(f"{runtime.program!r}")
    if runtime.version:
        parts.append(f"actorlib {runtime.version}")
    if process.cpu is not None:
        parts.append(f"{process.cpu:.0f} % CPU")
    memory = process.pss if process.pss is not None else process.rss
    if memory is not None:
        parts.append(format_bytes(memory))
    parts += [
        f"{format_counted(name, snapshot.available.get(name, 0))} of "
        f"{format_counted(name, total)} {name} free"
        for name, total in sorted(snapshot.total.items())
        if not name.startswith("accelerator_type:")
    ]
    return ", ".join(parts)


def stuck_text(stuck: Standstill) -> str:
    """Describes a loop that does not answer, with the stack of its thread."""
    head = "Its event loop is not running: nothing in this runtime goes on."
    if stuck.is_running:
        head = (
            f"Its event loop has been blocked {stuck.duration}. "
            "Its thread stands, the latest call last, at"
        )
    lines = (line for frame in stuck.frames for line in frame.lines())
    return "\n".join([head, *lines, ""])
