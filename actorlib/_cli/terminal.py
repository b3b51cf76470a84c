"""Reads keys and signals from a terminal, and restores its mode in any case.

Each key is read when it is pressed. Signals are only noted, so that they interrupt
nothing, and the mode is restored before the process ends or stops. Nothing here draws.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self, final

if TYPE_CHECKING:
    from types import FrameType, TracebackType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that end a command."""
_SIGNALS = (*ENDING, signal.SIGTSTP, signal.SIGWINCH)
_PIECE = 1024


class Events(NamedTuple):
    """The keys and signals since the call before, and whether the terminal is gone."""

    typed: bytes
    signals: frozenset[int]
    is_closed: bool


@final
class Terminal:
    """The terminal of this process, in a ``with`` block; for the main thread.

    If standard input is not a terminal, only signals are reported.
    """

    def __init__(self) -> None:
        self._keys = sys.stdin.fileno() if _is_terminal() else None
        self._mode: list[Any] | None = None
        self._handlers: dict[int, Any] = {}
        self._received: set[int] = set()
        self._wake_reader, self._wake_writer = -1, -1
        self._old_wake_writer = -1

    def __enter__(self) -> Self:
        self._wake_reader, self._wake_writer = os.pipe()
        for end in (self._wake_reader, self._wake_writer):
            os.set_blocking(end, False)  # the call's own
        try:
            self._old_wake_writer = signal.set_wakeup_fd(
                self._wake_writer, warn_on_full_buffer=False
            )
            for number in _SIGNALS:
                self._handlers[number] = signal.signal(number, self._note_signal)
            self._enter_key_mode()
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._restore()

    def wake(self) -> None:
        """Ends the current wait, or the next one; from any thread."""
        with suppress(OSError):  # it is full, which wakes as well, or closed
            os.write(self._wake_writer, b"\0")

    def wait(self, seconds: float) -> Events:
        """Waits for events, for at most so many seconds."""
        sources = (
            [self._wake_reader]
            if self._keys is None
            else [self._wake_reader, self._keys]
        )
        # A signal that came before is in the pipe, and ends the wait at once.
        ready, _, _ = select.select(sources, [], [], max(0.0, seconds))
        if self._wake_reader in ready:
            with suppress(BlockingIOError):
                while len(os.read(self._wake_reader, _PIECE)) == _PIECE:
                    pass
        typed = b""
        if self._keys is not None and self._keys in ready:
            with suppress(OSError):  # the terminal is gone
                typed = os.read(self._keys, _PIECE)
            if not typed:
                self._keys = None
                return Events(b"", self._signals(), is_closed=True)
        return Events(typed, self._signals(), is_closed=False)

    def stop(self) -> None:
        """Stops this process as Ctrl-Z does; sets the mode again when it goes on."""
        self._restore_mode()
        old = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            os.kill(os.getpid(), signal.SIGTSTP)  # comes back when it goes on
        finally:
            signal.signal(signal.SIGTSTP, old)
        self._enter_key_mode()

    def _signals(self) -> frozenset[int]:
        received, self._received = frozenset(self._received), set()
        return received

    def _note_signal(self, number: int, _: FrameType | None) -> None:
        self._received.add(number)
        if number in ENDING:
            # A write to a halted terminal blocks: a second signal ends the process.
            signal.signal(number, signal.SIG_DFL)

    def _enter_key_mode(self) -> None:
        if self._keys is not None:
            self._mode = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys, termios.TCSANOW)

    def _restore_mode(self) -> None:
        """Restores the mode of the terminal."""
        mode, self._mode = self._mode, None
        if mode is not None:
            with suppress(termios.error, OSError):  # the terminal is gone
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, mode)

    def _restore(self) -> None:
        self._restore_mode()
        for number, handler in self._handlers.items():
            # One that was not set from Python cannot be set from there again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._handlers.clear()
        signal.set_wakeup_fd(self._old_wake_writer)
        for end in (self._wake_reader, self._wake_writer):
            os.close(end)
        self._wake_reader, self._wake_writer = -1, -1


def _is_terminal() -> bool:
    with suppress(ValueError, AttributeError):  # it is closed, or there is none
        return sys.stdin.isatty()
    return False
