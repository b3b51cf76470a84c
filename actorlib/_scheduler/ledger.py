"""Records the leases: every unit and byte is free or in exactly one lease.

Guarantees: a request is granted whole or not at all; amounts are exact, so a million
grants and releases leave the initial state.

The ledger only answers *yes, these devices* or *not now*. The queue decides the order
of requests, the device pools which device is best.
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
    from actorlib._scheduler.device_use import DeviceUse
    from actorlib.accelerators.base import Device, Rejected


@final
class Ledger:
    """Grants leases of a machine's resources, and takes them back.

    ``devices`` are in index order, numbered from 0. Kinds of devices may be left out of
    the capacity. ``use`` refuses devices that other programs use; None if there are no
    others. A refused device counts as leased until the other program has released it.

    Attributes:
        capacity: The total amounts, devices included.
        pools: The resources made of devices; all others are only counted.
        rejected: By kind, the devices that are present and may not be granted.

    Raises:
        ValueError: The capacity and the devices differ in number.
    """

    def __init__(
        self,
        capacity: Resources,
        devices: Mapping[str, Sequence[Device]],
        kinds: Mapping[str, Kind] = KINDS,
        rejected: Mapping[str, Sequence[Rejected]] | None = None,
        use: DeviceUse | None = None,
    ) -> None:
        amounts = dict(capacity.amounts)
        for kind in {**dict.fromkeys(KINDS), **devices}:
            count = len(devices.get(kind, ()))
            if amounts.setdefault(kind, count * UNITS) != count * UNITS:
                amount = format_named(kind, amounts[kind])
                raise ValueError(f"the capacity says {amount}, but {count} are given")
        self.capacity = Resources.of(amounts)
        self.rejected = rejected or {}
        self.pools: Mapping[str, DevicePool] = {
            kind: DevicePool(kinds[kind], each) for kind, each in devices.items()
        }
        self._free = {n: a for n, a in amounts.items() if n not in self.pools}
        # By identity, as leases can be equal. The reference keeps the id unique.
        self._leases: dict[int, Lease] = {}
        self._transient: set[int] = set()
        self._use = use
        self._others: dict[tuple[str, int], tuple[Lease, str]] = {}

    def __repr__(self) -> str:
        state = " ".join(map(self._state_of, self.capacity.amounts)) or "nothing"
        count = len(self._leases)
        return f"<Ledger {state}, {count} {'lease' if count == 1 else 'leases'}>"

    def free(self, name: str) -> int:
        """Returns the free amount: bytes of ``"memory"``, units of other names."""
        pool = self.pools.get(name)
        return self._free.get(name, 0) if pool is None else pool.free_units

    def try_acquire(
        self,
        resources: Resources,
        constraints: DeviceConstraints = ANYWHERE,
        reserved: Mapping[str, Collection[int]] | None = None,
    ) -> Lease | None:
        """Grants a request if all of it is free, and nothing of it otherwise.

        ``reserved`` contains, by kind, the indices of devices that are reserved for
        others.

        Returns:
            A lease on exactly the requested amounts (for bytes of a GPU: on the units
            that they need on the chosen device), the shares of a kind in index order;
            None if the request has to wait or can never be granted.
        """
        pools, free, amounts = self.pools, self._free, resources.amounts
        for name, amount in amounts.items():
            if name not in pools and amount > free.get(name, 0):
                return None
        while True:
            shares: tuple[Share, ...] = ()
            for name, amount in amounts.items():
                if name in pools:
                    of_kind = (
                        reserved.get(name, NONE_RESERVED) if reserved else NONE_RESERVED
                    )
                    of_pool = pools[name].take(amount, constraints, of_kind)
                    if of_pool is None:
                        self._give_back_shares(shares)
                        return None
                    shares += of_pool
            if not shares or self._use is None or self._begin_use(self._use, shares):
                break
        for name, amount in amounts.items():
            if name not in pools:
                free[name] -= amount
        if constraints is not ANYWHERE and constraints.are_in_bytes:
            amounts = amounts_with(amounts, shares)
        lease = Lease(amounts=amounts, shares=shares)
        self._leases[id(lease)] = lease
        return lease

    def release(self, lease: Lease) -> None:
        """Releases a lease.

        Raises:
            LookupError: The lease is not held: it was given back already, or never
                granted here. Nothing has changed.
        """
        if self._leases.pop(id(lease), None) is None:
            raise _not_held(lease)
        self._transient.discard(id(lease))
        for name, amount in lease.amounts.items():
            if name not in self.pools:
                self._free[name] += amount
        self._give_back_shares(lease.shares)
        if lease.shares and self._use is not None:
            idle = {
                share.device
                for share in lease.shares
                if self._free_on(share.device) == UNITS
            }
            if idle:
                self._use.end(idle)

    def restore(self, devices: Collection[Device]) -> None:
        """Makes devices grantable that other programs have released."""
        for device in devices:
            other = self._others.pop((device.kind, device.index), None)
            if other is not None:
                lease, _ = other
                del self._leases[id(lease)]
                self._give_back_shares(lease.shares)

    @property
    def other_programs(self) -> dict[int, str]:
        """The programs that use refused devices, by the ids of the lease objects."""
        return {id(lease): program for lease, program in self._others.values()}

    def mark_transient(self, lease: Lease) -> None:
        """Marks the lease of a running function: it is released when that ends."""
        self._transient.add(id(lease))

    def could_free_up(
        self, resources: Resources, constraints: DeviceConstraints = ANYWHERE
    ) -> bool:
        """Whether a request can be granted when the running functions have ended.

        Leases of actors, and of functions that wait for others, may never be released.
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
        """Splits a lease in two: its amount of a counted resource, and the rest.

        Raises:
            LookupError: The lease is not held. Nothing has changed.
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
            raise _not_held(lease)
        self._transient.discard(id(lease))

    def feasible(
        self, resources: Resources, constraints: DeviceConstraints = ANYWHERE
    ) -> bool:
        """Whether a request can certainly be granted on the idle machine.

        The bundles of a group may fit even if the search found no packing: then this is
        false, and :meth:`infeasible_part` is empty.
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
        """Returns the amounts of a request that can certainly never be granted."""
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
        """Returns the amounts of a request that are not free now."""
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
        return self._leases.values()

    def held(self, name: str) -> Counter[int]:
        """Counts the leases of a resource by their amount."""
        each = (lease.amounts.get(name, 0) for lease in self._leases.values())
        return Counter(amount for amount in each if amount)

    def available(self) -> dict[str, float]:
        """Returns the free amounts for users: ``{"GPU": 1.5}``, memory in bytes."""
        return counted({name: self.free(name) for name in self.capacity.amounts})

    def total(self) -> dict[str, float]:
        """Returns the capacity for users: ``{"GPU": 2.0}``, memory in bytes."""
        return counted(self.capacity.amounts)

    def _begin_use(self, use: DeviceUse, shares: Sequence[Share]) -> bool:
        """Begins to use the devices of a request; gives all back if one is refused."""
        amounts: dict[Device, int] = {}
        for share in shares:
            amounts[share.device] = amounts.get(share.device, 0) + share.units
        idle = [d for d, units in amounts.items() if self._free_on(d) + units == UNITS]
        refused = use.begin(idle) if idle else None
        if not refused:
            return True
        self._give_back_shares(shares)
        for device, program in refused.items():
            of_other = self.pools[device.kind].take_whole(device)
            lease = Lease(amounts={device.kind: UNITS}, shares=(of_other,))
            self._leases[id(lease)] = lease
            self._others[device.kind, device.index] = lease, program
        return False

    def _free_on(self, device: Device) -> int:
        return self.pools[device.kind].free(device)

    def _give_back_shares(self, shares: Sequence[Share]) -> None:
        for share in shares:
            self.pools[share.device.kind].give_back((share,))

    def _state_of(self, name: str) -> str:
        total = format_amount(name, self.capacity.amounts[name])
        each = f" [{self.pools[name].state()}]" if name in self.pools else ""
        return f"{format_named(name, self.free(name))}/{total}{each}"


def _not_held(lease: Lease) -> LookupError:
    return LookupError(
        f"the lease on {Resources(lease.amounts)} is not held: it was given back "
        "already, or another ledger granted it"
    )
