"""Shows every accelerator of this machine, and why not more: ``actorlib devices``.

``Summary`` is the document that ``actorlib devices --json`` prints: its names are
promises. Only the command line loads this file, as it imports rich.
"""

from __future__ import annotations

import contextlib
import sys
import time
from itertools import compress, groupby
from typing import TYPE_CHECKING, TypedDict

from rich.console import Group

import actorlib
from actorlib._cli.documents import write_document
from actorlib._cli.pages import console
from actorlib._core.resources import format_askable, format_bytes
from actorlib._core.tables import table
from actorlib._enforcement.enforcement import divided, find_facts
from actorlib._enforcement.tiers import Facts, faults
from actorlib.accelerators import Host, discover, families, inventory
from actorlib.accelerators.claims import Claimant, DeviceClaims, describe_claimants

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from actorlib.accelerators import Accelerator, Detection, Device, Rejected


_OTHER_VARIABLES = (
    "ACTORLIB_HIDE_DEVICES",
    "ASCEND_DEVICE_ID",
    "CUDA_DEVICE_ORDER",
    "GPU_DEVICE_ORDINAL",
    "HIP_VISIBLE_DEVICES",
    "HLS_MODULE_ID",
    "MACA_DEVICE_ORDER",
    "MACA_VISIBLE_DEVICES",
    "NEURON_LOGICAL_NC_CONFIG",
    "NEURON_RT_NUM_CORES",
    "ONEAPI_DEVICE_SELECTOR",
    "RBLN_VISIBLE_DEVICES",
    "TPU_VISIBLE_DEVICES",
    "TT_METAL_VISIBLE_DEVICES",
    "ZE_ENABLE_PCI_ID_DEVICE_ORDER",
    "ZE_FLAT_DEVICE_HIERARCHY",
)
"""Variables besides each family's own one that change which devices are meant."""


class ClaimFound(TypedDict):
    """A runtime that has a device; its program is empty if it is not known."""

    pid: int
    program: str


class SharesFound(TypedDict):
    """What can make a part of a device hold, the weakest first; why not the others."""

    tiers: list[str]
    why_not: dict[str, str]


class DeviceFound(TypedDict):
    """A device that may be granted; see ``actorlib.accelerators.Device``.

    ``claims`` are the runtimes of this user that have it now; ``shares`` is null for a
    device that is given as a whole only.
    """

    id: str
    index: int
    uuid: str | None
    pci: str | None
    model: str | None
    type: str | None
    memory: int | None
    parent: str | None
    peers: list[str]
    integrated: bool
    source: str
    written: str
    claims: list[ClaimFound]
    shares: SharesFound | None


class NotOffered(TypedDict):
    """What was looked at and is not offered, and why."""

    name: str
    model: str | None
    why: str


class FamilyFound(TypedDict):
    """What one family has; its variable's value is the owner's, null if unset.

    ``said`` is all of the owner's masks that count for it, as they are set.
    """

    family: str
    kind: str | None
    variable: str | None
    value: str | None
    said: str
    outer: list[str] | None
    reason: str
    devices: list[DeviceFound]
    rejected: list[NotOffered]


class KindFound(TypedDict):
    """One resource; ``declarable`` is the most that may be declared, null for any."""

    count: int
    divisible: bool
    counts: list[int] | None
    types: list[str]
    declarable: int | None


class Summary(TypedDict):
    """The machine; families and kinds by name, times in seconds, sizes in bytes."""

    version: str
    families: list[FamilyFound]
    kinds: dict[str, KindFound]
    environment: dict[str, str]
    took: float


