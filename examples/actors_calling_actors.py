"""Actors that call actors: a handle can be an argument."""

import asyncio
from typing import Any

import actorlib


@actorlib.remote
class Counter:
    """Counts for all callers."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, amount: int) -> int:
        """Adds the amount and returns the sum."""
        self._count += amount
        return self._count


@actorlib.remote
class Clerk:
    """Has a plain method, which blocks with ``actorlib.get``."""

    def work(self, counter: actorlib.ActorHandle[Any]) -> int:
        """Adds one to the counter, which is another actor."""
        return actorlib.get(counter.add.remote(1))


@actorlib.remote
class Chief:
    """Has an ``async def`` method, which awaits several calls at once."""

    def __init__(self, counter: actorlib.ActorHandle[Any]) -> None:
        self._counter = counter

    async def delegate(self, times: int) -> int:
        """Creates several clerks, which work at the same time."""
        clerks = [Clerk.remote() for _ in range(times)]
        sums = await asyncio.gather(*(c.work.remote(self._counter) for c in clerks))
        return max(sums)


async def main() -> None:
    """Runs a chief and its four clerks, which share one counter."""
    async with actorlib.init():
        counter = Counter.remote()
        chief = Chief.remote(counter)
        print(await chief.delegate.remote(4))
        print(await counter.add.remote(10))


actorlib.run(main())
