"""Tests of the owner's end of what a worker prints."""

from __future__ import annotations

import asyncio
import os
from typing import Any, cast

from actorlib._processes.worker_output import OutputPipe


class Shown:
    """Keeps what a printer would show."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, bytes]] = []

    def show(self, stream: str, label: str, pid: int, lines: list[bytes]) -> None:
        del stream, pid
        self.lines += [(label, line) for line in lines]


async def test_rename_when_something_was_printed_before_then_it_has_the_old_name() -> (
    None
):
    shown = Shown()
    pipe = OutputPipe("stdout", cast("Any", shown))
    pipe.start(asyncio.get_running_loop(), "Worker 'w1'", 1)
    os.write(pipe.write_end, b"made\n")
    pipe.rename("Worker(7) 'w1'")
    os.write(pipe.write_end, b"there\n")
    pipe.close()
    assert shown.lines == [("Worker 'w1'", b"made"), ("Worker(7) 'w1'", b"there")]


async def test_lines_when_printed_in_one_go_then_they_are_kept_together() -> None:
    kept: list[tuple[object, ...]] = []
    pipe = OutputPipe("stderr", cast("Any", Shown()), lambda *line: kept.append(line))
    pipe.start(asyncio.get_running_loop(), "Worker", 7)
    os.write(pipe.write_end, b"one\ntwo \xff\nrest")
    pipe.close()

    assert kept == [
        ("stderr", "Worker", 7, [b"one", b"two \xff"]),
        ("stderr", "Worker", 7, [b"rest"]),
    ]


async def test_line_when_too_long_then_it_is_cut_and_nothing_is_added() -> None:
    shown = Shown()
    pipe = OutputPipe("stdout", cast("Any", shown))
    for _ in range(2):
        os.write(pipe.write_end, b"x" * 40_000)
        pipe.read_all()
    os.write(pipe.write_end, b"\n\nnext\n")
    pipe.close()

    assert [line for _, line in shown.lines] == [b"x" * 80_000, b"", b"next"]
