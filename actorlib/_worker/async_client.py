"""The engine of a worker with an event loop: every frame goes by way of that loop.

Its refs belong to the loop. Other threads post, watch and wait through it; a method
that blocks the loop reads in its place.

The event loops of workers: which one it is, and how links are read on it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from functools import (
    partial,
)
from typing import (
    TYPE_CHECKING,
    Any,
    NoReturn,
)

from actorlib._core.forking import (
    forget_callbacks,
    part_loop,
)
from actorlib._wire.messages import (
    LOOP,
    MAIN,
)
from actorlib._worker.client import (
    MOMENT,
    TOO_LATE,
    OwnerClient,
)
from actorlib._worker.os_process import (
    leave_fork,
)
from actorlib.exceptions import (
    GetTimeoutError,
)

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
    )

    from actorlib._core.ids import (
        LoanId,
    )
    from actorlib._core.object_ref import (
        ObjectRef,
    )
    from actorlib._wire.async_channel import (
        Channel,
    )
    from actorlib._wire.blocking_channel import (
        Pipe,
    )
    from actorlib._wire.messages import (
        Frame,
    )
    from actorlib._worker.incoming_links import (
        Source,
    )
    from actorlib._worker.startup import (
        Start,
    )


def new_loop() -> asyncio.AbstractEventLoop:
    """Uvloop's loop where it is installed and not switched off, else asyncio's."""
    if os.environ.get("ACTORLIB_UVLOOP", "1") != "0":
        with contextlib.suppress(ImportError):
            import uvloop  # noqa: PLC0415  # optional, and warm in the template

            return uvloop.new_event_loop()
    return asyncio.new_event_loop()


class LoopReader:
    """Reads the links of a worker with an event loop; see Host.

    Args:
        loop: The loop.

    Attributes:
        thread: That of the loop; all but ``soon`` is called from it.
        receive: Gets the frames that have come.
        sources: What is read, by descriptor.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.thread = 0
        self.receive: Callable[[list[Frame]], None]
        self.sources: dict[int, Source] = {}
        self._loop = loop

    def watch(self, source: Source) -> None:
        """Reads a link from now on; see Host."""
        fd = source.fileno()
        self.sources[fd] = source
        self._loop.add_reader(fd, self.read, source)

    def unwatch(self, source: Source) -> None:
        """Reads it no more; see Host."""
        fd = source.fileno()
        if self.sources.pop(fd, None) is not None:
            self._loop.remove_reader(fd)

    def soon(self, callback: Callable[[], None]) -> bool:
        """Calls back at the end of this turn of the loop; see Host."""
        if threading.get_ident() != self.thread:
            return False
        self._loop.call_soon(callback)
        return True

    def read(self, source: Source) -> None:
        """Reads what has come over one."""
        self.receive(source.read())


_log = logging.getLogger("actorlib")


class AsyncOwnerClient(OwnerClient):
    """The engine of a worker with an event loop in another thread."""

    def __init__(
        self, start: Start, loop: asyncio.AbstractEventLoop, pipe: Pipe
    ) -> None:
        self.reader = LoopReader(loop)
        super().__init__(start, loop, pipe, self.reader)
        self.channel: Channel
        self.thread = 0
        self.is_leaving = False
        self.left: Callable[[], None]
        self.cancelled: Callable[[int], bool]
        self._main = threading.get_ident()
        self._is_settling = False
        self._has_warned = False

    def post(self, frame: Frame) -> None:
        """Sends a frame, from the loop's thread or by way of it."""
        if threading.get_ident() == self.thread:
            self.channel.send(frame)
        else:
            self._loop.call_soon_threadsafe(self.channel.send, frame)

    def leave(self) -> NoReturn:
        """Ends this actor, from whatever thread or task; see Engine."""
        if not self.is_leaving:
            self.is_leaving = True
            self.later(self.left)
        super().leave()

    def forsake(self) -> None:
        """Refuses everything from now on; see OwnerClient.

        A fork of the loop's own thread comes back to the loop when its code waits.
        """
        super().forsake()
        part_loop(self._loop)
        if threading.get_ident() == self.thread:
            forget_callbacks(self._loop)
            self._loop.call_soon(leave_fork, None)

    def wait_here(self, ref: ObjectRef[Any]) -> None:
        """Blocks also the loop's thread, which then reads for itself."""
        if threading.get_ident() == self.thread:
            self.channel.read_until(ref.done)
        else:
            self.wait(ref, None)

    def release(self, actor: LoanId) -> None:
        """Counts a holder less, behind what its thread has posted; see Engine.

        The note goes the way of the frames. Another one's look at the notes could
        otherwise give a loan back before the frame has left that carries it on.
        """
        if not self._is_forsaken:
            self.later(partial(self._release, actor))

    def _release(self, actor: LoanId) -> None:
        self.loans.release(actor)
        self._return_loans()

    def return_loans_soon(self) -> None:
        """Gives loans back from the loop's thread; see OwnerClient."""
        self.later(self._return_loans)

    def later(self, callback: Callable[[], object]) -> None:
        """Calls back from the loop's thread; see OwnerClient."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback)

    def _return_loans(self) -> None:
        for frame in self.returns():
            self.channel.send(frame)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks a thread that is not the loop's; see Replier."""
        if self.is_over:
            self.check_parent()
        if threading.get_ident() == self.thread:
            self._wait_on_the_loop(ref, timeout)
            return
        done = threading.Event()
        self.watch(ref, done.set)
        if timeout is not None or threading.get_ident() != self._main:
            if not done.wait(timeout):
                raise GetTimeoutError(TOO_LATE)
        elif not done.wait(MOMENT):
            with self.waiting(ref, MAIN):
                done.wait()

    def was_canceled(self, call: int) -> bool:
        """Whether a call that runs was cancelled; see Process."""
        return self.cancelled(call)

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once, from the loop's thread; see Replier."""
        if threading.get_ident() == self.thread:
            ref.add_done_callback(lambda _: then())
        else:
            called = partial(ref.add_done_callback, lambda _: then())
            self._loop.call_soon_threadsafe(called)

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

    def _wait_on_the_loop(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Reads in the place of the loop, which stands still until the ref is done."""
        if self._is_settling:
            raise RuntimeError(
                "get() in code that loads a result would wait for itself: await the "
                "ref in an async method instead"
            )
        if not self._has_warned:
            self._has_warned = True
            _log.warning(
                "get() in an async method blocks the event loop: every other async "
                "call of this actor stands still meanwhile. Await the ref instead"
            )
        if timeout is not None:
            self._pump(ref, timeout)
            return
        try:
            self._pump(ref, MOMENT)
        except GetTimeoutError:
            with self.waiting(ref, LOOP):
                self._pump(ref, None)

    def _pump(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not ref.done():
            self.outbox.go_on()
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self.channel.pump(left, self.reader.sources, self.reader.read):
                raise GetTimeoutError(TOO_LATE)
