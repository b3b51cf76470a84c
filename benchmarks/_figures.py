"""The figures of a case: medians, ratios, and verdicts on targets."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks._cases import OURS, PEERS, Case, Curve, Target
from benchmarks._jobs import Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The middle and the ends of what several rounds gave."""

    median: float
    low: float
    high: float


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


def unmeasured(case: Case, column: str, samples: Samples) -> str:
    """Why a cell without a figure has none, in a word or two."""
    job = case.cells[column].rpartition("/")[0]
    return samples.absences.get(job, "failed")


def reached(case: Case, target: Target, samples: Samples) -> Spread | None:
    """What stands against the bound of a target; None if it was not measured."""
    if target.against is None:
        return spread(case, OURS, samples)
    return ratio(case, target.against, samples)


def verdict(case: Case, target: Target, samples: Samples) -> bool | None:
    """Whether a target is reached; None if it was not measured."""
    found = reached(case, target, samples)
    if found is None:
        return None
    if case.unit.more_is_better:
        return found.median >= target.bound
    return found.median <= target.bound


def times_better(case: Case, column: str, samples: Samples) -> float | None:
    """How many times better ours is than another's; below one it is worse."""
    found = ratio(case, column, samples)
    if found is None:
        return None
    return found.median if case.unit.more_is_better else 1 / found.median


def ahead(case: Case, samples: Samples) -> dict[str, float]:
    """The peers that do better than we do, and how many times."""
    found = {peer: times_better(case, peer, samples) for peer in PEERS}
    return {peer: 1 / times for peer, times in found.items() if times and times < 1}


def describe(case: Case, target: Target) -> str:
    """A target in words, for the table."""
    sign = ">=" if case.unit.more_is_better else "<="
    if target.against is None:
        return f"{sign} {target.bound * case.unit.scale:g} {case.unit.name}".rstrip()
    if target.bound < 1:
        return f"{sign} {target.bound:.0%} of {target.against}"
    return f"{sign} {target.bound:g} x {target.against}"


def multiple(value: float) -> str:
    """A ratio in words: a share below one, a multiple above."""
    return f"{value:.1%}" if value < 1 else f"{value:.3g} x"


def report(case: Case, samples: Samples) -> dict[str, object]:
    """A case as JSON; figures in base units: seconds, bytes, per second."""
    others = [column for column in case.cells if column != OURS]
    return {
        "section": case.section,
        "case": case.title,
        "more_is_better": case.unit.more_is_better,
        "figures": _each(case.cells, lambda name: spread(case, name, samples)),
        "ratios": _each(others, lambda name: ratio(case, name, samples)),
        "unmeasured": {
            column: unmeasured(case, column, samples)
            for column in case.cells
            if spread(case, column, samples) is None
        },
        "remarks": dict(case.remarks),
        "targets": [
            {
                "target": describe(case, target),
                "reached": verdict(case, target, samples),
            }
            for target in case.targets
        ],
    }


def _each(
    columns: Iterable[str], find: Callable[[str], Spread | None]
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
