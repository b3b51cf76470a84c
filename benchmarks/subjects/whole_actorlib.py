"""A whole program: start, one actor, one answer, a clean end."""

import actorlib


@actorlib.remote(num_gpus=0.01)
class Echo:
    """An actor that gives back what it gets."""

    def echo(self, value: int) -> int:
        """The value."""
        return value


async def _main() -> None:
    async with actorlib.init(num_gpus=8):
        assert await Echo.remote().echo.remote(1) == 1


actorlib.run(_main())
