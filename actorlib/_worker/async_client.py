"""Speaks to the owner from a worker with an event loop, by way of that loop.

Its refs belong to the loop that reads the pipe. Plain code that runs on it blocks it:
what such code sends leaves at once, and where it waits it reads in the loop's place.
The threads of such code do likewise, one at a time: whoever has the *turn* (a lock)
does what the loop would do.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from actorlib._core.current_call import running
from actorlib._core.forking import detach_loop, drop_callbacks
from actorlib._wire.messages import CALL_SCALARS
from actorlib._worker.client import TOO_LATE, WAIT_REPORT_DELAY, OwnerClient
from actorlib._worker.inbox import INTERRUPTED
from actorlib._worker.os_process import exit_fork
from actorlib.exceptions import GetTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from actorlib._core.ids import CountedId
    from actorlib._core.object_ref import ObjectRef
    from actorlib._wire.async_channel import AsyncChannel
    from actorlib._wire.blocking_channel import BlockingChannel
    from actorlib._wire.messages import Frame
    from actorlib._worker.engine import LinkSource
    from actorlib._worker.interrupt_signal import InterruptSignal
    from actorlib._worker.startup import Start


class LoopReader:
    """Reads the links of a worker with an event loop; see LinkReader.

    Args:
        loop: The loop.

    Attributes:
        thread: That of the loop; all but ``at_end_of_turn`` is called from it.
        is_blocked: Whether plain code runs on the loop, so that no turn of it ends.
        receive: Gets the frames that have come.
        sources: What is read, by descriptor.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.thread = 0
        self.is_blocked = False
        self.receive: Callable[[list[Frame]], None]
        self.sources: dict[int, LinkSource] = {}
        self._loop = loop

    def watch(self, source: LinkSource) -> None:
        """Reads a link from now on; see LinkReader."""
        fd = source.fileno()
        self.sources[fd] = source
        self._loop.add_reader(fd, self.read, source)

    def unwatch(self, source: LinkSource) -> None:
        """Reads it no more; see LinkReader."""
        fd = source.fileno()
        if self.sources.pop(fd, None) is not None:
            self._loop.remove_reader(fd)

    def at_end_of_turn(self, callback: Callable[[], None]) -> bool:
        """Calls back at the end of this turn of the loop; see LinkReader."""
        if self.is_blocked or threading.get_ident() != self.thread:
            return False
        self._loop.call_soon(callback)
        return True

    def read(self, source: LinkSource) -> None:
        """Reads what has come next over one."""
        self.receive(source.read_next())

    def read_all(self) -> None:
        """Reads what ``read`` may have left: it was sent before what the pipe brings.

        The pipe may bring what somebody sent who was told of it.
        """
        for source in [*self.sources.values()]:
            if source.has_more:
                self.receive(source.read())


class _Wakeup:
    """Wakes a thread that reads in the place of the loop."""

    def __init__(self) -> None:
        self._here, self._there = socket.socketpair()
        self._here.setblocking(False)  # noqa: FBT003  # the socket API
        self._there.setblocking(False)  # noqa: FBT003

    @property
    def has_more(self) -> bool:
        return False

    def fileno(self) -> int:
        return self._here.fileno()

    def wake(self) -> None:
        with contextlib.suppress(OSError):  # it was woken already
            self._there.send(b"!")

    def read(self) -> list[Frame]:
        with contextlib.suppress(OSError):
            self._here.recv(4096)
        return []

    def read_next(self) -> list[Frame]:
        return self.read()

    def close(self) -> None:
        self._here.close()
        self._there.close()


class _Collecting:
    """Knows whether Python collects garbage, which may be in the midst of a write.

    What it runs then, as asyncio's report of a task whose error nobody has seen, may
    log, and must not write between two pieces of a frame.
    """

    def __init__(self) -> None:
        self.is_under_way = False
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: object) -> None:
        self.is_under_way = phase == "start"


_log = logging.getLogger("actorlib")
_MOST_UNSENT = 256 * 1024
"""Bytes that wait in this process, above which nothing more is offered."""
_MOST_OFFERED = 1000
"""Frames on their way from other threads, likewise."""


