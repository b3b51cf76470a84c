"""Records what a program does for a while, and draws it: ``actorlib trace``.

``Traced`` is the document of ``actorlib trace --json``: the names of its fields are
promises.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from actorlib._base.value import dataclass
from actorlib._cli.documents import write_document
from actorlib._cli.pages import console, printable
from actorlib._features.runtime import explain_missing
from actorlib._queries.client import ask_loop, the_runtime
from actorlib._rows.rows import encode_row

with explain_missing("actorlib trace"):
    from actorlib._features.recording.trace_events import document, from_plain

_PATIENCE = 5.0
_ENDING = 20.0
"""Seconds that the rest may take when the time is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """What was recorded.

    Attributes:
        pid: The process of the program.
        path: The file.
        seconds: For how long it was recorded.
        calls: How many calls are in the file.
        runs: How many runs are.
        dropped: How many calls and runs there was no room for.
        silent: The actors that did not tell what they have recorded of late.
    """

    pid: int
    path: str
    seconds: float
    calls: int
    runs: int
    dropped: int
    silent: tuple[str, ...]


def show(
    path: str, *, seconds: float, kept: int, as_json: bool, pid: int | None = None
) -> int:
    """Records, and writes the file.

    Args:
        path: The file.
        seconds: How long.
        kept: How many calls, and how many runs, are kept at the most.
        as_json: Whether to print one JSON document instead of a sentence.
        pid: The process of the runtime, if there are several.

    Returns:
        The exit code, 0.

    Raises:
        RuntimeNotFoundError: There is no such runtime.
        RuntimeUnreachableError: It does not answer, or ended meanwhile.
        OSError: The file cannot be written.
    """
    place = Path(path).absolute()
    if not os.access(place.parent, os.W_OK):  # said now, and not when the time is over
        why = f"{place.parent} is no such folder"
        raise PermissionError(f"{path} cannot be written: {why}")
    if place.is_dir() or (place.exists() and not os.access(place, os.W_OK)):
        raise PermissionError(f"{path} cannot be written: it is no such file")
    address = the_runtime(pid)
    told = ask_loop(
        address,
        "trace",
        patience=_PATIENCE,
        grace=seconds + _ENDING,
        seconds=seconds,
        kept=kept,
    )
    recorded = from_plain(told)
    drawn = document(recorded)
    Path(path).write_text(json.dumps(drawn), encoding="utf-8")
    found = Traced(
        pid=recorded.pid,
        path=path,
        seconds=recorded.ended - recorded.began,
        calls=drawn["otherData"]["calls"],
        runs=drawn["otherData"]["runs"],
        dropped=recorded.dropped,
        silent=tuple(recorded.silent),
    )
    if as_json:
        write_document(encode_row(found))
    else:
        console().print("\n".join(in_words(found)))
    return 0


def in_words(found: Traced) -> list[str]:
    """Says what was recorded, for people."""
    found = printable(found)
    lines = [
        f"{found.seconds:.1f} s of pid {found.pid} are in {found.path}: "
        f"{found.calls} calls, {found.runs} runs. Open it in "
        "https://ui.perfetto.dev or chrome://tracing."
    ]
    if found.dropped:
        lines.append(
            f"{found.dropped} older calls and runs were dropped: --kept N keeps "
            "more, and fewer --seconds need less."
        )
    lines += [
        f"{name} did not say what it has recorded of late: it runs a plain method, or "
        "is stopped or stuck."
        for name in found.silent
    ]
    return lines
