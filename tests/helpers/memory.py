"""Large values, and what is held of the memory that they are shared in."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from actorlib._core.engine import find_engine

if TYPE_CHECKING:
    from actorlib._owner.engine import LocalEngine


def numbers(nbytes: int) -> np.ndarray[Any, Any]:
    """An array of so many bytes."""
    return np.arange(nbytes, dtype=np.uint8)


def stores() -> Any:
    """The shared memory of the runtime that runs here."""
    return cast("LocalEngine", find_engine()).actor_table.object_store


def in_blocks() -> int:
    """The bytes in blocks of the owner that are not free."""
    return _used(stores().memory)


def in_own_blocks(_: object = None) -> int:
    """The same of the worker in which it runs."""
    return _used(cast("Any", find_engine()).memory)


def _used(memory: Any) -> int:
    store = memory._store
    with store._lock:
        store._apply_deferred()
    return sum(segment.blocks.used for segment in store._segments.values())


def descriptors() -> int:
    """How many this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def sweep() -> None:
    """Has all processes look for unused memory, as a timer does each minute."""
    stores()._sweep()


def end_of_sweep() -> None:
    """Waits until this process has given back what it was asked to."""
    for thread in threading.enumerate():
        if thread.name == "actorlib memory":
            thread.join()


async def settled(*actors: Any) -> None:
    """Waits until everybody has said what is not held any more."""
    for _ in range(2):
        gc.collect()
        await asyncio.gather(*(actor.__ray_ready__.remote() for actor in actors))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
