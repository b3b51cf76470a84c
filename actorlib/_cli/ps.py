"""Shows the runtimes of this user and what goes on in them: ``actorlib ps``.

``Listing`` is the document that ``actorlib ps --json`` prints: its names are promises.
Only the command line loads this file, as it imports rich.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

from rich.console import Group
from rich.text import Text

from actorlib._cli.pages import console, id_endings, in_bytes, in_time, table
from actorlib._door import processes
from actorlib._door.client import ask, find_runtimes, user_name
from actorlib._door.protocol import BLOCKED
from actorlib.exceptions import RuntimeUnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import RenderableType

    from actorlib._door.addresses import Address

_INTERVAL = 0.2
"""Seconds over which CPU time is measured."""
_FEW = 250
"""Of so many processes the memory is divided fairly: to ask that takes 1 ms of each."""
_NOTHING = "-"


class ActorFound(TypedDict):
    """An actor; see ``actorlib.ActorInfo`` for what is not said here.

    ``devices`` are the parts of devices by their id, ``cpu`` is in per cent of one CPU
    over the last moment, ``pss`` and ``rss`` are bytes of memory: what it shares with
    others divided among them, and counted in full. ``running`` and ``waiting`` are its
    calls without an answer, null where there are too many to look at. ``age`` is in
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
    cpu: float | None
    pss: int | None
    rss: int | None
    pending: int
    running: int | None
    waiting: int | None
    restarts: int
    age: float | None
    death: str
    why: str


class FunctionsFound(TypedDict):
    """The calls of functions that ask for the same; see WorkerGroupInfo."""

    resources: str
    running: int
    waiting: int
    pids: list[int]


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
    actors: list[ActorFound]
    functions: list[FunctionsFound]


class Listing(TypedDict):
    """Every runtime that was asked."""

    runtimes: list[RuntimeFound]


def show(*, as_json: bool, pid: int | None = None, has_dead: bool = False) -> int:
    """Prints the runtimes of this user, and their actors.

    Args:
        as_json: Whether to print one JSON document instead of tables.
        pid: The process of the one that is meant; None for all.
        has_dead: Whether actors are listed that are dead.

    Returns:
        The exit code: 0, or 4 if one of them does not answer at all.

    Raises:
        RuntimeNotFoundError: There is none.
        RuntimeUnreachableError: It is another user's.
    """
    listing = listed(find_runtimes(pid), has_dead=has_dead)
    out = console()
    if as_json:
        out.out(json.dumps(listing, indent=2))
    else:
        out.print(draw(listing), crop=False)
    return 4 if any(found["error"] for found in listing["runtimes"]) else 0


def listed(addresses: Sequence[Address], *, has_dead: bool = False) -> Listing:
    """Asks runtimes, and the system about their processes."""
    with ThreadPoolExecutor(max_workers=min(16, len(addresses))) as asking:
        runtimes = list(asking.map(partial(_asked, has_dead=has_dead), addresses))
    _measure(runtimes)
    return {"runtimes": runtimes}


def _asked(address: Address, *, has_dead: bool) -> RuntimeFound:
    found: RuntimeFound = {
        "pid": address.pid,
        "user": user_name(address.uid),
        "program": processes.program(address.pid),
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
        "actors": [],
        "functions": [],
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
    found["version"] = told["version"]
    found["total"] = told["total"]
    found["available"] = told["available"]
    found["object_store"] = told["object_store"]
    found["in_line"] = told["waiting"]
    found["in_line_count"] = told["waiting_count"]
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
        "cpu": None,
        "pss": None,
        "rss": None,
        "pending": pending,
        "running": running,
        "waiting": None if running is None else max(0, pending - running),
        "restarts": row["restarts"],
        "age": None if began is None else max(0.0, (ended or now) - began),
        "death": row["death"],
        "why": row["why"],
    }


def _measure(runtimes: Sequence[RuntimeFound]) -> None:
    """Fills in what the processes use."""
    rows: list[RuntimeFound | ActorFound] = []
    for found in runtimes:
        rows.append(found)
        rows += [a for a in found["actors"] if a["pid"] and a["state"] != "dead"]
    began = time.monotonic()
    before = {row["pid"]: processes.usage(row["pid"]) for row in rows}
    if len(rows) <= _FEW:
        for row in rows:
            row["pss"] = processes.pss(row["pid"])
    time.sleep(max(0.0, began + _INTERVAL - time.monotonic()))
    took = time.monotonic() - began
    for row in rows:
        first, now = before[row["pid"]], processes.usage(row["pid"])
        if first is not None and now is not None:
            row["cpu"] = round(max(0.0, now.cpu - first.cpu) / took * 100, 1)
            row["rss"] = now.rss


