"""Named amounts of what is asked for and what exists, in exact integers.

Every amount is an ``int``: bytes for ``BYTES``, and 1/10 000 of one (a *unit*) for
everything else. Floats appear only where a user writes ``num_gpus=0.5`` and where a
message is printed. Sums of floats drift until the last tenth of a device cannot be
granted; sums of integers do not.

``"gpu_memory"`` is only asked for: a machine has units of GPUs. The number of units
depends on the device, so the scheduler replaces it by units for each model
(``_scheduler/request.py``).

An amount between two units is rounded *down*. Only then do amounts whose exact sum fits
always fit, as the sum of the rounded amounts is never larger. So k shares of 1/k are on
one device for every k up to 10 000; rounded to the nearest, as Ray does, six sixths are
10 002 of 10 000. The loss is below one unit each: beside six sixths, 0.0004 of a device
stay free, and above k = 100 there may be room for another 1/k. A decimal of up to four
places is a whole number of units, and remains one after some additions of floats
(``1 - 0.9``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from numbers import Rational, Real
from types import MappingProxyType
from typing import cast

from actorlib._base.validation import wrong_type
from actorlib._base.value import dataclass
from actorlib._options.kinds import GPU, KINDS, NEURON_CORES, UNITS

CPU = "CPU"
MEMORY = "memory"
GPU_MEMORY = "gpu_memory"

BYTES = frozenset({MEMORY, GPU_MEMORY})
"""The amounts that are bytes."""

OWN_KEYWORDS = {
    CPU: "num_cpus",
    GPU.name: "num_gpus",
    MEMORY: "memory",
    GPU_MEMORY: "gpu_memory",
}
"""The keywords of the resources that are not asked for by ``resources=``."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Amounts by resource name; zeros are left out.

    Attributes:
        amounts: Bytes for ``BYTES``, units for every other name; each positive.
    """

    amounts: Mapping[str, int]

    @classmethod
    def of(cls, amounts: Mapping[str, int]) -> Resources:
        """Wraps integer amounts, leaving out the zeros."""
        positive = {name: amount for name, amount in amounts.items() if amount}
        return cls(MappingProxyType(positive))

    def __str__(self) -> str:
        """The amounts as a user would write them: ``CPU=1, GPU=0.5``."""
        if not self.amounts:
            return "nothing"
        return ", ".join(format_named(name, a) for name, a in self.amounts.items())

    def __reduce__(self) -> tuple[object, ...]:
        # A read-only view of a dict cannot be pickled; the dict can.
        return Resources.of, (dict(self.amounts),)


def request(
    *,
    num_cpus: object = None,
    num_gpus: object = None,
    memory: object = None,
    resources: object = None,
    gpu_memory: object = None,
) -> Resources:
    """Checks the request of one actor and makes it exact; see ``CommonOptions``."""
    amounts = _amounts(num_cpus, num_gpus, memory, resources)
    if gpu_memory is not None:
        amounts[GPU_MEMORY] = positive_bytes_of(GPU_MEMORY, gpu_memory)
        _check_gpu_memory(gpu_memory, amounts)
    for name, kind in KINDS.items():
        if fault := kind.fault(amounts.get(name, 0)):
            amount = format_amount(name, amounts[name])
            raise ValueError(f"{amount} of {name} can never be granted: {fault}")
    if amounts.get(GPU.name) and amounts.get(NEURON_CORES.name):
        # As in Ray: no machine has both, and a request for both is a slip.
        raise ValueError(
            f"num_gpus and resources[{NEURON_CORES.name!r}] exclude each other: an "
            "actor computes on GPUs or on Neuron cores. Give it one of the two"
        )
    return Resources.of(amounts)


def _check_gpu_memory(memory: object, amounts: Mapping[str, int]) -> None:
    """Makes sure that bytes of a GPU's memory are asked of one GPU."""
    if amounts.get(GPU.name, 0) > UNITS:
        number = format_amount(GPU.name, amounts[GPU.name])
        raise ValueError(
            f"gpu_memory={memory!r} is a share of one GPU, and num_gpus={number} is "
            "several: each of those is granted whole, with all of its memory. Leave "
            "gpu_memory out (accelerator_type= asks for large ones), or ask num_gpus=1 "
            "at most"
        )
    others = [n for n in KINDS if n != GPU.name and amounts.get(n)]
    if others and not amounts.get(GPU.name):
        raise ValueError(
            f"gpu_memory={memory!r} is memory of a GPU, and resources[{others[0]!r}] "
            f"asks for another kind of device: {others[0]} is asked for by number "
            "alone. Leave gpu_memory out"
        )


