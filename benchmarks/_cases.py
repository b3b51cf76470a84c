"""The plan of a benchmark: rows of its table, parts of its plot, targets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

OURS: Final = "actorlib"
FLOOR: Final = "floor"
LOADED_FLOOR: Final = "loaded floor"
"""The same floor for a process with the imports of our template."""

RAY: Final = "Ray"
XOSCAR: Final = "xoscar"
DASK: Final = "distributed"
ON_RAY: Final = "actorlib on Ray"
POOL: Final = "process pool"
FORKSERVER: Final = "forkserver pool"
SCAN: Final = "list scan"
OWNER: Final = "from the owner"
"""actorlib, with calls from the program instead of an actor."""

PEERS: Final = (RAY, XOSCAR, DASK, POOL, FORKSERVER)
"""Libraries that do the same work."""

COLUMNS: Final = (OURS, OWNER, ON_RAY, FLOOR, LOADED_FLOOR, SCAN, *PEERS)
"""The subjects, in the order of their columns.

A cell may have another name: actorlib in an easier situation, for comparison only.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One subject with its arguments.

    Attributes:
        name: What it is called in progress and in the names of its figures.
        subject: Its question and its name there: ``calls.ray``.
        arguments: What the subject is told; JSON.
        limit: Seconds after which it is ended and counts as failed.
        peer: Whose figures these are, or nothing: ours, or a floor's.
        absence: Why it cannot be run here, or nothing.
    """

    name: str
    subject: str
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    limit: float = 300.0
    peer: str = ""
    absence: str = ""


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
        remarks: By column, what makes a figure differ from the others of its row.
    """

    section: str
    title: str
    unit: Unit
    cells: Mapping[str, str]
    targets: tuple[Target, ...] = ()
    remarks: Mapping[str, str] = field(default_factory=dict[str, str])


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is asked of a run.

    Attributes:
        is_quick: Whether it is to take a minute and not several.
    """

    is_quick: bool


MakePlan = Callable[[Scale], Plan]
"""Makes the plan of a benchmark for a scale."""
