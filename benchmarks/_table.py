"""Results as a table for a terminal."""

from collections.abc import Iterator, Sequence
from io import StringIO

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks._cases import COLUMNS, OURS, Case, Plan
from benchmarks._curve import sketch
from benchmarks._figures import (
    ahead,
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

_WIDTH = 320
_MARKS = {True: "[green]yes[/]", False: "[red]no[/]", None: "[dim]not measured[/]"}

_READING = (
    "Cells: median of the rounds, then min..max; in brackets the ratio of actorlib, "
    "computed for each round. Targets: the goal, and the result."
)


def show(outcomes: Sequence[Outcome], machine: str) -> None:
    """Prints one table of all, what it needs to be read, and what failed."""
    console = Console()
    _print(outcomes, machine, console if console.is_terminal else Console(width=_WIDTH))


def text_of(outcomes: Sequence[Outcome], machine: str) -> str:
    """The same as plain text."""
    text = StringIO()
    _print(outcomes, machine, Console(file=text, width=_WIDTH))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def columns_of(plans: Sequence[Plan]) -> list[str]:
    """Whose figures stand in the rows of these plans, in the order of showing."""
    cases = [case for plan in plans for case in plan.cases]
    return [name for name in COLUMNS if any(name in case.cells for case in cases)]


def who_is_ahead(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """For each peer that does something better than actorlib, what and how much."""
    found: dict[str, list[str]] = {}
    for outcome in outcomes:
        for case in outcome.plan.cases:
            where = f"{outcome.plan.name}: {case.section}, {case.title}"
            for peer, times in ahead(case, outcome.samples).items():
                found.setdefault(peer, []).append(f"{where} ({multiple(times)})")
    for peer, cases in found.items():
        yield f"{peer} does better in {'; '.join(cases)}"


def _print(outcomes: Sequence[Outcome], machine: str, console: Console) -> None:
    console.print(_table(outcomes))
    for outcome in outcomes:
        for curve in outcome.plan.curves:
            for line in sketch(curve, outcome.samples):
                console.print(line, markup=False, highlight=False, no_wrap=True)
    for line in _footnotes(outcomes, machine):
        console.print(line, style="dim", markup=False, highlight=False)
    for outcome in outcomes:
        for name, failure in outcome.samples.failures.items():
            line = f"{outcome.plan.name}: {name} failed: {failure}"
            console.print(line, style="red", markup=False)


def _footnotes(outcomes: Sequence[Outcome], machine: str) -> Iterator[str]:
    yield _READING
    for outcome in outcomes:
        yield from (f"{outcome.plan.name}: {note}" for note in outcome.plan.notes)
    yield from who_is_ahead(outcomes)
    yield f"Machine: {machine}"
    took = ", ".join(f"{each.plan.name} {each.seconds:.0f} s" for each in outcomes)
    yield f"Took: {took}"


def _table(outcomes: Sequence[Outcome]) -> Table:
    plans = [outcome.plan for outcome in outcomes]
    title = plans[0].question if len(plans) == 1 else "Every question"
    columns = columns_of(plans)
    table = Table(title=title, title_justify="left")
    table.add_column("case")
    table.add_column("unit", no_wrap=True)
    for name in columns:
        style = "bold" if name == OURS else ""
        table.add_column(name, justify="right", style=style)
    table.add_column("target")
    for outcome in outcomes:
        section = ""
        for case in outcome.plan.cases:
            if case.section != section:
                section = case.section
                table.add_section()
                asks = f"{outcome.plan.name}: " if len(plans) > 1 else ""
                table.add_row(f"[bold]{escape(asks + section)}[/]")
            table.add_row(
                f"  {escape(case.title)}",
                case.unit.name,
                *(_cell(case, name, outcome.samples) for name in columns),
                _targets(case, outcome.samples),
            )
    return table


def _cell(case: Case, column: str, samples: Samples) -> str:
    if column not in case.cells:
        return ""
    found = spread(case, column, samples)
    if found is None:
        why = unmeasured(case, column, samples)
        return f"[{'red' if why == 'failed' else 'dim'}]{why}[/]"
    shown = case.unit.show
    text = shown(found.median)
    if found.low != found.high:
        text += f" [dim not bold]{shown(found.low)}..{shown(found.high)}[/]"
    beside = ratio(case, column, samples) if column != OURS else None
    if beside is not None:
        text += f" ({multiple(beside.median)})"
    if column in case.remarks:
        text += f" [dim]{escape(case.remarks[column])}[/]"
    return text


def _targets(case: Case, samples: Samples) -> str:
    lines: list[str] = []
    for target in case.targets:
        found = reached(case, target, samples)
        parts = [describe(case, target)]
        if found is not None and target.against is not None:
            parts[0] += f": {multiple(found.median)}"
        lines.append(" ".join((*parts, _MARKS[verdict(case, target, samples)])))
    return "\n".join(lines)
