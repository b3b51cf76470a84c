"""Grants parts of a reserved placement group to the actors and functions inside.

Guarantees: every unit of a bundle is free there or in exactly one member's lease; a
lease contains only devices of its bundle; what a member gives back is free for other
members only.

The order of requests is that of the wait queue: one may pass another that is ahead of
it only if that delays no request. It never passes for a kind of device in a bundle that
the other may get. It passes for counted resources, and for a bundle's only device, if
enough is left for both, or if the other is served at the same release anyway
(``overtaking``). Nested requests pass all but functions that resume after a
wait, because a member may wait for them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._base.value import dataclass
from actorlib._options.group_spec import ANY_BUNDLE
from actorlib._options.kinds import GPU, UNITS
from actorlib._options.resources import add
from actorlib._scheduler.overtaking import delays_no_waiter
from actorlib._scheduler.request import Origin, amounts_with, units_for
from actorlib.accelerators.base import Lease, Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actorlib._scheduler.device_pool import DevicePool
    from actorlib._scheduler.request import BundleRequest, LeaseRequest, QueueKey


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BundleMember:
    """A lease on a part of a bundle.

    Attributes:
        index: The index of the bundle.
        holder: The id of the actor, in hex; empty for a function.
        lease: The lease.
    """

    index: int
    holder: str
    lease: Lease


def divide_lease(request: BundleRequest, lease: Lease) -> tuple[Lease, ...]:
    """Divides the lease of a placement group among its bundles."""
    rest = {name: lease.of_kind(name) for name in lease.amounts}
    bundles: list[Lease] = []
    for bundle, nbytes in zip(request.bundles, request.gpu_memory, strict=True):
        shares: list[Share] = []
        for name, units in bundle.amounts.items():
            count = -(-units // UNITS) if rest[name] else 0
            shares += rest[name][:count]
            del rest[name][:count]
        amounts = amounts_with(bundle.amounts, shares) if nbytes else bundle.amounts
        bundles.append(Lease(amounts=amounts, shares=tuple(shares)))
    return tuple(bundles)


@final
class Bundles:
    """Grants parts of a group to its members."""

    def __init__(
        self, leases: Sequence[Lease], pools: Mapping[str, DevicePool]
    ) -> None:
        self.leases = tuple(leases)
        self._pools = pools
        self._free = [dict(lease.amounts) for lease in leases]
        # By kind and index; a bundle has at most one share of a device.
        self._free_units = [_units_by_device(lease) for lease in leases]
        self._held: dict[int, BundleMember] = {}

    @property
    def members(self) -> list[BundleMember]:
        """The leases of the members, in the order in which they were granted."""
        return list(self._held.values())

    def free(self, index: int) -> Mapping[str, int]:
        return self._free[index]

    def serve(self, requests: Sequence[LeaseRequest]) -> list[tuple[int, Lease]]:
        """Grants every request that may be granted now.

        ``requests`` are in their order (``waiting_order``).

        Returns:
            The positions of the granted requests, and their leases.
        """
        usual, nested = _ReservedForWaiters(self), _ReservedForWaiters(self)
        granted: list[tuple[int, Lease]] = []
        # If one has to wait, so have all equal ones behind it.
        staying: dict[QueueKey, Mapping[int, Mapping[str, int]]] = {}
        for place, request in enumerate(requests):
            key = request.queue_key
            each = staying.get(key)
            if each is None:
                reserved = usual if request.origin is Origin.USUAL else nested
                lease = self._grant(request, reserved)
                if lease is not None:
                    granted.append((place, lease))
                    continue
                each = staying[key] = {
                    index: self._amounts_in(request, index)
                    for index in self._bundles_of(request)
                    if self._fits(request, index)
                }
            usual.add(each)
            if request.origin is Origin.RESUMED:
                nested.add(each)
        return granted

    def index_of(self, lease: Lease) -> int:
        return self._held[id(lease)].index

    def could_fit(self, request: LeaseRequest) -> bool:
        """Whether a request would be granted without other members."""
        return any(self._fits(request, index) for index in self._bundles_of(request))

    def could_free_up(self, request: LeaseRequest) -> bool:
        """Whether counted amounts can be granted when the functions inside have ended.

        Leases of actors may never be released.
        """
        free = [Counter(lease.amounts) for lease in self.leases]
        for member in self.members:
            if member.holder:
                free[member.index].subtract(member.lease.amounts)
        amounts = request.resources.amounts.items()
        return any(
            all(free[index][name] >= amount for name, amount in amounts)
            for index in self._bundles_of(request)
        )

    def held(self, index: int, name: str) -> Counter[int]:
        """Counts the members that hold a resource of a bundle, by their amount."""
        leases = (member.lease for member in self.members if member.index == index)
        return Counter(lease.amounts[name] for lease in leases if name in lease.amounts)

    def is_counted(self, index: int, name: str) -> bool:
        """Whether all parts of a resource in a bundle are equal."""
        shares = self.leases[index].shares
        return sum(share.device.kind == name for share in shares) <= 1

    def give_back(self, lease: Lease) -> None:
        """Releases a member's lease.

        Raises:
            LookupError: No member holds it. Nothing has changed.
        """
        member = self._held.pop(id(lease), None)
        if member is None:
            raise LookupError(f"{lease} is not held by a member of this group")
        self._free[member.index] = add(self._free[member.index], lease.amounts)
        units = self._free_units[member.index]
        for share in lease.shares:
            units[share.device.kind, share.device.index] += share.units

    def split(self, lease: Lease, name: str) -> tuple[Lease, Lease]:
        """Splits a member's lease: its amount of a counted resource, and the rest.

        Raises:
            LookupError: No member holds it. Nothing has changed.
        """
        member = self._held.pop(id(lease), None)
        if member is None:
            raise LookupError(f"{lease} is not held by a member of this group")
        parts = lease.split(name)
        for part in parts:
            self._held[id(part)] = replace(member, lease=part)
        return parts

    def merge(self, lease: Lease, other: Lease) -> Lease:
        """Merges two leases of a member in one bundle.

        Raises:
            LookupError: No member holds one of them.
        """
        member = self._held.pop(id(lease))
        del self._held[id(other)]
        joined = lease.joined(other)
        self._held[id(joined)] = replace(member, lease=joined)
        return joined

    def _fits(self, request: LeaseRequest, index: int) -> bool:
        whole = self.leases[index]
        return self._chosen(request, whole.amounts, _units_by_device(whole)) is not None

    def _bundles_of(self, request: LeaseRequest) -> Iterable[int]:
        every = range(len(self.leases))
        return every if request.bundle_index == ANY_BUNDLE else (request.bundle_index,)

    def _grant(
        self, request: LeaseRequest, reserved: _ReservedForWaiters
    ) -> Lease | None:
        """Grants a lease in the bundle that has the least left afterwards."""
        best: tuple[int, int, tuple[Share, ...]] | None = None
        for index in self._bundles_of(request):
            amounts = self._amounts_in(request, index)
            if not reserved.leaves(index, amounts):
                continue
            free = self._free[index]
            shares = self._chosen(request, free, self._free_units[index])
            rest = sum(
                free.get(name, 0) - amount - reserved.sum(index, name)
                for name, amount in amounts.items()
            )
            if shares is not None and (best is None or rest < best[0]):
                best = rest, index, shares
        if best is None:
            return None
        _, index, shares = best
        amounts = request.resources.amounts
        if request.constraints.gpu_memory:
            amounts = amounts_with(amounts, shares)
        lease = Lease(amounts=amounts, shares=shares)
        for name, amount in amounts.items():
            self._free[index][name] -= amount
        for share in shares:
            key = share.device.kind, share.device.index
            self._free_units[index][key] -= share.units
        member = BundleMember(index=index, holder=request.holder, lease=lease)
        self._held[id(lease)] = member
        return lease

    def _amounts_in(self, request: LeaseRequest, index: int) -> Mapping[str, int]:
        """Returns the amounts of a request in a bundle.

        Bytes in a bundle of several GPUs are the least units that they need on any.
        """
        amounts, nbytes = request.resources.amounts, request.constraints.gpu_memory
        gpus = self.leases[index].of_kind(GPU.name) if nbytes else []
        if len(gpus) != 1 or GPU.name not in amounts:
            return amounts
        resolver = self._pools[GPU.name].resolver
        memory = resolver.memory.get(resolver.model_of[gpus[0].device.index])
        need = units_for(amounts[GPU.name], nbytes, memory)
        return amounts if need is None else {**amounts, GPU.name: need}

    def _chosen(
        self,
        request: LeaseRequest,
        free: Mapping[str, int],
        left: Mapping[tuple[str, int], int],
    ) -> tuple[Share, ...] | None:
        """Returns the shares that a request would get; None without room."""
        shares: tuple[Share, ...] = ()
        for name, amount in request.resources.amounts.items():
            if free.get(name, 0) < amount:
                return None
            pool = self._pools.get(name)
            if pool is None:
                continue
            units = {
                index: level for (kind, index), level in left.items() if kind == name
            }
            chosen = pool.choose_within(amount, units, request.constraints)
            if chosen is None:
                return None
            shares += tuple(
                Share(pool.devices[i], pool.units_on(i, amount, request.constraints))
                for i in chosen
            )
        return shares


class _ReservedForWaiters:
    """Reserves the amounts that waiters may get of bundles."""

    def __init__(self, bundles: Bundles) -> None:
        self._bundles = bundles
        self._exhausted: set[tuple[int, str]] = set()
        self._waiting: dict[tuple[int, str], Counter[int]] = {}
        # Keys of waiters that several bundles may serve; which one is not known.
        self._floating: set[tuple[int, str]] = set()

    def add(self, in_bundles: Mapping[int, Mapping[str, int]]) -> None:
        """Adds a waiter with its amounts in each bundle that may serve it."""
        for index, amounts in in_bundles.items():
            for name, amount in amounts.items():
                key = index, name
                if not self._bundles.is_counted(index, name):
                    self._exhausted.add(key)
                    continue
                self._waiting.setdefault(key, Counter())[amount] += 1
                if len(in_bundles) > 1:
                    self._floating.add(key)

    def sum(self, index: int, name: str) -> int:
        """Returns the sum of the waiting amounts of a counted resource of a bundle."""
        waiting = self._waiting.get((index, name))
        return sum(a * count for a, count in waiting.items()) if waiting else 0

    def leaves(self, index: int, amounts: Mapping[str, int]) -> bool:
        """Whether a request may have these amounts of a bundle."""
        return all(self._leaves((index, n), amount) for n, amount in amounts.items())

    def _leaves(self, key: tuple[int, str], amount: int) -> bool:
        if key in self._exhausted:
            return False
        if key not in self._waiting:
            return True
        free = self._bundles.free(key[0]).get(key[1], 0)
        if amount <= free - self.sum(*key):
            return True
        if key in self._floating:
            return False
        total = self._bundles.leases[key[0]].amounts[key[1]]
        leases = self._bundles.held(*key)
        return delays_no_waiter(total, leases, self._waiting[key], amount)


def _units_by_device(lease: Lease) -> dict[tuple[str, int], int]:
    return {(s.device.kind, s.device.index): s.units for s in lease.shares}
