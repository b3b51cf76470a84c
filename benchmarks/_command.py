"""The command line of all benchmarks: its options and the order of the work."""

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import actorlib
from benchmarks._bytecode import compile_package
from benchmarks._cases import MakePlan, Scale
from benchmarks._folder import Folder
from benchmarks._leftovers import adopt_orphans
from benchmarks._machine import this_machine
from benchmarks._peers import COLUMNS_OF, asked, missing, peers_of
from benchmarks._run import Outcome, bar_for, run
from benchmarks._table import show

_RESULTS = Path(__file__).resolve().parent / "results"


def conduct(make_plan: MakePlan) -> None:
    """Runs one benchmark as the command line asks; exits with 1 if something failed."""
    options = parser().parse_args()
    folder = _folder(options)
    _tell(_measured([make_plan], options, folder), options, folder)


def conduct_all(makers: Mapping[str, MakePlan]) -> None:
    """Runs benchmarks, the named ones or all, and tells of them in one table.

    Exits with 1 if something failed.
    """
    words = parser()
    words.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"benchmarks to run, by default all: {', '.join(makers)}",
    )
    options = words.parse_args()
    if strange := sorted(set(options.names) - makers.keys()):
        words.error(
            f"no benchmark is called {', '.join(map(repr, strange))}; "
            f"there are {', '.join(makers)}"
        )
    names = [name for name in makers if name in options.names or not options.names]
    folder = _folder(options)
    outcomes = _measured([makers[name] for name in names], options, folder)
    folder.keep("all", outcomes)
    folder.draw_all(outcomes)
    _tell(outcomes, options, folder)


def parser() -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    words = argparse.ArgumentParser(
        formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    words.add_argument(
        "--quick", action="store_true", help="about a minute for each benchmark"
    )
    words.add_argument("--json", action="store_true", help="only JSON on stdout")
    words.add_argument(
        "--peers",
        type=peers_of,
        default=",".join(COLUMNS_OF),
        metavar=",".join(COLUMNS_OF),
        help="the peers to measure; peers that are not installed are reported",
    )
    words.add_argument(
        "--rounds", type=_at_least_one, default=3, help="at least 3 for a claim"
    )
    words.add_argument(
        "--out", type=Path, default=_RESULTS, help="a folder for JSON, tables, plots"
    )
    return words


def _folder(options: argparse.Namespace) -> Folder:
    return Folder(
        path=options.out,
        machine=this_machine(),
        is_quick=options.quick,
        rounds=options.rounds,
    )


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"it takes 1 or more, not {text}")
    return int(text)


def _measured(
    makers: Sequence[MakePlan], options: argparse.Namespace, folder: Folder
) -> list[Outcome]:
    """The outcomes, each written as soon as it is there."""
    scale = Scale(is_quick=options.quick)
    absent = missing(options.peers)
    plans = [asked(make_plan(scale), options.peers, absent) for make_plan in makers]
    adopt_orphans()
    compile_package(Path(actorlib.__file__).parent)
    # As with Ctrl-C: what runs now is ended, and what was measured is kept.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    outcomes: list[Outcome] = []
    with bar_for(plans, options.rounds) as progress:
        for plan in plans:
            outcome = run(plan, options.rounds, progress)
            outcomes.append(outcome)
            folder.keep(plan.name, [outcome])
            folder.draw(outcome)
    return outcomes


def _tell(
    outcomes: Sequence[Outcome], options: argparse.Namespace, folder: Folder
) -> None:
    if options.json:
        print(json.dumps(folder.summary(outcomes)), flush=True)
    else:
        show(outcomes, str(folder.machine))
    print(f"JSON, tables and plots: {folder.path}", file=sys.stderr)
    if any(outcome.samples.failures for outcome in outcomes):
        sys.exit(1)
