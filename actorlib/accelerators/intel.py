"""Intel's GPUs, found in sysfs and masked by ``ZE_AFFINITY_MASK``.

Two other variables define the meaning of the mask's numbers, so all three go together:
the hierarchy that an index counts in, and the order by PCI address. We keep the owner's
hierarchy. SYCL's selector counts the devices that the mask leaves, so an inherited one
would leave fewer or none: ours says ``level_zero:0,1,...`` for all of them. Ray writes
only the mask; frameworks for older versions of Ray read the selector.

An empty mask does not hide every GPU: Level Zero ignores it (intel/compute-runtime,
execution_environment.cpp: ``parseAffinityMask``). A number that no machine has is
skipped, and then no GPU is left, for OpenCL too. The selector excludes Level Zero for
programs that read only the selector, and does not affect devices of other makers.
Neither was tried on hardware.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import GPU
from actorlib.accelerators.base import Accelerator, Detection, Device, reject
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
"""The variables that hide every GPU, whatever the hierarchy and the order."""


@final
class Intel(Accelerator):
    """Intel's family: cards, their tiles, and the GPUs of CPUs."""

    family = "intel"
    kind = GPU
    visible_env = MASK
    nosets = (f"RAY_EXPERIMENTAL_NOSET_{MASK}", f"RAY_EXPERIMENTAL_NOSET_{SELECTOR}")

    def detect(self, host: Host) -> Detection:
        """Lists the GPUs that mask and selector leave, by the owner's numbers."""
        environ = host.environ
        is_flat = hierarchy(environ) != "COMPOSITE"
        gpus, rejected = find_gpus(host, self.family, is_flat=is_flat)
        if not gpus.counted:
            return self.select((), environ, rejected=rejected)
        layers = read_layers(environ, [len(tiles) or 1 for tiles in gpus.tiles])
        names = [device.id for device in gpus.counted]
        for layer in layers:
            visible = {part.id for part in gpus.parts(layer.entries)}
            rejected += [
                reject(part, f"hidden by {layer.said}")
                for part in gpus.parts(names)
                if part.id not in visible
            ]
            names = list(layer.entries)
        return Detection(
            family=self.family,
            devices=tuple(
                replace(gpus.named(name), index=i) for i, name in enumerate(names)
            ),
            outer=tuple(names) if layers else None,
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
        """Writes the mask with the meaning of its numbers, and a selector for all."""
        if not devices:
            return dict(_NOWHERE)
        # Tiles of one card are one device to SYCL where an index is a card.
        count = len({device.id.partition(".")[0] for device in devices})
        return super().environment(devices, environ, every) | {
            HIERARCHY: hierarchy(environ),
            ORDER: "1",
            SELECTOR: f"level_zero:{','.join(map(str, range(count)))}",
        }
