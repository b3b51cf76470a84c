"""Huawei's Ascends, found in ``/dev`` and masked by ``ASCEND_RT_VISIBLE_DEVICES``.

An NPU is ``/dev/davinci<N>``. The variable takes numbers between commas that ascend,
and no blanks: the list ends before anything else (hiascend.com, CANN environment
variables; CANN 6.3 allowed other orders, and what ends a list there does no harm here).
An empty list leaves no NPU, by reports of Ray's users. The numbers are logical ones: a
container that is given ``davinci3`` to ``davinci7`` counts them from 0
(vllm-ascend#16256), so an NPU is called by its place among the files, and ``source``
tells which file that is.

``ASCEND_DEVICE_ID`` is an index into the owner's list and means nothing in an actor's,
where it is removed. ``ASCEND_VISIBLE_DEVICES`` is for the container runtime and left
alone. The SoC's full name (``Ascend910B4``) is told by the SDK alone, whose import is
slow and may hang: the type is the series, and only where Ray's names have it. The PCI
ids of the series are from public deployment scripts and are not verified.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import NPU
from actorlib.accelerators.base import Accelerator, Detection, Device
from actorlib.accelerators.files import find_files, why_none
from actorlib.accelerators.masks import Mask, Syntax, number, read_mask
from actorlib.accelerators.pci import read_pci

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators.host import Host

_VENDOR = "0x19e5"
# What acl would call a 310 is its series' name, a 910B's begins with it.
_SERIES = {
    "0xd100": ("Ascend 310", "Ascend310"),
    "0xd500": ("Ascend 310P", None),
    "0xd801": ("Ascend 910", None),
    "0xd802": ("Ascend 910B", "Ascend910B"),
    "0xd803": ("Ascend 910C", None),
}


@final
class Ascend(Accelerator):
    """Huawei's family: whole NPUs, or virtual ones that a container is given."""

    family = "ascend"
    kind = NPU
    visible_env = "ASCEND_RT_VISIBLE_DEVICES"

    def detect(self, host: Host) -> Detection:
        """Finds the NPUs whose device files may be opened."""
        files = find_files(host, "/dev/davinci")
        model, kind = _series(host) if files.present else (None, None)
        found = [
            Device(
                family=self.family,
                kind=self.kind.name,
                index=0,
                id=str(place),
                model=model,
                type=kind,
                source=file[1],
            )
            for place, file in enumerate(files.present)
            if file in files.usable
        ]
        rejected = [replace(lost, model=model) for lost in files.rejected]
        reason = why_none(found, rejected)
        if not files.present and host.is_device("/dev/davinci_manager"):
            reason = "there is /dev/davinci_manager, but no /dev/davinci<N>"
        return self.select(found, host.environ, rejected=rejected, reason=reason)

    def mask(self, environ: Mapping[str, str]) -> Mask | None:
        """Reads what the owner may see, up to the first number that does not ascend."""
        last = -1

        def read(text: str, _: str) -> Sequence[str] | None:
            nonlocal last
            if number(text) is None or text != text.strip() or int(text) <= last:
                return None
            last = int(text)
            return (str(last),)

        syntax = Syntax(wanted="higher number without blanks", read=read)
        return read_mask(self.visible_env, environ.get(self.visible_env), syntax)

    def environment(
        self,
        devices: Sequence[Device],
        environ: Mapping[str, str],
        every: Sequence[Device],
    ) -> dict[str, str | None]:
        """The numbers in ascending order, and no index into the owner's list."""
        ascending = sorted(devices, key=lambda device: int(device.written))
        changes = super().environment(ascending, environ, every)
        return changes | {"ASCEND_DEVICE_ID": None}


def _series(host: Host) -> tuple[str | None, str | None]:
    """Returns model and type of all NPUs, unknown where there are several series."""
    found = [read_pci(host, path) for path in host.glob("/sys/bus/pci/devices/*")]
    kinds = {_SERIES.get(pci.device) for pci in found if pci.vendor == _VENDOR} - {None}
    return (kinds.pop() or (None, None)) if len(kinds) == 1 else (None, None)
