"""What a test has left of a runtime that goes on.

What ends by itself is given a second for that, and nothing is waited for where nothing
is left. Where a ref or a handle was made is known where Python traces allocations.
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
"""Seconds that what is left may take to end by itself."""
_STARTING = 30.0
"""The same for an actor that nobody here holds and that is not ready: it starts first,
which may be long."""
_LOOK = 0.01
"""Seconds between two looks."""
_NO_PROGRAMS = (
    f"{Path(actorlib.__file__).parent}{os.sep}",
    f"{Path(os.__file__).parent}{os.sep}",
    "<",
)
"""How the names of files begin that are no program's: ours and Python's own."""
_HOW_TO_KNOW = "(python -X tracemalloc=20 -m pytest says where those were made)"


class _Left(NamedTuple):
    """Something that is there.

    Attributes:
        key: Tells it from others.
        row: What it is, for people.
        made: What Python knows the allocation of, if there is such a thing.
        is_starting: Whether it may end as soon as it has started.
    """

    key: tuple[object, ...]
    row: str
    made: object = None
    is_starting: bool = False


class Watch:
    """Sees what comes after it and stays, in the runtime that runs at the end."""

    def __init__(self) -> None:
        self._engine = find_engine()
        there: list[_Left] = []
        if self._engine is not None:
            there = _there(cast("RuntimeEngine", self._engine))
        self._before = Counter(one.key for one in there)
        self._refs = [weakref.ref(ref) for ref in _refs(self._engine)]

    def look(self) -> list[str]:
        """Says what is left, from a thread that is not the loop's."""
        engine = find_engine()
        loop = _loop(engine)
        if loop is None or not loop.is_running():
            gc.collect()
            return self._rows(engine, self._left(engine))
        return asyncio.run_coroutine_threadsafe(self._settled(engine), loop).result()

    async def looked(self) -> list[str]:
        """Says what is left, from the loop of a test."""
        engine = find_engine()
        loop = _loop(engine)
        if loop is None or loop is asyncio.get_running_loop():
            return await self._settled(engine)
        return await asyncio.to_thread(self.look)

    async def _settled(self, engine: Any) -> list[str]:
        """Says what is left, on the loop of the runtime, when what ends has ended."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        gc.collect()  # what was held by a cycle is let go
        await asyncio.sleep(0)
        while left := self._left(engine):
            is_starting = any(one.is_starting for one in left)
            if clock() > begun + (_STARTING if is_starting else _PATIENCE):
                break
            await asyncio.sleep(_LOOK)
            gc.collect()
        return self._rows(engine, left)

    def _left(self, engine: Any) -> list[_Left]:
        if engine is None or engine.is_closed:
            return []
        return [*_new(_there(engine), self._before), *self._new_refs(engine)]

    def _rows(self, engine: Any, left: list[_Left]) -> list[str]:
        rows: list[str] = []
        if engine not in (None, self._engine) and not engine.is_closed:
            rows.append("a runtime that was started and not ended")
        places = [_made_at(one.made) for one in left]
        rows += [
            f"{one.row}, made at {place}" if place else one.row
            for one, place in zip(left, places, strict=True)
        ]
        is_unknown = any(one.made is not None for one in left) and not any(places)
        if is_unknown and not tracemalloc.is_tracing():
            rows.append(_HOW_TO_KNOW)
        return rows

    def _new_refs(self, engine: Any) -> list[_Left]:
        known = {id(ref) for held in self._refs if (ref := held()) is not None}
        return [
            _Left(("ref", id(ref)), f"a ref that is still held: {ref!r}", ref)
            for ref in _refs(engine)
            if id(ref) not in known
        ]


def _new(there: list[_Left], before: Counter[tuple[object, ...]]) -> list[_Left]:
    """Returns what was not there before; of what is alike, as much as is more."""
    rest = before.copy()
    found: list[_Left] = []
    for one in there:
        if rest[one.key]:
            rest[one.key] -= 1
        else:
            found.append(one)
    return found


def _there(engine: RuntimeEngine) -> list[_Left]:
    """Lists the actors, the calls, the objects and the groups of a runtime."""
    snapshot, found = engine.snapshot(), list[_Left]()
    pins = {pin.actor_id.hex(): pin for pin in _pins(engine)}
    for actor in snapshot.actors:
        if actor.state in ("draining", "dead"):
            continue  # it has ended, or is about to
        how = "detached" if actor.is_detached else actor.state
        name = "" if actor.name is None else f" {actor.name!r}"
        pin = pins.get(actor.actor_id)
        held = "" if actor.is_detached or pin is None else ", whose handle is held here"
        pid = f", pid {actor.pid}" if actor.pid else ""
        row = f"the actor {actor.class_name}{name} ({how}{pid}){held}"
        is_held = pin is not None or actor.is_detached
        is_starting = not is_held and actor.state in ("pending", "starting")
        found.append(_Left(("actor", actor.actor_id), row, pin, is_starting))
    for call in engine.calls():
        row = f"a call of {call.name or call.method} without an answer ({call.state})"
        found.append(_Left(("call", call.actor_id, call.name), row))
    for group in snapshot.groups:
        if group.state != "REMOVED":
            name = repr(group.name) if group.name else group.group_id
            row = f"the placement group {name} ({group.strategy}, {group.state})"
            found.append(_Left(("group", group.group_id), row))
    return found + _objects(engine)


def _objects(engine: RuntimeEngine) -> list[_Left]:
    try:
        objects = engine.objects()
    except UnsupportedOptionError:  # on Ray they are Ray's
        return []
    found: list[_Left] = []
    for one in objects:
        if one.state == "warm":
            continue
        size = "" if one.nbytes is None else f" of {one.nbytes} bytes"
        holders = ", ".join(one.holders) or "nobody known"
        row = f"an object{size} ({one.kind}) that {one.maker} made, held by {holders}"
        found.append(_Left(("object", one.object_id), row))
    return found


def _refs(engine: Any) -> list[ObjectRef[Any]]:
    """Returns the refs of a runtime that the program holds and that are done.

    Those without an answer are calls.
    """
    loop = _loop(engine)
    return [
        cast("ObjectRef[Any]", one)
        for one in gc.get_objects()
        if type(one) is ObjectRef and one.get_loop() is loop and one.done()
    ]


def _pins(engine: object) -> list[HandlePin]:
    """Returns what handles of a runtime the program holds."""
    return [
        one
        for one in gc.get_objects()
        if type(one) is HandlePin and one.engine is engine
    ]


def _loop(engine: Any) -> asyncio.AbstractEventLoop | None:
    return getattr(engine, "loop", None)


def _made_at(made: object) -> str:
    """Says which line of the program made something, if that is known."""
    trace = None if made is None else tracemalloc.get_object_traceback(made)
    for frame in reversed(trace or ()):
        if not frame.filename.startswith(_NO_PROGRAMS):
            return f"{frame.filename}:{frame.lineno}"
    return ""
