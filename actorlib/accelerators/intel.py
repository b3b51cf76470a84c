"""Intel's GPUs, found in sysfs and masked by ``ZE_AFFINITY_MASK``.

The mask's numbers mean what two other variables make of them, so all go together: in
which hierarchy an index counts, and that it counts by PCI address. We keep the owner's
hierarchy. SYCL's selector counts what the mask left, so an inherited one would leave
less or nothing: ours says ``level_zero:0,1,...`` for all that is there. Ray writes the
mask alone; frameworks of its older kind read the selector.

To hide every GPU is not to write an empty mask, which is none to Level Zero
(intel/compute-runtime, execution_environment.cpp: ``parseAffinityMask``). A number that
no machine has is passed over, and then nothing is left, for OpenCL likewise. The
selector discards Level Zero for those who read it alone, and spares other makers'
devices. Neither was tried on hardware.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import GPU
from actorlib.accelerators.base import Accelerator, Detection, Device, Rejected
from actorlib.accelerators.files import why_none
from actorlib.accelerators.intel_masks import (
    HIERARCHY,
    MASK,
    SELECTOR,
    hierarchy,
    read_layers,
)
from actorlib.accelerators.levelzero import ORDER, find_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators.host import Host
    from actorlib.accelerators.masks import Mask

_NOWHERE = {MASK: "9999", SELECTOR: "!level_zero:*"}
"""What leaves no GPU, whatever the hierarchy and the order."""


@final
class Intel(Accelerator):
    """Intel's family: cards, their tiles, and the GPUs of CPUs."""

    family = "intel"
    kind = GPU
    visible_env = MASK
    nosets = (f"RAY_EXPERIMENTAL_NOSET_{MASK}", f"RAY_EXPERIMENTAL_NOSET_{SELECTOR}")

    def detect(self, host: Host) -> Detection:
        """Finds the GPUs that mask and selector leave, by the owner's numbers."""
        environ = host.environ
        is_flat = hierarchy(environ) != "COMPOSITE"
        gpus, rejected = find_gpus(host, self.family, is_flat=is_flat)
        if not gpus.counted:
            reason = why_none((), rejected)
            return self.select((), environ, rejected=rejected, reason=reason)
        layers = read_layers(environ, [len(tiles) or 1 for tiles in gpus.tiles])
        left = [device.id for device in gpus.counted]
        for layer in layers:
            kept = {part.id for part in gpus.parts(layer.entries)}
            why = f"hidden by {layer.said}"
            rejected += [
                Rejected(name=f"GPU {part.id}", why=why, model=part.model)
                for part in gpus.parts(left)
                if part.id not in kept
            ]
            left = list(layer.entries)
        return Detection(
            family=self.family,
            devices=tuple(
                replace(gpus.named(name), index=i) for i, name in enumerate(left)
            ),
            outer=tuple(left) if layers else None,
            said=" and ".join(layer.said for layer in layers),
            reason="; ".join(filter(None, (layer.reason for layer in layers))),
            rejected=tuple(rejected),
        )

    def mask(self, environ: Mapping[str, str]) -> Mask | None:
        """Reads mask and selector as one."""
        layers = read_layers(environ, None)
        if len(layers) < 2:
            return layers[0] if layers else None
        return replace(
            layers[1],
            said=" and ".join(layer.said for layer in layers),
            reason="; ".join(filter(None, (layer.reason for layer in layers))),
        )

    def environment(
        self,
        devices: Sequence[Device],
        environ: Mapping[str, str],
        every: Sequence[Device],
    ) -> dict[str, str | None]:
        """The mask with what its numbers mean, and a selector of all it leaves."""
        if not devices:
            return dict(_NOWHERE)
        # Tiles of one card are one device to SYCL where an index is a card.
        count = len({device.id.partition(".")[0] for device in devices})
        return super().environment(devices, environ, every) | {
            HIERARCHY: hierarchy(environ),
            ORDER: "1",
            SELECTOR: f"level_zero:{','.join(map(str, range(count)))}",
        }
