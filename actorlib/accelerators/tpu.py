"""Google's TPUs, found in ``/dev`` and masked by ``TPU_VISIBLE_CHIPS``.

Chips have files ``/dev/accel<N>`` or ``/dev/vfio/<group>``, but so have NPUs, Gaudis
and passed-through devices (ray#45302, #65034): a file counts if its PCI ids are those
of a TPU, as in JAX and ``tpu-info``. The metadata server is not asked: that can stall.
That chips are numbered from 0 in the order of their files is not verified for
containers with some of them. A process with a part of a host needs the settings of
JAX's own tests: bounds (in two generations of names), a port, and permission to load
libtpu twice. An empty list is not documented, so JAX and PyTorch/XLA, which use a TPU
by default, are directed to the CPU as well.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import TPU
from actorlib.accelerators.base import (
    Accelerator,
    Detection,
    Device,
    Rejected,
    why_none,
)
from actorlib.accelerators.files import closed, find_files, read_pci
from actorlib.accelerators.masks import Mask, read_mask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators.host import Host

_ACCEL = "/sys/class/accel/accel{}/device"
_VFIO = "/sys/kernel/iommu_groups/{}/devices/*"
_PLACES = {"/dev/accel": _ACCEL, "/dev/accel/accel": _ACCEL, "/dev/vfio/": _VFIO}
# By PCI device id; by subsystem id for the first two, which share a device id.
_OLDER = {"0x004e": "V2", "0x004f": "V3", "0x005e": "V4", "0x0062": "V5P"}
_TYPES = _OLDER | {"0x0063": "V5LITEPOD", "0x006f": "V6E", "0x0076": "V7X"}
_GENERATION = re.compile(r"(?:v|tpu)(\d{1,3}[a-z]{0,15})-\d+", re.IGNORECASE | re.ASCII)
"""``v6e-16`` or ``tpu7x-8``: GKE's generation and number of chips."""
_BOUNDS = {1: "1,1,1", 2: "1,2,1", 4: "2,2,1", 8: "2,4,1"}
_CHIPS = ("TPU_CHIPS_PER_HOST_BOUNDS", "TPU_CHIPS_PER_PROCESS_BOUNDS")
_ALIAS = "TPU_VISIBLE_DEVICES"


@final
class Tpu(Accelerator):
    """Google's family: the chips of one host."""

    family = "tpu"
    kind = TPU
    visible_env = "TPU_VISIBLE_CHIPS"

    def detect(self, host: Host) -> Detection:
        """Lists the chips with PCI ids of TPUs that this process may open."""
        identified = [
            _identify(host, path, behind.format(number))
            for prefix, behind in _PLACES.items()
            for number, path in find_files(host, prefix).present
        ]
        others = [other for other in identified if isinstance(other, Rejected)]
        chips = [chip for chip in identified if isinstance(chip, Device)]
        names = frozenset(str(place) for place in range(len(chips)))
        usable: list[Device] = []
        shut: list[Rejected] = []
        for name, chip in zip(sorted(names, key=int), chips, strict=True):
            if why := closed(host, chip.source):
                shut.append(Rejected(name=chip.source, why=why, model=chip.model))
            else:
                usable.append(replace(chip, id=name, peers=names - {name}))
        why, rejected = why_none(usable, shut), [*others, *shut]
        return self.select(usable, host.environ, rejected=rejected, reason=why)

    def mask(self, environ: Mapping[str, str]) -> Mask | None:
        """Reads the owner's mask from the newer name or else the older one."""
        name = self.visible_env if self.visible_env in environ else _ALIAS
        return read_mask(name, environ.get(name))

    def environment(
        self,
        devices: Sequence[Device],
        environ: Mapping[str, str],
        every: Sequence[Device],
    ) -> dict[str, str | None]:
        """Writes the mask, and for a part of the host the settings of its processes."""
        changes = super().environment(devices, environ, every)
        if not devices and all(chip.logical for chip in every):
            return changes | {_ALIAS: ""}  # frameworks can find no chip
        if not devices:
            # If unset, JAX would use "tpu,cpu" here, and PyTorch/XLA TPU.
            platforms = (environ.get("JAX_PLATFORMS") or "tpu").split(",")
            jax = ",".join(name for name in platforms if name != "tpu") or "cpu"
            torch = environ.get("PJRT_DEVICE", "TPU").replace("TPU", "CPU")
            return changes | {_ALIAS: "", "JAX_PLATFORMS": jax, "PJRT_DEVICE": torch}
        bounds = _BOUNDS.get(len(devices), "")
        # Two actors never share a chip, so they never share a port.
        port = str(8476 + min(int(chip.written) for chip in devices))
        part = dict.fromkeys(_CHIPS, bounds)
        part |= {"TPU_HOST_BOUNDS": "1,1,1", "TPU_PROCESS_BOUNDS": "1,1,1"}
        part |= {"TPU_PROCESS_PORT": port, "TPU_PROCESS_ADDRESSES": f"localhost:{port}"}
        part |= {"CLOUD_TPU_TASK_ID": "0", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
        chips = {chip.key for chip in every}.union(*(chip.peers for chip in every))
        if len(devices) < len(chips):
            return changes | part | {_ALIAS: changes[self.visible_env]}
        # The settings of GKE or of a slice of several hosts for the whole host stay.
        if any(sorted(environ.get(n, bounds)) != sorted(bounds) for n in _CHIPS):
            changes |= dict.fromkeys(part)
        return changes | {_ALIAS: None}


def _identify(host: Host, path: str, behind: str) -> Device | Rejected:
    """Returns the chip of a device file, or why it has none."""
    pcis = [read_pci(host, folder) for folder in host.glob(behind)]
    for pci in pcis:
        name = _TYPES.get(pci.subsystem if pci.device == "0x0027" else pci.device)
        # The driver distinguishes a newer chip from Google's network cards.
        if pci.maker == "Google" and (name or behind.startswith("/sys/class/accel")):
            gke = _GENERATION.fullmatch(host.environ.get("TPU_ACCELERATOR_TYPE", ""))
            name = name or (gke and f"V{gke[1].upper()}")
            bare = Device(family=Tpu.family, kind=TPU.name, id="", source=path)
            kind = f"TPU-{name}" if name else None
            model = name and f"TPU {name.lower()}"
            return replace(bare, pci=pci.address, model=model, type=kind)
    makers = ", ".join(sorted({pci.maker for pci in pcis} - {""}))
    why = f"no TPU: it is of {makers}" if makers else "its PCI vendor cannot be read"
    return Rejected(name=path, why=why)
