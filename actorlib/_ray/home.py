"""Where the answers of one process become the values of its refs.

Ray calls back on a thread of its own. In a process with an event loop the answer goes
on to that loop, by one callback; elsewhere the ref is filled on the thread that it came
on, as there is no loop whose business that were. No ref has a thread or a task.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable  # noqa: TC003  # in a named tuple
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from actorlib._ray.alarm import Alarm
from actorlib._ray.library import is_client
from actorlib._unlooped import unlooped
from actorlib.exceptions import ClusterError

if TYPE_CHECKING:
    from actorlib._ref import ObjectRef

_log = logging.getLogger("actorlib")


class Pending(Protocol):
    """Something that has been asked and has no answer."""

    def fail(self, error: BaseException) -> None:
        """Gives it an error that is no answer."""
        ...


class Arrivals(NamedTuple):
    """What is called in other processes, where an engine has to be there first.

    Attributes:
        actor: Makes the id of an actor of Ray's handle.
        ref: Makes a ref of Ray's.
        host: Makes a process an actor's; gives what makes the user's object, and the
            place of that process.
        function: Makes a process one that may run a function.
    """

    actor: Callable[[Any, Any], Any]
    ref: Callable[[Any], Any]
    host: Callable[[Any, Any], tuple[Callable[..., object], Home]]
    function: Callable[[Any], None]


class Home:
    """The place of one process.

    Args:
        arrivals: How others find again what is sent from here.
        loop: The loop of its user's code, or None while there is none.
        is_owner: Whether it is the user's program, whose loop nobody may block.
        is_far: Whether it is a client, and a client server stands between it and the
            cluster.

    Attributes:
        arrivals: The same.
        loop: What refs take for their loop.
        is_owner: The same.
        is_far: The same.
        pending: What has been asked and has no answer, in that order.
        alarm: Calls back when the time of a call is over.
    """

    def __init__(
        self,
        arrivals: Arrivals,
        loop: asyncio.AbstractEventLoop | None,
        *,
        is_owner: bool = False,
        is_far: bool = False,
    ) -> None:
        self.arrivals = arrivals
        self.loop = unlooped(_report) if loop is None else loop
        self.is_owner = is_owner
        self.is_far = is_far
        self.pending: dict[Pending, None] = {}
        self.alarm = Alarm()
        self._thread = None if loop is None else threading.get_ident()

    @property
    def is_here(self) -> bool:
        """Whether this thread runs the loop."""
        return self._thread == threading.get_ident()

    def move(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on refs belong to a loop, which this thread runs."""
        self.loop = loop
        self._thread = threading.get_ident()

    def post(self, callback: Callable[..., object], *args: Any) -> None:
        """Calls back where refs are filled; from any thread."""
        if self._thread is None:
            callback(*args)
            return
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self.loop.call_soon_threadsafe(callback, *args)

    def after(self, wait: float, callback: Callable[[], object]) -> None:
        """Calls back in so many seconds; from any thread."""
        if self._thread is not None:
            self.post(self.loop.call_later, wait, callback)
        else:
            self.alarm.add(time.monotonic() + wait, callback)

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; from any thread."""
        loop = cast("object", ref.get_loop())

        def done(_: object) -> None:
            then()

        if isinstance(loop, asyncio.AbstractEventLoop) and not self.is_here:
            loop.call_soon_threadsafe(ref.add_done_callback, done)
        else:
            ref.add_done_callback(done)

    @property
    def is_lost(self) -> bool:
        """Whether it was a client, and no server knows it any more."""
        return self.is_far and not is_client()

    def check(self) -> None:
        """Refuses another thread of the user's program than that of its loop.

        Raises:
            RuntimeError: This is another one.
            ClusterError: There is no client server any more. Ray would start a cluster
                on this machine and go on there.
        """
        if self.is_lost:
            raise ClusterError(
                "the connection to the client server was lost, and with it every actor "
                "and every result of this runtime: shut it down and start another"
            )
        if self.is_owner and not self.is_here:
            raise RuntimeError(
                "actors are called from the thread of the event loop that the runtime "
                "was started on; from another thread, hand it a coroutine with "
                "asyncio.run_coroutine_threadsafe()"
            )


def _report(told: dict[str, Any]) -> None:
    _log.error("%s", told.get("message"), exc_info=told.get("exception"))
