"""The kinds of devices, and the amounts of each that may be asked for.

A kind is a resource that consists of single devices. An amount below one is a share of
one device, and an amount above one is a number of whole devices: halves of two cards
are not one card. The limits of a kind do not depend on the machine, so a request that
no machine can grant is refused where it is written.
"""

from __future__ import annotations

from actorlib._base.public import public
from actorlib._base.value import dataclass

UNITS = 10_000
"""Units in one whole CPU, device, or one of a custom resource."""


@public("actorlib.accelerators")
@dataclass(frozen=True, slots=True)
class Kind:
    """A resource made of devices.

    Attributes:
        name: The name of the resource, for example ``"TPU"``.
        divisible: Whether a share below one device may be asked for.
        counts: The numbers of whole devices that may be asked for, or None for any
            number.
        aligned: Whether several devices work best as an aligned run of their numbers
            (0 and 1 rather than 1 and 2), because they share links.
    """

    name: str
    divisible: bool = True
    counts: tuple[int, ...] | None = None
    aligned: bool = False

    def fault(self, units: int) -> str:
        """Returns why no machine can grant so many units, or the empty string."""
        whole, part = divmod(units, UNITS)
        if part and not self.divisible:
            return f"{self.name} is given in whole ones. {self._advice(whole)}"
        if part and whole:
            return (
                "below 1 it is a share of one device, above 1 a number of whole ones. "
                f"{self._advice(whole)}"
            )
        if whole and self.counts and whole not in self.counts:
            return f"{self.name} is given {_either(self.counts)} at a time"
        return ""

    def _advice(self, whole: int) -> str:
        if self.counts:
            return f"Ask {_either(self.counts)}"
        return f"Ask {whole} or {whole + 1}" if whole else "Ask 1"


GPU = Kind("GPU")
TPU = Kind("TPU", divisible=False, counts=(1, 2, 4, 8), aligned=True)
NEURON_CORES = Kind("neuron_cores", divisible=False, aligned=True)
HPU = Kind("HPU", divisible=False, aligned=True)
NPU = Kind("NPU")
RBLN = Kind("RBLN", divisible=False)
FURIOSA = Kind("FURIOSA", divisible=False)
MBLT = Kind("MBLT", divisible=False)
TTNPU = Kind("TTNPU", divisible=False)

KINDS = {
    kind.name: kind
    for kind in (GPU, TPU, NEURON_CORES, HPU, NPU, RBLN, FURIOSA, MBLT, TTNPU)
}
"""The built-in kinds by name."""


def _either(counts: tuple[int, ...]) -> str:
    *most, last = map(str, counts)
    return f"{', '.join(most)} or {last}" if most else last
