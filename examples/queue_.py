"""A queue between actors: a reader is never more than three lines ahead."""

import asyncio
from collections.abc import Iterable

import actorlib


@actorlib.remote
class Reader:
    """Puts lines into a queue, from a plain method."""

    def read(self, lines: "actorlib.Queue[str | None]", texts: Iterable[str]) -> int:
        """Waits while the queue is full; gives the number of lines."""
        number = 0
        for text in texts:
            lines.put(text).get()  # in plain methods: get() where others await
            number += 1
        return number


@actorlib.remote
class Counter:
    """Takes lines from a queue, from an ``async def`` method."""

    async def words(self, lines: "actorlib.Queue[str | None]") -> int:
        """Counts words until there are no more lines."""
        found = 0
        while (line := await lines.get()) is not None:
            found += len(line.split())
        return found


async def main() -> None:
    """One reader, two counters, and the queue between them."""
    texts = [f"line {number} of a text" for number in range(100)]
    async with actorlib.init():
        lines: actorlib.Queue[str | None] = actorlib.Queue(maxsize=3)
        reader, counters = Reader.remote(), [Counter.remote() for _ in range(2)]
        counts = [counter.words.remote(lines) for counter in counters]
        read = await reader.read.remote(lines, texts)
        for _ in counters:
            await lines.put(None)
        words = sum(await asyncio.gather(*counts))
        print(f"{read} lines, {words} words, {await lines.qsize()} left")
        await lines.shutdown()


actorlib.run(main())
