"""Wakes all tasks that wait for an event, with a result or with an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


@final
class Notifier:
    """An event that several tasks may wait for, and that may happen again later.

    Each waiter gets a separate future and exception. An exception keeps the frames that
    it passed through alive, so a shared one would keep the handles of each waiter
    alive.
    """

    __slots__ = ("_loop", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # None without waiters, the usual case: one list less for the collector.
        self._waiters: list[asyncio.Future[None]] | None = None

    def wait(self) -> asyncio.Future[None]:
        """Returns a future that is done at the next call of ``notify``."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        if self._waiters is None:
            self._waiters = [waiter]
        else:
            self._waiters.append(waiter)
        return waiter

    def notify(self, error: Callable[[], BaseException] | None = None) -> None:
        """Wakes all waiters.

        Args:
            error: Makes the exception of each waiter, if the event will never happen.
        """
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error())
