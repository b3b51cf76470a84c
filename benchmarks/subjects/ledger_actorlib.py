"""Decisions of the ledger and its line on a machine of simulated devices.

One machine in each process; its situations come one after another, each from an empty
machine that is filled anew.
"""

import gc
import random
import time
from collections.abc import Iterator, Sequence
from typing import Final

from actorlib._core.kinds import UNITS
from actorlib._core.resources import Resources, request, totals
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import ANYWHERE, DeviceConstraints, make_of
from actorlib._scheduler.wait_queue import WaitQueue
from actorlib.accelerators.base import Device, Lease
from benchmarks.subjects._decisions import (
    SHARES,
    SPREAD,
    Block,
    Load,
    churn,
    rate,
    some_asks,
    up_to,
)
from benchmarks.subjects._report import arguments, report

_GPU: Final = "GPU"
_TYPES: Final = ("A100", "H100", "H200", "B200")
_WAITERS: Final = 1000
_TIMED: Final = 500
"""How many acquires are made between two looks at the clock, at the least."""

_Ask = tuple[Resources, DeviceConstraints]
_Figures = Iterator[tuple[str, float]]


def plain(machine: "_Machine") -> _Figures:
    """Shares of devices that are all alike."""
    asks = machine.drawn(SHARES)
    yield "acquires", _acquires(machine, asks)
    yield "shares", machine.churned(asks)
    yield (
        "spread",
        machine.churned(machine.drawn(SPREAD, DeviceConstraints(spread=True))),
    )


def whole(machine: "_Machine") -> _Figures:
    """Whole devices that are all alike, and a line for them."""
    yield "one", machine.churned(machine.drawn((1.0,)))
    yield "two", machine.churned(machine.drawn((2.0,)))
    yield "line", machine.rate(_queued(machine, [ANYWHERE]))


def typed(machine: "_Machine") -> _Figures:
    """Devices of four models in turn, each asked for by its type."""
    some = machine.devices[: len(_TYPES)]
    wheres = [DeviceConstraints(makes=frozenset({make_of(device)})) for device in some]
    yield "types", machine.churned(machine.drawn((0.25, 0.5, 1.0), *wheres))
    yield "line of types", machine.rate(_queued(machine, wheres))


