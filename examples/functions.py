"""Functions in other processes: on a share of a GPU, for each other, or again."""

import asyncio
import os
import time
from pathlib import Path
from tempfile import NamedTemporaryFile

import actorlib


@actorlib.remote
def square(number: int) -> int:
    """One CPU while it runs; processes are used again."""
    return number * number


@actorlib.remote
def total(count: int) -> int:
    """Waits for others, and lends them its CPU meanwhile."""
    return sum(actorlib.get([square.remote(number) for number in range(count)]))


@actorlib.remote(num_gpus=0.5)
def embed(text: str) -> tuple[str, list[int | str]]:
    """Half a GPU; the process ends behind it, and with it all it left on the GPU."""
    return text.upper(), actorlib.get_gpu_ids()


@actorlib.remote(max_retries=5)
def flaky(path: str) -> int:
    """Its process dies twice, and it is called again."""
    with Path(path).open("a") as file:
        file.write("x")
    tries = Path(path).stat().st_size
    if tries < 3:
        os.abort()
    return tries


async def main(path: str) -> None:
    """Calls each of them."""
    async with actorlib.init(num_cpus=2, num_gpus=1):
        print(await asyncio.gather(*map(square.remote, range(5))))
        print(await total.remote(100))
        print(await asyncio.gather(embed.remote("a"), embed.remote("b")))
        print(await flaky.remote(path))
        ref = actorlib.remote(lambda: time.sleep(60)).remote()
        actorlib.cancel(ref)
        print(ref.cancelled())


if __name__ == "__main__":
    with NamedTemporaryFile() as file:
        actorlib.run(main(file.name))
