"""A worker of the template: what is opened for it, and its number."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import Any

import pytest

from actorlib._processes.forkserver_launcher import TemplateWorker
from actorlib._processes.launcher import ProcessExit


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
