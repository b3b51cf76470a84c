"""Lists the runtimes of this user and what goes on in them, as a document.

``Listing`` is what ``actorlib ps --json`` prints: its names are promises. Here is what
asks runtimes at their doors, and the system about their processes; nothing here makes
a page, so that programs which read the document do not wait for rich to be imported.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from actorlib._door import processes
from actorlib._door.client import ask, user_name
from actorlib._door.protocol import BLOCKED
from actorlib.exceptions import RuntimeUnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actorlib._door.addresses import Address

_INTERVAL = 0.1
"""Seconds over which CPU time is measured."""
_FEW = 250
"""Of so many processes the memory is divided fairly: to ask that takes 1 ms of each."""


class ActorFound(TypedDict):
    """An actor; see ``actorlib.ActorInfo`` for what is not said here.

    ``devices`` are the parts of devices by their id, ``device_nbytes`` the bytes that
    these stand for (null where the memory of a device is unknown), ``device_memory``
    those that its processes had when NVML was asked last, of the devices that are
    watched. ``enforced_by`` says what keeps it to its part, of several the weakest;
    empty without devices. ``cpu`` is in per cent of one CPU
    over the last moment, ``pss`` and ``rss`` are bytes of memory: what it shares with
    others divided among them, and counted in full. ``running`` and ``waiting`` are its
    calls without an answer, null where there are too many to look at; ``made`` is how
    many calls it was sent so far. ``age`` is in
    seconds since it was ready. ``why`` says what it waits for and who has that.
    """

    id: str
    class_name: str
    name: str | None
    label: str
    pid: int
    state: str
    resources: dict[str, float]
    devices: dict[str, float]
    device_nbytes: dict[str, int | None]
    device_memory: dict[str, int]
    enforced_by: str
    cpu: float | None
    pss: int | None
    rss: int | None
    pending: int
    running: int | None
    waiting: int | None
    made: int
    restarts: int
    age: float | None
    death: str
    why: str


class DeviceFound(TypedDict):
    """A device that a runtime may grant; see ``actorlib.DeviceInfo``."""

    id: str
    kind: str
    model: str | None
    nbytes: int | None
    available: float
    is_logical: bool


class FunctionsFound(TypedDict):
    """The calls of functions that ask for the same; see WorkerGroupInfo."""

    resources: str
    running: int
    waiting: int
    pids: list[int]


class ClientFound(TypedDict):
    """A program that is attached; ``age`` is in seconds."""

    pid: int
    program: str
    age: float


class Stuck(TypedDict):
    """Where the loop of a runtime stands that does not answer.

    ``seconds`` is for how long: exactly, or at least; ``is_running`` whether anybody
    runs it; ``frames`` where its thread is, the outermost first.
    """

    seconds: float
    is_exact: bool
    is_running: bool
    frames: list[dict[str, Any]]


class RuntimeFound(TypedDict):
    """A runtime; what is not known while it is stuck is empty.

    ``error`` says why nothing is known of it, or is empty.
    """

    pid: int
    user: str
    program: str
    name: str
    version: str
    error: str
    stuck: Stuck | None
    cpu: float | None
    pss: int | None
    rss: int | None
    total: dict[str, float]
    available: dict[str, float]
    object_store: dict[str, int]
    in_line: list[str]
    in_line_count: int
    devices: list[DeviceFound]
    actors: list[ActorFound]
    functions: list[FunctionsFound]
    clients: list[ClientFound]


class Listing(TypedDict):
    """Every runtime that was asked."""

    runtimes: list[RuntimeFound]


def listed(
    addresses: Sequence[Address],
    *,
    has_dead: bool = False,
    meanwhile: Callable[[], object] | None = None,
) -> Listing:
    """Asks runtimes, and the system about their processes.

    Args:
        addresses: The runtimes.
        has_dead: Whether actors are listed that are dead.
        meanwhile: Called while the time passes over which CPU time is measured.
    """
    runtimes = asked(addresses, has_dead=has_dead)
    began, before = time.monotonic(), cpu_times(runtimes)
    measure_memory(runtimes)
    if meanwhile is not None:
        meanwhile()
    time.sleep(max(0.0, began + _INTERVAL - time.monotonic()))
    now = cpu_times(runtimes)
    fill_cpu(runtimes, before, now, time.monotonic() - began)
    return {"runtimes": runtimes}


def asked(
    addresses: Sequence[Address], *, has_dead: bool = False
) -> list[RuntimeFound]:
    """Asks runtimes alone: what the system says of their processes is left open."""
    if len(addresses) == 1:
        return [_asked(addresses[0], has_dead=has_dead)]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # most users have one

    with ThreadPoolExecutor(max_workers=min(16, len(addresses))) as asking:
        return list(asking.map(partial(_asked, has_dead=has_dead), addresses))


def cpu_times(runtimes: Sequence[RuntimeFound]) -> dict[int, float]:
    """Reads the CPU time of every process, in seconds, by its pid."""
    found = {row["pid"]: processes.cpu_time(row["pid"]) for row in _living(runtimes)}
    return {pid: cpu for pid, cpu in found.items() if cpu is not None}


def fill_cpu(
    runtimes: Sequence[RuntimeFound],
    before: Mapping[int, float],
    now: Mapping[int, float],
    took: float,
) -> None:
    """Fills in how busy the processes were between two looks.

    Args:
        runtimes: Where it is filled in.
        before: Their CPU time at the first.
        now: Their CPU time at the second.
        took: Seconds between the two.
    """
    for row in _living(runtimes):
        pid = row["pid"]
        if pid in before and pid in now and took > 0:
            row["cpu"] = round(max(0.0, now[pid] - before[pid]) / took * 100, 1)


def measure_memory(runtimes: Sequence[RuntimeFound], few: int = _FEW) -> None:
    """Fills in the memory of the processes.

    Args:
        runtimes: Where it is filled in.
        few: Of so many it is divided fairly, too.
    """
    rows = _living(runtimes)
    for row in rows:
        found = processes.usage(row["pid"])
        row["rss"] = None if found is None else found.rss
        if len(rows) <= few:
            row["pss"] = processes.pss(row["pid"])


def _living(runtimes: Sequence[RuntimeFound]) -> list[RuntimeFound | ActorFound]:
    """Gives what has a process."""
    rows: list[RuntimeFound | ActorFound] = []
    for found in runtimes:
        rows.append(found)
        rows += [a for a in found["actors"] if a["pid"] and a["state"] != "dead"]
    return rows


def _asked(address: Address, *, has_dead: bool) -> RuntimeFound:
    found: RuntimeFound = {
        "pid": address.pid,
        "user": user_name(address.uid),
        "program": processes.program(address.pid),
        "name": "",
        "version": "",
        "error": "",
        "stuck": None,
        "cpu": None,
        "pss": None,
        "rss": None,
        "total": {},
        "available": {},
        "object_store": {},
        "in_line": [],
        "in_line_count": 0,
        "devices": [],
        "actors": [],
        "functions": [],
        "clients": [],
    }
    try:
        answer = ask(address, "status", dead=has_dead)
    except (RuntimeUnreachableError, ValueError) as error:
        found["error"] = str(error)
        return found
    told = answer.value
    if answer.outcome == BLOCKED:
        found["stuck"] = told
        return found
    found["pid"] = told["pid"]
    found["program"] = processes.shortened(" ".join(told["program"]))
    found["name"] = told.get("name", "")
    found["version"] = told["version"]
    found["total"] = told["total"]
    found["available"] = told["available"]
    found["object_store"] = told["object_store"]
    found["in_line"] = told["waiting"]
    found["in_line_count"] = told["waiting_count"]
    found["devices"] = [
        {
            "id": row["device"],
            "kind": row["kind"],
            "model": row["model"],
            "nbytes": row["nbytes"],
            "available": row["available"],
            "is_logical": row["is_logical"],
        }
        for row in told["devices"]
    ]
    now = time.time()
    found["actors"] = [_actor(row, now) for row in told["actors"]]
    found["functions"] = [
        {
            "resources": row["resources"],
            "running": row["running"],
            "waiting": row["waiting"],
            "pids": list(row["pids"]),
        }
        for row in told["functions"]
    ]
    found["clients"] = [
        {
            "pid": row["pid"],
            "program": processes.shortened(row["program"]),
            "age": now - row["attached_at"],
        }
        for row in told.get("clients", ())
    ]
    return found


def _actor(row: Mapping[str, Any], now: float) -> ActorFound:
    pending, running = row["pending_calls"], row["running_calls"]
    began, ended = row["started_at"], row["ended_at"]
    head = row["repr_name"] or row["class_name"]
    return {
        "id": row["actor_id"],
        "class_name": row["class_name"],
        "name": row["name"],
        "label": head if row["name"] is None else f"{head} {row['name']!r}",
        "pid": row["pid"],
        "state": row["state"],
        "resources": row["resources"],
        "devices": row["devices"],
        "device_nbytes": row["device_nbytes"],
        "device_memory": row["device_memory"],
        "enforced_by": row["enforced_by"],
        "cpu": None,
        "pss": None,
        "rss": None,
        "pending": pending,
        "running": running,
        "waiting": None if running is None else max(0, pending - running),
        "made": row["made_calls"],
        "restarts": row["restarts"],
        "age": None if began is None else max(0.0, (ended or now) - began),
        "death": row["death"],
        "why": row["why"],
    }