def draw(listing: Listing) -> RenderableType:
    """Puts a listing on a page for people."""
    return Group(*(part for found in listing["runtimes"] for part in _runtime(found)))


def _runtime(found: RuntimeFound) -> Iterable[RenderableType]:
    yield Text(_heading(found), style="bold")
    if found["error"]:
        yield Text(f"{found['error']}\n")
        return
    if found["stuck"] is not None:
        yield Text(stuck_text(found["stuck"]))
        return
    if found["actors"]:
        yield _actors(found["actors"])
    else:
        yield Text("No actor lives.\n")
    if found["functions"]:
        yield _functions(found["functions"])
    yield from _reasons(found)


def _heading(found: RuntimeFound) -> str:
    parts = [f"pid {found['pid']}"]
    if found["program"]:
        parts.append(f"{found['program']!r}")
    if found["version"]:
        parts.append(f"actorlib {found['version']}")
    if found["cpu"] is not None:
        parts.append(f"{found['cpu']:.0f} % CPU")
    memory = found["pss"] if found["pss"] is not None else found["rss"]
    if memory is not None:
        parts.append(in_bytes(memory))
    parts += [
        f"{_amount(name, found['available'].get(name, 0))} of {_amount(name, total)} "
        f"{name} free"
        for name, total in sorted(found["total"].items())
        if not name.startswith("accelerator_type:")
    ]
    return ", ".join(parts)


def _amount(name: str, amount: float) -> str:
    return in_bytes(int(amount)) if name == "memory" else f"{amount:g}"


def _actors(actors: Sequence[ActorFound]) -> RenderableType:
    is_fair = any(actor["pss"] is not None for actor in actors)
    endings = id_endings([actor["id"] for actor in actors])
    rows = [
        (
            endings[actor["id"]],
            actor["label"],
            str(actor["pid"] or _NOTHING),
            actor["state"],
            ", ".join(f"{i[:12]} ({p:g})" for i, p in actor["devices"].items())
            or _NOTHING,
            _NOTHING if actor["cpu"] is None else f"{actor['cpu']:.0f}",
            in_bytes(actor["pss"] if is_fair else actor["rss"]),
            _NOTHING if actor["running"] is None else str(actor["running"]),
            str(actor["pending"] if actor["waiting"] is None else actor["waiting"]),
            str(actor["restarts"]),
            in_time(actor["age"]),
        )
        for actor in actors
    ]
    memory = "pss" if is_fair else "rss"
    return table(
        [
            *("id", "actor", "pid", "state", "devices", "cpu%", memory),
            *("running", "waiting", "restarts", "age"),
        ],
        rows,
        right={"pid", "cpu%", memory, "running", "waiting", "restarts", "age"},
    )


def _functions(groups: Sequence[FunctionsFound]) -> RenderableType:
    rows = [
        (
            group["resources"] or "nothing",
            str(group["running"]),
            str(group["waiting"]),
            " ".join(map(str, group["pids"])) or _NOTHING,
        )
        for group in groups
    ]
    return table(
        ["functions that ask", "running", "waiting", "pids"],
        rows,
        right={"running", "waiting"},
    )


def _reasons(found: RuntimeFound) -> Iterable[RenderableType]:
    """Says who waits, for what, and who has it."""
    said = [actor["why"] for actor in found["actors"] if actor["why"]]
    if said:
        yield Text("\n".join(["Who waits:", *(f"  {why}" for why in said), ""]))
    # What has a reason of its own is told above.
    told = {actor["label"] for actor in found["actors"] if actor["why"]}
    others = [f"  {w}" for w in found["in_line"] if w.partition(": ")[0] not in told]
    if others:
        more = found["in_line_count"] - len(found["in_line"])
        rest = [f"  and {more} more"] if more else []
        yield Text("\n".join(["In line:", *others, *rest, ""]))
    deaths = [
        f"  {actor['label']}: {actor['death'].splitlines()[0]}"
        for actor in found["actors"]
        if actor["death"]
    ]
    if deaths:
        yield Text("\n".join(["How they ended:", *deaths, ""]))


def stuck_text(stuck: Stuck) -> str:
    """Says in words that a loop does not answer, and where its thread stands."""
    if not stuck["is_running"]:
        head = "Its event loop is not running: nothing in this runtime goes on."
    else:
        bound = "for" if stuck["is_exact"] else "for at least"
        head = (
            f"Its event loop has been blocked {bound} {stuck['seconds']:.1f} s. "
            "Its thread stands, the latest call last, at"
        )
    lines = [head]
    for frame in stuck["frames"]:
        lines.append(f"  {frame['file']}:{frame['line']} in {frame['function']}")
        if frame["code"]:
            lines.append(f"    {frame['code']}")
    return "\n".join([*lines, ""])
