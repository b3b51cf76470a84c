"""A queue between actors: the reader is at most three lines ahead."""

import asyncio
from collections.abc import Iterable

import actorlib


@actorlib.remote
class Reader:
    """Puts lines into a queue, from a plain method."""

    def read(self, lines: "actorlib.Queue[str | None]", texts: Iterable[str]) -> int:
        """Waits while the queue is full, and returns the number of lines."""
        number = 0
        for text in texts:
            lines.put(text).get()  # a plain method blocks with get()
            number += 1
        return number


@actorlib.remote
class Counter:
    """Takes lines from a queue, from an ``async def`` method."""

    async def words(self, lines: "actorlib.Queue[str | None]") -> int:
        """Returns the number of words in all lines until the end."""
        total = 0
        while (line := await lines.get()) is not None:
            total += len(line.split())
        return total


async def main() -> None:
    """Runs one reader and two counters with a queue between them."""
    texts = [f"line {number} of a text" for number in range(100)]
    async with actorlib.init():
        lines: actorlib.Queue[str | None] = actorlib.Queue(maxsize=3)
        reader, counters = Reader.remote(), [Counter.remote() for _ in range(2)]
        counts = [counter.words.remote(lines) for counter in counters]
        count = await reader.read.remote(lines, texts)
        for _ in counters:
            await lines.put(None)
        words = sum(await asyncio.gather(*counts))
        print(f"{count} lines, {words} words, {await lines.qsize()} left")
        await lines.shutdown()


actorlib.run(main())
