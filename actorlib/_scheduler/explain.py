"""Why a request is granted, waits, or never will be, in sentences for the user.

Every sentence names what was asked, what there is, and what to do about it.

Why a placement group waits or never will be, and why an actor in one does.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from actorlib._core.group_spec import (
    ANY_BUNDLE,
    PACK,
    SPREAD,
    STRICT_PACK,
    STRICT_SPREAD,
)
from actorlib._core.kinds import UNITS
from actorlib._core.resources import (
    OWN_KEYWORDS,
    Resources,
    format_amount,
    format_named,
)
from actorlib._scheduler.device_pool import LISTED, listed
from actorlib._scheduler.request import ANYWHERE, DeviceConstraints

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from actorlib._scheduler.bundles import Bundles, GroupWaiter
    from actorlib._scheduler.device_pool import DevicePool
    from actorlib._scheduler.ledger import Ledger
    from actorlib._scheduler.request import Gang
    from actorlib.accelerators.base import Device, Lease


def refusal(
    ledger: Ledger, label: str, request: Resources, where: DeviceConstraints = ANYWHERE
) -> str:
    """Why a request that is not feasible never will be, and what to do about it.

    Args:
        ledger: What it was asked of.
        label: Who asks, for example the name of a class.
        request: What is asked.
        where: What is wished of the devices.
    """
    lacking = ledger.never(request, where)
    if len(lacking) > len(ledger.never(request)):
        return _why_excluded(ledger, label, lacking, where)
    amounts = ledger.capacity.amounts
    for name, amount in lacking.items():
        fault = ledger.pools[name].kind.fault(amount) if name in ledger.pools else ""
        if fault:
            asked = format_amount(name, amount)
            return f"{label} asks {asked} of {name}, which is never given: {fault}."
        if name in ledger.pools and amount <= amounts.get(name, 0):
            return (
                f"{label} asks {format_named(name, amount)}; this machine has "
                f"{_inventory(ledger, name)}, but an actor gets devices of one vendor "
                "only, and one part of a card unless it names them with device=. "
                "Ask for less."
            )
    there = ", ".join(_inventory(ledger, name) for name in lacking)
    known = [name for name in lacking if name in OWN_KEYWORDS or name in amounts]
    unknown = {n: -(-lacking[n] // UNITS) for n in lacking if n not in known}
    text = f"{label} asks {Resources(lacking)}; this machine has {there}."
    if known:
        keywords = " and ".join(OWN_KEYWORDS.get(n, f"resources[{n!r}]") for n in known)
        text += f" Lower {keywords}, or give init() more."
    if unknown:
        text += f" Ask for what there is, or write init(resources={unknown})."
    return text


def shortage(
    ledger: Ledger, label: str, request: Resources, where: DeviceConstraints = ANYWHERE
) -> str:
    """Why a request is not granted now: what it lacks, and what is free.

    Args:
        ledger: What it is asked of.
        label: Who asks, for example the name of a class.
        request: What is asked.
        where: What is wished of the devices.
    """
    if not ledger.feasible(request, where):
        return refusal(ledger, label, request, where)
    lacking = ledger.lacking(request, where)
    if not lacking:
        return f"{label} asks {request}{_wish(where)}; that is free"
    each = ", ".join(_short(ledger, n, amount, where) for n, amount in lacking.items())
    return f"{label} asks {Resources(lacking)}{_wish(where)}; {each}"


def held_by(
    ledger: Ledger,
    request: Resources,
    where: DeviceConstraints,
    titles: Mapping[int, str],
) -> str:
    """Who holds what a request lacks now, to end a sentence; or nothing.

    Args:
        ledger: What it is asked of.
        request: What is asked.
        where: What is wished of the devices.
        titles: What the holders of leases are called, by the ids of these objects.
    """
    if ledger.never(request, where):
        return ""
    lacking = ledger.lacking(request, where)
    scopes = {n: ledger.pools[n].scope(where) for n in lacking if n in ledger.pools}
    held: list[tuple[str, Mapping[str, int]]] = []
    for lease in ledger.leases:
        mine = {n: _amount_of(lease, n, scopes) for n in lacking}
        if any(mine.values()) and id(lease) in titles:
            held.append((titles[id(lease)], mine))
    return describe_holders(held)


def describe_holders(held: Sequence[tuple[str, Mapping[str, int]]]) -> str:
    """Who holds how much, those with the most first, to end a sentence; or nothing."""
    most_first = sorted(held, key=lambda each: -sum(each[1].values()))
    told = (f"{Resources.of(amounts)} by {who}" for who, amounts in most_first)
    return f". Held: {listed(told, len(held))}" if held else ""


def _amount_of(
    lease: Lease, name: str, scopes: Mapping[str, Collection[int] | None]
) -> int:
    if name not in scopes:
        return lease.amounts.get(name, 0)
    scope = scopes[name]
    return sum(
        share.units
        for share in lease.of_kind(name)
        if scope is None or share.device.index in scope
    )


def survey(
    ledger: Ledger,
    label: str,
    request: Resources,
    where: DeviceConstraints,
    lease: Lease | None,
) -> str:
    """Where a request would go now, or what stands in its way, device by device.

    Args:
        ledger: What it would be asked of.
        label: Who would ask, for example the name of a class.
        request: What would be asked.
        where: What would be wished of the devices.
        lease: What it would get now (and does not hold), or None if it would wait.

    Returns:
        A sentence, and below it a line for each device of the kinds that are asked.
    """
    chosen = [share.device for share in lease.shares] if lease is not None else []
    if lease is not None:
        there = f"go to {named(chosen)}" if chosen else "be placed now"
        head = f"{label} asks {request}{_wish(where)}; it would {there}"
    else:
        head = shortage(ledger, label, request, where)
    lines = [
        line
        for name, amount in request.amounts.items()
        if name in ledger.pools
        for line in _verdicts(ledger.pools[name], amount, where, chosen)
    ]
    return "\n".join([head, *lines])


def named(devices: Iterable[Device]) -> str:
    """Devices as the user knows them: ``GPU 0 and GPU 1``."""
    ordered = sorted(devices, key=lambda device: (device.kind, device.index))
    return " and ".join(f"{device.kind} {device.id}" for device in ordered)


def models(devices: Collection[Device]) -> str:
    """Devices by id with their models: ``0: NVIDIA H100, 1: logical``."""
    return listed(
        (f"{device.id}: {_model(device)}" for device in devices), len(devices)
    )


def _why_excluded(
    ledger: Ledger, label: str, lacking: dict[str, int], where: DeviceConstraints
) -> str:
    anyway = ledger.never(Resources(lacking))
    kind = next(name for name in lacking if name not in anyway)
    pool = ledger.pools[kind]
    scope = pool.scope(where)
    left = [d for d in pool.devices if scope is None or d.index in scope]
    those = models(left) if left else "no device"
    return (
        f"{label} asks {Resources(lacking)}{_wish(where)}; of this machine's "
        f"{_inventory(ledger, kind)} that leaves {those}. Ask for less, or wish for "
        "other devices."
    )


def _wish(where: DeviceConstraints) -> str:
    wishes: list[str] = []
    if where.models is not None:
        types = sorted(
            {make.type or make.model or make.family for make in where.models}
        )
        wishes.append(f"of type {' or '.join(types)}")
    if where.only is not None:
        wishes.append(f"on {named(where.only)}")
    if where.near is not None:
        wishes.append(f"near {named(where.near)}")
    if where.apart:
        wishes.append(f"apart from {named(where.apart)}")
    return f" {', '.join(wishes)}" if wishes else ""


def _inventory(ledger: Ledger, name: str) -> str:
    amounts = ledger.capacity.amounts
    if name in amounts:
        devices = ledger.pools[name].devices if name in ledger.pools else ()
        shown = f" ({models(devices)})" if devices else ""
        return f"{format_named(name, amounts[name])}{shown}"
    rest = (
        listed((format_named(n, a) for n, a in amounts.items()), len(amounts))
        or "nothing"
    )
    return f"no {name}" if name in OWN_KEYWORDS else f"no {name}, only {rest}"


def _short(ledger: Ledger, name: str, amount: int, where: DeviceConstraints) -> str:
    total = format_amount(name, ledger.capacity.amounts[name])
    pool, free = ledger.pools.get(name), ledger.free(name)
    if not free:
        return f"all of {name}={total} is taken"
    if pool is None:
        return f"{format_named(name, free)} of {total} is free"
    scope = pool.scope(where)
    open_to = [d for d in pool.devices if scope is None or d.index in scope]
    if amount > UNITS:
        whole = max(
            Counter(
                device.family
                for device in open_to
                if pool.free(device) == UNITS
                and (device.parent is None or where.only is not None)
            ).values(),
            default=0,
        )
        return f"{name}={whole} is wholly free (free: {pool.state()})"
    most = max(open_to, key=lambda device: (pool.free(device), -device.index))
    if not pool.free(most):
        return f"nothing of that is free (free: {pool.state()})"
    where_it_is = f"{format_named(name, pool.free(most))} on device {most.id}"
    return f"the largest free slice is {where_it_is} (free: {pool.state()})"


def _verdicts(
    pool: DevicePool, amount: int, where: DeviceConstraints, chosen: Collection[Device]
) -> Iterator[str]:
    scope = pool.scope(where)
    need = min(amount, UNITS)
    for device in pool.devices[:LISTED]:
        free = pool.free(device)
        said = f"{format_amount(device.kind, free)} free"
        if device in chosen:
            verdict = "chosen"
        elif scope is not None and device.index not in scope:
            verdict = "not wished for"
        elif free < need:
            verdict = "too little"
        else:
            verdict = "has room"
        yield f"  {device.kind} {device.id} ({_model(device)}): {said}, {verdict}"
    if len(pool.devices) > LISTED:
        yield f"  and {len(pool.devices) - LISTED} more"


def _model(device: Device) -> str:
    return "logical" if device.logical else device.model or device.family


_MEANS = {
    PACK: "on as few devices as possible",
    SPREAD: "on different devices where that is possible",
    STRICT_PACK: "all on one device, or on linked ones if they need more",
    STRICT_SPREAD: "each on devices of its own",
}
_HINDERS = {
    PACK: "on which they do not fit",
    SPREAD: "on which they do not fit",
    STRICT_PACK: "on which they do not fit",
    STRICT_SPREAD: "which is too few",
}
_UNSURE = (
    ". Whether its bundles fit on this machine at all is not known: the search for a "
    "way to pack them was given up. It delays nobody and is tried whenever something "
    "is given back; bundles of fewer sizes, or less in all, are easier to pack"
)
_INSTEAD = {STRICT_SPREAD: SPREAD}


def group_refusal(
    ledger: Ledger, label: str, request: Resources, where: DeviceConstraints
) -> str | None:
    """Why a group can never be reserved, and what to do about it.

    Args:
        ledger: What it was asked of.
        label: How the group is called.
        request: All bundles together.
        where: With its gang.

    Returns:
        None if it can.
    """
    lacking = ledger.never(request, where)
    if not lacking or where.gang is None:
        return None
    amounts = ledger.capacity.amounts
    short = {n: a for n, a in lacking.items() if a > amounts.get(n, 0)}
    head = f"{label} asks {_asked(where.gang)}"
    if short:
        there = ", ".join(format_named(name, amounts.get(name, 0)) for name in short)
        return (
            f"{head}, together {Resources(short)}; this machine has {there}. Ask for "
            "less, or give init() more."
        )
    name = next(iter(lacking))
    has = f"{format_named(name, amounts[name])} ({models(ledger.pools[name].devices)})"
    strategy = where.gang.strategy
    instead = _INSTEAD.get(strategy)
    advice = f"strategy={instead!r} is content with less" if instead else "Ask for less"
    return (
        f"{head} with strategy {strategy}, {_MEANS[strategy]}; this machine has {has}, "
        f"{_HINDERS[strategy]}. {advice}."
    )


def group_shortage(
    ledger: Ledger, label: str, request: Resources, where: DeviceConstraints
) -> str:
    """Why a group is not reserved now: what it lacks, and what is free."""
    never = group_refusal(ledger, label, request, where)
    if never is not None or where.gang is None:
        return never or label
    lacking = ledger.lacking(request, where)
    if not lacking:
        return f"{label} asks {_asked(where.gang)}; that is free"
    unsure = "" if ledger.feasible(request, where) else _UNSURE
    each: list[str] = []
    for name in lacking:
        pool = ledger.pools.get(name)
        total = format_amount(name, ledger.capacity.amounts[name])
        devices = f" ({pool.state()})" if pool is not None else ""
        each.append(f"{format_named(name, ledger.free(name))} of {total}{devices}")
    return (
        f"{label} asks {_asked(where.gang)} with strategy {where.gang.strategy}; free "
        f"is {', '.join(each)}{unsure}"
    )


def member_shortage(
    label: str, bundles: Bundles, seeker: GroupWaiter, titles: Mapping[int, str]
) -> str:
    """Why an actor is not let into its group now, and who has what it asks.

    Args:
        label: How the group is called.
        bundles: What the group has.
        seeker: Who asks.
        titles: What the holders of leases are called, by the ids of these objects.
    """
    every = range(len(bundles.leases))
    open_to = every if seeker.index == ANY_BUNDLE else (seeker.index,)
    asked = seeker.request.amounts
    each: list[str] = []
    for index in open_to:
        free = bundles.free(index)
        left = Resources({name: free.get(name, 0) for name in asked})
        each.append(f"bundle {index}: {left}")
    there = listed(each, len(each))
    held = [
        (titles[id(member.lease)], mine)
        for member in bundles.inside
        if member.index in open_to
        and id(member.lease) in titles
        and (mine := {n: a for n, a in member.lease.amounts.items() if n in asked})
    ]
    return (
        f"{seeker.label} asks {seeker.request} inside {label}; free there is {there}"
        f"{describe_holders(held)}"
    )


def member_refusal(label: str, seeker: GroupWaiter) -> str:
    """Why an actor can never be let into its group.

    Args:
        label: How the group is called.
        seeker: Who asks.
    """
    which = "its bundles" if seeker.index == ANY_BUNDLE else f"bundle {seeker.index}"
    return (
        f"{seeker.label} asks {seeker.request} and wishes for devices that are not "
        f"among those of {which} in {label}. Wish for others, or for none"
    )


def _asked(gang: Gang) -> str:
    shown = "; ".join(map(str, gang.bundles[:LISTED]))
    more = len(gang.bundles) - LISTED
    return f"[{shown}{f' and {more} more' if more > 0 else ''}]"
