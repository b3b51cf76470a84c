"""Checks the machine and gives advice: ``actorlib doctor``.

Each check has a thread of its own, so that one that raises or hangs affects no other.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from concurrent.futures import Future, wait
from threading import Thread
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

import actorlib
from actorlib._cli.machine_checks import CHECKS, Finding
from actorlib._cli.pages import console, write_document
from actorlib.accelerators import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rich.console import RenderableType

    from actorlib._cli.machine_checks import State

    Check = Callable[[Host], Iterable[Finding]]

_LIMIT = 75.0
"""Seconds for all checks; each way to start an actor may take 30 of them."""
_ASK_AGAIN = "Ask again; if it stays so, tell the authors of actorlib"
_STYLES: Mapping[State, str] = {
    "problem": "bold red",
    "warning": "yellow",
    "ok": "green",
}
"""The worst first."""


def show(*, as_json: bool) -> int:
    """Checks this machine, and prints the findings.

    Args:
        as_json: Whether to print one JSON document instead of a table: ``version``,
            ``state``, which is the worst of all, and ``findings`` with the fields of
            ``Finding``. Its names are promises.

    Returns:
        The exit code: 1 if there is a problem, else 0.
    """
    # A vendor's module may print while it is imported, which would break the document.
    with contextlib.redirect_stdout(sys.stderr):
        findings = examine(CHECKS, Host())
    state = worst(findings)
    if as_json:
        document = {
            "version": actorlib.__version__,
            "state": state,
            "findings": [finding._asdict() for finding in findings],
        }
        write_document(document)
    else:
        console().print(draw(findings), crop=False)
    return int(state == "problem")


def examine(
    checks: Mapping[str, Check], host: Host, limit: float = _LIMIT
) -> list[Finding]:
    """Runs all checks at the same time, within a limit in seconds.

    A check that takes longer is left in its daemon thread.
    """
    results = {name: _start(check, host) for name, check in checks.items()}
    wait(results.values(), timeout=limit)
    late = [Finding("warning", f"no answer within {limit:g} s", _ASK_AGAIN)]
    return [
        finding._replace(check=name)
        for name, result in results.items()
        for finding in (result.result() if result.done() else late)
    ]


def _start(check: Check, host: Host) -> Future[list[Finding]]:
    # Not a pool: it joins its threads when the interpreter ends, and a check that hangs
    # in a driver would block the exit, too.
    result: Future[list[Finding]] = Future()
    thread = Thread(target=lambda: result.set_result(_run(check, host)), daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no thread can be started: the check of limits reports why
        result.set_result(_run(check, host))
    return result


def _run(check: Check, host: Host) -> list[Finding]:
    try:
        return [*check(host)]
    except Exception as error:  # noqa: BLE001  # a vendor's module, or a strange machine
        why = f"could not be checked: {type(error).__name__}: {error}"
        return [Finding("warning", why, _ASK_AGAIN)]


def worst(findings: Sequence[Finding]) -> State:
    states = {finding.state for finding in findings}
    for state in _STYLES:
        if state in states:
            return state
    return "ok"


def draw(findings: Sequence[Finding]) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    for column in ("state", "check", "what"):
        table.add_column(column, overflow="fold", no_wrap=column != "what")
    last = ""
    for state, what, advice, check in findings:
        text = f"{what}.\n-> {advice}." if advice else f"{what}."
        name = check if check != last else ""
        table.add_row(Text(state, style=_STYLES[state]), name, text)
        last = check
    counts = Counter(finding.state for finding in findings)
    summary = ", ".join(
        f"{counts[state]} {state}{'s' if counts[state] > 1 else ''}"
        for state in ("problem", "warning")
        if counts[state]
    )
    return Group(table, Text(f"\n{summary or 'All is well'}."))
