"""What every benchmark shares: its options and the order of its work."""

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from benchmarks._cases import Plan, report
from benchmarks._jobs import JobError, Samples, in_rounds, measure
from benchmarks._machine import this_machine
from benchmarks._table import show

_PEERS = ("ray", "stdlib")
_RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is asked of a run.

    Attributes:
        is_quick: Whether it is to take a minute or two and not a quarter of an hour.
        peers: Who is measured beside actorlib: ``ray``, ``stdlib``.
    """

    is_quick: bool
    peers: frozenset[str]


def is_installed(module: str) -> bool:
    """Whether a module could be imported; it is not."""
    return importlib.util.find_spec(module) is not None


def conduct(make_plan: Callable[[Scale], Plan]) -> None:
    """Runs a benchmark as the command line asks; exits with 1 if actorlib failed."""
    options = _parsed()
    plan = make_plan(Scale(is_quick=options.quick, peers=options.peers))
    machine = this_machine()
    samples = _measured(plan, options.rounds)
    if not options.json:
        show(plan, samples, str(machine))
    summary = {
        "benchmark": plan.name,
        "quick": options.quick,
        "rounds": options.rounds,
        "machine": asdict(machine),
        "cases": [report(case, samples) for case in plan.cases],
        "failures": samples.failures,
    }
    print(json.dumps(summary), flush=True)
    _draw(plan, samples, options.out, str(machine))
    if any(name.startswith("actorlib") for name in samples.failures):
        sys.exit(1)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a minute or two in all")
    parser.add_argument("--json", action="store_true", help="only JSON on stdout")
    parser.add_argument(
        "--peers",
        type=lambda text: frozenset(filter(None, text.split(","))),
        default=None,
        metavar="ray,stdlib",
        help="who is measured beside actorlib; by default those installed",
    )
    parser.add_argument("--rounds", type=int, default=3, help="at least 3 for a claim")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="for the plot")
    options = parser.parse_args()
    installed = {name for name in _PEERS if name == "stdlib" or is_installed(name)}
    if options.peers is None:
        options.peers = frozenset(installed)
    if strange := options.peers - installed:
        parser.error(f"not a peer, or not installed: {', '.join(sorted(strange))}")
    if options.rounds < 1:
        parser.error(f"--rounds takes 1 or more, not {options.rounds}")
    return options


def _measured(plan: Plan, rounds: int) -> Samples:
    samples = Samples()
    progress = Progress(
        *Progress.get_default_columns()[:2],
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
    with progress:
        task = progress.add_task(plan.name, total=rounds * len(plan.jobs))
        for turn, job in in_rounds(plan.jobs, rounds):
            progress.update(task, description=job.name)
            try:
                samples.add(job, turn, measure(job))
            except JobError as error:
                samples.failures[job.name] = str(error)
            progress.advance(task)
        progress.update(task, description=plan.name)
    return samples


def _draw(plan: Plan, samples: Samples, folder: Path, caption: str) -> None:
    if not is_installed("matplotlib"):
        print("no plot: matplotlib is not installed (extra 'bench')", file=sys.stderr)
        return
    from benchmarks._plot import draw  # noqa: PLC0415  # it needs the extra 'bench'

    print(f"plot: {draw(plan, samples, folder, caption)}", file=sys.stderr)
