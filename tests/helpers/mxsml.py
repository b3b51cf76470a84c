"""MetaX's library, as it answers on a recorded machine."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class MxSmlError(Exception):
    """As the library's own class of errors."""


@final
class FakeMxSml(ModuleType):
    """The module ``pymxsml.mxsml_extension`` on a machine with these cards.

    Args:
        cards: Each has ``pci``, and ``uuid`` and ``gib`` where these are supported.
        broken: Why it does not start; empty if it does.
    """

    MXSMLEXError = MxSmlError

    def __init__(self, cards: Sequence[Mapping[str, Any]], broken: str = "") -> None:
        super().__init__("pymxsml.mxsml_extension")
        self._broken = broken
        self.mxSmlExInit = self._init
        self.mxSmlExShutdown = lambda: None
        self.mxSmlExDeviceGetCount = lambda: len(cards)
        self.mxSmlExDeviceGetHandleByIndex = cards.__getitem__
        self.mxSmlExDeviceGetName = lambda _: "MXC500"
        self.mxSmlExDeviceGetUUID = lambda card: _supported(card, "uuid")
        self.mxSmlExDeviceGetMemoryInfo = lambda card: SimpleNamespace(
            total=_supported(card, "gib") * 2**30
        )
        self.mxSmlExDeviceGetPciInfo = _pci_info

    def _init(self) -> None:
        if self._broken:
            raise MxSmlError(self._broken)


def _supported(card: Mapping[str, Any], fact: str) -> Any:
    if fact not in card:
        raise MxSmlError("not supported")
    return card[fact]


def _pci_info(card: Mapping[str, Any]) -> SimpleNamespace:
    domain, bus, rest = card["pci"].split(":")
    return SimpleNamespace(
        domain=int(domain, 16), bus=int(bus, 16), device=int(rest[:2], 16)
    )
