"""A pool: four actors count primes in parts of a range; results arrive in order."""

import os

import actorlib


@actorlib.remote(num_cpus=1)
class Worker:
    """Counts primes on its own CPU."""

    def count(self, start: int, stop: int) -> int:
        """Returns the number of primes from start up to, not including, stop."""
        return sum(
            all(number % divisor for divisor in range(2, int(number**0.5) + 1))
            for number in range(max(start, 2), stop)
        )

    def where(self) -> tuple[int, str]:
        """Returns the process id and the number of threads that libraries may start."""
        return os.getpid(), os.environ["OMP_NUM_THREADS"]


async def main() -> None:
    """Gives each part of the range to the next free actor."""
    async with actorlib.init(num_cpus=4):
        workers = [Worker.remote() for _ in range(4)]
        pool = actorlib.ActorPool(workers)
        total = 0
        async for count in pool.map(
            lambda worker, start: worker.count.remote(start, start + 5_000),
            range(0, 100_000, 5_000),
        ):
            total += count

        refs = [worker.where.remote() for worker in workers]
        places = [place async for place in actorlib.as_completed(refs)]
    processes = {pid for pid, _ in places}
    threads = {limit for _, limit in places}
    print(f"{total} primes below 100000, counted by {len(processes)} processes")
    print(f"each with OMP_NUM_THREADS={threads.pop()}")


actorlib.run(main())
