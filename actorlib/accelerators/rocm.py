"""Lists the GPUs with ROCm's numbers, and reads its masks like ROCm.

The kernel's compute driver, KFD, has a folder for every CPU and GPU in
``/sys/class/kfd/kfd/topology/nodes``. ROCm numbers the GPUs in that order and skips
unusable ones: those whose properties a container may not read and those whose render
node does not open (libhsakmt, topology.c). A container with one GPU of eight calls it
0, and so does this module. The partitions of an MI300 are separate GPUs here. They have
no ``parent``: unlike MIG instances, one process opens many.

The kernel does not say which GPU is part of a CPU. These are: GPUs without their own
memory, GPUs that share a folder with CPU cores, and GPUs that LLVM's list of AMD
targets calls APUs, which may have a reserved part of the machine's memory.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from actorlib._base.value import dataclass
from actorlib._options.kinds import GPU
from actorlib.accelerators.base import Device, Rejected
from actorlib.accelerators.files import closed
from actorlib.accelerators.masks import Mask, Syntax, number, read_mask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from actorlib.accelerators.host import Host

ROCR = "ROCR_VISIBLE_DEVICES"

_FOLDERS = "/sys/class/kfd/kfd/topology/nodes"
_FACT = re.compile(r"^(\w+) +(\d{1,20})$", re.ASCII | re.MULTILINE)
_XGMI = 11
_OF_THE_CARD = (1, 2)
"""The heaps of a card's memory: the part that a CPU can reach, and the other."""

_APUS = frozenset(
    f"gfx{target}"
    for target in (
        *("801", "810", "902", "909", "90c", "1013", "1033", "1035", "1036"),
        *("1103", "1150", "1151", "1152", "1153"),
    )
)
_TYPES = {
    0x66A1: "AMD-Instinct-MI50",
    0x738C: "AMD-Instinct-MI100",
    0x7408: "AMD-Instinct-MI250X",
    0x740C: "AMD-Instinct-MI250X-MI250",
    0x740F: "AMD-Instinct-MI210",
    0x74A0: "AMD-Instinct-MI300A",
    0x74A1: "AMD-Instinct-MI300X-OAM",
    0x74A2: "AMD-Instinct-MI308X-OAM",
    0x74A5: "AMD-Instinct-MI325X-OAM",
    0x74A9: "AMD-Instinct-MI300X-HF",
    0x75A0: "AMD-Instinct-MI350X-OAM",
    0x75A3: "AMD-Instinct-MI355X-OAM",
    0x6798: "AMD-Radeon-R9-200-HD-7900",
    0x6799: "AMD-Radeon-HD-7900",
    0x679A: "AMD-Radeon-HD-7900",
    0x679B: "AMD-Radeon-HD-7900",
}
"""By PCI device id, with Ray's names. The others are named by target: gfx1100."""


@dataclass(frozen=True, slots=True)
class _Gpu:
    place: int
    device: Device
    links: frozenset[int]


def find_gpus(host: Host, family: str) -> tuple[tuple[Device, ...], list[Rejected]]:
    """Lists the GPUs that ROCm can use, with its numbers, and the others."""
    gpus: list[_Gpu] = []
    rejected: list[Rejected] = []
    paths = map(PurePosixPath, host.glob(f"{_FOLDERS}/*/properties"))
    for place, folder in sorted((int(path.parent.name), path.parent) for path in paths):
        text = host.read_text(f"{folder}/properties")
        if text is None:
            why = "the kernel does not show it to this container"
            rejected.append(Rejected(name=f"KFD node {place}", why=why))
            continue
        facts = _facts(text)
        if not facts.get("simd_count"):
            continue  # a CPU
        render = f"/dev/dri/renderD{facts.get('drm_render_minor', 0)}"
        device = _device(host, facts, str(folder), family)
        why = closed(host, "/dev/kfd") or closed(host, render)
        if why:
            rejected.append(Rejected(name=render, why=why, model=device.model))
        else:
            gpus.append(_Gpu(place, device, _links(host, str(folder))))
    return _linked(gpus), rejected


