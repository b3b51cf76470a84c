"""Measurements, each in an interpreter of its own, in rounds."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_ROOT = Path(__file__).resolve().parent.parent
_SUBJECTS = "benchmarks.subjects"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One subject with its arguments.

    Attributes:
        name: What it is called in progress and in the names of its figures.
        subject: Its module in ``benchmarks.subjects``.
        arguments: What the subject is told; JSON.
        limit: Seconds after which it is ended and counts as failed.
    """

    name: str
    subject: str
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    limit: float = 300.0


class JobError(Exception):
    """A subject failed; the message says how."""


@dataclass(slots=True)
class Samples:
    """What was measured.

    Attributes:
        figures: By ``job/metric``, one value for each round; None where it failed.
        failures: By job, why it failed the last time.
    """

    figures: dict[str, list[float | None]] = field(
        default_factory=dict[str, list[float | None]]
    )
    failures: dict[str, str] = field(default_factory=dict[str, str])

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


def measure(job: Job) -> dict[str, float]:
    """Runs a subject in a fresh interpreter; gives its figures by name.

    Raises:
        JobError: It failed, or took longer than its limit.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with _started(job, out, err) as process:
            try:
                code = process.wait(job.limit)
            except subprocess.TimeoutExpired:
                raise JobError(f"not done after {job.limit:.0f} s") from None
        if code != 0:
            raise JobError(f"exit code {code}: {' / '.join(_last_lines(err, 2))}")
        metrics: dict[str, float] = json.loads(_last_lines(out, 1)[0])
    return metrics


@contextmanager
def _started(
    job: Job, out: IO[str], err: IO[str]
) -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", f"{_SUBJECTS}.{job.subject}"]
    path = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    # Files, not pipes: a daemon that a peer leaves behind would keep a pipe open.
    process = subprocess.Popen(
        [*command, json.dumps(dict(job.arguments))],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path),
            "RAY_USAGE_STATS_ENABLED": "0",
        },
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _last_lines(file: IO[str], count: int) -> list[str]:
    file.seek(0)
    return file.read().strip().splitlines()[-count:]
