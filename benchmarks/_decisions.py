"""Repeats decisions of a ledger on a machine that stays equally full.

One decision is one request answered and one lease given back. Times are those of the
processor, not of the wall: a decision is pure computation, and who else wants the core
is not the question.

The garbage collector is on, as users have it on. It collects once right before each
measurement, so that it starts from the same counts every time; in a steady state as
many objects go as come, and it seldom has a reason to run again.
"""

import gc
import random
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Final, NamedTuple, TypeVar

LeaseT = TypeVar("LeaseT")

ASKS: Final = 10_007
"""The number of requests before they repeat."""

SHARES: Final = (0.1, 0.25, 0.5, 1.0, 2.0)
"""The requests for packed shares, in devices."""

SPREAD: Final = (0.25, 0.5, 0.75)
"""The requests for spread shares, after which no two whole devices are free."""

Block = Callable[[int], None]
"""Makes that many decisions."""

_BLOCK = 0.0005
"""Seconds between two readings of the clock, which take a thousandth of that."""


class Load(NamedTuple):
    """What a subject is told.

    Attributes:
        devices: How many the machine has.
        seconds: How long each of its situations is measured.
        machine: Which machine, in the words of the subject.
    """

    devices: int
    seconds: float
    machine: str = ""


def some_asks(amounts: Sequence[float], devices: int) -> list[float]:
    """Amounts in random order, the same ones every time; enough to fill half of it."""
    return random.Random(0).choices(amounts, k=max(ASKS, devices * 5 // 4))


def up_to(limit: float, asks: Sequence[float]) -> list[float]:
    """The first of these amounts, as many as there is room for."""
    taken: list[float] = []
    for ask in asks:
        limit -= ask
        if limit < 0:
            break
        taken.append(ask)
    return taken or [min(asks)]


def churn(
    acquire: Callable[..., LeaseT | None],
    release: Callable[[LeaseT], None],
    held: list[LeaseT],
    asks: Sequence[tuple[object, ...]],
) -> Block:
    """Decisions that each acquire, then release a random one of the leases held.

    Args:
        acquire: Called with one of the asks; None if there is no room.
        release: Takes a lease back.
        held: The leases on the machine, as many afterwards; shuffled.
        asks: What is asked for, in turn and over again.
    """
    chance = random.Random(1)
    chance.shuffle(held)
    pick, endless, keep = chance.random, cycle(asks[:ASKS]), len(held)

    def block(count: int) -> None:
        for ask in islice(endless, count):
            lease = acquire(*ask)
            if lease is not None:
                held.append(lease)
            if lease is None or len(held) > keep:
                place = int(pick() * len(held))
                held[place], held[-1] = held[-1], held[place]
                release(held.pop())

    return block


def rate(block: Block, seconds: float) -> float:
    """Decisions a second, once the interpreter has warmed to them."""
    clock, count = time.process_time, 1
    warm = (begun := clock()) + seconds / 5
    while (now := clock()) < warm:
        if now - begun < _BLOCK:
            count *= 2
        begun = clock()
        block(count)
    gc.collect()
    made, begun = 0, clock()
    while (spent := clock() - begun) < seconds:
        block(count)
        made += count
    return made / spent
