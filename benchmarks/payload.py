"""Measures large arrays as arguments and as results.

Run it with ``python -m benchmarks.payload``.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from benchmarks._cases import (
    DASK,
    FLOOR,
    OURS,
    RAY,
    XOSCAR,
    Case,
    Curve,
    Job,
    Panel,
    Plan,
    Scale,
    Target,
    Unit,
)
from benchmarks._subject import Figures, main, middle

_MB: Final = 1_000_000
_RATE = Unit(name="GB/s", scale=1e-9, more_is_better=True)
_PIPE: Final = f"{OURS} by pipe"
_SHARED: Final = f"{OURS} shared"
_EDGE: Final = tuple(1 << power for power in range(16, 23))
"""Sizes around the limit for shared memory."""

_GOALS: Final = (Target(bound=0.7, against=FLOOR), Target(bound=3, against=RAY))

_NOTES = (
    "floor: one copy into warm shared memory within the measuring process, without any "
    "call. 1 MB is then in the caches of one CPU, and copied faster than another CPU "
    "wakes.",
    "argument: a call with the array that returns its last number. result: a call that "
    "returns an array from the memory of the actor. Medians of the trips of a round.",
    "Ray: by value, which it puts into its store itself. xoscar: buffers beside the "
    "pickle, over a Unix socket. distributed: an actor, asynchronous client.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    sizes = (1, 64) if scale.is_quick else (1, 64, 512)
    told = {
        "sizes": [size * _MB for size in sizes],
        "trips": 100 if scale.is_quick else 300,
        "volume": (640 if scale.is_quick else 3_000) * _MB,
    }
    edge = {"sizes": _EDGE, "trips": 150, "volume": 150 * _EDGE[-1]}
    jobs = [
        Job(name=OURS, subject="payload.actorlib", arguments=told),
        Job(name=FLOOR, subject="payload.floor", arguments=told),
        *(
            Job(
                name=name,
                subject="payload.actorlib",
                arguments={**edge, "above": above},
            )
            for name, above in ((_PIPE, 1 << 40), (_SHARED, 1))
        ),
        Job(name=RAY, subject="payload.ray", arguments=told, peer="ray"),
        Job(name=XOSCAR, subject="payload.xoscar", arguments=told, peer="xoscar"),
        Job(
            name=DASK,
            subject="payload.distributed",
            arguments=told,
            peer="distributed",
        ),
    ]
    cases = [_case(way, size) for way in ("argument", "result") for size in sizes]
    return Plan(
        name="payload",
        question="Large arrays as arguments and results",
        notes=_NOTES,
        jobs=jobs,
        cases=cases,
        panels=[
            Panel(title=way, cases=[case for case in cases if case.section == way])
            for way in ("argument", "result")
        ],
        curves=[
            Curve(
                title=f"{way}, by pipe or shared",
                across="bytes",
                unit=_RATE,
                lines={
                    name: {size: f"{name}/{way} {size}" for size in _EDGE}
                    for name in (_SHARED, _PIPE)
                },
            )
            for way in ("argument", "result")
        ],
    )


def _case(way: str, size: int) -> Case:
    cells = {
        column: f"{column}/{way} {size * _MB}" for column in (OURS, RAY, XOSCAR, DASK)
    }
    return Case(
        section=way,
        title=f"{size} MB",
        unit=_RATE,
        cells={**cells, FLOOR: f"{FLOOR}/copy {size * _MB}"},
        targets=_GOALS,
    )


_FEWEST: Final = 5


class Load(NamedTuple):
    """What a subject is told.

    Attributes:
        sizes: Of the arrays, in bytes.
        trips: How often the small ones are sent.
        volume: After how many bytes it is enough for larger ones.
        above: From how many bytes on actorlib shares memory; 0 for its own choice.
    """

    sizes: Sequence[int]
    trips: int
    volume: int
    above: int = 0

    def times(self, size: int) -> int:
        """How often an array of this size is sent."""
        return max(min(self.trips, self.volume // size), _FEWEST)


class Sink:
    """Takes arrays, and gives one."""

    def last(self, array: Any) -> int:
        """The last number."""
        return int(array[-1])

    def make(self, nbytes: int) -> None:
        """Has an array ready."""
        import numpy as np

        self._array = np.ones(nbytes, dtype=np.uint8)

    def give(self) -> Any:
        """That array."""
        return self._array


async def _moved(call: Callable[..., Awaitable[object]], load: Load) -> Figures:
    """Bytes a second, by way and size.

    Args:
        call: Calls a method of an actor that is a ``Sink``.
        load: What to send.
    """
    import numpy as np

    metrics: Figures = {}
    for size in load.sizes:
        array = np.ones(size, dtype=np.uint8)
        await call("make", size)
        for way, words in (("argument", ("last", array)), ("result", ("give",))):
            await call(*words)  # what is first touched or imported is no trip
            took: list[float] = []
            for _ in range(load.times(size)):
                begun = time.perf_counter()
                answer = await call(*words)
                took.append(time.perf_counter() - begun)
                del answer
            metrics[f"{way} {size}"] = size / middle(took)
    return metrics


def measure_actorlib(**told: Any) -> Figures:
    """Large arrays as arguments and results of an actor."""
    import actorlib

    load = Load(**told)

    async def measured() -> Figures:
        options: Any = {"shared_memory_threshold": load.above} if load.above else {}
        async with actorlib.init(object_store_memory=8 << 30, **options):
            sink = actorlib.remote(Sink).remote()

            async def call(method: str, *given: object) -> object:
                return await getattr(sink, method).remote(*given)

            return await _moved(call, load)

    return actorlib.run(measured())


def measure_floor(**told: Any) -> Figures:
    """The floor: one copy into shared memory that was touched before."""
    import mmap

    import numpy as np

    metrics: Figures = {}
    load = Load(**told)
    for size in load.sizes:
        source = memoryview(np.ones(size, dtype=np.uint8))
        with mmap.mmap(-1, size) as memory, memoryview(memory) as target:
            times: list[float] = []
            for _ in range(load.times(size) + 1):
                begun = time.perf_counter()
                target[:] = source
                times.append(time.perf_counter() - begun)
        metrics[f"copy {size}"] = size / middle(times[1:])
    return metrics


def measure_ray(**told: Any) -> Figures:
    """The same, by value.

    Ray puts a large argument into its store by itself, so ``ray.put`` before the call
    would be the same copy.
    """
    import ray

    from benchmarks._ray import cluster

    with cluster(object_store_memory=8 * 10**9):
        sink: Any = ray.remote(num_cpus=0)(Sink).remote()

        async def call(method: str, *given: object) -> object:
            return ray.get(getattr(sink, method).remote(*given))

        return asyncio.run(_moved(call, Load(**told)))


def measure_xoscar(**told: Any) -> Figures:
    """The same, as buffers beside the pickle; on one machine through a Unix socket."""
    import uvloop
    import xoscar

    from benchmarks._xoscar import placed, pool_of

    class XoscarSink(Sink, xoscar.StatelessActor):
        pass

    async def measured() -> Figures:
        async with pool_of(1) as address:
            sink = await placed(XoscarSink, address)

            async def call(method: str, *given: object) -> object:
                return await getattr(sink, method)(*given)

            return await _moved(call, Load(**told))

    return uvloop.run(measured())


def measure_distributed(**told: Any) -> Figures:
    """The same."""
    from benchmarks._distributed import client_of

    async def measured() -> Figures:
        async with client_of(1) as client:
            sink = await client.submit(Sink, actor=True)

            async def call(method: str, *given: object) -> object:
                return await getattr(sink, method)(*given)

            return await _moved(call, Load(**told))

    return asyncio.run(measured())


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
    "floor": measure_floor,
    "ray": measure_ray,
    "xoscar": measure_xoscar,
    "distributed": measure_distributed,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
