"""Functions that wait: a hundred calls at once in one process, and one GPU for all."""

import asyncio
import os
from collections.abc import AsyncIterator

import actorlib


@actorlib.remote
async def fetch(number: int) -> tuple[int, int]:
    """Waits like a request to a network; holds no CPU."""
    await asyncio.sleep(0.1)
    return number, os.getpid()


@actorlib.remote(num_gpus=0.5, max_concurrency=8)
async def embed(text: str) -> tuple[str, list[int | str]]:
    """Shares half a GPU with seven other calls in the same process."""
    await asyncio.sleep(0.01)
    return text.upper(), actorlib.get_gpu_ids()


@actorlib.remote
async def lines(count: int) -> AsyncIterator[str]:
    """Yields as the data arrives."""
    for number in range(count):
        await asyncio.sleep(0)
        yield f"line {number}"


async def main() -> None:
    """Calls each function many times."""
    async with actorlib.init(num_cpus=2, num_gpus=1):
        results = await asyncio.gather(*map(fetch.remote, range(100)))
        numbers, processes = zip(*results, strict=True)
        print(sum(numbers), "in", len(set(processes)), "process")
        print(await asyncio.gather(*map(embed.remote, "abc")))
        print([line async for line in lines.remote(3).values()])
        print(sum([number async for number, _ in fetch.map(range(10))]))


if __name__ == "__main__":
    actorlib.run(main())
