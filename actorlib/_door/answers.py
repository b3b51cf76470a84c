"""What a runtime can be asked at its door, and what it answers.

Each verb has a part that looks, on the owner's loop and briefly, and one that makes
the answer of what was seen, in the thread of the door: a row, or a plain value.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from actorlib._core.ids import ID_SIZE, ActorId
from actorlib._core.object_ref import mark_seen
from actorlib._core.trace_events import to_plain
from actorlib._door.protocol import MOST_LINES, version
from actorlib._door.rows import Calls, Logs, Objects, Stacks, Status
from actorlib._door.stacks import tasks, threads
from actorlib.exceptions import ActorlibError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._core.engine import RuntimeEngine
    from actorlib._core.snapshot import (
        AllCalls,
        ObjectInfo,
        ObjectStoreInfo,
        Snapshot,
    )
    from actorlib._core.trace_events import Recorded

MOST_CALLS: Final = 10_000
"""How many calls are looked at: more would take the owner's loop too long."""
MOST_OBJECTS: Final = 10_000
"""How many objects are told of at the most."""
MOST_REASONS: Final = 50
"""How many of those who wait are asked why."""

_ASKING_WORKERS = 0.5
"""Seconds that workers may take to say which calls they have made over links."""
_SLACK = 2.0
"""Seconds that a busy loop may be late with what it was to do by then."""
_TELLING = 1.0
"""Seconds that workers may take to tell the rest of what they have recorded."""
MOST_TRACED: Final = 200_000
"""How many calls, and how many runs, a trace may have: more is too long an answer."""
LONGEST_TRACE: Final = 3600.0
"""Seconds that a trace may take."""

Options = dict[str, Any]

_WAITING = ("pending", "restarting", "suspended")


class Asked(NamedTuple):
    """A question that is about to be answered.

    Attributes:
        on_loop: Looks, on the owner's loop; None if that need not be asked. A future
            that it gives is waited for, and cancelled if nobody waits any more.
        finish: Makes the answer of what that gave.
        takes: Seconds that such a future may take.
    """

    on_loop: Callable[[], Any] | None
    finish: Callable[[Any], Any]
    takes: float = 0.0


class _Look(NamedTuple):
    """What was seen of a runtime at one moment."""

    snapshot: Snapshot
    running: Counter[str] | None
    reasons: dict[str, str]


def _status(engine: RuntimeEngine, _: int, options: Options) -> Asked:
    """The runtime and its actors; with ``dead`` also those that are."""
    has_dead = _flag(options, "dead")
    _refuse_others(options)

    def look() -> asyncio.Task[_Look]:
        return engine.loop.create_task(_look(engine))

    return Asked(look, partial(_described, has_dead=has_dead), _SLACK)


async def _look(engine: RuntimeEngine) -> _Look:
    running = None
    pending = sum(actor.pending_calls for actor in engine.snapshot().actors)
    if pending <= MOST_CALLS:
        # Those of actors come first, so that no call of a function is looked at.
        (calls, _), _ = await engine.all_calls(0.0, pending)
        running = Counter(call.actor_id for call in calls if call.state == "running")
    snapshot = engine.snapshot()
    reasons: dict[str, str] = {}
    for actor in snapshot.actors:
        if actor.state in _WAITING and len(reasons) < MOST_REASONS:
            with suppress(ActorlibError):  # it has just been forgotten
                reasons[actor.actor_id] = engine.explain(
                    ActorId(bytes.fromhex(actor.actor_id))
                )
    return _Look(snapshot, running, reasons)


def _described(look: _Look, *, has_dead: bool) -> Status:
    snapshot, running, reasons = look
    actors = (one for one in snapshot.actors if has_dead or one.state != "dead")
    return Status(
        version=version(),
        python=sys.version.partition(" ")[0],
        pid=os.getpid(),
        program=tuple(sys.orig_argv),
        snapshot=replace(
            snapshot, actors=tuple(actors), waiting=snapshot.waiting[:MOST_REASONS]
        ),
        waiting_count=len(snapshot.waiting),
        running_calls=running,
        reasons=reasons,
    )


def _stack(engine: RuntimeEngine, _: int, options: Options) -> Asked:
    """Where the threads and the tasks of the owner stand."""
    _refuse_others(options)
    loop = engine.loop

    def stand(_: None) -> Stacks:
        return Stacks(pid=os.getpid(), title="", threads=threads(), tasks=tasks(loop))

    return Asked(None, stand)


def _calls(engine: RuntimeEngine, _: int, options: Options) -> Asked:
    """The calls without an answer, the oldest of each actor first.

    The option ``actor`` asks for those of one.
    """
    actor = _actor(options) if "actor" in options else None
    _refuse_others(options)

    def look() -> asyncio.Task[tuple[AllCalls, int]]:
        calls = engine.all_calls(_ASKING_WORKERS, MOST_CALLS, actor)
        return engine.loop.create_task(calls)

    return Asked(look, _calls_described, _ASKING_WORKERS + _SLACK)


def _calls_described(seen: tuple[AllCalls, int]) -> Calls:
    (calls, silent), left_out = seen
    return Calls(
        pid=os.getpid(), calls=tuple(calls), left_out=left_out, silent=tuple(silent)
    )


