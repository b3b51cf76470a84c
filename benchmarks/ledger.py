"""Measures the placement decisions per second of one core, for 10 to 100,000 devices.

One decision is one request answered and one lease given back; on a full machine, one
lease given back, one waiter served, and one newcomer sent to the end of the line. The
devices are simulated: a decision touches none.

Run it with ``python -m benchmarks.ledger``.
"""

import gc
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Final

from actorlib._options.kinds import UNITS
from actorlib._options.resources import Resources, request, totals
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import (
    ANYWHERE,
    DeviceConstraints,
    LeaseRequest,
    model_of,
)
from actorlib._scheduler.wait_queue import WaitQueue
from actorlib.accelerators.base import Device, Lease
from benchmarks._cases import (
    FLOOR,
    OURS,
    SCAN,
    Case,
    Curve,
    Job,
    Plan,
    Scale,
    Target,
    Unit,
)
from benchmarks._decisions import (
    SHARES,
    SPREAD,
    Block,
    Load,
    churn,
    rate,
    some_asks,
    up_to,
)
from benchmarks._subject import Figures, main

_RATE = Unit(name="decisions/s", more_is_better=True)
_SIZES = (10, 100, 1_000, 10_000, 100_000)
_QUICK = (10, 1_000, 10_000)

_SMALLEST: Final = "10 devices"
"""actorlib on the smallest machine, for comparison only."""

_FLAT: Final = Target(bound=0.5, against=_SMALLEST)
"""A lease of a large machine is seldom in a cache of the CPU, and a heap is deeper: the
floor loses about half of its rate to that alone."""

_FAST: Final = Target(bound=100_000)


