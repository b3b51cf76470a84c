"""The client of a worker with an event loop, which reads the pipe.

Refs belong to the loop. The channel and the refs are used by one thread at a time, the
one that has the *turn*; see ``Inbox``. Plain code that runs on the loop blocks it.
Frames that such code sends leave at once, and while it waits it reads in place of the
loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from actorlib._loops.forking import detach_loop, drop_callbacks
from actorlib._wire.messages import CALL_SCALARS
from actorlib._worker.os_process import exit_fork
from actorlib._worker.requests.client import OwnerClient
from actorlib._worker.requests.inbox import Inbox

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from actorlib._base.ids import CountedId
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._wire.async_channel import AsyncChannel
    from actorlib._wire.blocking_channel import BlockingChannel
    from actorlib._wire.messages import Frame
    from actorlib._worker.requests.inbox import LinkSource
    from actorlib._worker.startup import Start


class _Wakeup:
    """Wakes a thread that reads in place of the loop."""

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
        with contextlib.suppress(OSError):  # a wake-up is pending
            self._there.send(b"!")

    def read(self, *, is_next: bool = False) -> list[Frame]:
        del is_next
        with contextlib.suppress(OSError):
            self._here.recv(4096)
        return []

    def close(self) -> None:
        self._here.close()
        self._there.close()


class LoopInbox(Inbox):
    """Reads the pipe and the links of a worker on an event loop, or in its place.

    Attributes:
        thread: The thread of the loop.
        receive: Receives the frames of a link.
        is_settling: Whether the value of an answer is being loaded.
        sources: The links that are read, and what wakes the reader, by descriptor.
    """

    receive: Callable[[list[Frame]], None]

    def __init__(
        self, client: AsyncOwnerClient, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__()
        self._client = client
        self.thread = 0
        self.is_settling = False
        self.sources: dict[int, LinkSource] = {}
        self._loop = loop
        self._wakeup: _Wakeup | None = None
        self._is_pulling = False
        self._is_scheduled = False

    def begin(self) -> None:
        """Acquires the turn for the loop, which runs on this thread from now on."""
        self.thread = self.free_loop = threading.get_ident()
        self._turn.acquire()

    def finish(self) -> None:
        """Releases the turn: the loop has ended."""
        self._turn.release()
        if self._wakeup is not None:
            self.sources.clear()
            self._wakeup.close()
            self._wakeup = None

    def close_in_fork(self) -> None:
        """Closes a fork's copy of the sockets that wake the reader."""
        if self._wakeup is not None:
            self._wakeup.close()

    def begin_blocking(self) -> None:
        """Releases the turn while plain code runs, until ``end_blocking``.

        Code on another thread than the loop's does not block the loop.
        """
        if threading.get_ident() == self.free_loop:
            self.free_loop = 0
            self.give_turn()

    def end_blocking(self) -> None:
        """Acquires the turn again for the loop, if plain code has blocked it."""
        if self.free_loop or threading.get_ident() != self.thread:
            return
        if not self._turn.acquire(blocking=False):
            self._is_wanted = True
            self._wake_reader()
            self._turn.acquire()
            self._is_wanted = False
        self.free_loop = self.thread

    def _pull(self, until: Callable[[], bool], seconds: float | None) -> bool:
        if self.is_settling:
            raise RuntimeError(
                "get() in code that loads a result would wait for itself: await the "
                "ref in an async method instead"
            )
        if self._wakeup is None:
            self._wakeup = _Wakeup()
            self.sources[self._wakeup.fileno()] = self._wakeup
        self._is_pulling = True
        try:
            self._client.send_pending()
            self.run_deferred()
            if until() or self._is_wanted:
                return True
            channel = self._client.channel
            return channel.pump(seconds, self.sources, self._read_next)
        finally:
            self._is_pulling = False

    def _pull_available(self) -> None:
        self.run_deferred()
        channel = self._client.channel
        if channel.is_open:
            channel.pump(0, self.sources, self._read_next)

    def call_when_done(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        self.do(partial(ref.add_done_callback, lambda _: then()))

    def watch(self, source: LinkSource) -> None:
        fd = source.fileno()
        self.sources[fd] = source
        self._loop.add_reader(fd, self._read_next, source)

    def unwatch(self, source: LinkSource) -> None:
        fd = source.fileno()
        if self.sources.pop(fd, None) is not None:
            self._loop.remove_reader(fd)

    def _read_next(self, source: LinkSource) -> None:
        self.receive(source.read(is_next=True))

    def read_links(self) -> None:
        """Reads what is left on the links, before frames of the pipe are received.

        The sender of a frame on the pipe may know of an earlier call over a link.
        """
        for source in [*self.sources.values()]:
            if source.has_more:
                self.receive(source.read())

    def at_end_of_turn(self, callback: Callable[[], None]) -> bool:
        if threading.get_ident() != self.free_loop:
            return False
        self._loop.call_soon(callback)
        return True

    def do(self, callback: Callable[[], object]) -> None:
        """Runs a callback behind deferred ones: now if the turn is free, or later."""
        if self.try_turn():
            try:
                self.run_deferred()
                callback()
            finally:
                self.give_turn()
        else:
            self.later(callback)
            if not self.free_loop:
                self._hand_over()  # the other thread may have left

    def later(self, callback: Callable[[], object]) -> None:
        super().later(callback)
        if not self._is_scheduled:
            self._schedule()
        self._wake_reader()

    def _wake_reader(self) -> None:
        if self._is_pulling and self._wakeup is not None:
            self._wakeup.wake()

    def _schedule(self) -> None:
        self._is_scheduled = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._run_scheduled)

    def _run_scheduled(self) -> None:
        self._is_scheduled = False
        try:
            self.run_deferred()
        finally:
            if self.deferred and not self._is_scheduled:  # a callback has failed
                self._schedule()


