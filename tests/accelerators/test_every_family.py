"""What holds for every family: how masks are read, and what can be declared."""

from __future__ import annotations

import pytest
from helpers.nvml import nvidia_machine

from actorlib._cli.devices import summarize
from actorlib.accelerators import (
    discover,
    families,
    inventory,
)

FAMILIES = {family.family: family for family in families() if family.visible_env}
MACHINES = {
    "amd": "amd_mi300x",
    "ascend": "ascend_910b",
    "furiosa": "furiosa",
    "gaudi": "gaudi2",
    "intel": "intel_flex",
    "metax": "metax_c500",
    "mobilint": "mobilint_both",
    "neuron": "neuron_trn1",
    "nvidia": "nvidia_h100x8",
    "rbln": "rbln",
    "tenstorrent": "tenstorrent",
    "tpu": "tpu_v5e",
}
CUDA, HIP, ROCR = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"
MACA, ZE = "MACA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"


def test_machines_when_counted_then_there_is_one_for_each_family_with_a_mask() -> None:
    assert MACHINES.keys() == FAMILIES.keys()


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", []),
        ("NoDevFiles", []),
        ("-1", []),
        ("none", []),
        ("1" * 5000, []),
        ("1", ["1"]),
        ("1,", ["1"]),
        ("1,x,0", ["1"]),
        ("1,-1,0", ["1"]),
        ("1,99", ["1"]),
        ("1,1", ["1"]),
    ],
)
def test_detect_when_the_owner_has_a_mask_then_it_is_read_with_care(
    name: str, value: str, expected: list[str]
) -> None:
    family = FAMILIES[name]
    if family.syntax.is_void_by_repeating and value == "1,1":
        expected = []

    found = family.detect(
        nvidia_machine(MACHINES[name], environ={family.visible_env: value})
    )

    assert [device.id for device in found.devices] == expected
    assert found.outer == tuple(expected)
    assert bool(found.reason) is (value not in {"1", "1,"})
    hidden = [lost for lost in found.rejected if lost.why.startswith("hidden by ")]
    assert all(family.visible_env in lost.why for lost in hidden)
    assert hidden


CLOSED = [
    ("amd", {ROCR: ""}, ROCR),
    ("amd", {HIP: ""}, HIP),
    ("amd", {ROCR: "1", HIP: "1"}, HIP),
    ("apple", {}, None),  # nothing masks it
    ("ascend", {"ASCEND_RT_VISIBLE_DEVICES": ""}, "ASCEND_RT_VISIBLE_DEVICES"),
    ("furiosa", {"FURIOSA_DEVICES": ""}, "FURIOSA_DEVICES"),
    ("gaudi", {"HABANA_VISIBLE_MODULES": ""}, "HABANA_VISIBLE_MODULES"),
    ("intel", {ZE: ""}, ZE),
    ("intel", {"ONEAPI_DEVICE_SELECTOR": ""}, "ONEAPI_DEVICE_SELECTOR"),
    ("intel", {ZE: "1", "ONEAPI_DEVICE_SELECTOR": "!level_zero:*"}, ZE),
    ("metax", {CUDA: ""}, CUDA),
    ("metax", {MACA: ""}, MACA),
    ("mobilint", {"QBRUNTIME_VISIBLE_DEVICES": ""}, "QBRUNTIME_VISIBLE_DEVICES"),
    ("neuron", {"NEURON_RT_VISIBLE_CORES": ""}, "NEURON_RT_VISIBLE_CORES"),
    ("nvidia", {CUDA: ""}, CUDA),
    ("nvidia", {CUDA: "NoDevFiles"}, CUDA),
    ("rbln", {"RBLN_DEVICES": ""}, "RBLN_DEVICES"),
    ("rbln", {"RBLN_VISIBLE_DEVICES": "-1"}, "RBLN_VISIBLE_DEVICES"),
    ("tenstorrent", {"TT_VISIBLE_DEVICES": ""}, "TT_VISIBLE_DEVICES"),
    ("tpu", {"TPU_VISIBLE_CHIPS": ""}, "TPU_VISIBLE_CHIPS"),
    ("tpu", {"TPU_VISIBLE_DEVICES": ""}, "TPU_VISIBLE_DEVICES"),
    ("tenstorrent", {"TT_METAL_VISIBLE_DEVICES": ""}, "TT_METAL_VISIBLE_DEVICES"),
]


def test_closed_when_counted_then_every_family_is_among_them() -> None:
    assert {name for name, _, _ in CLOSED} == {f.family for f in families()}


@pytest.mark.parametrize("is_there", [True, False], ids=["machine", "bare"])
@pytest.mark.parametrize(("name", "environ", "said"), CLOSED)
def test_inventory_when_the_mask_leaves_nothing_then_nothing_can_be_declared(
    name: str, environ: dict[str, str], said: str | None, *, is_there: bool
) -> None:
    family = next(family for family in families() if family.family == name)
    machine = {**MACHINES, "apple": "apple_m2_pro"}[name] if is_there else "bare"
    host = nvidia_machine(machine, environ=environ)
    found = discover(host)
    kind = family.kind.name
    told = summarize(found, families(), host, took=0).kinds[kind]

    if said is None:
        assert len(inventory(found, {kind: 9}).devices[kind]) == 9
        assert told.declarable is None
        return
    assert inventory(found, {}).devices[kind] == ()
    with pytest.raises(ValueError, match=f"1 {kind} declared, but .*{said}.* 0"):
        inventory(found, {kind: 1})
    assert told.declarable == 0
