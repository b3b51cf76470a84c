"""A process that waits to be told whose it is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from actorlib._worker.prefork import PreforkedChild

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="the template is for Linux"),
]

PROGRAM = """
import os, socket, sys
from actorlib._worker.prefork import wait_for_work

(pipe, *others), number = wait_for_work(socket.socket(fileno=int(sys.argv[1])))
os.write(pipe, f"{number} {len(others)}".encode())
os._exit(7)
"""


@pytest.fixture
def waiting() -> Iterator[tuple[PreforkedChild, subprocess.Popen[bytes]]]:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", PROGRAM, str(theirs.fileno())]
    with theirs:
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    child = PreforkedChild(process.pid, ours)
    with process:
        yield child, process
        child.close()


def test_child_when_it_is_assigned_then_it_goes_on_with_what_came(
    waiting: tuple[PreforkedChild, subprocess.Popen[bytes]],
) -> None:
    child, process = waiting
    read, write = os.pipe()
    assert child.assign(2**40, [write, 1, 2])
    os.close(write)
    with os.fdopen(read, "rb") as told:
        assert told.read() == b"1099511627776 2"
    assert process.wait() == 7


def test_child_when_the_template_is_gone_ends_by_itself(
    waiting: tuple[PreforkedChild, subprocess.Popen[bytes]],
) -> None:
    child, process = waiting
    child.close()
    assert process.wait() == 0


def test_child_when_it_has_died_is_of_no_use(
    waiting: tuple[PreforkedChild, subprocess.Popen[bytes]],
) -> None:
    child, process = waiting
    process.kill()
    process.wait()
    assert not child.assign(1, [0, 1, 2])


@pytest.mark.parametrize("reads", [False, True])
def test_child_when_it_ends_then_it_is_known_whether_it_was_assigned(
    waiting: tuple[PreforkedChild, subprocess.Popen[bytes]], *, reads: bool
) -> None:
    child, process = waiting
    if not reads:
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        socket.send_fds(child._sock, [bytes(8)], [0, 1, 2])
        process.kill()
    else:
        assert child.assign(1, [0, 1, 2])
    process.wait()

    assert child.missed_assignment() is not reads


def test_child_when_it_is_stopped_is_of_no_use_and_ends(
    waiting: tuple[PreforkedChild, subprocess.Popen[bytes]],
) -> None:
    child, process = waiting
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)

    assert not child.assign(1, [0, 1, 2])
    assert process.wait() == -signal.SIGKILL
