"""Where what workers print appears, and in whose name."""

from __future__ import annotations

import asyncio
import contextvars
import os
import sys

import pytest

from actorlib._processes.worker_output import LogPrinter, LogStyle, OutputPipe

pytestmark = pytest.mark.usefixtures("on_both_loops")

cell: contextvars.ContextVar[int] = contextvars.ContextVar("cell")


class Screen:
    """As a notebook's: it asks the context of whoever writes which cell that is."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.shown: list[tuple[str, int | None]] = []
        self.is_there = asyncio.Event()

    def write(self, text: str) -> None:
        self.shown.append((text, cell.get(None)))
        self.is_there.set()

    def flush(self) -> None:
        pass


def in_cell(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """The standard output of this process from here on, in a context of its own."""
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    cell.set(1)
    return screen


async def test_line_when_it_is_read_then_in_no_context(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = in_cell(monkeypatch)
    loop = asyncio.get_running_loop()
    printer = LogPrinter(loop, LogStyle(merges=False))
    pipe = OutputPipe("stdout", printer)
    pipe.start(loop, "A", 7)

    os.write(pipe.write_end, b"one\n")
    await screen.is_there.wait()
    os.write(pipe.write_end, b"two")
    pipe.close()  # by whoever is told that the process has ended

    assert screen.shown == [("(A pid=7) one\n", None), ("(A pid=7) two\n", None)]


async def test_line_when_it_was_held_back_then_shown_in_no_context(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = in_cell(monkeypatch)
    printer = LogPrinter(asyncio.get_running_loop(), LogStyle())
    printer.show("stdout", "A", 7, [b"same"])
    printer.show("stdout", "A", 8, [b"same"])
    printer.show("stdout", "A", 9, [b"same"])

    printer.close()

    assert screen.shown == [
        ("(A pid=7) same\n", None),
        ("(A pid=9) same [repeated 2x across actors]\n", None),
    ]
