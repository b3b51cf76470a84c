"""Scenarios of placement on small machines, in the text files of ``data/``.

A scenario begins with ``==`` and its title. The next line lists what the machine has:
``GPU=3`` is three L4, ``GPU=H100,part,?`` is a card, a part of a card and a card of an
unknown model, ``GPU=24GiB,80GiB`` are cards with so much memory, and ``links=0-1``
links two of them. Each further line is one of these:

* ``A B: GPU=0.5 -> 0 wait``: A and B ask, one after the other. The results are the
  indices of the devices (with units if bytes were asked for), ``-`` for a lease
  without devices, ``wait``, ``never``, or ``unknown`` if the search gave up. Then come
  those that get something by this.
  ``on=``, ``near=`` and ``apart=`` list devices, ``type=`` and ``device=`` name some
  as users write them (``_`` is a space, and ``+`` is between several); ``spread`` is a
  placement. ``priority=5``, ``nested`` and ``resumed`` decide its order, and ``runs``
  says that a function gets the lease. A strategy and bundles with ``;`` between them
  are a group.
* ``M in A 1: GPU=0.5 -> 0@1``: M asks inside the group A for a part of its bundle 1, or
  of any without a number. The result ends with the bundle.
* ``end A -> B:0``: A gives back its lease or leaves the line; B gets device 0. With
  ``leave`` A has not taken its lease yet.
* ``change A: on=1 -> A:1`` changes the constraints of A, and ``requeue A ->`` moves it
  to the end of the line.
* ``waiting -> A B``: who waits for the machine, in order.
* ``refusal A: GPU=4``, ``explain A: GPU=4`` and ``preview A: GPU=4`` are followed by
  their texts, behind ``|``. ``explain A`` is about the request of A.

At the end everything is given back, and all of the machine has to be free.
"""

from __future__ import annotations

import asyncio
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.cards import bytes_of, devices_of
from helpers.invariants import check_bundles, check_ledger

from actorlib._base.ids import GROUP_KIND, new_id
from actorlib._options.actor_options import ActorOptions
from actorlib._options.group_spec import ANY_BUNDLE, STRATEGIES, GroupId, GroupSpec
from actorlib._options.kinds import KINDS, UNITS
from actorlib._options.resources import BYTES, Resources
from actorlib._scheduler.catalogue import Demand, type_names
from actorlib._scheduler.request import DeviceConstraints, LeaseRequest, Origin
from actorlib._scheduler.scheduler import Scheduler
from actorlib.accelerators import Inventory
from actorlib.exceptions import ActorUnschedulableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib._scheduler.placement_group import Group
    from actorlib.accelerators.base import Device, Lease

DATA = Path(__file__).parent / "data"


def amount_of(name: str, text: str) -> int:
    if text.endswith("GiB"):
        return bytes_of(text)
    return int(text) if name in BYTES else int(Fraction(text) * UNITS)


def pairs_of(words: str) -> dict[str, str]:
    """``CPU=1 spread`` as a mapping; a word alone has no value."""
    return {name: value for name, _, value in (w.partition("=") for w in words.split())}


