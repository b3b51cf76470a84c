"""Actors that call actors: handles travel as arguments, and the calls go on behind."""

import asyncio
from typing import Any

import actorlib


@actorlib.remote
class Counter:
    """Counts for everybody who has its handle."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, amount: int) -> int:
        """Adds, and gives the sum so far."""
        self._count += amount
        return self._count


@actorlib.remote
class Clerk:
    """A plain method blocks on what it asked: ``actorlib.get``."""

    def work(self, counter: actorlib.ActorHandle[Any]) -> int:
        """Adds one to the counter of another actor."""
        return actorlib.get(counter.add.remote(1))


@actorlib.remote
class Chief:
    """An ``async def`` method awaits what it asked, and may do much at once."""

    def __init__(self, counter: actorlib.ActorHandle[Any]) -> None:
        self._counter = counter

    async def delegate(self, times: int) -> int:
        """Makes a clerk for each time and has all of them work side by side."""
        clerks = [Clerk.remote() for _ in range(times)]
        sums = await asyncio.gather(*(c.work.remote(self._counter) for c in clerks))
        return max(sums)


async def main() -> None:
    """A chief, its four clerks and the one counter they share."""
    async with actorlib.init():
        counter = Counter.remote()
        chief = Chief.remote(counter)
        print(await chief.delegate.remote(4))
        print(await counter.add.remote(10))


actorlib.run(main())
