"""Measurements in rounds, each in its own interpreter."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from benchmarks._cases import Job
from benchmarks._leftovers import end_orphans

ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds this package and, in a checkout, that of actorlib."""


class JobError(Exception):
    """A subject failed; the message says how."""


@dataclass(slots=True)
class Samples:
    """What was measured.

    Attributes:
        figures: By ``job/metric``, one value for each round; None where it failed.
        failures: By job, why it failed the last time.
        absences: By job, why it was not run.
        seconds: By job, how long it took in all rounds.
    """

    figures: dict[str, list[float | None]] = field(
        default_factory=dict[str, list[float | None]]
    )
    failures: dict[str, str] = field(default_factory=dict[str, str])
    absences: dict[str, str] = field(default_factory=dict[str, str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, job: Job, turn: int, metrics: Mapping[str, float]) -> None:
        """Keeps what a job measured in a round, counted from 0."""
        for name, value in metrics.items():
            figures = self.figures.setdefault(f"{job.name}/{name}", [])
            figures.extend([None] * (turn + 1 - len(figures)))
            figures[turn] = value


def in_rounds(jobs: Sequence[Job], rounds: int) -> Iterator[tuple[int, Job]]:
    """Every job once in each round; every other round backwards.

    What slows the machine for a while then meets neighbours alike, and what grows over
    time favours neither end of the list.
    """
    for turn in range(rounds):
        for job in jobs if turn % 2 == 0 else reversed(jobs):
            yield turn, job


def measure(job: Job, root: Path = ROOT) -> dict[str, float]:
    """Runs a subject in a fresh interpreter and returns its figures by name.

    Processes and files that it leaves are removed.

    Args:
        job: The subject and its arguments.
        root: The folder from which ``benchmarks`` and ``actorlib`` are imported.

    Raises:
        JobError: It failed, or took longer than its limit.
    """
    # A short name: peers put sockets deep below it, and their paths are limited.
    with (
        tempfile.TemporaryDirectory(prefix="b-", ignore_cleanup_errors=True) as scratch,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        try:
            code = _exit_code(job, root, scratch, out, err)
        finally:
            killed = end_orphans()
        if code != 0:
            raise JobError(f"exit code {code}: {' / '.join(_last_lines(err, 2))}")
        if killed and not job.peer:
            raise JobError(f"it left running: {'; '.join(killed)}")
        return _figures(_last_lines(out, 1))


def _figures(lines: Sequence[str]) -> dict[str, float]:
    try:
        found: dict[str, float] = json.loads(lines[0])
    except (IndexError, json.JSONDecodeError):
        raise JobError(f"it printed no figures: {' '.join(lines)!r}") from None
    return found


def _exit_code(job: Job, root: Path, scratch: str, out: IO[str], err: IO[str]) -> int:
    question, _, subject = job.subject.partition(".")
    command = [sys.executable, "-m", f"benchmarks.{question}", "--subject", subject]
    path = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    # Files, not pipes: a daemon that a peer leaves behind would keep a pipe open.
    process = subprocess.Popen(
        [*command, json.dumps(dict(job.arguments))],
        cwd=root,  # "-m" puts this folder first on the path
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "RAY_USAGE_STATS_ENABLED": "0",
            "TMPDIR": scratch,
        },
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=True,
    )
    try:
        return process.wait(job.limit)
    except subprocess.TimeoutExpired:
        raise JobError(f"not done after {job.limit:.0f} s") from None
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _last_lines(file: IO[str], count: int) -> list[str]:
    file.seek(0)
    return file.read().strip().splitlines()[-count:]