class Scene:
    """The machine of a scenario, and those who ask."""

    def __init__(self, machine: str) -> None:
        has = pairs_of(machine)
        links = has.pop("links", "")
        devices = {k: devices_of(has.pop(k), links, k) for k in KINDS if k in has}
        self.devices = [device for listed in devices.values() for device in listed]
        capacity = {name: amount_of(name, amount) for name, amount in has.items()}
        # Who asks for a type holds some of it.
        types = dict.fromkeys(type_names(devices), UNITS)
        self.scheduler = Scheduler(
            Resources.of(types | capacity),
            Inventory(devices=devices),
            list(capacity),
            asyncio.get_running_loop(),
            holder_names=lambda: {
                id(lease): name for name in self.requests if (lease := self.lease(name))
            },
        )
        self.requests: dict[str, LeaseRequest] = {}
        self.pendings: dict[str, asyncio.Future[Lease]] = {}
        self.groups: dict[str, Group] = {}
        self.functions: set[str] = set()

    # What is asked.

    def some(self, indices: str) -> frozenset[Device]:
        return frozenset(self.devices[int(index)] for index in indices.split(","))

    def demand(self, label: str, words: dict[str, str]) -> Demand:
        on, near, apart = (
            self.some(words.pop(name)) if name in words else None
            for name in ("on", "near", "apart")
        )
        is_spread = words.pop("spread", None) is not None
        if not words.keys() & {"gpu_memory", "type", "device"}:
            constraints = DeviceConstraints(
                spread=is_spread, only=on, near=near, apart=apart or frozenset()
            )
            amounts = {name: amount_of(name, text) for name, text in words.items()}
            return Demand(Resources.of(amounts), constraints)
        type_, named = words.pop("type", None), words.pop("device", "")
        options = ActorOptions(
            num_gpus=float(words.pop("GPU", 0)),
            num_cpus=float(words.pop("CPU", 0)),
            gpu_memory=amount_of("gpu_memory", words.pop("gpu_memory", "0")) or None,
            accelerator_type=type_ and type_.replace("_", " "),
            placement="spread" if is_spread else "pack",
            device=named.replace("_", " ").split("+")
            if named
            else [d.id for d in on or ()] or None,
            resources={name: float(text) for name, text in words.items()},
        )
        return self.scheduler.catalogue.demand(
            label, options, near=near, apart=apart or ()
        )

    def request(self, who: str, what: str) -> LeaseRequest:
        name, _, place = who.partition(" in ")
        group, _, index = place.partition(" ")
        words = pairs_of(what)
        priority = int(words.pop("priority", 0))
        origins = [each for each in Origin if words.pop(each.value, None) is not None]
        if words.pop("runs", None) is not None:
            self.functions.add(name)
        return LeaseRequest(
            name,
            *self.demand(name, words),
            origin=origins[0] if origins else Origin.USUAL,
            priority=priority,
            group=self.groups[group].spec if group else None,
            bundle_index=int(index) if index else ANY_BUNDLE,
            holder=name,
        )

    def reserve(self, name: str, strategy: str, what: str) -> None:
        bundles = [
            {
                f"accelerator_type:{text}" if key == "type" else key: (
                    0.001
                    if key == "type"
                    else amount_of(key, text)
                    if key in BYTES
                    else float(Fraction(text))
                )
                for key, text in pairs_of(bundle).items()
            }
            for bundle in what.split(";")
        ]
        made = GroupId(new_id(bytes(8), GROUP_KIND, len(self.groups)))
        spec = GroupSpec(id=made, name=name, bundles=bundles, strategy=strategy)
        self.groups[name] = self.scheduler.groups.reserve(spec, 0)
        demand = self.scheduler.catalogue.demand_of_group(spec.amounts, strategy)
        self.requests[name] = LeaseRequest(name, *demand)

    # What it has.

    def lease(self, name: str) -> Lease | None:
        if name in self.groups:
            return self.groups[name].lease
        pending = self.pendings[name]
        return pending.result() if pending.done() and not pending.exception() else None

    def result(self, name: str) -> str:
        lease, request = self.lease(name), self.requests[name]
        _, resources, constraints, *_ = request
        is_inside = request.group is not None
        if lease is None and is_inside:
            return "never" if self.pendings[name].done() else "wait"
        is_feasible = self.scheduler.ledger.feasible(resources, constraints)
        if lease is None:
            is_never = self.scheduler.ledger.infeasible_part(resources, constraints)
            assert not (is_feasible and is_never)
            return "wait" if is_feasible else "never" if is_never else "unknown"
        assert is_feasible or is_inside
        bundles = constraints.bundles
        has_bytes = constraints.gpu_memory or (bundles and any(bundles.gpu_memory))
        places = ",".join(
            str(share.device.index) + (f"*{share.units / UNITS:g}" if has_bytes else "")
            for share in lease.shares
        )
        index = f"@{self.scheduler.groups.index_of(lease)}" if is_inside else ""
        return f"{places or '-'}{index}"

    def check(self) -> None:
        check_ledger(self.scheduler.ledger)
        for group in self.groups.values():
            if group.lease is not None:
                check_bundles(group.bundles)

    # What happens.

    async def ask(self, names: str, what: str) -> str:
        names, place, inside = names.partition(" in ")
        strategy, _, bundles = what.partition(" ")
        before = self.without_lease()
        for name in names.split():
            if strategy in STRATEGIES:
                self.reserve(name, strategy, bundles)
            else:
                self.requests[name] = self.request(f"{name}{place}{inside}", what)
                self.pendings[name] = self.scheduler.acquire(self.requests[name])
                lease = self.lease(name)
                if name in self.functions and lease is not None:
                    self.scheduler.ledger.mark_transient(lease)
            self.check()
        served = [f"{n}:{self.result(n)}" for n in before if self.lease(n) is not None]
        return " ".join([*map(self.result, names.split()), *served])

    def without_lease(self) -> list[str]:
        return [name for name in self.requests if self.lease(name) is None]

    def end(self, name: str, *, is_taken: bool = True) -> None:
        lease = self.lease(name)
        del self.requests[name]
        if name in self.groups:
            self.scheduler.groups.remove(self.groups.pop(name), "the scenario says so")
            return
        pending = self.pendings.pop(name)
        if lease is not None and is_taken:
            self.scheduler.release(lease)
        else:
            self.scheduler.leave(pending)

    def change(self, name: str, what: str) -> None:
        constraints = self.demand(name, pairs_of(what)).constraints
        self.requests[name] = self.requests[name]._replace(constraints=constraints)
        self.scheduler.change_constraints(self.pendings[name], self.requests[name])

    async def served(self, command: str, name: str, what: str) -> str:
        """Does something; returns who holds something from then on."""
        before = self.without_lease()
        if command in ("end", "leave"):
            for each in name.split():
                self.end(each, is_taken=command == "end")
        elif command == "requeue":
            self.scheduler.requeue(self.pendings[name])
        else:
            self.change(name, what)
        await asyncio.sleep(0)  # a group hears of its lease in a later turn
        self.check()
        return " ".join(
            f"{each}:{self.result(each)}"
            for each in before
            if each in self.requests and self.lease(each) is not None
        )

    def waiting(self) -> list[str]:
        waiting = self.scheduler.admission.waiting()
        return [label.removeprefix("group ").strip("'") for label, _ in waiting]

    def text(self, command: str, who: str, what: str) -> str:
        try:
            return self.text_of(command, who, what)
        except ActorUnschedulableError as error:
            return str(error)

    def text_of(self, command: str, who: str, what: str) -> str:
        if not what:
            if who in self.groups:
                return self.groups[who].explain()
            return self.scheduler.explain(self.requests[who], self.pendings[who])
        request = self.request(who, what)
        if command == "refusal":
            return self.scheduler.refusal(request) or "none"
        if command == "preview":
            return self.scheduler.preview(request)
        return self.scheduler.explain(request, None)

    async def play(self, line: str) -> str:
        """Does what a line says; returns the line with its results."""
        asked = line.partition(" ->")[0]
        command, _, rest = asked.partition(" ")
        name, _, what = rest.partition(": ")
        match command:
            case "#":
                return line
            case "end" | "leave" | "requeue" | "change":
                result = await self.served(command, name, what)
            case "waiting":
                result = " ".join(self.waiting())
            case "refusal" | "explain" | "preview":
                text = self.text(command, name, what)
                return "\n".join([asked, *(f"| {each}" for each in text.splitlines())])
            case _:
                names, _, what = asked.partition(": ")
                result = await self.ask(names, what)
        return f"{asked} -> {result}".rstrip()


def scenarios() -> Iterator[object]:
    for path in sorted(DATA.glob("*.txt")):
        for block in path.read_text(encoding="utf-8").split("\n== ")[1:]:
            title, machine, *lines = block.strip().split("\n")
            text = "\n".join(lines)
            yield pytest.param(machine, text, id=f"{path.stem}: {title}")


@pytest.mark.parametrize(("machine", "script"), list(scenarios()))
async def test_scenario(machine: str, script: str) -> None:
    scene = Scene(machine)
    played = [await scene.play(line) for line in script.split("\n") if line[0] != "|"]

    assert "\n".join(played) == script
    for name in reversed([*scene.groups, *scene.pendings]):
        scene.end(name)
    scene.scheduler.long_waits.close()
    assert scene.waiting() == []
    assert scene.scheduler.ledger.available() == scene.scheduler.ledger.total()
