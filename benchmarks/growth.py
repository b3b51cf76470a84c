"""Measures how each step of the owner's bookkeeping grows, up to a million entries.

Run it with ``python -m benchmarks.growth``.
"""

import gc
import math
import random
import statistics
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final

from actorlib._base.deadlines import Deadlines
from actorlib._base.ids import ActorId
from actorlib._options.actor_options import ActorOptions
from actorlib._options.interface import interface_of
from actorlib._options.kinds import UNITS
from actorlib._options.resources import request, totals
from actorlib._owner.actors.actor_record import ActorRecord, RuntimeIds
from actorlib._owner.actors.names import ActorNames
from actorlib._owner.calls.mailbox import Mailbox
from actorlib._owner.objects.refcount import OWNER, RefCount
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import LeaseRequest
from actorlib._scheduler.wait_queue import WaitQueue
from actorlib.accelerators.base import Device
from benchmarks._cases import OURS, Case, Curve, Job, Plan, Scale, Target, Unit
from benchmarks._decisions import Block, churn, rate
from benchmarks._subject import Figures, main

_TIME: Final = Unit(name="us", scale=1e6)
_EXPONENT: Final = Unit(name="", scale=1.0)
_SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)

_STEPS: Final = {
    "actors": "a share of a device granted and returned, among that many leases",
    "devices": "the same, on that many devices",
    "waiting": "one of that many waiting requests granted, and a new one",
    "records": "an actor recorded, named, referenced, found and deleted",
    "calls": "a call sent and one answered, with that many unanswered",
    "deadlines": "a deadline set and one removed",
}

