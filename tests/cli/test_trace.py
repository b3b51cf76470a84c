"""What ``actorlib trace`` says, and what it writes of a program that runs."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from helpers.listings import actorlib
from helpers.owners import Owner

from actorlib.__main__ import main
from actorlib._cli.trace import Traced, in_words

if TYPE_CHECKING:
    from pathlib import Path

CALLING = """
import asyncio
import actorlib
from helpers.owners import listen, tell

@actorlib.remote
class Model:
    def predict(self):
        pass

async def main():
    async with actorlib.init(num_cpus=1, grace=0):
        model = Model.options(name="m1").remote()
        await model
        tell("ready")
        asked = asyncio.create_task(asyncio.to_thread(listen))
        while not asked.done():
            await model.predict.remote()
            await asyncio.sleep(0.001)

asyncio.run(main())
"""


def test_words_when_something_is_missing_then_they_say_what() -> None:
    found = Traced(
        pid=812,
        path="out.json",
        seconds=5.04,
        calls=10,
        runs=9,
        dropped=3,
        silent=("Model 'm1' (pid 813)",),
    )

    first, dropped, silent = in_words(found)

    assert first == (
        "5.0 s of pid 812 are in out.json: 10 calls, 9 runs. Open it in "
        "https://ui.perfetto.dev or chrome://tracing."
    )
    assert dropped.startswith("3 older calls and runs were dropped: --kept N")
    assert silent.startswith("Model 'm1' (pid 813) did not send")
    assert len(in_words(replace(found, dropped=0, silent=()))) == 1


def test_file_when_its_folder_is_missing_then_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "-o", str(tmp_path / "no" / "out.json")]) == 1
    assert "not a writable folder" in capsys.readouterr().err


def test_file_when_it_is_a_folder_then_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "-o", str(tmp_path)]) == 1
    assert "it is not a writable file" in capsys.readouterr().err


def test_error_when_it_would_steer_a_terminal_then_its_escapes_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "-o", str(tmp_path / "\x1b[2J" / "out.json")]) == 1
    assert r"\x1b[2J" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.process
@pytest.mark.slow
def test_program_when_traced_twice_at_once_then_two_files(tmp_path: Path) -> None:
    with Owner(CALLING, folder=tmp_path) as owner, ThreadPoolExecutor() as threads:
        owner.told()
        of = ("--pid", str(owner.pid), "--json", "--seconds", "0.2")
        paths = [tmp_path / "one.json", tmp_path / "two.json"]
        asking = [
            threads.submit(partial(actorlib, "trace", "-o", str(path), *of))
            for path in paths
        ]
        told = [asked.result() for asked in asking]
        owner.go_on()
        owner.end()

    for path, command in zip(paths, told, strict=True):
        assert (command.returncode, command.stderr) == (0, "")
        found = json.loads(command.stdout)
        drawn = json.loads(path.read_text())
        runs = [e for e in drawn["traceEvents"] if e.get("cat") == "run"]
        assert {run["name"] for run in runs} == {"Model.predict"}
        assert len(runs) == found["runs"] > 0
        assert (found["pid"], found["dropped"], found["silent"]) == (owner.pid, 0, [])
        assert drawn["otherData"]["calls"] == found["calls"] > 0
