"""A program that was killed during a sweep: the next run goes on from there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from actorlib._api.cache_folder import list_entries

PROGRAM = """
import os
import signal
import sys

import actorlib


@actorlib.remote(num_cpus=1)
def train(number):
    print("ran", number, flush=True)
    return number


async def main():
    async with actorlib.init(num_cpus=1, log_to_driver=False):
        async for number in train.map(range(6), cache="runs", backpressure_size=1):
            print("has", number, flush=True)
            if len(sys.argv) > 1 and number == int(sys.argv[1]):
                os.kill(os.getpid(), getattr(signal, sys.argv[2]))


actorlib.run(main())
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.thorough
def test_program_when_killed_then_the_next_run_goes_on_from_there(
    tmp_path: Path,
) -> None:
    program = tmp_path / "sweep.py"
    program.write_text(PROGRAM)

    def run(*words: str) -> str:
        ended = subprocess.run(
            [sys.executable, str(program), *words],
            cwd=tmp_path,
            env={"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": ""},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return ended.stdout

    assert [n for n in range(6) if f"has {n}" in run("1", "SIGKILL")] == [0, 1]
    before = len(list((tmp_path / "runs").rglob("*.pickle")))
    assert before >= 2
    run("3", "SIGINT")
    kept = list_entries(tmp_path / "runs")
    assert kept[0].function == "sweep.train"
    assert 4 <= kept[0].count < 6
    assert len(kept) == 1
    assert [n for n in range(6) if f"has {n}" in run()] == [*range(6)]
    assert len(list((tmp_path / "runs").rglob("*.pickle"))) == 6
