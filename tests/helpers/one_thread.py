"""An actor whose plain methods and coroutines work over one state."""

from __future__ import annotations

import asyncio


class OneThread:
    """A count, and tasks that plain code makes; what only one thread may touch."""

    def __init__(self) -> None:
        self.number = 0
        self.tasks = [asyncio.create_task(self._work("constructor"))]

    async def _work(self, name: str) -> str:
        await asyncio.sleep(0)
        return name

    def add(self, times: int) -> None:
        """Counts so far, and would lose steps to another thread."""
        for _ in range(times):
            number = self.number
            for _ in range(20):
                pass
            self.number = number + 1

    async def add_later(self, times: int) -> None:
        """The same in a coroutine."""
        self.add(times)

    async def total(self) -> int:
        """How far it has counted."""
        return self.number

    def begin(self, name: str) -> None:
        """Makes a task."""
        self.tasks.append(asyncio.create_task(self._work(name)))

    async def made(self) -> list[str]:
        """What the tasks gave, the constructor's first."""
        return [await task for task in self.tasks]
