"""What changes when a program moves to a cluster: the same one on both engines.

The cluster is one machine, this one, and the network is its own loop: what is measured
is what Ray costs where it is nearest.

Run it with ``python -m benchmarks.engines``.
"""

from typing import Final

from benchmarks._cases import ON_RAY, OURS, Case, Panel, Plan, Unit
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job

_TIME = Unit(name="ms", scale=1e3)
_TRIP = Unit(name="us", scale=1e6)
_RATE = Unit(name="calls/s", more_is_better=True)
_ROWS: Final = (
    ("start", "start the runtime", _TIME),
    ("first", "first actor ready", _TIME),
    ("eight", "8 more actors ready", _TIME),
    ("p50", "call, median", _TRIP),
    ("p99", "call, 99th percentile", _TRIP),
    ("rate", "calls in windows of 1,000", _RATE),
    ("large", "call with 10 MB", _TIME),
    ("stop", "stop the runtime", _TIME),
)

_NOTES = (
    "Cells: median of the rounds, then min..max. Ratios are taken round by round.",
    "The same program, once with engine='local' and once with engine='ray', which "
    "starts a cluster of one machine.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    asked = (
        {"trips": 500, "windows": 5}
        if scale.is_quick
        else {
            "trips": 2000,
            "windows": 10,
        }
    )
    engines = {OURS: "local", ON_RAY: "ray"}
    cases = [
        Case(
            section="the same program",
            title=title,
            unit=unit,
            cells={column: f"{column}/{figure}" for column in engines},
        )
        for figure, title, unit in _ROWS
    ]
    return Plan(
        name="engines",
        question="One program on both engines",
        notes=_NOTES,
        jobs=[
            Job(
                name=column,
                subject="engines_program",
                arguments={"engine": engine, **asked},
                peer="ray" if engine == "ray" else "",
            )
            for column, engine in engines.items()
        ],
        cases=cases,
        panels=[
            Panel(title="the same program", cases=cases[:3], is_logarithmic=True),
            Panel(title="a call", cases=cases[3:5], is_logarithmic=True),
        ],
    )


if __name__ == "__main__":
    conduct(make_plan)
