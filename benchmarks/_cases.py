"""The rows of a table: what was measured, how it compares, what is aimed at."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks._jobs import Job, Samples

OURS: Final = "actorlib"
FLOOR: Final = "floor"
RAY: Final = "Ray"
ON_RAY: Final = "actorlib on Ray"
POOL: Final = "process pool"
FORKSERVER: Final = "forkserver pool"
SCAN: Final = "list scan"
SMALLEST: Final = "10 devices"
"""Ourselves on the smallest machine: to compare with, not to show."""

COLUMNS: Final = (OURS, ON_RAY, FLOOR, SCAN, RAY, POOL, FORKSERVER)
"""Who is measured, in the order in which they are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """In what a figure is shown.

    Attributes:
        name: What stands behind the number.
        scale: What a figure is multiplied by to be shown.
        more_is_better: Whether it is a rate and not a cost.
    """

    name: str
    scale: float = 1.0
    more_is_better: bool = False

    def show(self, value: float) -> str:
        """The number without the unit, to three figures or more."""
        shown = value * self.scale
        digits = 0 if shown >= 100 else 1 if shown >= 10 else 2
        return f"{shown:,.{digits}f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What actorlib is to reach.

    Attributes:
        bound: The least of a rate and the most of a cost: a multiple of what the other
            one reaches, or, if there is no other, a figure.
        against: A column, or None.
    """

    bound: float
    against: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One row: the same work, done by several.

    Attributes:
        section: What the rows around it have in common.
        title: What it is, in its section.
        unit: In what its figures are shown.
        cells: By column, whose figure stands there: ``job/metric``.
        targets: What is aimed at.
    """

    section: str
    title: str
    unit: Unit
    cells: Mapping[str, str]
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The middle and the ends of what several rounds gave."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One part of a plot: cases side by side."""

    title: str
    cases: Sequence[Case]
    is_logarithmic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One part of a plot: how figures change with a size.

    Attributes:
        title: What is drawn.
        across: What the size counts.
        unit: In what the figures are shown.
        lines: By name, the first in front; each by size, whose figure stands there:
            ``job/metric``.
        is_linear: Whether the plot shows both from zero, and not on logarithmic scales;
            text has those always.
    """

    title: str
    across: str
    unit: Unit
    lines: Mapping[str, Mapping[int, str]]
    is_linear: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A whole benchmark: what is run, and what is shown of it.

    Attributes:
        name: Its name in the JSON line and of its plot.
        question: What it asks, in one line.
        notes: What a reader of the table has to know.
        jobs: What is run in each round, in this order.
        cases: The rows of the table.
        panels: The parts of the plot.
        curves: More parts of the plot; drawn under the table, too.
    """

    name: str
    question: str
    notes: tuple[str, ...]
    jobs: Sequence[Job]
    cases: Sequence[Case]
    panels: Sequence[Panel] = field(default_factory=list[Panel])
    curves: Sequence[Curve] = field(default_factory=list[Curve])


def spread(case: Case, column: str, samples: Samples) -> Spread | None:
    """What was measured for one cell, or None if nothing was."""
    found = _values(case, column, samples)
    return _spread([value for value in found if value is not None])


def points(curve: Curve, line: str, samples: Samples) -> dict[int, Spread]:
    """What was measured for one line, by size, ascending; what failed is left out."""
    found = {
        size: _spread([value for value in samples.figures.get(cell, []) if value])
        for size, cell in sorted(curve.lines[line].items())
    }
    return {size: value for size, value in found.items() if value is not None}


def ratio(case: Case, against: str, samples: Samples) -> Spread | None:
    """Ours as a multiple of another's, round by round; None if there is no such pair.

    Both figures of a pair were taken within a short time, so this is steadier than the
    ratio of the medians.
    """
    pairs = zip(
        _values(case, OURS, samples), _values(case, against, samples), strict=False
    )
    return _spread([ours / theirs for ours, theirs in pairs if ours and theirs])


def verdict(case: Case, target: Target, samples: Samples) -> bool | None:
    """Whether a target is reached; None if it was not measured."""
    if target.against is None:
        reached = spread(case, OURS, samples)
    else:
        reached = ratio(case, target.against, samples)
    if reached is None:
        return None
    if case.unit.more_is_better:
        return reached.median >= target.bound
    return reached.median <= target.bound


def describe(case: Case, target: Target) -> str:
    """A target in words, for the table."""
    sign = ">=" if case.unit.more_is_better else "<="
    if target.against is None:
        return f"{sign} {target.bound * case.unit.scale:g} {case.unit.name}"
    if target.bound < 1:
        return f"{sign} {target.bound:.0%} of {target.against}"
    return f"{sign} {target.bound:g} x {target.against}"


def report(case: Case, samples: Samples) -> dict[str, object]:
    """A case as JSON; figures in base units: seconds, bytes, per second."""
    others = [column for column in case.cells if column != OURS]
    return {
        "section": case.section,
        "case": case.title,
        "more_is_better": case.unit.more_is_better,
        "figures": _each(case.cells, lambda name: spread(case, name, samples)),
        "ratios": _each(others, lambda name: ratio(case, name, samples)),
        "targets": [
            {
                "target": describe(case, target),
                "reached": verdict(case, target, samples),
            }
            for target in case.targets
        ],
    }


def _each(
    columns: Mapping[str, str] | Sequence[str], find: Callable[[str], Spread | None]
) -> dict[str, object]:
    found = {column: find(column) for column in columns}
    return {
        column: {"median": value.median, "min": value.low, "max": value.high}
        for column, value in found.items()
        if value is not None
    }


def _values(case: Case, column: str, samples: Samples) -> list[float | None]:
    return samples.figures.get(case.cells.get(column, ""), [])


def _spread(values: Sequence[float]) -> Spread | None:
    if not values:
        return None
    return Spread(median=statistics.median(values), low=min(values), high=max(values))
