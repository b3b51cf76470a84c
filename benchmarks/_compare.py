"""``python -m benchmarks compare OLD NEW``: compares the costs of two versions.

Ctrl-C ends it early, with the table of what was measured until then.

Both versions are measured by the subjects of this checkout, in turns (A B B A ...),
each in a fresh interpreter. OLD and NEW are folders with a checkout, or commits of this
repository. Dependencies are those of the running interpreter. The package is run as
source: files that were compiled in place count if the folder has them.
"""

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from benchmarks._bytecode import compile_package
from benchmarks._cases import Job
from benchmarks._intervals import Comparison, compare
from benchmarks._jobs import ROOT, JobError, measure
from benchmarks._leftovers import adopt_orphans
from benchmarks._machine import this_machine
from benchmarks._quiet import QUIET, await_quiet, others_share, usage

_ROUNDS: Final = 20
_PATIENCE: Final = 60.0
"""Seconds for which a measurement waits for a quiet machine, unless asked otherwise."""

_SLOWER: Final = 1.03
"""A row counts as worse if its whole interval is above, better if below the inverse."""

_FEWEST: Final = 5
"""Rounds below which no row counts as worse or better."""

_ROLES: Final = ("owner", "worker", "template")
_SIDES: Final = ("old", "new")

_MB: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the comparison.

    Attributes:
        title: What is done.
        figure: The figure of the job that holds the cost, or the rate.
        unit: The unit of the cost.
        scale: What a cost is multiplied by to be shown.
        is_rate: Whether the figure is operations a second; its inverse is the cost.
        cpu: The row of the subject that has CPU times of each process, or nothing.
    """

    title: str
    figure: str
    unit: str = "us"
    scale: float = 1e6
    is_rate: bool = False
    cpu: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One job and the rows that it fills."""

    job: Job
    rows: tuple[Row, ...]


@dataclass(slots=True)
class Measurements:
    """Costs by side and figure, one for each round; None where it failed.

    Attributes:
        costs: By side, then by ``job/figure``.
        failures: By side and job, the last reason.
        others: The shares of the machine that other programs used, for each
            measurement.
        rounds: The complete rounds; fewer than planned after Ctrl-C.
    """

    costs: dict[str, dict[str, list[float | None]]] = field(
        default_factory=lambda: {side: {} for side in _SIDES}
    )
    failures: dict[str, str] = field(default_factory=dict[str, str])
    others: list[float] = field(default_factory=list[float])
    rounds: int = 0

    def add(self, side: str, job: str, turn: int, figures: Mapping[str, float]) -> None:
        """Keeps the figures that a job has in a round, counted from 0."""
        for name, value in figures.items():
            values = self.costs[side].setdefault(f"{job}/{name}", [])
            values.extend([None] * (turn + 1 - len(values)))
            values[turn] = value

    def row(self, job: str, figure: str, *, is_rate: bool = False) -> Comparison | None:
        """Compares the costs of one figure."""
        old, new = (
            self._costs(side, f"{job}/{figure}", is_rate=is_rate) for side in _SIDES
        )
        return compare(old, new)

    def median(self, side: str, name: str, *, is_rate: bool) -> float | None:
        """The median cost of one side, or None if it was never measured."""
        costs = [
            cost
            for cost in self._costs(side, name, is_rate=is_rate)
            if cost is not None
        ]
        return statistics.median(costs) if costs else None

    def _costs(self, side: str, name: str, *, is_rate: bool) -> list[float | None]:
        values = self.costs[side].get(name, [])
        return [1 / value if is_rate and value else value for value in values]


def _work(subject: str, arguments: Mapping[str, object], *rows: Row) -> Work:
    name = f"{subject} {json.dumps(arguments)}"
    return Work(job=Job(name=name, subject=subject, arguments=arguments), rows=rows)


def _metered(title: str) -> Row:
    """A row of a subject in ``_compared``, which has CPU times."""
    return Row(title=title, figure=f"{title}/time", cpu=title)


def _slow(title: str, figure: str, *, is_rate: bool = False, cpu: str = "") -> Row:
    """A row in milliseconds."""
    return Row(
        title=title, figure=figure, unit="ms", scale=1e3, is_rate=is_rate, cpu=cpu
    )


def _placed(size: int, *imports: str) -> Work:
    wave = f"placement of {size}" + (" with " + ", ".join(imports) if imports else "")
    titles = (f"{wave}, right after init()", f"{wave}, later")
    return _work(
        "_compared.placement",
        {"size": size, "imports": imports},
        *(_slow(title, f"{title}/time", cpu=title) for title in titles),
    )


def _observed(who: str, title: str) -> Work:
    return _work(
        "observing.actorlib",
        {"who": who, "trips": 500},
        Row(title=f"round trip, {title}", figure="p50"),
        Row(title=f"pipelined, {title}", figure="calls", is_rate=True),
    )


def _decided(devices: int) -> Work:
    return _work(
        "ledger.actorlib",
        {"devices": devices, "seconds": 0.3, "machine": "plain"},
        Row(
            title=f"placement decision, {devices:,} devices",
            figure="shares",
            is_rate=True,
        ),
    )


