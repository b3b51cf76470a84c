"""Looks once a second at the memory that workers have on devices they share.

There is a timer, and a question to NVML, only while somebody has a part of a device:
whoever holds a whole one harms nobody. ``watchdog`` judges.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, final

from actorlib._core.resources import format_bytes
from actorlib._enforcement.draining import LIMIT
from actorlib._enforcement.gpu_processes import UNKNOWN, UNLISTED
from actorlib._enforcement.watchdog import (
    Watched,
    judge,
    watched_shares,
    who_has_what,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from actorlib._enforcement.gpu_processes import Listed, Occupant, Occupants
    from actorlib._enforcement.nvml_session import Look, NvmlSession
    from actorlib._enforcement.watchdog import Overuse

PERIOD = 1.0
"""Seconds between two looks."""
_SILENCE = 10.0
"""Seconds after which NVML is taken to hang."""
_STRANGE = LIMIT
"""Seconds after which a process that cannot be seen is not one that has just ended."""


@final
class MemoryWatch:
    """Watches the memory of workers that share devices.

    Args:
        loop: The owner's loop.
        session: Asks NVML.
        occupants: Who is on devices; told of every look.
        exceeded: Told of a worker that has more than it was granted, once for each of
            its devices: the key of the worker among the occupants, and the figures.
        lowered: Told why memory cannot be judged, once.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        session: NvmlSession,
        occupants: Occupants,
        exceeded: Callable[[object, Overuse], None],
        lowered: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._session = session
        self._occupants = occupants
        self._exceeded = exceeded
        self._lowered = lowered
        self._watched: dict[tuple[Occupant, str], Watched] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._asked_at: float | None = None
        self._is_lowered = False
        self._is_closed = False

    def entered(self) -> None:
        """Looks from now on, if a worker that is there has to be watched."""
        if self._timer is None and not self._is_closed and self._devices():
            self._timer = self._loop.call_later(PERIOD, self._look)

    def close(self) -> None:
        """Looks no more."""
        self._is_closed = True
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def who_has_what(self, key: object) -> str:
        """Says what was on the devices of a worker at the last look; may be empty.

        Args:
            key: The worker's, among the occupants.
        """
        occupant = self._occupants.find(key)
        if occupant is None:
            return ""
        looks = {d: self._occupants.latest.get(d, ()) for d in occupant.devices}
        return who_has_what(self._occupants, looks, occupant.devices)

    def _devices(self) -> set[str]:
        return {uuid for one in self._occupants for uuid in watched_shares(one)}

    def _look(self) -> None:
        self._timer = None
        now, devices = self._loop.time(), self._devices()
        if not devices or self._session.is_over:
            self._asked_at = None
            self._watched.clear()
            return
        if self._asked_at is None:
            self._asked_at = now
            self._session.look(sorted(devices), self._seen)
        elif now - self._asked_at >= _SILENCE:
            self._lower(f"NVML has not answered for {_SILENCE:g} s")
        self._timer = self._loop.call_later(PERIOD, self._look)

    def _seen(self, look: Look) -> None:
        self._asked_at = None
        if self._is_closed:
            return
        now = self._loop.time()
        self._occupants.note(look, now)
        before, self._watched = self._watched, {}
        for key, occupant in self._occupants.items():
            for device, share in watched_shares(occupant).items():
                watched = before.get((occupant, device), Watched())
                if device not in look:
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
                if overuse is not None:
                    self._exceeded(key, overuse)
        self._look_for_strangers(look, now)

    def _look_for_strangers(self, look: Look, now: float) -> None:
        for device, listed in look.items():
            for process in listed:
                since = self._occupants.unseen_since(device, process.pid)
                if since is not None and now - since >= _STRANGE:
                    self._lower(_strange(process))

    def _lower(self, reason: str) -> None:
        if not self._is_lowered:
            self._is_lowered = True
            self._lowered(reason)


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
