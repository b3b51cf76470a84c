"""NVIDIA GPUs, found through NVML and masked by ``CUDA_VISIBLE_DEVICES``.

NVML counts cards by PCI address and ignores the mask. CUDA counts the fastest first
unless ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` says otherwise, so on a machine of mixed cards
"1" is two different ones: indices are given to a process together with their order.

A mask of indices without an order is taken to count by PCI address, as ``nvidia-smi``
does, where people read the indices off. An owner who has set an order as well has
said what the indices mean: both are passed on, and if the order is CUDA's own, which
card an index leads to stays unknown. MIG instances are granted where the mask names
them; NVML is not asked about them, so their model and memory are unknown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, final

from actorlib.accelerators.base import Accelerator, Detection, Device
from actorlib.accelerators.masks import Mask, choose

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    from actorlib.accelerators.host import Host

_ORDER = "CUDA_DEVICE_ORDER"
_BY_PCI = "PCI_BUS_ID"


@final
class Nvidia(Accelerator):
    """NVIDIA's family: whole cards, or the MIG instances that a mask names."""

    family = "nvidia"
    kind = "GPU"
    visible_env = "CUDA_VISIBLE_DEVICES"
    noset_env = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"
    divisible = True

    def detect(self, host: Host) -> Detection:
        """Finds the GPUs the owner may use, in its mask's order or by PCI address.

        Without a driver that works there are no devices and a reason. A card that
        does not answer is left out, and the others stay.
        """
        mask = self.mask(host.environ)
        if mask is not None and not mask.entries:
            return Detection(family=self.family, outer=(), reason=mask.reason)
        cards, reason = _cards(host)
        outer, cut = (None, "") if mask is None else (mask.entries, mask.reason)
        if mask is not None and cards:
            cards = _as_meant(mask, cards, host.environ.get(_ORDER, _BY_PCI))
            uuids = [None if card is None else card.uuid for card in cards]
            places, cut = choose(mask, uuids)
            outer = mask.entries[: len(places)]
            named = zip(outer, [cards[place] for place in places], strict=True)
            cards = [card and replace(card, id=entry) for entry, card in named]
        found = [card for card in cards if card is not None]
        return Detection(
            family=self.family,
            devices=tuple(replace(card, index=i) for i, card in enumerate(found)),
            outer=outer,
            reason="; ".join(filter(None, (reason, cut))),
        )

    def environment(
        self, devices: Sequence[Device], environ: Mapping[str, str]
    ) -> dict[str, str | None]:
        """The mask, and with indices the order that they were counted in."""
        changes = super().environment(devices, environ)
        settled = _ORDER in environ and self.visible_env in environ
        if devices and not settled and all(device.id.isdecimal() for device in devices):
            changes[_ORDER] = _BY_PCI
        return changes


_BARE = Device(family=Nvidia.family, kind=Nvidia.kind, index=0, id="")


def _cards(host: Host) -> tuple[list[Device | None], str]:
    """Every card by PCI address, None where one is lost; and what went wrong."""
    try:
        nvml = host.sdk("pynvml")
    except ImportError as error:
        return [], f"NVML cannot be asked: {error}"
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        # No library, no driver, or one that was upgraded under a running kernel.
        return [], f"NVML does not start: {error}"
    cards: list[Device | None] = []
    lost: list[str] = []
    try:
        for place in range(nvml.nvmlDeviceGetCount()):
            try:
                cards.append(_card(nvml, place))
            except nvml.NVMLError as error:
                cards.append(None)
                lost.append(f"GPU {place} is left out: {error}")
    finally:
        nvml.nvmlShutdown()
    return cards, "; ".join(lost) if cards else "NVML finds no GPU"


def _card(nvml: ModuleType, place: int) -> Device:
    handle = nvml.nvmlDeviceGetHandleByIndex(place)
    uuid, model = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
    try:
        # The call's second version differs in what it says is used, not in the total.
        memory = nvml.nvmlDeviceGetMemoryInfo(handle).total
    except nvml.NVMLError_NotSupported:
        memory = None  # it has none of its own: it shares the machine's (GB10)
    return replace(_BARE, id=str(place), uuid=uuid, model=model, memory=memory)


def _as_meant(
    mask: Mask, cards: list[Device | None], order: str
) -> list[Device | None]:
    """What a mask chooses from: the cards as far as its own words lead to them."""
    if mask.entries[0].startswith("MIG-"):
        return [replace(_BARE, uuid=entry) for entry in mask.entries]
    if mask.ordinal and order != _BY_PCI:
        return [_BARE for card in cards if card is not None]
    return cards
