"""Records the calls of a program and writes a trace: ``actorlib trace``.

``actorlib trace --json`` prints a ``Traced``, whose field names are stable.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from actorlib._base.value import dataclass
from actorlib._cli.pages import console, printable, write_document
from actorlib._features.runtime import trace_reader
from actorlib._queries.client import ask_loop, the_runtime
from actorlib._rows.rows import encode_row

_ENDING = 20.0
"""Seconds in which the answer has to come after the recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A recording.

    Attributes:
        pid: The process of the program.
        path: The file.
        seconds: Its length.
        calls: The number of calls in the file.
        runs: The number of runs in the file.
        dropped: The number of calls and runs that did not fit.
        silent: The actors that did not send their latest runs.
    """

    pid: int
    path: str
    seconds: float
    calls: int
    runs: int
    dropped: int
    silent: tuple[str, ...]


def show(
    path: str, *, seconds: float, kept: int, as_json: bool, pid: int | None
) -> None:
    """Records for some seconds, and writes the file."""
    read = trace_reader()  # if it is missing, that is reported before the recording
    place = Path(path).absolute()
    if place.exists():
        if place.is_dir() or not os.access(place, os.W_OK):
            why = "it is not a writable file"
            raise PermissionError(f"{path} cannot be written: {why}")
    elif not (place.parent.is_dir() and os.access(place.parent, os.W_OK)):
        why = f"{place.parent} is not a writable folder"
        raise PermissionError(f"{path} cannot be written: {why}")
    address = the_runtime(pid)
    answer = ask_loop(
        address,
        "trace",
        grace=seconds + _ENDING,
        seconds=seconds,
        kept=kept,
    )
    recorded = read(answer)
    trace = recorded.document()
    Path(path).write_text(json.dumps(trace), encoding="utf-8")
    recording = Traced(
        pid=recorded.pid,
        path=path,
        seconds=recorded.ended - recorded.began,
        calls=trace["otherData"]["calls"],
        runs=trace["otherData"]["runs"],
        dropped=recorded.dropped,
        silent=tuple(recorded.silent),
    )
    if as_json:
        write_document(encode_row(recording))
    else:
        console().print("\n".join(in_words(recording)))


def in_words(recording: Traced) -> list[str]:
    """Describes a recording in sentences."""
    recording = printable(recording)
    lines = [
        f"{recording.seconds:.1f} s of pid {recording.pid} are in {recording.path}: "
        f"{recording.calls} calls, {recording.runs} runs. Open it in "
        "https://ui.perfetto.dev or chrome://tracing."
    ]
    if recording.dropped:
        lines.append(
            f"{recording.dropped} older calls and runs were dropped: --kept N keeps "
            "more, and fewer --seconds need less."
        )
    lines += [
        f"{name} did not send its latest runs: it runs a plain method, or is stopped "
        "or stuck."
        for name in recording.silent
    ]
    return lines