_NOTES = (
    "A step among n of its kind takes n to the power of the exponent, times a "
    "constant: 0 means no growth, 1 proportional growth. It is the slope of the "
    "best-fitting line on logarithmic scales. CPU seconds, one core.",
    "The remaining growth is mostly due to CPU caches, which cannot hold a dictionary "
    "of a million entries.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    cases: list[Case] = []
    for kind, step in _STEPS.items():
        sizes = _sizes(kind, scale)
        figures = {f"{size:,} {kind}": str(size) for size in (sizes[0], sizes[-1])}
        cases += [
            Case(section=step, title=title, unit=_TIME, cells={OURS: f"{kind}/{name}"})
            for title, name in figures.items()
        ]
        cases.append(
            Case(
                section=step,
                title="exponent",
                unit=_EXPONENT,
                cells={OURS: f"{kind}/exponent"},
                targets=(Target(bound=0.3),),
            )
        )
    return Plan(
        name="growth",
        question="How costs grow",
        notes=_NOTES,
        jobs=[
            Job(
                name=kind,
                subject="growth.actorlib",
                arguments={
                    "kind": kind,
                    "counts": _sizes(kind, scale),
                    "seconds": 0.1 if scale.is_quick else 0.5,
                },
            )
            for kind in _STEPS
        ],
        cases=cases,
        curves=[
            Curve(
                title="one step",
                across="actors, devices, calls",
                unit=_TIME,
                lines={
                    kind: {size: f"{kind}/{size}" for size in _sizes(kind, scale)}
                    for kind in _STEPS
                },
            )
        ],
    )


def _sizes(kind: str, scale: Scale) -> tuple[int, ...]:
    is_short = scale.is_quick or kind == "devices"
    return _SIZES[:-1] if is_short else _SIZES


_GPU: Final = "GPU"
_TO_A_DEVICE: Final = 10
"""Actors on one device: a tenth of it each."""


class _Actor:
    """What every actor here is of."""


def actors(count: int) -> Block:
    """Leases: one more of a tenth of a device, and a random one is given back."""
    ledger = _machine(count // _TO_A_DEVICE + 1)
    tenth = request(num_gpus=1 / _TO_A_DEVICE)
    held: list[Any] = [ledger.try_acquire(tenth) for _ in range(count)]
    return churn(ledger.try_acquire, ledger.release, held, [(tenth,)])


def devices(count: int) -> Block:
    """The same on so many devices, half of which are taken."""
    ledger = _machine(count)
    half = request(num_gpus=0.5)
    held: list[Any] = [ledger.try_acquire(half) for _ in range(count)]
    return churn(ledger.try_acquire, ledger.release, held, [(half,)])


def waiting(count: int) -> Block:
    """A full machine, and so many in line: one is served, and one more comes."""
    ledger = _machine(1000)
    one, line = request(num_gpus=1), WaitQueue(ledger)
    waiter = LeaseRequest("waiter", one)
    held: list[Any] = [ledger.try_acquire(one) for _ in range(1000)]
    for _ in range(count):
        line.enqueue(waiter)
    pick = random.Random(1).randrange

    def block(steps: int) -> None:
        for _ in range(steps):
            place = pick(1000)
            ledger.release(held[place])
            ((_, held[place]),) = line.serve()
            line.enqueue(waiter)

    return block


def records(count: int) -> Block:
    """Records, names and holders: an actor is made, named and found, and one goes."""
    ids, holders, supervisors = RuntimeIds(b"grow"), RefCount(), dict[ActorId, Any]()
    names = ActorNames("", supervisors.get)
    interface, options = interface_of(_Actor), ActorOptions()
    known: list[ActorId] = []
    pick = random.Random(1).randrange

    def make() -> None:
        actor = ids.new_id()
        record = ActorRecord(id=actor, interface=interface, options=options)
        supervisors[actor] = SimpleNamespace(record=record, answers=True)
        names.enter(actor, actor.hex(), options)
        holders.add(actor, OWNER)
        known.append(actor)

    for _ in range(count):
        make()

    def block(steps: int) -> None:
        for _ in range(steps):
            make()
            place = pick(count)
            known[place], known[-1] = known[-1], known[place]
            actor = known.pop()
            record = names.find(actor.hex(), None).record
            names.leave(record)
            holders.remove(actor, OWNER)
            del supervisors[actor]

    return block


def calls(count: int) -> Block:
    """Calls without an answer: one more is sent, and the oldest is answered."""
    mailbox: Mailbox[None] = Mailbox()
    mailbox.opened()
    for _ in range(count):
        mailbox.post(None, "method", None, b"\x90")
    oldest = 0

    def block(steps: int) -> None:
        nonlocal oldest
        for _ in range(steps):
            mailbox.post(None, "method", None, b"\x90")
            oldest += 1
            mailbox.settle(oldest)

    return block


def deadlines(count: int) -> Block:
    """Deadlines: one more, and a random one is not needed any more."""
    known: Deadlines[int] = Deadlines()
    chance = random.Random(1)
    for number in range(count):
        known.add(number, chance.random())
    newest = count

    def block(steps: int) -> None:
        nonlocal newest
        for _ in range(steps):
            known.add(newest, chance.random())
            known.discard(newest - int(chance.random() * count))
            newest += 1

    return block


_KINDS: Final[dict[str, Callable[[int], Block]]] = {
    kind.__name__: kind
    for kind in (actors, devices, waiting, records, calls, deadlines)
}


def _machine(count: int) -> Ledger:
    found = tuple(
        Device(family="nvidia", kind=_GPU, index=n, id=str(n), uuid=f"GPU-{n}")
        for n in range(count)
    )
    capacity = totals(num_cpus=1, num_gpus=count, memory=None, resources=None)
    return Ledger(capacity, {_GPU: found})


def measure_actorlib(kind: str, counts: Sequence[int], seconds: float) -> Figures:
    """How long one step takes, as there is more of what it works on.

    All of it is the owner's own bookkeeping, which no machine could have the processes
    for: a million actors are a million records and leases. Seconds of the processor; in
    a steady state, so as many come as go.
    """
    assert UNITS % _TO_A_DEVICE == 0
    times = [1 / rate(_filled(kind, count), seconds) for count in counts]
    figures = dict(zip(map(str, counts), times, strict=True))
    exponent = _slope([*map(math.log, counts)], [*map(math.log, times)])
    return figures | {"exponent": exponent}


def _filled(kind: str, count: int) -> Block:
    gc.disable()  # it would look through all there is again and again
    try:
        return _KINDS[kind](count)
    finally:
        gc.enable()


def _slope(across: Sequence[float], up: Sequence[float]) -> float:
    """The slope of the line that is nearest to some points."""
    middle, height = statistics.fmean(across), statistics.fmean(up)
    there = [x - middle for x in across]
    return sum(x * (y - height) for x, y in zip(there, up, strict=True)) / sum(
        x * x for x in there
    )


SUBJECTS: Final = {
    "actorlib": measure_actorlib,
}
"""The subjects, each measured in its own interpreter."""


if __name__ == "__main__":
    main(make_plan, SUBJECTS)
