"""Names of models for ``accelerator_type``, and the devices that a name means.

``Actor.options(accelerator_type=types.NVIDIA_H100)``. Names and values are Ray's
(``ray.util.accelerators``), with the same meaning. ``Device.type`` has the type of a
device, and any other text is accepted as well.

Names match loosely, because three of Ray's own names never equal what Ray detects
(``AMD-Instinct-MI308X`` is found as ``...-OAM``, ``Ascend910B`` as ``Ascend910B4``, and
``A100-80G`` is never found). A name means a type that

* is the same text, ignoring case, ``_`` or blanks instead of ``-``, vendors' and
  brands' names in front (``nvidia tesla v100``), and a closing ``-OAM``;
* has another name: ``TPU-V5E`` is ``TPU-V5LITEPOD``;
* belongs to a series that it names: older versions of Ray used ``RTX`` for every such
  card;
* matches without the size in the name, if the device has that size, within a tenth:
  ``A100-80G``, ``L4-24GB``. A device with unknown memory does not match.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actorlib.accelerators.base import Device

__all__ = [
    "AMD_INSTINCT_MI100",
    "AMD_INSTINCT_MI210",
    "AMD_INSTINCT_MI250",
    "AMD_INSTINCT_MI300A",
    "AMD_RADEON_HD_7900",
    "AMD_RADEON_R9_200_HD_7900",
    "APPLE_M1",
    "APPLE_M1_MAX",
    "APPLE_M1_PRO",
    "APPLE_M1_ULTRA",
    "APPLE_M2",
    "APPLE_M2_MAX",
    "APPLE_M2_PRO",
    "APPLE_M2_ULTRA",
    "APPLE_M3",
    "APPLE_M3_MAX",
    "APPLE_M3_PRO",
    "APPLE_SILICON",
    "AWS_NEURON_CORE",
    "FURIOSA_RNGD",
    "GOOGLE_TPU_V2",
    "GOOGLE_TPU_V3",
    "GOOGLE_TPU_V4",
    "GOOGLE_TPU_V5LITEPOD",
    "GOOGLE_TPU_V5P",
    "GOOGLE_TPU_V6E",
    "GOOGLE_TPU_V7X",
    "HUAWEI_NPU_910B",
    "HUAWEI_NPU_910B4",
    "INTEL_GAUDI",
    "INTEL_MAX_1100",
    "INTEL_MAX_1550",
    "METAX_C500",
    "METAX_C550",
    "MOBILINT_ARIES",
    "MOBILINT_REGULUS",
    "NVIDIA_A100",
    "NVIDIA_A100_40G",
    "NVIDIA_A100_80G",
    "NVIDIA_B200",
    "NVIDIA_B300",
    "NVIDIA_GB200",
    "NVIDIA_GB300",
    "NVIDIA_H20",
    "NVIDIA_H100",
    "NVIDIA_H200",
    "NVIDIA_L4",
    "NVIDIA_L40S",
    "NVIDIA_RTX_PRO_6000",
    "NVIDIA_TESLA_A10G",
    "NVIDIA_TESLA_A100",
    "NVIDIA_TESLA_K80",
    "NVIDIA_TESLA_P4",
    "NVIDIA_TESLA_P100",
    "NVIDIA_TESLA_T4",
    "NVIDIA_TESLA_V100",
    "AMD_INSTINCT_MI250x",
    "AMD_INSTINCT_MI300x",
    "AMD_INSTINCT_MI300x_HF",
    "AMD_INSTINCT_MI308x",
    "AMD_INSTINCT_MI325x",
    "AMD_INSTINCT_MI350x",
    "AMD_INSTINCT_MI355x",
    "canonical",
    "matcher",
    "of_nvidia",
]

NVIDIA_TESLA_V100 = "V100"
NVIDIA_TESLA_P100 = "P100"
NVIDIA_TESLA_T4 = "T4"
NVIDIA_TESLA_P4 = "P4"
NVIDIA_TESLA_K80 = "K80"
NVIDIA_TESLA_A10G = "A10G"
NVIDIA_TESLA_A100 = "A100"
NVIDIA_L4 = "L4"
NVIDIA_L40S = "L40S"
NVIDIA_A100 = "A100"
NVIDIA_A100_40G = "A100-40G"
NVIDIA_A100_80G = "A100-80G"
NVIDIA_H100 = "H100"
NVIDIA_H200 = "H200"
NVIDIA_H20 = "H20"
NVIDIA_B200 = "B200"
NVIDIA_B300 = "B300"
NVIDIA_GB200 = "GB200"
NVIDIA_GB300 = "GB300"
NVIDIA_RTX_PRO_6000 = "RTX-PRO-6000"
INTEL_MAX_1550 = "Intel-GPU-Max-1550"
INTEL_MAX_1100 = "Intel-GPU-Max-1100"
INTEL_GAUDI = "Intel-GAUDI"
AMD_INSTINCT_MI100 = "AMD-Instinct-MI100"
AMD_INSTINCT_MI210 = "AMD-Instinct-MI210"
AMD_INSTINCT_MI250 = "AMD-Instinct-MI250X-MI250"
AMD_INSTINCT_MI250x = "AMD-Instinct-MI250X"
AMD_INSTINCT_MI300A = "AMD-Instinct-MI300A"
AMD_INSTINCT_MI300x = "AMD-Instinct-MI300X-OAM"
AMD_INSTINCT_MI300x_HF = "AMD-Instinct-MI300X-HF"
AMD_INSTINCT_MI308x = "AMD-Instinct-MI308X"
AMD_INSTINCT_MI325x = "AMD-Instinct-MI325X-OAM"
AMD_INSTINCT_MI350x = "AMD-Instinct-MI350X-OAM"
AMD_INSTINCT_MI355x = "AMD-Instinct-MI355X-OAM"
AMD_RADEON_R9_200_HD_7900 = "AMD-Radeon-R9-200-HD-7900"
AMD_RADEON_HD_7900 = "AMD-Radeon-HD-7900"
AWS_NEURON_CORE = "aws-neuron-core"
GOOGLE_TPU_V2 = "TPU-V2"
GOOGLE_TPU_V3 = "TPU-V3"
GOOGLE_TPU_V4 = "TPU-V4"
GOOGLE_TPU_V5P = "TPU-V5P"
GOOGLE_TPU_V5LITEPOD = "TPU-V5LITEPOD"
GOOGLE_TPU_V6E = "TPU-V6E"
GOOGLE_TPU_V7X = "TPU-V7X"
HUAWEI_NPU_910B = "Ascend910B"
HUAWEI_NPU_910B4 = "Ascend910B4"
METAX_C500 = "MXC500"
METAX_C550 = "MXC550"
FURIOSA_RNGD = "FURIOSA_RNGD"
MOBILINT_ARIES = "MOBILINT_ARIES"
MOBILINT_REGULUS = "MOBILINT_REGULUS"
APPLE_M1 = "M1"
APPLE_M1_PRO = "M1-Pro"
APPLE_M1_MAX = "M1-Max"
APPLE_M1_ULTRA = "M1-Ultra"
APPLE_M2 = "M2"
APPLE_M2_PRO = "M2-Pro"
APPLE_M2_MAX = "M2-Max"
APPLE_M2_ULTRA = "M2-Ultra"
APPLE_M3 = "M3"
APPLE_M3_PRO = "M3-Pro"
APPLE_M3_MAX = "M3-Max"
APPLE_SILICON = "Apple-Silicon"

_BRANDS = re.compile(
    r"((nvidia|tesla|quadro|geforce|amd|instinct|radeon|intel|gpu|google|aws|huawei"
    r"|metax|apple|furiosa|mobilint)-)+"
)
_OTHER_NAMES = {
    "mi250": "mi250x-mi250",
    "tpu-v5e": "tpu-v5litepod",
    "c500": "mxc500",
    "c550": "mxc550",
}
_SERIES = {"rtx": "rtx-", "titan": "titan-", "ascend910b": "ascend910b"}
"""The prefix of the types for the name of a series."""

_NAME = re.compile(r"[A-Za-z][\w.+()/-]{1,63}", re.ASCII)
_NO_NAMES = frozenset({"graphics-device", "n/a", "none", "not-supported", "unknown"})
"""The drivers' names of unknown models."""

