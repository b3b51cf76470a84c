"""AWS's Neuron cores, found in ``/dev`` and masked by ``NEURON_RT_VISIBLE_CORES``.

Cores are numbered across all ``/dev/neuron<N>``, Inferentia or Trainium. A process that
names no cores reserves all of them until it ends, so the list is set for every actor,
and ``NEURON_RT_NUM_CORES`` ("any n cores") is removed. The list has commas, as in Ray:
programs split it at commas. The runtime reads lists since 2.16.18
(aws-neuron-sdk#1024), and a single core in all versions. The meaning of an empty list
is not documented; torch_neuronx then takes core 0 (aws-neuron-sdk#869).

Counts and names are from the driver's sysfs (Neuron Sysfs User Guide). From Trainium2
on the runtime counts logical cores of two physical ones, or of as many as
``NEURON_LOGICAL_NC_CONFIG`` says, and so do the variable and this module. Cores are
counted over the devices in ``/dev``; that the runtime does the same in a container is
not verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from actorlib._options.kinds import NEURON_CORES
from actorlib.accelerators.base import Accelerator, Detection, Device, Rejected
from actorlib.accelerators.files import find_files
from actorlib.accelerators.masks import Syntax, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib.accelerators.host import Host

_SYSFS = "/sys/devices/virtual/neuron_device/neuron"
_PAIRED = ("Trainium2", "Trainium3")
_MOST = 4096
"""More cores than any machine has: the limit of a range."""

_MOST_OF_ONE = 64
"""More physical cores than any device has: a larger count is invalid."""


def _cores(text: str, _: str) -> Sequence[str] | None:
    first, dash, last = (part.strip() for part in text.partition("-"))
    low, high = number(first), number(last if dash else first)
    if low is None or high is None or not 0 <= int(high) - int(low) < _MOST:
        return None
    return [str(core) for core in range(int(low), int(high) + 1)]


@final
class Neuron(Accelerator):
    """AWS's family: the logical cores that its runtime counts."""

    family = "neuron"
    kind = NEURON_CORES
    visible_env = "NEURON_RT_VISIBLE_CORES"
    removed_envs = ("NEURON_RT_NUM_CORES",)
    type = "aws-neuron-core"
    syntax = Syntax(wanted="core or range of cores", read=_cores)

    def detect(self, host: Host) -> Detection:
        """Lists the cores of the devices that may be opened."""
        files = find_files(host, "/dev/neuron", _SYSFS)
        counts = {place: _count(host, place) for place, _ in files.present}
        # The devices of one machine are alike, and their cores are numbered in order.
        usual = max(counts.values(), default=0)
        logical: list[Device] = []
        rejected = list(files.rejected)
        first = 0
        for place, path in files.present:
            model = host.read_word(f"{_SYSFS}{place}/info/architecture/device_name")
            cores = (counts[place] or usual) // _fused(host, model)
            names = frozenset(str(core) for core in range(first, first + cores))
            first += cores
            if (place, path) not in files.usable:
                continue
            if not cores:
                why = f"{_SYSFS}{place} does not say how many cores it has"
                rejected.append(Rejected(name=path, why=why, model=model))
            logical += [
                Device(
                    family=self.family,
                    kind=self.kind.name,
                    id=name,
                    model=model,
                    type=self.type,
                    peers=names - {name},
                    source=path,
                )
                for name in sorted(names, key=int)
            ]
        return self.select(logical, host.environ, rejected=rejected)


def _count(host: Host, place: int) -> int:
    """Returns the number of a device's physical cores, or 0 if unknown."""
    count = host.read_number(f"{_SYSFS}{place}/core_count")
    if count is None or count > _MOST_OF_ONE:
        return len(host.glob(f"{_SYSFS}{place}/neuron_core[0-9]*"))
    return count


def _fused(host: Host, model: str | None) -> int:
    """Returns the number of physical cores in a logical one."""
    count = number(host.environ.get("NEURON_LOGICAL_NC_CONFIG", ""))
    return int(count or 0) or (2 if model in _PAIRED else 1)
