"""Targets and results as a table in Markdown."""

from collections.abc import Iterator, Sequence

from benchmarks._cases import OURS, Case
from benchmarks._figures import (
    describe,
    multiple,
    ratio,
    reached,
    spread,
    unmeasured,
    verdict,
)
from benchmarks._jobs import Samples
from benchmarks._run import Outcome
from benchmarks._table import columns_of, who_is_ahead

_MARKS = {True: "yes", False: "**no**", None: "not measured"}


def targets_of(outcomes: Sequence[Outcome], machine: str) -> str:
    """The rows that have a target, in the tables of Markdown; medians alone."""
    columns = columns_of([outcome.plan for outcome in outcomes])
    head = ["what", *columns, "target", "met"]
    lines = [_row(head), _row(["---"] * len(head))]
    for outcome in outcomes:
        for case in outcome.plan.cases:
            lines += _rows(case, columns, outcome.samples)
    better = [line for peer in who_is_ahead(outcomes) for line in ("", f"{peer}.")]
    return "\n".join((*lines, *better, "", f"Measured on {machine}."))


def _rows(case: Case, columns: Sequence[str], samples: Samples) -> Iterator[str]:
    """One for each target; what was measured stands in the first."""
    for number, target in enumerate(case.targets):
        cells = [f"{case.section}: {case.title}"]
        cells += [_cell(case, column, samples) for column in columns]
        if number:
            cells = [""] * len(cells)
        wish = describe(case, target)
        found = reached(case, target, samples)
        if found is not None and target.against is not None:
            wish += f": {multiple(found.median)}"
        yield _row([*cells, wish, _MARKS[verdict(case, target, samples)]])


def _cell(case: Case, column: str, samples: Samples) -> str:
    if column not in case.cells:
        return ""
    found = spread(case, column, samples)
    if found is None:
        return unmeasured(case, column, samples)
    text = case.unit.show(found.median)
    if column == OURS:
        text = f"{text} {case.unit.name}".rstrip()
    elif (beside := ratio(case, column, samples)) is not None:
        text += f" ({multiple(beside.median)})"
    return " ".join(filter(None, (text, case.remarks.get(column, ""))))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
