"""The same program on one machine and on a cluster: the environment decides.

python examples/on_a_cluster.py
ACTORLIB_ENGINE=ray python examples/on_a_cluster.py
ACTORLIB_ENGINE=ray ACTORLIB_ADDRESS=10.0.0.5:6379 python examples/on_a_cluster.py

From a machine outside the cluster, ACTORLIB_ADDRESS=ray://10.0.0.5:10001.
"""

import asyncio

import actorlib


@actorlib.remote(num_cpus=1, max_restarts=1)
class Counter:
    """Counts primes."""

    def count(self, low: int, high: int) -> int:
        """Returns the number of primes from ``low`` up to, not including, ``high``."""
        return sum(
            all(number % divisor for divisor in range(2, int(number**0.5) + 1))
            for number in range(max(low, 2), high)
        )


async def main() -> None:
    """Distributes parts of the range over two counters, and adds their results."""
    async with actorlib.init():
        counters = [Counter.remote() for _ in range(2)]
        parts = [(low, low + 2_500) for low in range(0, 20_000, 2_500)]
        counts = [
            counters[turn % 2].count.remote(low, high)
            for turn, (low, high) in enumerate(parts)
        ]
        print(sum(await asyncio.gather(*counts)), "primes below 20000")


actorlib.run(main())
