"""Makes a worker read its pipe while the user's code runs on its main thread.

No thread reads the pipe then. To cancel a call, or to get calls back, the owner writes
a frame and then sends a signal, which only means *read now*. The frame contains the
action, and is read where the running call is known, so a late signal is harmless.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

from actorlib._wire.forkserver_protocol import INTERRUPT_SIGNAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import CodeType, FrameType


_RETRY_DELAY = 0.001
_LONGEST_DELAY = 0.05
_MOST_IDLE = 10
"""Retries while no call runs: one may have begun whose frame is not read yet."""
_PACKAGE = "actorlib."
_RUNS_METHODS = frozenset(
    {
        "__main__",
        "actor_loop",
        "async_executor",
        "batches",
        "coroutines",
        "invoke",
        "serial_executor",
    }
)
"""The modules of actorlib that call methods."""


class InterruptSignal:
    """Reads the pipe when the signal arrives, but never amid actorlib's own work.

    Args:
        read_now: Reads the pipe; may raise KeyboardInterrupt.
        is_busy: Whether actorlib's code runs below the user's code.
        retries_idle: Whether to retry while no user code runs, for executors that do
            not check ``is_pending`` before the next call.

    Attributes:
        is_pending: Whether the signal has arrived and no thread has read since.
    """

    def __init__(
        self,
        is_running: Callable[[], bool],
        read_now: Callable[[], None],
        is_busy: Callable[[FrameType | None], bool],
        *,
        retries_idle: bool = False,
    ) -> None:
        self.is_pending = False
        self._is_running = is_running
        self._read_now = read_now
        self._is_busy = is_busy
        self._retries_idle = retries_idle
        self._delay = _RETRY_DELAY
        self._idle_count = 0
        self._main = threading.get_ident()
        self._pid = os.getpid()
        signal.signal(INTERRUPT_SIGNAL, self._signalled)

    def send(self) -> None:
        """Makes the main thread read the pipe; from any thread."""
        signal.pthread_kill(self._main, INTERRUPT_SIGNAL)

    def _signalled(self, _: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a fork: the pipe is its parent's
            return
        if not self.is_pending:
            self._delay, self._idle_count = _RETRY_DELAY, 0
        self.is_pending = True
        if not self._is_running():  # the pipe is read before the next call
            self._idle_count += 1
            if not self._retries_idle:
                return
            if self._idle_count > _MOST_IDLE:
                self.is_pending = False
                return
        elif not self._is_busy(frame):
            self.is_pending = False
            self._read_now()
            return
        timer = threading.Timer(self._delay, self._retry)
        timer.daemon = True
        timer.start()
        self._delay = min(2 * self._delay, _LONGEST_DELAY)

    def _retry(self) -> None:
        if self.is_pending:
            self.send()


class NoInterrupts:
    """Replaces the signal in a worker that is a thread, which signals do not reach.

    A cancellation is noticed when the function checks for it, or waits.
    """

    is_pending = False

    def send(self) -> None: ...


def is_below(outermost: Collection[CodeType], frame: FrameType | None) -> bool:
    """Whether actorlib's code runs below the user's, which the given code calls."""
    while frame is not None and frame.f_code not in outermost:
        if frame.f_globals.get("__name__", "").startswith(_PACKAGE):
            return True
        frame = frame.f_back
    return False


def is_below_method(frame: FrameType | None) -> bool:
    """Whether actorlib's code runs, or user code that is not a method.

    An example is user code that pickles or loads a value.
    """
    innermost = frame
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith(_PACKAGE):
            return frame is innermost or name.rpartition(".")[2] not in _RUNS_METHODS
        frame = frame.f_back
    return False
