"""A benchmark as a table for people."""

from rich.console import Console
from rich.table import Table

from benchmarks._cases import (
    COLUMNS,
    FLOOR,
    OURS,
    RAY,
    SCAN,
    SMALLEST,
    Case,
    Plan,
    describe,
    ratio,
    spread,
    verdict,
)
from benchmarks._curve import sketch
from benchmarks._jobs import Samples

_RATIOS = {
    OURS: (SMALLEST, f"/ {SMALLEST}"),
    FLOOR: (FLOOR, "/ floor"),
    SCAN: (SCAN, "/ scan"),
    RAY: (RAY, "/ Ray"),
}
"""By column, what ours is divided by in the column behind it, and its heading."""

_WIDTH = 220
_MARKS = {True: "[green]yes[/]", False: "[red]no[/]", None: "[dim]not measured[/]"}


def show(plan: Plan, samples: Samples, machine: str) -> None:
    """Prints the table, what it needs to be read, and what failed."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH)
    console.print(_table(plan, samples))
    for curve in plan.curves:
        for line in sketch(curve, samples):
            console.print(line, markup=False, highlight=False, no_wrap=True)
    for line in (*plan.notes, f"Machine: {machine}"):
        console.print(line, style="dim", markup=False, highlight=False)
    for name, failure in samples.failures.items():
        console.print(f"{name} failed: {failure}", style="red", markup=False)


def _table(plan: Plan, samples: Samples) -> Table:
    columns = [
        name for name in COLUMNS if any(name in case.cells for case in plan.cases)
    ]
    table = Table(title=plan.question, title_justify="left")
    ratios = {
        name: (against, heading)
        for name, (against, heading) in _RATIOS.items()
        if any(against in case.cells for case in plan.cases)
    }
    table.add_column("case", no_wrap=True)
    table.add_column("unit")
    for name in columns:
        style = "bold" if name == OURS else ""
        table.add_column(name, justify="right", style=style, no_wrap=True)
        if name in ratios:
            table.add_column(ratios[name][1], justify="right")
    table.add_column("target")
    section = ""
    for case in plan.cases:
        if case.section != section:
            section = case.section
            table.add_section()
            table.add_row(f"[bold]{section}[/]")
        cells: list[str] = []
        for name in columns:
            cells.append(_figure(case, name, samples))
            if name in ratios:
                cells.append(_ratio(case, ratios[name][0], samples))
        table.add_row(
            f"  {case.title}", case.unit.name, *cells, _targets(case, samples)
        )
    return table


def _figure(case: Case, column: str, samples: Samples) -> str:
    if column not in case.cells:
        return ""
    found = spread(case, column, samples)
    if found is None:
        return "[red]failed[/]"
    show_value = case.unit.show
    ends = f"{show_value(found.low)}..{show_value(found.high)}"
    return f"{show_value(found.median)} [dim not bold]{ends}[/]"


def _ratio(case: Case, column: str, samples: Samples) -> str:
    found = ratio(case, column, samples)
    if found is None:
        return ""
    if found.median < 1:
        return f"{found.median:.1%}"
    return f"{found.median:.3g} x"


def _targets(case: Case, samples: Samples) -> str:
    return "\n".join(
        f"{describe(case, target)} {_MARKS[verdict(case, target, samples)]}"
        for target in case.targets
    )
