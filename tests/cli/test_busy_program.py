"""The commands about a program that runs: what they find, and how they end."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from helpers.goldens import stable
from helpers.listings import BUSY
from helpers.owners import Owner

from actorlib._cli import trace

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.goldens import Golden
    from helpers.listings import Command

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
]
LIMIT = 20.0


class Top:
    """``actorlib top`` at a terminal of its own.

    Args:
        words: What stands behind the command.
        columns: How wide the terminal is.
    """

    def __init__(self, *words: str, columns: int = 150) -> None:
        self.screen, inside = pty.openpty()
        self.resize(columns)
        self.mode = termios.tcgetattr(self.screen)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "actorlib", "top", *words],
            stdin=inside,
            stdout=inside,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # one thread
            env={**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
        )
        os.close(inside)
        self.text = ""

    def resize(self, columns: int) -> None:
        size = struct.pack("HHHH", 30, columns, 0, 0)
        fcntl.ioctl(self.screen, termios.TIOCSWINSZ, size)

    def press(self, keys: bytes) -> None:
        os.write(self.screen, keys)

    def until(self, *words: str) -> str:
        """Waits until these words were drawn since it was asked last, in this order."""
        end, place = time.monotonic() + LIMIT, 0
        for word in words:
            while (found := self.text.find(word, place)) < 0:
                left = end - time.monotonic()
                ready, _, _ = select.select([self.screen], [], [], max(0.0, left))
                assert ready, f"{word!r} did not come: {self.text[-2000:]!r}"
                self.text += os.read(self.screen, 65536).decode("utf-8", "replace")
            place = found + len(word)
        drawn, self.text = self.text[:place], self.text[place:]
        return drawn

    def end(self) -> tuple[int, str]:
        """Waits for its end; gives the exit code and what it printed as errors."""
        self.until("\x1b[?1049l")  # it cannot end before this was read
        _, errors = self.process.communicate(timeout=LIMIT)
        assert termios.tcgetattr(self.screen) == self.mode
        os.close(self.screen)
        return self.process.returncode, errors.decode()


def check_ps(command: Command, of: tuple[str, ...], golden: Golden) -> None:
    """The program, its two actors, and why the second one waits."""
    told = command("ps", "--json", *of)
    page = command("ps", *of)

    assert (told.code, told.err, page.code, page.err) == (0, "", 0, "")
    (found,) = json.loads(told.out)["runtimes"]
    m1, m2 = found["actors"]
    assert (m1["label"], m1["state"]) == ("Model 'm1'", "alive")
    assert (m1["running"], m1["waiting"], m1["made"]) == (1, 2, 3)
    assert m1["devices"] == {"0": 1.0}
    assert (m1["device_nbytes"], m1["device_memory"]) == ({"0": None}, {})
    assert m1["enforced_by"] == "off"
    assert 0 < m1["pss"] < m1["rss"]
    assert (m2["label"], m2["state"], m2["pid"]) == ("Model 'm2'", "pending", 0)
    (row,) = [line for line in page.out.splitlines() if " alive " in line]
    assert f"Model 'm1' {m1['pid']} alive 0 (1)" in " ".join(row.split())
    explanation = command("explain", "m2", *of).out
    assert explanation.strip() == m2["why"]
    golden.check("explain.txt", stable(explanation))


def check_calls(command: Command, of: tuple[str, ...]) -> None:
    """The call that runs, and the two that wait and have a limit of time."""
    calls: Any = json.loads(command("calls", "m1", "--json", *of).out)["calls"]

    assert [(call["name"], call["state"]) for call in calls] == [
        ("Model.predict", "running"),
        ("Model.predict", "queued"),
        ("Model.predict", "queued"),
    ]
    assert calls[0]["age"] >= 0
    assert calls[0]["left"] is None
    assert 0 < calls[1]["left"] <= 60
    assert {"m1", "m2"} <= {*command("completion", "actors").out.split()}


def check_top(command: Command, of: tuple[str, ...]) -> None:
    """What it prints where there is no terminal."""
    document = json.loads(command("top", "--json", "--once", *of).out)
    page = command("top", "--filter", "m1", *of)

    m1, m2 = document["runtimes"][0]["actors"]
    assert document["calls_per_second"] == {m1["id"]: 0.0, m2["id"]: 0.0}
    assert (m1["cpu"] is None, document["devices"]) == (False, [])
    assert "Model 'm1'" in page.out
    assert ("\x1b" in page.out, page.err) == (False, "")


def check_kill(command: Command, of: tuple[str, ...]) -> None:
    """An actor that there is dies once; another is not found."""
    unknown = command("kill", "m3", *of)
    killed = command("kill", "m1", *of)
    then = json.loads(command("ps", "--all", "--json", *of).out)
    again = command("kill", "m1", *of)

    assert (unknown.code, unknown.out) == (3, "")
    assert "there is no actor 'm3'" in unknown.err
    assert (killed.code, killed.err) == (0, "")
    assert re.fullmatch(r"Model 'm1' \(pid \d+\) was killed\.\n", killed.out)
    states = {row["name"]: row["state"] for row in then["runtimes"][0]["actors"]}
    assert states["m1"] == "dead"
    assert states["m2"] in ("starting", "alive")
    assert again.code == 3
    assert "is dead" in again.err


@pytest.mark.thorough
def test_program_when_it_is_busy_then_every_command_tells_of_it(
    tmp_path: Path, command: Command, golden: Golden
) -> None:
    with Owner(BUSY, folder=tmp_path) as owner:
        assert owner.told() == "ready"
        of = ("--pid", str(owner.pid))
        check_ps(command, of, golden)
        check_calls(command, of)
        check_top(command, of)

        top = ("--interval", "0.3", *of)
        left, killed = Top(*top), Top(*top)
        left.until("\x1b[?1049h", "Model 'm1'", "waits: Model 'm2'", "by cpu")
        left.press(b"m/m2\r")
        left.until("by memory", "'m2' (Esc drops it)")
        left.resize(50)
        left.until("\x1b[7mactor")  # its id has no room there
        left.press(b"\x1a")  # nobody could let it go on here, so it does at once
        left.until("\x1b[?1049l", "\x1b[?1049h", "Model 'm2'")
        left.press(b"\x1bq")
        assert left.end() == (0, "")
        killed.until("calls/s")
        killed.process.send_signal(signal.SIGTERM)
        assert killed.end() == (128 + signal.SIGTERM, "")

        abandoned = Top(*top)
        check_kill(command, of)
        abandoned.until("Model 'm2'")
        owner.go_on()
        owner.end()
        code, errors = abandoned.end()

    assert (code, f"pid {owner.pid}" in errors, "has ended" in errors) == (
        3,
        True,
        True,
    )


def test_program_when_it_has_no_runtime_then_a_sentence_and_a_code(
    command: Command,
) -> None:
    ended = command("ps", "--pid", str(os.getppid()))

    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith(
        f"actorlib: error: process {os.getppid()} has no runtime that answers"
    )


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


def test_program_when_traced_twice_at_once_then_each_file_has_its_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "one.json", tmp_path / "two.json"]
    with Owner(CALLING, folder=tmp_path) as owner, ThreadPoolExecutor() as threads:
        owner.told()
        options: Any = {"seconds": 0.2, "kept": 100_000, "as_json": False}
        asking = [
            threads.submit(trace.show, str(path), pid=owner.pid, **options)
            for path in paths
        ]
        for asked in asking:
            asked.result()
        owner.go_on()
        owner.end()

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    for path in paths:
        drawn = json.loads(path.read_text())
        runs = [e for e in drawn["traceEvents"] if e.get("cat") == "run"]
        (line,) = [line for line in lines if str(path) in line]
        assert {run["name"] for run in runs} == {"Model.predict"}
        assert f"{drawn['otherData']['calls']:,} calls, {len(runs):,} runs" in line
        assert len(runs) > 0
