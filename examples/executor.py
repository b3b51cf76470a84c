"""Code written for concurrent.futures runs on actorlib, in a loop and in scripts."""

import asyncio
from concurrent.futures import as_completed

import actorlib


def area(width: int, height: int) -> int:
    """A plain function; it needs no decorator."""
    return width * height


def main() -> None:
    """Uses an executor as a script does; it starts a runtime."""
    with actorlib.Executor(num_cpus=1, max_workers=2) as executor:
        print(list(executor.map(area, range(5), range(5))))
        futures = [executor.submit(area, 2, number) for number in range(5)]
        print(sorted(future.result() for future in as_completed(futures)))


async def serve() -> None:
    """Uses one where a library takes an executor, within a runtime of a program."""
    async with actorlib.init(num_cpus=2), actorlib.Executor(num_cpus=1) as executor:
        loop = asyncio.get_running_loop()
        print(await loop.run_in_executor(executor, area, 6, 7))


if __name__ == "__main__":
    actorlib.run(serve())
    main()
