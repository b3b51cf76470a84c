"""Explains to users why a request is granted, waits, or can never be granted.

Every sentence names the request, the machine's resources, and what to do. There are
sentences for actors, for placement groups, and for actors inside a group.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from actorlib._options.group_spec import (
    ANY_BUNDLE,
    PACK,
    SPREAD,
    STRICT_PACK,
    STRICT_SPREAD,
)
from actorlib._options.kinds import GPU, UNITS
from actorlib._options.resources import (
    GPU_MEMORY,
    OWN_KEYWORDS,
    Resources,
    format_amount,
    format_askable,
    format_bytes,
    format_named,
)
from actorlib._scheduler.device_pool import LISTED, listed
from actorlib._scheduler.request import DeviceConstraints, Unfit, units_for
from actorlib.accelerators.base import Share

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from actorlib._scheduler.bundles import Bundles
    from actorlib._scheduler.device_pool import DevicePool
    from actorlib._scheduler.ledger import Ledger
    from actorlib._scheduler.request import BundleRequest, LeaseRequest
    from actorlib.accelerators.base import Device, Lease


def refusal(ledger: Ledger, request: LeaseRequest) -> str:
    """Explains why a request can never be granted, and what to do."""
    label, resources, constraints, *_ = request
    lacking = ledger.infeasible_part(resources, constraints)
    if constraints.gpu_memory and GPU.name in lacking:
        fault = _memory_fault(ledger, constraints)
        if fault:
            return f"{label} {fault}"
    if len(lacking) > len(ledger.infeasible_part(resources)):
        return _why_excluded(ledger, request, lacking)
    amounts = ledger.capacity.amounts
    for name, amount in lacking.items():
        fault = ledger.pools[name].kind.fault(amount) if name in ledger.pools else ""
        if fault:
            text = format_amount(name, amount)
            return (
                f"{label} requests {text} of {name}, which is never granted: {fault}."
            )
        if name in ledger.pools and amount <= amounts.get(name, 0):
            return (
                f"{label} requests {format_named(name, amount)}; this machine has "
                f"{_inventory(ledger, name)}, but an actor gets devices of one vendor "
                "only, and one part of a card unless it names them with device=. "
                "Ask for less."
            )
    inventory = ", ".join(_inventory(ledger, name) for name in lacking)
    present = [name for name in lacking if name in OWN_KEYWORDS or name in amounts]
    unknown = {n: -(-lacking[n] // UNITS) for n in lacking if n not in present}
    text = f"{label} requests {Resources(lacking)}; this machine has {inventory}."
    text += _not_offered(ledger, lacking)
    if present:
        keywords = " and ".join(
            OWN_KEYWORDS.get(n, f"resources[{n!r}]") for n in present
        )
        text += f" Lower {keywords}, or give init() more."
    if unknown:
        text += f" Ask for what there is, or write init(resources={unknown})."
    return text


def _memory_fault(ledger: Ledger, constraints: DeviceConstraints) -> str:
    """Explains why no GPU here has the requested bytes; empty if one has."""
    asks = f"requests {format_named(GPU_MEMORY, constraints.gpu_memory)}"
    pool = ledger.pools.get(GPU.name)
    if pool is None or not pool.devices:
        return (
            f"{asks}; this machine has no GPU.{_not_offered(ledger, [GPU.name])} Leave "
            "gpu_memory out, or declare GPUs to try things out: "
            "init(num_gpus=1, device_memory={'GPU': '24GiB'})."
        )
    without_bytes = replace(constraints, gpu_memory=0)
    gpus = pool.allowed(without_bytes)
    sized = [device for device in gpus if device.memory]
    largest = max(sized, key=lambda device: device.memory or 0, default=None)
    if not gpus or (
        largest is not None and (largest.memory or 0) >= constraints.gpu_memory
    ):
        return ""
    hint, options = "", _describe(without_bytes)
    unknown = [device for device in gpus if not device.memory]
    if unknown:
        hint = (
            f"the memory of {describe_devices(unknown)} is unknown. Say what it is "
            "with init(device_memory={'GPU': '24GiB'}), or ask by num_gpus"
        )
    if largest is None:
        return f"{asks}{options}, and {hint}.{_not_offered(ledger, [GPU.name])}"
    where, has = "of those" if options else "here", format_askable(largest.memory or 0)
    hint = f" And {hint}." if hint else ""
    hint += _not_offered(ledger, [GPU.name])
    return (
        f"{asks}{options}; the largest GPU {where} has {has} "
        f"({describe_devices([largest])}). Ask for at most that.{hint}"
    )


def shortage(ledger: Ledger, request: LeaseRequest) -> str:
    """Explains why a request is not granted now: what it lacks, and what is free."""
    _, resources, constraints, *_ = request
    if not ledger.feasible(resources, constraints):
        return refusal(ledger, request)
    lacking = ledger.lacking(resources, constraints)
    if not lacking:
        return f"{_asks(request)}, which is free"
    each = ", ".join(
        _short(ledger, n, amount, constraints) for n, amount in lacking.items()
    )
    return f"{_asks(request, lacking)}; {each}"


def _asks(request: LeaseRequest, lacking: Mapping[str, int] | None = None) -> str:
    """Describes a request with its constraints, or the part that it lacks."""
    if lacking is not None:
        request = request._replace(resources=Resources(lacking))
    constraints = request.constraints
    if not request.is_of_type:
        constraints = replace(constraints, models=None)
    return f"{request.label} requests {request.amounts_text}{_describe(constraints)}"


def held_by(
    ledger: Ledger, request: LeaseRequest, holder_names: Mapping[int, str]
) -> str:
    """Names the holders of what a request lacks now, to end a sentence.

    ``holder_names`` contains the names of the holders, by the ids of the lease objects.
    Empty if there are none.
    """
    constraints = request.constraints
    lacking = ledger.lacking(request.resources, constraints)
    allowed_by_kind = {
        n: ledger.pools[n].resolver.allowed(constraints)
        for n in lacking
        if n in ledger.pools
    }
    holders: list[tuple[str, Mapping[str, int]]] = []
    for lease in ledger.leases:
        mine = {n: _amount_of(lease, n, allowed_by_kind) for n in lacking}
        if any(mine.values()) and id(lease) in holder_names:
            holders.append((holder_names[id(lease)], mine))
    return describe_holders(holders)


def describe_holders(holders: Sequence[tuple[str, Mapping[str, int]]]) -> str:
    """Lists holders with their amounts, the largest first, to end a sentence."""
    largest_first = sorted(holders, key=lambda each: -sum(each[1].values()))
    texts = (f"{Resources.of(amounts)} by {name}" for name, amounts in largest_first)
    return f". Held: {listed(texts, len(holders))}" if holders else ""


def _amount_of(
    lease: Lease, name: str, allowed_by_kind: Mapping[str, Collection[int] | None]
) -> int:
    if name not in allowed_by_kind:
        return lease.amounts.get(name, 0)
    allowed = allowed_by_kind[name]
    return sum(
        share.units
        for share in lease.of_kind(name)
        if allowed is None or share.device.index in allowed
    )


def preview(ledger: Ledger, request: LeaseRequest, lease: Lease | None) -> str:
    """Describes where a request would be placed now, or why it would wait.

    ``lease`` is the one that it would get now, or None if it would wait.

    Returns:
        A sentence, and below it a line for each device of the requested kinds.
    """
    _, resources, constraints, *_ = request
    shares = lease.shares if lease is not None else ()
    chosen = [share.device for share in shares]
    if lease is not None:
        where = name_devices(chosen)
        if constraints.gpu_memory:  # the units depend on the device
            units = {s.device.kind: s.units for s in shares}[GPU.name]
            where = f"{where}, and hold {format_amount(GPU.name, units)} of it"
        outcome = f"go to {where}" if chosen else "be placed now"
        head = f"{_asks(request)}; it would {outcome}"
    else:
        head = shortage(ledger, request)
    lines = [
        line
        for name, amount in resources.amounts.items()
        if name in ledger.pools
        for line in _verdicts(ledger.pools[name], amount, constraints, chosen)
    ]
    return "\n".join([head, *lines])


def name_devices(devices: Iterable[Device]) -> str:
    """Names devices for users: ``GPU 0 and GPU 1``."""
    ordered = sorted(devices, key=lambda device: (device.kind, device.index))
    return " and ".join(f"{device.kind} {device.id}" for device in ordered)


def describe_share(share: Share) -> str:
    """Describes a share by its part of a device, with its bytes if known."""
    device = share.device
    return f"{_part(device, share.units)} of {device.kind} {device.id}"


def _part(device: Device, units: int) -> str:
    nbytes = Share(device, units).nbytes
    in_bytes = f" ({format_bytes(nbytes)})" if nbytes else ""
    return f"{format_amount(device.kind, units)}{in_bytes}"


def describe_devices(devices: Collection[Device]) -> str:
    """Lists devices by id with their models: ``0: NVIDIA H100, 1: logical``."""
    return listed(
        (f"{device.id}: {_model(device)}" for device in devices), len(devices)
    )


def _why_excluded(
    ledger: Ledger, request: LeaseRequest, lacking: dict[str, int]
) -> str:
    constraints = request.constraints
    unconstrained = ledger.infeasible_part(Resources(lacking))
    kind = next(name for name in lacking if name not in unconstrained)
    usable = ledger.pools[kind].allowed(constraints)
    devices = describe_devices(usable) if usable else "no device"
    return (
        f"{_asks(request, lacking)}; of this machine's "
        f"{_inventory(ledger, kind)} that leaves {devices}.{_why_unfit(constraints)}"
        f"{_not_offered(ledger, [kind])} Ask for less, or for other devices."
    )


def _why_unfit(constraints: DeviceConstraints) -> str:
    """Explains why devices cannot have a requested option, as a sentence, or ""."""
    unfit = constraints.unfit
    if unfit is None:
        return ""
    devices: dict[str, list[Device]] = {}
    for device, reason in unfit.reasons:
        devices.setdefault(reason, []).append(device)
    each = (f"{name_devices(of)}, as {reason}" for reason, of in devices.items())
    return f" {unfit.option} is not available on {'; nor on '.join(each)}."


def _describe(constraints: DeviceConstraints) -> str:
    parts: list[str] = []
    if types := constraints.type_names:
        parts.append(f"of type {types}")
    if constraints.only is not None:
        parts.append(f"on {name_devices(constraints.only)}")
    if constraints.near is not None:
        parts.append(f"near {name_devices(constraints.near)}")
    if constraints.apart:
        parts.append(f"apart from {name_devices(constraints.apart)}")
    if constraints.unfit is not None:
        parts.append(f"with {constraints.unfit.option}")
    return f" {', '.join(parts)}" if parts else ""


def _inventory(ledger: Ledger, name: str) -> str:
    amounts = ledger.capacity.amounts
    if name in amounts:
        devices = ledger.pools[name].devices if name in ledger.pools else ()
        names = f" ({describe_devices(devices)})" if devices else ""
        return f"{format_named(name, amounts[name])}{names}"
    rest = (
        listed((format_named(n, a) for n, a in amounts.items()), len(amounts))
        or "nothing"
    )
    return f"no {name}" if name in OWN_KEYWORDS else f"no {name}, only {rest}"


def _not_offered(ledger: Ledger, names: Iterable[str]) -> str:
    """Lists rejected devices with the reasons, as a sentence, or ""."""
    by_reason: dict[str, list[str]] = {}
    for name in names:
        for each in ledger.rejected.get(name, ()):
            by_reason.setdefault(each.why, []).append(each.name)
    if not by_reason:
        return ""
    texts = (f"{listed(of, len(of))} ({reason})" for reason, of in by_reason.items())
    return f" Not offered: {listed(texts, len(by_reason))}."


def _short(
    ledger: Ledger, name: str, amount: int, constraints: DeviceConstraints
) -> str:
    total = format_amount(name, ledger.capacity.amounts[name])
    pool, free = ledger.pools.get(name), ledger.free(name)
    if not free:
        return f"all of {name}={total} is taken"
    if pool is None:
        return f"{format_named(name, free)} of {total} is free"
    usable = pool.allowed(constraints)
    if amount > UNITS:
        whole = max(
            Counter(
                device.family
                for device in usable
                if pool.free(device) == UNITS
                and (device.parent is None or constraints.only is not None)
            ).values(),
            default=0,
        )
        return f"{name}={whole} is wholly free (free: {pool.state()})"
    most = max(usable, key=lambda device: (pool.free(device), -device.index))
    if not pool.free(most):
        return f"nothing of that is free (free: {pool.state()})"
    slice_ = f"{format_named(name, pool.free(most))} on device {most.id}"
    if constraints.gpu_memory and name == GPU.name:
        shares = [Share(device, pool.free(device)) for device in usable]
        largest = max(shares, key=lambda s: (s.nbytes or 0, -s.device.index))
        part = _part(largest.device, largest.units)
        slice_ = f"{name}={part} on device {largest.device.id}"
    each = _on_each_model(amount, constraints.gpu_memory, usable)
    return f"the largest free slice is {slice_} (free: {pool.state()}{each})"


def _on_each_model(amount: int, nbytes: int, devices: Iterable[Device]) -> str:
    """Describes the units that bytes need on cards of several sizes.

    ``amount`` is the units on the largest card.

    Returns:
        Empty if the units are the same on all.
    """
    if not nbytes:
        return ""
    by_units: dict[int, str] = {}
    for device in devices:
        units = units_for(amount, nbytes, device.memory)
        if units is not None:
            by_units.setdefault(units, device.type or f"device {device.id}")
    if len(by_units) < 2:
        return ""
    each = [f"{units / UNITS:g} of {name}" for units, name in by_units.items()]
    return f"; {format_bytes(nbytes)} are {listed(each, len(each))}"


def _verdicts(
    pool: DevicePool,
    amount: int,
    constraints: DeviceConstraints,
    chosen: Collection[Device],
) -> Iterator[str]:
    allowed = pool.resolver.allowed(constraints)
    nbytes = pool.resolver.nbytes(constraints)
    unfit = constraints.unfit or Unfit("", ())
    reasons = dict(unfit.reasons)
    for device in pool.devices[:LISTED]:
        free = pool.free(device)
        if device in chosen:
            verdict = "chosen"
        elif nbytes and not device.memory:
            verdict = "its memory is unknown"
        elif nbytes > (device.memory or nbytes):
            verdict = "too small"
        elif device in reasons:
            verdict = f"without {unfit.option}, as {reasons[device]}"
        elif allowed is not None and device.index not in allowed:
            verdict = "not asked for"
        elif free < pool.units_on(device.index, amount, constraints):
            verdict = "too little"
        else:
            verdict = "has room"
        part = f"{_part(device, free)} free"
        yield f"  {device.kind} {device.id} ({_model(device)}): {part}, {verdict}"
    if len(pool.devices) > LISTED:
        yield f"  and {len(pool.devices) - LISTED} more"


def _model(device: Device) -> str:
    return "logical" if device.logical else device.model or device.family


_MEANINGS = {
    PACK: "on as few devices as possible",
    SPREAD: "on different devices where that is possible",
    STRICT_PACK: "all on one device, or on linked ones if they need more",
    STRICT_SPREAD: "each on devices of its own",
}
_UNSURE = (
    ". It is not known whether its bundles fit on this machine at all: the search for "
    "a packing was given up. It delays no other request and is tried whenever a lease "
    "is given back; bundles of fewer sizes, or smaller ones, are easier to pack"
)


def group_refusal(ledger: Ledger, request: LeaseRequest) -> str | None:
    """Explains why a group can never be reserved, and what to do; None if it can.

    The request is for the sum of its bundles, which are among the constraints.
    """
    label, resources, constraints, *_ = request
    lacking = ledger.infeasible_part(resources, constraints)
    bundles = constraints.bundles
    if not lacking or bundles is None:
        return None
    amounts = ledger.capacity.amounts
    short = {n: a for n, a in lacking.items() if a > amounts.get(n, 0)}
    for place, (models, nbytes) in enumerate(
        zip(bundles.models, bundles.gpu_memory, strict=True)
    ):
        alone = DeviceConstraints(models=models, gpu_memory=nbytes)
        if nbytes and (fault := _memory_fault(ledger, alone)):
            return f"{label} can never be reserved: bundle {place} {fault}"
    head = f"{label} requests {_list_bundles(bundles)}"
    if short:
        has = ", ".join(format_named(name, amounts.get(name, 0)) for name in short)
        return (
            f"{head}, together {Resources(short)}; this machine has {has}."
            f"{_not_offered(ledger, short)} Ask for less, or give init() more."
        )
    name = next(iter(lacking))
    devices = describe_devices(ledger.pools[name].devices)
    has = f"{format_named(name, amounts[name])} ({devices})"
    strategy = bundles.strategy
    obstacle, advice = "on which they do not fit", "Ask for less"
    if strategy == STRICT_SPREAD:
        obstacle = "which is too few"
        advice = f"strategy={SPREAD!r} needs fewer devices"
    return (
        f"{head} with strategy {strategy}, {_MEANINGS[strategy]}; this machine has "
        f"{has}, {obstacle}. {advice}."
    )


def group_shortage(ledger: Ledger, request: LeaseRequest) -> str:
    """Explains why a group is not reserved now: what it lacks, and what is free."""
    label, resources, constraints, *_ = request
    refusal_text, bundles = group_refusal(ledger, request), constraints.bundles
    if refusal_text is not None or bundles is None:
        return refusal_text or label
    lacking = ledger.lacking(resources, constraints)
    if not lacking:
        return f"{label} requests {_list_bundles(bundles)}, which is free"
    unsure = "" if ledger.feasible(resources, constraints) else _UNSURE
    each: list[str] = []
    for name in lacking:
        pool = ledger.pools.get(name)
        total = format_amount(name, ledger.capacity.amounts[name])
        devices = f" ({pool.state()})" if pool is not None else ""
        each.append(f"{format_named(name, ledger.free(name))} of {total}{devices}")
    return (
        f"{label} requests {_list_bundles(bundles)} with strategy {bundles.strategy}; "
        f"free is {', '.join(each)}{unsure}"
    )


def member_shortage(
    label: str, bundles: Bundles, request: LeaseRequest, holder_names: Mapping[int, str]
) -> str:
    """Explains why a request inside a group is not granted now, with the holders.

    ``label`` is the name of the group.
    """
    every = range(len(bundles.leases))
    usable = every if request.bundle_index == ANY_BUNDLE else (request.bundle_index,)
    requested = request.resources.amounts
    each: list[str] = []
    for index in usable:
        free = bundles.free(index)
        rest = Resources({name: free.get(name, 0) for name in requested})
        gpus, in_bytes = bundles.leases[index].of_kind(GPU.name), ""
        if request.constraints.gpu_memory and len(gpus) == 1:
            share = Share(gpus[0].device, free.get(GPU.name, 0))
            in_bytes = f" (gpu_memory={format_bytes(share.nbytes or 0)})"
        each.append(f"bundle {index}: {rest}{in_bytes}")
    holders = [
        (holder_names[id(member.lease)], mine)
        for member in bundles.members
        if member.index in usable
        and id(member.lease) in holder_names
        and (mine := {n: a for n, a in member.lease.amounts.items() if n in requested})
    ]
    return (
        f"{request.label} requests {request.amounts_text} inside {label}; free there "
        f"is {listed(each, len(each))}{describe_holders(holders)}"
    )


def member_refusal(label: str, request: LeaseRequest, leases: Sequence[Lease]) -> str:
    """Explains why a request inside a group can never be granted.

    ``label`` is the name of the group; ``leases`` are those of its bundles.
    """
    which, verb, inside = "its bundles", "have", leases
    if request.bundle_index != ANY_BUNDLE:
        which, verb = f"bundle {request.bundle_index}", "has"
        inside = leases[request.bundle_index : request.bundle_index + 1]
    shares = [share for lease in inside for share in lease.of_kind(GPU.name)]
    is_on_gpu = GPU.name in request.resources.amounts
    if is_on_gpu and not any(_has_room(share, request) for share in shares):
        parts = listed(
            (f"{_part(s.device, s.units)} of GPU {s.device.id}" for s in shares),
            len(shares),
        )
        return (
            f"{request.label} requests {request.amounts_text} inside {label}, and "
            f"{which} {verb} {parts or 'no GPU'}: ask for less, or make the bundle "
            "larger"
        )
    return (
        f"{request.label} requests {request.amounts_text} on devices that are not "
        f"among those of {which} in {label}.{_why_unfit(request.constraints)} Ask for "
        "others, or for none"
    )


def _has_room(share: Share, request: LeaseRequest) -> bool:
    """Whether a share of a bundle is enough, apart from the device constraints."""
    units = min(request.resources.amounts.get(GPU.name, 0), UNITS)
    nbytes = request.constraints.gpu_memory
    return share.units >= units and (share.nbytes or 0) >= nbytes


def _list_bundles(bundles: BundleRequest) -> str:
    first = "; ".join(bundles.described()[:LISTED])
    more = len(bundles.bundles) - LISTED
    return f"[{first}{f' and {more} more' if more > 0 else ''}]"
