"""Huawei's Ascends, found in ``/dev`` and masked by ``ASCEND_RT_VISIBLE_DEVICES``.

An NPU is ``/dev/davinci<N>``. The variable has numbers between commas in ascending
order, without blanks: the list ends before anything else (hiascend.com, CANN
environment variables; CANN 6.3 allowed other orders, and ending a list there does no
harm here). An empty list hides every NPU, by reports of Ray's users. The numbers are
logical: a container with ``davinci3`` to ``davinci7`` counts them from 0
(vllm-ascend#16256), so the id of an NPU is its place among the files, and ``source`` is
the file.

``ASCEND_DEVICE_ID`` is an index into the owner's list. It means nothing in an actor's,
so it is removed there. ``ASCEND_VISIBLE_DEVICES`` is for the container runtime and not
changed. Only the SDK knows the SoC's full name (``Ascend910B4``), and its import is
slow and may hang: the type is the series, if Ray has a name for it. The PCI ids of the
series are from public deployment scripts and are not verified.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import NPU
from actorlib.accelerators.base import Accelerator, Detection, Device
from actorlib.accelerators.files import find_files, read_pci
from actorlib.accelerators.masks import Mask, Syntax, number, read_mask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators.host import Host

_VENDOR = "0x19e5"
# acl's name of a 310 is the name of the series; that of a 910B begins with it.
_SERIES = {
    "0xd100": ("Ascend 310", "Ascend310"),
    "0xd500": ("Ascend 310P", None),
    "0xd801": ("Ascend 910", None),
    "0xd802": ("Ascend 910B", "Ascend910B"),
    "0xd803": ("Ascend 910C", None),
}


@final
class Ascend(Accelerator):
    """Huawei's family: whole NPUs, or the virtual ones of a container."""

    family = "ascend"
    kind = NPU
    visible_env = "ASCEND_RT_VISIBLE_DEVICES"
    removed_envs = ("ASCEND_DEVICE_ID",)

    def detect(self, host: Host) -> Detection:
        """Lists the NPUs whose device files may be opened."""
        files = find_files(host, "/dev/davinci")
        model, kind = _series(host) if files.present else (None, None)
        npus = [
            Device(
                family=self.family,
                kind=self.kind.name,
                id=str(place),
                model=model,
                type=kind,
                source=file[1],
            )
            for place, file in enumerate(files.present)
            if file in files.usable
        ]
        rejected = [replace(lost, model=model) for lost in files.rejected]
        reason: str | None = None
        if not files.present and host.is_device("/dev/davinci_manager"):
            reason = "there is /dev/davinci_manager, but no /dev/davinci<N>"
        return self.select(npus, host.environ, rejected=rejected, reason=reason)

    def mask(self, environ: Mapping[str, str]) -> Mask | None:
        """Reads the owner's mask up to the first number that does not ascend."""
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
        """Writes the numbers in ascending order."""
        ascending = sorted(devices, key=lambda device: int(device.written))
        return super().environment(ascending, environ, every)


def _series(host: Host) -> tuple[str | None, str | None]:
    """Returns model and type of all NPUs; None if there are several series."""
    pcis = [read_pci(host, path) for path in host.glob("/sys/bus/pci/devices/*")]
    kinds = {_SERIES.get(pci.device) for pci in pcis if pci.vendor == _VENDOR} - {None}
    return (kinds.pop() or (None, None)) if len(kinds) == 1 else (None, None)
