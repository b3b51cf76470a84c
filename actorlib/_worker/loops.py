"""The event loops of workers: which one it is, and how links are read on it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.frames import Frame
    from actorlib._worker.hosts import Source


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
