"""Reports the resources that a test has left in a runtime that continues.

Resources that are ending have a second for that; without any there is no wait. The
place where a ref or a handle was created is known if Python traces allocations.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tracemalloc
import weakref
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import actorlib
from actorlib._core.engine import HandlePin, find_engine
from actorlib._futures.object_ref import ObjectRef
from actorlib.exceptions import UnsupportedOptionError

if TYPE_CHECKING:
    from actorlib._core.engine import RuntimeEngine

_PATIENCE = 1.0
"""Seconds in which the resources of a test may end."""
_STARTING = 30.0
"""The same for an actor without a handle here that is not ready: it starts first, which
may take long."""
_POLL_PERIOD = 0.01
"""Seconds between two checks."""
_LIBRARIES = (
    f"{Path(actorlib.__file__).parent}{os.sep}",
    f"{Path(os.__file__).parent}{os.sep}",
    "<",
)
"""The prefixes of files that are not of a program: those of actorlib and of Python."""
_HOW_TO_KNOW = "(python -X tracemalloc=20 -m pytest shows where those were made)"


class _Resource(NamedTuple):
    """A resource of a runtime.

    Attributes:
        key: Identifies it.
        row: Its description, for people.
        origin: The object whose allocation Python may know, if there is one.
        is_starting: Whether it may end as soon as it has started.
    """

    key: tuple[object, ...]
    row: str
    origin: object = None
    is_starting: bool = False


class Watch:
    """Reports the resources that are created after it and stay."""

    def __init__(self) -> None:
        self._engine = find_engine()
        resources: list[_Resource] = []
        if self._engine is not None:
            resources = _resources(cast("RuntimeEngine", self._engine))
        self._before = Counter(one.key for one in resources)
        self._refs = [weakref.ref(ref) for ref in _refs(self._engine)]

    def check(self) -> list[str]:
        """Lists the resources that stay, from a thread that is not the loop's."""
        engine = find_engine()
        loop = _loop(engine)
        if loop is None or not loop.is_running():
            gc.collect()
            return self._rows(engine, self._leaks(engine))
        return asyncio.run_coroutine_threadsafe(self._settled(engine), loop).result()

    async def check_on_loop(self) -> list[str]:
        """Lists the resources that stay, from the loop of a test."""
        engine = find_engine()
        loop = _loop(engine)
        if loop is None or loop is asyncio.get_running_loop():
            return await self._settled(engine)
        return await asyncio.to_thread(self.check)

    async def _settled(self, engine: Any) -> list[str]:
        """Lists the resources that stay, on the loop of the runtime."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        gc.collect()  # frees objects in reference cycles
        await asyncio.sleep(0)
        while leaks := self._leaks(engine):
            is_starting = any(one.is_starting for one in leaks)
            if clock() > begun + (_STARTING if is_starting else _PATIENCE):
                break
            await asyncio.sleep(_POLL_PERIOD)
            gc.collect()
        return self._rows(engine, leaks)

    def _leaks(self, engine: Any) -> list[_Resource]:
        if engine is None or engine.is_closed:
            return []
        return [*_new(_resources(engine), self._before), *self._new_refs(engine)]

    def _rows(self, engine: Any, leaks: list[_Resource]) -> list[str]:
        rows: list[str] = []
        if engine not in (None, self._engine) and not engine.is_closed:
            rows.append("a runtime that was started and not ended")
        places = [_place_of(one.origin) for one in leaks]
        rows += [
            f"{one.row}, made at {place}" if place else one.row
            for one, place in zip(leaks, places, strict=True)
        ]
        is_unknown = any(one.origin is not None for one in leaks) and not any(places)
        if is_unknown and not tracemalloc.is_tracing():
            rows.append(_HOW_TO_KNOW)
        return rows

    def _new_refs(self, engine: Any) -> list[_Resource]:
        earlier = {id(ref) for weak in self._refs if (ref := weak()) is not None}
        return [
            _Resource(("ref", id(ref)), f"a ref that is still held: {ref!r}", ref)
            for ref in _refs(engine)
            if id(ref) not in earlier
        ]


def _new(
    resources: list[_Resource], before: Counter[tuple[object, ...]]
) -> list[_Resource]:
    """Returns the resources that are more than before, by their keys."""
    rest = before.copy()
    new: list[_Resource] = []
    for one in resources:
        if rest[one.key]:
            rest[one.key] -= 1
        else:
            new.append(one)
    return new


def _resources(engine: RuntimeEngine) -> list[_Resource]:
    snapshot, rows = engine.snapshot(), list[_Resource]()
    pins = {pin.actor_id.hex(): pin for pin in _pins(engine)}
    for actor in snapshot.actors:
        if actor.state in ("draining", "dead"):
            continue  # it has ended, or is about to
        how = "detached" if actor.is_detached else actor.state
        name = "" if actor.name is None else f" {actor.name!r}"
        pin = pins.get(actor.actor_id)
        has_handle = pin is not None and not actor.is_detached
        handle = ", whose handle is held here" if has_handle else ""
        pid = f", pid {actor.pid}" if actor.pid else ""
        row = f"the actor {actor.class_name}{name} ({how}{pid}){handle}"
        is_kept = pin is not None or actor.is_detached
        is_starting = not is_kept and actor.state in ("pending", "starting")
        rows.append(_Resource(("actor", actor.actor_id), row, pin, is_starting))
    for call in engine.calls():
        row = f"a call of {call.name or call.method} without an answer ({call.state})"
        rows.append(_Resource(("call", call.actor_id, call.name), row))
    for group in snapshot.groups:
        if group.state != "REMOVED":
            name = repr(group.name) if group.name else group.group_id
            row = f"the placement group {name} ({group.strategy}, {group.state})"
            rows.append(_Resource(("group", group.group_id), row))
    return rows + _objects(engine)


def _objects(engine: RuntimeEngine) -> list[_Resource]:
    try:
        objects = engine.objects()
    except UnsupportedOptionError:  # on Ray they are Ray's
        return []
    rows: list[_Resource] = []
    for one in objects:
        if one.state == "warm":
            continue
        size = "" if one.nbytes is None else f" of {one.nbytes} bytes"
        holders = ", ".join(one.holders) or "an unknown process"
        row = f"an object{size} ({one.kind}) that {one.maker} made, held by {holders}"
        rows.append(_Resource(("object", one.object_id), row))
    return rows


def _refs(engine: Any) -> list[ObjectRef[Any]]:
    """Returns the finished refs of a runtime that the program holds.

    Unanswered refs are calls.
    """
    loop = _loop(engine)
    return [
        cast("ObjectRef[Any]", one)
        for one in gc.get_objects()
        if type(one) is ObjectRef and one.get_loop() is loop and one.done()
    ]


def _pins(engine: object) -> list[HandlePin]:
    return [
        one
        for one in gc.get_objects()
        if type(one) is HandlePin and one.engine is engine
    ]


def _loop(engine: Any) -> asyncio.AbstractEventLoop | None:
    return getattr(engine, "loop", None)


def _place_of(origin: object) -> str:
    """Returns the line of the program that created an object, if known."""
    trace = None if origin is None else tracemalloc.get_object_traceback(origin)
    for frame in reversed(trace or ()):
        if not frame.filename.startswith(_LIBRARIES):
            return f"{frame.filename}:{frame.lineno}"
    return ""