def totals(
    *,
    num_cpus: object,
    num_gpus: object,
    memory: object,
    resources: object,
) -> Resources:
    """Checks the amounts that ``init()`` declares and makes them exact."""
    custom = resources  # the check narrows its type
    if isinstance(custom, Mapping) and GPU_MEMORY in custom:
        raise ValueError(
            f"resources[{GPU_MEMORY!r}]: the memory of devices is declared by "
            "device_memory={'GPU': '24GiB'}"
        )
    declared = Resources.of(_amounts(num_cpus, num_gpus, memory, resources))
    for name, amount in declared.amounts.items():
        if name != MEMORY and amount % UNITS:
            raise ValueError(
                f"init() was given {format_amount(name, amount)} of {name}: a machine "
                "has a whole number"
            )
    return declared


def device_memory_of(value: object) -> dict[str, int]:
    """Checks the memory of devices that ``init()`` declares and makes it exact."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong_type(
            "device_memory takes a dict of bytes by kind of device, for example "
            "{'GPU': '24GiB'}",
            value,
        )
    declared: dict[str, int] = {}
    for name, nbytes in cast("Mapping[object, object]", value).items():
        if not isinstance(name, str):
            raise TypeError(f"device_memory takes kinds as keys, not {name!r}")
        if name in (CPU, MEMORY, GPU_MEMORY):
            raise ValueError(
                f"device_memory[{name!r}]: {name} is not a kind of device, as 'GPU' is"
            )
        declared[name] = positive_bytes_of(f"device_memory[{name!r}]", nbytes)
    return declared


def units_of(label: str, value: object) -> int:
    """Converts a user's amount to units, rounded down.

    Integers and fractions are exact; a float stands for the decimal that it prints as.
    """
    number = _number(label, value)
    units = _rounded_down(number, UNITS)
    if number and not units:
        raise ValueError(
            f"{label}={value!r} is below the smallest share, {1 / UNITS:.4f} of one"
        )
    return units


def bytes_of(label: str, value: object) -> int:
    """Converts a user's size to bytes, rounded down.

    In a size such as ``"1.5 GiB"``, ``KB``, ``MB``, ``GB`` and ``TB`` are powers of
    1000, ``KiB`` to ``TiB`` powers of 1024.
    """
    if isinstance(value, str):
        return _parse_size(label, value)
    number = _number(label, value)
    return int(number) if isinstance(number, float) else _rounded_down(number, 1)


def positive_bytes_of(label: str, value: object) -> int:
    """Converts a user's size to bytes as :func:`bytes_of` does; refuses 0."""
    nbytes = bytes_of(label, value)
    if not nbytes:
        raise ValueError(f"{label} takes 1 byte or more, not {value!r}: leave it out")
    return nbytes


def _parse_size(label: str, text: str) -> int:
    size = re.fullmatch(
        r"(\d{1,30})(?:\.(\d{1,30}))? ?(?:([KMGT])(i?))?B", text, re.IGNORECASE
    )
    if size is None:
        raise ValueError(
            f"{label} takes a number of bytes, or a number with a unit (B, KB, MB, GB, "
            f"TB, KiB, MiB, GiB or TiB), for example '2GiB', not {text!r}"
        )
    whole, part = size[1], size[2] or ""
    power = " KMGT".index((size[3] or " ").upper())
    unit: int = (1024 if size[4] else 1000) ** power
    parts_of_one: int = 10 ** len(part)
    return int(whole + part) * unit // parts_of_one