_BOTH: Final = (FLOOR, SCAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Situation:
    """One kind of decision.

    Attributes:
        title: What is decided.
        machine: Which machine of the subject it is measured on.
        figure: What the subject calls it.
        beside: Who is measured with it.
        targets: What the largest machine is to reach.
    """

    title: str
    machine: str
    figure: str
    beside: tuple[str, ...] = (FLOOR,)
    targets: tuple[Target, ...] = (_FLAT,)


_SHARES = _Situation(
    title="0.1 to 2 devices, packed",
    machine="plain",
    figure="shares",
    beside=_BOTH,
    targets=(_FAST, _FLAT),
)
_SITUATIONS = (
    _SHARES,
    _Situation(
        title="the same, acquires alone: empty to half full",
        machine="plain",
        figure="acquires",
        beside=(),  # the others have only acquired and released
    ),
    _Situation(
        title="shares of 0.25 to 0.75, spread",
        machine="plain",
        figure="spread",
        beside=_BOTH,
    ),
    _Situation(title="one whole", machine="whole", figure="one", beside=_BOTH),
    _Situation(title="two whole", machine="whole", figure="two", beside=_BOTH),
    _Situation(
        title="shares by type, of four models",
        machine="typed",
        figure="types",
        beside=_BOTH,
    ),
    _Situation(
        title="one or two whole, linked in pairs", machine="linked", figure="pairs"
    ),
    _Situation(title="halves near to an actor", machine="linked", figure="near"),
    _Situation(title="halves apart from an actor", machine="linked", figure="apart"),
    _Situation(
        title="line of 1,000, a release serves one", machine="whole", figure="line"
    ),
    _Situation(
        title="the same, for four types", machine="typed", figure="line of types"
    ),
)

_NOTES = (
    f"{_SMALLEST!r} is actorlib on the smallest machine. CPU seconds.",
    "A decision is an acquire and a release of a random lease, on a machine that stays "
    "half full. In the queue rows it is a release, a grant to the first of 1,000 "
    "waiting requests and a new request behind them, on a full machine. Options are "
    "resolved before, but near and apart name the devices of a random actor each time.",
    "floor: heappush, heappop, two writes to a dict and the random choice of the "
    "released lease, inline. list scan: a list of free amounts, searched for the best "
    "fit.",
    "The garbage collector is on, as it is for users. A full collection right before "
    "each measurement gives equal starting counts. A steady state creates no garbage, "
    "while the cost of acquires alone includes scans of the growing number of leases.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    sizes = _QUICK if scale.is_quick else _SIZES
    cases = {
        situation: [_case(situation, size, sizes) for size in sizes]
        for situation in _SITUATIONS
    }
    return Plan(
        name="ledger",
        question="Placement decisions a second on one core",
        notes=_NOTES,
        jobs=list(_jobs(sizes, 0.05 if scale.is_quick else 0.5)),
        cases=[case for each in cases.values() for case in each],
        curves=[
            Curve(
                title=_SHARES.title,
                across="devices",
                unit=_RATE,
                lines={
                    column: _line(sizes, cases[_SHARES], column)
                    for column in (OURS, FLOOR, SCAN)
                },
            ),
            Curve(
                title=f"{OURS}, every kind of decision",
                across="devices",
                unit=_RATE,
                lines={
                    situation.title: _line(sizes, cases[situation], OURS)
                    for situation in _SITUATIONS
                },
            ),
        ],
    )


def _jobs(sizes: Sequence[int], seconds: float) -> Iterator[Job]:
    machines = dict.fromkeys(situation.machine for situation in _SITUATIONS)
    subjects = (
        *((f"{OURS} {machine}", "ledger.actorlib", machine) for machine in machines),
        (FLOOR, "ledger.floor", ""),
        (SCAN, "ledger.scan", ""),
    )
    # The sizes of one subject are neighbours: it is they that are compared.
    for name, subject, machine in subjects:
        for size in sizes:
            yield Job(
                name=f"{name} {size}",
                subject=subject,
                arguments={"devices": size, "seconds": seconds, "machine": machine},
            )


def _case(situation: _Situation, size: int, sizes: Sequence[int]) -> Case:
    ours, figure = f"{OURS} {situation.machine}", situation.figure
    cells = {OURS: f"{ours} {size}/{figure}"}
    if size > sizes[0]:
        cells[_SMALLEST] = f"{ours} {sizes[0]}/{figure}"
    if FLOOR in situation.beside:
        cells[FLOOR] = f"{FLOOR} {size}/rate"
    if SCAN in situation.beside:
        cells[SCAN] = f"{SCAN} {size}/{figure}"
    return Case(
        section=situation.title,
        title=f"{size:,} devices",
        unit=_RATE,
        cells=cells,
        targets=situation.targets if size == sizes[-1] else (),
    )


def _line(
    sizes: Sequence[int], cases: Sequence[Case], column: str
) -> Mapping[int, str]:
    return {size: case.cells[column] for size, case in zip(sizes, cases, strict=True)}


_GPU: Final = "GPU"
_TYPES: Final = ("A100", "H100", "H200", "B200")
_WAITERS: Final = 1000
_TIMED: Final = 500
"""The minimum number of acquires between two readings of the clock."""

_Ask = tuple[Resources, DeviceConstraints]
_Situations = Iterator[tuple[str, float]]


def plain(machine: "_Machine") -> _Situations:
    """Shares of devices that are all alike."""
    asks = machine.drawn(SHARES)
    yield "acquires", _acquires(machine, asks)
    yield "shares", machine.churned(asks)
    yield (
        "spread",
        machine.churned(machine.drawn(SPREAD, DeviceConstraints(spread=True))),
    )


def whole(machine: "_Machine") -> _Situations:
    """Whole devices that are all alike, and a line for them."""
    yield "one", machine.churned(machine.drawn((1.0,)))
    yield "two", machine.churned(machine.drawn((2.0,)))
    yield "line", machine.rate(_queued(machine, [ANYWHERE]))


def typed(machine: "_Machine") -> _Situations:
    """Devices of four models in turn, each asked for by its type."""
    some = machine.devices[: len(_TYPES)]
    constraints_list = [
        DeviceConstraints(models=frozenset({model_of(device)})) for device in some
    ]
    yield "types", machine.churned(machine.drawn((0.25, 0.5, 1.0), *constraints_list))
    yield "line of types", machine.rate(_queued(machine, constraints_list))


def linked(machine: "_Machine") -> _Situations:
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

    def drawn(
        self, amounts: Sequence[float], *constraints_list: DeviceConstraints
    ) -> list[_Ask]:
        """Requests for random ones of the amounts, with each of the wishes in turn."""
        kinds: list[dict[float, _Ask]] = [
            {amount: (request(num_gpus=amount), constraints) for amount in amounts}
            for constraints in constraints_list or (ANYWHERE,)
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


def _queued(machine: _Machine, constraints_list: Sequence[DeviceConstraints]) -> Block:
    """Releases on a full machine: each serves one, and one more waits."""
    machine.empty()
    ledger = machine.ledger
    one, line = request(num_gpus=1), WaitQueue(ledger)
    held: dict[DeviceConstraints, list[Lease]] = {
        constraints: [] for constraints in constraints_list
    }
    for constraints in constraints_list:
        while (lease := ledger.try_acquire(one, constraints)) is not None:
            held[constraints].append(lease)
    for turn in range(_WAITERS):
        constraints = constraints_list[turn % len(constraints_list)]
        line.enqueue(LeaseRequest("waiter", one, constraints))
    chance = random.Random(1)

    def block(count: int) -> None:
        for _ in range(count):
            leases = held[chance.choice(constraints_list)]
            place = chance.randrange(len(leases))
            ledger.release(leases[place])
            ((waiter, leases[place]),) = line.serve()
            if line.try_at_once(waiter.request) is not None:
                raise RuntimeError("a newcomer passed those who wait")
            line.enqueue(waiter.request)

    return block


def measure_actorlib(**told: Any) -> Figures:
    """Decisions of the ledger and its line on a machine of simulated devices.

    One machine in each process; its situations come one after another, each from an
    empty machine that is filled anew.
    """
    load = Load(**told)
    return dict(_MACHINES[load.machine](_Machine(load)))


_MACHINES: Final = {each.__name__: each for each in (plain, whole, typed, linked)}


def _pushes_and_pops(devices: int) -> Block:
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


def measure_floor(**told: Any) -> Figures:
    """The floor of decisions: what a choice in constant time costs at the least.

    A heap of the devices that are free and a dict of those that are held: one push and
    one pop, and two writes to the dict. It grants whole devices and nothing else.
    """
    load = Load(**told)
    return {"rate": rate(_pushes_and_pops(load.devices), load.seconds)}


_WHOLE = 10_000
_MODELS = 4

_Taken = tuple[list[int], int]
"""The devices of a lease, and the amount of each."""


class _Scan:
    """A ledger of devices; the type of each is its index modulo the types."""

    def __init__(self, devices: int) -> None:
        self._free = [_WHOLE] * devices

    def fill(self, asks: Sequence[int], *, spread: bool) -> Iterator[_Taken]:
        """Grants without choosing: to each what it asks, device after device."""
        place = 0
        for units in asks:
            each = min(units, _WHOLE)
            found: list[int] = []
            while len(found) < max(1, units // _WHOLE):
                if self._free[place] < each:
                    place += 1
                self._free[place] -= each
                found.append(place)
                place = (place + spread) % len(self._free)
            yield found, each

    def pack(self, units: int) -> _Taken | None:
        """The device with the least that is enough; several whole ones, the first."""
        free = self._free
        if units > _WHOLE:
            whole = [index for index, level in enumerate(free) if level == _WHOLE]
            return self._take(whole[: units // _WHOLE], units)
        best = -1
        for index, level in enumerate(free):
            if level >= units and (best < 0 or level < free[best]):
                best = index
        return self._take([best] if best >= 0 else [], units)

    def spread(self, units: int) -> _Taken | None:
        """The device with the most."""
        free = self._free
        best = max(range(len(free)), key=free.__getitem__)
        return self._take([best] if free[best] >= units else [], units)

    def of_type(self, units: int, kind: int) -> _Taken | None:
        """The device of a type with the least that is enough."""
        free, best = self._free, -1
        for index, level in enumerate(free):
            if level < units or index % _MODELS != kind:
                continue
            if best < 0 or level < free[best]:
                best = index
        return self._take([best] if best >= 0 else [], units)

    def release(self, lease: _Taken) -> None:
        """Takes a lease back."""
        for index in lease[0]:
            self._free[index] += lease[1]

    def _take(self, found: list[int], units: int) -> _Taken | None:
        if len(found) < max(1, units // _WHOLE):
            return None
        each = min(units, _WHOLE)
        for index in found:
            self._free[index] -= each
        return found, each


def measure_scan(**told: Any) -> Figures:
    """What one writes first: a list of what each device has free, scanned for the best.

    It packs and spreads, gives whole devices and chooses by type. Its machine is filled
    device after device and not by its own decisions, which would take minutes; a scan
    takes as long whatever it finds.
    """
    load = Load(**told)
    situations: dict[str, tuple[str, Sequence[float]]] = {
        "shares": ("pack", SHARES),
        "one": ("pack", (1.0,)),
        "two": ("pack", (2.0,)),
        "spread": ("spread", SPREAD),
        "types": ("of_type", (0.25, 0.5, 1.0)),
    }
    metrics: Figures = {}
    for name, (method, amounts) in situations.items():
        scan = _Scan(load.devices)
        asks = some_asks(amounts, load.devices)
        first = [round(ask * _WHOLE) for ask in up_to(load.devices / 2, asks)]
        held = list(scan.fill(first, spread=method == "spread"))
        turns = [
            (round(ask * _WHOLE), *((turn % _MODELS,) if method == "of_type" else ()))
            for turn, ask in enumerate(asks)
        ]
        block = churn(getattr(scan, method), scan.release, held, turns)
        metrics[name] = rate(block, load.seconds)
    return metrics


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
    "floor": measure_floor,
    "scan": measure_scan,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
