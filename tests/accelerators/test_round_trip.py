"""What a process is shown and reads again is what its lease holds, for every family.

A worker is an owner in its turn: on the same machine, with the variables that it was
given, its own probe has to find the devices of its lease and no others.
"""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING

import pytest
from helpers.host import HOSTS
from helpers.nvml import nvidia_machine

from actorlib.accelerators import Lease, Share, discover, environment, inventory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from helpers.host import RecordedHost

    from actorlib.accelerators import Accelerator, Device, Inventory

MACHINES = sorted(path.stem for path in HOSTS.glob("*.toml"))
CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
ZE, SYCL = "ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"
CARDS = {"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}
WHEREVER = frozenset({"ascend", "intel", "tenstorrent"})
"""Families whose masks have no order: a process counts devices by their numbers."""

MASKS: tuple[tuple[str, dict[str, str]], ...] = (
    ("amd_mi300x", {ROCR: "3,GPU-5ac7d1f05b0fe5b2,1"}),
    ("amd_mi300x", {HIP: "3,1"}),
    ("amd_mi300x", {ROCR: "3,2,1", HIP: "2,0"}),
    ("amd_mi300x", {ROCR: "3,2,1", CUDA: "2,0"}),
    ("amd_mi300x", {"GPU_DEVICE_ORDINAL": "1,2"}),
    ("ascend_910b", {"ASCEND_RT_VISIBLE_DEVICES": "1,3", "ASCEND_DEVICE_ID": "1"}),
    ("furiosa", {"FURIOSA_DEVICES": "npu:2,1:0-3"}),
    ("gaudi2", {"HABANA_VISIBLE_MODULES": "5,3", "HLS_MODULE_ID": "5"}),
    ("intel_desktop", {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}),
    ("intel_max1550", CARDS),
    ("intel_max1550", {ZE: "0.1,1", **CARDS}),
    ("intel_max1550", {ZE: "1,2", SYCL: "!level_zero:0"}),
    ("intel_max1550", {SYCL: "level_zero:0.1", **CARDS}),
    ("metax_c500", {"MACA_VISIBLE_DEVICES": "1,0", "MACA_DEVICE_ORDER": "FASTEST"}),
    ("metax_nvidia", {CUDA: "0"}),
    ("mobilint", {"QBRUNTIME_VISIBLE_DEVICES": "2,0"}),
    ("neuron_trn2", {"NEURON_RT_VISIBLE_CORES": "2-5,0"}),
    ("neuron_trn2", {"NEURON_LOGICAL_NC_CONFIG": "1", "NEURON_RT_NUM_CORES": "4"}),
    ("nvidia_h100x8", {CUDA: "6,GPU-5", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}),
    ("nvidia_mig", {CUDA: "2,0"}),
    ("nvidia_mig", {CUDA: "MIG-cb,MIG-c6"}),
    ("nvidia_mixed", {CUDA: "GPU-40905f3c-5a4e-8d2e-1b1f-7d1d0a6c9e3,GPU-a"}),
    ("nvidia_mixed", {CUDA: "2,0"}),
    ("nvidia_mixed", {CUDA: "2,0", "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}),
    ("nvidia_proc_only", {CUDA: "1,0"}),
    ("rbln", {"RBLN_VISIBLE_DEVICES": "3,1"}),
    ("rbln", {"RBLN_VISIBLE_DEVICES": "all"}),
    ("tenstorrent", {"TT_VISIBLE_DEVICES": "3,0000:41:00.0"}),
    ("tenstorrent", {"TT_METAL_VISIBLE_DEVICES": "3,1"}),
    ("tpu_v5e", {"TPU_VISIBLE_DEVICES": "3,1"}),
)
"""What owners set, besides what we set for them."""


@functools.cache
def machine(name: str) -> RecordedHost:
    return nvidia_machine(name)


def look(
    name: str, environ: Mapping[str, str], asked: Sequence[Accelerator] | None = None
) -> Inventory:
    """What a process with exactly these variables finds on a machine."""
    host = copy.copy(machine(name))
    host._environ = dict(environ)
    return inventory(discover(host, asked), {}, asked)


def child(
    held: Sequence[Device], known: Inventory, environ: Mapping[str, str]
) -> dict[str, str]:
    """The environment of a process that holds these devices."""
    shares = tuple(Share(device, 10_000) for device in held)
    lease = Lease(amounts={}, shares=shares)
    changes = environment(lease, known, hide=True, environ=environ)
    every = {**environ, **changes}
    return {name: value for name, value in every.items() if value is not None}


def leases(devices: Sequence[Device]) -> Iterator[Sequence[Device]]:
    """No device, the first, the last, the last two, and all that one may hold."""
    # A mask of CUDA's is of one kind: MIG instances, or whole cards.
    alike = [d for d in devices if bool(d.parent) is bool(devices[-1].parent)]
    yield from ((), devices[:1], devices[-1:], alike[-2:], alike)


def what(devices: Sequence[Device]) -> list[tuple[object, ...]]:
    """What tells devices from each other, whatever they are called."""
    told = [(d.family, d.source, d.pci, d.uuid, d.memory, d.written) for d in devices]
    is_unordered = any(device.family in WHEREVER for device in devices)
    return sorted(told, key=str) if is_unordered else told


@pytest.mark.parametrize(
    ("name", "environ"), [*((name, {}) for name in MACHINES), *MASKS], ids=str
)
def test_environment_when_it_is_read_again_then_it_selects_the_lease(
    name: str, environ: Mapping[str, str]
) -> None:
    environ = {**machine(name).environ, **environ}
    known = look(name, environ)
    for family in known.families:
        if not family.visible_env:
            continue  # nothing can be hidden
        for held in leases(known.by_family.get(family.family, ())):
            shown = child(held, known, environ)
            again = look(name, shown, known.families)
            mine = again.by_family.get(family.family, ())
            assert what(mine) == what(held)

        # The last worker held all, and has a worker in its turn.
        nested = child(mine[-1:], again, shown)
        last = look(name, nested, [family]).by_family.get(family.family, ())
        assert what(last) == what(mine[-1:])
