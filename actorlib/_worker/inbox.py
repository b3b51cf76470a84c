"""Reads the pipe and the links of a worker without an event loop, and sorts frames."""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from actorlib._core.current_call import running
from actorlib._wire.messages import (
    CALL,
    CALL_SCALARS,
    CALL_WITH,
    CANCEL,
    FAILURE,
    ITEM,
    RESULT,
    STOP,
    STREAM_ACK,
    STREAM_EXPIRE,
    Frame,
)
from actorlib._worker.client import TOO_LATE
from actorlib._worker.generators import CUT_OFF, OutgoingStreams
from actorlib.exceptions import GetTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actorlib._wire.blocking_channel import BlockingChannel
    from actorlib._worker.engine import LinkSource


INTERRUPTED = "the call was interrupted: cancel(ref, interrupt=True)"
"""What a method is told that is interrupted."""

_ROUNDS = 8
"""How often links are looked at that many callers may never leave empty."""


class Inbox:
    """Holds the frames that came and have not been served; one thread at a time reads.

    Whoever waits for something reads for everybody: answers go to their refs at once,
    calls stay here in order.

    Attributes:
        calls: The calls that have not begun, and the streams to go on with.
        cancelled: The numbers of calls that were cancelled.
        interrupted: The numbers of those whose methods are to be interrupted.
        callbacks: What destructors have put off.
        streams: The streams that this actor makes; they are woken in order with calls.
        settle: Takes an answer to something that this worker asked.
        item: Takes an item of a stream that this worker reads.
        take_other: Takes a frame about links or events; gives those that follow.
        on_interrupt: Told, by whoever reads, that a method is to be interrupted.
    """

    settle: Callable[[Frame], None]
    item: Callable[[Frame], None]
    take_other: Callable[[Frame], list[Frame]]

    def __init__(self, pipe: BlockingChannel, unread: int = -1) -> None:
        self.calls: deque[Frame] = deque()
        self.cancelled: set[int] = set()
        self.interrupted: set[int] = set()
        self.on_interrupt: Callable[[], None] | None = None
        self.callbacks: deque[Callable[[], object]] = deque()
        self.streams = OutgoingStreams(self.calls.append, unread)
        self._pipe = pipe
        self._poller = select.poll()
        self._poller.register(pipe.sock, select.POLLIN)
        self._turn = threading.Condition()
        self._reader = 0
        self._frames: deque[Frame] = deque()
        self._sources: dict[int, LinkSource] = {}
        self._events: select.epoll | None = None

    def read(
        self,
        until: Callable[[], bool],
        timeout: float | None = None,
    ) -> None:
        """Reads frames, or waits while another thread does, until a condition holds.

        Raises:
            EOFError: The owner is gone.
            GetTimeoutError: The condition did not hold in time.
            KeyboardInterrupt: The method that waits is interrupted.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not until():
            self._read_once(until, deadline)
            if self.interrupted:
                self.stop_if_interrupted()

    def wait(
        self,
        until: Callable[[], bool],
        seconds: float,
    ) -> bool:
        """Reads for so many seconds and no longer; True if the condition holds.

        The kernel keeps the time, so a short wait costs no more than any.

        Raises:
            EOFError: The owner is gone.
            KeyboardInterrupt: The method that waits is interrupted.
        """
        self._pipe.set_read_timeout(seconds)
        end = time.monotonic() + seconds
        while not until():
            has_read = self._read_once(until, None)
            if self.interrupted:
                self.stop_if_interrupted()
            if not has_read or time.monotonic() > end:
                return until()
        return True

    def stop_if_interrupted(self) -> None:
        """Stops the method that this thread runs, if it is to be interrupted.

        Raises:
            KeyboardInterrupt: It is; once for each call.
        """
        call = running.get()
        if call is not None and call[0] in self.interrupted:
            self.interrupted.discard(call[0])
            raise KeyboardInterrupt(INTERRUPTED)

    def _read_once(
        self,
        until: Callable[[], bool],
        deadline: float | None,
    ) -> bool:
        """Reads what comes next; False if nothing did for as long as the pipe waits."""
        self.run_callbacks()
        me = threading.get_ident()
        with self._turn:
            reader = self._reader
            if reader and reader != me:
                # Looked at again: what the other thread has read by now, it will
                # not tell of a second time.
                if not until() and not self._turn.wait(_left(deadline)):
                    raise GetTimeoutError(TOO_LATE)
                return True
            self._reader = me
        try:
            if self._frames and self._read_on(until):
                return True
            if self._events is not None:
                return self._read_from_all(deadline)
            if deadline is not None:
                self._poll(deadline)
            self._sort_each(self._pipe.receive_some())
        except BlockingIOError:
            self._pipe.set_read_timeout(0)
            return False
        finally:
            if not reader:
                self._let_others_read()
        return True

    def _read_on(self, until: Callable[[], bool]) -> bool:
        """Goes on with what was read, before more is.

        This very thread is loading a value, and the user's code that does so waits for
        another one; or what was loaded interrupted whoever read.
        """
        self._sort_each(())
        return until()

    def _let_others_read(self) -> None:
        with self._turn:
            self._reader = 0
            self._turn.notify_all()

    def run_callbacks(self) -> None:
        """Runs what destructors have put off."""
        while self.callbacks:
            try:
                callback = self.callbacks.popleft()
            except IndexError:  # another thread was quicker
                return
            callback()

    def read_available(self) -> None:
        """Reads the frames that have come, without waiting for more."""
        with self._turn:
            if self._reader:
                return
            self._reader = threading.get_ident()
        try:
            self._sort_each(())
            for _ in range(_ROUNDS):
                if self._events is None or not self._receive(0, is_next=False):
                    break
            while self._has_more(0):
                self._sort_each(self._pipe.receive_some())
        except EOFError:  # told to whoever reads next: nobody wants the rest
            self.calls.clear()
            self.streams.end_all()
        finally:
            self._let_others_read()

    def _has_more(self, seconds: float) -> bool:
        return bool(self._poller.poll(seconds * 1000))

    def _poll(self, deadline: float) -> None:
        if not self._has_more(max(0.0, deadline - time.monotonic())):
            raise GetTimeoutError(TOO_LATE)

    def _sort_each(self, frames: Iterable[Frame]) -> None:
        # Kept where ``_read_on`` finds those that are left.
        self._frames.extend(frames)
        while self._frames:
            self._sort(self._frames.popleft())

    def _sort(self, frame: Frame) -> None:
        kind = frame[0]
        if kind == CALL_SCALARS:
            self.calls.append((CALL, frame[1], frame[2], None, frame[3:]))
        elif kind in (RESULT, FAILURE):
            self.settle(frame)
        elif kind == CANCEL:
            self._note_cancelled(frame)
        elif kind in (CALL, CALL_WITH, STOP):
            self.calls.append(frame)
        elif kind == ITEM:
            self.item(frame)
        elif kind == STREAM_ACK:
            self.streams.acknowledge(frame[1], frame[2])
        elif kind == STREAM_EXPIRE:
            for call in self.streams.stalled():
                self.streams.cancel(call, CUT_OFF)
        else:
            for following in self.take_other(frame):
                self._sort(following)

    def _note_cancelled(self, frame: Frame) -> None:
        if not self.streams.cancel(frame[1]):
            self.cancelled.add(frame[1])
        if len(frame) > 2:
            self.interrupted.add(frame[1])
            if self.on_interrupt is not None:
                self.on_interrupt()

    # Links.

    def watch(self, source: LinkSource) -> None:
        """Reads a link from now on; called by whoever reads."""
        if self._events is None:
            self._events = select.epoll()
            self._events.register(self._pipe.sock, select.EPOLLIN)
        self._sources[source.fileno()] = source
        self._events.register(source.fileno(), select.EPOLLIN)

    def unwatch(self, source: LinkSource) -> None:
        """Reads it no more."""
        if self._sources.pop(source.fileno(), None) is not None and self._events:
            self._events.unregister(source.fileno())

    def at_end_of_turn(self, callback: Callable[[], None]) -> bool:
        """False: there is no loop, so what is sent leaves at once; see LinkReader."""
        del callback
        return False

    def take(self, frames: list[Frame]) -> None:
        """Takes frames that were read elsewhere."""
        for frame in frames:
            self._sort(frame)

    def _read_from_all(self, deadline: float | None) -> bool:
        """Reads what comes next over the pipe or a link; see _read_once."""
        limit = self._pipe.read_timeout or None
        seconds = limit if deadline is None else _left(deadline)
        if self._receive(seconds):
            return True
        if deadline is not None:
            raise GetTimeoutError(TOO_LATE)
        self._pipe.set_read_timeout(0)
        return False

    def _receive(self, seconds: float | None, *, is_next: bool = True) -> bool:
        """Reads once from everything that has something; False if nothing has.

        Args:
            seconds: How long to wait for something.
            is_next: Whether the next message of a link is enough.
        """
        assert self._events is not None
        ready = [fd for fd, _ in self._events.poll(seconds)]
        pipe = self._pipe.sock.fileno()
        # Links first: what has come over one was sent before what the pipe brings of
        # somebody who was told of it.
        has_pipe = pipe in ready
        for fd in ready:
            source = self._sources.get(fd)
            if source is not None:
                takes_all = has_pipe or not is_next
                self._sort_each(source.read() if takes_all else source.read_next())
        if has_pipe:
            self._sort_each(self._pipe.receive_some())
        return bool(ready)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
