"""Tests of the owner's end of what a worker prints."""

from __future__ import annotations

import asyncio
import os
from typing import Any, cast

import pytest

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


@pytest.mark.memory
async def test_line_when_its_end_does_not_come_then_its_beginning_is_shown() -> None:
    loop = asyncio.get_running_loop()
    shown = Shown()
    pipe = OutputPipe("stdout", cast("Any", shown))
    pipe.start(loop, "Worker", 1)
    os.write(
        pipe.write_end, "line\nbeg\u00fc".encode()[:-1]
    )  # a character is not whole
    await asyncio.sleep(1)
    assert len(shown.lines) == 2
    os.write(pipe.write_end, "\u00fcn\nnext".encode()[1:])
    await asyncio.sleep(0.1)
    assert [line for _, line in shown.lines] == [b"line", b"beg", "\u00fcn".encode()]

    for _ in range(4):  # lines go on, and each is shown when it is whole
        await asyncio.sleep(0.3)
        os.write(pipe.write_end, b" more\nnext")

    await asyncio.sleep(1)
    assert [line for _, line in shown.lines[3:]] == [*[b"next more"] * 4, b"next"]
    os.write(pipe.write_end, b"\nlast\n")  # the end of what was shown adds nothing
    pipe.close()
    assert [line for _, line in shown.lines[8:]] == [b"last"]


def test_label_when_it_is_a_function_then_it_names_each_line() -> None:
    labels = iter(["first", "second"])
    shown = Shown()
    pipe = OutputPipe("stdout", cast("Any", shown))
    pipe.rename(lambda: next(labels))
    for line in (b"a\n", b"b\n"):
        os.write(pipe.write_end, line)
        pipe.read_all()
    pipe.close()

    assert shown.lines == [("first", b"a"), ("second", b"b")]
