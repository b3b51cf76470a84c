"""Generators of actors: their items arrive one by one, while the method still runs."""

from collections.abc import AsyncIterator, Iterator

import actorlib
from actorlib import ActorHandle, typed


class Reader:
    """A plain generator; it is never far ahead of whoever takes its items."""

    def __init__(self) -> None:
        self._read = 0

    @actorlib.method(backpressure=2)
    def lines(self, count: int) -> Iterator[str]:
        """Reads lines, for as long as somebody wants more."""
        for number in range(count):
            self._read += 1
            yield f"line {number}"

    @actorlib.method
    def read(self) -> int:
        """How many lines were read: answered also while a generator waits."""
        return self._read


class Loud:
    """An async generator that reads another actor's."""

    @actorlib.method
    async def lines(
        self, reader: ActorHandle[Reader], count: int
    ) -> AsyncIterator[str]:
        """Passes lines on."""
        async for line in typed(reader).lines.remote(count):
            yield (await line).upper()


async def main() -> None:
    """Three lines through two actors, and two of a million."""
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
