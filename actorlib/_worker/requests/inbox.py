"""Decides which thread of a worker reads, and wakes waiting threads."""

from __future__ import annotations

import math
import select
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

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
from actorlib._worker.executors.generators import CUT_OFF, OutgoingStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actorlib._futures.object_ref import ObjectRef
    from actorlib._wire.blocking_channel import BlockingChannel
    from actorlib._worker.executors.interrupt_signal import InterruptSignal
    from actorlib._worker.requests.engine import WorkerEngine


INTERRUPTED = "the call was interrupted: cancel(ref, interrupt=True)"
"""The message of the error that a method gets when it is interrupted."""

_ROUNDS = 8
"""Reads of links at most: with many callers they may never be empty."""
_SHORT = 0.05
"""Seconds below which a wait uses ``poll``, not the kernel's timeout of reads.

That timeout counts in ticks of up to 10 ms.
"""
_LONGEST = 1e6
"""Seconds of one wait at most: system calls refuse longer ones, after 24 days."""


class LinkSource(Protocol):
    """A link that is read."""

    def fileno(self) -> int: ...

    @property
    def has_more(self) -> bool:
        """Whether a read of the next frames may have left others."""
        ...

    def read(self, *, is_next: bool = False) -> list[Frame]:
        """Reads all frames that have arrived, or the next ones; does not wait."""
        ...


