"""Streams: the items of a generator arrive one by one, while the method still runs."""

from collections.abc import AsyncIterator, Iterator

import actorlib
from actorlib import ActorHandle, typed


class Reader:
    """Has a plain generator, which runs at most two items ahead of its reader."""

    def __init__(self) -> None:
        self._read = 0

    @actorlib.method(backpressure=2)
    def lines(self, count: int) -> Iterator[str]:
        """Yields lines until the reader stops."""
        for number in range(count):
            self._read += 1
            yield f"line {number}"

    @actorlib.method
    def read(self) -> int:
        """Returns the number of lines so far, even while the generator waits."""
        return self._read


class Loud:
    """Has an async generator that reads the stream of another actor."""

    @actorlib.method
    async def lines(
        self, reader: ActorHandle[Reader], count: int
    ) -> AsyncIterator[str]:
        """Yields the lines in upper case."""
        async for line in typed(reader).lines.remote(count):
            yield (await line).upper()


async def main() -> None:
    """Reads three lines through two actors, then two of a million lines."""
    async with actorlib.init():
        reader = actorlib.remote(Reader).remote()
        loud = actorlib.remote(Loud).remote()
        async for line in typed(loud).lines.remote(reader, 3):
            print(await line)
        lines = typed(reader).lines.remote(1_000_000)
        print(await (await anext(lines)), await (await anext(lines)))
        await lines.aclose()
        print(await typed(reader).read.remote() < 20)


actorlib.run(main())
