"""NVML as it answers on a machine with the given cards, raising its real errors."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, final

from helpers.fake_nvml import MemoryLimits, Processes, error
from helpers.host import GIB, RecordedHost, read_machine
from helpers.mxsml import FakeMxSml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The real package needs no driver to be imported, so its error classes are at hand.
_real = importlib.import_module("pynvml")

MIB = 2**20
OLD_DRIVER = "580.65.06"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One MIG instance as NVML describes it.

    Attributes:
        uuid: With its ``MIG-``.
        name: The product name.
        memory: Bytes.
        slot: Its index within its card; there can be holes.
        gi: The id of its GPU instance.
        ci: The id of its compute instance within that.
    """

    uuid: str
    name: str = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    memory: int = 10 * GIB
    slot: int = 0
    gi: int = 1
    ci: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One GPU as NVML describes it.

    Attributes:
        uuid: With its ``GPU-``, or None where NVML says that it is not supported.
        name: The product name, or None where that is not supported.
        memory: Bytes, or None where that is not supported.
        lost: Whether it has fallen off the bus.
        minor: The number of its device file, or None where that is not supported.
        pci: Domain, bus and device, or None where that is not supported.
        mig: Whether its MIG mode is on, or None where it has none.
        parts: Its MIG instances.
        linked: The UUIDs of the cards that it reaches over NVLink.
        mode: The number of its compute mode, or None where that is not supported.
        busy: The per cent of time in which it computes, or None where that is not
            supported, as in MIG mode.
    """

    uuid: str | None
    name: str | None = "NVIDIA H100 80GB HBM3"
    memory: int | None = 80 * GIB
    lost: bool = False
    minor: int | None = None
    pci: tuple[int, int, int] | None = None
    mig: bool | None = None
    parts: Sequence[Part] = ()
    linked: Sequence[str] = ()
    mode: int | None = 0
    busy: int | None = None


_Handle = TypeVar("_Handle", bound=Card | Part)
_Value = TypeVar("_Value")


@final
class FakeNvml(ModuleType):
    """The module ``pynvml`` on a machine with these cards, raising its real errors.

    Like the real one it answers only between ``nvmlInit`` and ``nvmlShutdown``, counts
    cards by PCI address, and does not care for ``CUDA_VISIBLE_DEVICES``.

    Attributes:
        open: How many times it was started and not shut down.
    """

    def __init__(
        self,
        *cards: Card,
        broken: str = "",
        old: bool = False,
        processes: Processes | None = None,
        limits: MemoryLimits | None = None,
    ) -> None:
        """Makes the module.

        Args:
            cards: The machine's cards by PCI address.
            broken: Why ``nvmlInit`` fails, as the end of an error code's name, for
                example ``DRIVER_NOT_LOADED``; empty if it works.
            old: Whether it is from before there were MIG and NVLink.
            processes: Who is listed on them; nobody if it is not said.
            limits: What cgroups may have of them; the driver is older than that if it
                is not said.
        """
        super().__init__("pynvml")
        self.open = 0
        self._cards: Sequence[Card] = cards
        self._broken = broken
        self.nvmlInit = self._init
        self.nvmlShutdown = self._shutdown
        self.nvmlDeviceGetCount = self._count
        self.nvmlDeviceGetHandleByIndex = self._handle
        self.nvmlDeviceGetUUID = self._uuid
        self.nvmlDeviceGetName = self._name
        self.nvmlDeviceGetMemoryInfo = self._memory_info
        self.nvmlDeviceGetUtilizationRates = self._utilization
        self.nvmlDeviceGetMinorNumber = self._minor
        self.nvmlDeviceGetPciInfo = self._pci_info
        self.nvmlDeviceGetHandleByUUID = self._handle_of
        self._processes = processes or Processes()
        vars(self).update(self._processes.functions())
        limits = limits or MemoryLimits(lambda _: False, OLD_DRIVER)
        vars(self).update(limits.functions())
        if not old:
            self.nvmlDeviceGetComputeMode = self._compute_mode
            self.nvmlDeviceGetMigMode = self._mig_mode
            self.nvmlDeviceGetMaxMigDeviceCount = self._most_parts
            self.nvmlDeviceGetMigDeviceHandleByIndex = self._part
            self.nvmlDeviceGetGpuInstanceId = self._gpu_instance
            self.nvmlDeviceGetComputeInstanceId = self._compute_instance
            self.nvmlDeviceGetP2PStatus = self._p2p_status

    def __getattr__(self, name: str) -> Any:
        # Errors and constants are the real module's own.
        if name.startswith(("NVMLError", "NVML_", "nvmlMemory_")):
            return getattr(_real, name)
        raise AttributeError(name)

    def _init(self) -> None:
        if self._broken:
            raise error(self._broken)
        self.open += 1

    def _shutdown(self) -> None:
        self._check_open()
        self.open -= 1

    def _count(self) -> int:
        self._check_open()
        return len(self._cards)

    def _handle(self, index: int) -> Card:
        self._check_open()
        if not 0 <= index < len(self._cards):
            raise error("INVALID_ARGUMENT")
        return self._answering(self._cards[index])

    def _handle_of(self, uuid: str) -> Card | Part:
        self._check_open()
        every = [each for card in self._cards for each in (card, *card.parts)]
        found = next((each for each in every if each.uuid == uuid), None)
        if found is None:
            raise error("NOT_FOUND")
        return self._answering(found)

    def _uuid(self, handle: Card | Part) -> str:
        return _supported(self._answering(handle).uuid)

    def _name(self, handle: Card | Part) -> str:
        return _supported(self._answering(handle).name)

    def _memory_info(
        self, handle: Card | Part, version: int | None = None
    ) -> SimpleNamespace:
        total = _supported(self._answering(handle).memory)
        second = {} if version is None else {"version": version, "reserved": 0}
        used = self._processes.used.get(handle.uuid or "", 0)
        return SimpleNamespace(total=total, free=total - used, used=used, **second)

    def _utilization(self, handle: Card | Part) -> SimpleNamespace:
        busy = handle.busy if isinstance(handle, Card) else None
        return SimpleNamespace(
            gpu=_supported(self._answering(handle) and busy), memory=0
        )

    def _minor(self, handle: Card) -> int:
        return _supported(self._answering(handle).minor)

    def _pci_info(self, handle: Card | Part) -> SimpleNamespace:
        address = handle.pci if isinstance(handle, Card) else None
        domain, bus, device = _supported(self._answering(handle) and address)
        return SimpleNamespace(
            domain=domain,
            bus=bus,
            device=device,
            busId=f"{domain:08X}:{bus:02X}:{device:02X}.0",
        )

    def _compute_mode(self, handle: Card) -> int:
        return _supported(self._answering(handle).mode)

    def _mig_mode(self, handle: Card) -> list[int]:
        on = _supported(self._answering(handle).mig)
        return [int(on), int(on)]

    def _most_parts(self, handle: Card) -> int:
        return 0 if self._answering(handle).mig is None else 7

    def _part(self, handle: Card, index: int) -> Part:
        there = {part.slot: part for part in self._answering(handle).parts}
        if index not in there:
            raise error("NOT_FOUND")
        return there[index]

    def _gpu_instance(self, handle: Part) -> int:
        return self._answering(handle).gi

    def _compute_instance(self, handle: Part) -> int:
        return self._answering(handle).ci

    def _p2p_status(self, one: Card, other: Card, index: int) -> int:
        is_linked = other.uuid in one.linked and one.uuid in other.linked
        if index != _real.NVML_P2P_CAPS_INDEX_NVLINK or not is_linked:
            return int(_real.NVML_P2P_STATUS_NOT_SUPPORTED)
        return int(_real.NVML_P2P_STATUS_OK)

    def _answering(self, handle: _Handle) -> _Handle:
        self._check_open()
        if isinstance(handle, Card) and handle.lost:
            raise error("GPU_IS_LOST")
        return handle

    def _check_open(self) -> None:
        if not self.open:
            raise error("UNINITIALIZED")


def nvidia_host(
    *cards: Card,
    environ: Mapping[str, str] | None = None,
    broken: str = "",
    processes: Processes | None = None,
    files: Mapping[str, str] | None = None,
) -> RecordedHost:
    """A machine on which NVML answers for these cards."""
    nvml = FakeNvml(*cards, broken=broken, processes=processes)
    devices = {"/dev/nvidiactl": True}
    return RecordedHost(
        environ=environ, files=files, devices=devices, sdks={"pynvml": nvml}
    )


def nvidia_machine(
    machine: str | Mapping[str, Any], *, environ: Mapping[str, str] | None = None
) -> RecordedHost:
    """A recorded machine together with the libraries that were recorded there.

    ``nvml`` lists cards; what is missing of one is what NVML does not support. Each may
    have ``uuid``, ``name``, ``mib`` of memory, ``minor``, ``pci``, ``lost``, ``mig``,
    ``linked`` (the places of other cards in the list) and ``parts`` with ``uuid``,
    ``name``, ``mib``, ``slot``, ``gi`` and ``ci``. ``nvml_broken`` says why NVML does
    not start, ``nvml_old`` that it is from before MIG; without any of them, its library
    is not installed. ``mxsml`` lists what MetaX's library knows, if that is there.

    Args:
        machine: What ``read_machine`` gives, or its argument.
        environ: Variables besides the recorded ones.
    """
    told = read_machine(machine) if isinstance(machine, str) else machine
    sdks: dict[str, ModuleType] = {}
    tables: list[dict[str, Any]] = told.get("nvml", [])
    missing = "" if "nvml" in told else "LIBRARY_NOT_FOUND"
    if not told.get("nvml_absent"):
        sdks["pynvml"] = FakeNvml(
            *(_card(table, tables) for table in tables),
            broken=told.get("nvml_broken", missing),
            old=told.get("nvml_old", False),
        )
    if "mxsml" in told:
        broken = told.get("mxsml_broken", "")
        sdks["pymxsml.mxsml_extension"] = FakeMxSml(told["mxsml"], broken)
    return RecordedHost.load(told, environ=environ, sdks=sdks)


def _card(table: Mapping[str, Any], tables: Sequence[Mapping[str, Any]]) -> Card:
    parts: list[dict[str, Any]] = table.get("parts", [])
    linked: list[int] = table.get("linked", [])
    return Card(
        uuid=table.get("uuid"),
        name=table.get("name"),
        memory=table["mib"] * MIB if "mib" in table else None,
        lost=table.get("lost", False),
        minor=table.get("minor"),
        pci=_address(table["pci"]) if "pci" in table else None,
        mig=table.get("mig"),
        parts=[_part(part) for part in parts],
        linked=[tables[place]["uuid"] for place in linked],
    )


def _part(table: Mapping[str, Any]) -> Part:
    rest = {name: value for name, value in table.items() if name != "mib"}
    return Part(memory=table["mib"] * MIB, **rest)


def _address(pci: str) -> tuple[int, int, int]:
    domain, bus, rest = pci.split(":")
    return int(domain, 16), int(bus, 16), int(rest.partition(".")[0], 16)


def _supported(value: _Value | None) -> _Value:
    if value is None:
        raise error("NOT_SUPPORTED")
    return value
