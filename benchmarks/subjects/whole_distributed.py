"""A whole program: start, one actor, one answer, a clean end."""

import asyncio

from benchmarks.subjects._distributed import client_of


class Echo:
    """An actor that gives back what it gets."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


async def _main() -> None:
    async with client_of(1) as client:
        assert await (await client.submit(Echo, actor=True)).echo(1) == 1


if __name__ == "__main__":
    asyncio.run(_main())