_SIZED = re.compile(r"(.+)-(\d+)gb?", re.IGNORECASE)


def canonical(asked: str, here: Iterable[str]) -> str | None:
    """Returns the type that a user's word means, or None.

    Args:
        asked: The user's word. A size in it matches only a type that contains it.
        here: The types to choose from. If several match, the closest, then the first,
            is returned.
    """
    types = list(here)
    if asked in types:
        return asked
    wish = _plain(asked)
    plain = [(_plain(one), one) for one in types]
    series = _SERIES.get(wish)
    fitting = [one for name, one in plain if name == wish] or [
        one for name, one in plain if series is not None and name.startswith(series)
    ]
    return next(iter(fitting), None)


def matcher(asked: str) -> Callable[[Device], bool]:
    """Returns a function that checks whether a device is of a type.

    Args:
        asked: The user's word, with a size or without.
    """
    sized = _SIZED.fullmatch(asked)

    def is_met(device: Device) -> bool:
        here = () if device.type is None else (device.type,)
        if canonical(asked, here) is not None:
            return True
        if sized is None or device.memory is None:
            return False
        wanted = int(sized[2]) * 2**30
        of_the_size = abs(device.memory - wanted) * 10 <= wanted
        return of_the_size and canonical(sized[1], here) is not None

    return is_met


def of_nvidia(model: str) -> str | None:
    """Returns Ray's name for a card of NVIDIA's: ``A100`` for an A100-SXM4-40GB.

    After the first word it keeps capitals, word by word, up to the first number. A name
    without a number is kept whole, without the vendor's name.
    """
    loud: list[str] = []
    for word in model.split()[1:]:
        loud.append(re.sub(r"[^A-Z0-9].*", "", word))
        if re.search(r"\d", loud[-1]) and len("".join(loud)) > 1:
            return "-".join(loud)
        if loud[-1] != word:
            break
    return of_name(model.removeprefix("NVIDIA "))


def of_name(name: str | None) -> str | None:
    """Returns the type for a driver's name of a model; None for no name.

    The values of ``accelerator_type`` are plain words. Other texts, and names of
    unknown models, must not become types.
    """
    word = "-".join((name or "").split())
    is_name = _NAME.fullmatch(word) and word.lower() not in _NO_NAMES
    return word if is_name else None


def _plain(name: str) -> str:
    """Normalizes a type, so that different spellings are equal."""
    dashed = re.sub(r"[\s_-]+", "-", name.strip().lower())
    brands = _BRANDS.match(dashed)
    bare = dashed[brands.end() if brands else 0 :].removesuffix("-oam")
    return _OTHER_NAMES.get(bare, bare)