def summarize(
    detections: Sequence[Detection],
    accelerators: Sequence[Accelerator],
    host: Host,
    took: float,
    claims: Mapping[Device, Sequence[Claimant]] | None = None,
) -> Summary:
    """Sums up in plain values what was found, in an order that does not change.

    Args:
        detections: What ``discover`` returned for these families.
        accelerators: The families.
        host: The machine.
        took: How many seconds it took to find out.
        claims: Who has claimed devices; None for nobody. Default: None.
    """
    found = inventory(detections, {}, accelerators)
    claimed = {(d.family, d.id): each for d, each in (claims or {}).items()}
    environ = host.environ
    parted = [device for listed in divided(found).values() for device in listed]
    facts = find_facts(host, parted) if parted else Facts()
    shares = {device: _shares(device, facts) for device in parted}
    offered = {detection.family: detection for detection in found.detections}
    names = {name for f in accelerators for name in (f.visible_env, *f.nosets)} | {
        *_OTHER_VARIABLES
    }
    return {
        "version": actorlib.__version__,
        "families": [
            _family(
                family,
                offered[family.family],
                [
                    _device(
                        device,
                        claimed.get((device.family, device.id), ()),
                        shares.get(device),
                    )
                    for device in found.by_family.get(family.family, ())
                ],
                environ,
            )
            for family in sorted(accelerators, key=lambda family: family.family)
        ],
        "kinds": {
            name: {
                "count": len(devices),
                "divisible": found.kinds[name].divisible,
                "counts": None
                if (counts := found.kinds[name].counts) is None
                else [*counts],
                "types": sorted({d.type for d in devices if d.type}),
                "declarable": _declarable(name, len(devices), detections, accelerators),
            }
            for name, devices in sorted(found.devices.items())
        },
        "environment": {name: environ[name] for name in sorted(names & {*environ})},
        "took": round(took, 6),
    }


def _family(
    family: Accelerator,
    detection: Detection,
    devices: list[DeviceFound],
    environ: Mapping[str, str],
) -> FamilyFound:
    return {
        "family": family.family,
        "kind": family.kind.name or None,
        "variable": family.visible_env or None,
        "value": environ.get(family.visible_env),
        "said": detection.said,
        "outer": None if detection.outer is None else [*detection.outer],
        "reason": detection.reason,
        "devices": devices,
        "rejected": [_rejected(rejected) for rejected in detection.rejected],
    }


def _device(
    device: Device, claimants: Sequence[Claimant], shares: SharesFound | None
) -> DeviceFound:
    return {
        "id": device.id,
        "index": device.index,
        "uuid": device.uuid,
        "pci": device.pci,
        "model": device.model,
        "type": device.type,
        "memory": device.memory,
        "parent": device.parent,
        "peers": sorted(device.peers),
        "integrated": device.integrated,
        "source": device.source,
        "written": device.written,
        "claims": [{"pid": each.pid, "program": each.program} for each in claimants],
        "shares": shares,
    }


def _shares(device: Device, facts: Facts) -> SharesFound:
    why_not = faults(device, facts)
    return {
        "tiers": [tier.word for tier, why in why_not.items() if not why],
        "why_not": {tier.word: why for tier, why in why_not.items() if why},
    }


def _rejected(rejected: Rejected) -> NotOffered:
    return {"name": rejected.name, "model": rejected.model, "why": rejected.why}


def _declarable(
    kind: str,
    count: int,
    detections: Sequence[Detection],
    accelerators: Sequence[Accelerator],
) -> int | None:
    """How many devices of a kind may be declared, the found ones among them."""

    def is_allowed(number: int) -> bool:
        # Which masks count is the inventory's affair: it is tried, not worked out.
        try:
            inventory(detections, {kind: number}, accelerators)
        except ValueError:
            return False
        return True

    most = count + sum(len(detection.outer or ()) for detection in detections)
    if is_allowed(most + 1):
        return None
    return next(
        (number for number in range(most, count, -1) if is_allowed(number)), count
    )


_EXAMPLE = 2
_NOTHING = "-"
_SHORT = 12
"""As much of a UUID as is shown: ``GPU-`` and its first group."""


def show(
    *,
    as_json: bool,
    host: Host | None = None,
    accelerators: Sequence[Accelerator] | None = None,
) -> None:
    """Prints which accelerators this machine has, which not, and why.

    Args:
        as_json: Whether to print one JSON document instead of tables.
        host: The machine; None for this one.
        accelerators: The families to ask; None for every family.
    """
    every = families() if accelerators is None else accelerators
    # What a vendor's module prints while it is imported belongs to no document.
    with contextlib.redirect_stdout(sys.stderr):
        summary = look(host or Host(), every)
    if as_json:
        write_document(summary)
    else:
        console().print(draw(summary), crop=False)


def look(host: Host, accelerators: Sequence[Accelerator]) -> Summary:
    """Asks families what there is, and sums it up.

    Args:
        host: The machine.
        accelerators: The families.
    """
    started = time.perf_counter()
    detections = discover(host, accelerators)
    took = time.perf_counter() - started
    claims = DeviceClaims(host).claimants(
        device for detection in detections for device in detection.devices
    )
    return summarize(detections, accelerators, host, took, claims)


