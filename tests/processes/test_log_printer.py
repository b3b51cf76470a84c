"""Where what workers print appears, and in whose name."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import sys

import pytest

from actorlib._processes import worker_output
from actorlib._processes.forkserver_launcher import TemplateWorker
from actorlib._processes.launcher import ProcessExit
from actorlib._processes.worker_output import LogPrinter, LogStyle, OutputPipe, style_of

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
    printer = LogPrinter(loop, LogStyle())
    pipe = OutputPipe("stdout", printer)
    pipe.start(loop, "A", 7)

    os.write(pipe.write_end, b"one\n")
    await screen.is_there.wait()
    os.write(pipe.write_end, b"two")
    pipe.close()  # by whoever is told that the process has ended

    assert screen.shown == [("(A pid=7) one\n", None), ("(A pid=7) two\n", None)]


async def test_lines_when_printed_in_one_go_then_shown_in_one_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = in_cell(monkeypatch)
    loop = asyncio.get_running_loop()
    printer = LogPrinter(loop, LogStyle())
    pipes = [OutputPipe("stdout", printer) for _ in range(2)]

    for number, pipe in enumerate(pipes):
        pipe.start(loop, "A", number)
        os.write(pipe.write_end, b"one\ntwo\n")
    for pipe in pipes:
        pipe.close()

    assert [text for text, _ in screen.shown] == [
        "(A pid=0) one\n(A pid=0) two\n",
        "(A pid=1) one\n(A pid=1) two\n",
    ]


async def test_lines_when_the_output_can_only_be_written_to_then_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Plain:
        text = ""

        def write(self, text: str) -> None:
            self.text += text

    plain = Plain()
    monkeypatch.setattr(sys, "stdout", plain)
    printer = LogPrinter(asyncio.get_running_loop(), LogStyle())

    printer.show("stdout", "A", 7, [b"one"])

    assert plain.text == "(A pid=7) one\n"


async def test_end_when_the_output_fails_in_its_own_way_then_it_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Failing:
        def write(self, text: str) -> None:
            raise LookupError(text)

    loop = asyncio.get_running_loop()
    reported: list[object] = []
    loop.set_exception_handler(lambda _, about: reported.append(about["exception"]))
    monkeypatch.setattr(sys, "stdout", Failing())
    worker = TemplateWorker(lambda _: None, 1, "A", loop)
    with worker.sock:
        worker.open_output(LogPrinter(loop, LogStyle()))
        os.write(worker.child_ends()[1], b"one\n")
        worker.on_forked(7)
        worker.on_exited(ProcessExit(code=0))

    assert worker.exited.done()
    assert [str(error) for error in reported] == ["(A pid=7) one\n"]


# With ACTORLIB_DEDUP_LOGS=1.


async def test_output_when_another_process_printed_the_same_then_it_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = in_cell(monkeypatch)
    printer = LogPrinter(asyncio.get_running_loop(), LogStyle(merges=True))
    for pid in (7, 8, 9):
        printer.show("stdout", "A", pid, [b"loaded", f"in {pid} s".encode()])

    printer.flush()
    printer.flush()

    assert screen.shown == [
        ("(A pid=7) loaded\n(A pid=7) in 7 s\n", None),
        (
            "(A pid=9) loaded\n(A pid=9) in 9 s [repeated 2x across actors]\n",
            None,
        ),
    ]


async def test_output_when_the_window_is_over_then_the_count_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_output, "WINDOW", 0.0)
    screen = in_cell(monkeypatch)
    printer = LogPrinter(asyncio.get_running_loop(), LogStyle(merges=True))
    printer.show("stdout", "A", 7, [b"same"])
    printer.show("stdout", "A", 8, [b"same"])
    screen.is_there.clear()

    await screen.is_there.wait()
    printer.show("stdout", "A", 8, [b"same"])

    assert [text for text, _ in screen.shown] == [
        "(A pid=7) same\n",
        "(A pid=8) same\n",
        "(A pid=8) same\n",
    ]


@pytest.mark.parametrize(
    ("stream", "pid", "line"),
    [
        ("stdout", 7, b"same"),
        ("stderr", 8, b"same"),
        ("stdout", 8, b"other"),
        ("stdout", 8, b""),
        ("stdout", 8, b"12"),
        ("stdout", 8, b"x" * 2000),
    ],
)
async def test_output_when_it_is_not_what_another_printed_then_it_is_shown(
    monkeypatch: pytest.MonkeyPatch, stream: str, pid: int, line: bytes
) -> None:
    screen = in_cell(monkeypatch)
    monkeypatch.setattr(sys, "stderr", screen)
    printer = LogPrinter(asyncio.get_running_loop(), LogStyle(merges=True))
    for each in (b"same", b"", b"12", b"x" * 2000):
        printer.show("stdout", "A", 7, [each])
    screen.shown.clear()

    printer.show(stream, "A", pid, [line])

    assert screen.shown == [(f"(A pid={pid}) {line.decode()}\n", None)]


async def test_output_when_too_much_differs_then_it_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_output, "_MOST", 1)
    screen = in_cell(monkeypatch)
    printer = LogPrinter(asyncio.get_running_loop(), LogStyle(merges=True))
    for pid in (7, 8):
        printer.show("stdout", "A", pid, [b"one"])
        printer.show("stdout", "A", pid, [b"two"])

    assert [text for text, _ in screen.shown] == [
        "(A pid=7) one\n",
        "(A pid=7) two\n",
        "(A pid=8) two\n",
    ]


async def test_output_when_full_for_a_moment_then_later_output_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    os.set_blocking(read_end, False)
    with open(read_end, "rb", 0) as reader, open(write_end, "w") as stream:  # noqa: ASYNC230, PTH123  # descriptors, and none waits
        monkeypatch.setattr(sys, "stdout", stream)
        printer = LogPrinter(asyncio.get_running_loop(), LogStyle())
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(write_end, bytes(4096))

        printer.show("stdout", "A", 7, [b"lost", b"x" * 100_000])
        shown = b""
        # CPython 3.14.8 keeps what did not fit, which is more than fits once.
        for _ in range(4):
            while data := reader.read(65_536):
                shown = data
            printer.show("stdout", "A", 7, [b"later"])

        assert shown.endswith(b"(A pid=7) later\n")


# Prefixes and colours.


LINES = ["grüße".encode(), b"x\xff"]


def test_style_when_nothing_is_set_then_prefixed_without_colours() -> None:
    assert style_of({}, is_shown=True) == LogStyle()


@pytest.mark.parametrize(
    ("environ", "style"),
    [
        ({"ACTORLIB_DEDUP_LOGS": "1"}, LogStyle(merges=True)),
        ({"RAY_DEDUP_LOGS": "1"}, LogStyle(merges=True)),
        ({"RAY_DEDUP_LOGS": "1", "ACTORLIB_DEDUP_LOGS": "0"}, LogStyle()),
        ({"RAY_LOG_TO_DRIVER": "0"}, LogStyle(is_shown=False)),
        ({"ACTORLIB_LOG_TO_DRIVER": "false"}, LogStyle(is_shown=False)),
        ({"RAY_COLOR_PREFIX": "1"}, LogStyle(is_coloured=True)),
        ({"ACTORLIB_COLOR_PREFIX": "0"}, LogStyle(is_coloured=False)),
        ({"ACTORLIB_LOG_PREFIX": "0"}, LogStyle(is_prefixed=False)),
        (
            {"RAY_DISABLE_WORKER_LOG_PREFIX": "1"},
            LogStyle(is_prefixed=False),
        ),
    ],
)
def test_style_when_a_variable_says_it_then_so(
    environ: dict[str, str], style: LogStyle
) -> None:
    assert style_of(environ, is_shown=True) == style


def test_a_variable_does_not_show_what_the_program_silences() -> None:
    assert not style_of({"RAY_LOG_TO_DRIVER": "1"}, is_shown=False).is_shown


def test_line_when_formatted_then_each_with_its_prefix() -> None:
    shown = LogStyle().format("A", 7, LINES)

    assert shown == "(A pid=7) grüße\n(A pid=7) x\ufffd\n"


def test_without_a_prefix_the_line_alone() -> None:
    assert LogStyle(is_prefixed=False).format("A", 7, LINES) == "grüße\nx\ufffd\n"


def test_each_process_has_a_colour() -> None:
    style = LogStyle(is_coloured=True)

    first, second = (style.format("A", pid, LINES[:1]) for pid in (7, 8))

    assert first.startswith("\033[")
    assert first.endswith("m(A pid=7)\033[0m grüße\n")
    assert first[:5] != second[:5]
