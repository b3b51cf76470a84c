"""Shows the accelerators of this machine: ``actorlib devices``.

``Summary`` is the document that ``actorlib devices --json`` prints, with the columns of
``DOCUMENT``, whose names are stable. Only the command line loads this file, as it
imports rich.
"""

from __future__ import annotations

import contextlib
import sys
import time
from itertools import compress, groupby
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from rich.console import Group

import actorlib
from actorlib._base.value import dataclass
from actorlib._cli.pages import console, write_document
from actorlib._enforcement.enforcement import site_of
from actorlib._features.runtime import make_tiers
from actorlib._options.resources import format_askable, format_bytes
from actorlib._rows.rows import RowEncoder, extend_row
from actorlib._rows.tables import Column, table_of
from actorlib.accelerators import (
    Device,
    Host,
    Rejected,
    discover,
    families,
    inventory,
)
from actorlib.accelerators.claims import Claimant, DeviceClaims, describe_claimants

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from actorlib._enforcement.tiers import Tier
    from actorlib.accelerators import Accelerator, Detection

RowT = TypeVar("RowT")

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRow:
    """The tiers for shares of a device.

    Attributes:
        tiers: The available tiers, the weakest first.
        why_not: Why each of the others is not available.
    """

    tiers: tuple[str, ...]
    why_not: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow(Device):
    """A device that may be granted.

    Attributes:
        claims: The runtimes of this user that use it.
        shares: The tiers for shares of it; None for a device that cannot be shared.
    """

    claims: tuple[Claimant, ...]
    shares: TierRow | None

    @property
    def reached(self) -> tuple[str, ...]:
        """Its peers, in order."""
        return tuple(sorted(self.peers))


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyRow:
    """The devices of one family.

    Attributes:
        family: The family.
        kind: The resource that its devices count as, or None.
        variable: Its visibility variable, or None if it has none.
        value: The owner's value of that, or None if it is unset.
        said: All masks of the owner that apply to it, as they are set.
        outer: The entries of the owner's mask that name a device; see Detection.
        reason: Why there is nothing, or why something was left out.
        devices: Its devices.
        rejected: The candidates that are not offered.
    """

    family: str
    kind: str | None
    variable: str | None
    value: str | None
    said: str
    outer: tuple[str, ...] | None
    reason: str
    devices: tuple[DeviceRow, ...]
    rejected: tuple[Rejected, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """One resource.

    Attributes:
        count: The number of its devices.
        divisible: Whether shares of a device can be granted.
        counts: The possible numbers of whole devices; None for any number.
        types: The types of its devices.
        declarable: The most devices that may be declared; None for any number.
    """

    count: int
    divisible: bool
    counts: tuple[int, ...] | None
    types: tuple[str, ...]
    declarable: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The accelerators of a machine.

    Attributes:
        version: The version of actorlib.
        families: All families, by name.
        kinds: The resources, by name.
        environment: The relevant variables that are set.
        took: The seconds of the detection.
    """

    version: str
    families: tuple[FamilyRow, ...]
    kinds: dict[str, KindRow]
    environment: dict[str, str]
    took: float


DOCUMENT: Final = RowEncoder(
    {
        DeviceRow: (
            "id index uuid pci model type memory parent peers=reached "
            "integrated source written claims shares"
        ),
        Rejected: "name model why",
    }
)
"""The columns of the document; rows of other classes have all their fields."""


def summarize(
    detections: Sequence[Detection],
    accelerators: Sequence[Accelerator],
    host: Host,
    took: float,
    claims: Mapping[Device, Sequence[Claimant]] | None = None,
) -> Summary:
    """Converts detections of families to plain values, in a stable order."""
    machine = inventory(detections, {}, accelerators)
    claimed = {(d.family, d.id): each for d, each in (claims or {}).items()}
    environ = host.environ
    site, _ = site_of(host, machine)
    tiers = make_tiers(site) if site.devices else []
    shares = {device: _shares(device, tiers) for device in site.devices}
    offered = {detection.family: detection for detection in machine.detections}
    names = {name for f in accelerators for name in (f.visible_env, *f.nosets)} | {
        *_OTHER_VARIABLES
    }
    return Summary(
        version=actorlib.__version__,
        families=tuple(
            _family(
                family,
                offered[family.family],
                tuple(
                    extend_row(
                        DeviceRow,
                        device,
                        claims=tuple(claimed.get((device.family, device.id), ())),
                        shares=shares.get(device),
                    )
                    for device in machine.by_family.get(family.family, ())
                ),
                environ,
            )
            for family in sorted(accelerators, key=lambda family: family.family)
        ),
        kinds={
            name: KindRow(
                count=len(devices),
                divisible=machine.kinds[name].divisible,
                counts=machine.kinds[name].counts,
                types=tuple(sorted({d.type for d in devices if d.type})),
                declarable=_declarable(name, len(devices), detections, accelerators),
            )
            for name, devices in sorted(machine.devices.items())
        },
        environment={name: environ[name] for name in sorted(names & {*environ})},
        took=round(took, 6),
    )


def _family(
    family: Accelerator,
    detection: Detection,
    devices: tuple[DeviceRow, ...],
    environ: Mapping[str, str],
) -> FamilyRow:
    return FamilyRow(
        family=family.family,
        kind=family.kind.name or None,
        variable=family.visible_env or None,
        value=environ.get(family.visible_env),
        said=detection.said,
        outer=detection.outer,
        reason=detection.reason,
        devices=devices,
        rejected=detection.rejected,
    )


def _shares(device: Device, tiers: Sequence[Tier]) -> TierRow:
    why_not = {tier.word: tier.fault(device) for tier in tiers}
    return TierRow(
        tiers=tuple(word for word, why in why_not.items() if not why),
        why_not={word: why for word, why in why_not.items() if why},
    )


def _declarable(
    kind: str,
    count: int,
    detections: Sequence[Detection],
    accelerators: Sequence[Accelerator],
) -> int | None:
    """Returns the most devices of a kind that may be declared, with the detected."""

    def is_allowed(number: int) -> bool:
        # The inventory knows which masks apply, so this tries numbers.
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
"""Characters of a UUID that are shown: ``GPU-`` and its first group."""


def show(
    *,
    as_json: bool,
    host: Host | None = None,
    accelerators: Sequence[Accelerator] | None = None,
) -> None:
    """Prints the accelerators of a machine, and why others are not offered."""
    every = families() if accelerators is None else accelerators
    # A vendor's module may print while it is imported, which would break the document.
    with contextlib.redirect_stdout(sys.stderr):
        summary = look(host or Host(), every)
    if as_json:
        write_document(DOCUMENT.encode(summary))
    else:
        console().print(draw(summary), crop=False)


def look(host: Host, accelerators: Sequence[Accelerator]) -> Summary:
    """Detects the devices of families, and returns the summary."""
    started = time.perf_counter()
    detections = discover(host, accelerators)
    took = time.perf_counter() - started
    claims = DeviceClaims(host).claimants(
        device for detection in detections for device in detection.devices
    )
    return summarize(detections, accelerators, host, took, claims)


def draw(summary: Summary) -> RenderableType:
    """Lays out a summary as tables and sentences."""
    sections = (
        _table("Devices that actors may hold", _OFFERED, _list_offered(summary))
        or "There is no accelerator here that actors could hold.\n",
        _amounts(summary),
        _holding(summary),
        _table("Not offered", _LEFT_OUT, _list_rejected(summary)),
        _reasons(summary),
        _settings(summary),
        _ending(summary),
    )
    return Group(*(section for section in sections if section))


def _table(
    title: str, columns: Sequence[Column[RowT]], rows: Sequence[RowT]
) -> Table | None:
    """Makes a table of the columns that are not empty; None without rows."""
    if not rows:
        return None
    cells = [[column.cell(row) for column in columns] for row in rows]
    has_content = [
        any(row[place] != _NOTHING for row in cells) for place in range(len(columns))
    ]
    return table_of(
        [*compress(columns, has_content)],
        [[*compress(row, has_content)] for row in cells],
        title,
    )


class _Offered(NamedTuple):
    """A device of a family, and how many characters of its id are unique."""

    family: FamilyRow
    device: DeviceRow
    length: int


_OFFERED: list[Column[_Offered]] = [
    Column("family", lambda row: row.family.family),
    Column("kind", lambda row: row.family.kind or ""),
    Column("id", lambda row: row.device.id[: row.length]),
    Column("model", lambda row: row.device.model or _NOTHING),
    Column("type", lambda row: row.device.type or _NOTHING),
    Column("memory", lambda row: _memory(row.device)),
    Column("identity", lambda row: _identity(row.device, row.length)),
    Column("links", lambda row: _links(row.device, row.family.devices, row.length)),
    Column("mask", lambda row: _written(row) if row.family.variable else _NOTHING),
    Column("taken-by", lambda row: describe_claimants(row.device.claims) or _NOTHING),
]
_LEFT_OUT: list[Column[tuple[FamilyRow, Rejected]]] = [
    Column("family", lambda row: row[0].family),
    Column("what", lambda row: row[1].name),
    Column("model", lambda row: row[1].model or _NOTHING),
    Column("why", lambda row: row[1].why),
]


def _list_offered(summary: Summary) -> list[_Offered]:
    """Returns a row for each offered device, by kind and index."""
    rows = [
        _Offered(family, device, _length(family.devices))
        for family in summary.families
        for device in family.devices
    ]
    return sorted(
        rows,
        key=lambda row: (row.family.kind or "", row.device.index, row.family.family),
    )


def _length(devices: Sequence[DeviceRow]) -> int:
    """Returns how many characters of ids and UUIDs distinguish the devices."""
    columns = (
        {device.id for device in devices},
        {device.uuid or "" for device in devices},
        {device.written for device in devices},
        {device.parent or "" for device in devices},
    )
    length = _SHORT
    while any(len({word[:length] for word in words}) < len(words) for words in columns):
        length += 1
    return length


def _identity(device: DeviceRow, length: int) -> str:
    """Returns the UUID of a device, or its PCI address if the id is the UUID."""
    uuid = device.uuid
    if uuid is None or uuid == device.id:
        return device.pci or _NOTHING
    return uuid[:length]


def _written(row: _Offered) -> str:
    written = row.device.written
    return "its UUID" if written == row.device.uuid else written[: row.length]


def _memory(device: DeviceRow) -> str:
    if device.memory is None:
        return "shared" if device.integrated else _NOTHING
    size = format_bytes(device.memory)
    return f"{size}, shared" if device.integrated else size


def _links(device: DeviceRow, devices: Sequence[DeviceRow], length: int) -> str:
    """Returns the parent of a device and its linked devices, by their ids."""
    ids_by_uuid = {other.uuid or other.id: other.id for other in devices}
    ids = [ids_by_uuid[peer] for peer in device.reached if peer in ids_by_uuid]
    if all(map(str.isdecimal, ids)):
        reached = _ranges(map(int, ids))
    else:
        reached = ",".join(word[:length] for word in ids)
    parent = f"part of {device.parent[:length]}" if device.parent else ""
    return ", ".join(filter(None, (parent, reached))) or _NOTHING


def _ranges(numbers: Iterable[int]) -> str:
    """Formats numbers as ``0-2,4``: those of a run have one distance to their place."""
    runs = groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0])
    ends = [[number for _, number in run] for _, run in runs]
    return ",".join(
        str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ends
    )


def _amounts(summary: Summary) -> str:
    """Returns a line for each resource of the machine: how to request it."""
    lines: list[str] = []
    for name, kind in summary.kinds.items():
        masks = {
            family.variable or "no variable"
            for family in summary.families
            if family.kind == name and family.devices
        }
        if not masks:
            continue
        counts = f" {', '.join(map(str, kind.counts))}" if kind.counts else ""
        share = "shares of one, or " if kind.divisible else ""
        types = ", ".join(kind.types) or "unknown"
        memory = _by_memory(summary) if name == "GPU" else ""
        lines.append(
            f"{name}: {kind.count}, given as {share}whole ones{counts}{memory}; "
            f"accelerator_type {types}; masked by {', '.join(sorted(masks))}.\n"
        )
    return "".join(lines)


def _holding(summary: Summary) -> str:
    """Returns a line for similar devices: which tiers their shares have."""
    alike: dict[tuple[str, str], list[str]] = {}
    for family in summary.families:
        for device in family.devices:
            shares = device.shares
            if shares is None:
                continue
            reasons: dict[str, list[str]] = {}
            for word, why in shares.why_not.items():
                reasons.setdefault(why, []).append(word)
            tiers = f"by {', '.join(shares.tiers) or 'nothing'}.\n" + "".join(
                f"  Not by {', '.join(words)}: {why}.\n"
                for why, words in reasons.items()
            )
            alike.setdefault((family.kind or "", tiers), []).append(
                device.id[: _length(family.devices)]
            )
    return "".join(
        f"Shares of {kind} {', '.join(ids)} can be made to hold {tiers}"
        for (kind, tiers), ids in alike.items()
    )


def _by_memory(summary: Summary) -> str:
    """Returns the part of a sentence on requests by the memory of GPUs."""
    each = [
        device.memory
        for family in summary.families
        if family.kind == "GPU"
        for device in family.devices
    ]
    sizes = [nbytes for nbytes in each if nbytes]
    if not sizes:
        return (
            ", or by gpu_memory once init(device_memory={'GPU': '24GiB'}) tells what "
            "each has"
        )
    return f", or by gpu_memory up to {format_askable(max(sizes))}"


def _list_rejected(summary: Summary) -> list[tuple[FamilyRow, Rejected]]:
    return [
        (family, rejected)
        for family in summary.families
        for rejected in family.rejected
    ]


def _reasons(summary: Summary) -> str:
    """Returns a line for each reason of families that is not that of a device."""
    families: dict[str, list[str]] = {}
    for family in summary.families:
        reason = f"{family.reason}; "
        for rejected in family.rejected:
            name, why = rejected.name, rejected.why
            for text in (f"{name} is left out: {why}", f"{name}: {why}", why):
                reason = reason.removeprefix(f"{text}; ")
        if rest := reason.removesuffix("; "):
            families.setdefault(rest, []).append(family.family)
    return "".join(f"{', '.join(names)}: {why}\n" for why, names in families.items())


def _settings(summary: Summary) -> str:
    variables = summary.environment.items()
    lines = [f"  {name}={value!r}\n" for name, value in variables]
    return "".join(["Set in this environment:\n", *lines]) if lines else ""


def _ending(summary: Summary) -> str:
    """Returns the families without a device, and advice for a machine without any."""
    families, gpu = summary.families, summary.kinds.get("GPU")
    absent = [
        family.family
        for family in families
        if not (family.devices or family.rejected or family.reason)
    ]
    lines = [f"Looked for without a trace: {', '.join(absent)}.\n"] if absent else []
    if gpu and not any(family.devices for family in families):
        lines.append(f"{_advice(summary, gpu.declarable)}\n")
    lines.append(
        f"{len(families)} families were asked within {summary.took:.2f} s. "
        "--json tells all of it, with whole UUIDs."
    )
    return "\n".join(lines)


def _advice(summary: Summary, declarable: int | None) -> str:
    if declarable == 0:
        masks = {
            family.said
            for family in summary.families
            if family.kind == "GPU" and family.outer == ()
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
