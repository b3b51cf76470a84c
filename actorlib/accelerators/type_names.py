"""The types that a user's word means, for ``accelerator_type``.

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
    """Returns a function that checks whether a device is of a type."""
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
