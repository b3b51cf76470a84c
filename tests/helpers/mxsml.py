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
        self._cards = cards
        self.mxSmlExInit = self._init
        self.mxSmlExShutdown = self._shutdown
        self.mxSmlExDeviceGetCount = self._count
        self.mxSmlExDeviceGetHandleByIndex = cards.__getitem__
        self.mxSmlExDeviceGetName = self._name
        self.mxSmlExDeviceGetUUID = self._uuid
        self.mxSmlExDeviceGetMemoryInfo = self._memory_info
        self.mxSmlExDeviceGetPciInfo = _pci_info

    def _init(self) -> None:
        if self._broken:
            raise MxSmlError(self._broken)

    def _shutdown(self) -> None:
        """There is nothing to end."""

    def _count(self) -> int:
        return len(self._cards)

    def _name(self, card: Mapping[str, Any]) -> str:
        del card
        return "MXC500"

    def _uuid(self, card: Mapping[str, Any]) -> str:
        return str(_supported(card, "uuid"))

    def _memory_info(self, card: Mapping[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(total=_supported(card, "gib") * 2**30)


def _supported(card: Mapping[str, Any], fact: str) -> Any:
    if fact not in card:
        raise MxSmlError("not supported")
    return card[fact]


def _pci_info(card: Mapping[str, Any]) -> SimpleNamespace:
    domain, bus, rest = card["pci"].split(":")
    return SimpleNamespace(
        domain=int(domain, 16), bus=int(bus, 16), device=int(rest[:2], 16)
    )