def _program(program: str, title: str) -> Work:
    return _work(
        "whole_program.program",
        {"program": program, "times": 3},
        Row(title=title, figure="time", unit="s", scale=1.0),
    )


WORK: Final = (
    _work(
        "_compared.calls",
        {"trips": 400, "windows": 8},
        *map(
            _metered,
            (
                "round trip plain",
                "round trip async",
                "pipelined plain",
                "pipelined async",
                "reference as argument",
                "dict as argument and result",
                "call with headers",
                "nested",
                "one to four",
            ),
        ),
    ),
    _work(
        "actor_to_actor.actorlib",
        {"trips": 300, "windows": 4},
        Row(title="actor to actor, round trip plain", figure="sync p50"),
        Row(title="actor to actor, round trip async", figure="async p50"),
        Row(title="actor to actor, pipelined plain", figure="sync rate", is_rate=True),
        Row(title="four pairs, pipelined", figure="four sync rate", is_rate=True),
    ),
    _work(
        "_compared.functions",
        {"trips": 400, "windows": 8},
        _metered("function round trip"),
        _metered("function pipelined"),
    ),
    _work(
        "batches.actorlib",
        {"sizes": [10_000], "times": 5},
        Row(title="map over 10,000", figure="rate 10000", is_rate=True),
    ),
    _work(
        "_compared.streams",
        {"count": 5_000, "repeats": 3},
        _metered("stream item plain"),
        _metered("stream item async"),
    ),
    _placed(64),
    _placed(256),
    _placed(64, "numpy"),
    _work(
        "placement.actorlib",
        {"size": 8, "waves": 1, "method": "spawn"},
        _slow("actor, spawned", "cold", is_rate=True),
    ),
    _work(
        "first_answer.actorlib",
        {"times": 10},
        _slow("first answer in a running runtime", "time"),
    ),
    _work(
        "many_actors.actorlib",
        {"hundreds": 10},
        _slow("actor beside 900", "rate 1000", is_rate=True),
    ),
    _program("_with_actorlib", "program with one actor"),
    _program("_with_many", "program start to answers of 64"),
    _work(
        "idle.actorlib",
        {"actors": 16, "settle": 1.0, "seconds": 1.0},
        Row(title="memory of an idle actor", figure="actor", unit="MiB", scale=2**-20),
        Row(title="memory beside", figure="beside", unit="MiB", scale=2**-20),
    ),
    _work(
        "deaths.actorlib",
        {"callers": 100, "times": 7},
        _slow("death reported to 100 callers", "time"),
    ),
    _work(
        "payload.actorlib",
        {"sizes": [1_000, _MB, 64 * _MB], "trips": 60, "volume": 320 * _MB},
        *(
            Row(
                title=f"{text} as {way}",
                figure=f"{way} {size}",
                is_rate=True,
                scale=1e6 * size,
            )
            for text, size in (("1 KB", 1_000), ("1 MB", _MB), ("64 MB", 64 * _MB))
            for way in ("argument", "result")
        ),
    ),
    _work(
        "sharing.actorlib",
        {"nbytes": 256 * _MB, "actors": 8, "times": 3},
        _slow("256 MB to 8 actors", "time"),
        Row(title="256 MB to 8 actors, memory", figure="memory", unit="MB", scale=1e-6),
    ),
    _observed("off", "not observed"),
    _observed("metrics", "with metrics"),
    _decided(10),
    _decided(100_000),
)
"""Every row of docs/explanation/benchmarks.md, and rows for changes of the design."""


def main(words: Sequence[str]) -> None:
    """Runs the comparison that the command line asks for."""
    options = _parser().parse_args(words)
    work = [
        each
        for each in WORK
        if not options.rows
        or any(part in row.title for row in each.rows for part in options.rows)
    ]
    if not work:
        sys.exit(f"no row has {' or '.join(options.rows)!r} in its title")
    adopt_orphans()
    # As with Ctrl-C: the running subject ends, and folders are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with ExitStack() as stack:
        roots = {side: _root_of(getattr(options, side), stack) for side in _SIDES}
        results = _measure_all(work, roots, options.rounds, options.patience)
    print("\n".join(_table(work, results, options)))
    if options.json:
        options.json.write_text(json.dumps(_as_json(work, results), indent=1))
    if results.rounds < options.rounds:
        sys.exit(128 + signal.SIGINT)
    if not any(results.costs["new"].values()):
        sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks compare",
        description="Measures two versions in turns and prints the ratios of medians.",
    )
    for side in _SIDES:
        parser.add_argument(side, help="a folder with a checkout, or a commit")
    parser.add_argument(
        "--rounds", type=int, default=_ROUNDS, help="default: 20, about 50 minutes"
    )
    parser.add_argument(
        "--rows",
        action="append",
        metavar="TEXT",
        help="only subjects with a row that has this in its title; may be repeated",
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=_PATIENCE,
        metavar="SECONDS",
        help="how long each measurement waits for a quiet machine, default: 60",
    )
    parser.add_argument("--json", type=Path, help="a file for all figures")
    return parser