class AsyncOwnerClient(OwnerClient):
    """Speaks to the owner from a worker with an event loop.

    Args:
        start: What the START frame said.
        loop: The loop that reads the pipe.
        pipe: The pipe.

    Attributes:
        reader: Reads the links.
        channel: The pipe on the loop.
        is_leaving: Whether the actor ends by its own will.
        on_leave: Called on the loop when it begins to.
        is_call_cancelled: Says whether a call that runs was cancelled.
        interrupted: The numbers of the calls whose plain methods are to be interrupted.
    """

    channel: AsyncChannel
    on_leave: Callable[[], None]
    is_call_cancelled: Callable[[int], bool]

    def __init__(
        self, start: Start, loop: asyncio.AbstractEventLoop, pipe: BlockingChannel
    ) -> None:
        self.reader = LoopReader(loop)
        super().__init__(start, loop, pipe, self.reader)
        self.is_leaving = False
        self.interrupted: set[int] = set()
        self._interrupts: InterruptSignal | None = None
        self._method_thread = threading.get_ident()
        self._is_settling = False
        self._has_warned = False
        # Held by the thread that does the work of the loop: the loop's own, or another
        # while plain code blocks that.
        self._turn = threading.RLock()
        self._is_wanted = False
        self._is_reading = False
        self._wakeup: _Wakeup | None = None
        self._waiting_threads: dict[threading.Event, ObjectRef[Any]] = {}
        self._deferred: deque[Callable[[], object]] = deque()
        self._is_scheduled = False
        self._is_running_deferred = False
        self._offered = 0
        self._collecting: _Collecting | None = None

    def begin(self) -> None:
        """Says that this thread runs the loop, and takes the turn for it."""
        self.reader.thread = threading.get_ident()
        self._turn.acquire()

    def finish(self) -> None:
        """Gives up the turn: the loop has ended."""
        self._turn.release()
        if self._wakeup is not None:
            self.reader.sources.clear()
            self._wakeup.close()
            self._wakeup = None

    # Plain code on the loop.

    def begin_blocking(self) -> None:
        """Lets plain code run on the loop's thread until ``end_blocking``."""
        self.reader.is_blocked = True
        self._give_turn()

    def end_blocking(self) -> None:
        """Lets the loop go on: the plain code has ended."""
        self._take_turn()
        self.reader.is_blocked = False

    def flush(self) -> None:
        """Sends what waits for the end of this turn of the loop, which may be long."""
        if self.incoming_links.gathered:
            self.incoming_links.flush()
        self.outgoing_links.flush()
        self.channel.push()

    def read_now(self) -> None:
        """Reads what has come, in the place of the loop."""
        self._run_deferred()
        if self.channel.is_open:
            self.channel.pump(0, self.reader.sources, self.reader.read)

    def try_read(self) -> None:
        """Reads what has come for plain code, unless another thread reads."""
        if self._try_turn():
            try:
                self.read_now()
            finally:
                self._give_turn()

    def _try_turn(self) -> bool:
        """Takes the turn, if plain code blocks the loop and nobody else has it."""
        # It is not waited for: whoever has it may want what this thread holds.
        if threading.get_ident() != self.reader.thread and (
            self._is_wanted or not self.reader.is_blocked
        ):
            return False
        return self._turn.acquire(blocking=False)

    def _take_turn(self) -> None:
        """Takes the turn for the loop's own thread, from whoever reads now."""
        if not self._turn.acquire(blocking=False):
            self._is_wanted = True
            if self._wakeup is not None:
                self._wakeup.wake()
            self._turn.acquire()
            self._is_wanted = False

    def _give_turn(self) -> None:
        self._turn.release()
        if not self.reader.is_blocked:
            return
        while (
            self._deferred
            and not self._is_running_deferred
            and self._turn.acquire(blocking=False)
        ):
            try:
                self._run_deferred()
            finally:
                self._turn.release()
        for waiting in [*self._waiting_threads]:  # one of them reads from now on
            waiting.set()

    # The verbs.

    def post(self, frame: Frame) -> None:
        """Sends a frame, from the loop's thread or by way of it."""
        if not self.reader.is_blocked and threading.get_ident() == self.reader.thread:
            self.channel.send(frame)
        elif self._try_turn():
            try:
                self._run_deferred()
                self.channel.send_now(frame)
            finally:
                self._give_turn()
        else:
            self.later(partial(self._send, frame))

    def offer(self, frame: Frame) -> bool:
        """Sends a frame if that does not wait; see WorkerEngine."""
        channel = self.channel
        if self._is_in_fork or not channel.is_open or self.loop.is_closed():
            raise EOFError("the pipe is closed, or that of the parent of this process")
        if channel.unsent > _MOST_UNSENT or self._offered >= _MOST_OFFERED:
            return False
        if self._collecting is None:
            self._collecting = _Collecting()
        if not self._collecting.is_under_way:
            is_loops = threading.get_ident() == self.reader.thread
            if is_loops and not self.reader.is_blocked:
                channel.send_now(frame)
                return True
            if self._try_turn():
                try:
                    channel.send_now(frame)
                finally:
                    self._give_turn()
                return True
        self._offered += 1
        self.later(partial(self._send_offered, frame))
        return True

    def _send_offered(self, frame: Frame) -> None:
        self._offered -= 1
        self._send(frame)

    def _send(self, frame: Frame) -> None:
        if self.reader.is_blocked:
            self.channel.send_now(frame)
        else:
            self.channel.send(frame)

    def leave(self) -> NoReturn:
        """Ends this actor, from whatever thread or task; see Engine."""
        if not self.is_leaving:
            self.is_leaving = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self.on_leave)
        super().leave()

    def close_in_fork(self) -> None:
        """Refuses everything from now on; see OwnerClient.

        A fork of the loop's own thread comes back to the loop when its code waits.
        """
        super().close_in_fork()
        if self._wakeup is not None:
            self._wakeup.close()
        detach_loop(self.loop)
        if threading.get_ident() == self.reader.thread:
            drop_callbacks(self.loop)
            self.loop.call_soon(exit_fork, None)

    def leave_if_fork(self, error: BaseException | None) -> None:
        """Does not come back in a fork of the worker, whose code has raised this."""
        if self._is_in_fork:
            exit_fork(error)

    def wait_here(self, ref: ObjectRef[Any]) -> None:
        """Blocks also a coroutine on the loop, which then reads for itself."""
        if threading.get_ident() == self.reader.thread:
            self._pump(ref, None)
        else:
            self._wait_beside(ref, None)

    def release_all(self, actors: Collection[CountedId]) -> None:
        """Counts holders less, behind what their thread has posted; see OwnerClient.

        The note goes the way of the frames. Another thread that counts the notes could
        otherwise give the reference back before a frame has left that lends it on.
        """
        if not self._is_in_fork:
            self.later(partial(self._release_all, actors))

    def _release_all(self, actors: Collection[CountedId]) -> None:
        self.refcount.release_all(actors)
        self._return_borrowed()

    def return_borrowed_soon(self) -> None:
        """Gives references back from the loop's thread; see OwnerClient."""
        self.later(self._return_borrowed)

    def later(self, callback: Callable[[], object]) -> None:
        """Calls back from the loop's thread, in the order of this; see OwnerClient."""
        self._deferred.append(callback)
        if not self._is_scheduled:
            self._schedule()
        if self._is_reading and self._wakeup is not None:
            self._wakeup.wake()

    def _schedule(self) -> None:
        self._is_scheduled = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._run_deferred)

    def _run_deferred(self) -> None:
        """Runs what was deferred; called by whoever has the turn."""
        if self._is_running_deferred:  # one of those has posted something
            return
        self._is_running_deferred, self._is_scheduled = True, False
        try:
            while self._deferred:
                self._deferred.popleft()()
        finally:
            self._is_running_deferred = False
            if self._deferred and not self._is_scheduled:  # one of them has failed
                self._schedule()

    def discard(self, frame: Frame) -> None:
        """Gives back the handles in a call that will not run."""
        if frame[0] != CALL_SCALARS:  # there are none
            self.incoming_links.call_over(frame[1])
            with self.borrowing(frame[3]):
                pass

    def _return_borrowed(self) -> None:
        for frame in self.release_frames():
            self._send(frame)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks this thread until a ref is done; see ResultOwner."""
        if self.is_over:
            self.check_parent()
        me = threading.get_ident()
        is_loop_thread = me == self.reader.thread
        if not self._has_warned and _is_in_task():
            self._has_warned = True
            _log.warning(
                "get() in an async method blocks the event loop: every other call that "
                "this loop runs stands still meanwhile. Await the ref instead"
            )
        wait = self._wait_on_the_loop if is_loop_thread else self._wait_beside
        if timeout is not None or me != self._method_thread:
            wait(ref, timeout)
            return
        try:
            wait(ref, WAIT_REPORT_DELAY)
        except GetTimeoutError:
            with self.reporting_wait(ref):
                wait(ref, None)

    def was_canceled(self, call: int) -> bool:
        """Whether a call that runs was cancelled; see CallLookup."""
        if not self.is_call_cancelled(call):
            self.try_read()
        return self.is_call_cancelled(call)

    def take_interrupts(self) -> None:
        """Interrupts plain methods where they are from now on, on the loop's thread.

        It is the main one of its process.
        """
        from actorlib._worker.interrupt_signal import InterruptSignal, is_below_method  # noqa: PLC0415  # not inline

        self._interrupts = InterruptSignal(
            lambda: running.get() is not None,
            self._read_interrupts,
            is_below_method,
            retries_idle=True,
        )

    def interrupt_soon(self, call: int) -> None:
        """Takes note that a plain method is to be interrupted, if it runs."""
        self.interrupted.add(call)
        # A thread of the user's may be who reads that.
        if (
            self._interrupts is not None
            and threading.get_ident() != self._method_thread
        ):
            self._interrupts.send()

    def _read_interrupts(self) -> None:
        self.try_read()
        self._stop_if_interrupted()

    def _stop_if_interrupted(self) -> None:
        """Stops the method that this thread runs, if it is to be interrupted.

        Raises:
            KeyboardInterrupt: It is; once for each call.
        """
        if not self.interrupted:
            return
        call = running.get()
        if call is not None and call[0] in self.interrupted:
            self.interrupted.discard(call[0])
            raise KeyboardInterrupt(INTERRUPTED)

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once, from the loop's thread; see ResultOwner."""
        if threading.get_ident() == self.reader.thread:
            ref.add_done_callback(lambda _: then())
        else:
            self.later(partial(ref.add_done_callback, lambda _: then()))

    def settle(self, frame: Frame) -> None:
        """Fills the ref that a frame answers; see OwnerClient."""
        self._is_settling = True
        try:
            super().settle(frame)
        finally:
            self._is_settling = False

    def item(self, frame: Frame) -> None:
        """Takes an item of a stream; see OwnerClient."""
        self._is_settling = True
        try:
            super().item(frame)
        finally:
            self._is_settling = False

    # Waiting in the place of the loop, or beside it.

    def _wait_on_the_loop(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        self._take_turn()
        try:
            self._check_settling()
            self._pump(ref, timeout)
        finally:
            self._give_turn()

    def _check_settling(self) -> None:
        if self._is_settling:
            raise RuntimeError(
                "get() in code that loads a result would wait for itself: await the "
                "ref in an async method instead"
            )

    def _pump(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Reads in the place of the loop, which stands still until a ref is done."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._take_turn()
        try:
            self.incoming_links.flush()
            self.outgoing_links.flush()
            while not ref.done():
                self._read_once(_left(deadline), ref)
                self._stop_if_interrupted()
        finally:
            self._give_turn()

    def _wait_beside(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Waits until the loop has read an answer, or reads where plain code blocks it.

        Such code may wait for this very thread.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        done = threading.Event()
        self._waiting_threads[done] = ref
        try:
            self.watch(ref, done.set)
            while not ref.done():
                self._stop_if_interrupted()
                if self._try_turn():
                    try:
                        self._check_settling()
                        self._read_once(_left(deadline), ref)
                    finally:
                        self._give_turn()
                elif not done.wait(_left(deadline)):
                    raise GetTimeoutError(TOO_LATE)
                done.clear()
        finally:
            del self._waiting_threads[done]
            if self.reader.is_blocked:
                for waiting in [*self._waiting_threads]:
                    waiting.set()

    def _read_once(self, timeout: float | None, ref: ObjectRef[Any]) -> None:
        if self._wakeup is None:
            self._wakeup = _Wakeup()
            self.reader.sources[self._wakeup.fileno()] = self._wakeup
        self._is_reading = True
        try:
            self.sender.send_ready()
            self._run_deferred()
            if ref.done() or self._is_wanted:
                return
            if not self.channel.pump(timeout, self.reader.sources, self.reader.read):
                raise GetTimeoutError(TOO_LATE)
        finally:
            self._is_reading = False
            for waiting, other in [*self._waiting_threads.items()]:
                if other.done():
                    waiting.set()


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _is_in_task() -> bool:
    running = asyncio._get_running_loop()  # noqa: SLF001  # None, and no error, if there is none
    return running is not None and asyncio.current_task(running) is not None
