"""Keeps the books: every unit and byte is free or in exactly one lease.

Guarantees: a request is granted whole or not at all; amounts are exact, so a million
grants and releases leave what there was; :meth:`Ledger.check` proves both.

The ledger only says *yes, these devices* or *not now*. The order of requests is the
business of the queue; which device is best, of the device pools.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import KINDS, UNITS
from actorlib._options.resources import (
    Resources,
    counted,
    format_amount,
    format_named,
)
from actorlib._scheduler.candidates import NONE_RESERVED
from actorlib._scheduler.device_pool import DevicePool
from actorlib._scheduler.request import (
    ANYWHERE,
    DeviceConstraints,
    amounts_with,
)
from actorlib.accelerators.base import Lease, Share

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from actorlib._options.kinds import Kind
    from actorlib.accelerators.base import Device, Rejected


@final
class Ledger:
    """Grants leases of what a machine has, and takes them back.

    Args:
        capacity: What there is. Kinds of devices may be left out.
        devices: By kind, each in index order, numbered from 0.
        kinds: What each kind of device allows, by name.
        rejected: By kind, what is here and may not be granted. Default: None, for
            nothing.

    Attributes:
        capacity: What there is, devices included.
        pools: The resources made of devices; every other one is merely counted.
        rejected: By kind, what is here and may not be granted.

    Raises:
        ValueError: The capacity counts other devices than those given.
    """

    __slots__ = ("_free", "_leases", "_transient", "capacity", "pools", "rejected")

    def __init__(
        self,
        capacity: Resources,
        devices: Mapping[str, Sequence[Device]],
        kinds: Mapping[str, Kind] = KINDS,
        rejected: Mapping[str, Sequence[Rejected]] | None = None,
    ) -> None:
        amounts = dict(capacity.amounts)
        for kind in {**dict.fromkeys(KINDS), **devices}:
            given = len(devices.get(kind, ()))
            if amounts.setdefault(kind, given * UNITS) != given * UNITS:
                said = format_named(kind, amounts[kind])
                raise ValueError(f"the capacity says {said}, but {given} are given")
        self.capacity = Resources.of(amounts)
        self.rejected = rejected or {}
        self.pools: Mapping[str, DevicePool] = {
            kind: DevicePool(kinds[kind], each) for kind, each in devices.items()
        }
        self._free = {n: a for n, a in amounts.items() if n not in self.pools}
        # By identity: two leases can be equal, and the reference keeps the id taken.
        self._leases: dict[int, Lease] = {}
        self._transient: set[int] = set()

    def __repr__(self) -> str:
        """Tells the whole state in one line: what is free of all, and the leases."""
        state = " ".join(map(self._state_of, self.capacity.amounts)) or "nothing"
        count = len(self._leases)
        return f"<Ledger {state}, {count} {'lease' if count == 1 else 'leases'}>"

    def free(self, name: str) -> int:
        """Returns what is in no lease: bytes of ``"memory"``, units of other names."""
        pool = self.pools.get(name)
        return self._free.get(name, 0) if pool is None else pool.free_units

    def try_acquire(
        self,
        resources: Resources,
        constraints: DeviceConstraints = ANYWHERE,
        reserved: Mapping[str, Collection[int]] | None = None,
    ) -> Lease | None:
        """Grants a request if all of it is free, and nothing of it otherwise.

        Args:
            resources: How much.
            constraints: Of which devices.
            reserved: By kind, the indices of devices that are reserved for others.

        Returns:
            A lease on exactly the amounts requested (of bytes of a GPU: on the units
            that they come to on the one that was chosen), the shares of a kind in
            index order; None if it has to wait, or can never be granted.
        """
        pools, free, amounts = self.pools, self._free, resources.amounts
        for name, amount in amounts.items():
            if name not in pools and amount > free.get(name, 0):
                return None
        shares: tuple[Share, ...] = ()
        for name, amount in amounts.items():
            if name in pools:
                of_kind = (
                    reserved.get(name, NONE_RESERVED) if reserved else NONE_RESERVED
                )
                taken = pools[name].take(amount, constraints, of_kind)
                if taken is None:
                    self._give_back_shares(shares)
                    return None
                shares += taken
        for name, amount in amounts.items():
            if name not in pools:
                free[name] -= amount
        if constraints is not ANYWHERE and constraints.are_in_bytes:
            amounts = amounts_with(amounts, shares)
        lease = Lease(amounts=amounts, shares=shares)
        self._leases[id(lease)] = lease
        return lease

    def release(self, lease: Lease) -> None:
        """Takes a lease back.

        Raises:
            LookupError: This very lease is not held: it was given back already, or
                never granted here. Nothing has changed.
        """
        if self._leases.pop(id(lease), None) is None:
            raise LookupError(
                f"the lease on {Resources(lease.amounts)} is not held: it was given "
                "back already, or another ledger granted it"
            )
        self._transient.discard(id(lease))
        for name, amount in lease.amounts.items():
            if name not in self.pools:
                self._free[name] += amount
        self._give_back_shares(lease.shares)

    def mark_transient(self, lease: Lease) -> None:
        """Marks a lease that comes back by itself: a function that runs holds it."""
        self._transient.add(id(lease))

    def could_free_up(
        self, resources: Resources, constraints: DeviceConstraints = ANYWHERE
    ) -> bool:
        """Whether a request can be granted as soon as the functions that run are done.

        What actors hold, and functions that wait for others, may never come back.
        """
        lasting = [
            lease for key, lease in self._leases.items() if key not in self._transient
        ]
        amounts = Counter[str]()
        for lease in lasting:
            amounts.update(lease.amounts)
        has = self.capacity.amounts
        for name, amount in resources.amounts.items():
            pool = self.pools.get(name)
            if pool is None:
                if amount > has.get(name, 0) - amounts[name]:
                    return False
                continue
            free = {device.index: UNITS for device in pool.devices}
            for lease in lasting:
                for share in lease.of_kind(name):
                    free[share.device.index] -= share.units
            if not pool.could_fit_within(amount, free, constraints):
                return False
        return True

    def split(self, lease: Lease, name: str) -> tuple[Lease, Lease]:
        """Splits a lease in two: what it has of a counted resource, and the rest.

        Raises:
            LookupError: This very lease is not held. Nothing has changed.
        """
        self._remove(lease)
        parts = lease.split(name)
        self._leases.update((id(part), part) for part in parts)
        return parts

    def merge(self, lease: Lease, other: Lease) -> Lease:
        """Merges two leases into one; see ``Lease.joined``.

        Raises:
            LookupError: One is not held.
        """
        self._remove(lease)
        self._remove(other)
        joined = lease.joined(other)
        self._leases[id(joined)] = joined
        return joined

    def _remove(self, lease: Lease) -> None:
        if self._leases.pop(id(lease), None) is None:
            raise LookupError(f"the lease on {Resources(lease.amounts)} is not held")
        self._transient.discard(id(lease))

    def feasible(
        self, resources: Resources, constraints: DeviceConstraints = ANYWHERE
    ) -> bool:
        """Whether it is certain that a request could be granted if nothing else were.

        The bundles of a group may fit where no way to pack them was found: then this is
        false, and :meth:`infeasible_part` has nothing to say either.
        """
        return all(
            self.pools[name].could_fit(amount, constraints)
            if name in self.pools
            else amount <= self.capacity.amounts.get(name, 0)
            for name, amount in resources.amounts.items()
        )

    def infeasible_part(
        self, resources: Resources, constraints: DeviceConstraints = ANYWHERE
    ) -> dict[str, int]:
        """Returns what of a request could never be granted, as far as is certain."""
        has = self.capacity.amounts
        return {
            name: amount
            for name, amount in resources.amounts.items()
            if (
                self.pools[name].never_fits(amount, constraints)
                if name in self.pools
                else amount > has.get(name, 0)
            )
        }

    def lacking(
        self, resources: Resources, constraints: DeviceConstraints = ANYWHERE
    ) -> dict[str, int]:
        """Returns what of a request is not free now."""
        return {
            name: amount
            for name, amount in resources.amounts.items()
            if (
                self.pools[name].choose(amount, constraints) is None
                if name in self.pools
                else amount > self._free.get(name, 0)
            )
        }

    @property
    def leases(self) -> Iterable[Lease]:
        """The leases that are held, in the order in which they were granted."""
        return self._leases.values()

    def held(self, name: str) -> Counter[int]:
        """Counts the leases that have so much of a resource, by amount."""
        each = (lease.amounts.get(name, 0) for lease in self._leases.values())
        return Counter(amount for amount in each if amount)

    def available(self) -> dict[str, float]:
        """Returns what is free as a user counts: ``{"GPU": 1.5}``, memory in bytes."""
        return counted({name: self.free(name) for name in self.capacity.amounts})

    def total(self) -> dict[str, float]:
        """Returns what there is as a user counts: ``{"GPU": 2.0}``, memory in bytes."""
        return counted(self.capacity.amounts)

    def _give_back_shares(self, shares: Sequence[Share]) -> None:
        for share in shares:
            self.pools[share.device.kind].give_back((share,))

    def _state_of(self, name: str) -> str:
        total = format_amount(name, self.capacity.amounts[name])
        each = f" [{self.pools[name].state()}]" if name in self.pools else ""
        return f"{format_named(name, self.free(name))}/{total}{each}"
