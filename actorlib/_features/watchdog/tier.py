"""The tier ``"watchdog"``: watches the memory of workers on devices and on the host.

``device_memory_overuse=``, of the actor or else of ``init``, decides about an actor
with more device memory than it was granted: it is left alone, ended, or the program is
called back. The log has a warning in any case. An excess of the host's memory is only
logged.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Final, final

from actorlib._base.log import tell, warn
from actorlib._core.engine import override
from actorlib._enforcement.drains import LIMIT
from actorlib._enforcement.gpu_processes import UNKNOWN, UNLISTED
from actorlib._enforcement.tiers import Tier, Verdict, nvidia_fault
from actorlib._features.watchdog.judgement import Watched, judge
from actorlib._options.resources import format_bytes
from actorlib.exceptions import DeviceMemoryExceeded, Exit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actorlib._base.process_stat import HasPid
    from actorlib._enforcement.gpu_processes import Listed, Occupant
    from actorlib._enforcement.gpu_watch import GpuWatch
    from actorlib._enforcement.tiers import Site, Supervised
    from actorlib._features.watchdog.judgement import Overuse
    from actorlib._features.watchdog.resident_watch import ResidentWatch
    from actorlib._processes.launcher import WorkerProcess
    from actorlib.accelerators.base import Device

_EXCEEDED = "device memory exceeded"
_STRANGE: Final = LIMIT
"""Seconds after which an invisible process is not one that has just ended."""
_log = logging.getLogger("actorlib")


@final
class Watchdog(Tier):
    """The tier ``"watchdog"``."""

    word = "watchdog"
    is_automatic = True
    watches_devices = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._unlisted = site.unlisted
        self._gpus: GpuWatch
        self._find: Callable[[object], Supervised | None]
        self._watched: dict[tuple[Occupant, str], Watched] = {}
        self._resident: ResidentWatch | None = None

    @override
    def fault(self, device: Device) -> str:
        return nvidia_fault(device, self._unlisted)

    # Memory of devices.

    @override
    def attach(
        self, gpus: GpuWatch, find: Callable[[object], Supervised | None]
    ) -> None:
        self._gpus, self._find = gpus, find
        gpus.on_look = self._judge

    @override
    def lower(self, reason: str) -> None:
        self._unlisted = reason
        warn(
            "shares of NVIDIA devices fall from enforcement by watchdog to frameworks: "
            "%s",
            reason,
        )

    def _judge(self, devices: Iterable[str]) -> None:
        gpus = self._gpus
        before, self._watched = self._watched, {}
        for process, occupant in gpus.occupants.items():
            for device, share in occupant.watched_shares().items():
                watched = before.get((occupant, device), Watched())
                if device not in occupant.used:  # launched behind the question
                    self._watched[occupant, device] = watched
                    continue
                used = occupant.used[device]
                if used is None:
                    name = occupant.devices[device]
                    gpus.lower(
                        f"NVML does not say how much memory processes have on {name}"
                    )
                after, overuse = judge(watched, share, used, time.time())
                self._watched[occupant, device] = after
                if overuse is not None and (worker := self._find(process)) is not None:
                    self._respond(worker, overuse)
        for process in gpus.strangers(devices, _STRANGE):
            gpus.lower(_why_strange(process))

    def _respond(self, worker: Supervised, overuse: Overuse) -> None:
        """Acts on an excess as the options say."""
        record = worker.record
        action = (
            record.options.device_memory_overuse
            or self.site.options.device_memory_overuse
        )
        tell(
            logging.WARNING,
            "%s takes more device memory than it was granted: %s",
            record.title,
            overuse,
        )
        if action == "kill":
            reason = f"it was ended for its device memory: {overuse}"
            worker.end_for(Verdict(_EXCEEDED, reason, partial(_error, overuse)))
        elif callable(action):
            message = f"{record.title} takes more than it was granted: {overuse}"
            how = Exit(cause=_EXCEEDED, reason=str(overuse), pid=record.pid)
            try:
                action(_error(overuse, message, how, record.id.hex()))
            except Exception:  # noqa: BLE001  # around the user's code
                _log.exception("the function of device_memory_overuse= has failed")

    # Memory of the host.

    @override
    def watch_memory(
        self, process: WorkerProcess, label: Callable[[], str], asked: int | None
    ) -> None:
        watch = self._resident
        if watch is None:
            from actorlib._features.watchdog.resident_watch import ResidentWatch  # noqa: PLC0415  # few set memory=

            watch = self._resident = ResidentWatch(self.site.host)
        watch.entered(process, label, asked)
        process.exited.add_done_callback(lambda _: watch.left(process))

    @override
    def memory_used(self, process: HasPid) -> int | None:
        return None if self._resident is None else self._resident.used(process)

    @override
    async def aclose(self) -> None:
        if self._resident is not None:
            await self._resident.aclose()


def _error(
    overuse: Overuse, message: str, how: Exit, actor_id: str
) -> DeviceMemoryExceeded:
    return DeviceMemoryExceeded(
        message, exit=how, actor_id=actor_id, **overuse._asdict()
    )


def _why_strange(process: Listed) -> str:
    if process.pid == UNLISTED:
        return (
            "NVML lists no process on a device of which "
            f"{format_bytes(process.nbytes, UNKNOWN)} are in use, as in many "
            "containers: the memory of each process is unknown"
        )
    return (
        f"NVML lists pid {process.pid}, which is invisible here (it may be of another "
        "pid namespace): its worker is unknown, and no drain waits for it"
    )
