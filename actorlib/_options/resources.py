"""What is asked for and what there is: named amounts, in exact integers.

Every amount is an ``int``: bytes for ``BYTES``, and 1/10 000 of one
(a *unit*) for everything else. Floats appear only at the two ends, where a user
writes ``num_gpus=0.5`` and where a message is printed. Sums of floats drift until
the last tenth of a device can no longer be given; sums of integers do not.

``"gpu_memory"`` is what is asked and never what there is: how many units it comes to
depends on the device, so the scheduler puts units in its place, those of each model
(``_scheduler/request.py``).

What is no whole number of units is rounded *down*. It is the one rule by which amounts
whose true sum fits always fit: the sum of the rounded ones is never more. So k shares
of 1/k are on one device for every k up to 10 000; rounded to the nearest, as Ray does,
six sixths are 10 002 of 10 000. What it costs is below one unit each: beside six sixths
0.0004 of a device stay free, and above k = 100 that may be room for another 1/k. A
decimal of up to four places is a whole number of units,
and stays it after some additions of floats (``1 - 0.9``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from numbers import Rational, Real
from types import MappingProxyType
from typing import cast

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
"""The keyword that asks for a resource which has one of its own."""


@dataclass(frozen=True, slots=True)
class Resources:
    """Amounts by resource name; what is zero is left out.

    Attributes:
        amounts: Bytes for ``BYTES``, units for every other name; each positive.
    """

    amounts: Mapping[str, int]

    @classmethod
    def of(cls, amounts: Mapping[str, int]) -> Resources:
        """Wraps integer amounts, leaving out the zeros."""
        kept = {name: amount for name, amount in amounts.items() if amount}
        return cls(MappingProxyType(kept))

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
    """Checks what one actor asks for and makes it exact.

    Args:
        num_cpus: CPUs; a number >= 0.
        num_gpus: GPUs; a number >= 0, whole above 1.
        memory: Bytes; a number >= 0, rounded down, or words as ``"2GiB"``.
        resources: Amounts of other devices and of custom resources by name, each a
            number >= 0.
        gpu_memory: Bytes of the memory of one GPU, likewise, but above 0.

    Raises:
        TypeError: An amount is no number, or a name is no string.
        ValueError: An amount is negative, not finite, finer than 1/10 000, or one that
            its kind of device is never given in; a name has a keyword of its own; or
            two amounts exclude each other.
    """
    amounts = _amounts(num_cpus, num_gpus, memory, resources)
    if gpu_memory is not None:
        amounts[GPU_MEMORY] = positive_bytes_of(GPU_MEMORY, gpu_memory)
        _check_gpu_memory(gpu_memory, amounts)
    for name, kind in KINDS.items():
        if fault := kind.fault(amounts.get(name, 0)):
            asked = format_amount(name, amounts[name])
            raise ValueError(f"{asked} of {name} can never be given: {fault}")
    if amounts.get(GPU.name) and amounts.get(NEURON_CORES.name):
        # As in Ray: no machine has both, and a request for both is a slip.
        raise ValueError(
            f"num_gpus and resources[{NEURON_CORES.name!r}] exclude each other: an "
            "actor computes on GPUs or on Neuron cores. Give it one of the two"
        )
    return Resources.of(amounts)


def _check_gpu_memory(said: object, amounts: Mapping[str, int]) -> None:
    """Makes sure that bytes of a GPU's memory are asked of one GPU."""
    if amounts.get(GPU.name, 0) > UNITS:
        number = format_amount(GPU.name, amounts[GPU.name])
        raise ValueError(
            f"gpu_memory={said!r} is a share of one GPU, and num_gpus={number} is "
            "several: each of those is given whole, with all of its memory. Leave "
            "gpu_memory out (accelerator_type= asks for large ones), or ask num_gpus=1 "
            "at most"
        )
    others = [n for n in KINDS if n != GPU.name and amounts.get(n)]
    if others and not amounts.get(GPU.name):
        raise ValueError(
            f"gpu_memory={said!r} is memory of a GPU, and resources[{others[0]!r}] "
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
    """Checks what ``init()`` declares the machine to have and makes it exact.

    Raises:
        TypeError: An amount is no number, or a name is no string.
        ValueError: An amount is negative, not finite, or (memory apart) not whole.
    """
    given = resources
    if isinstance(given, Mapping) and GPU_MEMORY in given:
        raise ValueError(
            f"resources[{GPU_MEMORY!r}]: what memory devices have is declared by "
            "device_memory={'GPU': '24GiB'}"
        )
    declared = Resources.of(_amounts(num_cpus, num_gpus, memory, resources))
    for name, amount in declared.amounts.items():
        if name != MEMORY and amount % UNITS:
            raise ValueError(
                f"init() was given {format_amount(name, amount)} of {name}: what a "
                "machine has is counted in whole ones"
            )
    return declared


def device_memory_of(value: object) -> dict[str, int]:
    """Checks what memory ``init()`` declares devices to have and makes it exact.

    Args:
        value: What the user gave: bytes of one device by kind, or None.

    Raises:
        TypeError: It is no mapping, a kind is no string, or an amount no number.
        ValueError: It names what is no kind of device, or an amount is not positive.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(
            "device_memory takes a dict of bytes by kind of device, for example "
            f"{{'GPU': '24GiB'}}, not {value!r} ({type(value).__name__})"
        )
    declared: dict[str, int] = {}
    for name, nbytes in cast("Mapping[object, object]", value).items():
        if not isinstance(name, str):
            raise TypeError(f"device_memory takes kinds as keys, not {name!r}")
        if name in (CPU, MEMORY, GPU_MEMORY):
            raise ValueError(
                f"device_memory[{name!r}]: {name} is no kind of device, as 'GPU' is"
            )
        declared[name] = positive_bytes_of(f"device_memory[{name!r}]", nbytes)
    return declared


def units_of(label: str, value: object) -> int:
    """A user's amount in units, rounded down.

    Args:
        label: How messages name the amount, for example ``num_gpus``.
        value: What the user gave. Integers and fractions are taken exactly, floats as
            the decimal that is meant.

    Raises:
        TypeError: It is no real number.
        ValueError: It is negative, not finite, or finer than one unit.
    """
    number = _number(label, value)
    units = _rounded_down(number, UNITS)
    if number and not units:
        raise ValueError(
            f"{label}={value!r} is below the smallest share, {1 / UNITS:.4f} of one"
        )
    return units


def bytes_of(label: str, value: object) -> int:
    """A user's number of bytes, rounded down to a whole one.

    Args:
        label: How messages name the amount, for example ``memory``.
        value: What the user gave: a number, or words as ``"1.5 GiB"``. ``MB`` and the
            like are powers of 1000, ``MiB`` and the like powers of 1024.

    Raises:
        TypeError: It is neither a real number nor a string.
        ValueError: It is negative or not finite, or not such words.
    """
    if isinstance(value, str):
        return _bytes_in_words(label, value)
    number = _number(label, value)
    return int(number) if isinstance(number, float) else _rounded_down(number, 1)


def positive_bytes_of(label: str, value: object) -> int:
    """A user's number of bytes as in :func:`bytes_of`, above 0.

    Raises:
        TypeError: It is neither a real number nor a string.
        ValueError: It is below one byte or not finite, or not such words.
    """
    nbytes = bytes_of(label, value)
    if not nbytes:
        raise ValueError(f"{label} takes 1 byte or more, not {value!r}: leave it out")
    return nbytes


def _bytes_in_words(label: str, text: str) -> int:
    said = re.fullmatch(
        r"(\d{1,30})(?:\.(\d{1,30}))? ?(?:([KMGT])(i?))?B", text, re.IGNORECASE
    )
    if said is None:
        raise ValueError(
            f"{label} takes a number of bytes, or a number with a unit (B, KB, MB, GB, "
            f"TB, KiB, MiB, GiB or TiB), for example '2GiB', not {text!r}"
        )
    whole, part = said[1], said[2] or ""
    power = " KMGT".index((said[3] or " ").upper())
    unit: int = (1024 if said[4] else 1000) ** power
    parts_of_one: int = 10 ** len(part)
    return int(whole + part) * unit // parts_of_one


def counted(amounts: Mapping[str, int]) -> dict[str, float]:
    """Amounts as a user counts them: bytes of memory, and numbers of the rest."""
    return {
        name: amount if name in BYTES else amount / UNITS
        for name, amount in amounts.items()
    }


def format_amount(name: str, amount: int) -> str:
    """An amount as a user would write it: ``0.5``, ``2``, ``1.5 GiB``."""
    if name in BYTES:
        return format_bytes(amount)
    whole, part = divmod(amount, UNITS)
    return f"{whole}.{part:04d}".rstrip("0") if part else str(whole)


def format_named(name: str, amount: int) -> str:
    """An amount with its name: ``GPU=0.5``, ``memory=1.5 GiB``."""
    return f"{name}={format_amount(name, amount)}"


def format_counted(name: str, amount: float) -> str:
    """An amount of :func:`counted`, as a user would write it."""
    return format_bytes(int(amount)) if name in BYTES else f"{amount:.10g}"


def format_bytes(nbytes: int | None, unknown: str = "-") -> str:
    """A number of bytes for people: ``512 B``, ``1.5 GiB``.

    Args:
        nbytes: The number; None if it is unknown.
        unknown: What to give then. Default: "-".
    """
    if nbytes is None:
        return unknown
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"


def format_askable(nbytes: int) -> str:
    """A number of bytes for people, rounded down: who asks for it, gets it."""
    hundredths = nbytes * 100 // 2**30
    return f"{hundredths / 100:g} GiB" if hundredths else format_bytes(nbytes)


def add(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    """The sum of two sets of amounts, name by name."""
    summed = dict(left)
    for name, amount in right.items():
        summed[name] = summed.get(name, 0) + amount
    return summed


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
    # bounds are far below the 0.0004 units by which 1/5001 misses its next whole one.
    if math.isclose(units, nearest, rel_tol=1e-15, abs_tol=1e-6):
        return nearest
    return int(units)


def _number(label: str, value: object) -> Rational | float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(
            f"{label} takes a number >= 0, not {value!r} ({type(value).__name__})"
        )
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
    """What is meant by a float of less precision: 0.7, and not 0.699999988."""
    try:
        return float(str(value))
    except ValueError:
        return number


def _custom(resources: object) -> dict[str, object]:
    if resources is None:
        return {}
    if not isinstance(resources, Mapping):
        raise TypeError(
            "resources takes a dict of amounts by name, not "
            f"{resources!r} ({type(resources).__name__})"
        )
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
