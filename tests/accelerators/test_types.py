"""A user's word for a model means the types that others would write for it."""

from __future__ import annotations

import pytest

from actorlib.accelerators import types
from actorlib.accelerators.base import Device
from actorlib.accelerators.type_names import canonical, matcher, of_name, of_nvidia

GIB = 2**30


def device(type_: str | None, memory: int | None = None) -> Device:
    return Device(
        family="nvidia", kind="GPU", index=0, id="0", type=type_, memory=memory
    )


def test_types_when_all_are_imported_then_they_are_the_constants_alone() -> None:
    imported: dict[str, object] = {}
    exec("from actorlib.accelerators.types import *", imported)
    # pytest adds names of its own, which are not identifiers.
    names = [name for name in imported if name.isidentifier() and name[0] != "_"]

    assert imported["NVIDIA_H100"] == "H100"
    assert all(isinstance(imported[name], str) for name in names)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (types.NVIDIA_H100, "H100"),
        ("h100", "H100"),
        ("NVIDIA-A100", "A100"),
        ("nvidia tesla v100", "V100"),
        ("Tesla_T4", "T4"),
        ("rtx pro 6000", "RTX-PRO-6000"),
        ("GeForce RTX 4090", "GeForce-RTX-4090"),
        ("RTX-4090", "GeForce-RTX-4090"),
        ("RTX", "RTX-A6000"),
        ("RTX", "RTX-PRO-6000"),
        ("TITAN", "TITAN-V"),
        (types.AMD_INSTINCT_MI308x, "AMD-Instinct-MI308X-OAM"),
        ("MI300X", types.AMD_INSTINCT_MI300x),
        ("MI250", types.AMD_INSTINCT_MI250),
        ("Gaudi2", "Intel-GAUDI2"),
        ("Max-1550", types.INTEL_MAX_1550),
        ("tpu_v5e", types.GOOGLE_TPU_V5LITEPOD),
        (types.HUAWEI_NPU_910B, "Ascend910B4"),
        ("MetaX C500", types.METAX_C500),
        ("RNGD", types.FURIOSA_RNGD),
        ("m2 pro", types.APPLE_M2_PRO),
        ("A100-80G", "A100-80G"),
    ],
)
def test_canonical_when_a_word_means_a_type_then_finds_it(
    asked: str, found: str
) -> None:
    assert canonical(asked, ["K80", found, "MXC600"]) == found


@pytest.mark.parametrize(
    ("asked", "here"),
    [
        ("H100", "H200"),
        ("H100", "GH100"),
        ("H20", "H200"),
        ("M2", "M2-Pro"),
        ("GeForce-GTX-1080", "GeForce-GTX-1080-Ti"),
        ("MI300X", types.AMD_INSTINCT_MI300x_HF),
        ("Ascend910B4", "Ascend910B3"),
        ("A100-80G", "A100"),
        ("", "H100"),
        ("nvidia-", "H100"),
    ],
)
def test_canonical_when_a_type_is_another_then_it_is_not_meant(
    asked: str, here: str
) -> None:
    assert canonical(asked, [here]) is None


def test_canonical_when_several_fit_then_the_closest_is_meant() -> None:
    here = ["RTX-A6000", "rtx", "RTX"]
    assert canonical("RTX", here) == "RTX"
    assert canonical("Rtx", here) == "rtx"
    assert canonical("titan", ["TITAN-V", "TITAN-RTX"]) == "TITAN-V"


@pytest.mark.parametrize(
    ("asked", "type_", "memory", "is_met"),
    [
        ("A100", "A100", 40 * GIB, True),
        (types.NVIDIA_A100_40G, "A100", 40 * GIB, True),
        (types.NVIDIA_A100_80G, "A100", 80 * GIB, True),
        (types.NVIDIA_A100_80G, "A100", 40 * GIB, False),
        (types.NVIDIA_A100_40G, "A100", 80 * GIB, False),
        (types.NVIDIA_A100_80G, "A100", None, False),
        (types.NVIDIA_A100_80G, "H100", 80 * GIB, False),
        (types.NVIDIA_A100_80G, types.NVIDIA_A100_80G, None, True),
        ("nvidia-l4-24gb", "L4", 23034 * 2**20, True),
        ("H100-80GB", "H100", 95830 * 2**20, False),
        ("H100", None, 80 * GIB, False),
    ],
)
def test_matcher_when_a_device_is_tried_then_its_type_and_size_count(
    asked: str, type_: str | None, memory: int | None, *, is_met: bool
) -> None:
    assert matcher(asked)(device(type_, memory)) is is_met


@pytest.mark.parametrize(
    ("model", "type_"),
    [
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla T4", "T4"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA GB10", "GB10"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"),
        ("NVIDIA RTX A6000", "RTX-A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000"),
        ("Quadro RTX 8000", "RTX-8000"),
        ("NVIDIA GeForce RTX 4090", "GeForce-RTX-4090"),
        ("NVIDIA GeForce GTX 1080 Ti", "GeForce-GTX-1080-Ti"),
        ("NVIDIA TITAN RTX", "TITAN-RTX"),
        ("Orin (nvgpu)", "Orin-(nvgpu)"),
        ("", None),
        ("Unknown", None),
        ("NVIDIA Graphics Device", None),
    ],
)
def test_of_nvidia_when_a_card_says_its_name_then_it_is_rays_type(
    model: str, type_: str | None
) -> None:
    assert of_nvidia(model) == type_


@pytest.mark.parametrize(
    ("told", "type_"),
    [
        ("RBLN-CA22", "RBLN-CA22"),
        (" MXC500\n", "MXC500"),
        ("GeForce RTX 3070", "GeForce-RTX-3070"),
        ("Orin (nvgpu)", "Orin-(nvgpu)"),
        *((nothing, None) for nothing in (None, "", " ", "-1", "0x", "4095", "?")),
        *((nothing, None) for nothing in ("Unknown", "N/A", "none", "Graphics Device")),
        *((nothing, None) for nothing in ("GPU-,", "\ufffd\ufffd", "../\0", "a" * 99)),
    ],
)
def test_of_name_when_a_driver_tells_a_name_then_nonsense_is_no_type(
    told: str | None, type_: str | None
) -> None:
    assert of_name(told) == type_
