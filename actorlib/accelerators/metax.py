"""MetaX's GPUs, found in sysfs and masked by ``CUDA_VISIBLE_DEVICES``.

Their software, MACA, presents itself as CUDA and reads CUDA's variable (ray#58338). It
also has its own, ``MACA_VISIBLE_DEVICES``, and counts the fastest first unless
``MACA_DEVICE_ORDER=PCI_BUS_ID`` (MetaX's list of variables). How two masks combine is
not documented: we write one and remove the other, and if the owner has set both they
must be equal.

The vendor of their render nodes, 0x9999 on PCI, distinguishes cards from NVIDIA's;
every process opens ``/dev/mxcd`` as well. Models by PCI device are from public code;
MetaX's library adds exact names, UUIDs and memory. None of it was tried on a card.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

from actorlib._options.kinds import GPU
from actorlib.accelerators.base import Accelerator, Detection, Device, Rejected
from actorlib.accelerators.files import closed, read_pci
from actorlib.accelerators.masks import CUDA, Mask, read_mask
from actorlib.accelerators.type_names import of_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from actorlib.accelerators.host import Host

_CONTROL = "/dev/mxcd"
_MASK, _ORDER = "MACA_VISIBLE_DEVICES", "MACA_DEVICE_ORDER"
_MODELS = {"0x4000": "MXC550", "0x4001": "MXC500"}


@final
class Metax(Accelerator):
    """MetaX's family; a type is the name of the product, as in Ray."""

    family = "metax"
    kind = GPU
    visible_env = "CUDA_VISIBLE_DEVICES"
    syntax = CUDA

    def detect(self, host: Host) -> Detection:
        """Lists the owner's GPUs, in its mask's order or by PCI address."""
        cards = {
            node.rpartition("/")[2]: pci
            for node in host.glob("/sys/class/drm/renderD*")
            if (pci := read_pci(host, f"{node}/device")).vendor == "0x9999"
        }
        if not cards and not host.is_device(_CONTROL):
            return self.select((), host.environ)
        from_library, why = _from_library(host)
        gpus = [] if cards else list(from_library.values())
        rejected: list[Rejected] = []
        for node, pci in sorted(cards.items(), key=lambda card: card[1].address or ""):
            at, model = pci.address, _MODELS.get(pci.device)
            card = replace(_BARE, pci=at, model=model, type=model, source="sysfs")
            name = f"/dev/dri/{node}"
            if fault := closed(host, _CONTROL) or closed(host, name):
                rejected.append(Rejected(name=name, why=fault, model=model))
            else:
                gpus.append(from_library.get(at, card))
        reason = None if cards or gpus else f"{_CONTROL} leads to no card: {why}"
        numbered = [replace(card, id=str(n)) for n, card in enumerate(gpus)]
        return self.select(numbered, host.environ, rejected=rejected, reason=reason)

    def mask(self, environ: Mapping[str, str]) -> Mask | None:
        """Reads the owner's mask from CUDA's variable or from MACA's own."""
        names = [name for name in (self.visible_env, _MASK) if name in environ]
        if len({environ[name] for name in names}) > 1:
            both = " and ".join(f"{name}={environ[name]!r}" for name in names)
            return Mask(said=both, entries=(), reason=f"{both} disagree: set one")
        return read_mask(names[0], environ[names[0]], CUDA) if names else None

    def environment(
        self,
        devices: Sequence[Device],
        environ: Mapping[str, str],
        every: Sequence[Device],
    ) -> dict[str, str | None]:
        """Writes one mask and the order of its numbers; two empty masks hide all."""
        changes = super().environment(devices, environ, every)
        changes[_MASK] = None if devices else ""
        if devices and not (_ORDER in environ and self.mask(environ)):
            changes[_ORDER] = "PCI_BUS_ID"
        return changes


_BARE = Device(family=Metax.family, kind=Metax.kind.name, id="")


def _from_library(host: Host) -> tuple[dict[str | None, Device], str]:
    """Reads the cards by PCI address from MetaX's library, or why there are none."""
    from_library: dict[str | None, Device] = {}
    try:
        library = host.sdk("pymxsml.mxsml_extension")
    except ImportError as error:
        return from_library, str(error)
    try:
        library.mxSmlExInit()
        for number in range(library.mxSmlExDeviceGetCount()):
            handle = library.mxSmlExDeviceGetHandleByIndex(number)
            at = library.mxSmlExDeviceGetPciInfo(handle)
            pci = f"{at.domain:04x}:{at.bus:02x}:{at.device:02x}.0"
            model = library.mxSmlExDeviceGetName(handle)
            memory = _ask(library, "mxSmlExDeviceGetMemoryInfo", handle)
            from_library[pci] = replace(
                _BARE,
                uuid=_ask(library, "mxSmlExDeviceGetUUID", handle),
                pci=pci,
                model=model,
                type=of_name(model),
                memory=memory and memory.total,
                source="MXSML",
            )
        library.mxSmlExShutdown()
    except library.MXSMLEXError as error:
        return from_library, f"MetaX's library fails: {error}"
    return from_library, "MetaX's library knows none"


def _ask(library: ModuleType, question: str, handle: object) -> Any:
    """Asks for an optional fact; None if the library has no answer."""
    try:
        return getattr(library, question)(handle) or None
    except library.MXSMLEXError:
        return None
