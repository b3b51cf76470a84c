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
    """The events since the call before.

    Attributes:
        typed: The bytes of the keys.
        signals: The signals.
        is_closed: Whether the terminal is gone.
    """

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
        self._came: set[int] = set()
        self._told, self._tells = -1, -1
        self._old_tells = -1

    def __enter__(self) -> Self:
        self._told, self._tells = os.pipe()
        for end in (self._told, self._tells):
            os.set_blocking(end, False)  # the call's own
        try:
            self._old_tells = signal.set_wakeup_fd(
                self._tells, warn_on_full_buffer=False
            )
            for number in _SIGNALS:
                self._handlers[number] = signal.signal(number, self._note)
            self._take()
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._give_back()

    def wake(self) -> None:
        """Ends the current wait, or the next one; from any thread."""
        with suppress(OSError):  # it is full, which wakes as well, or closed
            os.write(self._tells, b"\0")

    def wait(self, seconds: float) -> Events:
        """Waits for events, for at most so many seconds."""
        sources = [self._told] if self._keys is None else [self._told, self._keys]
        # A signal that came before is in the pipe, and ends the wait at once.
        ready, _, _ = select.select(sources, [], [], max(0.0, seconds))
        if self._told in ready:
            with suppress(BlockingIOError):
                while len(os.read(self._told, _PIECE)) == _PIECE:
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
        self._leave()
        old = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            os.kill(os.getpid(), signal.SIGTSTP)  # comes back when it goes on
        finally:
            signal.signal(signal.SIGTSTP, old)
        self._take()

    def _signals(self) -> frozenset[int]:
        came, self._came = frozenset(self._came), set()
        return came

    def _note(self, number: int, _: FrameType | None) -> None:
        self._came.add(number)
        if number in ENDING:
            # A write to a halted terminal blocks: a second signal ends the process.
            signal.signal(number, signal.SIG_DFL)

    def _take(self) -> None:
        if self._keys is not None:
            self._mode = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys, termios.TCSANOW)

    def _leave(self) -> None:
        """Restores the mode of the terminal."""
        mode, self._mode = self._mode, None
        if mode is not None:
            with suppress(termios.error, OSError):  # the terminal is gone
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, mode)

    def _give_back(self) -> None:
        self._leave()
        for number, handler in self._handlers.items():
            # One that was not set from Python cannot be set from there again.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._handlers.clear()
        signal.set_wakeup_fd(self._old_tells)
        for end in (self._told, self._tells):
            os.close(end)
        self._told, self._tells = -1, -1


def _is_terminal() -> bool:
    with suppress(ValueError, AttributeError):  # it is closed, or there is none
        return sys.stdin.isatty()
    return False