class _Collecting:
    """Reports whether Python collects garbage, which may happen during a write.

    Code that runs in the collector may log: asyncio reports a task whose error was not
    retrieved, for example. Such a record must not be written between two pieces of a
    frame.
    """

    def __init__(self) -> None:
        self.is_under_way = False
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: object) -> None:
        self.is_under_way = phase == "start"


_log = logging.getLogger("actorlib")
_MOST_UNSENT = 256 * 1024
"""Unsent bytes above which no further frame is offered."""
_MOST_OFFERED = 1000
"""Frames on their way from other threads above which no further frame is offered."""


class AsyncOwnerClient(OwnerClient):
    """The client of a worker with an event loop.

    Attributes:
        is_leaving: Whether the actor ends at its own request.
        on_leave: Called on the loop when the actor begins to end.
    """

    inbox: LoopInbox
    channel: AsyncChannel
    on_leave: Callable[[], None]

    def __init__(
        self, start: Start, loop: asyncio.AbstractEventLoop, pipe: BlockingChannel
    ) -> None:
        super().__init__(start, loop, pipe, LoopInbox(self, loop))
        self.is_leaving = False
        self._has_warned = False
        self._offered = 0
        self._collecting: _Collecting | None = None

    def flush(self) -> None:
        """Sends frames that wait for this turn's end; other threads have none."""
        if threading.get_ident() == self.inbox.thread:
            self._flush_links()
            self.channel.push()

    def _flush_links(self) -> None:
        self.incoming_links.flush()
        self.outgoing_links.flush()

    def post(self, frame: Frame) -> None:
        """Sends a frame on the loop's thread, now or deferred."""
        inbox = self.inbox
        if threading.get_ident() == inbox.free_loop and not inbox.deferred:
            self.channel.send(frame)
        else:
            inbox.do(partial(self._send, frame))

    def offer(self, frame: Frame) -> bool:
        channel, inbox = self.channel, self.inbox
        if self._is_in_fork or not channel.is_open or self.loop.is_closed():
            raise EOFError("the pipe is closed, or that of the parent of this process")
        if channel.unsent > _MOST_UNSENT or self._offered >= _MOST_OFFERED:
            return False
        if self._collecting is None:
            self._collecting = _Collecting()
        if not self._collecting.is_under_way and inbox.try_turn():
            try:
                channel.send_now(frame)
            finally:
                inbox.give_turn()
            return True
        self._offered += 1
        inbox.later(partial(self._send_offered, frame))
        return True

    def _send_offered(self, frame: Frame) -> None:
        self._offered -= 1
        self._send(frame)

    def _send(self, frame: Frame) -> None:
        if self.inbox.free_loop:
            self.channel.send(frame)
        else:
            self.channel.send_now(frame)

    def leave(self) -> NoReturn:
        if not self.is_leaving:
            self.is_leaving = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self.on_leave)
        super().leave()

    def close_in_fork(self) -> None:
        """Refuses all operations from now on; see OwnerClient.

        A fork of the loop's own thread returns to the loop when its code waits, and
        exits there.
        """
        super().close_in_fork()
        self.inbox.close_in_fork()
        detach_loop(self.loop)
        if threading.get_ident() == self.inbox.thread:
            drop_callbacks(self.loop)
            self.loop.call_soon(exit_fork, None)

    def leave_if_fork(self, error: BaseException | None) -> None:
        if self._is_in_fork:
            exit_fork(error)

    def release_all(self, actors: Collection[CountedId]) -> None:
        """Removes holders, behind the frames that their thread has posted.

        The release takes the path of the frames. Otherwise another thread could count
        it, and return the reference, before a frame is sent that lends the reference
        on.
        """
        if not self._is_in_fork:
            self.later(partial(self._release_all, actors))

    def _release_all(self, actors: Collection[CountedId]) -> None:
        self.refcount.release_all(actors)
        self._return_borrowed()

    def return_borrowed_soon(self) -> None:
        self.later(self._return_borrowed)

    def discard(self, frame: Frame) -> None:
        """Returns the handles of a call that will not run."""
        if frame[0] != CALL_SCALARS:  # scalars have no handles
            self.incoming_links.call_over(frame[1])
            with self.borrowing(frame[3]):
                pass

    def _return_borrowed(self) -> None:
        for frame in self.release_frames():
            self._send(frame)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        if not self._has_warned and _is_in_task():
            self._has_warned = True
            _log.warning(
                "get() or wait() in an async method blocks the event loop: every other "
                "call that this loop runs stands still meanwhile. Await it instead"
            )
        super().wait(ref, timeout)

    def send_pending(self) -> None:
        """Sends frames that wait for a turn of the loop, which is blocked."""
        if threading.get_ident() == self.inbox.thread:
            self._flush_links()
        self.sender.send_ready()

    def settle(self, frame: Frame) -> None:
        self.inbox.is_settling = True
        try:
            super().settle(frame)
        finally:
            self.inbox.is_settling = False

    def item(self, frame: Frame) -> None:
        self.inbox.is_settling = True
        try:
            super().item(frame)
        finally:
            self.inbox.is_settling = False


def _is_in_task() -> bool:
    running = asyncio._get_running_loop()  # noqa: SLF001  # None, and no error, if there is none
    return running is not None and asyncio.current_task(running) is not None
