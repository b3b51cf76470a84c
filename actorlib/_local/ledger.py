"""Who holds what: every unit and byte of the machine is free or in exactly one lease.

Guarantees: a request is granted whole or not at all; amounts are exact, so a million
grants and releases leave what there was; :meth:`Ledger.check` proves both.

The ledger only says *yes, these devices* or *not now*. Who may ask first is the
business of the line; which device is best is that of the placement.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, final

from actorlib._local.placement import DevicePool
from actorlib._resources import (
    DEVICE_KINDS,
    MEMORY,
    OWN_KEYWORDS,
    UNITS,
    Resources,
    add,
    format_amount,
)
from actorlib.accelerators.base import Lease, Share

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from actorlib.accelerators.base import Device


_LISTED = 8
"""What a message names one by one; the rest is counted."""


@final
class Ledger:
    """What the machine has, and the leases it has given on it.

    Args:
        capacity: What there is. Kinds of devices may be left out.
        devices: By kind, each in index order, numbered from 0.

    Attributes:
        capacity: What there is, devices included.
        kinds: The resources made of devices; every other one is merely counted.

    Raises:
        ValueError: The capacity counts other devices than those given.
    """

    __slots__ = ("_free", "_leases", "_pools", "capacity", "kinds")

    def __init__(
        self, capacity: Resources, devices: Mapping[str, Sequence[Device]]
    ) -> None:
        amounts = dict(capacity.amounts)
        for kind in {**dict.fromkeys(DEVICE_KINDS), **devices}:
            given = len(devices.get(kind, ()))
            if amounts.setdefault(kind, given * UNITS) != given * UNITS:
                said = _text(kind, amounts[kind])
                raise ValueError(f"the capacity says {said}, but {given} are given")
        self.capacity = Resources.of(amounts)
        self.kinds = frozenset(devices)
        self._pools = {kind: DevicePool(listed) for kind, listed in devices.items()}
        self._free = {n: a for n, a in amounts.items() if n not in self._pools}
        # By identity: two leases can be equal, and the reference keeps the id taken.
        self._leases: dict[int, Lease] = {}

    def __repr__(self) -> str:
        """The whole state in one line: free of all there is, and how many have some."""
        state = " ".join(map(self._state, self.capacity.amounts)) or "nothing"
        count = len(self._leases)
        return f"<Ledger {state}, {count} {'lease' if count == 1 else 'leases'}>"

    def free(self, name: str) -> int:
        """What is in no lease: bytes of ``"memory"``, units of any other name."""
        pool = self._pools.get(name)
        return self._free.get(name, 0) if pool is None else pool.free_units

    def try_acquire(self, request: Resources) -> Lease | None:
        """Grants a request if all of it is free, and nothing of it otherwise.

        Returns:
            A lease on exactly the amounts asked, the shares of a kind in index order;
            None if it has to wait, or can never be granted.
        """
        if _lacking(request, self._fits):
            return None
        shares: list[Share] = []
        for name, amount in request.amounts.items():
            if name in self._pools:
                # Never None: all of it fits, and the kinds share no device.
                shares.extend(self._pools[name].take(amount) or ())
            else:
                self._free[name] -= amount
        lease = Lease(amounts=request.amounts, shares=tuple(shares))
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
        for name, amount in lease.amounts.items():
            if name not in self._pools:
                self._free[name] += amount
        for share in lease.shares:
            self._pools[share.device.kind].give((share,))

    def feasible(self, request: Resources) -> bool:
        """Whether a request could be granted if nothing else were."""
        return not _lacking(request, self._could_fit)

    def refusal(self, label: str, request: Resources) -> str:
        """Why a request that is not feasible never will be, and what to do about it.

        Args:
            label: Who asks, for example the name of a class.
            request: What is asked.
        """
        lacking = _lacking(request, self._could_fit)
        there = ", ".join(map(self._inventory, lacking))
        known = [n for n in lacking if n in OWN_KEYWORDS or n in self.capacity.amounts]
        unknown = {n: -(-lacking[n] // UNITS) for n in lacking if n not in known}
        text = f"{label} asks {Resources(lacking)}; this machine has {there}."
        if known:
            keywords = " and ".join(
                OWN_KEYWORDS.get(n, f"resources[{n!r}]") for n in known
            )
            text += f" Lower {keywords}, or give init() more."
        if unknown:
            text += f" Ask for what there is, or write init(resources={unknown})."
        return text

    def explain(self, label: str, request: Resources) -> str:
        """Why a request is not granted now: what it lacks, and what is free.

        Args:
            label: Who asks, for example the name of a class.
            request: What is asked.
        """
        if not self.feasible(request):
            return self.refusal(label, request)
        lacking = _lacking(request, self._fits)
        if not lacking:
            return f"{label} asks {request}; that is free"
        shortages = ", ".join(self._shortage(*asked) for asked in lacking.items())
        return f"{label} asks {Resources(lacking)}; {shortages}"

    def available(self) -> dict[str, float]:
        """What is free, as a user counts: ``{"GPU": 1.5}``, memory in whole bytes."""
        return {n: _as_counted(n, self.free(n)) for n in self.capacity.amounts}

    def total(self) -> dict[str, float]:
        """What there is, as a user counts: ``{"GPU": 2.0}``, memory in whole bytes."""
        return {n: _as_counted(n, a) for n, a in self.capacity.amounts.items()}

    def check(self) -> None:
        """Raises AssertionError unless free and leased make up all there is."""
        leased: dict[str, int] = {}
        shared: Counter[tuple[str, int]] = Counter()
        for lease in self._leases.values():
            leased = add(leased, lease.amounts)
            for share in lease.shares:
                shared[share.device.kind, share.device.index] += share.units
        for name, total in self.capacity.amounts.items():
            if not 0 <= self.free(name) == total - leased.get(name, 0):
                raise AssertionError(f"{name} does not add up: {self!r}")
        for kind, pool in self._pools.items():
            pool.check()
            for device in pool.devices:
                if pool.free(device) + shared[kind, device.index] != UNITS:
                    raise AssertionError(f"{device} does not add up: {self!r}")

    def _fits(self, name: str, amount: int) -> bool:
        pool = self._pools.get(name)
        return amount <= self._free.get(name, 0) if pool is None else pool.fits(amount)

    def _could_fit(self, name: str, amount: int) -> bool:
        if name in self._pools:
            return self._pools[name].could_fit(amount)
        return amount <= self.capacity.amounts.get(name, 0)

    def _inventory(self, name: str) -> str:
        amounts = self.capacity.amounts
        if name in amounts:
            devices = self._pools[name].devices if name in self._pools else ()
            models = f" ({_listed(map(_model, devices), devices)})" if devices else ""
            return f"{_text(name, amounts[name])}{models}"
        rest = _listed((_text(n, a) for n, a in amounts.items()), amounts) or "nothing"
        return f"no {name}" if name in OWN_KEYWORDS else f"no {name}, only {rest}"

    def _shortage(self, name: str, amount: int) -> str:
        total = format_amount(name, self.capacity.amounts[name])
        pool, free = self._pools.get(name), self.free(name)
        if not free:
            return f"all of {name}={total} is taken"
        if pool is None:
            return f"{_text(name, free)} of {total} is free"
        if amount > UNITS:
            return f"{name}={pool.wholly_free} is wholly free (free: {_each(pool)})"
        most = pool.largest()
        where = f"{_text(name, most.units)} on device {most.device.id}"
        return f"the largest free slice is {where} (free: {_each(pool)})"

    def _state(self, name: str) -> str:
        total = format_amount(name, self.capacity.amounts[name])
        each = f" [{_each(self._pools[name])}]" if name in self._pools else ""
        return f"{_text(name, self.free(name))}/{total}{each}"


def _lacking(request: Resources, fits: Callable[[str, int], bool]) -> dict[str, int]:
    return {n: amount for n, amount in request.amounts.items() if not fits(n, amount)}


def _text(name: str, amount: int) -> str:
    return f"{name}={format_amount(name, amount)}"


def _as_counted(name: str, amount: int) -> float:
    return amount if name == MEMORY else amount / UNITS


def _model(device: Device) -> str:
    what = "logical" if device.logical else device.model or device.family
    return f"{device.id}: {what}"


def _each(pool: DevicePool) -> str:
    texts = (f"{d.id}: {format_amount(d.kind, pool.free(d))}" for d in pool.devices)
    return _listed(texts, pool.devices)


def _listed(texts: Iterable[str], everything: Collection[object]) -> str:
    named = ", ".join(islice(texts, _LISTED))
    unnamed = len(everything) - _LISTED
    return f"{named} and {unnamed} more" if unnamed > 0 else named
