"""The queries that any runtime answers over its socket; see ``queries``."""

from __future__ import annotations

import os
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from actorlib._base.ids import ActorId
from actorlib._futures.object_ref import mark_seen
from actorlib._queries.protocol import version
from actorlib._queries.queries import SLACK, Asked
from actorlib._queries.rows import Calls, Objects, Stacks, Status
from actorlib._queries.stacks import tasks, threads
from actorlib._rows.snapshot import WAITING_STATES
from actorlib.exceptions import ActorlibError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from actorlib._core.engine import RuntimeEngine
    from actorlib._queries.queries import Parameters, Query
    from actorlib._rows.snapshot import (
        AllCalls,
        ObjectInfo,
        ObjectOrder,
        ObjectStoreInfo,
        Snapshot,
    )

MOST_CALLS: Final = 10_000
"""How many calls are looked at: more would take the owner's loop too long."""
MOST_OBJECTS: Final = 10_000
"""How many objects are told of at the most."""
MOST_REASONS: Final = 50
"""How many of those who wait are asked why."""

_ASKING_WORKERS = 0.5
"""Seconds that workers may take to say which calls they have made over links."""


class _Look(NamedTuple):
    """What was seen of a runtime at one moment."""

    snapshot: Snapshot
    running: Counter[str] | None
    reasons: dict[str, str]


def _status(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """The runtime and its actors; with ``dead`` also those that are."""
    has_dead = parameters.flag("dead")

    def look() -> asyncio.Task[_Look]:
        return engine.loop.create_task(_look(engine))

    return Asked(look, partial(_described, has_dead=has_dead), SLACK)


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
        if actor.state in WAITING_STATES and len(reasons) < MOST_REASONS:
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


def _stack(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """Where the threads and the tasks of the owner stand."""
    del parameters
    loop = engine.loop

    def stand(_: None) -> Stacks:
        return Stacks(pid=os.getpid(), title="", threads=threads(), tasks=tasks(loop))

    return Asked(None, stand)


def _calls(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """The calls without an answer, the oldest of each actor first.

    The option ``actor`` asks for those of one.
    """
    actor = parameters.actor_if_any()

    def look() -> asyncio.Task[tuple[AllCalls, int]]:
        calls = engine.all_calls(_ASKING_WORKERS, MOST_CALLS, actor)
        return engine.loop.create_task(calls)

    return Asked(look, _calls_described, _ASKING_WORKERS + SLACK)


def _calls_described(seen: tuple[AllCalls, int]) -> Calls:
    (calls, silent), left_out = seen
    return Calls(
        pid=os.getpid(), calls=tuple(calls), left_out=left_out, silent=tuple(silent)
    )


def _objects(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """What the object store keeps: the first ``limit`` of it, put in order by ``sort``.

    ``has_more`` says whether there are others behind them.
    """
    sort: ObjectOrder = parameters.take("sort", "size")
    if sort not in ("size", "age"):
        raise ValueError(f"sort takes 'size' or 'age', not {sort!r}")
    limit = parameters.count("limit", MOST_OBJECTS, MOST_OBJECTS, "objects")

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


def _explain(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """Why an actor waits, or where it is."""
    actor = parameters.actor()
    return Asked(partial(engine.explain, actor), str)


def _kill(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """Ends an actor at once; the answer does not wait for its end."""
    actor, is_restarted = parameters.actor(), parameters.flag("restart")

    def kill() -> None:
        engine.kill(actor, restart=is_restarted).add_done_callback(mark_seen)

    def killed(_: None) -> bool:
        return True

    return Asked(kill, killed)


ANSWERS: Mapping[str, Query] = {
    "calls": _calls,
    "explain": _explain,
    "kill": _kill,
    "objects": _objects,
    "stack": _stack,
    "status": _status,
}
"""What any runtime can be asked; its features answer further queries."""
