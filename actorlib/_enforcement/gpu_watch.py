"""Sees to the workers on NVIDIA's devices: their memory, and what is left of it.

While a worker lives its memory is looked at (``memory_watch``); when it has ended its
share drains (``drains``). Both ask NVML through one session, which begins with the
first worker that has a share of a device which NVML knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from actorlib._enforcement.drains import Drains
from actorlib._enforcement.gpu_processes import Occupant, Occupants
from actorlib._enforcement.memory_watch import MemoryWatch
from actorlib._enforcement.nvml_session import NvmlSession
from actorlib._enforcement.watchdog import watched_shares

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from actorlib._core.process_stat import HasPid
    from actorlib._enforcement.watchdog import Overuse
    from actorlib.accelerators.base import Device, Lease
    from actorlib.accelerators.host import Host


def processes_fault(host: Host, devices: Iterable[Device]) -> str:
    """Says why NVML does not list our processes with their memory; empty if it does.

    Args:
        host: The machine.
        devices: Those that may be granted.
    """
    found = [device for device in devices if device.source == "NVML"]
    if not found:
        return "NVML has found no device here"
    if host.is_device("/dev/dxg"):
        return "under WSL NVML does not say how much memory processes have"
    if not any(device.uuid for device in found):
        return "NVML has no UUIDs of the devices here"
    return ""


@final
class GpuWatch:
    """Sees to the workers of one runtime on NVIDIA's devices.

    Args:
        loop: The owner's loop.
        host: The machine.
        lowered: Told once why memory is not judged any more, or not of all.

    Attributes:
        occupants: The workers there.
        drains: The shares that drain.
        memory: Looks at the memory of the living.
        exceeded: Told of a worker that has more than it was granted; set by whoever
            can do something about that.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        host: Host,
        lowered: Callable[[str], None],
    ) -> None:
        self.exceeded: Callable[[object, Overuse], None] | None = None
        self.occupants = Occupants()
        self._lowered = lowered
        self._session = NvmlSession(host, loop, self._failed)
        self.drains = Drains(loop, self._session, self.occupants)
        self.memory = MemoryWatch(
            loop, self._session, self.occupants, self._exceeded, lowered
        )

    def enter(
        self, process: HasPid, label: str, lease: Lease, *, is_watched: bool
    ) -> None:
        """Takes a worker in that was just launched.

        Args:
            process: The worker.
            label: What its actor is called in messages.
            lease: What it holds.
            is_watched: Whether its memory is judged.
        """
        occupant = Occupant(label, process, lease, is_watched=is_watched)
        self.drains.entered(process, occupant)
        self.memory.entered()

    def left(self, process: HasPid) -> None:
        """Begins to drain what a worker held whose process is gone."""
        self.drains.left(process)

    def used(self, process: HasPid | None) -> dict[str, int]:
        """Returns what a worker had at the last look of devices that it shares.

        Args:
            process: The worker, or the last of one that is dead.

        Returns:
            Bytes by the id of the device; without those of which nobody says it.
        """
        occupant = self.occupants.find(process)
        if occupant is None:
            return {}
        return {
            share.device.id: used
            for device, share in watched_shares(occupant).items()
            if (used := occupant.used.get(device)) is not None
        }

    def stop(self) -> None:
        """Waits for nothing any more, and looks at nothing: the runtime ends."""
        self.drains.close()
        self.memory.close()

    def abandon(self) -> None:
        """Ends the session where the loop is closed."""
        self._session.close()

    async def aclose(self) -> None:
        """Ends the session with NVML."""
        self.stop()
        await self._session.aclose()

    def _exceeded(self, key: object, overuse: Overuse) -> None:
        if self.exceeded is not None:
            self.exceeded(key, overuse)

    def _failed(self, reason: str) -> None:
        self.stop()
        self._lowered(f"NVML has failed: {reason}")
