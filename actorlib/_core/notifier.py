"""Something that others wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


@final
class Notifier:
    """Those who wait for something to happen, now and perhaps again later.

    Each of them gets a future and an error of their own: an error keeps the frames that
    it passed, and one for all would keep every handle in them.
    """

    __slots__ = ("_loop", "_waiters")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiters: list[asyncio.Future[None]] = []

    def wait(self) -> asyncio.Future[None]:
        """Done when it happens next."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        return waiter

    def happens(self, error: Callable[[], BaseException] | None = None) -> None:
        """Tells those who wait.

        Args:
            error: Makes what they get, if it will not happen any more.
        """
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error())
