"""AMD's GPUs, found in the kernel and masked by ``ROCR_VISIBLE_DEVICES``.

There are two layers of masks (AMD's page on GPU isolation; ROCR-Runtime and clr), and
we write both:

* ROCr's, below all ROCm software: indices of the machine and ``GPU-`` UUIDs, mixed. A
  repeated entry ends the list. An empty list hides every GPU.
* HIP's, which **counts the devices that the first one leaves**:
  ``HIP_VISIBLE_DEVICES``, or ``CUDA_VISIBLE_DEVICES`` if that is unset. HIP ignores an
  empty one, but it hides all devices from PyTorch and Ray, so it hides all here. In
  HIP's source ``GPU_DEVICE_ORDINAL`` is for OpenCL only; AMD's documents name it for
  HIP, too, so it counts if HIP's own variables are unset.

``ROCR=1`` together with ``HIP=1`` therefore shows nothing. We give ROCr the machine's
ids and HIP ``0,1,...``, never longer than ROCr's list, which PyTorch refuses. Other
variables get the same value only if the owner has set them: on a machine that also has
NVIDIA cards, ``CUDA_VISIBLE_DEVICES`` is for those, too. vLLM requires it to equal
HIP's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import GPU
from actorlib.accelerators.base import Accelerator, Detection, Device, reject
from actorlib.accelerators.masks import Mask, choose
from actorlib.accelerators.rocm import ROCR, find_gpus, read_layer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators.host import Host

_HIP = "HIP_VISIBLE_DEVICES"
_SHARED = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


@final
class Amd(Accelerator):
    """AMD's family: cards, APUs, and the partitions of a card."""

    family = "amd"
    kind = GPU
    visible_env = ROCR
    takes_uuids = True
    nosets = (f"RAY_EXPERIMENTAL_NOSET_{_HIP}", f"RAY_EXPERIMENTAL_NOSET_{ROCR}")

    def detect(self, host: Host) -> Detection:
        """Lists the GPUs that both layers leave, in the order of the upper one."""
        gpus, rejected = find_gpus(host, self.family)
        if not gpus:
            return self.select(gpus, host.environ, rejected=rejected)
        upper = next((name for name in (_HIP, *_SHARED) if name in host.environ), _HIP)
        masks = [m for name in (ROCR, upper) if (m := read_layer(name, host.environ))]
        reasons: list[str] = []
        for mask in masks:
            names = [(str(place), d.uuid or "") for place, d in enumerate(gpus)]
            places, cut = choose(mask, names)
            reasons.append(cut)
            rejected += [
                reject(d, f"hidden by {mask.said}")
                for place, d in enumerate(gpus)
                if place not in places
            ]
            chosen = zip(places, mask.entries, strict=False)
            gpus = tuple(_renamed(gpus[place], entry) for place, entry in chosen)
        return Detection(
            family=self.family,
            devices=tuple(replace(d, index=index) for index, d in enumerate(gpus)),
            outer=tuple(d.id for d in gpus) if masks else None,
            said=" and ".join(mask.said for mask in masks),
            reason="; ".join(filter(None, reasons)),
            rejected=tuple(rejected),
        )

    def mask(self, environ: Mapping[str, str]) -> Mask | None:
        """Reads ROCr's and HIP's layers. Without a device, CUDA's is NVIDIA's."""
        lower, upper = read_layer(ROCR, environ), read_layer(_HIP, environ)
        if lower is None or upper is None:
            return lower or upper
        words = ["" if entry.isdecimal() else entry for entry in lower.entries]
        places, cut = choose(upper, [(str(i), word) for i, word in enumerate(words)])
        return replace(
            lower,
            said=f"{lower.said} and {upper.said}",
            entries=tuple(lower.entries[place] for place in places),
            reason="; ".join(filter(None, (lower.reason, cut))),
        )

    def formed(self, devices: Sequence[Device], form: str | None) -> tuple[Device, ...]:
        """Sets indices, or UUIDs where the owner's mask has UUIDs."""
        if form == "index":
            return tuple(devices)
        unknown = next((d.id for d in devices if d.uuid is None), None)
        if form is None or unknown is None:
            return tuple(replace(d, entry=(form and d.uuid) or "") for d in devices)
        raise ValueError(f"mask_form='uuid': GPU {unknown} has none. Leave it out")

    def environment(
        self,
        devices: Sequence[Device],
        environ: Mapping[str, str],
        every: Sequence[Device],
    ) -> dict[str, str | None]:
        """Writes ROCr's layer with the machine's ids, and the upper ones from 0."""
        relative = ",".join(map(str, range(len(devices))))
        upper = (_HIP, *(name for name in _SHARED if name in environ))
        mask = super().environment(devices, environ, every)
        return mask | dict.fromkeys(upper, relative)


def _renamed(device: Device, entry: str) -> Device:
    """Renames a device to its UUID if the owner's mask uses that."""
    if entry.isdecimal() or device.uuid is None or device.id == device.uuid:
        return device
    return replace(device, id=device.uuid, entry=device.id)