def draw(summary: Summary) -> RenderableType:
    """Puts a summary on a page for people, of any width."""
    sections = (
        _table(
            "Devices that actors may hold",
            "family kind id model type memory identity links mask taken-by",
            _offered(summary),
        )
        or "There is no accelerator here that actors could hold.\n",
        _amounts(summary),
        _holding(summary),
        _table("Not offered", "family what model why", _left_out(summary)),
        _reasons(summary),
        _settings(summary),
        _ending(summary),
    )
    return Group(*(section for section in sections if section))


def _table(title: str, columns: str, rows: Sequence[Sequence[str]]) -> Table | None:
    """Makes a table of the columns that are not empty; None without any rows."""
    if not rows:
        return None
    has_content = [
        any(row[place] != _NOTHING for row in rows) for place in range(len(rows[0]))
    ]
    return table(
        [*compress(columns.split(), has_content)],
        [[*compress(row, has_content)] for row in rows],
        title=title,
    )


def _offered(summary: Summary) -> list[Sequence[str]]:
    """A row for each device that actors may hold, by kind and index."""
    rows: list[tuple[str, int, Sequence[str]]] = []
    for family in summary["families"]:
        kind, devices = family["kind"] or "", family["devices"]
        length = _length(devices)
        for device in devices:
            row = (
                family["family"],
                kind,
                device["id"][:length],
                device["model"] or _NOTHING,
                device["type"] or _NOTHING,
                _memory(device),
                _identity(device, length),
                _links(device, devices, length),
                _written(device, length) if family["variable"] else _NOTHING,
                _claims(device),
            )
            rows.append((kind, device["index"], row))
    return [row for _, _, row in sorted(rows)]


def _length(devices: Sequence[DeviceFound]) -> int:
    """How much of an id or a UUID tells it from the others."""
    columns = (
        {device["id"] for device in devices},
        {device["uuid"] or "" for device in devices},
        {device["written"] for device in devices},
        {device["parent"] or "" for device in devices},
    )
    length = _SHORT
    while any(len({word[:length] for word in words}) < len(words) for words in columns):
        length += 1
    return length


def _identity(device: DeviceFound, length: int) -> str:
    """Its UUID, or its PCI address where that is new."""
    uuid = device["uuid"]
    if uuid is None or uuid == device["id"]:
        return device["pci"] or _NOTHING
    return uuid[:length]


def _written(device: DeviceFound, length: int) -> str:
    is_uuid = device["written"] == device["uuid"]
    return "its UUID" if is_uuid else device["written"][:length]


def _claims(device: DeviceFound) -> str:
    claimants = (Claimant(**claim) for claim in device["claims"])
    return describe_claimants(claimants) or _NOTHING


def _memory(device: DeviceFound) -> str:
    if device["memory"] is None:
        return "shared" if device["integrated"] else _NOTHING
    size = format_bytes(device["memory"])
    return f"{size}, shared" if device["integrated"] else size


def _links(device: DeviceFound, devices: Sequence[DeviceFound], length: int) -> str:
    """What a device is a part of, and which others it reaches, by their ids."""
    known = {other["uuid"] or other["id"]: other["id"] for other in devices}
    ids = [known[peer] for peer in device["peers"] if peer in known]
    if all(map(str.isdecimal, ids)):
        reached = _ranges(map(int, ids))
    else:
        reached = ",".join(word[:length] for word in ids)
    parent = f"part of {device['parent'][:length]}" if device["parent"] else ""
    return ", ".join(filter(None, (parent, reached))) or _NOTHING


def _ranges(numbers: Iterable[int]) -> str:
    """Numbers as ``0-2,4``: those in a row differ from their places by the same."""
    runs = groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0])
    ends = [[number for _, number in run] for _, run in runs]
    return ",".join(
        str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ends
    )


