"""Subjects of ``compare``: everyday work with the CPU time of each process.

They use only names that actorlib has had since 0.1.0, so they measure old commits too.
Run by ``python -m benchmarks compare``.
"""

import asyncio
import importlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

import actorlib
from benchmarks._cases import Plan, Scale
from benchmarks._processes import await_end, children, cpu_of
from benchmarks._subject import WINDOW, Figures, distinct, main, middle

_REST: Final = 0.3
"""Seconds in which a runtime finishes what it does after a wave of actors."""


class Meter:
    """Measures time and CPU time for each operation.

    Figures are named ``ROW/time``, ``ROW/owner``, ``ROW/worker`` and ``ROW/template``,
    all in seconds for each operation.
    """

    def __init__(self, workers: Sequence[int]) -> None:
        self._workers = workers
        self._templates = children(os.getpid())

    async def operations(
        self,
        row: str,
        count: int,
        run: Callable[[], Awaitable[object]],
        repeats: int,
    ) -> Figures:
        """The figures of ``run``, which does ``count`` operations.

        It runs once before, so that what is imported or built once is not measured.
        """
        await run()
        durations: list[float] = []
        before = self._cpu()
        for _ in range(repeats):
            begin = time.perf_counter()
            await run()
            durations.append(time.perf_counter() - begin)
        spent = [late - early for early, late in zip(before, self._cpu(), strict=True)]
        each = {
            role: seconds / (count * repeats)
            for role, seconds in zip(
                ("owner", "worker", "template"), spent, strict=True
            )
        }
        return _row(row, {"time": middle(durations) / count, **each})

    def _cpu(self) -> tuple[float, float, float]:
        return (
            time.process_time(),
            cpu_of(self._workers),
            cpu_of(self._templates),
        )


def _row(name: str, figures: Figures) -> Figures:
    return {f"{name}/{figure}": value for figure, value in figures.items()}


async def _one_after_another(call: Callable[[int], Any], count: int) -> None:
    for value in range(count):
        await call(value)


async def _window(call: Callable[[int], Any]) -> None:
    await asyncio.gather(*map(call, range(WINDOW)))


class Plain:
    """An actor with plain methods."""

    def echo(self, value: object) -> object:
        """The value."""
        return value

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()

    def items(self, count: int) -> Iterator[int]:
        """A stream of numbers."""
        yield from range(count)


class Looped:
    """An actor with async methods."""

    async def echo(self, value: object) -> object:
        """The value."""
        return value

    async def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()

    async def items(self, count: int) -> AsyncIterator[int]:
        """A stream of numbers."""
        for number in range(count):
            yield number

    async def forward(self, other: Any, value: int) -> object:
        """What another actor answers."""
        return await other.echo.remote(value)


def echo(value: int) -> int:
    """The value."""
    return value