def counted(amounts: Mapping[str, int]) -> dict[str, float]:
    """Converts amounts to a user's numbers: bytes of memory, floats of the rest."""
    return {
        name: amount if name in BYTES else amount / UNITS
        for name, amount in amounts.items()
    }


def format_amount(name: str, amount: int) -> str:
    """Formats an amount as a user would write it: ``0.5``, ``2``, ``1.5 GiB``."""
    if name in BYTES:
        return format_bytes(amount)
    whole, part = divmod(amount, UNITS)
    return f"{whole}.{part:04d}".rstrip("0") if part else str(whole)


def format_named(name: str, amount: int) -> str:
    """Formats an amount with its name: ``GPU=0.5``, ``memory=1.5 GiB``."""
    return f"{name}={format_amount(name, amount)}"


def format_counted(name: str, amount: float) -> str:
    """Formats an amount of :func:`counted` as a user would write it."""
    return format_bytes(int(amount)) if name in BYTES else f"{amount:.10g}"


def format_bytes(nbytes: int | None, unknown: str = "-") -> str:
    """Formats a number of bytes: ``512 B``, ``1.5 GiB``; ``unknown`` for None."""
    if nbytes is None:
        return unknown
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"


def format_askable(nbytes: int) -> str:
    """Formats a number of bytes, rounded down, so that a request for it fits."""
    hundredths = nbytes * 100 // 2**30
    return f"{hundredths / 100:g} GiB" if hundredths else format_bytes(nbytes)


def add(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


def _amounts(
    num_cpus: object, num_gpus: object, memory: object, resources: object
) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for name, value in ((CPU, num_cpus), (GPU.name, num_gpus)):
        if value is not None:
            amounts[name] = units_of(OWN_KEYWORDS[name], value)
    if memory is not None:
        amounts[MEMORY] = bytes_of(MEMORY, memory)
    for name, value in _custom(resources).items():
        amounts[name] = units_of(f"resources[{name!r}]", value)
    return amounts


def _rounded_down(number: Rational | float, times: int) -> int:
    if isinstance(number, Rational):
        return int(number.numerator) * times // int(number.denominator)
    units = number * times
    nearest = round(units)
    # A decimal has no exact float, and sums of floats are a few last places off. Both
    # bounds are far below the 0.0004 units between 1/5001 and its next whole unit.
    if math.isclose(units, nearest, rel_tol=1e-15, abs_tol=1e-6):
        return nearest
    return int(units)


def _number(label: str, value: object) -> Rational | float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong_type(f"{label} takes a number >= 0", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{label} takes a finite number >= 0, not {value!r}")
    if isinstance(value, Rational):
        return value
    return number if isinstance(value, float) else _as_printed(value, number)


def _as_printed(value: Real, number: float) -> float:
    """Converts a float of less precision by its text: 0.7, not 0.699999988."""
    try:
        return float(str(value))
    except ValueError:
        return number


def _custom(resources: object) -> dict[str, object]:
    if resources is None:
        return {}
    if not isinstance(resources, Mapping):
        raise wrong_type("resources takes a dict of amounts by name", resources)
    custom: dict[str, object] = {}
    for name, value in resources.items():  # pyright: ignore[reportUnknownVariableType]  # checked line by line below
        if not isinstance(name, str) or not name:
            raise TypeError(f"resources takes names as keys, not {name!r}")
        if name in OWN_KEYWORDS:
            raise ValueError(
                f"resources[{name!r}]: use the keyword {OWN_KEYWORDS[name]}= instead"
            )
        custom[name] = value
    return custom
