"""The command line: ``actorlib devices``, or ``python -m actorlib devices``.

Each command is a function here, which declares its arguments, and a function in
``_cli``, which gets their values. Its module is imported when the command runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING

from actorlib import __version__
from actorlib._base.validation import words_of
from actorlib._cli.recorded_parser import RecordedParser
from actorlib._options.runtime_options import RuntimeOptions
from actorlib.exceptions import (
    ActorlibError,
    RuntimeNotFoundError,
    RuntimeUnreachableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Add = Callable[..., argparse.ArgumentParser]
    """Adds a command; returns its parser."""

_INTERRUPTED = 130
_SORTS = ("cpu", "memory", "device", "name", "calls", "waiting", "age", "pid")
"""The sort keys of top, repeated here so that other commands need not import them."""
_ACTOR = (
    "its name, its pid, its id or the end of that, or its class if it is the only one"
)
_EXIT_CODES = {RuntimeNotFoundError: 3, RuntimeUnreachableError: 4}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: The arguments behind the program's name; None for those of this process.

    Returns:
        The exit code. 0: success. 1: an error, reported on standard error, or a problem
        found by ``doctor``. 3: the runtime or actor does not exist. 4: a runtime does
        not answer. 130: Ctrl-C.

    Raises:
        SystemExit: Help or the version was requested (0), the arguments are invalid
            (2), or the output is closed (1).
    """
    _ready_streams()
    values = vars(_parser().parse_args(argv))
    del values["command"]
    module, _, function = values.pop("run").partition(".")
    try:
        run = getattr(import_module(f"actorlib._cli.{module}"), function)
        code: int = run(**values) or 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (ActorlibError, ValueError, OSError) as error:
        from actorlib._cli.pages import printable

        sys.stderr.write(printable(f"actorlib: error: {error}\n"))
        return next(
            (code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1
        )
    return code


def _ready_streams() -> None:
    """Makes the standard streams accept any text, even if they are closed (``>&-``)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115  # it stays
        stream: object = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _parser() -> RecordedParser:
    parser = RecordedParser(
        prog="actorlib",
        description="An asyncio actor runtime: each actor a subprocess on its share of "
        "an accelerator.",
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for command in (
        _demo,
        _devices,
        _doctor,
        _ps,
        _top,
        _calls,
        _logs,
        _objects,
        _metrics,
        _explain,
        _kill,
        _stack,
        _trace,
        _cache,
        _completion,
    ):
        command(commands.add_parser)
    return parser


def _demo(add: Add) -> None:
    parser = _add_command(
        add,
        "demo.show",
        "demo",
        help="place actors on the devices of this machine and measure them",
        description="Places actors on the devices of this machine, or on two logical "
        "GPUs if it has none, shows where each one is, measures placement and calls, "
        "and ends everything.",
    )
    parser.add_argument(
        "--actors",
        type=_count,
        default=64,
        metavar="N",
        help="how many actors to place at once for the timing (default: 64)",
    )
    parser.add_argument(
        "--gpus",
        type=_count,
        metavar="N",
        help="how many GPUs to use; more than there are become logical ones "
        "(default: those found, or two logical ones)",
    )
    parser.add_argument(
        "--start-method",
        choices=words_of(RuntimeOptions, "start_method"),
        help="how workers are started (default: template on Linux, spawn elsewhere)",
    )


def _devices(add: Add) -> None:
    _add_report(
        add,
        "devices.show",
        "devices",
        help="list the accelerators of this machine, and why others are not offered",
        description="Lists the accelerators that actors on this machine may hold: "
        "model, memory, links, visibility; and devices that are not offered, with the "
        "reason. A machine without accelerators is not an error.",
    )


def _doctor(add: Add) -> None:
    _add_report(
        add,
        "doctor.show",
        "doctor",
        help="examine this machine: what works, what does not, and what to do",
        description="Examines this machine: Python and packages, the start of an "
        "actor, limits, what a container may use, shared memory, cgroups, devices and "
        "their users, NVML, workers that killed programs have left. A problem keeps "
        "actorlib, or an existing device, from working; a warning names a possible "
        "improvement. The exit code is 1 if there is a problem, otherwise 0.",
        epilog="example: actorlib doctor --json",
    )


def _ps(add: Add) -> None:
    parser = _add_query(
        add,
        "ps.show",
        "ps",
        help="show the runtimes of this user, their actors, and waiting requests",
        description="Shows the runtimes of this user on this machine, and their "
        "actors: process, state, devices and shares, device memory in use and granted, "
        "how the grant is enforced, CPU, memory, running and waiting calls, restarts; "
        "then the waiting requests, and the holders of what they wait for. If the "
        "event loop of a runtime is blocked, it shows since when, and where. Device "
        "memory in use comes from NVML, if devices are watched. CPU is measured over a "
        "tenth of a second. Memory that processes share is divided among them (pss), "
        "or counted in full if there are very many processes (rss). On a narrow "
        "terminal the least important columns are omitted.",
        epilog="example: actorlib ps --pid 812 --json",
    )
    parser.add_argument(
        "--all", dest="has_dead", action="store_true", help="list dead actors, too"
    )


def _top(add: Add) -> None:
    parser = _add_query(
        add,
        "top.show",
        "top",
        help="show runtimes and their actors live, with calls a second and devices",
        description="Shows the same as ps, live, with calls per second and their "
        "history, and with the utilization of devices from NVML. Direct calls between "
        "two actors are not counted. Keys sort: c by CPU, m by memory, d by memory of "
        "devices, n by name, r by calls per second, w by waiting calls, a by age, p by "
        "pid; the same key again reverses the order. / filters, arrows and j and k "
        "move, q quits. If the output is not a terminal, one page is printed.",
        epilog="examples: actorlib top --sort calls; actorlib top --json --once; "
        "actorlib top --web",
    )
    _about_a_page(parser)
    parser.add_argument(
        "--interval",
        type=_interval,
        default=1.0,
        metavar="SECONDS",
        help="seconds between two updates, 0.1 or more (default: 1); more if an update "
        "takes long",
    )
    parser.add_argument(
        "--sort",
        choices=_SORTS,
        default="cpu",
        help="what to sort actors by (default: cpu)",
    )
    parser.add_argument(
        "--filter",
        dest="needle",
        default="",
        metavar="TEXT",
        help="show actors with this in their name, class, state, id, pid or device",
    )
    parser.add_argument(
        "--once", dest="is_once", action="store_true", help="print one page, and end"
    )


def _calls(add: Add) -> None:
    parser = _add_query(
        add,
        "calls.show",
        "calls",
        help="list the unanswered calls: state, age, and calling call",
        description="Lists the calls that have no answer yet: their id, the method or "
        "function, whether they run or what they wait for, their age, the seconds "
        "until their deadline, and the call that made them. At most 10,000 are shown.",
        epilog="example: actorlib calls m1",
    )
    parser.add_argument(
        "word", metavar="ACTOR", nargs="?", help=f"those of one actor: {_ACTOR}"
    )


def _logs(add: Add) -> None:
    parser = _add_query(
        add,
        "logs.show",
        "logs",
        help="show what actors have printed and logged, and follow it",
        description="Shows the last lines that actors and functions have printed, and "
        "the records that they have logged, the oldest first. The runtime keeps the "
        "last 256 KiB of each actor in memory, about 1,000 lines, even of dead actors "
        "while they are listed, and shows them even while its event loop is blocked. "
        "Control characters of terminals are escaped, except for colours. --json "
        "writes one document, with -f one for each line.",
        epilog="examples: actorlib logs m1 -f; actorlib logs --since 5m --level ERROR",
    )
    parser.add_argument(
        "word", metavar="ACTOR", nargs="?", help=f"those of one actor: {_ACTOR}"
    )
    parser.add_argument(
        "-f",
        "--follow",
        dest="is_followed",
        action="store_true",
        help="show new lines, until Ctrl-C",
    )
    parser.add_argument(
        "-n",
        dest="count",
        type=_count,
        default=100,
        metavar="N",
        help="how many of the last lines to show at first (default: 100)",
    )
    parser.add_argument(
        "--since",
        dest="ago",
        type=_ago,
        metavar="TIME",
        help="only lines of the last 10s, 5m, 2h or 1d; a number alone is seconds",
    )
    parser.add_argument(
        "--level",
        metavar="LEVEL",
        help="only log records of this level or a higher one, such as WARNING",
    )
    parser.add_argument(
        "--grep",
        dest="pattern",
        metavar="REGEX",
        help="only lines that match this regular expression",
    )


def _ago(text: str) -> float:
    seconds = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:], 0)
    number = text[:-1] if seconds else text
    try:
        ago = float(number) * (seconds or 1)
    except ValueError:
        ago = -1.0
    if not 0 <= ago < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time like 10s, 5m, 2h, 1d")
    return ago


def _objects(add: Add) -> None:
    parser = _add_query(
        add,
        "objects.show",
        "objects",
        help="list the objects of the object store, their holders and ages",
        description="Lists the values in shared memory, the values of refs that were "
        "sent inside of other values, and the memory that is kept ready for the next "
        "value: the creator of each, its holders and the number of their references, "
        "the waiting calls that have it among their arguments, and its age. Small "
        "values are sent with their calls and not stored.",
        epilog="example: actorlib objects --sort age -n 10",
    )
    parser.add_argument(
        "--sort",
        choices=("size", "age"),
        default="size",
        help="show the largest first, or the oldest first (default: size)",
    )
    parser.add_argument(
        "-n",
        dest="limit",
        type=_count,
        default=50,
        metavar="N",
        help="how many to show, at most 10,000 (default: 50)",
    )


def _metrics(add: Add) -> None:
    _add_query(
        add,
        "metrics.show",
        "metrics",
        help="print the metrics of a runtime in the format of Prometheus",
        description="Prints the metrics of a runtime in Prometheus' text format: calls "
        "and their times, actors, devices, restarts, shared memory. The program has to "
        "count them: see actorlib.observe.prometheus().",
        epilog="example: actorlib metrics --pid 812",
    )


def _explain(add: Add) -> None:
    parser = _add_query(
        add,
        "one_actor.explain",
        "explain",
        help="explain why an actor waits, where it is, or how it ended",
        description="Explains why an actor of a runtime waits, and which actors hold "
        "the resources that it waits for, or where it is, or how it ended.",
        epilog="example: actorlib explain m1",
    )
    parser.add_argument("word", metavar="ACTOR", help=_ACTOR)


def _kill(add: Add) -> None:
    parser = _add_query(
        add,
        "one_actor.kill",
        "kill",
        help="end an actor at once",
        description="Ends an actor of a runtime at once, as actorlib.kill() does: its "
        "process group gets SIGKILL, and its calls fail with ActorDiedError.",
        epilog="example: actorlib kill m1 --restart",
    )
    parser.add_argument("word", metavar="ACTOR", help=_ACTOR)
    parser.add_argument(
        "--restart",
        dest="is_restarted",
        action="store_true",
        help="restart it, if its max_restarts allows one more",
    )


def _stack(add: Add) -> None:
    parser = _add_query(
        add,
        "stack.show",
        "stack",
        help="show the stacks of the threads and tasks of an actor, or of the program",
        description="Shows the stacks of the threads of an actor's process, even if "
        "they are stuck in a library written in C, and the tasks of its event loops, "
        "even if those are blocked by Python code; or those of the program itself. "
        "Your own code comes first.",
        epilog="examples: actorlib stack m1; actorlib stack owner --all",
    )
    parser.add_argument(
        "word", metavar="ACTOR", help=f"{_ACTOR}; 'owner' is the program itself"
    )
    parser.add_argument(
        "--all",
        dest="has_all",
        action="store_true",
        help="show the frames of actorlib and of Python",
    )


def _trace(add: Add) -> None:
    parser = _add_query(
        add,
        "trace.show",
        "trace",
        help="record what a program does for a while, for Perfetto",
        description="Makes a runtime record its activity for a few seconds, and writes "
        "a file for https://ui.perfetto.dev or chrome://tracing: calls of the program, "
        "of functions and from actor to actor, their waits and runs, arrows from the "
        "caller of a call to its run, states and deaths of actors, streams, puts. The "
        "recording ends when the time is over, or when this command is ended. "
        "Meanwhile, a call costs the program up to 1 us more.",
        epilog="example: actorlib trace -o out.json --seconds 5",
    )
    parser.add_argument(
        "-o",
        "--output",
        dest="path",
        default="trace.json",
        metavar="FILE",
        help="the file to write (default: trace.json)",
    )
    parser.add_argument(
        "--seconds",
        type=_interval,
        default=5.0,
        metavar="S",
        help="how many seconds to record, from 0.1 to 3600 (default: 5)",
    )
    parser.add_argument(
        "--kept",
        type=_count,
        default=100_000,
        metavar="N",
        help="how many of the newest calls, and of runs, to keep, up to 200000 "
        "(default: 100000)",
    )


def _cache(add: Add) -> None:
    parser = _add_report(
        add,
        "cache.show",
        "cache",
        help="list or remove the results that function.map(cache=DIR) has kept",
        description="Lists the results that function.map(cache=DIR) has kept in a "
        "folder (ls), by function and version: their number and size, and when the "
        "first and the last were written; or removes them, and lists what was removed "
        "(rm). It does not ask: ls with the same options shows what rm removes. Other "
        "files and folders remain.",
        epilog="examples: actorlib cache ls runs; actorlib cache rm runs --function "
        "train --older-than 30",
    )
    parser.add_argument("what", choices=("ls", "rm"), help="list or remove")
    parser.add_argument("folder", metavar="DIR", help="the folder")
    parser.add_argument(
        "--function",
        metavar="NAME",
        help="only those of this function: its name, or module.name",
    )
    parser.add_argument(
        "--older-than",
        type=_days,
        metavar="DAYS",
        help="only those that were written at least so many days ago",
    )


def _completion(add: Add) -> None:
    parser = _add_command(
        add,
        "completion.show",
        "completion",
        help="print the script that completes the arguments in your shell",
        description="Prints the script by which a shell completes commands, options, "
        "and names of actors; or the output that the script uses: the words that find "
        "the actors of this user's runtimes, or their pids, one per line.",
        epilog='bash: eval "$(actorlib completion bash)" in ~/.bashrc; zsh: the same '
        "with zsh in ~/.zshrc, behind compinit; fish: actorlib completion fish | "
        "source in ~/.config/fish/config.fish",
    )
    parser.add_argument(
        "what", choices=("bash", "zsh", "fish", "actors", "pids"), help="which of these"
    )
    parser.set_defaults(parser=_parser)


def _add_command(
    add: Add, run: str, name: str, **texts: str
) -> argparse.ArgumentParser:
    """Adds a command.

    Args:
        add: Adds a parser.
        run: The module of ``_cli`` and its function.
        name: The name of the command.
        **texts: Its ``help``, ``description`` and ``epilog``.
    """
    parser = add(name, **texts)
    parser.set_defaults(run=run)
    return parser


def _add_report(add: Add, run: str, name: str, **texts: str) -> argparse.ArgumentParser:
    """Adds a command that can print a JSON document."""
    parser = _add_command(add, run, name, **texts)
    _as_json(parser)
    return parser


def _add_query(add: Add, run: str, name: str, **texts: str) -> argparse.ArgumentParser:
    """Adds a command that queries a runtime."""
    parser = _add_command(add, run, name, **texts)
    parser.add_argument(
        "--pid",
        type=_count,
        metavar="N",
        help="the process id of the runtime, if there are several",
    )
    _as_json(parser)
    return parser


def _about_a_page(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--web",
        dest="is_page",
        action="store_true",
        help="serve a page for a browser, until Ctrl-C; print its address, which "
        "contains the token that it needs",
    )
    parser.add_argument(
        "--host",
        help="the address of the page of --web (default: 127.0.0.1, for this machine "
        "only; connections from other machines are not encrypted)",
    )
    parser.add_argument(
        "--port",
        type=_port,
        metavar="N",
        help="the port of the page of --web (default: 0, which is a free one)",
    )


def _as_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        dest="as_json",
        action="store_true",
        help="print one JSON document for machines",
    )


def _interval(text: str) -> float:
    with suppress(ValueError):
        seconds = float(text)
        if 0.1 <= seconds <= 3600:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0.1 to 3600")


def _days(text: str) -> float:
    with suppress(ValueError):
        days = float(text)
        if 0 <= days < float("inf"):
            return days
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    if int(text) > sys.maxsize:
        raise argparse.ArgumentTypeError(f"{text!r} is too large")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
