"""Runs callbacks on an actor's event loop, even while a plain method blocks it.

Answers for the refs of this process are posted to the loop. While a plain method blocks
the loop, threads that wait for a ref run the callbacks instead: the method itself, or a
thread that it waits for.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, final

from actorlib._loops.loop_thread import blocking_allowed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


@final
class HostLoop:
    """Runs callbacks on the loop of this thread, even while plain code blocks it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._thread = threading.get_ident()
        self._posted: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        # Reentrant: a destructor may post while its thread is in here.
        self._changed = threading.Condition(threading.RLock())
        self._is_blocked = False
        self._is_serving = False

    @property
    def is_here(self) -> bool:
        return threading.get_ident() == self._thread

    def post(self, callback: Callable[..., object], *args: Any) -> None:
        """Calls back in the order of the posts; from any thread."""
        with self._changed:
            self._posted.append((callback, args))
            self._changed.notify_all()
        with suppress(RuntimeError):  # the loop is closed, so nothing waits
            self.loop.call_soon_threadsafe(self._serve)

    @contextmanager
    def blocked(self) -> Generator[None]:
        """Surrounds plain code on the loop's thread, which may block.

        The code is not part of the current task, so its waits are not awaits.
        """
        task = asyncio.current_task(self.loop)
        with self._changed:
            self._is_blocked = True
            self._changed.notify_all()
        if task is not None:
            asyncio._leave_task(self.loop, task)  # noqa: SLF001  # asyncio's interface for other loops
        try:
            with blocking_allowed():
                yield
        finally:
            if task is not None:
                asyncio._enter_task(self.loop, task)  # noqa: SLF001  # as above
            with self._changed:
                # A thread that runs a callback finishes it first.
                self._changed.wait_for(lambda: not self._is_serving)
                self._is_blocked = False

    def wait(self, ref: asyncio.Future[Any], timeout: float | None) -> bool:
        """Blocks this thread until a ref is done; returns False after the timeout."""
        end = None if timeout is None else time.monotonic() + timeout
        if not self.is_here:
            self.post(ref.add_done_callback, self._ring)
        while not ref.done():
            rest = None if end is None else max(0.0, end - time.monotonic())
            if self._is_blocked and self._serve_one():
                continue
            with self._changed:
                if not ref.done() and not (self._is_blocked and self._can_serve):
                    if rest == 0:
                        return False
                    self._changed.wait(rest)
        return True

    @property
    def _can_serve(self) -> bool:
        return bool(self._posted) and not self._is_serving

    def _ring(self, _: object) -> None:
        with self._changed:
            self._changed.notify_all()

    def _serve(self) -> None:
        for _ in range(len(self._posted)):
            self._serve_one()

    def _serve_one(self) -> bool:
        with self._changed:
            if not self._can_serve:
                return False
            self._is_serving = True
            callback, args = self._posted.popleft()
        try:
            callback(*args)
        except Exception as error:  # noqa: BLE001  # as a loop does
            context = {"message": f"{callback!r} failed", "exception": error}
            self.loop.call_exception_handler(context)
        finally:
            with self._changed:
                self._is_serving = False
                self._changed.notify_all()
        return True
