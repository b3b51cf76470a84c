"""Measures whether the thousandth actor is placed as fast as the first.

Run it with ``python -m benchmarks.many_actors``.
"""

import asyncio
import os
import time
from typing import Any, Final

import actorlib
from benchmarks._cases import OURS, Case, Curve, Job, Plan, Scale, Target, Unit
from benchmarks._memory import touch
from benchmarks._subject import Figures, distinct, main

_HUNDREDS: Final = 10
_RATE = Unit(name="actors/s", more_is_better=True)
_FIRST: Final = "the first hundred"
"""actorlib without other living actors, for comparison."""

_EACH: Final = 5 * 2**20
"""More bytes than the machine needs for an actor: 3 MiB, the kernel's among them."""

_NOTES = (
    "Fractional actors, created a hundred at a time, until the last first answer of a "
    "hundred. All earlier ones stay alive.",
    "Before, the benchmark writes and frees the memory that all of them need. "
    "Otherwise a virtual machine requests each new page from its host, which slows "
    "down the later hundreds of any runtime.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows, quick or not: it takes seconds."""
    del scale
    alive = [hundred * 100 for hundred in range(1, _HUNDREDS + 1)]
    cells = {size: f"{OURS}/rate {size}" for size in alive}
    return Plan(
        name="many_actors",
        question="A thousand actors alive",
        notes=_NOTES,
        jobs=[
            Job(
                name=OURS,
                subject="many_actors.actorlib",
                arguments={"hundreds": _HUNDREDS},
            )
        ],
        cases=[
            Case(
                section="a hundred actors to their first answers",
                title=f"with {size - 100:,} others alive",
                unit=_RATE,
                cells={OURS: cells[size], _FIRST: cells[alive[0]]},
                targets=(Target(bound=0.8, against=_FIRST),)
                if size == alive[-1]
                else (),
            )
            for size in (alive[0], alive[-1])
        ],
        curves=[
            Curve(
                title="placement while others live",
                across="actors alive",
                unit=_RATE,
                lines={OURS: cells},
                is_linear=True,
            )
        ],
    )


_HUNDRED: Final = 100


@actorlib.remote(num_gpus=0.001)
class Where:
    """An actor that says where it is."""

    def pid(self) -> int:
        """The process it lives in."""
        return os.getpid()


def measure_actorlib(hundreds: int) -> Figures:
    """Actors to their first answers, a hundred at a time, while all the others live."""
    touch(hundreds * _HUNDRED * _EACH)

    async def measured() -> Figures:
        metrics: Figures = {}
        pids: list[int] = []
        alive: list[Any] = []
        async with actorlib.init(num_gpus=8):
            for hundred in range(1, hundreds + 1):
                begun = time.perf_counter()
                some = [Where.remote() for _ in range(_HUNDRED)]
                pids += await asyncio.gather(*(actor.pid.remote() for actor in some))
                rate = _HUNDRED / (time.perf_counter() - begun)
                metrics[f"rate {hundred * _HUNDRED}"] = rate
                alive += some
            distinct(pids, len(alive))
        return metrics

    return actorlib.run(measured())


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
