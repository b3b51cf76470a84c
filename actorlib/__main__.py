"""The command line: ``actorlib devices``, or ``python -m actorlib devices``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from actorlib import __version__
from actorlib._core.runtime_options import START_METHODS
from actorlib.exceptions import ActorlibError

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: The words behind the program's name; None for those of this process.

    Returns:
        The exit code: 0, 1 after an error that was told on standard error, 130 after
        Ctrl-C.

    Raises:
        SystemExit: Help or the version was asked for (0), the words make no command
            (2), or nobody reads the output any more (1).
    """
    asked = _parser().parse_args(argv)
    try:
        _run(asked)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (ActorlibError, ValueError, OSError) as error:
        sys.stderr.write(f"actorlib: error: {error}\n")
        return 1
    return 0


def _run(asked: argparse.Namespace) -> None:
    if asked.command == "devices":
        from actorlib._cli.devices import show  # noqa: PLC0415  # it loads rich

        show(as_json=asked.json)
    else:
        from actorlib._cli.demo import demo  # noqa: PLC0415  # it loads rich

        demo(actors=asked.actors, gpus=asked.gpus, start_method=asked.start_method)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="actorlib",
        description="An asyncio actor runtime: each actor a subprocess on its share of "
        "an accelerator.",
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    demo = commands.add_parser(
        "demo",
        help="place actors on the devices of this machine and measure them",
        description="Places actors on the devices of this machine, or on two logical "
        "GPUs if it has none, shows where each one is, measures placement and calls, "
        "and ends everything.",
    )
    demo.add_argument(
        "--actors",
        type=_count,
        default=64,
        metavar="N",
        help="how many actors are placed at once to be timed (default: 64)",
    )
    demo.add_argument(
        "--gpus",
        type=_count,
        metavar="N",
        help="how many GPUs there are to be; what is missing is logical "
        "(default: those found, or two logical ones)",
    )
    demo.add_argument(
        "--start-method",
        choices=START_METHODS,
        help="how workers are started (default: template on Linux, spawn elsewhere)",
    )
    devices = commands.add_parser(
        "devices",
        help="list the accelerators of this machine, and why others are not offered",
        description="Lists the accelerators that actors on this machine may hold: "
        "model, memory, links, what is visible; and what is not offered, with the "
        "reason. Finding nothing is no error.",
    )
    devices.add_argument(
        "--json", action="store_true", help="print one JSON document for machines"
    )
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
