"""The bundles of a group that has its shares: each a pool of its own.

Guarantees: what is in a bundle is free there or in exactly one member's lease, which is
of the bundle's own devices; what a member gives back is free for other members and for
nobody else. :meth:`Bundles.check` proves it.

Among those who seek a place inside, the rule is the line's: someone later may pass
someone who waits only if that delays nobody. Never for a kind of device in a bundle
that the earlier one may get; of what is merely counted, and of a bundle's only device,
if enough is left for both, or whatever lets the earlier one in lets it in all the same
(``gaps``).
What is nested passes whoever does not go on after a wait, as who holds something may
wait for it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, final

from actorlib._core.group_spec import ANY_BUNDLE
from actorlib._core.kinds import UNITS
from actorlib._core.resources import add
from actorlib._scheduler.request import ANYWHERE, DeviceConstraints
from actorlib._scheduler.wait_queue import Priority, delays_nobody
from actorlib.accelerators.base import Lease, Share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actorlib._core.resources import Resources
    from actorlib._scheduler.device_pool import DevicePool
    from actorlib._scheduler.request import Gang


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupWaiter:
    """Who seeks a place in a group; two are never the same one.

    Attributes:
        holder: The id of the actor, in hex; empty for a function.
        label: Who asks, for messages.
        request: What is asked.
        where: What is wished of the devices.
        index: Which bundle, or -1 for any.
        priority: Who has to let it pass; see the line.
    """

    holder: str
    label: str
    request: Resources
    where: DeviceConstraints = ANYWHERE
    index: int = ANY_BUNDLE
    priority: Priority = Priority.USUAL


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BundleMember:
    """A member's lease, in which bundle, and whose it is."""

    index: int
    holder: str
    lease: Lease


