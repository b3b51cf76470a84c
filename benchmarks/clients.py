"""Measures calls of a client, a program attached to the runtime of another one.

It is compared with the same call made by the program that has the runtime, in turns in
the same run. A round trip is one call awaited before the next is made; pipelined calls
are made in windows of 1,000.

Run it with ``python -m benchmarks.clients``.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import actorlib
from benchmarks._cases import OURS, OWNER, Case, Job, Plan, Scale, Target
from benchmarks._subject import WINDOW, Figures, main, pipelined, prefixed, round_trips
from benchmarks._traffic import SECTIONS, UNITS, Traffic, panels

_TURNS: Final = 10
_GOALS: Final = {"p50": (Target(bound=1.2, against=OWNER),)}
_SORTS: Final = {"sync": "a plain method", "async": "an async method"}

_NOTES = (
    "Cells: median of the rounds, then min..max. Ratios are computed for each round.",
    "from the owner: the program with the runtime calls the same actor, on uvloop in "
    f"the same run; both call in turns, {_TURNS} each.",
    "From the fifth call on, a client uses a link to the actor. No process is bound to "
    "a CPU.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    trips, windows = (1500, 10) if scale.is_quick else (5000, 30)
    job = Job(
        name=OURS,
        subject="clients.actorlib",
        arguments={"trips": trips, "windows": windows},
    )
    cases = [
        Case(
            section=section,
            title=title,
            unit=UNITS[figure],
            cells={
                OURS: f"{OURS}/{sort} {figure}",
                OWNER: f"{OURS}/owner {sort} {figure}",
            },
            targets=_GOALS.get(figure, ()),
        )
        for figure, section in SECTIONS.items()
        for sort, title in _SORTS.items()
    ]
    return Plan(
        name="clients",
        question="Calls of a client",
        notes=_NOTES,
        jobs=[job],
        cases=cases,
        panels=panels(cases),
    )


@actorlib.remote
class Plain:
    """An actor with a plain method."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


@actorlib.remote
class Looped:
    """The same with an async method."""

    async def echo(self, value: int) -> int:
        """The value."""
        return value


_MADE: Final = {"sync": Plain, "async": Looped}


async def _trips(other: Any, count: int) -> list[float]:
    times: list[float] = []
    for value in range(count):
        begun = time.perf_counter()
        await other.echo.remote(value)
        times.append(time.perf_counter() - begun)
    return times


async def _windows(other: Any, count: int) -> list[float]:
    times: list[float] = []
    for _ in range(count):
        begun = time.perf_counter()
        await asyncio.gather(*(other.echo.remote(value) for value in range(WINDOW)))
        times.append(time.perf_counter() - begun)
    return times


_MEASURES: Final = {"trips": _trips, "windows": _windows}


def measure_client(name: str) -> Figures:
    """Serves the program that measures: the client, in a process of its own.

    It reads what to measure, a line each, and writes the times.
    """

    async def served() -> Figures:
        async with actorlib.attach(name):
            while line := await asyncio.to_thread(sys.stdin.readline):
                sort, what, count = json.loads(line)
                times = await _MEASURES[what](actorlib.get_actor(sort), count)
                print(json.dumps(times), flush=True)
        return {}

    return actorlib.run(served())


_Ask: TypeAlias = Callable[[str, str, int], list[float]]


async def _pair(sort: str, other: Any, ask: _Ask, traffic: Traffic) -> Figures:
    """Figures of calls by the client, and by the owner, in turns."""
    told: dict[tuple[str, str], list[float]] = {}
    for _ in range(_TURNS):
        for what, all_of_them in (
            ("trips", traffic.trips),
            ("windows", traffic.windows),
        ):
            count = max(1, all_of_them // _TURNS)
            theirs = await asyncio.to_thread(ask, sort, what, count)
            told.setdefault((OURS, what), []).extend(theirs)
            own = await _MEASURES[what](other, count)
            told.setdefault((OWNER, what), []).extend(own)
    found = {
        who: round_trips(told[who, "trips"]) | pipelined(told[who, "windows"])
        for who in (OURS, OWNER)
    }
    return prefixed(sort, found[OURS]) | prefixed(f"owner {sort}", found[OWNER])


def measure_actorlib(**told: Any) -> Figures:
    """Calls of an actor by a client, and by the owner."""
    traffic, name = Traffic(**told), f"benchmark-{os.getpid()}"

    async def measured() -> Figures:
        figures: Figures = {}
        async with actorlib.init(num_cpus=4, name=name):
            made = {
                sort: await kind.options(name=sort).remote()
                for sort, kind in _MADE.items()
            }
            told = json.dumps({"name": name})
            command = [sys.executable, "-m", "benchmarks.clients"]
            with subprocess.Popen(  # noqa: ASYNC220  # nothing is timed yet
                [*command, "--subject", "client", told],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            ) as client:
                assert client.stdin is not None
                assert client.stdout is not None
                asks, answers = client.stdin, client.stdout

                def ask(*question: object) -> list[float]:
                    print(json.dumps(question), file=asks, flush=True)
                    return json.loads(answers.readline())

                for sort, actor in made.items():
                    figures |= await _pair(sort, actor, ask, traffic)
                asks.close()
                answers.read()  # it has something to say at its end, too
        return figures

    return actorlib.run(measured())


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
    "client": measure_client,
}
"""The subjects, each measured in its own interpreter; the first starts the client."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
