"""Fills the refs of one process with Ray's answers, on its loop if it has one.

Ray calls back on a thread of its own. In a process with an event loop the answer is
posted to that loop; elsewhere the ref is filled on Ray's thread. No ref has a thread or
a task. In the user's program, operations that other threads call cross to the loop,
too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable  # noqa: TC003  # in a named tuple
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from actorlib._futures.object_ref import hide_from_other_loops, immediate_loop
from actorlib._ray.host_loop import HostLoop
from actorlib._ray.ray_api import is_client
from actorlib._ray.timer_thread import TimerThread
from actorlib.exceptions import ClusterError

if TYPE_CHECKING:
    import asyncio

    from actorlib._futures.object_ref import ObjectRef
    from actorlib._futures.runtime_portal import RuntimePortal

T = TypeVar("T")


class PendingResult(Protocol):
    """A result that has not arrived yet."""

    def fail(self, error: BaseException) -> None: ...


class EntryPoints(NamedTuple):
    """The functions that Ray calls in other processes, which make an engine there.

    Attributes:
        actor: Returns the id of the actor of a Ray handle.
        ref: Returns the ref of a Ray ref.
        host: Prepares a process for an actor; returns the user's class, and the state
            of the process.
        function: Prepares a process for a call of a function.
    """

    actor: Callable[[Any, Any], Any]
    ref: Callable[[Any], Any]
    host: Callable[[Any, Any], tuple[type, ProcessState]]
    function: Callable[[Any], None]


class ProcessState:
    """Fills the refs of one process, and runs the callbacks of other threads.

    ``loop`` is the loop of the user's code, or None while there is none. In the user's
    program, ``owner`` crosses to the thread of that loop.

    Attributes:
        entry_points: The functions that Ray calls in other processes.
        loop: The loop of the refs.
        is_owner: Whether it is the user's program.
        is_client: Whether it is connected through a client server.
        pending: The unanswered requests, in order.
        timers: Call back at the deadlines of calls.
    """

    def __init__(
        self,
        entry_points: EntryPoints,
        loop: asyncio.AbstractEventLoop | None,
        *,
        owner: RuntimePortal | None = None,
        is_client: bool = False,
    ) -> None:
        self.entry_points = entry_points
        self.loop = immediate_loop() if loop is None else loop
        self.is_owner = owner is not None
        self.is_client = is_client
        self.pending: dict[PendingResult, None] = {}
        self.timers = TimerThread()
        self._owner = owner
        self._host_loop: HostLoop | None = None
        self._is_left = False
        self._thread = None if loop is None else threading.get_ident()

    @property
    def is_here(self) -> bool:
        """Whether this thread runs the loop."""
        return self._thread == threading.get_ident()

    def host(self, loop: asyncio.AbstractEventLoop) -> None:
        """Sets the loop of an actor, which this thread runs, for refs from now on."""
        hide_from_other_loops()
        self.loop = loop
        self._thread = threading.get_ident()
        self._host_loop = HostLoop(loop)

    def blocked(self) -> AbstractContextManager[None]:
        """Surrounds plain code on this thread, which blocks its loop if it has one."""
        return nullcontext() if self._host_loop is None else self._host_loop.blocked()

    def post(self, callback: Callable[..., object], *args: Any) -> None:
        """Calls back on the thread that fills refs; from any thread."""
        if self._thread is None:
            callback(*args)
        elif self._host_loop is not None:
            self._host_loop.post(callback, *args)
        elif self._owner is not None:
            with suppress(RuntimeError):  # the loop is closed, so nothing waits
                self._owner.portal.post(callback, *args)

    def call(self, work: Callable[[], T]) -> T:
        """Runs a function on the thread that fills refs, and waits for it.

        In workers, and after the end of a runtime, it runs on the calling thread.
        """
        if self._owner is None or self._is_left:
            return work()
        return self._owner.call(work)

    def leave(self) -> None:
        """Ends the crossing of threads: the runtime has ended."""
        self._is_left = True

    def after(self, wait: float, callback: Callable[[], object]) -> None:
        """Calls back in so many seconds; from any thread."""
        self.timers.add(time.monotonic() + wait, partial(self.post, callback))

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; from any thread."""

        def done(_: object) -> None:
            then()

        if self._owner is not None:
            self._owner.portal.watch(ref, done)
        elif self._host_loop is not None and not self.is_here:
            self._host_loop.post(ref.add_done_callback, done)
        else:
            ref.add_done_callback(done)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> bool:
        """Blocks this thread of a worker until a ref is done, or for ``timeout``."""
        if self._host_loop is not None:
            return self._host_loop.wait(ref, timeout)
        done = threading.Event()
        self.watch(ref, done.set)
        return done.wait(timeout)

    @property
    def is_lost(self) -> bool:
        """Whether it was a client and has lost the connection."""
        return self.is_client and not is_client()

    def check(self) -> None:
        """Refuses to continue without the cluster.

        Raises:
            ClusterError: The connection to the client server was lost. Ray itself would
                start a cluster on this machine and continue there.
        """
        if self.is_lost:
            raise ClusterError(
                "the connection to the client server was lost, and with it every actor "
                "and every result of this runtime: shut it down and start another"
            )
