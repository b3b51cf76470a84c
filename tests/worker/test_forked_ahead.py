"""A template after a burst: who is forked ahead, and what becomes of them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.owners import PATHS, Bell, Watched

from actorlib._processes.kept_descriptors import KeptDescriptors
from actorlib._wire.codec import decode_message
from actorlib._wire.forkserver_protocol import (
    FORKED,
    MARK_VARIABLE,
    REQUEST,
    worker_mark,
)
from actorlib._wire.messages import READY, RESULT
from actorlib._worker.template.prefork import warm_up_frames

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="the template is for Linux"),
]

MARK = "0123456789abcdef"
RINGING = """
import os

def ring():
    with open({path!r}, "w") as bell:
        bell.write(f"{{os.getpid()}}\\n")

os.register_at_fork(after_in_child=ring)
"""


class TemplateProcess:
    """A template, asked for workers as by its owner.

    Args:
        folder: Where the bell is that each process rings when it is forked.
    """

    def __init__(self, folder: Path) -> None:
        self.bell = Bell(folder)
        (folder / "ringing.py").write_text(RINGING.format(path=self.bell.path))
        self.control, theirs = socket.socketpair()
        self._kept = KeptDescriptors()
        inherited = theirs.fileno(), self._kept.end.fileno()
        main = "from actorlib._worker.template.forkserver import main; main()"
        owner = [",".join(map(str, inherited)), str(os.getpid()), MARK, "fork"]
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", main, *owner, "ringing"],
                pass_fds=inherited,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join([str(folder), PATHS]),
                    MARK_VARIABLE: worker_mark(MARK, 0),
                },
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._pipes: list[socket.socket] = []
        self._start, _, self._call, _ = warm_up_frames()

    def ask(self, number: int) -> list[int]:
        """Has actors made and called; gives their processes once all have answered."""
        wanted = range(len(self._pipes), len(self._pipes) + number)
        with open(os.devnull, "wb") as out:  # noqa: PTH123  # a descriptor
            for worker in wanted:
                ours, theirs = socket.socketpair()
                self._pipes.append(ours)
                ours.sendall(self._start)
                with theirs:
                    files = [theirs.fileno(), out.fileno(), out.fileno()]
                    request = REQUEST.pack(worker)
                    socket.send_fds(self.control, [request], files)
        pids: dict[int, int] = {}
        while len(pids) < number:
            for report in received(self.control):
                if report[0] == FORKED:
                    pids[report[1]] = report[2]
        for worker in wanted:
            assert received(self._pipes[worker])[0][0] == READY
            self._pipes[worker].sendall(self._call)
            assert received(self._pipes[worker])[0][0] == RESULT
        return [pids[worker] for worker in wanted]

    def spares(self, workers: list[int]) -> set[int]:
        """Waits until as many are forked ahead as were asked for; gives them.

        Args:
            workers: All that were asked for.
        """
        forked = {self.bell.heard() for _ in range(2 * len(workers))}
        assert forked > set(workers)
        return forked - set(workers)

    def end(self) -> int:
        """Ends it as its owner's end does; gives its exit code."""
        self.control.close()
        return self.process.wait()

    def close(self) -> None:
        self.process.kill()
        self.end()
        self.bell.close()
        self._kept.close()
        for pipe in self._pipes:
            pipe.close()


def received(sock: socket.socket) -> list[tuple[Any, ...]]:
    """Waits for frames."""
    sock.settimeout(30.0)
    data = sock.recv(1 << 16)
    assert data, "its end is closed"
    return decode_message(data)


def look_of(pid: int) -> dict[str, object]:
    """What a process has from its parent, but for its number."""
    there = Path(f"/proc/{pid}")
    files = [str(file.readlink()) for file in (there / "fd").iterdir()]
    return {
        "environment": (there / "environ").read_bytes().split(b"\0"),
        "folder": str((there / "cwd").readlink()),
        "files": sorted(file.partition("[")[0] for file in files),
        "leads": (os.getsid(pid), os.getpgid(pid)) == (pid, pid),
    }


def marked(look: dict[str, object], worker: int) -> dict[str, object]:
    """The look of another worker."""
    first, its = (
        f"{MARK_VARIABLE}={worker_mark(MARK, number)}".encode()
        for number in (0, worker)
    )
    environment: Any = look["environment"]
    assert first in environment
    return {**look, "environment": [its if v == first else v for v in environment]}


@pytest.fixture
def template(tmp_path: Path) -> Iterator[TemplateProcess]:
    template = TemplateProcess(tmp_path)
    yield template
    template.close()


def test_workers_when_a_burst_comes_again_are_those_forked_ahead(
    template: TemplateProcess,
) -> None:
    first = template.ask(3)  # asked for while it starts: it finds all three together
    spares = template.spares(first)

    again = template.ask(3)

    assert set(again) == spares
    forked, *_ = map(look_of, first)
    for worker, pid in enumerate(again, start=3):
        assert look_of(pid) == marked(forked, worker)


def test_worker_when_one_forked_ahead_was_killed_is_another(
    template: TemplateProcess,
) -> None:
    first = template.ask(3)
    killed, *spares = template.spares(first)
    with Watched([killed]) as watched:
        os.kill(killed, signal.SIGKILL)
        assert watched.left() == []

    again = template.ask(3)

    (another,) = set(again) - set(spares)
    assert another not in {killed, *first}


@pytest.mark.parametrize("is_killed", [False, True])
def test_those_forked_ahead_when_the_template_ends_do_too(
    template: TemplateProcess, *, is_killed: bool
) -> None:
    with Watched(template.spares(template.ask(2))) as watched:
        if is_killed:
            template.process.kill()
        template.end()
        assert watched.left() == []
