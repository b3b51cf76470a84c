"""Looks every few seconds at the host's memory that workers have.

Only those are looked at whose actors or functions said ``memory=``; where there are
none there is no task and nothing is read. A look reads one file for each process of the
machine, in a thread. ``resident`` judges.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, final

from actorlib._core.log import warn
from actorlib._core.resources import format_bytes
from actorlib._enforcement.resident import (
    Watched,
    confirm,
    judge,
    memory_of,
    proportional_of,
    tallied,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from actorlib._enforcement.process_stat import HasPid
    from actorlib._enforcement.resident import Resident
    from actorlib.accelerators.host import Host

PERIOD = 5.0
"""Seconds between two looks."""
_log = logging.getLogger("actorlib")


class _Entry:
    """What is kept of one worker."""

    __slots__ = ("asked", "label", "used", "watched")

    def __init__(self, label: Callable[[], str], asked: int | None) -> None:
        self.label = label
        self.asked = asked
        self.used: int | None = None
        self.watched = Watched()


@final
class ResidentWatch:
    """Watches the host's memory that workers have.

    Args:
        host: The machine; one without ``/proc`` shows nothing, and nobody is told.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._entries: dict[HasPid, _Entry] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def entered(
        self, worker: HasPid, label: Callable[[], str], asked: int | None
    ) -> None:
        """Looks at a worker from now on.

        Args:
            worker: The worker.
            label: Says what it is called in messages, when there is one.
            asked: Bytes that it asked for; None if nobody is to be told of more, as it
                cannot have more.
        """
        if self._is_closed or self._host.system != "linux":
            return
        self._entries[worker] = _Entry(label, asked)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def left(self, worker: HasPid) -> None:
        """Looks no more at a worker, whose process is gone."""
        self._entries.pop(worker, None)

    def used(self, worker: HasPid | None) -> int | None:
        """Says how many bytes a worker had at the last look; None before that."""
        entry = self._entries.get(worker) if worker is not None else None
        return None if entry is None else entry.used

    async def aclose(self) -> None:
        """Looks no more."""
        self._is_closed = True
        self._entries.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            while True:
                await asyncio.sleep(PERIOD)
                if not self._entries:
                    return
                await self._look()
        except Exception:  # noqa: BLE001  # around a task that nobody awaits
            _log.exception("the host's memory is watched no more: a bug in actorlib")

    async def _look(self) -> None:
        pids = {worker.pid for worker in self._entries} - {0}
        seen = await asyncio.to_thread(_tally, self._host, pids)
        # Workers come and go while a thread reads.
        for worker, entry in list(self._entries.items()):
            its = seen.get(worker.pid)
            if its is None:
                continue
            entry.used = its.nbytes
            if entry.asked is None:
                continue
            entry.watched, is_due = judge(entry.watched, entry.asked, its.nbytes)
            if is_due:
                real = await asyncio.to_thread(_proportional, self._host, its.pids)
                entry.watched = confirm(entry.watched, entry.asked, its.nbytes, real)
                if entry.watched.is_told:
                    _tell(entry, worker.pid, its, real)


def _tally(host: Host, workers: Collection[int]) -> dict[int, Resident]:
    page = host.page_size
    stats = map(host.read_text, host.glob("/proc/[0-9]*/stat"))
    processes = (memory_of(stat, page) for stat in stats if stat)
    return tallied((process for process in processes if process), workers)


def _proportional(host: Host, pids: Collection[int]) -> int | None:
    texts = [host.read_text(f"/proc/{pid}/smaps_rollup") for pid in pids]
    sizes = [proportional_of(text) for text in texts if text]
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None  # those that are gone have nothing


def _tell(entry: _Entry, pid: int, its: Resident, real: int | None) -> None:
    count = len(its.pids)
    with suppress(Exception):  # a handler of the user's may raise
        warn(
            "%s (pid %d) has %s of the host's memory%s, and memory='%s' was asked for. "
            "Ask for as much as it takes: others are placed where there is no room for "
            "them",
            entry.label(),
            pid,
            format_bytes(its.nbytes if real is None else real),
            f" in {count} processes" if count > 1 else "",
            format_bytes(entry.asked or 0),
        )
