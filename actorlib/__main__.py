"""The command line: ``actorlib devices``, or ``python -m actorlib devices``.

Each command is a pair of functions here, one that says its words and one that runs it,
and a file in ``_cli``, which is imported when it is run.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
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
    """Adds a command; its parser comes back."""

_INTERRUPTED = 130
_SORTS = ("cpu", "memory", "device", "name", "calls", "waiting", "age", "pid")
"""What top sorts by: said again here, as every command would load what sorts."""
_ACTOR = (
    "its name, its pid, its id or the end of that, or its class if it is the only one"
)
_EXIT_CODES = {RuntimeNotFoundError: 3, RuntimeUnreachableError: 4}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: The words behind the program's name; None for those of this process.

    Returns:
        The exit code: 0, 1 after an error that was told on standard error or if
        ``doctor`` has found a problem, 3 if the error was that there is no such runtime
        or actor, 4 if a runtime does not answer, 130 after Ctrl-C.

    Raises:
        SystemExit: Help or the version was asked for (0), the words make no command
            (2), or nobody reads the output any more (1).
    """
    _ready_streams()
    asked = _parser().parse_args(argv)
    try:
        code: int = asked.run(asked)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (ActorlibError, ValueError, OSError) as error:
        from actorlib._cli.pages import printable  # noqa: PLC0415  # few go wrong

        sys.stderr.write(printable(f"actorlib: error: {error}\n"))
        return next(
            (code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1
        )
    return code


def _ready_streams() -> None:
    """Has the standard streams take any text, also where there are none (``>&-``)."""
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
        _completion,
    ):
        command(commands.add_parser)
    return parser


