"""Measures whether the rate of calls grows with actors and cores.

Pairs are actors that call actors, each a window of 1,000 at a time: as many pairs as
there are get in the way of one another only where processes share a core, or where the
owner stands between them.

Run it with ``python -m benchmarks.scaling``.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from benchmarks._cases import OURS, RAY, Case, Job, Panel, Plan, Scale, Target, Unit
from benchmarks._subject import WINDOW, Figures, main

_RATE = Unit(name="calls/s", more_is_better=True)
_SHARE = Unit(name="% CPU", scale=100)

_ONE: Final = "one to one"
_PAIR: Final = "one pair"
_FEWER: Final = {_ONE: f"{OURS}/one", _PAIR: f"{OURS}/pair"}
"""actorlib with fewer actors, for comparison only."""

_PAIRS: Final = 4
_LOSS: Final = 0.8
"""The share of its rate that each pair keeps among several."""

_NOTES = (
    "Windows of 1,000 calls that end in one gather (Ray: one ray.get). The pairs scale "
    "if their rate is that of one pair times the number of pairs of cores, minus a "
    "fifth.",
    "Callers keep their first handle. A caller that drops it and gets another one "
    "needs a new link, and calls through the owner until then.",
    "CPU of the owner: the CPU time of the runtime's process while the pairs call each "
    "other, as a share of one CPU (Ray: the driver).",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    from benchmarks._machine import cores

    windows = 8 if scale.is_quick else 40
    parallel = max(1, min(_PAIRS, cores() // 2))
    out = "from outside"
    between = "between actors"
    cases = [
        _case(out, _ONE, "one"),
        _case(out, "one to four", "four", Target(bound=_LOSS, against=_ONE)),
        _case(between, _PAIR, "pair"),
        _case(
            between,
            "four pairs",
            "pairs",
            Target(bound=_LOSS * parallel, against=_PAIR),
        ),
    ]
    owner = Case(
        section=between,
        title="CPU of the owner meanwhile",
        unit=_SHARE,
        cells={column: f"{column}/owner" for column in (OURS, RAY)},
        targets=(Target(bound=0.05),),
    )
    return Plan(
        name="scaling",
        question="Calls of several actors",
        notes=_NOTES,
        jobs=[
            Job(name=OURS, subject="scaling.actorlib", arguments={"windows": windows}),
            Job(
                name=RAY,
                subject="scaling.ray",
                arguments={"windows": 2 if scale.is_quick else 5},
                peer="ray",
            ),
        ],
        cases=[*cases, owner],
        panels=[Panel(title="calls a second", cases=cases, is_logarithmic=True)],
    )


def _case(section: str, title: str, figure: str, *targets: Target) -> Case:
    cells = {column: f"{column}/{figure}" for column in (OURS, RAY)}
    fewer = {each.against for each in targets}
    return Case(
        section=section,
        title=title,
        unit=_RATE,
        cells=cells | {name: _FEWER[name] for name in _FEWER.keys() & fewer},
        targets=targets,
    )


class Echo:
    """An actor that gives back what it gets."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


def measure_actorlib(windows: int) -> Figures:
    """Calls in windows: one to one, one to four, actor to actor, four to four."""
    import actorlib

    async def window(targets: Sequence[Any]) -> None:
        each = range(WINDOW // len(targets))
        calls = [target.echo.remote(value) for target in targets for value in each]
        await asyncio.gather(*calls)

    @actorlib.remote
    class Caller:
        """An actor that calls another one, whose handle it keeps."""

        def __init__(self, target: Any) -> None:
            self._target = target

        async def drive(self, windows: int) -> None:
            for _ in range(windows):
                await window([self._target])

    async def from_here(targets: Sequence[Any]) -> float:
        await window(targets)
        begun = time.perf_counter()
        for _ in range(windows):
            await window(targets)
        return windows * WINDOW / (time.perf_counter() - begun)

    async def between(callers: Sequence[Any]) -> tuple[float, float]:
        async def drive(count: int) -> None:
            await asyncio.gather(*(caller.drive.remote(count) for caller in callers))

        await drive(1)
        begun, spent = time.perf_counter(), time.process_time()
        await drive(windows)
        return _shares(len(callers) * windows, begun, spent)

    async def measured() -> Figures:
        metrics: Figures = {}
        async with actorlib.init():
            targets: list[Any] = [actorlib.remote(Echo).remote() for _ in range(4)]
            callers: list[Any] = [Caller.remote(target) for target in targets]
            await asyncio.gather(*targets, *callers)
            metrics["one"] = await from_here(targets[:1])
            metrics["four"] = await from_here(targets)
            metrics["pair"], _ = await between(callers[:1])
            metrics["pairs"], metrics["owner"] = await between(callers)
        return metrics

    return actorlib.run(measured())


def measure_ray(windows: int) -> Figures:
    """The same, by one ``ray.get`` for each window, also in actors.

    It is faster than to await the refs.
    """
    import ray

    from benchmarks._ray import cluster

    def window(targets: Sequence[Any]) -> None:
        each = range(WINDOW // len(targets))
        ray.get([target.echo.remote(value) for target in targets for value in each])

    @ray.remote(num_cpus=0)
    class Caller:
        """An actor that calls another one, whose handle it keeps."""

        def __init__(self, target: Any) -> None:
            self._target = target

        def drive(self, windows: int) -> None:
            for _ in range(windows):
                window([self._target])

    def from_here(targets: Sequence[Any]) -> float:
        window(targets)
        begun = time.perf_counter()
        for _ in range(windows):
            window(targets)
        return windows * WINDOW / (time.perf_counter() - begun)

    def between(callers: Sequence[Any]) -> tuple[float, float]:
        def drive(count: int) -> None:
            ray.get([caller.drive.remote(count) for caller in callers])

        drive(1)
        begun, spent = time.perf_counter(), time.process_time()
        drive(windows)
        return _shares(len(callers) * windows, begun, spent)

    metrics: Figures = {}
    with cluster():
        made: Any = ray.remote(num_cpus=0)(Echo)
        targets: list[Any] = [made.remote() for _ in range(4)]
        callers: list[Any] = [Caller.remote(target) for target in targets]
        metrics["one"] = from_here(targets[:1])
        metrics["four"] = from_here(targets)
        metrics["pair"], _ = between(callers[:1])
        metrics["pairs"], metrics["owner"] = between(callers)
    return metrics


def _shares(windows: int, begun: float, spent: float) -> tuple[float, float]:
    """Calls a second of all pairs, and the share of a CPU that this process took."""
    took = time.perf_counter() - begun
    return windows * WINDOW / took, (time.process_time() - spent) / took


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
    "ray": measure_ray,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