def _root_of(place: str, stack: ExitStack) -> Path:
    """A folder with the compiled package of one side and this checkout's subjects."""
    root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-")))
    (root / "benchmarks").symlink_to(ROOT / "benchmarks")
    package = Path(place) / "actorlib"
    if package.is_dir():
        (root / "actorlib").symlink_to(package.resolve())
        compile_package(package)
        return root
    archive = subprocess.run(
        ["git", "-C", ROOT, "archive", "--format=tar", place, "actorlib"],
        capture_output=True,
        check=False,
    )
    if archive.returncode:
        sys.exit(
            f"{place!r} is neither a folder with actorlib/ nor a commit: "
            f"{archive.stderr.decode().strip()}"
        )
    subprocess.run(["tar", "-x", "-C", root], input=archive.stdout, check=True)
    compile_package(root / "actorlib")
    return root


def _turns(work: Sequence[Work], rounds: int) -> Iterator[tuple[int, Work, str]]:
    """Every job for both sides in each round, A B in one and B A in the next."""
    for turn in range(rounds):
        for each in work:
            for side in _SIDES if turn % 2 == 0 else reversed(_SIDES):
                yield turn, each, side


def _measure_all(
    work: Sequence[Work], roots: Mapping[str, Path], rounds: int, patience: float
) -> Measurements:
    results = Measurements()
    total = 2 * rounds * len(work)
    for number, (turn, each, side) in enumerate(_turns(work, rounds)):
        name = each.job.name
        print(f"\r{number}/{total} {name[:50]:50}", end="", file=sys.stderr)
        try:
            await_quiet(patience)
            before = usage()
            results.add(side, name, turn, measure(each.job, roots[side]))
        except JobError as error:
            results.failures[f"{side} {name}"] = str(error)
        except KeyboardInterrupt:
            results.rounds = turn
            break
        results.others.append(others_share(before, usage()))
    else:
        results.rounds = rounds
    print(file=sys.stderr)
    return results


def _table(
    work: Sequence[Work], results: Measurements, options: argparse.Namespace
) -> Iterator[str]:
    """The comparison as a table of Markdown."""
    head = ["row", "old", "new", "new / old", "95 %", "", *(f"CPU {r}" for r in _ROLES)]
    yield _line(head)
    yield _line(["---"] * len(head))
    for each in work:
        for row in each.rows:
            yield _line(_cells(each.job.name, row, results))
    yield ""
    yield (
        f"Old: {options.old}. New: {options.new}. Costs, medians of {results.rounds} "
        "rounds in turns; below 1 the new version costs less. CPU: new / old of each "
        f"process, with the new cost. Measured on {this_machine()}."
    )
    loud = [share for share in results.others if share >= QUIET]
    yield (
        f"Other programs used 5 % of the machine or more in {len(loud)} of "
        f"{len(results.others)} measurements"
        + (f", at most {max(loud):.0%}." if loud else ".")
    )
    for name, reason in results.failures.items():
        yield f"Failed: {name}: {reason}"


def _cells(job: str, row: Row, results: Measurements) -> list[str]:
    found = results.row(job, row.figure, is_rate=row.is_rate)
    if found is None:
        medians = [
            results.median(side, f"{job}/{row.figure}", is_rate=row.is_rate)
            for side in _SIDES
        ]
        shown = [
            "failed" if median is None else _shown(median * row.scale, row.unit)
            for median in medians
        ]
        return [row.title, *shown, *[""] * (3 + len(_ROLES))]
    cells = [
        row.title,
        _shown(found.old * row.scale, row.unit),
        _shown(found.new * row.scale, row.unit),
        f"{found.ratio:.2f}",
        f"{found.low:.2f} to {found.high:.2f}",
        _verdict(found),
    ]
    for role in _ROLES:
        cpu = results.row(job, f"{row.cpu}/{role}") if row.cpu else None
        # A process that does next to nothing has a ratio that means nothing.
        is_shown = cpu is not None and max(cpu.old, cpu.new) > 0.01 * found.new
        cells.append(
            f"{cpu.ratio:.2f} ({_shown(cpu.new * row.scale, row.unit)})"
            if cpu is not None and is_shown
            else ""
        )
    return cells


def _verdict(found: Comparison) -> str:
    if found.rounds < _FEWEST:
        return ""
    if found.low > _SLOWER:
        return "**worse**"
    return "better" if found.high < 1 / _SLOWER else ""


def _shown(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _as_json(work: Sequence[Work], results: Measurements) -> dict[str, object]:
    rows = {
        row.title: asdict(found)
        for each in work
        for row in each.rows
        if (found := results.row(each.job.name, row.figure, is_rate=row.is_rate))
    }
    return {
        "machine": str(this_machine()),
        "rows": rows,
        "costs": results.costs,
        "failures": results.failures,
        "others": results.others,
    }
