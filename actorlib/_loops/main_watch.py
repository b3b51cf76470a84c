"""Warns if the program's own code blocks the event loop that ``run()`` runs.

A program that calls ``time.sleep()`` in its ``main()`` receives no results meanwhile,
and nothing else tells its author. A thread pings the loop once a second, which takes
the loop about 20 us, and looks at the stack if there is no answer. Code that blocks the
loop of an actor is found in the same way, see ``_worker.executors.loop_watchdog``.
"""

from __future__ import annotations

import logging
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from actorlib._base.stack_frames import place_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_log = logging.getLogger("actorlib")

PERIOD = 1.0
"""Seconds from one ping to the next, and until a ping has to be answered."""


class MainWatch:
    """Watches a loop of this thread, inside a block, from another thread.

    Args:
        find_engine: Returns the current engine. While there is none, the loop carries
            no results and may be blocked.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, find_engine: Callable[[], object]
    ) -> None:
        self._loop = loop
        self._find_engine = find_engine
        self._watched_thread = threading.get_ident()
        self._warned: set[str] = set()
        self._is_over = threading.Event()
        self._answered = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="actorlib-main-watch", daemon=True
        )

    def __enter__(self) -> None:
        with suppress(RuntimeError):  # no thread can be started
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._answered.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(PERIOD):
            if self._find_engine() is None:
                continue
            self._answered.clear()
            try:
                self._loop.call_soon_threadsafe(self._answered.set)
            except RuntimeError:  # the loop is closed
                return
            if not self._answered.wait(PERIOD) and not self._is_over.is_set():
                self._warn()
                self._answered.wait()

    def _warn(self) -> None:
        frame = sys._current_frames().get(self._watched_thread)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # the only way to another thread's stack
        if frame is None:
            return
        place = place_of(frame)
        if place in self._warned:
            return
        self._warned.add(place)
        _log.warning(
            "The program has blocked its event loop for %.1f s by now: it receives no "
            "results meanwhile. It is in %s. Await what takes long, or give it to a "
            "thread with asyncio.to_thread()",
            PERIOD,
            place,
        )
