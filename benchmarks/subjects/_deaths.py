"""An actor is killed from outside while many wait for it: until the last is told."""

import asyncio
import os
import signal
import time
from typing import Any


class Silent:
    """An actor that does not answer."""

    def __init__(self) -> None:
        self._asked = 0
        self._changed = asyncio.Event()

    async def never(self) -> None:
        """Waits for ever."""
        self._asked += 1
        self._changed.set()
        await asyncio.Event().wait()

    async def pid(self, asked: int) -> int:
        """The process it lives in, once so many wait."""
        while self._asked < asked:
            self._changed.clear()
            await self._changed.wait()
        return os.getpid()


async def told(silent: Any, callers: int, death: type[Exception]) -> float:
    """Seconds from the death of an actor until all who wait have its error.

    Args:
        silent: The handle of a ``Silent``.
        callers: How many wait.
        death: What they are told.
    """

    async def call() -> float:
        try:
            await silent.never.remote()
        except death:
            return time.perf_counter()
        raise RuntimeError("an answer from an actor that has none")

    waiting = [asyncio.ensure_future(call()) for _ in range(callers)]
    await asyncio.sleep(0)
    pid = await silent.pid.remote(callers)
    begun = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    return max(await asyncio.gather(*waiting)) - begun