def read_layer(name: str, environ: Mapping[str, str]) -> Mask | None:
    """Reads one layer of masks, or None if the variable is unset.

    ROCr accepts blanks and UUIDs in any case, and ends before a repeated entry
    (ROCR-Runtime, amd_filter_device.cpp). HIP and OpenCL accept neither blanks nor
    leading zeros, and a repeated entry counts once (clr, rocdevice.cpp).
    """
    is_lowest = name == ROCR
    entries: set[str] = set()

    def read(text: str, _: str) -> Sequence[str] | None:
        text = text.strip() if is_lowest else text
        is_uuid = text[:4].upper() == "GPU-" and len(text) > 4
        entry = f"GPU-{text[4:].lower()}" if is_uuid else number(text)
        is_plain = is_uuid or entry == text
        if entry is None or not is_plain or (is_lowest and entry in entries):
            return None
        entries.add(entry)
        return (entry,)

    wanted = "new index or UUID" if is_lowest else "plain index or UUID"
    return read_mask(name, environ.get(name), Syntax(wanted=wanted, read=read))


def _linked(gpus: list[_Gpu]) -> tuple[Device, ...]:
    # A shared UUID identifies none of them: older kernels gave all partitions of a
    # card the id of the card.
    shared = Counter(one.device.uuid for one in gpus)
    named = {
        one.place: replace(
            one.device,
            id=str(number),
            uuid=one.device.uuid if shared[one.device.uuid] == 1 else None,
        )
        for number, one in enumerate(gpus)
    }
    return tuple(
        replace(
            named[one.place],
            peers=frozenset(
                named[p].key for p in one.links - {one.place} if p in named
            ),
        )
        for one in gpus
    )


def _device(host: Host, facts: dict[str, int], folder: str, family: str) -> Device:
    version, spot = facts.get("gfx_target_version", 0), facts.get("location_id", 0)
    target = f"gfx{version // 10_000}{version // 100 % 100:x}{version % 100:x}"
    kind = _TYPES.get(facts.get("device_id", 0), target if version else None)
    drm = f"/sys/class/drm/renderD{facts.get('drm_render_minor', 0)}/device"
    name = host.read_word(f"{drm}/product_name")
    memory = _memory(host, folder, drm)
    return Device(
        family=family,
        kind=GPU.name,
        id="",
        # As ROCr writes it; devices without one have no UUID.
        uuid=f"GPU-{unique:016x}" if (unique := facts.get("unique_id", 0)) else None,
        pci=f"{facts.get('domain', 0):04x}:{spot >> 8 & 0xFF:02x}"
        f":{spot >> 3 & 0x1F:02x}.{spot & 7}",
        model=name or (kind and kind.replace("-", " ")),
        type=kind,
        memory=memory,
        integrated=not memory or target in _APUS or bool(facts.get("cpu_cores_count")),
        source="KFD",
    )


def _memory(host: Host, folder: str, drm: str) -> int | None:
    listed = sum(
        bank.get("size_in_bytes", 0)
        for bank in _parts(host, folder, "mem_banks")
        if bank.get("heap_type") in _OF_THE_CARD
    )
    return listed or host.read_number(f"{drm}/mem_info_vram_total") or None


def _links(host: Host, folder: str) -> frozenset[int]:
    """Returns the folders that XGMI connects, which may be CPUs."""
    links = _parts(host, folder, "io_links")
    return frozenset(
        link["node_to"]
        for link in links
        if link.get("type") == _XGMI and "node_to" in link
    )


def _parts(host: Host, folder: str, name: str) -> Iterator[dict[str, int]]:
    for path in host.glob(f"{folder}/{name}/*/properties"):
        yield _facts(host.read_text(path) or "")


def _facts(text: str) -> dict[str, int]:
    """Reads the lines of a KFD file: a name and a number each."""
    return {name: int(number) for name, number in _FACT.findall(text)}
