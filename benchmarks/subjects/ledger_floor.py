"""The floor of decisions: what a choice in constant time costs Python at the least.

A heap of the devices that are free and a dict of those that are held: one push and one
pop, and two writes to the dict. It grants whole devices and nothing else.
"""

import random
from heapq import heappop, heappush

from benchmarks.subjects._decisions import Block, Load, rate
from benchmarks.subjects._report import arguments, report


def _decisions(devices: int) -> Block:
    half = devices // 2
    held, free = list(range(half)), list(range(half, devices))
    leases = dict.fromkeys(held, 1)
    chance = random.Random(1)
    chance.shuffle(held)
    pick = chance.random

    def block(count: int) -> None:
        for _ in range(count):
            index = heappop(free)
            leases[index] = 1
            held.append(index)
            place = int(pick() * len(held))
            held[place], held[-1] = held[-1], held[place]
            index = held.pop()
            del leases[index]
            heappush(free, index)

    return block


def _measured(load: Load) -> dict[str, float]:
    return {"rate": rate(_decisions(load.devices), load.seconds)}


if __name__ == "__main__":
    report(_measured(Load(**arguments())))
