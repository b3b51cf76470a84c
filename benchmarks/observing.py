"""Measures the cost of observing calls: with metrics, with traces, and without.

Run it with ``python -m benchmarks.observing``.
"""

import asyncio
import time
from typing import Any, Final

import actorlib
from benchmarks._cases import OURS, Case, Job, Plan, Scale, Target, Unit
from benchmarks._subject import WINDOW, Figures, main, pipelined, round_trips

_CALLS = Unit(name="calls/s", more_is_better=True)
_TIME = Unit(name="us", scale=1e6)
_OFF: Final = "off"
"""actorlib that was never observed, for comparison."""

_WHO: Final = {
    "removed": ("a middleware that was removed again", 1.03),
    "metrics": ("prometheus()", 1.10),
    "spans": ("opentelemetry() without a provider", None),
}
"""The observers, and the allowed factor of the time of a call."""

_NOTES = (
    "Calls of one actor, awaited one by one and a thousand at a time, compared with "
    "unobserved calls (not shown). prometheus() counts every call and measures the "
    "times of about a hundred a second. Every call has a span, which is not recorded "
    "without a provider.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    trips = 1000 if scale.is_quick else 5000
    jobs = {
        who: Job(
            name=f"{OURS} {who}",
            subject="observing.actorlib",
            arguments={"who": who, "trips": trips},
        )
        for who in (*_WHO, _OFF)
    }
    rows = (("a call, awaited", _TIME, "p50"), ("a thousand calls", _CALLS, "calls"))
    return Plan(
        name="observing",
        question="What it costs to observe calls",
        notes=_NOTES,
        jobs=list(jobs.values()),
        cases=[
            Case(
                section=looks,
                title=title,
                unit=unit,
                cells={
                    OURS: f"{jobs[who].name}/{figure}",
                    _OFF: f"{jobs[_OFF].name}/{figure}",
                },
                targets=_targets(unit, bound),
            )
            for who, (looks, bound) in _WHO.items()
            for title, unit, figure in rows
        ],
    )


def _targets(unit: Unit, bound: float | None) -> tuple[Target, ...]:
    if bound is None or (unit is _CALLS and bound > _WHO["removed"][1]):
        return ()  # what a burst pays is told, and is no goal
    return (Target(bound=1 / bound if unit is _CALLS else bound, against=_OFF),)


@actorlib.remote
class Echo:
    """An actor that gives back what it is given."""

    def ping(self, x: int) -> int:
        """The same."""
        return x


class _Nothing:
    """A middleware that does nothing."""

    def before(self, _: object) -> None: ...

    def after(self, _: object, __: object, ___: object) -> None: ...


def _observer(who: str) -> Any:
    if who == "metrics":
        from prometheus_client import CollectorRegistry

        from actorlib.observe import prometheus

        return prometheus(CollectorRegistry())
    if who == "spans":
        from actorlib.observe import opentelemetry

        return opentelemetry()
    return _Nothing()


def measure_actorlib(who: str, trips: int) -> Figures:
    """Measures calls of one actor, with or without an observer."""

    async def measured() -> Figures:
        async with actorlib.init(num_cpus=2) as runtime:
            actor = await Echo.remote()
            if who != _OFF:
                observer = _observer(who)
                runtime.add_middleware(observer)
                await actor.ping.remote(0)
                if who == "removed":
                    runtime.remove_middleware(observer)
            times: list[float] = []
            for number in range(trips):
                begun = time.perf_counter()
                await actor.ping.remote(number)
                times.append(time.perf_counter() - begun)
            windows: list[float] = []
            for _ in range(trips // 50):
                begun = time.perf_counter()
                await asyncio.gather(*map(actor.ping.remote, range(WINDOW)))
                windows.append(time.perf_counter() - begun)
            return {
                "p50": round_trips(times)["p50"],
                "calls": pipelined(windows)["rate"],
            }

    return actorlib.run(measured())


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