def _objects(engine: RuntimeEngine, _: int, options: Options) -> Asked:
    """What the object store keeps: the first ``limit`` of it, put in order by ``sort``.

    ``has_more`` says whether there are others behind them.
    """
    sort, limit = options.pop("sort", "size"), options.pop("limit", MOST_OBJECTS)
    if sort not in ("size", "age"):
        raise ValueError(f"sort takes 'size' or 'age', not {sort!r}")
    if type(limit) is not int or not 1 <= limit <= MOST_OBJECTS:
        raise ValueError(f"limit takes 1 to {MOST_OBJECTS} objects, not {limit!r}")
    _refuse_others(options)

    def look() -> tuple[list[ObjectInfo], ObjectStoreInfo]:
        return engine.objects(sort, limit + 1), engine.snapshot().object_store

    def described(seen: tuple[list[ObjectInfo], ObjectStoreInfo]) -> Objects:
        objects, store = seen
        return Objects(
            pid=os.getpid(),
            objects=tuple(objects[:limit]),
            has_more=len(objects) > limit,
            object_store=store,
        )

    return Asked(look, described)


def _logs(engine: RuntimeEngine, _: int, options: Options) -> Asked:
    """Lines of actors, whether the loop comes or not: see ``RuntimeEngine.logs``.

    The options are ``actor``, ``after``, ``most``, ``since`` and ``newest``.
    """
    actor = _actor(options) if "actor" in options else None
    after, most = options.pop("after", 0), options.pop("most", MOST_LINES)
    since, is_newest = options.pop("since", 0.0), _flag(options, "newest")
    if type(after) is not int or after < 0:
        raise ValueError(f"after takes the number of a page, not {after!r}")
    if type(most) is not int or not 1 <= most <= MOST_LINES:
        raise ValueError(f"most takes 1 to {MOST_LINES} lines, not {most!r}")
    if type(since) not in (int, float):
        raise ValueError(f"since takes seconds since the epoch, not {since!r}")
    _refuse_others(options)

    def read(_: None) -> Logs:
        page = engine.logs(
            actor, after=after, most=most, since=since, is_newest=is_newest
        )
        return Logs(
            pid=os.getpid(),
            lines=tuple(page.lines),
            lost=page.lost,
            number=page.number,
        )

    return Asked(None, read)


def _explain(engine: RuntimeEngine, _: int, options: Options) -> Asked:
    """Why an actor waits, or where it is."""
    actor = _actor(options)
    _refuse_others(options)
    return Asked(partial(engine.explain, actor), str)


def _kill(engine: RuntimeEngine, _: int, options: Options) -> Asked:
    """Ends an actor at once; the answer does not wait for its end."""
    actor, is_restarted = _actor(options), _flag(options, "restart")
    _refuse_others(options)

    def kill() -> None:
        engine.kill(actor, restart=is_restarted).add_done_callback(mark_seen)

    def killed(_: None) -> bool:
        return True

    return Asked(kill, killed)


def _actor(options: Options) -> ActorId:
    said: object = options.pop("actor", None)
    with suppress(ValueError, TypeError):
        made = bytes.fromhex(cast("str", said))
        if len(made) == ID_SIZE:
            return ActorId(made)
    raise ValueError(f"actor takes the id of an actor in hex, not {said!r}")


def _metrics(engine: RuntimeEngine, _: int, options: Options) -> Asked:
    """The metrics, as text for Prometheus; with ``rows`` as values."""
    has_rows = _flag(options, "rows")
    _refuse_others(options)
    name = "metrics_rows" if has_rows else "metrics_text"
    for middleware in engine.middlewares:
        write = getattr(middleware, name, None)
        if callable(write):
            return Asked(engine.snapshot, write)
    raise ValueError(
        "this runtime counts nothing: give it metrics, by actorlib.init(middleware="
        "[actorlib.observe.prometheus()]) or runtime.add_middleware(...); it takes "
        "pip install 'actorlib[metrics]'"
    )


def _trace(engine: RuntimeEngine, _: int, options: Options) -> Asked:
    """What the runtime does for so many ``seconds``, of which so much is ``kept``."""
    seconds, kept = options.pop("seconds", 5.0), options.pop("kept", MOST_TRACED // 2)
    if type(seconds) not in (int, float) or not 0 < seconds <= LONGEST_TRACE:
        raise ValueError(
            f"seconds takes more than 0 and at most {LONGEST_TRACE:g}, not {seconds!r}"
        )
    if type(kept) is not int or not 1 <= kept <= MOST_TRACED:
        raise ValueError(f"kept takes 1 to {MOST_TRACED} calls, not {kept!r}")
    _refuse_others(options)

    def begin() -> asyncio.Task[Callable[[], Recorded]]:
        return engine.loop.create_task(_traced(engine, seconds, kept))

    def made(make: Callable[[], Recorded]) -> Mapping[str, Any]:
        return to_plain(make())

    return Asked(begin, made, seconds + _TELLING + _SLACK)


async def _traced(
    engine: RuntimeEngine, seconds: float, kept: int
) -> Callable[[], Recorded]:
    """Records for a while; cancelled, as who has asked is gone: no more."""
    began = engine.begin_trace(kept)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        engine.end_trace(began, _TELLING)
        raise
    return await engine.end_trace(began, _TELLING)


ANSWERS: Mapping[str, Callable[[RuntimeEngine, int, Options], Asked]] = {
    "calls": _calls,
    "explain": _explain,
    "kill": _kill,
    "logs": _logs,
    "metrics": _metrics,
    "objects": _objects,
    "stack": _stack,
    "status": _status,
    "trace": _trace,
}
"""What can be asked: each is given the runtime, its loop's thread, and the options."""


def _flag(options: Options, name: str) -> bool:
    value = options.pop(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{name} takes true or false, not {value!r}")  # noqa: TRY004  # of who asks
    return value


def _refuse_others(options: Options) -> None:
    if options:
        raise ValueError(f"{next(iter(options))!r} cannot be said in this question")