def divide_lease(gang: Gang, lease: Lease) -> tuple[Lease, ...]:
    """What each bundle has of the lease that a gang was granted as a whole."""
    left = {name: _of_kind(lease, name) for name in lease.amounts}
    bundles: list[Lease] = []
    for bundle in gang.bundles:
        shares: list[Share] = []
        for name, units in bundle.amounts.items():
            count = -(-units // UNITS) if left[name] else 0
            shares += left[name][:count]
            del left[name][:count]
        bundles.append(Lease(amounts=bundle.amounts, shares=tuple(shares)))
    return tuple(bundles)


@final
class Bundles:
    """What a group has, and who is inside.

    Args:
        leases: What each bundle has.
        pools: The pools of the ledger that granted it.
    """

    __slots__ = ("_free", "_held", "_left", "_pools", "leases")

    def __init__(
        self, leases: Sequence[Lease], pools: Mapping[str, DevicePool]
    ) -> None:
        self.leases = tuple(leases)
        self._pools = pools
        self._free = [dict(lease.amounts) for lease in leases]
        # By kind and index; a bundle has one share of a device at the most.
        self._left = [_levels(lease) for lease in leases]
        self._held: dict[int, BundleMember] = {}

    @property
    def inside(self) -> list[BundleMember]:
        """The members that hold something, in the order in which they came."""
        return list(self._held.values())

    def free(self, index: int) -> Mapping[str, int]:
        """What no member holds of a bundle, by resource name."""
        return self._free[index]

    def serve(self, seekers: Iterable[GroupWaiter]) -> list[tuple[GroupWaiter, Lease]]:
        """Lets everyone in who may.

        Args:
            seekers: Those who wait, in order of arrival.

        Returns:
            Who got what, in order of arrival.
        """
        usual, nested = _ReservedForWaiters(self), _ReservedForWaiters(self)
        granted: list[tuple[GroupWaiter, Lease]] = []
        for seeker in sorted(seekers, key=_has_not_begun):
            aside = usual if seeker.priority is Priority.USUAL else nested
            lease = self._grant(seeker, aside)
            if lease is not None:
                granted.append((seeker, lease))
                continue
            fitting = list(filter(partial(self._fits, seeker), self._open_to(seeker)))
            usual.add(seeker.request, fitting)
            if seeker.priority is Priority.RESUMED:
                nested.add(seeker.request, fitting)
        return granted

    def index_of(self, lease: Lease) -> int:
        """In which bundle a member's lease is."""
        return self._held[id(lease)].index

    def could_fit(self, seeker: GroupWaiter) -> bool:
        """Whether it would be let in if nobody else were inside."""
        return any(self._fits(seeker, index) for index in self._open_to(seeker))

    def held(self, index: int, name: str) -> Counter[int]:
        """How many members have how much of a resource of a bundle, by amount."""
        leases = (member.lease for member in self.inside if member.index == index)
        return Counter(lease.amounts[name] for lease in leases if name in lease.amounts)

    def is_counted(self, index: int, name: str) -> bool:
        """Whether any part of it is as good as any other in a bundle."""
        shares = self.leases[index].shares
        return sum(share.device.kind == name for share in shares) <= 1

    def give(self, lease: Lease) -> None:
        """Takes a member's lease back.

        Raises:
            LookupError: It is none of a member. Nothing has changed.
        """
        member = self._held.pop(id(lease), None)
        if member is None:
            raise LookupError(f"{lease} is not held by a member of this group")
        self._free[member.index] = add(self._free[member.index], lease.amounts)
        left = self._left[member.index]
        for share in lease.shares:
            left[share.device.kind, share.device.index] += share.units

    def split(self, lease: Lease, name: str) -> tuple[Lease, Lease]:
        """Makes two leases of a member's: what it has of a counted one, and the rest.

        Raises:
            LookupError: It is none of a member. Nothing has changed.
        """
        member = self._held.pop(id(lease), None)
        if member is None:
            raise LookupError(f"{lease} is not held by a member of this group")
        parts = lease.split(name)
        for part in parts:
            self._held[id(part)] = replace(member, lease=part)
        return parts

    def merge(self, lease: Lease, other: Lease) -> Lease:
        """Makes one lease of two of a member's in one bundle.

        Raises:
            LookupError: One is none of a member.
        """
        member = self._held.pop(id(lease))
        del self._held[id(other)]
        joined = lease.joined(other)
        self._held[id(joined)] = replace(member, lease=joined)
        return joined

    def check(self) -> None:
        """Raises AssertionError unless free and held make up each bundle."""
        for index, whole in enumerate(self.leases):
            held = [m.lease for m in self._held.values() if m.index == index]
            there, levels = dict(self._free[index]), dict(self._left[index])
            if min([0, *there.values(), *levels.values()]) < 0:
                raise AssertionError(f"bundle {index} gave more than it has")
            for lease in held:
                there = add(there, lease.amounts)
                for share in lease.shares:
                    levels[share.device.kind, share.device.index] += share.units
            if there != dict(whole.amounts) or levels != _levels(whole):
                raise AssertionError(f"bundle {index} does not add up: {there}")

    def _fits(self, seeker: GroupWaiter, index: int) -> bool:
        whole = self.leases[index]
        return self._chosen(seeker, whole.amounts, _levels(whole)) is not None

    def _open_to(self, seeker: GroupWaiter) -> Iterable[int]:
        every = range(len(self.leases))
        return every if seeker.index == ANY_BUNDLE else (seeker.index,)

    def _grant(self, seeker: GroupWaiter, aside: _ReservedForWaiters) -> Lease | None:
        """A lease of the bundle that is left with the least of what is asked."""
        names = seeker.request.amounts
        best: tuple[int, int, tuple[Share, ...]] | None = None
        for index in self._open_to(seeker):
            if not aside.leaves(index, seeker.request):
                continue
            free = self._free[index]
            shares = self._chosen(seeker, free, self._left[index])
            left = sum(free.get(name, 0) - aside.sum(index, name) for name in names)
            if shares is not None and (best is None or left < best[0]):
                best = left, index, shares
        if best is None:
            return None
        _, index, shares = best
        lease = Lease(amounts=names, shares=shares)
        for name, amount in names.items():
            self._free[index][name] -= amount
        for share in shares:
            key = share.device.kind, share.device.index
            self._left[index][key] -= share.units
        inside = BundleMember(index=index, holder=seeker.holder, lease=lease)
        self._held[id(lease)] = inside
        return lease

    def _chosen(
        self,
        seeker: GroupWaiter,
        free: Mapping[str, int],
        left: Mapping[tuple[str, int], int],
    ) -> tuple[Share, ...] | None:
        """The shares of a bundle that it would get; None if there is no room."""
        shares: tuple[Share, ...] = ()
        for name, amount in seeker.request.amounts.items():
            if free.get(name, 0) < amount:
                return None
            pool = self._pools.get(name)
            if pool is None:
                continue
            levels = {
                index: level for (kind, index), level in left.items() if kind == name
            }
            chosen = pool.choose_within(amount, levels, seeker.where)
            if chosen is None:
                return None
            each = min(amount, UNITS)
            shares += tuple(Share(pool.devices[index], each) for index in chosen)
        return shares


class _ReservedForWaiters:
    """What those ask who stay outside, and what they leave to those behind.

    Args:
        bundles: What they ask it of.
    """

    def __init__(self, bundles: Bundles) -> None:
        self._bundles = bundles
        self._closed: set[tuple[int, str]] = set()
        self._waiting: dict[tuple[int, str], Counter[int]] = {}
        # Asked by those who may get in elsewhere: where, nobody can foretell.
        self._loose: set[tuple[int, str]] = set()

    def add(self, request: Resources, indices: Sequence[int]) -> None:
        """Someone stays outside who may get into these bundles."""
        for index in indices:
            for name, amount in request.amounts.items():
                key = index, name
                if not self._bundles.is_counted(index, name):
                    self._closed.add(key)
                    continue
                self._waiting.setdefault(key, Counter())[amount] += 1
                if len(indices) > 1:
                    self._loose.add(key)

    def sum(self, index: int, name: str) -> int:
        """What they ask together of what is counted in a bundle."""
        waiting = self._waiting.get((index, name))
        return sum(a * count for a, count in waiting.items()) if waiting else 0

    def leaves(self, index: int, request: Resources) -> bool:
        """Whether someone may have so much of a bundle."""
        return all(
            self._leaves((index, name), amount)
            for name, amount in request.amounts.items()
        )

    def _leaves(self, key: tuple[int, str], amount: int) -> bool:
        if key in self._closed:
            return False
        if key not in self._waiting:
            return True
        free = self._bundles.free(key[0]).get(key[1], 0)
        if amount <= free - self.sum(*key):
            return True
        if key in self._loose:
            return False
        total = self._bundles.leases[key[0]].amounts[key[1]]
        held = self._bundles.held(*key)
        return delays_nobody(total, held, self._waiting[key], amount)


def _has_not_begun(seeker: GroupWaiter) -> bool:
    return seeker.priority is not Priority.RESUMED


def _levels(lease: Lease) -> dict[tuple[str, int], int]:
    return {(s.device.kind, s.device.index): s.units for s in lease.shares}


def _of_kind(lease: Lease, name: str) -> list[Share]:
    return [share for share in lease.shares if share.device.kind == name]
