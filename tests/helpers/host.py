"""A recorded machine: the answers of a ``Host`` that is not here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, final

from actorlib.accelerators.host import Host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GIB = 2**30

# The real package needs no driver to be imported, so its error classes are at hand.
_real = importlib.import_module("pynvml")


@final
class RecordedHost(Host):
    """A machine that is made of what it was told: files, variables, SDKs, sizes.

    Args:
        environ: The environment of the process.
        files: Texts by absolute path; their folders exist too.
        sdks: Modules by name; no other can be imported.
        cpus: Logical CPUs that the scheduler allows.
        memory: Physical memory in bytes.
    """

    def __init__(
        self,
        *,
        environ: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
        sdks: Mapping[str, ModuleType] | None = None,
        cpus: int = 8,
        memory: int = 16 * GIB,
    ) -> None:
        self._environ = dict(environ or {})
        self._files = dict(files or {})
        self._sdks = dict(sdks or {})
        self._cpus = cpus
        self._memory = memory

    @property
    def environ(self) -> Mapping[str, str]:
        """The recorded environment."""
        return self._environ

    def read_text(self, path: str) -> str | None:
        """The recorded text, or None."""
        return self._files.get(path)

    def glob(self, pattern: str) -> list[str]:
        """The recorded files and their folders that match, sorted."""
        files = [PurePosixPath(path) for path in self._files]
        paths = {path for file in files for path in (file, *file.parents)}
        return sorted(str(path) for path in paths if path.match(pattern))

    def sdk(self, name: str) -> ModuleType:
        """The recorded module."""
        try:
            return self._sdks[name]
        except KeyError:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name) from None

    def affinity(self) -> int:
        """The recorded number."""
        return self._cpus

    def physical_memory(self) -> int:
        """The recorded number of bytes."""
        return self._memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One GPU as NVML describes it.

    Attributes:
        uuid: With its ``GPU-``.
        name: The product name.
        memory: Bytes, or None where NVML says that it is not supported.
        lost: Whether it has fallen off the bus.
    """

    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    memory: int | None = 80 * GIB
    lost: bool = False


@final
class FakeNvml(ModuleType):
    """The module ``pynvml`` on a machine with these cards, raising its real errors.

    Like the real one it answers only between ``nvmlInit`` and ``nvmlShutdown``, counts
    cards by PCI address, and does not care for ``CUDA_VISIBLE_DEVICES``.

    Attributes:
        open: How many times it was started and not shut down.
    """

    def __init__(self, *cards: Card, broken: str = "") -> None:
        """Makes the module.

        Args:
            cards: The machine's cards by PCI address.
            broken: Why ``nvmlInit`` fails, as the end of an error code's name, for
                example ``DRIVER_NOT_LOADED``; empty if it works.
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

    def __getattr__(self, name: str) -> Any:
        # Errors and constants are the real module's own.
        if name.startswith(("NVMLError", "NVML_")):
            return getattr(_real, name)
        raise AttributeError(name)

    def _init(self) -> None:
        if self._broken:
            raise _error(self._broken)
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
            raise _error("INVALID_ARGUMENT")
        return self._answering(self._cards[index])

    def _uuid(self, handle: Card) -> str:
        return self._answering(handle).uuid

    def _name(self, handle: Card) -> str:
        return self._answering(handle).name

    def _memory_info(self, handle: Card, version: int | None = None) -> SimpleNamespace:
        total = self._answering(handle).memory
        if total is None:
            raise _error("NOT_SUPPORTED")
        second = {} if version is None else {"version": version, "reserved": 0}
        return SimpleNamespace(total=total, free=total, used=0, **second)

    def _answering(self, card: Card) -> Card:
        self._check_open()
        if card.lost:
            raise _error("GPU_IS_LOST")
        return card

    def _check_open(self) -> None:
        if not self.open:
            raise _error("UNINITIALIZED")


def nvidia_host(
    *cards: Card, environ: Mapping[str, str] | None = None, broken: str = ""
) -> RecordedHost:
    """A machine on which NVML answers for these cards."""
    nvml = FakeNvml(*cards, broken=broken)
    return RecordedHost(environ=environ, sdks={"pynvml": nvml})


def _error(code: str) -> Exception:
    error: Exception = _real.NVMLError(getattr(_real, f"NVML_ERROR_{code}"))
    return error
