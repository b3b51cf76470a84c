"""AMD's GPUs, found in the kernel and masked by ``ROCR_VISIBLE_DEVICES``.

Two layers of masks lie on each other (AMD's page on GPU isolation; ROCR-Runtime and
clr), and both are ours to write:

* ROCr's, below all ROCm software: indices of the machine and ``GPU-`` UUIDs, mixed. A
  repeated entry ends it; empty, it hides every GPU.
* HIP's, which **counts what the first one left**: ``HIP_VISIBLE_DEVICES``, or
  ``CUDA_VISIBLE_DEVICES`` where that is not set. An empty one is no mask to HIP, yet
  hides all from PyTorch and Ray: whoever writes it means that. In its source
  ``GPU_DEVICE_ORDINAL`` is OpenCL's alone; AMD's documents say HIP's as well, so it
  counts where HIP has no word of its own.

``ROCR=1`` beside ``HIP=1`` therefore shows nothing. We give ROCr the machine's ids and
HIP ``0,1,...``, never longer than ROCr's list, which PyTorch refuses. Other variables
are set to the same only where the owner has them: on a machine with NVIDIA cards as
well, ``CUDA_VISIBLE_DEVICES`` is not ours alone. vLLM wants it equal to HIP's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import GPU
from actorlib.accelerators.base import Accelerator, Detection, Device, Rejected
from actorlib.accelerators.files import why_none
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
        """Finds the GPUs that both layers leave, in the order of the upper one."""
        found, rejected = find_gpus(host, self.family)
        if not found:
            reason = why_none(found, rejected)
            return self.select(found, host.environ, rejected=rejected, reason=reason)
        upper = next((name for name in (_HIP, *_SHARED) if name in host.environ), _HIP)
        masks = [m for name in (ROCR, upper) if (m := read_layer(name, host.environ))]
        reasons: list[str] = []
        for mask in masks:
            names = [(str(place), d.uuid or "") for place, d in enumerate(found)]
            places, cut = choose(mask, names)
            reasons.append(cut)
            why = f"hidden by {mask.said}"
            rejected += [
                Rejected(name=f"GPU {d.id}", why=why, model=d.model)
                for place, d in enumerate(found)
                if place not in places
            ]
            chosen = zip(places, mask.entries, strict=False)
            found = tuple(_called(found[place], entry) for place, entry in chosen)
        return Detection(
            family=self.family,
            devices=tuple(replace(d, index=index) for index, d in enumerate(found)),
            outer=tuple(d.id for d in found) if masks else None,
            said=" and ".join(mask.said for mask in masks),
            reason="; ".join(filter(None, reasons)),
            rejected=tuple(rejected),
        )

    def mask(self, environ: Mapping[str, str]) -> Mask | None:
        """Reads ROCr's and HIP's layers. Without a device, CUDA's is NVIDIA's alone."""
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
        """Indices, or UUIDs for those whose UUIDs the owner's mask names."""
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
        """ROCr's layer by the machine's ids, and all above it from 0."""
        relative = ",".join(map(str, range(len(devices))))
        above = (_HIP, *(name for name in _SHARED if name in environ))
        shown = super().environment(devices, environ, every)
        return shown | dict.fromkeys(above, relative)


def _called(device: Device, entry: str) -> Device:
    """Returns a device as the owner's mask calls it, its index kept for ``formed``."""
    if entry.isdecimal() or device.uuid is None or device.id == device.uuid:
        return device
    return replace(device, id=device.uuid, entry=device.id)
