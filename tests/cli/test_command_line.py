"""The command line: words, help, exit codes, and output that nobody can read."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.goldens import stable

import actorlib
from actorlib.__main__ import main
from actorlib._cli import metrics
from docs.building.reference import commands

if TYPE_CHECKING:
    from helpers.goldens import Golden
    from helpers.listings import Command

ROOT = Path(__file__).parents[2]
LIMIT = 60.0
ROW = re.compile(r"probe \d+ +(?P<pid>\d+) ")


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **variables}


def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in a process of its own, as a user does."""
    return subprocess.run(
        [sys.executable, *words],
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# Words.


def test_commands_and_their_options_are_those_of_the_help(
    golden: Golden, command: Command
) -> None:
    help_text = command("--help")

    names = re.findall(r"^## actorlib (\w+)$", commands(), re.MULTILINE)
    assert (help_text.code, help_text.err) == (0, "")
    assert len(names) == 15
    listed = re.findall(r"^    (\w+)", help_text.out, re.MULTILINE)
    assert sorted({*names} - {*listed}) == []
    golden.check("commands.txt", commands())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("", "command"),
        ("fly", "'fly'"),
        ("demo --actors 0", "'0' is not a whole number above 0"),
        ("demo --actors many", "'many' is not a whole number above 0"),
        ("demo --start-method fork", "'fork'"),
        *((f"{name} {'9' * 30}", "is too large") for name in ("logs -n", "objects -n")),
        (f"trace --kept {'9' * 30}", "is too large"),
        ("trace --seconds 0", "'0' is not a number from 0.1 to 3600"),
        ("top --web --port 65536", "'65536' is not a port: 0 to 65535"),
        ("logs --since soon", "'soon' is not a time like 10s, 5m, 2h, 1d"),
    ],
)
def test_words_when_they_make_no_command_then_usage_goes_to_stderr(
    words: str, why: str, command: Command
) -> None:
    ended = command(*words.split())

    assert (ended.code, ended.out) == (2, "")
    assert why in ended.err


@pytest.mark.slow
def test_version_when_asked_for_then_only_that_is_printed_without_rich() -> None:
    code = (
        "import sys\n"
        "from actorlib.__main__ import main\n"
        "try:\n"
        "    main(['--version'])\n"
        "finally:\n"
        "    assert 'rich' not in sys.modules\n"
    )

    done = run("-c", code)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"actorlib {actorlib.__version__}\n"


# Output.


@pytest.fixture
def _odd_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime whose metrics have an actor with an odd name."""
    monkeypatch.setattr(metrics, "the_runtime", lambda pid: pid)
    monkeypatch.setattr(metrics, "ask_loop", lambda *_, **__: "Modèle\udcff\n")


@pytest.mark.usefixtures("_odd_metrics")
def test_output_when_its_coding_lacks_a_character_then_its_escape_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))

    assert main(["metrics"]) == 0
    assert written.getvalue() == b"Mod\\xe8le\\udcff\n"


@pytest.mark.usefixtures("_odd_metrics")
@pytest.mark.parametrize("words", [["metrics"], ["completion", "bash"], ["devices"]])
def test_output_when_it_is_closed_then_the_command_does_its_work(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)

    assert main(words) == 0
    assert main(["trace", "-o", "/no such/folder"]) == 1
    sys.stdout.close()
    sys.stderr.close()


@pytest.mark.parametrize("words", ["completion bash", "devices --json"])
def test_output_when_nobody_reads_it_then_nothing_is_said_of_that(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        with pytest.raises(SystemExit) as left:
            main(words.split())

    assert left.value.code == 1
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_page_when_nobody_reads_it_then_the_command_ends_quietly() -> None:
    command = f'"{sys.executable}" -m actorlib devices | true; echo ${{PIPESTATUS[0]}}'

    done = subprocess.run(
        ["/bin/bash", "-c", command],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("1\n", "")


# The demo.


@pytest.mark.process
@pytest.mark.slow
def test_demo_when_it_has_ended_then_it_shows_shares_and_speed_and_nothing_is_left(
    golden: Golden,
) -> None:
    words = ("demo", "--actors", "8")
    # Every device is hidden, so logical ones stand in on any machine.
    done = run("-m", "actorlib", *words, CUDA_VISIBLE_DEVICES="")

    assert (done.returncode, done.stderr) == (0, "")
    pids = [match["pid"] for match in ROW.finditer(done.stdout)]
    assert len(set(pids)) == 4
    assert not any(is_there(int(pid)) for pid in pids)
    assert "nothing is left of 12 workers and their template" in done.stdout
    known = dict.fromkeys(["PID"], "|".join(pids))
    text = re.sub(known["PID"], "PID", done.stdout)
    text = re.sub(r"[\d,.]+(?= (calls )?a second)", "N", stable(text))
    _, _, text = text.partition("CPUs\n")
    text = re.sub(r" {2,}", "  ", re.sub("─+", "─", text))
    golden.check("demo.txt", text)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.thorough
def test_demo_when_the_terminal_is_narrow_and_ascii_then_no_line_is_wider() -> None:
    done = run(
        *("-m", "actorlib", "demo", "--gpus", "1", "--actors", "2"),
        COLUMNS="40",
        PYTHONIOENCODING="ascii",
    )

    assert (done.returncode, done.stderr, done.stdout.isascii()) == (0, "", True)
    assert max(map(len, done.stdout.splitlines())) <= 40
    assert "nothing is left of 5 workers" in done.stdout


@pytest.mark.process
def test_demo_when_the_mask_allows_less_then_one_line_says_so(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")

    ended = command("demo", "--gpus", "3")

    assert ended.code == 1
    assert ended.err.startswith("actorlib: error: 3 GPU declared")
    assert ended.err.count("\n") == 1


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("redirected", "code", "error"),
    [("<&- >&-", 0, ""), (">/dev/full", 1, "actorlib: error: ")],
)
def test_demo_when_its_output_goes_nowhere_then_its_exit_code_says_whether_it_matters(
    redirected: str, code: int, error: str
) -> None:
    command = f'"{sys.executable}" -m actorlib demo --actors 2 {redirected}'

    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
        check=False,
    )

    assert done.returncode == code
    assert done.stderr.startswith(error)
    assert done.stderr.count("\n") == bool(error)


@pytest.mark.process
@pytest.mark.slow
def test_demo_when_interrupted_then_it_ends_with_130_and_leaves_nothing() -> None:
    # Interpreters are slow to start, so there is much under way when it is stopped.
    words = ("demo", "--gpus", "1", "--actors", "100", "--start-method", "spawn")
    with subprocess.Popen(
        [sys.executable, "-m", "actorlib", *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        rows: list[re.Match[str]] = []
        while len(rows) < 3 and (line := process.stdout.readline()):
            rows.extend(ROW.finditer(line))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT)

    assert (process.returncode, errors) == (130, "")
    assert len(rows) == 3
    assert not any(is_there(int(row["pid"])) for row in rows)
