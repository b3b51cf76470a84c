"""Decides which thread of a worker reads what comes, and which threads are woken."""

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
    from actorlib._worker.requests.engine import LinkSource


INTERRUPTED = "the call was interrupted: cancel(ref, interrupt=True)"
"""The message of the error that a method gets when it is interrupted."""

_ROUNDS = 8
"""How often links are read that many callers may never leave empty."""
_SHORT = 0.05
"""Seconds below which a wait is not timed by the kernel's limit of reads.

That limit counts in ticks of up to 10 ms.
"""


class Inbox(ABC):
    """Lets one thread at a time read what comes to a worker, for all that wait.

    The right to read is the *turn*. A thread that waits takes the turn and reads. While
    another thread has it, the thread sleeps; the reader wakes it as soon as its
    condition holds, and wakes one sleeper to read on when it leaves itself. At the end
    of the pipe each of them gets EOFError that way.

    An event loop has the turn while it runs. It gives the turn away while plain code
    blocks it, and takes it back afterwards: the reader is woken and gives it up.

    Attributes:
        free_loop: The thread of the event loop, while the loop runs and so has the
            turn; 0 while plain code blocks it, and where there is no loop.
        deferred: The callbacks that wait for ``run_deferred``.
        interrupted: The numbers of the calls whose methods are to be interrupted.
    """

    def __init__(self) -> None:
        self.free_loop = 0
        self.deferred: deque[Callable[[], object]] = deque()
        self.interrupted: set[int] = set()
        self._turn = threading.RLock()
        self._is_wanted = False
        # What wakes each sleeper: half the time of a ``threading.Event``.
        self._waiting: dict[SimpleQueue[None], Callable[[], bool]] = {}
        # Not reentrant: what a deferred callback sends does not wait for the others.
        self._deferring = threading.Lock()
        self._method_thread = threading.get_ident()
        self._interrupts: InterruptSignal | None = None

    # How it reads.

    @abstractmethod
    def _pull(self, until: Callable[[], bool], seconds: float | None) -> bool:
        """Reads once, with the turn; False if nothing came in that time.

        Raises:
            EOFError: The owner is gone.
        """

    @abstractmethod
    def _pull_available(self) -> None:
        """Reads what has come, with the turn; does not wait."""

    @abstractmethod
    def call_when_done(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done, from whichever thread."""

    @abstractmethod
    def watch(self, source: LinkSource) -> None:
        """Reads a link from now on; called with the turn."""

    @abstractmethod
    def unwatch(self, source: LinkSource) -> None:
        """Stops reading a link."""

    @abstractmethod
    def at_end_of_turn(self, callback: Callable[[], None]) -> bool:
        """Calls back at the end of this turn of the loop; see LinkReader."""

    # Waiting.

    def read(
        self,
        until: Callable[[], bool],
        timeout: float | None = None,
        ref: ObjectRef[Any] | None = None,
    ) -> bool:
        """Reads, or sleeps while another thread does, until a condition holds.

        Args:
            until: The condition.
            timeout: Seconds after which it returns as soon as nothing is to be read;
                None for as long as it takes.
            ref: The ref that is waited for, which something else may fill, too.

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
                left = (
                    None if deadline is None else max(0.0, deadline - time.monotonic())
                )
                if self.try_turn():
                    try:
                        # Another thread may have read it since the last look.
                        is_in_time = until() or self._pull(until, left)
                    finally:
                        self._turn.release()
                    if self._waiting:
                        self._wake_done()
                elif waiter is None:
                    # Before the turn is tried again, so that no wake-up is lost.
                    waiter = self._add_waiter(until, ref)
                    continue
                else:
                    is_in_time = _sleep(waiter, left)
                if not is_in_time:
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
        """Reads what has come without waiting, unless another thread reads."""
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

    # The turn.

    def try_turn(self) -> bool:
        """Takes the turn, unless another thread has it or the loop wants it."""
        # It is not waited for: whoever has it may want what this thread holds.
        return not self._is_wanted and self._turn.acquire(blocking=False)

    def give_turn(self) -> None:
        """Gives up the turn, as often as it was taken."""
        self._turn.release()
        if not self.free_loop:
            self._hand_over()

    def _hand_over(self) -> None:
        """Runs what was deferred meanwhile, and wakes a thread that reads from now on.

        A thread that is woken and need not read any more does the same as it leaves.
        """
        while self.deferred and not self._deferring.locked() and self.try_turn():
            try:
                self.run_deferred()
            finally:
                self._turn.release()
        if self._waiting and self.try_turn():  # else the thread that has it does this
            self._turn.release()
            for waiter in [*self._waiting][:1]:
                waiter.put(None)

    # Callbacks for whoever has the turn.

    def later(self, callback: Callable[[], object]) -> None:
        """Has a callback run by whoever has the turn, in the order of this.

        For destructors, which may run anywhere.
        """
        self.deferred.append(callback)

    def run_deferred(self) -> None:
        """Runs what was deferred; returns at once inside one of those callbacks."""
        while self.deferred and self._deferring.acquire(blocking=False):
            try:
                while self.deferred:
                    self.deferred.popleft()()
            finally:
                self._deferring.release()

    # Interrupts.

    def take_interrupts(self) -> None:
        """Interrupts methods where they are from now on, on this thread.

        It is the main one of its process, and runs all of them.
        """
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
        """Interrupts the method of a call, if it runs; called by whoever reads."""
        self.interrupted.add(call)
        # A thread of the user's may be who reads that.
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
        """Stops the method that this thread runs, if it is to be interrupted.

        Raises:
            KeyboardInterrupt: It is; once for each call.
        """
        call = running.get()
        if call is not None and call[0] in self.interrupted:
            self.interrupted.discard(call[0])
            raise KeyboardInterrupt(INTERRUPTED)


def _sleep(waiter: SimpleQueue[None], seconds: float | None) -> bool:
    """Waits until another thread wakes this one; False if none did in that time."""
    try:
        waiter.get(timeout=seconds)
    except Empty:
        return False
    return True


class FrameConsumer(Protocol):
    """The client of a worker, as far as an inbox passes frames to it."""

    def settle(self, frame: Frame) -> None:
        """Fills the ref that a RESULT or FAILURE frame answers."""
        ...

    def item(self, frame: Frame) -> None:
        """Adds an item to a stream that this worker reads."""
        ...

    def take_other(self, frame: Frame) -> list[Frame]:
        """Handles a frame about links or events; returns the frames that follow."""
        ...


class PipeInbox(Inbox):
    """Reads the pipe and the links of a worker without an event loop; sorts frames.

    Answers go to their refs at once, calls stay here in order.

    Attributes:
        calls: The calls that have not begun, and the streams to go on with.
        cancelled: The numbers of calls that were cancelled.
        streams: The streams that this actor makes; they are woken in order with calls.
    """

    def __init__(
        self, client: FrameConsumer, pipe: BlockingChannel, max_unread: int = -1
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
        """Reads once; see Inbox."""
        del until
        if self.deferred:
            self.run_deferred()
        if self._frames:
            # This very thread is loading a value, and the user's code that does so
            # waits for another one; or what was loaded interrupted whoever read.
            self._sort_each(())
            return True
        if self._events is not None:
            return self._receive(seconds)
        if seconds is None:
            self._pipe.set_read_timeout(0)
        elif seconds >= _SHORT:
            # Rounded, as a limit that is set already costs nothing.
            self._pipe.set_read_timeout(math.ceil(seconds * 100) / 100)
        elif not self._has_more(seconds):
            return False
        try:
            self._sort_each(self._pipe.receive_some())
        except BlockingIOError:
            return False
        return True

    def _pull_available(self) -> None:
        """Reads what has come; see Inbox."""
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

    def call_when_done(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back from whichever thread fills the ref; see Inbox."""
        ref.add_done_callback(lambda _: then())

    def _has_more(self, seconds: float) -> bool:
        return bool(self._poller.poll(math.ceil(seconds * 1000)))

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

    # Links.

    def watch(self, source: LinkSource) -> None:
        """Reads a link from now on; see Inbox."""
        if self._events is None:
            self._events = select.epoll()
            self._events.register(self._pipe.sock, select.EPOLLIN)
        self._sources[source.fileno()] = source
        self._events.register(source.fileno(), select.EPOLLIN)

    def unwatch(self, source: LinkSource) -> None:
        """Stops reading a link; see Inbox."""
        if self._sources.pop(source.fileno(), None) is not None and self._events:
            self._events.unregister(source.fileno())

    def at_end_of_turn(self, callback: Callable[[], None]) -> bool:
        """Returns False: there is no loop, so what is sent leaves at once."""
        del callback
        return False

    def take(self, frames: list[Frame]) -> None:
        """Takes frames that were read elsewhere."""
        for frame in frames:
            self._sort(frame)

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
