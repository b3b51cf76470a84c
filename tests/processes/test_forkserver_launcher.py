"""A worker of the template: what is opened for it, and its number."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from actorlib._base.process_stat import ProcessStat
from actorlib._processes.forkserver_launcher import (
    TemplateLauncher,
    TemplateWorker,
    end_reason,
    silence_reason,
)
from actorlib._processes.launcher import ProcessExit
from actorlib._processes.template_process import FORKING, begin_template
from actorlib._processes.worker_output import style_of
from actorlib._wire.forkserver_protocol import MARK_VARIABLE
from actorlib.exceptions import TemplateError

if TYPE_CHECKING:
    from actorlib._processes.template_process import BegunTemplate


async def test_output_when_only_one_pipe_can_be_opened_then_none_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    printer: Any = None
    loop = asyncio.get_running_loop()
    worker = TemplateWorker(lambda _: None, 1, "A", loop)
    opened: list[tuple[int, int]] = []
    make = os.pipe

    def one() -> tuple[int, int]:
        if opened:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        opened.append(make())
        return opened[0]

    monkeypatch.setattr("os.pipe", one)
    with pytest.raises(OSError, match="open files"):
        worker.open_output(printer)
    worker.on_exited(ProcessExit(error="it was not started"))
    worker.sock.close()

    for end in opened[0]:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)


async def test_pid_when_the_process_says_it_then_signals_wait_for_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = TemplateWorker(lambda _: None, 1, "A", asyncio.get_running_loop())
    ended: list[int] = []
    monkeypatch.setattr("os.killpg", lambda group, _: ended.append(group))

    worker.identify(os.getpid())
    worker.kill_group()
    assert (worker.pid, ended) == (os.getpid(), [])

    worker.on_forked(4321)
    worker.identify(os.getpid())
    worker.kill_group()
    assert (worker.pid, ended) == (4321, [4321])
    worker.on_exited(ProcessExit(code=0))
    worker.sock.close()


class _Shown:
    """Keeps the lines that a printer would show."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int, bytes]] = []

    def show(self, stream: str, label: str, pid: int, lines: list[bytes]) -> None:
        del stream
        self.lines += [(label, pid, line) for line in lines]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Model(7)", [("A", 9, b"made"), ("Model(7)", 9, b"later")]),
        (lambda: "prepare", [("prepare", 9, b"made"), ("prepare", 9, b"later")]),
    ],
    ids=["an actor", "a worker of functions"],
)
async def test_output_when_the_worker_answers_before_its_fork_is_reported_then_named(
    name: Any, expected: list[tuple[str, int, bytes]]
) -> None:
    shown: Any = _Shown()
    worker = TemplateWorker(lambda _: None, 1, "A", asyncio.get_running_loop())
    worker.open_output(shown)
    _, stdout, _ = worker.child_ends()
    os.write(stdout, b"made\n")

    worker.identify(9)
    worker.read_output()
    worker.rename(name)
    assert shown.lines == []
    worker.on_forked(9)
    worker.read_output()
    os.write(stdout, b"later\n")
    worker.read_output()
    worker.on_exited(ProcessExit(code=0))
    worker.sock.close()

    assert shown.lines == expected


def _in(state: str) -> ProcessStat | None:
    """A process in a state; none if that is empty."""
    if not state:
        return None
    return ProcessStat(7, "python", state, 1, 7, 7, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("T", "is stopped. `kill -CONT 7` lets it go on"),
        ("t", "is stopped. `kill -CONT 7` lets it go on"),
        ("D", "waits for a device or a disk"),
        ("S", "does not answer"),
        ("", "does not answer"),
    ],
)
def test_silence_when_the_template_has_a_state_then_the_reason_names_it(
    state: str, expected: str
) -> None:
    assert silence_reason(7, _in(state)) == f"the template process (pid 7) {expected}"


@pytest.mark.parametrize("state", ["", "Z", "X"])
def test_end_when_the_process_has_ended_then_the_template_is_the_reason(
    state: str,
) -> None:
    assert end_reason(8, _in(state), "the template sleeps") == (
        "its process (pid 8) has ended. Its share is free later: the template sleeps"
    )


@pytest.mark.parametrize("state", ["D", "R", "S"])
def test_end_when_the_process_is_there_then_the_kernel_is_the_reason(
    state: str,
) -> None:
    reason = end_reason(8, _in(state), "the template sleeps")
    assert "pid 8" in reason
    assert "the kernel has not ended it" in reason
    assert "template" not in reason


def _launcher(begun: BegunTemplate | None = None) -> TemplateLauncher:
    return TemplateLauncher(
        asyncio.get_running_loop(),
        preload=(),
        style=style_of({}, is_shown=False),
        begun=begun or begin_template(FORKING, ()),
    )


@pytest.mark.process
async def test_template_when_begun_and_not_started_then_it_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    make = subprocess.Popen

    def noted(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        begun.append(make(*args, **kwargs))
        return begun[-1]

    monkeypatch.setattr("subprocess.Popen", noted)
    # On a busy machine it may still be importing: it is not to be killed for that here.
    monkeypatch.setattr("actorlib._processes.forkserver_launcher.LEAVE_TIMEOUT", 60.0)
    launcher = _launcher()
    await launcher.aclose()

    assert [process.returncode for process in begun] == [0]


async def test_template_when_it_cannot_begin_then_its_start_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr("subprocess.Popen", refuse)
    launcher = _launcher()
    with pytest.raises(TemplateError, match="no more processes"):
        await launcher.start()
    await launcher.aclose()


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="marks are read in /proc")
async def test_end_when_it_is_cancelled_then_what_a_stuck_template_left_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actorlib._processes.forkserver_launcher.LEAVE_TIMEOUT", -0.9)
    begun = begin_template(FORKING, ())
    assert begun is not None
    launcher = _launcher(begun)
    await launcher.start()
    environment = {**os.environ, MARK_VARIABLE: f"{begun.mark}:1"}
    left = await asyncio.create_subprocess_exec("sleep", "1000", env=environment)
    try:
        begun.process.send_signal(signal.SIGSTOP)
        end = asyncio.ensure_future(launcher.aclose())
        await asyncio.wait({end}, timeout=0)
        end.cancel()
        await asyncio.wait({end})
        await asyncio.get_running_loop().shutdown_default_executor()
        async with asyncio.timeout(10):
            assert await left.wait() == -signal.SIGKILL
    finally:
        with suppress(ProcessLookupError):
            left.kill()
        await launcher.aclose()
