"""A pool: four workers share out a range, and their answers come back in order."""

import os

import actorlib


@actorlib.remote(num_cpus=1)
class Worker:
    """Counts primes on a CPU of its own."""

    def count(self, start: int, stop: int) -> int:
        """How many primes there are from start up to stop."""
        return sum(
            all(number % divisor for divisor in range(2, int(number**0.5) + 1))
            for number in range(max(start, 2), stop)
        )

    def where(self) -> tuple[int, str]:
        """This worker's process, and the threads that its libraries may start."""
        return os.getpid(), os.environ["OMP_NUM_THREADS"]


async def main() -> None:
    """Cuts the range into pieces; whoever is free counts the next one."""
    async with actorlib.init(num_cpus=4):
        workers = [Worker.remote() for _ in range(4)]
        pool = actorlib.ActorPool(workers)
        total = 0
        async for found in pool.map(
            lambda worker, start: worker.count.remote(start, start + 5_000),
            range(0, 100_000, 5_000),
        ):
            total += found

        refs = [worker.where.remote() for worker in workers]
        places = [place async for place in actorlib.as_completed(refs)]
    processes = {pid for pid, _ in places}
    threads = {limit for _, limit in places}
    print(f"{total} primes below 100000, counted by {len(processes)} processes")
    print(f"each with OMP_NUM_THREADS={threads.pop()}")


actorlib.run(main())
