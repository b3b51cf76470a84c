"""Measures one large array for eight actors: time and memory.

Run it with ``python -m benchmarks.sharing``.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from benchmarks._cases import (
    FLOOR,
    OURS,
    RAY,
    Case,
    Job,
    Panel,
    Plan,
    Scale,
    Target,
    Unit,
)
from benchmarks._processes import descendants, memory_of
from benchmarks._subject import Figures, main, middle

_NBYTES: Final = 256_000_000
_ACTORS: Final = 8

_NOTES = (
    "The array is put once (actorlib.put, ray.put); every actor gets the ref and keeps "
    "its value. Time: from before the put to the last actor's answer, in memory that "
    "was used before. Extra memory: the increase of all processes together (PSS) while "
    "all keep it, the first time.",
    "floor: one copy into shared memory.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    told = {
        "nbytes": _NBYTES,
        "actors": _ACTORS,
        "times": 5 if scale.is_quick else 15,
    }
    rows = (
        ("time", Unit(name="ms", scale=1e3), Target(bound=1 / 5, against=RAY)),
        ("memory", Unit(name="MB", scale=1e-6), Target(bound=1.05, against=FLOOR)),
    )
    cases = [
        Case(
            section=f"{_NBYTES // 1_000_000} MB to {_ACTORS} actors by put",
            title="extra memory" if figure == "memory" else figure,
            unit=unit,
            cells={column: f"{column}/{figure}" for column in (OURS, FLOOR, RAY)},
            targets=(target,),
        )
        for figure, unit, target in rows
    ]
    return Plan(
        name="sharing",
        question="One array for many actors",
        notes=_NOTES,
        jobs=[
            Job(name=OURS, subject="sharing.actorlib", arguments=told),
            Job(name=FLOOR, subject="sharing.floor", arguments=told),
            Job(name=RAY, subject="sharing.ray", arguments=told, peer="ray"),
        ],
        cases=cases,
        panels=[Panel(title=case.title, cases=[case]) for case in cases],
    )


class Keeper:
    """Keeps an array."""

    def keep(self, array: Any) -> int:
        """Keeps it, and tells its last number."""
        self._array = array
        return int(array[-1])

    def drop(self) -> None:
        """Forgets it."""
        self._array = None


async def _shared(
    give: Callable[[Any], Awaitable[None]],
    drop: Callable[[], Awaitable[None]],
    nbytes: int,
    times: int,
) -> Figures:
    """The figures ``memory`` and ``time``.

    Memory is what all processes together have more of (PSS) while the actors hold the
    array, the first time, when no memory is there to be used again.

    Args:
        give: Puts an array once, and has every actor keep it.
        drop: Has every actor forget it.
        nbytes: The size of the array.
        times: How often it is timed.
    """
    import numpy as np

    # Small, so that everybody has run the code before memory is counted.
    await give(np.ones(1, dtype=np.uint8))
    await drop()
    array = np.ones(nbytes, dtype=np.uint8)
    before = _memory()
    await give(array)
    metrics = {"memory": _memory() - before}
    await drop()
    took: list[float] = []
    for _ in range(times):
        begun = time.perf_counter()
        await give(array)
        took.append(time.perf_counter() - begun)
        await drop()
    return metrics | {"time": middle(took)}


def _memory() -> float:
    return memory_of([os.getpid(), *descendants(os.getpid())])


def measure_actorlib(nbytes: int, actors: int, times: int) -> Figures:
    """One array to many actors by ``put``."""
    import actorlib

    async def measured() -> Figures:
        made: Any = actorlib.remote(Keeper)
        async with actorlib.init(object_store_memory=2 << 30):
            keepers = [made.remote() for _ in range(actors)]

            async def give(array: object) -> None:
                ref = actorlib.put(array)
                await asyncio.gather(*(keeper.keep.remote(ref) for keeper in keepers))

            async def drop() -> None:
                await asyncio.gather(*(keeper.drop.remote() for keeper in keepers))

            return await _shared(give, drop, nbytes, times)

    return actorlib.run(measured())


def measure_floor(nbytes: int, actors: int, times: int) -> Figures:
    """The floor: one copy of it, into shared memory once used."""
    import mmap

    import numpy as np

    del actors  # they would map the same memory
    with mmap.mmap(-1, nbytes) as memory:

        async def give(array: Any) -> None:
            np.frombuffer(memory, dtype=np.uint8)[: len(array)] = array

        async def drop() -> None:
            """The memory stays, to be used again."""

        return asyncio.run(_shared(give, drop, nbytes, times))


def measure_ray(nbytes: int, actors: int, times: int) -> Figures:
    """One array to many actors by ``ray.put``, as it advises for that."""
    import ray

    from benchmarks._ray import cluster

    with cluster(object_store_memory=2 << 30):
        made: Any = ray.remote(num_cpus=0)(Keeper)
        keepers: list[Any] = [made.remote() for _ in range(actors)]

        async def give(array: object) -> None:
            ref = ray.put(array)
            ray.get([keeper.keep.remote(ref) for keeper in keepers])

        async def drop() -> None:
            ray.get([keeper.drop.remote() for keeper in keepers])

        return asyncio.run(_shared(give, drop, nbytes, times))


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
    "floor": measure_floor,
    "ray": measure_ray,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
