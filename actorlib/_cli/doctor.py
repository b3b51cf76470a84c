"""Examines the machine, and says what to do: ``actorlib doctor``.

``Diagnosis`` is the document that ``actorlib doctor --json`` prints: its names are
promises. Each check has a thread of its own: one that raises or hangs costs itself.
"""

from __future__ import annotations

import contextlib
import functools
import json
import sys
from collections import Counter
from concurrent.futures import Future, wait
from threading import Lock, Thread
from typing import TYPE_CHECKING, Generic, TypedDict, TypeVar, final

from rich.console import Group
from rich.table import Table
from rich.text import Text

import actorlib
from actorlib._cli import devices, machine_facts
from actorlib._cli.diagnosis import (
    Finding,
    State,
    judge_cgroups,
    judge_clock,
    judge_container,
    judge_devices,
    judge_limits,
    judge_mps,
    judge_nvml,
    judge_packages,
    judge_processes,
    judge_python,
    judge_runtimes,
    judge_shared_memory,
    judge_start,
    worst,
)
from actorlib._cli.pages import console
from actorlib.accelerators import Host, families

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.console import RenderableType

    from actorlib._cli.devices import Summary

    Check = Callable[[], list[Finding]]

_LIMIT = 75.0
"""Seconds that all checks have; each way to start an actor has 30 of them."""
_ASK_AGAIN = "Ask again; if it stays so, tell the authors of actorlib"
_STYLES = {"ok": "green", "warning": "yellow", "problem": "bold red"}


T = TypeVar("T")


class Told(TypedDict):
    """Something that a check has found; ``advice`` is empty where there is none."""

    check: str
    state: State
    what: str
    advice: str


class Diagnosis(TypedDict):
    """What all checks have found; ``state`` is that of the worst of it."""

    version: str
    state: State
    findings: list[Told]


def show(*, as_json: bool, host: Host | None = None) -> int:
    """Examines this machine, and prints what was found.

    Args:
        as_json: Whether to print one JSON document instead of a table.
        host: The machine; None for this one. Default: None.

    Returns:
        The exit code: 1 if there is a problem, else 0.
    """
    host = host or Host()
    # What a vendor's module prints while it is imported belongs to no document.
    with contextlib.redirect_stdout(sys.stderr):
        found = examined(checks_of(host))
    out = console()
    if as_json:
        out.out(json.dumps(found, indent=2))
    else:
        out.print(draw(found), crop=False)
    return int(found["state"] == "problem")


def checks_of(host: Host) -> dict[str, Check]:
    """Gives the checks, by their names, in the order in which they are shown.

    Args:
        host: The machine.
    """
    facts = machine_facts
    looked: _Shared[Summary] = _Shared(lambda: devices.look(host, families()))
    return {
        "python": lambda: judge_python(facts.find_python()),
        "packages": lambda: judge_packages(facts.find_packages(host)),
        "start": lambda: judge_start(facts.try_a_start()),
        "limits": lambda: judge_limits(facts.find_limits(host)),
        "container": lambda: judge_container(facts.find_container(host)),
        "shared memory": lambda: judge_shared_memory(facts.find_shared_memory(host)),
        "cgroups": lambda: judge_cgroups(facts.find_cgroups(host)),
        "devices": lambda: judge_devices(facts.families_in(looked.value())),
        "nvml": lambda: judge_nvml(facts.find_nvidia(host)),
        "mps": lambda: judge_mps(facts.find_mps(host)),
        "processes": lambda: judge_processes(facts.find_processes(host)),
        "runtimes": lambda: judge_runtimes(facts.find_runtimes(looked.value())),
        "clock": lambda: judge_clock(facts.find_clock(host)),
    }


@final
class _Shared(Generic[T]):
    """Makes something once, for the first who wants it; the others wait."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = functools.cache(make)
        self._lock = Lock()

    def value(self) -> T:
        with self._lock:
            return self._make()


def examined(checks: Mapping[str, Check], limit: float = _LIMIT) -> Diagnosis:
    """Makes all checks side by side.

    Args:
        checks: The checks, by their names.
        limit: How many seconds all of them have together. One that takes longer is
            left behind in its daemon thread. Default: 75.0.
    """
    results = {name: _started(check) for name, check in checks.items()}
    wait(results.values(), timeout=limit)
    findings: list[Told] = []
    every: list[Finding] = []
    for name, result in results.items():
        told = (
            result.result()
            if result.done()
            else [Finding("warning", f"no answer within {limit:g} s", _ASK_AGAIN)]
        )
        every += told
        findings += [
            Told(check=name, state=one.state, what=one.what, advice=one.advice)
            for one in told
        ]
    return {
        "version": actorlib.__version__,
        "state": worst(every),
        "findings": findings,
    }


def _started(check: Check) -> Future[list[Finding]]:
    # No pool: it joins its threads when the interpreter ends, and a check that hangs in
    # a driver would hold up the exit as well.
    result: Future[list[Finding]] = Future()
    Thread(target=lambda: result.set_result(_made(check)), daemon=True).start()
    return result


def _made(check: Check) -> list[Finding]:
    try:
        return check()
    except Exception as error:  # noqa: BLE001  # a vendor's module, or a strange machine
        why = f"could not be checked: {type(error).__name__}: {error}"
        return [Finding("warning", why, _ASK_AGAIN)]


def draw(found: Diagnosis) -> RenderableType:
    """Puts what was found on a page for people."""
    made = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    for column in ("state", "check", "what"):
        made.add_column(column, overflow="fold", no_wrap=column != "what")
    named = ""
    for told in found["findings"]:
        name = told["check"] if told["check"] != named else ""
        named = told["check"]
        what = f"{told['what']}."
        if told["advice"]:
            what = f"{what}\n-> {told['advice']}."
        state = told["state"]
        made.add_row(Text(state, style=_STYLES[state]), name, what)
    counts = Counter(told["state"] for told in found["findings"])
    said = ", ".join(
        f"{counts[state]} {state}{'s' if counts[state] > 1 else ''}"
        for state in ("problem", "warning")
        if counts[state]
    )
    return Group(made, Text(f"\n{said or 'All is well'}."))
