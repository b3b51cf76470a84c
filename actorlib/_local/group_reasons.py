"""Why a placement group waits or never will be, and why an actor in one does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._bundles import ANY_BUNDLE, PACK, SPREAD, STRICT_PACK, STRICT_SPREAD
from actorlib._local.placement import LISTED, listed
from actorlib._local.reasons import models, told_holders
from actorlib._resources import Resources, format_amount, format_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib._local.bundles import Bundles, Seeker
    from actorlib._local.ledger import Ledger
    from actorlib._local.where import Gang, Where

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
    ledger: Ledger, label: str, request: Resources, where: Where
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


def group_shortage(ledger: Ledger, label: str, request: Resources, where: Where) -> str:
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
    label: str, bundles: Bundles, seeker: Seeker, titles: Mapping[int, str]
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
        f"{told_holders(held)}"
    )


def member_refusal(label: str, seeker: Seeker) -> str:
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
