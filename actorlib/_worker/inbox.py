"""The frames that came to a worker without a loop, read by one thread at a time."""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from actorlib._wire.frames import (
    CANCEL,
    CUT,
    FAILURE,
    ITEM,
    RESULT,
    TAKEN,
    Frame,
)
from actorlib._worker.streams import CUT_OFF, Streams
from actorlib._worker.uplink import TOO_LATE
from actorlib.exceptions import GetTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.pipe import Pipe


class Inbox:
    """The frames that came and have not been served, read by one thread at a time.

    Whoever waits for something reads for everybody: answers go to their refs at once,
    calls stay here in order.

    Attributes:
        streams: What this actor makes for readers; they are woken in order with calls.
        item: Takes an item that this worker reads.
    """

    item: Callable[[Frame], None]

    def __init__(self, pipe: Pipe, unread: int = -1) -> None:
        self.calls: deque[Frame] = deque()
        self.cancelled: set[int] = set()
        self.callbacks: deque[Callable[[], object]] = deque()
        self.streams = Streams(self.calls.append, unread)
        self._pipe = pipe
        self._poller = select.poll()
        self._poller.register(pipe.sock, select.POLLIN)
        self._turn = threading.Condition()
        self._is_reading = False

    def read(
        self,
        until: Callable[[], bool],
        settle: Callable[[Frame], None],
        timeout: float | None = None,
    ) -> None:
        """Reads frames, or waits while another thread does, until a condition holds.

        Raises:
            EOFError: The owner is gone.
            GetTimeoutError: The condition did not hold in time.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not until():
            self._read_once(until, settle, deadline)

    def wait(
        self,
        until: Callable[[], bool],
        settle: Callable[[Frame], None],
        seconds: float,
    ) -> bool:
        """The same for so many seconds and no longer; True if the condition holds.

        The kernel keeps the time, so a short wait costs no more than any.

        Raises:
            EOFError: The owner is gone.
        """
        self._pipe.wake_after(seconds)
        end = time.monotonic() + seconds
        while not until():
            if not self._read_once(until, settle, None) or time.monotonic() > end:
                return until()
        return True

    def _read_once(
        self,
        until: Callable[[], bool],
        settle: Callable[[Frame], None],
        deadline: float | None,
    ) -> bool:
        """Reads what comes next; False if nothing did for as long as the pipe waits."""
        self.call_back()
        with self._turn:
            if self._is_reading:
                # Looked at again: what the other thread has read by now, it will
                # not tell of a second time.
                if not until() and not self._turn.wait(_left(deadline)):
                    raise GetTimeoutError(TOO_LATE)
                return True
            self._is_reading = True
        try:
            if deadline is not None:
                self._poll(deadline)
            for frame in self._pipe.receive_some():
                self._sort(frame, settle)
        except BlockingIOError:
            self._pipe.wake_after(0)
            return False
        finally:
            with self._turn:
                self._is_reading = False
                self._turn.notify_all()
        return True

    def call_back(self) -> None:
        """Runs what was put off by destructors."""
        while self.callbacks:
            try:
                callback = self.callbacks.popleft()
            except IndexError:  # another thread was quicker
                return
            callback()

    def read_what_is_there(self, settle: Callable[[Frame], None]) -> None:
        """Reads the frames that have come, without waiting for more."""
        with self._turn:
            if self._is_reading:
                return
            self._is_reading = True
        try:
            while self._has_more(0):
                for frame in self._pipe.receive_some():
                    self._sort(frame, settle)
        except EOFError:  # told to whoever reads next: nobody wants the rest
            self.calls.clear()
        finally:
            with self._turn:
                self._is_reading = False
                self._turn.notify_all()

    def _has_more(self, seconds: float) -> bool:
        return bool(self._poller.poll(seconds * 1000))

    def _poll(self, deadline: float) -> None:
        if not self._has_more(max(0.0, deadline - time.monotonic())):
            raise GetTimeoutError(TOO_LATE)

    def _sort(self, frame: Frame, settle: Callable[[Frame], None]) -> None:
        kind = frame[0]
        if kind in (RESULT, FAILURE):
            settle(frame)
        elif kind == CANCEL:
            if not self.streams.cancel(frame[1]):
                self.cancelled.add(frame[1])
        elif kind < ITEM:
            self.calls.append(frame)
        elif kind == ITEM:
            self.item(frame)
        elif kind == TAKEN:
            self.streams.told(frame[1], frame[2])
        elif kind == CUT:
            for call in self.streams.stand_still():
                self.streams.cancel(call, CUT_OFF)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
