"""Functions in worker processes: with a share of a GPU, nested, and with retries."""

import asyncio
import os
import time
from pathlib import Path
from tempfile import NamedTemporaryFile

import actorlib


@actorlib.remote
def square(number: int) -> int:
    """Holds one CPU while it runs. Its process is reused."""
    return number * number


@actorlib.remote
def total(count: int) -> int:
    """Waits for other calls, which get its CPU meanwhile."""
    return sum(actorlib.get([square.remote(number) for number in range(count)]))


@actorlib.remote(num_gpus=0.5)
def embed(text: str) -> tuple[str, list[int | str]]:
    """Holds half a GPU. Its process ends after the call, which frees the GPU memory."""
    return text.upper(), actorlib.get_gpu_ids()


@actorlib.remote(max_retries=5)
def flaky(path: str) -> int:
    """Crashes at the first two attempts; the call is repeated."""
    with Path(path).open("a") as file:
        file.write("x")
    attempts = Path(path).stat().st_size
    if attempts < 3:
        os.abort()
    return attempts


async def main(path: str) -> None:
    """Calls each function, and cancels one call."""
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
