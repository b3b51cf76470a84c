"""Polls NVML for the memory that workers have on devices, while there is a reason to.

There is one timer and one question at a time. Its answer goes into one table
(``gpu_processes``), and then to whoever waits for it:

* A worker that has ended: its share drains until the driver lists nothing of it any
  more (``drains``). The pauses between two questions grow from 10 to 250 ms.
* A living worker that has a part of a device and is watched: once a second whoever
  watches it is told that there was a look. Whoever holds a whole device harms no other
  worker.

Without either there is no timer, and NVML is not asked.
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
"""Seconds between two looks at the living."""
_SILENCE: Final = 10.0
"""Seconds after which NVML is taken to hang."""


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
    """The poller of one runtime, and the workers that it polls for.

    Args:
        loop: The owner's loop.
        open_session: Makes the session with NVML, from the function to call when that
            fails; it begins with the first question.
        lowered: Called once with the reason why memory is not judged any more, or not
            all of it.

    Attributes:
        occupants: The table: the workers, and what each device had on it at the last
            look.
        drains: The shares that drain.
        on_look: Called once a second, with the UUIDs of the devices that were looked
            at, while there are workers that are watched; set by whoever watches them.
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

    def enter(
        self, process: HasPid, label: str, lease: Lease, *, is_watched: bool
    ) -> None:
        """Adds a worker that was just launched.

        Args:
            process: The worker.
            label: The name of its actor in messages.
            lease: What it holds.
            is_watched: Whether it is looked at while it lives, too.
        """
        occupant = Occupant(label, process, lease, is_watched=is_watched)
        if self._is_closed or not occupant.devices:
            return
        if not self._watched_devices():
            self._tell_at = self._loop.time() + PERIOD
        self.occupants.enter(process, occupant)
        # What is there already cannot be its own, even if its origin shows only later.
        self._entered |= occupant.devices.keys()
        self._poll_after(0.0)

    def left(self, process: HasPid) -> None:
        """Begins to drain what a worker held whose process is gone, unless it has."""
        occupant = self.occupants.find(process)
        if occupant is None or occupant.has_ended:
            return
        if self._is_closed:
            self.occupants.leave(process)
            return
        # An answer to an earlier question may be from before the end. All that end in
        # this turn of the loop are asked about together.
        self.drains.begin(process, occupant, self._questions)
        self._poll_after(0.0)

    def used(self, process: HasPid | None) -> dict[str, int]:
        """Returns what a worker had at the last look of devices that it shares.

        Args:
            process: The worker, or the last of one that is dead.

        Returns:
            Bytes by the id of the device; without those of which they are unknown.
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
        """Describes what was on the devices of a worker at the last look; may be empty.

        Args:
            process: The worker.
        """
        occupant = self.occupants.find(process)
        names = {} if occupant is None else occupant.devices
        return self.occupants.describe(names)

    def strangers(self, devices: Iterable[str], seconds: float) -> Iterator[Listed]:
        """Yields the processes that cannot be seen, once they are there for long.

        Args:
            devices: Where they are looked for, by UUID.
            seconds: For how long.
        """
        since = self._loop.time() - seconds
        for device in devices:
            for process in self.occupants.latest[device]:
                if process.is_strange and process.since <= since:
                    yield process

    def stop(self) -> None:
        """Waits for nothing any more, and polls no more: the runtime ends."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.drains.close()

    def abandon(self) -> None:
        """Ends the session where the loop is closed."""
        self._session.close()

    async def aclose(self) -> None:
        """Ends the session with NVML."""
        self.stop()
        await self._session.aclose()

    # The poll.

    def _poll_after(self, seconds: float) -> None:
        """Asks after so many seconds, or earlier if that was due before."""
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
        """NVML is silent: shares that drain have a limit of their own."""
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
        """Tells, once, that memory is not known any more, or not all of it."""
        if not self._is_lowered:
            self._is_lowered = True
            self._lowered(reason)

    def _failed(self, reason: str) -> None:
        self.stop()
        self._lowered(f"NVML has failed: {reason}")
