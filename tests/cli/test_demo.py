"""The command line, as a user meets it: in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import actorlib
from actorlib.__main__ import main

ROOT = Path(__file__).parents[2]
LIMIT = 60.0
ROW = re.compile(
    r"probe \d+ +(?P<pid>\d+) +GPU (?P<device>\S+) \([^)]+\) +(?P<share>[\d.]+) +"
    r"CUDA_VISIBLE_DEVICES=(?P<mask>\S+)"
)
# What a machine or a session may have set, and what would change what is shown.
SETTINGS = ("ACTORLIB_", "COLUMNS", "CUDA_", "RAY_", "TERM")


def environment(**variables: str) -> dict[str, str]:
    kept = {n: v for n, v in os.environ.items() if not n.startswith(SETTINGS)}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "100", **variables}


def actorlib_command(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "actorlib", *words],
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


@pytest.mark.parametrize("words", ["logs -n", "objects -n", "trace --kept"])
def test_number_when_it_is_beyond_any_then_it_is_refused(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([*words.split(), "9" * 30])

    assert left.value.code == 2
    assert "is too large" in capsys.readouterr().err


@pytest.mark.slow
def test_version_when_asked_for_then_only_that_is_printed() -> None:
    done = actorlib_command("--version")

    assert done.returncode == 0
    assert done.stdout == f"actorlib {actorlib.__version__}\n"
    assert done.stderr == ""


@pytest.mark.slow
def test_help_when_asked_for_then_the_commands_are_named() -> None:
    done = actorlib_command("--help")

    assert done.returncode == 0
    assert "demo" in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "command"),
        (("fly",), "'fly'"),
        (("demo", "--actors", "0"), "'0' is not a whole number above 0"),
        (("demo", "--actors", "many"), "'many' is not a whole number above 0"),
        (("demo", "--start-method", "fork"), "'fork'"),
    ],
)
def test_words_when_they_make_no_command_then_usage_goes_to_stderr(
    words: tuple[str, ...], told: str
) -> None:
    done = actorlib_command(*words)

    assert done.returncode == 2
    assert done.stdout == ""
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_version_when_asked_for_then_rich_is_not_imported() -> None:
    code = (
        "import sys\n"
        "from actorlib.__main__ import main\n"
        "try:\n"
        "    main(['--version'])\n"
        "finally:\n"
        "    assert 'rich' not in sys.modules\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def demo() -> subprocess.CompletedProcess[str]:
    """One run on two devices, real ones as far as there are any."""
    return actorlib_command("demo", "--gpus", "2", "--actors", "8")


@pytest.mark.process
@pytest.mark.slow
def test_demo_when_run_then_it_ends_well(
    demo: subprocess.CompletedProcess[str],
) -> None:
    assert demo.returncode == 0
    assert demo.stderr == ""


@pytest.mark.process
@pytest.mark.slow
def test_demo_when_run_then_each_actor_is_on_its_share_of_a_device(
    demo: subprocess.CompletedProcess[str],
) -> None:
    rows = [match.groupdict() for match in ROW.finditer(demo.stdout)]

    assert [(row["device"], row["share"]) for row in rows] == [
        ("0", "0.5"),
        ("0", "0.25"),
        ("0", "0.25"),
        ("1", "1"),
    ]
    assert [row["mask"] for row in rows] == ["0", "0", "0", "1"]
    assert len({row["pid"] for row in rows}) == len(rows)


@pytest.mark.process
@pytest.mark.slow
def test_demo_when_run_then_it_tells_what_it_measured(
    demo: subprocess.CompletedProcess[str],
) -> None:
    assert re.search(
        r"placement +8 actors answered after [\d.]+ s: \d+ a second", demo.stdout
    )
    assert re.search(r"ping +p50 \d+ us, p99 \d+ us", demo.stdout)
    assert re.search(r"pipelined +[\d,]+ calls a second", demo.stdout)


@pytest.mark.process
@pytest.mark.slow
def test_demo_when_it_has_ended_then_nothing_is_left(
    demo: subprocess.CompletedProcess[str],
) -> None:
    pids = [int(match["pid"]) for match in ROW.finditer(demo.stdout)]

    assert "nothing is left of 12 workers and their template" in demo.stdout
    assert not any(map(is_there, pids))


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.thorough
def test_demo_when_every_device_is_hidden_then_logical_ones_stand_in() -> None:
    done = actorlib_command("demo", "--actors", "2", CUDA_VISIBLE_DEVICES="")

    assert done.returncode == 0
    assert "No GPU is used (CUDA_VISIBLE_DEVICES='' hides every device)" in done.stdout
    assert "Logical ones stand in: 2" in done.stdout
    assert len(ROW.findall(done.stdout)) == 4


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.thorough
def test_demo_when_the_terminal_is_narrow_then_no_line_is_wider() -> None:
    done = actorlib_command("demo", "--gpus", "1", "--actors", "2", COLUMNS="40")

    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) <= 40
    assert len(re.findall(r"probe \d +\d+", done.stdout)) == 3


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.thorough
def test_demo_when_the_terminal_takes_ascii_only_then_it_gets_that() -> None:
    done = actorlib_command("demo", "--actors", "2", PYTHONIOENCODING="ascii")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


@pytest.mark.process
@pytest.mark.slow
def test_demo_when_more_is_asked_than_the_mask_allows_then_one_line_says_so() -> None:
    done = actorlib_command("demo", "--gpus", "3", CUDA_VISIBLE_DEVICES="0")

    assert done.returncode == 1
    assert done.stderr.startswith("actorlib: error: 3 GPU declared")
    assert done.stderr.count("\n") == 1


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_demo_when_its_output_cannot_be_written_then_one_line_says_so() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "actorlib", "demo", "--actors", "2"],
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr.startswith("actorlib: error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.thorough
def test_demo_when_its_standard_streams_are_closed_then_it_runs() -> None:
    command = f'"{sys.executable}" -m actorlib demo --actors 2 <&- >&-'

    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


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
