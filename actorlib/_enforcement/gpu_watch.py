"""Polls NVML for the memory that workers have on devices, while there is a reason to.

There is one timer and one question at a time. Its answer goes into one table
(``gpu_processes``), and then to whoever waits for it:

* A worker that has ended: its share drains until the driver lists nothing of it any
  more (``drains``). The pauses between two questions grow from 10 to 250 ms.
* A living worker that has a part of a device: ``watchdog`` judges once a second whether
  it has more than it was granted. Whoever holds a whole device harms no other worker.

Without either there is no timer, and NVML is not asked.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, final

from actorlib._core.resources import format_bytes
from actorlib._enforcement.draining import LIMIT
from actorlib._enforcement.drains import Drains
from actorlib._enforcement.gpu_processes import UNKNOWN, UNLISTED, Occupant, Occupants
from actorlib._enforcement.watchdog import (
    Watched,
    judge,
    watched_shares,
    who_has_what,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from actorlib._core.process_stat import HasPid
    from actorlib._enforcement.gpu_processes import Listed
    from actorlib._enforcement.nvml_session import Look, NvmlSession
    from actorlib._enforcement.watchdog import Overuse
    from actorlib.accelerators.base import Device, Lease
    from actorlib.accelerators.host import Host

PERIOD: Final = 1.0
"""Seconds between two judgements of the living."""
_SILENCE: Final = 10.0
"""Seconds after which NVML is taken to hang."""
_STRANGE: Final = LIMIT
"""Seconds after which a process that cannot be seen is not one that has just ended."""


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
        exceeded: Called with a worker that has more than it was granted, once for each
            of its devices, and the figures; set by whoever can do something about that.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        open_session: Callable[[Callable[[str], None]], NvmlSession],
        lowered: Callable[[str], None],
    ) -> None:
        self.exceeded: Callable[[object, Overuse], None] | None = None
        self.occupants = Occupants()
        self.drains = Drains(loop, self.occupants)
        self._loop = loop
        self._lowered = lowered
        self._session = open_session(self._failed)
        self._is_closed = False
        self._is_judging = True
        self._timer: asyncio.TimerHandle | None = None
        # Not read from the timer: uvloop's has no ``when()`` if it is due at once.
        self._due = 0.0
        self._questions = 0
        self._asked_at: float | None = None
        self._entered: set[str] = set()
        self._judge_at = 0.0
        self._watched: dict[tuple[Occupant, str], Watched] = {}

    def enter(
        self, process: HasPid, label: str, lease: Lease, *, is_watched: bool
    ) -> None:
        """Adds a worker that was just launched.

        Args:
            process: The worker.
            label: The name of its actor in messages.
            lease: What it holds.
            is_watched: Whether its memory is judged.
        """
        occupant = Occupant(label, process, lease, is_watched=is_watched)
        if self._is_closed or not occupant.devices:
            return
        if not self._watched_devices():
            self._judge_at = self._loop.time() + PERIOD
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
            for device, share in watched_shares(occupant).items()
            if (used := occupant.used.get(device)) is not None
        }

    def who_has_what(self, process: HasPid | None) -> str:
        """Describes what was on the devices of a worker at the last look; may be empty.

        Args:
            process: The worker.
        """
        occupant = self.occupants.find(process)
        names = {} if occupant is None else occupant.devices
        return who_has_what(self.occupants, names)

    def stop(self) -> None:
        """Waits for nothing any more, and polls no more: the runtime ends."""
        self._is_closed = True
        self._watched.clear()
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
        if not watched:
            self._watched.clear()
        if devices:
            self._questions += 1
            self._asked_at = self._loop.time()
            self._timer = self._loop.call_later(_SILENCE, self._wait_on)
            self._session.look(sorted(devices), self._seen)

    def _wait_on(self) -> None:
        """NVML is silent: shares that drain have a limit of their own."""
        self._timer = None
        if self._watched_devices():
            self._lower(f"NVML has not answered for {_SILENCE:g} s")
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
        if watched and now >= self._judge_at:
            self._judge_at = now + PERIOD
            self._judge()
            self._look_for_strangers(look.keys(), now)
        pauses: list[float] = []
        if self._entered:
            pauses.append(0.0)
        if (draining := self.drains.pause(self._questions)) is not None:
            pauses.append(draining)
        if watched:
            pauses.append(max(self._judge_at - now, 0.0))
        if pauses:
            self._poll_after(min(pauses))

    # The judgement of the living.

    def _watched_devices(self) -> set[str]:
        return {uuid for one in self.occupants for uuid in watched_shares(one)}

    def _judge(self) -> None:
        before, self._watched = self._watched, {}
        for key, occupant in self.occupants.items():
            for device, share in watched_shares(occupant).items():
                watched = before.get((occupant, device), Watched())
                if device not in occupant.used:  # launched behind the question
                    self._watched[occupant, device] = watched
                    continue
                used = occupant.used[device]
                if used is None:
                    name = occupant.devices[device]
                    self._lower(
                        f"NVML does not say how much memory processes have on {name}"
                    )
                after, overuse = judge(watched, share, used, time.time())
                self._watched[occupant, device] = after
                if overuse is not None and self.exceeded is not None:
                    self.exceeded(key, overuse)

    def _look_for_strangers(self, devices: Iterable[str], now: float) -> None:
        for device in devices:
            for process in self.occupants.latest[device]:
                if process.is_strange and now - process.since >= _STRANGE:
                    self._lower(_strange(process))

    def _lower(self, reason: str) -> None:
        if self._is_judging:
            self._is_judging = False
            self._lowered(reason)

    def _failed(self, reason: str) -> None:
        self.stop()
        self._lowered(f"NVML has failed: {reason}")


def _strange(process: Listed) -> str:
    if process.pid == UNLISTED:
        return (
            "NVML lists nobody on a device of which "
            f"{format_bytes(process.nbytes, UNKNOWN)} are in use, as in many "
            "containers: who has how much cannot be told"
        )
    return (
        f"NVML lists pid {process.pid}, which cannot be seen from here (it may be of "
        "another pid namespace): whose memory that is cannot be told, and it is not "
        "waited for"
    )