def measure_calls(trips: int, windows: int) -> Figures:
    """Calls of plain and async methods, with references, headers, nested, and 1:4."""

    async def measured() -> Figures:
        figures: Figures = {}
        async with actorlib.init(num_cpus=4, num_gpus=0):
            plain: Any = actorlib.remote(Plain).remote()
            looped: Any = actorlib.remote(Looped).remote()
            for name, actor in (("plain", plain), ("async", looped)):
                call = actor.echo.remote
                meter = Meter([await actor.pid.remote()])
                figures |= await meter.operations(
                    f"round trip {name}",
                    trips,
                    lambda call=call: _one_after_another(call, trips),
                    2,
                )
                figures |= await meter.operations(
                    f"pipelined {name}",
                    WINDOW,
                    lambda call=call: _window(call),
                    windows,
                )
            figures |= await _variants(plain, windows)
            meter = Meter([await plain.pid.remote(), await looped.pid.remote()])
            nested = looped.forward
            figures |= await meter.operations(
                "nested",
                WINDOW,
                lambda: _window(lambda value: nested.remote(plain, value)),
                max(2, windows // 3),
            )
            more = [plain, *(actorlib.remote(Plain).remote() for _ in range(3))]
            meter = Meter([await actor.pid.remote() for actor in more])
            figures |= await meter.operations(
                "one to four",
                WINDOW,
                lambda: _window(lambda value: more[value % 4].echo.remote(value)),
                windows,
            )
        return figures

    return actorlib.run(measured())


async def _variants(plain: Any, windows: int) -> Figures:
    """Calls whose arguments or headers take the longer ways."""
    meter = Meter([await plain.pid.remote()])
    ref = actorlib.put({"weights": [0.5] * 10})
    small = {"name": "model", "shape": [3, 4], "scale": 0.5}
    named = plain.echo.options(name="step")
    calls: dict[str, Callable[[int], Any]] = {
        "reference as argument": lambda _: plain.echo.remote(ref),
        "dict as argument and result": lambda _: plain.echo.remote(small),
        "call with headers": named.remote,
    }
    figures: Figures = {}
    for row, call in calls.items():
        figures |= await meter.operations(
            row, WINDOW, lambda call=call: _window(call), windows
        )
    return figures


def process_id() -> int:
    """The process that runs it."""
    return os.getpid()


def measure_functions(trips: int, windows: int) -> Figures:
    """Calls of a remote function."""

    async def measured() -> Figures:
        async with actorlib.init(num_cpus=2, num_gpus=0):
            call: Any = actorlib.remote(echo).remote
            where: Any = actorlib.remote(process_id)
            workers = {await where.remote() for _ in range(4)}
            meter = Meter(sorted(workers))
            figures = await meter.operations(
                "function round trip", trips, lambda: _one_after_another(call, trips), 2
            )
            return figures | await meter.operations(
                "function pipelined", WINDOW, lambda: _window(call), windows
            )

    return actorlib.run(measured())


def measure_streams(count: int, repeats: int) -> Figures:
    """Items of a stream of an actor without and with a loop."""

    async def measured() -> Figures:
        figures: Figures = {}
        async with actorlib.init(num_cpus=2, num_gpus=0):
            for name, kind in (("plain", Plain), ("async", Looped)):
                actor: Any = actorlib.remote(kind).remote()

                async def read(items: Any = actor.items) -> None:
                    number = -1
                    async for ref in items.remote(count):
                        number = await ref
                    if number != count - 1:
                        raise RuntimeError(f"{number + 1} of {count} items came")

                meter = Meter([await actor.pid.remote()])
                figures |= await meter.operations(
                    f"stream item {name}", count, read, repeats
                )
        return figures

    return actorlib.run(measured())


class Idle:
    """An actor that imports what it is told to."""

    def __init__(self, imports: Sequence[str] = ()) -> None:
        for name in imports:
            importlib.import_module(name)

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


def measure_placement(size: int, imports: Sequence[str] = ()) -> Figures:
    """Actors to their first answers, right after ``init()`` and again later."""
    title = f"placement of {size}" + (" with " + ", ".join(imports) if imports else "")
    made: Any = actorlib.remote(num_gpus=0.01)(Idle)

    async def wave(row: str) -> Figures:
        templates = children(os.getpid())
        own, before = time.process_time(), cpu_of(templates)
        begin = time.perf_counter()
        actors = [made.remote(imports) for _ in range(size)]
        pids = await asyncio.gather(*(actor.pid.remote() for actor in actors))
        took = time.perf_counter() - begin
        spent = {
            "owner": time.process_time() - own,
            "worker": cpu_of(pids),
            "template": cpu_of(templates) - before,
        }
        distinct(pids, size)
        await asyncio.gather(*map(actorlib.kill, actors))
        await_end(pids)
        figures = {role: seconds / size for role, seconds in spent.items()}
        return _row(row, {"time": took / size, **figures})

    async def measured() -> Figures:
        async with actorlib.init(num_gpus=8, preload=list(imports)):
            figures = await wave(f"{title}, right after init()")
            await asyncio.sleep(_REST)
            return figures | await wave(f"{title}, later")

    return actorlib.run(measured())


def make_plan(scale: Scale) -> Plan:
    """The subjects here belong to no table of their own."""
    del scale
    raise SystemExit("run it with: python -m benchmarks compare OLD NEW")


SUBJECTS: Final = {
    "calls": measure_calls,
    "functions": measure_functions,
    "streams": measure_streams,
    "placement": measure_placement,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
