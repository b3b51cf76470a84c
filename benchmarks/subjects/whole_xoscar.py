"""A whole program: start, one actor, one answer, a clean end."""

import uvloop
import xoscar

from benchmarks.subjects._xoscar import placed, pool_of


class Echo(xoscar.StatelessActor):
    """An actor that gives back what it gets."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


async def _main() -> None:
    async with pool_of(1) as address:
        assert await (await placed(Echo, address)).echo(1) == 1


if __name__ == "__main__":
    uvloop.run(_main())