def _amounts(summary: Summary) -> str:
    """A line for each resource that is there: how it is asked for."""
    lines: list[str] = []
    for name, kind in summary["kinds"].items():
        masks = {
            family["variable"] or "no variable"
            for family in summary["families"]
            if family["kind"] == name and family["devices"]
        }
        if not masks:
            continue
        counts = f" {', '.join(map(str, kind['counts']))}" if kind["counts"] else ""
        share = "shares of one, or " if kind["divisible"] else ""
        types = ", ".join(kind["types"]) or "unknown"
        memory = _by_memory(summary) if name == "GPU" else ""
        lines.append(
            f"{name}: {kind['count']}, given as {share}whole ones{counts}{memory}; "
            f"accelerator_type {types}; masked by {', '.join(sorted(masks))}.\n"
        )
    return "".join(lines)


def _holding(summary: Summary) -> str:
    """A line for devices that are alike: what makes shares of them hold, what not."""
    alike: dict[tuple[str, str], list[str]] = {}
    for family in summary["families"]:
        for device in family["devices"]:
            shares = device["shares"]
            if shares is None:
                continue
            reasons: dict[str, list[str]] = {}
            for word, why in shares["why_not"].items():
                reasons.setdefault(why, []).append(word)
            said = f"by {', '.join(shares['tiers']) or 'nothing'}.\n" + "".join(
                f"  Not by {', '.join(words)}: {why}.\n"
                for why, words in reasons.items()
            )
            alike.setdefault((family["kind"] or "", said), []).append(
                device["id"][: _length(family["devices"])]
            )
    return "".join(
        f"Shares of {kind} {', '.join(ids)} can be made to hold {said}"
        for (kind, said), ids in alike.items()
    )


def _by_memory(summary: Summary) -> str:
    """How GPUs are asked for by their memory, to go on with a sentence."""
    each = [
        device["memory"]
        for family in summary["families"]
        if family["kind"] == "GPU"
        for device in family["devices"]
    ]
    known = [nbytes for nbytes in each if nbytes]
    if not known:
        return (
            ", or by gpu_memory once init(device_memory={'GPU': '24GiB'}) tells what "
            "each has"
        )
    return f", or by gpu_memory up to {format_askable(max(known))}"


def _left_out(summary: Summary) -> list[Sequence[str]]:
    return [
        (
            family["family"],
            rejected["name"],
            rejected["model"] or _NOTHING,
            rejected["why"],
        )
        for family in summary["families"]
        for rejected in family["rejected"]
    ]


def _reasons(summary: Summary) -> str:
    """A line for each reason of families that was not just given for a device."""
    given: dict[str, list[str]] = {}
    for family in summary["families"]:
        reason = f"{family['reason']}; "
        for rejected in family["rejected"]:
            name, why = rejected["name"], rejected["why"]
            for text in (f"{name} is left out: {why}", f"{name}: {why}", why):
                reason = reason.removeprefix(f"{text}; ")
        if left := reason.removesuffix("; "):
            given.setdefault(left, []).append(family["family"])
    return "".join(f"{', '.join(names)}: {why}\n" for why, names in given.items())


def _settings(summary: Summary) -> str:
    variables = summary["environment"].items()
    lines = [f"  {name}={value!r}\n" for name, value in variables]
    return "".join(["Set in this environment:\n", *lines]) if lines else ""


def _ending(summary: Summary) -> str:
    """What was looked for in vain, and what can be done without a device."""
    families, gpu = summary["families"], summary["kinds"].get("GPU")
    absent = [
        family["family"]
        for family in families
        if not (family["devices"] or family["rejected"] or family["reason"])
    ]
    lines = [f"Looked for without a trace: {', '.join(absent)}.\n"] if absent else []
    if gpu and not any(family["devices"] for family in families):
        lines.append(f"{_advice(summary, gpu['declarable'])}\n")
    lines.append(
        f"{len(families)} families were asked within {summary['took']:.2f} s. "
        "--json tells all of it, with whole UUIDs."
    )
    return "\n".join(lines)


def _advice(summary: Summary, declarable: int | None) -> str:
    if declarable == 0:
        masks = {
            family["said"]
            for family in summary["families"]
            if family["kind"] == "GPU" and family["outer"] == []
        }
        return (
            f"No GPU is left, not even one to be declared, by "
            f"{' and by '.join(sorted(masks))}: unset what hides them, or let it name "
            "some."
        )
    count = _EXAMPLE if declarable is None else min(declarable, _EXAMPLE)
    return (
        "Resources are logical: GPUs that are not there can be declared, to try things "
        f"out, with actorlib.init(num_gpus={count})."
    )
