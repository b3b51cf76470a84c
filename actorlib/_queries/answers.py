"""The queries that each runtime answers; see ``queries``."""

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
"""The most calls that are examined: more would block the owner's loop for too long."""
MOST_OBJECTS: Final = 10_000
"""The most objects in an answer."""
MOST_REASONS: Final = 50
"""The most waiting actors for which the reason is in an answer."""

_WORKER_TIME = 0.5
"""Seconds in which workers have to report the calls that they have made over links."""


class _Look(NamedTuple):
    snapshot: Snapshot
    running: Counter[str] | None
    reasons: dict[str, str]


def _status(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """Describes the runtime and its actors; with ``dead`` the dead ones, too."""
    has_dead = parameters.flag("dead")

    def look() -> asyncio.Task[_Look]:
        return engine.loop.create_task(_look(engine))

    return Asked(look, partial(_describe_status, has_dead=has_dead), SLACK)


async def _look(engine: RuntimeEngine) -> _Look:
    running = None
    pending = sum(actor.pending_calls for actor in engine.snapshot().actors)
    if pending <= MOST_CALLS:
        # Calls of actors come first, so that no call of a function is examined.
        (calls, _), _ = await engine.all_calls(0.0, pending)
        running = Counter(call.actor_id for call in calls if call.state == "running")
    snapshot = engine.snapshot()
    reasons: dict[str, str] = {}
    for actor in snapshot.actors:
        if actor.state in WAITING_STATES and len(reasons) < MOST_REASONS:
            with suppress(ActorlibError):  # the actor has just been forgotten
                reasons[actor.actor_id] = engine.explain(
                    ActorId(bytes.fromhex(actor.actor_id))
                )
    return _Look(snapshot, running, reasons)


def _describe_status(look: _Look, *, has_dead: bool) -> Status:
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
    """Describes the stacks of the owner's threads and tasks."""
    del parameters
    loop = engine.loop

    def stand(_: None) -> Stacks:
        return Stacks(pid=os.getpid(), title="", threads=threads(), tasks=tasks(loop))

    return Asked(None, stand)


def _calls(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """Lists the unanswered calls, of all actors or of ``actor``, the oldest first."""
    actor = parameters.actor_if_any()

    def look() -> asyncio.Task[tuple[AllCalls, int]]:
        calls = engine.all_calls(_WORKER_TIME, MOST_CALLS, actor)
        return engine.loop.create_task(calls)

    return Asked(look, _describe_calls, _WORKER_TIME + SLACK)


def _describe_calls(result: tuple[AllCalls, int]) -> Calls:
    (calls, silent), left_out = result
    return Calls(
        pid=os.getpid(), calls=tuple(calls), left_out=left_out, silent=tuple(silent)
    )


def _objects(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """Lists the first ``limit`` objects of the object store, in the order ``sort``."""
    sort: ObjectOrder = parameters.take("sort", "size")
    if sort not in ("size", "age"):
        raise ValueError(f"sort takes 'size' or 'age', not {sort!r}")
    limit = parameters.count("limit", MOST_OBJECTS, MOST_OBJECTS, "objects")

    def look() -> tuple[list[ObjectInfo], ObjectStoreInfo]:
        return engine.objects(sort, limit + 1), engine.snapshot().object_store

    def describe(result: tuple[list[ObjectInfo], ObjectStoreInfo]) -> Objects:
        objects, store = result
        return Objects(
            pid=os.getpid(),
            objects=tuple(objects[:limit]),
            has_more=len(objects) > limit,
            object_store=store,
        )

    return Asked(look, describe)


def _explain(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """Explains why an actor waits, or describes its placement."""
    actor = parameters.actor()
    return Asked(partial(engine.explain, actor), str)


def _kill(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """Kills an actor; the answer does not wait for its end."""
    actor, is_restarted = parameters.actor(), parameters.flag("restart")

    def kill() -> None:
        engine.kill(actor, restart=is_restarted).add_done_callback(mark_seen)

    def confirm(_: None) -> bool:
        return True

    return Asked(kill, confirm)


ANSWERS: Mapping[str, Query] = {
    "calls": _calls,
    "explain": _explain,
    "kill": _kill,
    "objects": _objects,
    "stack": _stack,
    "status": _status,
}
"""The queries of each runtime. Its features answer further queries."""