def _demo(add: Add) -> None:
    parser = add(
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
        help="how many actors are placed at once to be timed (default: 64)",
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
    parser.set_defaults(run=_run_demo)


def _run_demo(asked: argparse.Namespace) -> int:
    from actorlib._cli.demo import demo  # noqa: PLC0415  # it loads rich

    demo(actors=asked.actors, gpus=asked.gpus, start_method=asked.start_method)
    return 0


def _devices(add: Add) -> None:
    parser = add(
        "devices",
        help="list the accelerators of this machine, and why others are not offered",
        description="Lists the accelerators that actors on this machine may hold: "
        "model, memory, links, what is visible; and what is not offered, with the "
        "reason. Finding nothing is no error.",
    )
    _as_json(parser)
    parser.set_defaults(run=_run_devices)


def _run_devices(asked: argparse.Namespace) -> int:
    from actorlib._cli import devices  # noqa: PLC0415  # likewise

    devices.show(as_json=asked.json)
    return 0


def _doctor(add: Add) -> None:
    parser = add(
        "doctor",
        help="examine this machine: what is well, what is not, and what to do",
        description="Examines this machine: Python and packages, the start of an "
        "actor, limits, what a container may use, shared memory, cgroups, devices and "
        "who has taken them, NVML, workers that killed programs have left. A problem "
        "keeps actorlib, or devices that are there, from working; a warning is what "
        "can be had and is not. The exit code is 1 if there is a problem, else 0.",
        epilog="example: actorlib doctor --json",
    )
    _as_json(parser)
    parser.set_defaults(run=_run_doctor)


def _run_doctor(asked: argparse.Namespace) -> int:
    from actorlib._cli import doctor  # noqa: PLC0415  # likewise

    return doctor.show(as_json=asked.json)


def _ps(add: Add) -> None:
    parser = add(
        "ps",
        help="show the runtimes of this user, their actors, and who waits for what",
        description="Shows the runtimes of this user on this machine, and their "
        "actors: process, state, devices and shares, device memory in use and granted, "
        "what keeps an actor to that, CPU, memory, calls that run and that wait, "
        "restarts; then who waits, for what, and who has it. If the event loop of a "
        "runtime is blocked, it says since when, and where. Device memory in use "
        "is what NVML says, if devices are watched. CPU is measured over a tenth of a "
        "second. Memory that processes share is divided among them (pss), or counted "
        "in full if there are very many processes (rss). On a narrow terminal the "
        "least important columns are left out.",
        epilog="example: actorlib ps --pid 812 --json",
    )
    _about_a_runtime(parser)
    _as_json(parser)
    parser.add_argument("--all", action="store_true", help="list dead actors, too")
    parser.set_defaults(run=_run_ps)


def _run_ps(asked: argparse.Namespace) -> int:
    from actorlib._cli import ps  # noqa: PLC0415  # likewise

    return ps.show(as_json=asked.json, pid=asked.pid, has_dead=asked.all)


def _top(add: Add) -> None:
    parser = add(
        "top",
        help="show runtimes and their actors live, with calls a second and devices",
        description="Shows what ps does, live, with calls a second and their history, "
        "and with how busy devices are, as NVML says. Calls that go straight between "
        "two actors are not counted. Keys sort: c by CPU, m by memory, d by memory of "
        "devices, n by name, r by calls a second, w by waiting calls, a by age, p by "
        "pid; the same key again turns the order round. / filters, arrows and j and k "
        "move, q leaves. If the output is no terminal, one page is printed.",
        epilog="examples: actorlib top --sort calls; actorlib top --json --once; "
        "actorlib top --web",
    )
    _about_a_runtime(parser)
    _as_json(parser)
    _about_a_page(parser)
    parser.add_argument(
        "--interval",
        type=_interval,
        default=1.0,
        metavar="SECONDS",
        help="seconds between two looks, 0.1 or more (default: 1); more if a look "
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
        default="",
        metavar="TEXT",
        help="show actors with this in their name, class, state, id, pid or device",
    )
    parser.add_argument(
        "--once", action="store_true", help="look once, print that, and end"
    )
    parser.set_defaults(run=_run_top)


def _run_top(asked: argparse.Namespace) -> int:
    if asked.web:
        return _run_page(asked)
    if asked.host is not None or asked.port is not None:
        raise ValueError("--host and --port are of the page: write --web, too")
    from actorlib._cli import top  # noqa: PLC0415  # likewise

    return top.show(
        as_json=asked.json,
        is_once=asked.once,
        interval=asked.interval,
        sort=asked.sort,
        needle=asked.filter,
        pid=asked.pid,
    )


def _run_page(asked: argparse.Namespace) -> int:
    if asked.json or asked.once:
        raise ValueError("--web serves a page until Ctrl-C: no --json, no --once")
    from actorlib._cli import web  # noqa: PLC0415  # few serve a page

    host = "127.0.0.1" if asked.host is None else asked.host
    return web.serve(pid=asked.pid, host=host, port=asked.port or 0)


def _calls(add: Add) -> None:
    parser = add(
        "calls",
        help="list the calls under way: where they are, since when, who made them",
        description="Lists the calls that have no answer yet: their id, what is "
        "called, whether they run or what they wait for, how old they are, in how many "
        "seconds their time is over, and which call made them. 10,000 are shown at the "
        "most.",
        epilog="example: actorlib calls m1",
    )
    _about_a_runtime(parser)
    _as_json(parser)
    parser.add_argument(
        "actor", metavar="ACTOR", nargs="?", help=f"those of one actor: {_ACTOR}"
    )
    parser.set_defaults(run=_run_calls)


def _run_calls(asked: argparse.Namespace) -> int:
    from actorlib._cli import calls  # noqa: PLC0415  # likewise

    return calls.show(as_json=asked.json, word=asked.actor, pid=asked.pid)


def _logs(add: Add) -> None:
    parser = add(
        "logs",
        help="show what actors have printed and logged, and follow it",
        description="Shows the last lines that actors and functions have printed, and "
        "the records that they have logged, the oldest first. The runtime keeps the "
        "last 256 KiB of each actor in memory, about 1,000 lines, also "
        "of dead ones while they are listed, and tells them while its event loop "
        "is blocked, too. What would steer the terminal is shown by its escapes, but "
        "for colours. --json writes one document, with -f one for each line.",
        epilog="examples: actorlib logs m1 -f; actorlib logs --since 5m --level ERROR",
    )
    _about_a_runtime(parser)
    _as_json(parser)
    parser.add_argument(
        "actor", metavar="ACTOR", nargs="?", help=f"those of one actor: {_ACTOR}"
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="show what comes, until Ctrl-C"
    )
    parser.add_argument(
        "-n",
        type=_count,
        default=100,
        metavar="N",
        help="how many of the last lines to show at first (default: 100)",
    )
    parser.add_argument(
        "--since",
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
        metavar="REGEX",
        help="only lines in which this regular expression is found",
    )
    parser.set_defaults(run=_run_logs)


def _run_logs(asked: argparse.Namespace) -> int:
    from actorlib._cli import logs  # noqa: PLC0415  # likewise

    chosen = logs.Chosen.of(ago=asked.since, level=asked.level, pattern=asked.grep)
    return logs.show(
        asked.actor,
        as_json=asked.json,
        count=asked.n,
        chosen=chosen,
        is_followed=asked.follow,
        pid=asked.pid,
    )


def _ago(text: str) -> float:
    seconds = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(text[-1:], 0)
    number = text[:-1] if seconds else text
    try:
        ago = float(number) * (seconds or 1)
    except ValueError:
        ago = -1.0
    if not 0 <= ago < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no time as 10s, 5m, 2h or 1d")
    return ago


def _objects(add: Add) -> None:
    parser = add(
        "objects",
        help="list what the object store holds, by whom, since when",
        description="Lists the values that lie in shared memory, those that refs stand "
        "for that were sent inside of values, and the memory that is kept warm for the "
        "next value: who made each, who holds it and by how many references, which "
        "calls that wait have it among their arguments, and for how long it is there. "
        "Small values travel with their calls and are not stored.",
        epilog="example: actorlib objects --sort age -n 10",
    )
    _about_a_runtime(parser)
    _as_json(parser)
    parser.add_argument(
        "--sort",
        choices=("size", "age"),
        default="size",
        help="show the largest first, or the oldest first (default: size)",
    )
    parser.add_argument(
        "-n",
        type=_count,
        default=50,
        metavar="N",
        help="how many to show, 10,000 at the most (default: 50)",
    )
    parser.set_defaults(run=_run_objects)


def _run_objects(asked: argparse.Namespace) -> int:
    from actorlib._cli import objects  # noqa: PLC0415  # likewise

    return objects.show(
        as_json=asked.json, sort=asked.sort, limit=asked.n, pid=asked.pid
    )


def _metrics(add: Add) -> None:
    parser = add(
        "metrics",
        help="print the metrics of a runtime, as Prometheus reads them",
        description="Prints the metrics of a runtime in Prometheus' text format: calls "
        "and their times, actors, devices, restarts, shared memory. The program has to "
        "count them: actorlib.init(middleware=[actorlib.observe.prometheus()]).",
        epilog="example: actorlib metrics --pid 812",
    )
    _about_a_runtime(parser)
    _as_json(parser)
    parser.set_defaults(run=_run_metrics)


def _run_metrics(asked: argparse.Namespace) -> int:
    from actorlib._cli import metrics  # noqa: PLC0415  # likewise

    return metrics.show(as_json=asked.json, pid=asked.pid)


def _explain(add: Add) -> None:
    parser = add(
        "explain",
        help="say why an actor waits and who has what it waits for, or where it is",
        description="Says why an actor of a runtime waits, and who has what it waits "
        "for, or where it is, or how it ended.",
        epilog="example: actorlib explain m1",
    )
    _about_a_runtime(parser)
    _as_json(parser)
    parser.add_argument("actor", metavar="ACTOR", help=_ACTOR)
    parser.set_defaults(run=_run_explain)


def _run_explain(asked: argparse.Namespace) -> int:
    from actorlib._cli import one_actor  # noqa: PLC0415  # likewise

    return one_actor.explain(asked.actor, as_json=asked.json, pid=asked.pid)


def _kill(add: Add) -> None:
    parser = add(
        "kill",
        help="end an actor at once",
        description="Ends an actor of a runtime at once, as actorlib.kill() does: its "
        "process group gets SIGKILL, and its calls fail with ActorDiedError.",
        epilog="example: actorlib kill m1 --restart",
    )
    _about_a_runtime(parser)
    _as_json(parser)
    parser.add_argument("actor", metavar="ACTOR", help=_ACTOR)
    parser.add_argument(
        "--restart",
        action="store_true",
        help="restart it, if its max_restarts allows one more",
    )
    parser.set_defaults(run=_run_kill)


def _run_kill(asked: argparse.Namespace) -> int:
    from actorlib._cli import one_actor  # noqa: PLC0415  # likewise

    return one_actor.kill(
        asked.actor, as_json=asked.json, is_restarted=asked.restart, pid=asked.pid
    )


def _stack(add: Add) -> None:
    parser = add(
        "stack",
        help="show where the threads and tasks of an actor, or of the program, stand",
        description="Shows where the threads of an actor's process stand, also when "
        "they are stuck in a library written in C, and the tasks of its event loops, "
        "also when those are blocked by Python code; or those of the program itself. "
        "What is your own code comes first.",
        epilog="examples: actorlib stack m1; actorlib stack owner --all",
    )
    _about_a_runtime(parser)
    _as_json(parser)
    parser.add_argument(
        "actor", metavar="ACTOR", help=f"{_ACTOR}; 'owner' is the program itself"
    )
    parser.add_argument(
        "--all", action="store_true", help="show the frames of actorlib and of Python"
    )
    parser.set_defaults(run=_run_stack)


def _run_stack(asked: argparse.Namespace) -> int:
    from actorlib._cli import stack  # noqa: PLC0415  # likewise

    return stack.show(asked.actor, as_json=asked.json, has_all=asked.all, pid=asked.pid)


def _trace(add: Add) -> None:
    parser = add(
        "trace",
        help="record what a program does for a while, for Perfetto",
        description="Has a runtime record for a few seconds what it does, and writes a "
        "file for https://ui.perfetto.dev or chrome://tracing: calls of the program, "
        "of functions and from actor to actor, what waited for its place and what ran, "
        "arrows from who made a call to where it ran, states and deaths of actors, "
        "streams, puts. Nothing is recorded any more when the time is over, or when "
        "this command is ended. A call costs the program up to 1 us more meanwhile.",
        epilog="example: actorlib trace -o out.json --seconds 5",
    )
    _about_a_runtime(parser)
    _as_json(parser)
    parser.add_argument(
        "-o",
        "--output",
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
    parser.set_defaults(run=_run_trace)


def _run_trace(asked: argparse.Namespace) -> int:
    from actorlib._cli import trace  # noqa: PLC0415  # likewise

    return trace.show(
        asked.output,
        seconds=asked.seconds,
        kept=asked.kept,
        as_json=asked.json,
        pid=asked.pid,
    )


def _completion(add: Add) -> None:
    parser = add(
        "completion",
        help="print the script that completes these words in your shell",
        description="Prints the script by which a shell completes commands, options, "
        "and names of actors; or what that script asks for: the words that find the "
        "actors of this user's runtimes, or their pids, one a line.",
        epilog='bash: eval "$(actorlib completion bash)" in ~/.bashrc; zsh: the same '
        "with zsh in ~/.zshrc, behind compinit; fish: actorlib completion fish | "
        "source in ~/.config/fish/config.fish",
    )
    parser.add_argument(
        "what", choices=("bash", "zsh", "fish", "actors", "pids"), help="which of these"
    )
    parser.set_defaults(run=_run_completion)


def _run_completion(asked: argparse.Namespace) -> int:
    from actorlib._cli import completion  # noqa: PLC0415  # few ask for it

    return completion.show(asked.what, _parser().described())


def _about_a_page(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--web",
        action="store_true",
        help="serve a page for a browser, until Ctrl-C; print its address, which has a "
        "token that it needs",
    )
    parser.add_argument(
        "--host",
        help="where the page of --web is served (default: 127.0.0.1, for this machine "
        "alone; beyond it nothing is encrypted)",
    )
    parser.add_argument(
        "--port",
        type=_port,
        metavar="N",
        help="the port of the page of --web (default: 0, which is a free one)",
    )


def _about_a_runtime(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pid",
        type=_count,
        metavar="N",
        help="the process of the runtime to ask, if there are several",
    )


def _as_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", action="store_true", help="print one JSON document for machines"
    )


def _interval(text: str) -> float:
    with suppress(ValueError):
        seconds = float(text)
        if 0.1 <= seconds <= 3600:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no number from 0.1 to 3600")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    if int(text) > sys.maxsize:
        raise argparse.ArgumentTypeError(f"{text!r} is more than there can be")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
