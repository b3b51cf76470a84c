"""NVIDIA's GPUs, found through NVML and masked by ``CUDA_VISIBLE_DEVICES``.

NVML counts cards by PCI address and ignores the mask (NVML API reference). CUDA counts
the fastest first unless ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` says otherwise (CUDA C++
Programming Guide, environment variables), so on a machine of mixed cards "1" is two
different ones: indices are given to a process together with their order.

A mask of indices without an order is taken to count by PCI address, as ``nvidia-smi``
does, where people read the indices off. An owner who has set an order as well has
said what the indices mean: both are passed on, and if the order is CUDA's own, which
card an index leads to stays unknown.

MIG instances are devices of their own and are written by UUID (MIG user guide). In a
mask, the index of a card in MIG mode stands for its first instance, as CUDA would
choose; its UUID stands for no device, as what CUDA makes of it is not documented. Where
NVML is missing, the instances that a mask names are taken at its word.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import GPU
from actorlib.accelerators.base import Accelerator, Detection, Device, Rejected
from actorlib.accelerators.masks import CUDA, choose
from actorlib.accelerators.nvidia_driver import (
    Scan,
    is_traced,
    nothing_usable,
    scan_driver,
)
from actorlib.accelerators.nvidia_masks import (
    BY_PCI,
    ORDER,
    formed,
    named_by_owner,
    targets_of,
)
from actorlib.accelerators.nvml import scan_nvml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators.host import Host


@final
class Nvidia(Accelerator):
    """NVIDIA's family: whole cards and MIG instances."""

    family = "nvidia"
    kind = GPU
    visible_env = "CUDA_VISIBLE_DEVICES"
    takes_uuids = True
    syntax = CUDA

    def detect(self, host: Host) -> Detection:
        """Finds the GPUs the owner may use, in its mask's order or by PCI address."""
        scan, mask = _scan(host), self.mask(host.environ)
        if mask is None:
            found, cut, outer = [target.device for target in scan.targets], "", None
            hidden: list[Rejected] = []
        else:
            targets = targets_of(mask, scan, host.environ.get(ORDER, BY_PCI))
            chosen, cut = choose(mask, [target.names for target in targets])
            outer = mask.entries[: len(chosen) if targets else None]
            if not targets:
                cut = mask.reason
            pairs = zip(outer, (targets[at].device for at in chosen), strict=False)
            found = [device and named_by_owner(device, word) for word, device in pairs]
            hidden = [
                Rejected(
                    name=f"GPU {d.id}", model=d.model, why=f"hidden by {mask.said}"
                )
                for at, (_, d) in enumerate(targets)
                if d and d.id and at not in chosen
            ]
        return Detection(
            family=self.family,
            devices=tuple(
                replace(d, index=i) for i, d in enumerate(filter(None, found))
            ),
            outer=outer,
            said=mask.said if mask is not None else "",
            reason="; ".join(filter(None, (scan.reason, cut))),
            rejected=(*scan.rejected, *hidden),
        )

    def formed(self, devices: Sequence[Device], form: str | None) -> tuple[Device, ...]:
        """By index where that leaves no doubt about the card, and by UUID otherwise."""
        return formed(devices, form)

    def environment(
        self,
        devices: Sequence[Device],
        environ: Mapping[str, str],
        every: Sequence[Device],
    ) -> dict[str, str | None]:
        """The mask, and with indices the order that they were counted in."""
        changes = super().environment(devices, environ, every)
        mask = self.mask(environ)
        is_settled = ORDER in environ and mask is not None and mask.ordinal
        if devices and not is_settled and all(d.written.isdecimal() for d in devices):
            changes[ORDER] = BY_PCI
        return changes


def _scan(host: Host) -> Scan:
    """Scans the machine by NVML or, without it, by what the kernel lists."""
    if not is_traced(host):
        return Scan()
    try:
        nvml = host.sdk("pynvml")
    except ImportError as error:
        return scan_driver(host, f"NVML cannot be asked: {error}")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError_LibraryNotFound as error:
        return scan_driver(host, f"NVML does not start: {error}")
    except nvml.NVMLError as error:
        # No driver, or one that was upgraded under a running kernel.
        return nothing_usable(host, f"NVML does not start: {error}")
    try:
        targets, rejected = scan_nvml(host, nvml)
    finally:
        nvml.nvmlShutdown()
    lost = "; ".join(f"{gpu.name} is left out: {gpu.why}" for gpu in rejected)
    return Scan(targets, rejected, lost if targets else "NVML finds no GPU")
