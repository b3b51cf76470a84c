"""Fake devices, so that a program can be tried without hardware.

With ``ACTORLIB_FAKE_DEVICES="2xH100"`` in its environment, the runtime of a program has
exactly these devices and does not look for real ones. They have the kind, the type and
the memory of real ones, and are masked like real ones. Tools that count processes on
devices do not know them, and frameworks do not find them.

Facts that a family's driver does not report of real devices are unknown here, too.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from actorlib.accelerators import types
from actorlib.accelerators.base import Detection, Device
from actorlib.accelerators.type_names import matcher

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actorlib.accelerators.base import Accelerator

VARIABLE = "ACTORLIB_FAKE_DEVICES"
NOT_LOOKED_FOR = f"not looked for, as {VARIABLE} is set"
"""Why a family has no devices that none of the words asks for."""
NONE = "none"
_MOST = 1024
"""The most devices of one word."""
_PART = re.compile(r"(?:(\d{1,6})\s*[xX*]\s*)?([A-Za-z].*)")


class Model(NamedTuple):
    """A model as its family finds it.

    Attributes:
        family: The family.
        type: Its name for ``accelerator_type``.
        name: The product name.
        size: Its nominal memory in GiB; 0 if its driver does not report it.
    """

    family: str
    type: str
    name: str
    size: int = 0


# The sizes are the makers' own, of the usual version of a model.
MODELS = (
    Model("nvidia", types.NVIDIA_TESLA_K80, "Tesla K80", 12),
    Model("nvidia", types.NVIDIA_TESLA_P4, "Tesla P4", 8),
    Model("nvidia", types.NVIDIA_TESLA_P100, "Tesla P100-PCIE-16GB", 16),
    Model("nvidia", types.NVIDIA_TESLA_V100, "Tesla V100-SXM2-16GB", 16),
    Model("nvidia", types.NVIDIA_TESLA_V100, "Tesla V100-SXM2-32GB", 32),
    Model("nvidia", types.NVIDIA_TESLA_T4, "Tesla T4", 16),
    Model("nvidia", types.NVIDIA_TESLA_A10G, "NVIDIA A10G", 24),
    Model("nvidia", types.NVIDIA_A100, "NVIDIA A100-SXM4-40GB", 40),
    Model("nvidia", types.NVIDIA_A100, "NVIDIA A100-SXM4-80GB", 80),
    Model("nvidia", types.NVIDIA_L4, "NVIDIA L4", 24),
    Model("nvidia", types.NVIDIA_L40S, "NVIDIA L40S", 48),
    Model("nvidia", types.NVIDIA_H100, "NVIDIA H100 80GB HBM3", 80),
    Model("nvidia", types.NVIDIA_H200, "NVIDIA H200", 141),
    Model("nvidia", types.NVIDIA_H20, "NVIDIA H20", 96),
    Model("nvidia", types.NVIDIA_B200, "NVIDIA B200", 180),
    Model("nvidia", types.NVIDIA_B300, "NVIDIA B300", 288),
    Model("nvidia", types.NVIDIA_GB200, "NVIDIA GB200", 186),
    Model("nvidia", types.NVIDIA_GB300, "NVIDIA GB300", 288),
    Model("nvidia", types.NVIDIA_RTX_PRO_6000, "NVIDIA RTX PRO 6000", 96),
    Model("amd", types.AMD_INSTINCT_MI100, "AMD Instinct MI100", 32),
    Model("amd", types.AMD_INSTINCT_MI210, "AMD Instinct MI210", 64),
    Model("amd", types.AMD_INSTINCT_MI250, "AMD Instinct MI250X / MI250", 64),
    Model("amd", types.AMD_INSTINCT_MI250x, "AMD Instinct MI250X", 64),
    Model("amd", types.AMD_INSTINCT_MI300A, "AMD Instinct MI300A", 128),
    Model("amd", types.AMD_INSTINCT_MI300x, "AMD Instinct MI300X", 192),
    Model("amd", types.AMD_INSTINCT_MI300x_HF, "AMD Instinct MI300X HF", 192),
    Model("amd", types.AMD_INSTINCT_MI308x, "AMD Instinct MI308X", 192),
    Model("amd", types.AMD_INSTINCT_MI325x, "AMD Instinct MI325X", 256),
    Model("amd", types.AMD_INSTINCT_MI350x, "AMD Instinct MI350X", 288),
    Model("amd", types.AMD_INSTINCT_MI355x, "AMD Instinct MI355X", 288),
    Model("amd", types.AMD_RADEON_R9_200_HD_7900, "AMD Radeon R9 200 / HD 7900"),
    Model("amd", types.AMD_RADEON_HD_7900, "AMD Radeon HD 7900"),
    Model("intel", types.INTEL_MAX_1550, "Intel Data Center GPU Max 1550", 128),
    Model("intel", types.INTEL_MAX_1100, "Intel Data Center GPU Max 1100", 48),
    Model("metax", types.METAX_C500, "MXC500", 64),
    Model("metax", types.METAX_C550, "MXC550", 64),
    *(
        Model("apple", name, f"Apple {name.replace('-', ' ')}")
        for name in (
            types.APPLE_M1,
            types.APPLE_M1_PRO,
            types.APPLE_M1_MAX,
            types.APPLE_M1_ULTRA,
            types.APPLE_M2,
            types.APPLE_M2_PRO,
            types.APPLE_M2_MAX,
            types.APPLE_M2_ULTRA,
            types.APPLE_M3,
            types.APPLE_M3_PRO,
            types.APPLE_M3_MAX,
        )
    ),
    Model("apple", types.APPLE_SILICON, "Apple Silicon"),
    *(
        Model("tpu", name, name.replace("-V", " v").lower().replace("tpu", "TPU"))
        for name in (
            types.GOOGLE_TPU_V2,
            types.GOOGLE_TPU_V3,
            types.GOOGLE_TPU_V4,
            types.GOOGLE_TPU_V5P,
            types.GOOGLE_TPU_V5LITEPOD,
            types.GOOGLE_TPU_V6E,
            types.GOOGLE_TPU_V7X,
        )
    ),
    Model("neuron", types.AWS_NEURON_CORE, "AWS Neuron core"),
    Model("gaudi", types.INTEL_GAUDI, "Intel GAUDI"),
    Model("ascend", types.HUAWEI_NPU_910B, "Ascend 910B"),
    Model("ascend", types.HUAWEI_NPU_910B4, "Ascend 910B4"),
    Model("furiosa", types.FURIOSA_RNGD, "FuriosaAI RNGD"),
    Model("mobilint", types.MOBILINT_ARIES, "Mobilint ARIES"),
    Model("mobilint", types.MOBILINT_REGULUS, "Mobilint REGULUS"),
)
"""Every model with a name in ``types``."""


def fake_detections(
    text: str, families: Sequence[Accelerator]
) -> tuple[Detection, ...]:
    """Returns the detections of a machine with exactly these devices.

    The owner's visibility variables hide none of them: they apply to real devices.

    Args:
        text: Numbers and words between commas, ``"2xH100, 4xTPU-V5E"``; a word is a
            model (``"A100-80G"``), a kind (``"GPU"``) or a family (``"amd"``).
            ``"none"`` is a machine without devices.
        families: All families.

    Returns:
        One detection per family, in their order.

    Raises:
        ValueError: A word is unknown, or a number is too large.
    """
    counts: dict[str, list[Device]] = {family.family: [] for family in families}
    for part in [] if text.strip().lower() == NONE else text.split(","):
        count, device = _parsed(text, part.strip(), families)
        counts[device.family] += [device] * count
    for family in families:
        if family.family == "apple" and len(counts["apple"]) > 1:
            raise ValueError(f"{text!r}: a Mac has one GPU, so ask for one")
    return tuple(
        replace(
            family.select(
                [
                    replace(device, id=str(number))
                    for number, device in enumerate(counts[family.family])
                ],
                {},
            ),
            reason="" if counts[family.family] else NOT_LOOKED_FOR,
        )
        for family in families
    )


def _parsed(
    text: str, part: str, families: Sequence[Accelerator]
) -> tuple[int, Device]:
    """Returns the number of devices that a part of the text means, and one of them."""
    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError(
            f"{text!r}: fake devices are written as '2xH100' or '2xH100, 1xL4', or "
            f"{NONE!r} for a machine without any; {part!r} is not"
        )
    count = int(match[1] or 1)
    if not 1 <= count <= _MOST:
        raise ValueError(
            f"{text!r}: of one kind there can be 1 to {_MOST} devices, not {count}"
        )
    device = _named(match[2].strip(), families)
    if device is None:
        raise ValueError(
            f"{text!r}: {match[2].strip()!r} is not a known device. {_choice(families)}"
        )
    return count, device


def _named(word: str, families: Sequence[Accelerator]) -> Device | None:
    """Returns a device for the name of a kind, a family or a model; else None."""
    usual = sorted(families, key=lambda family: family.family != "nvidia")
    for family in usual:
        if word.lower() == family.family.lower() or word == family.kind.name:
            return _device(family)
    of = {family.family: family for family in families}
    is_met = matcher(word)
    devices = (_device(of[m.family], m) for m in MODELS if m.family in of)
    # The closest comes first: AMD-Instinct-MI300X does not mean MI300X-HF.
    matches = [device for device in devices if is_met(device)]
    return next((d for d in matches if d.type == word), next(iter(matches), None))


def _device(family: Accelerator, model: Model | None = None) -> Device:
    return Device(
        family=family.family,
        kind=family.kind.name,
        id="",
        model=None if model is None else model.name,
        type=None if model is None else model.type,
        memory=None if model is None else model.size * 2**30 or None,
        integrated=family.family == "apple",
        logical=True,
        source=VARIABLE,
    )


def _choice(families: Iterable[Accelerator]) -> str:
    """Lists every known word."""
    kinds = dict.fromkeys(f.kind.name for f in families if f.kind.name)
    names: dict[str, list[str]] = {}
    for model in MODELS:
        listed = names.setdefault(model.family, [])
        both = model.type in listed
        listed.append(f"{model.type}-{model.size}G" if both else model.type)
    models = "; ".join(f"{family}: {', '.join(n)}" for family, n in names.items())
    return (
        f"The kinds are {', '.join(kinds)}; the families are "
        f"{', '.join(family.family for family in families)}; the models, of {models}"
    )
