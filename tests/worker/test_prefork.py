"""Processes that wait to be told whose they are, and how many of them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from actorlib._worker.template.demand import MEMORY, MOST
from actorlib._worker.template.prefork import PreforkedChild, PreforkedChildren

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="the template is for Linux"),
]

PROGRAM = """
import os, socket, sys
from actorlib._worker.template.prefork import wait_for_work

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


@pytest.mark.parametrize("reads", [False, True])
def test_child_when_it_is_stopped_too_late_ends_if_it_has_not_read(
    *, reads: bool
) -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        child = PreforkedChild(process.pid, ours)
        assert child.assign(1, [0, 1, 2])
        if reads:
            theirs.recv(64)
            theirs.close()
        child.kill_if_stuck()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        child.kill_if_stuck()
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        assert process.wait() == -(signal.SIGTERM if reads else signal.SIGKILL)
    assert child.missed_assignment() is not reads
    child.close()
    theirs.close()


# Several of them.


class Forks:
    """Adds a child's end for each that is missing, as the template does.

    Args:
        room: How many there is room for.
    """

    def __init__(self, room: int = MOST) -> None:
        self.children = PreforkedChildren(lambda: room)
        self.ends: dict[int, socket.socket] = {}
        self._files = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]
        self._next_pid = 2**22 + 1  # above all that the kernel gives

    def pause(self, now: float) -> list[int]:
        """Lets time pass without a request; gives the pids that were forked."""
        forked: list[int] = []
        while self.children.is_one_missing(now):
            ours, theirs = socket.socketpair()
            self.children.add(PreforkedChild(self._next_pid, ours))
            self.ends[self._next_pid] = theirs
            forked.append(self._next_pid)
            self._next_pid += 1
        return forked

    def ask(self, number: int) -> list[int]:
        """Asks for workers; gives the pids of those that become one."""
        pids = [self.children.assign(n, self._files) for n in range(number)]
        return [pid for pid in pids if pid]

    def has_ended(self, pid: int) -> bool:
        """Whether the template has let go of its end."""
        return self.ends[pid].recv(1) == b""

    def close(self) -> None:
        self.children.close()
        for end in self.ends.values():
            end.close()
        for file in self._files:
            os.close(file)


@pytest.fixture
def forks() -> Iterator[Forks]:
    forks = Forks()
    yield forks
    forks.close()


def test_children_after_a_burst_are_as_many_and_serve_the_next(forks: Forks) -> None:
    assert forks.pause(0.0) == []
    assert forks.ask(3) == []
    spares = forks.pause(1.0)
    assert len(spares) == 3

    assert forks.ask(4) == spares
    assert len(forks.pause(2.0)) == 4


def test_children_when_nobody_asks_for_a_while_are_fewer(forks: Forks) -> None:
    forks.ask(4)
    first, *others = forks.pause(0.0)

    assert forks.children.pause(1.0) == MEMORY - 1.0
    assert forks.pause(MEMORY) == []
    assert all(map(forks.has_ended, others))
    assert forks.ask(4) == [first]


def test_children_when_there_is_no_room_are_none() -> None:
    forks = Forks(room=0)
    forks.ask(3)

    assert forks.pause(0.0) == []
    forks.close()


def test_child_when_it_ends_unasked_is_not_forked_anew_until_somebody_asks(
    forks: Forks,
) -> None:
    forks.ask(2)
    first, second = forks.pause(0.0)
    assert forks.children.has(first)
    assert not forks.children.missed_assignment(first)

    assert not forks.children.has(first)
    assert forks.pause(1.0) == []
    assert forks.pause(3 * MEMORY) == []
    assert forks.ask(2) == [second]


def test_children_when_some_have_not_read_then_it_is_known_of_each(
    forks: Forks,
) -> None:
    forks.ask(3)
    forks.pause(0.0)
    first, second, third = forks.ask(3)
    forks.ends[second].recv(64)
    for pid in (first, second, third):
        forks.ends[pid].close()

    missed = {pid: forks.children.missed_assignment(pid) for pid in forks.ends}
    assert missed == {first: True, second: False, third: True}


def test_children_when_closed_then_all_end(forks: Forks) -> None:
    forks.ask(3)
    spares = forks.pause(0.0)
    forks.children.close()

    assert all(map(forks.has_ended, spares))
    assert forks.ask(1) == []


def test_children_when_renewed_then_all_end_and_as_many_are_forked(
    forks: Forks,
) -> None:
    forks.ask(3)
    spares = forks.pause(0.0)
    forks.children.renew()

    assert all(map(forks.has_ended, spares))
    others = forks.pause(1.0)
    assert len(others) == 3
    assert forks.ask(3) == others
