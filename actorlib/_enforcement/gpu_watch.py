"""Polls NVML for the memory that workers have on devices, while there is a reason to.

There is one timer and one question at a time. The answer goes into one table
(``gpu_processes``), and then to its two users:

* The drain of an ended worker (``drains``). It lasts until the driver lists no process
  of the worker any longer. The pauses between two questions grow from 10 to 250 ms.
* The watch of a living worker that has a part of a device: once a second ``on_look`` is
  called. The holder of a whole device harms no other worker and is not watched.

Without either there is no timer, and NVML is not called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from actorlib._enforcement.drains import Drains
from actorlib._enforcement.gpu_processes import Occupant, Occupants

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator

    from actorlib._base.process_stat import HasPid
    from actorlib._enforcement.gpu_processes import Listed
    from actorlib._enforcement.nvml_session import Look, NvmlSession
    from actorlib.accelerators.base import Device, Lease
    from actorlib.accelerators.host import Host

PERIOD: Final = 1.0
"""Seconds between two looks at living workers."""
_SILENCE: Final = 10.0
"""Seconds without an answer after which NVML counts as hanging."""


def processes_fault(host: Host, devices: Iterable[Device]) -> str:
    """Returns why NVML does not list our processes with memory, or nothing."""
    by_nvml = [device for device in devices if device.source == "NVML"]
    if not by_nvml:
        return "NVML has found no device here"
    if host.is_device("/dev/dxg"):
        return "under WSL NVML does not say how much memory processes have"
    if not any(device.uuid for device in by_nvml):
        return "NVML has no UUIDs of the devices here"
    return ""


@final
class GpuWatch:
    """Polls NVML for the workers of one runtime.

    Args:
        open_session: Makes the session with NVML, from the function to call when that
            fails; it begins with the first question.
        lowered: Called once with the reason if the memory of processes becomes unknown.

    Attributes:
        occupants: The table: the workers, and the processes on each device at the last
            look.
        drains: The shares that drain.
        on_look: Called once a second with the UUIDs of the devices in the look, while
            there are watched workers; a tier sets it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        open_session: Callable[[Callable[[str], None]], NvmlSession],
        lowered: Callable[[str], None],
    ) -> None:
        self.on_look: Callable[[Iterable[str]], None] | None = None
        self.occupants = Occupants()
        self.drains = Drains(loop, self.occupants)
        self._loop = loop
        self._lowered = lowered
        self._session = open_session(self._failed)
        self._is_closed = False
        self._is_lowered = False
        self._timer: asyncio.TimerHandle | None = None
        # Not read from the timer: uvloop's has no ``when()`` if it is due at once.
        self._due = 0.0
        self._questions = 0
        self._asked_at: float | None = None
        self._entered: set[str] = set()
        self._tell_at = 0.0

    def add_worker(
        self, process: HasPid, label: str, lease: Lease, *, is_watched: bool
    ) -> None:
        occupant = Occupant(label, process, lease, is_watched=is_watched)
        if self._is_closed or not occupant.devices:
            return
        if not self._watched_devices():
            self._tell_at = self._loop.time() + PERIOD
        self.occupants.enter(process, occupant)
        # What is listed already is not its own. A later look could not tell.
        self._entered |= occupant.devices.keys()
        self._poll_after(0.0)

    def drain_worker(self, process: HasPid) -> None:
        """Begins to drain the shares of a worker that has ended, once."""
        occupant = self.occupants.find(process)
        if occupant is None or occupant.has_ended:
            return
        if self._is_closed:
            self.occupants.leave(process)
            return
        # An answer to an earlier question may be from before the end. One question
        # serves all workers that end in this turn of the loop.
        self.drains.begin(process, occupant, self._questions)
        self._poll_after(0.0)

    def used(self, process: HasPid | None) -> dict[str, int]:
        """Returns the bytes that a worker had of its shared devices at the last look.

        Args:
            process: The worker, or the last process of a dead one.

        Returns:
            Bytes by the id of the device, without the devices where they are unknown.
        """
        occupant = self.occupants.find(process)
        if occupant is None:
            return {}
        return {
            share.device.id: used
            for device, share in occupant.watched_shares().items()
            if (used := occupant.used.get(device)) is not None
        }

    def who_has_what(self, process: HasPid | None) -> str:
        """Describes the users of a worker's devices at the last look; may be empty."""
        occupant = self.occupants.find(process)
        names = {} if occupant is None else occupant.devices
        return self.occupants.describe(names)

    def strangers(self, devices: Iterable[str], seconds: float) -> Iterator[Listed]:
        """Yields the invisible processes that have been listed for a long time."""
        since = self._loop.time() - seconds
        for device in devices:
            for process in self.occupants.latest[device]:
                if process.is_strange and process.since <= since:
                    yield process

    def stop(self) -> None:
        """Ends all drains and polls: the runtime ends."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.drains.close()

    def abandon(self) -> None:
        """Ends the session, because the loop is closed."""
        self._session.close()

    async def aclose(self) -> None:
        self.stop()
        await self._session.aclose()

    # The poll.

    def _poll_after(self, seconds: float) -> None:
        """Asks after so many seconds, or earlier if an earlier question is due."""
        if self._asked_at is not None:
            return  # the answer decides when the next question is due
        due = self._loop.time() + seconds
        if self._timer is not None:
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._ask)

    def _ask(self) -> None:
        self._timer = None
        watched = self._watched_devices()
        devices = self._entered | self.drains.devices() | watched
        self._entered = set()
        if devices:
            self._questions += 1
            self._asked_at = self._loop.time()
            self._timer = self._loop.call_later(_SILENCE, self._wait_on)
            self._session.look(sorted(devices), self._seen)

    def _wait_on(self) -> None:
        """NVML is silent: shares that drain have their own limit."""
        self._timer = None
        if self._watched_devices():
            self.lower(f"NVML has not answered for {_SILENCE:g} s")
        else:
            self._timer = self._loop.call_later(_SILENCE, self._wait_on)

    def _seen(self, look: Look) -> None:
        self._asked_at = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_closed:
            return
        now = self._loop.time()
        self.occupants.note(look, now)
        self.drains.read(self._questions)
        watched = self._watched_devices()
        if watched and now >= self._tell_at:
            self._tell_at = now + PERIOD
            if self.on_look is not None:
                self.on_look(look.keys())
        pauses: list[float] = []
        if self._entered:
            pauses.append(0.0)
        if (draining := self.drains.pause(self._questions)) is not None:
            pauses.append(draining)
        if watched:
            pauses.append(max(self._tell_at - now, 0.0))
        if pauses:
            self._poll_after(min(pauses))

    def _watched_devices(self) -> set[str]:
        return {uuid for one in self.occupants for uuid in one.watched_shares()}

    def lower(self, reason: str) -> None:
        """Reports, once, that the memory of processes is unknown, or some of it."""
        if not self._is_lowered:
            self._is_lowered = True
            self._lowered(reason)

    def _failed(self, reason: str) -> None:
        self.stop()
        self._lowered(f"NVML has failed: {reason}")
