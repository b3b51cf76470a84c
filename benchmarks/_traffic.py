"""What is told of calls: round trips, and many calls under way at once."""

from collections.abc import Iterable
from typing import Final

from benchmarks._cases import Case, Panel, Unit

RATE: Final = Unit(name="calls/s", more_is_better=True)
UNITS: Final = {
    "p50": Unit(name="us", scale=1e6),
    "p99": Unit(name="us", scale=1e6),
    "rate": RATE,
}
SECTIONS: Final = {
    "p50": "round trip, median",
    "p99": "round trip, 99th percentile",
    "rate": "pipelined in windows of 1,000",
}
"""By figure, what its rows have in common."""


def panels(cases: Iterable[Case]) -> list[Panel]:
    """A part of the plot for each figure."""
    shown = list(cases)
    return [
        Panel(
            title=section,
            cases=[case for case in shown if case.section == section],
            is_logarithmic=True,
        )
        for section in SECTIONS.values()
    ]