def linked(machine: "_Machine") -> _Figures:
    """Devices in linked pairs: both of a pair, and near to and apart from an actor."""
    yield "pairs", machine.churned(machine.drawn((1.0, 2.0)))
    machine.empty()
    ledger, half = machine.ledger, request(num_gpus=0.5)
    # One on a device, so that each has room for a neighbour.
    count = -(-len(machine.devices) // 4)
    mates = [
        granted(ledger, (half, DeviceConstraints(spread=True))) for _ in range(count)
    ]
    pick = random.Random(2).choice

    def beside(count: int) -> None:
        for _ in range(count):
            mate = pick(mates).devices(_GPU)
            lease = granted(ledger, (half, DeviceConstraints(near=frozenset(mate))))
            ledger.release(lease)

    def away(asked: Resources) -> Lease | None:
        mate = pick(mates).devices(_GPU)
        return ledger.try_acquire(asked, DeviceConstraints(apart=frozenset(mate)))

    yield "near", machine.rate(beside)
    yield "apart", machine.rate(churn(away, ledger.release, mates, [(half,)]))


class _Machine:
    """A machine of simulated devices.

    Attributes:
        devices: What it has.
        ledger: Who holds what of it.
        held: The leases on it, once it was filled.
        seconds: How long each situation is measured.
    """

    def __init__(self, load: Load) -> None:
        self.devices = tuple(
            Device(
                family="nvidia",
                kind=_GPU,
                index=index,
                id=str(index),
                uuid=f"GPU-{index}",
                type=_TYPES[index % len(_TYPES)] if load.machine == "typed" else None,
                peers=frozenset(
                    {f"GPU-{index ^ 1}"} if load.machine == "linked" else ()
                ),
            )
            for index in range(load.devices)
        )
        self.ledger = self.another()
        self.held: list[Lease] = []
        self.seconds = load.seconds

    def another(self) -> Ledger:
        """An empty ledger of the same devices."""
        capacity = totals(
            num_cpus=1, num_gpus=len(self.devices), memory=None, resources=None
        )
        return Ledger(capacity, {_GPU: self.devices})

    def drawn(self, amounts: Sequence[float], *wheres: DeviceConstraints) -> list[_Ask]:
        """Requests for random ones of the amounts, with each of the wishes in turn."""
        kinds: list[dict[float, _Ask]] = [
            {amount: (request(num_gpus=amount), where) for amount in amounts}
            for where in wheres or (ANYWHERE,)
        ]
        some = some_asks(amounts, len(self.devices))
        return [kinds[turn % len(kinds)][amount] for turn, amount in enumerate(some)]

    def half(self, asks: Sequence[_Ask]) -> Sequence[_Ask]:
        """The first of these, as many as half of the machine has room for."""
        amounts = [ask[0].amounts[_GPU] / UNITS for ask in asks]
        return asks[: len(up_to(len(self.devices) / 2, amounts))]

    def churned(self, asks: Sequence[_Ask]) -> float:
        """Decisions a second, with the machine filled to its half anew."""
        self.empty()
        ledger = self.ledger
        self.held += [granted(ledger, ask) for ask in self.half(asks)]
        return self.rate(churn(ledger.try_acquire, ledger.release, self.held, asks))

    def rate(self, block: Block) -> float:
        """Decisions a second."""
        return rate(block, self.seconds)

    def empty(self) -> None:
        """Takes all leases back."""
        while self.held:
            self.ledger.release(self.held.pop())


def granted(ledger: Ledger, ask: _Ask) -> Lease:
    """A lease, where there has to be room."""
    lease = ledger.try_acquire(*ask)
    if lease is None:
        raise RuntimeError(f"no room for {ask}: {ledger!r}")
    return lease


def _acquires(machine: _Machine, drawn: Sequence[_Ask]) -> float:
    """Acquires a second from empty to half full; releases are not counted."""
    asks = machine.half(drawn)
    ledgers = [machine.ledger]
    while len(ledgers) * len(asks) < _TIMED:
        ledgers.append(machine.another())

    made, spent = 0, 0.0
    while spent < machine.seconds:
        gc.collect()
        begun = time.process_time()
        held = [[granted(ledger, ask) for ask in asks] for ledger in ledgers]
        spent += time.process_time() - begun
        made += len(ledgers) * len(asks)
        for ledger, leases in zip(ledgers, held, strict=True):
            for lease in leases:
                ledger.release(lease)
    return made / spent


def _queued(machine: _Machine, wheres: Sequence[DeviceConstraints]) -> Block:
    """Releases on a full machine: each serves one, and one more waits."""
    machine.empty()
    ledger = machine.ledger
    one, line = request(num_gpus=1), WaitQueue(ledger)
    held: dict[DeviceConstraints, list[Lease]] = {where: [] for where in wheres}
    for where in wheres:
        while (lease := ledger.try_acquire(one, where)) is not None:
            held[where].append(lease)
    for turn in range(_WAITERS):
        line.join("waiter", one, wheres[turn % len(wheres)])
    chance = random.Random(1)

    def block(count: int) -> None:
        for _ in range(count):
            leases = held[chance.choice(wheres)]
            place = chance.randrange(len(leases))
            ledger.release(leases[place])
            ((waiter, leases[place]),) = line.serve()
            if line.pass_by(one, waiter.where) is not None:
                raise RuntimeError("a newcomer passed those who wait")
            line.join("waiter", one, waiter.where)

    return block


def _measured(load: Load) -> dict[str, float]:
    machine = _Machine(load)
    figures = dict(_MACHINES[load.machine](machine))
    machine.ledger.check()
    return figures


_MACHINES: Final = {each.__name__: each for each in (plain, whole, typed, linked)}


if __name__ == "__main__":
    report(_measured(Load(**arguments())))
