"""Whether calls a second grow with actors and cores: one to four, and four to four.

Pairs are actors that call actors, each a window of 1,000 at a time: as many pairs as
there are get in the way of one another only where processes share a core, or where the
owner stands between them.

Run it with ``python -m benchmarks.fan``.
"""

from typing import Final

from benchmarks._cases import OURS, RAY, Case, Panel, Plan, Target, Unit
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job
from benchmarks._machine import cores

_RATE = Unit(name="calls/s", more_is_better=True)
_SHARE = Unit(name="% CPU", scale=100)

_ONE: Final = "one to one"
_PAIR: Final = "one pair"
_FEWER: Final = {_ONE: f"{OURS}/one", _PAIR: f"{OURS}/pair"}
"""Ourselves with fewer actors: to compare with, not to show beside the others."""

_PAIRS: Final = 4
_LOSS: Final = 0.8
"""What is left of each part when there are several."""

_NOTES = (
    "Windows of 1,000 calls that end in one gather (Ray: one ray.get). The pairs scale "
    "if they reach as many times the rate of one pair as there are pairs of cores, "
    "less a fifth.",
    "Callers keep the handle that they were made with: who drops it and gets it anew "
    "is introduced anew, and calls by way of the owner until then.",
    "CPU of the owner: what the process of the runtime spends while the pairs call "
    "one another, of one CPU (Ray: the driver).",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
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
        name="fan",
        question="Calls of several actors",
        notes=_NOTES,
        jobs=[
            Job(name=OURS, subject="fan_actorlib", arguments={"windows": windows}),
            Job(
                name=RAY,
                subject="fan_ray",
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


if __name__ == "__main__":
    conduct(make_plan)