class Inbox(ABC):
    """Lets one thread at a time read the frames of a worker, for all waiting threads.

    The right to read is the *turn*. A thread that waits acquires the turn and reads. If
    another thread has it, the thread sleeps. The reader wakes a sleeping thread as soon
    as its condition holds, and wakes another one to continue reading when it leaves. At
    the end of the pipe, every waiting thread gets EOFError that way.

    An event loop has the turn while it runs. It gives up the turn while plain code
    blocks it, and acquires it again afterwards: the reader is woken and gives it up.

    Attributes:
        free_loop: The thread of the event loop while the loop runs and has the turn. 0
            while plain code blocks it, and without a loop.
        deferred: The callbacks that wait for ``run_deferred``.
        interrupted: The numbers of the calls whose methods are to be interrupted.
    """

    def __init__(self) -> None:
        self.free_loop = 0
        self.deferred: deque[Callable[[], object]] = deque()
        self.interrupted: set[int] = set()
        self._turn = threading.RLock()
        self._is_wanted = False
        # One queue per sleeping thread: half the time of a ``threading.Event``.
        self._waiting: dict[SimpleQueue[None], Callable[[], bool]] = {}
        # Not reentrant: a frame that a deferred callback sends does not wait for the
        # other callbacks.
        self._deferring = threading.Lock()
        self._method_thread = threading.get_ident()
        self._interrupts: InterruptSignal | None = None

    @abstractmethod
    def _pull(self, until: Callable[[], bool], seconds: float | None) -> bool:
        """Reads once, with the turn; False if nothing arrived in that time.

        Raises EOFError if the owner is gone.
        """

    @abstractmethod
    def _pull_available(self) -> None:
        """Reads what has arrived, with the turn, without waiting."""

    @abstractmethod
    def call_when_done(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls a function once a ref is done, from any thread."""

    @abstractmethod
    def watch(self, source: LinkSource) -> None:
        """Reads a link from now on; called with the turn."""

    @abstractmethod
    def unwatch(self, source: LinkSource) -> None:
        """Stops reading a link."""

    @abstractmethod
    def at_end_of_turn(self, callback: Callable[[], None]) -> bool:
        """Calls a function at the end of this turn of the loop; False without a loop.

        Frames that are sent until then may leave together.
        """

    def read(
        self,
        until: Callable[[], bool],
        timeout: float | None = None,
        ref: ObjectRef[Any] | None = None,
    ) -> bool:
        """Reads, or sleeps while another thread reads, until a condition holds.

        Frames that have arrived are read even if the timeout is 0. The result of
        ``ref``, on which the condition depends, may come from elsewhere.

        Returns:
            Whether the condition holds.

        Raises:
            EOFError: The owner is gone.
            KeyboardInterrupt: The method that waits is interrupted.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        waiter: SimpleQueue[None] | None = None
        try:
            while not until():
                if self.interrupted:
                    self.stop_if_interrupted()
                seconds = (
                    None
                    if deadline is None
                    else min(max(0.0, deadline - time.monotonic()), _LONGEST)
                )
                if self.try_turn():
                    try:
                        # Another thread may have read it since the last check.
                        is_in_time = until() or self._pull(until, seconds)
                    finally:
                        self._turn.release()
                    if self._waiting:
                        self._wake_done()
                elif waiter is None:
                    # Registered before the turn is tried again, so that no wake-up is
                    # lost.
                    waiter = self._add_waiter(until, ref)
                    continue
                else:
                    is_in_time = _sleep(waiter, seconds)
                if not is_in_time and seconds != _LONGEST:
                    return until()
            if self.interrupted:
                self.stop_if_interrupted()
            return True
        finally:
            if waiter is not None:
                del self._waiting[waiter]
            if (self._waiting or self.deferred) and not self.free_loop:
                self._hand_over()

    def read_available(self) -> None:
        """Reads what has arrived without waiting, unless another thread reads."""
        if self.try_turn():
            try:
                self._pull_available()
            finally:
                self.give_turn()

    def _add_waiter(
        self, until: Callable[[], bool], ref: ObjectRef[Any] | None
    ) -> SimpleQueue[None]:
        waiter: SimpleQueue[None] = SimpleQueue()
        self._waiting[waiter] = until
        if ref is not None:
            self.call_when_done(ref, partial(waiter.put, None))
        return waiter

    def _wake_done(self) -> None:
        for waiter, holds in [*self._waiting.items()]:
            if (self.interrupted or holds()) and waiter.empty():
                waiter.put(None)

    def try_turn(self) -> bool:
        """Acquires the turn, unless another thread has it or the loop wants it."""
        # Never waits: the thread that has the turn may wait for a lock of this thread.
        return not self._is_wanted and self._turn.acquire(blocking=False)

    def give_turn(self) -> None:
        self._turn.release()
        if not self.free_loop:
            self._hand_over()

    def _hand_over(self) -> None:
        """Runs deferred callbacks, and wakes a thread that continues reading.

        A thread that is woken and no longer needs to read does the same when it leaves.
        """
        while self.deferred and not self._deferring.locked() and self.try_turn():
            try:
                self.run_deferred()
            finally:
                self._turn.release()
        if self._waiting and self.try_turn():  # otherwise the thread with the turn does
            self._turn.release()
            for waiter in [*self._waiting][:1]:
                waiter.put(None)

    def later(self, callback: Callable[[], object]) -> None:
        """Makes the thread with the turn run a callback, in the order of these calls.

        For destructors, which may run anywhere.
        """
        self.deferred.append(callback)

    def run_deferred(self) -> None:
        """Runs the deferred callbacks; returns at once inside of one."""
        while self.deferred and self._deferring.acquire(blocking=False):
            try:
                while self.deferred:
                    self.deferred.popleft()()
            finally:
                self._deferring.release()

    def take_interrupts(self) -> None:
        """Interrupts methods from now on, all of which run on this main thread."""
        from actorlib._worker.executors.interrupt_signal import (  # noqa: PLC0415  # not inline
            InterruptSignal,
            is_below_method,
        )

        self._interrupts = InterruptSignal(
            lambda: running.get() is not None,
            self._read_interrupts,
            is_below_method,
            retries_idle=True,
        )

    def interrupt(self, call: int) -> None:
        """Interrupts the method of a call if it runs; called by the reading thread."""
        self.interrupted.add(call)
        # A thread of the user's code may be the one that reads.
        if (
            self._interrupts is not None
            and threading.get_ident() != self._method_thread
        ):
            self._interrupts.send()

    def _read_interrupts(self) -> None:
        self.read_available()
        if self.interrupted:
            self.stop_if_interrupted()

    def stop_if_interrupted(self) -> None:
        """Raises KeyboardInterrupt, once, if the method here is to be interrupted."""
        call = running.get()
        if call is not None and call[0] in self.interrupted:
            self.interrupted.discard(call[0])
            raise KeyboardInterrupt(INTERRUPTED)


def _sleep(waiter: SimpleQueue[None], seconds: float | None) -> bool:
    """Waits until another thread wakes this one; False after the timeout."""
    try:
        waiter.get(timeout=seconds)
    except Empty:
        return False
    return True


class PipeInbox(Inbox):
    """Reads the pipe and the links of a worker without an event loop; sorts frames.

    Answers fill their refs at once. Calls stay here in order.

    Attributes:
        calls: The calls that have not begun, and the streams to resume.
        cancelled: The numbers of the calls that were cancelled.
        streams: The streams that this actor produces; they resume in order with calls.
    """

    def __init__(
        self, client: WorkerEngine, pipe: BlockingChannel, max_unread: int = -1
    ) -> None:
        super().__init__()
        self._settle = client.settle
        self._item = client.item
        self._take_other = client.take_other
        self.calls: deque[Frame] = deque()
        self.cancelled: set[int] = set()
        self.streams = OutgoingStreams(self.calls.append, max_unread)
        self._pipe = pipe
        self._poller = select.poll()
        self._poller.register(pipe.sock, select.POLLIN)
        self._frames: deque[Frame] = deque()
        self._sources: dict[int, LinkSource] = {}
        self._events: select.epoll | None = None

    def _pull(self, until: Callable[[], bool], seconds: float | None) -> bool:
        del until
        if self.deferred:
            self.run_deferred()
        if self._frames:
            # The code of a value that this thread is loading waits for another value,
            # or the loading of a value interrupted the reader.
            self._sort_each(())
            return True
        if self._events is not None:
            return self._receive(seconds)
        if seconds is None:
            self._pipe.set_read_timeout(0)
        elif seconds >= _SHORT:
            # Rounded, because a timeout that is set already costs nothing.
            self._pipe.set_read_timeout(math.ceil(seconds * 100) / 100)
        elif not self._has_more(seconds):
            return False
        try:
            self._sort_each(self._pipe.receive_some())
        except BlockingIOError:
            return False
        return True

    def _pull_available(self) -> None:
        try:
            self._sort_each(())
            for _ in range(_ROUNDS):
                if self._events is None or not self._receive(0, is_next=False):
                    break
            while self._has_more(0):
                self._sort_each(self._pipe.receive_some())
        except EOFError:  # the next read raises it again; the rest is of no use
            self.calls.clear()
            self.streams.end_all()

    def call_when_done(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        ref.add_done_callback(lambda _: then())

    def _has_more(self, seconds: float) -> bool:
        return bool(self._poller.poll(math.ceil(seconds * 1000)))

    def _sort_each(self, frames: Iterable[Frame]) -> None:
        # Stored, so that the next read finds the remaining frames after an interrupt.
        self._frames.extend(frames)
        while self._frames:
            self._sort(self._frames.popleft())

    def _sort(self, frame: Frame) -> None:
        kind = frame[0]
        if kind == CALL_SCALARS:
            self.calls.append((CALL, frame[1], frame[2], None, frame[3:]))
        elif kind in (RESULT, FAILURE):
            self._settle(frame)
        elif kind == CANCEL:
            self._note_cancelled(frame)
        elif kind in (CALL, CALL_WITH, STOP):
            self.calls.append(frame)
        elif kind == ITEM:
            self._item(frame)
        elif kind == STREAM_ACK:
            self.streams.acknowledge(frame[1], frame[2])
        elif kind == STREAM_EXPIRE:
            for call in self.streams.stalled():
                self.streams.cancel(call, CUT_OFF)
        else:
            for following in self._take_other(frame):
                self._sort(following)

    def _note_cancelled(self, frame: Frame) -> None:
        if not self.streams.cancel(frame[1]):
            self.cancelled.add(frame[1])
        if len(frame) > 2:
            self.interrupt(frame[1])

    def watch(self, source: LinkSource) -> None:
        if self._events is None:
            self._events = select.epoll()
            self._events.register(self._pipe.sock, select.EPOLLIN)
        self._sources[source.fileno()] = source
        self._events.register(source.fileno(), select.EPOLLIN)

    def unwatch(self, source: LinkSource) -> None:
        if self._sources.pop(source.fileno(), None) is not None and self._events:
            self._events.unregister(source.fileno())

    def at_end_of_turn(self, callback: Callable[[], None]) -> bool:
        """Returns False: without a loop, frames leave at once."""
        del callback
        return False

    def take(self, frames: list[Frame]) -> None:
        """Sorts frames that were read elsewhere."""
        for frame in frames:
            self._sort(frame)

    def _receive(self, seconds: float | None, *, is_next: bool = True) -> bool:
        """Reads once from everything that is ready; False if nothing is."""
        assert self._events is not None
        ready = [fd for fd, _ in self._events.poll(seconds)]
        pipe = self._pipe.sock.fileno()
        # Links first: a call over a link was sent before a frame on the pipe whose
        # sender knew of the call.
        has_pipe = pipe in ready
        for fd in ready:
            source = self._sources.get(fd)
            if source is not None:
                self._sort_each(source.read(is_next=is_next and not has_pipe))
        if has_pipe:
            self._sort_each(self._pipe.receive_some())
        return bool(ready)
