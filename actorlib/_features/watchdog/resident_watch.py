"""Reads the host's memory of workers every few seconds.

Only workers whose actors or functions set ``memory=`` are watched; without them there
is no task and nothing is read. A check reads one file for each process of the machine,
in a thread. ``resident`` decides.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, final

from actorlib._base.log import tell
from actorlib._enforcement.host_memory import proportional_size, resident_sizes
from actorlib._features.watchdog.resident import Watched, confirm, judge
from actorlib._options.resources import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from actorlib._base.process_stat import HasPid
    from actorlib._enforcement.host_memory import Resident
    from actorlib.accelerators.host import Host

PERIOD = 5.0
"""Seconds between two checks."""
_log = logging.getLogger("actorlib")

T = TypeVar("T")


class _Entry:
    __slots__ = ("asked", "label", "used", "watched")

    def __init__(self, label: Callable[[], str], asked: int | None) -> None:
        self.label = label
        self.asked = asked
        self.used: int | None = None
        self.watched = Watched()


@final
class ResidentWatch:
    """Watches the host's memory of workers.

    Args:
        host: The machine; without ``/proc`` nothing is watched.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._entries: dict[HasPid, _Entry] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._asked: asyncio.Future[Any] | None = None
        self._is_closed = False

    def entered(
        self, worker: HasPid, label: Callable[[], str], asked: int | None
    ) -> None:
        """Watches a worker from now on.

        ``asked`` is None for a worker that cannot have more than it requested: no
        excess is reported.
        """
        if self._is_closed or self._host.system != "linux":
            return
        self._entries[worker] = _Entry(label, asked)
        if self._asked is None:
            self._check_later()

    def left(self, worker: HasPid) -> None:
        """Stops watching a worker that has ended."""
        self._entries.pop(worker, None)
        if not self._entries:
            self._stop_timer()

    def used(self, worker: HasPid | None) -> int | None:
        """Returns the bytes of a worker at the last check; None before that."""
        entry = self._entries.get(worker) if worker is not None else None
        return None if entry is None else entry.used

    async def aclose(self) -> None:
        self._is_closed = True
        self._entries.clear()
        self._stop_timer()
        if self._asked is not None:
            await asyncio.wait({self._asked})

    # A timer and callbacks: a task would exist all the time for a rare check.

    def _check_later(self) -> None:
        if self._timer is None and self._entries:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(PERIOD, self._check)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        pids = {worker.pid for worker in self._entries} - {0}
        self._ask(partial(resident_sizes, self._host, pids), self._judge)

    def _ask(self, work: Callable[[], T], take: Callable[[T], None]) -> None:
        """Runs ``work`` in a thread, as it may take long; ``take`` gets the result."""
        loop = asyncio.get_running_loop()
        try:
            self._asked = loop.run_in_executor(None, work)
        except RuntimeError:  # no thread can be started now
            self._check_later()
            return
        self._asked.add_done_callback(partial(self._take_answer, take))

    def _take_answer(
        self, take: Callable[[T], None], answer: asyncio.Future[T]
    ) -> None:
        self._asked = None
        if self._is_closed or answer.cancelled():
            return
        try:
            take(answer.result())
        except Exception:  # noqa: BLE001  # around a callback without a caller
            _log.exception("the watch of the host's memory ends: a bug in actorlib")

    def _judge(self, memory: Mapping[int, Resident]) -> None:
        due: list[tuple[HasPid, Resident]] = []
        # Workers come and go while a thread reads.
        for worker, entry in self._entries.items():
            its = memory.get(worker.pid)
            if its is None:
                continue
            entry.used = its.nbytes
            if entry.asked is None:
                continue
            entry.watched, is_due = judge(entry.watched, entry.asked, its.nbytes)
            if is_due:
                due.append((worker, its))
        if not due:
            self._check_later()
            return
        every = [its.pids for _, its in due]
        self._ask(
            partial(_proportional, self._host, every), partial(self._confirm, due)
        )

    def _confirm(
        self, due: Sequence[tuple[HasPid, Resident]], sizes: Sequence[int | None]
    ) -> None:
        for (worker, its), real in zip(due, sizes, strict=True):
            entry = self._entries.get(worker)
            if entry is None or entry.asked is None:
                continue
            entry.watched = confirm(entry.watched, entry.asked, its.nbytes, real)
            if entry.watched.is_told:
                _warn(entry, worker.pid, its, real)
        self._check_later()


def _proportional(host: Host, workers: Iterable[Collection[int]]) -> list[int | None]:
    """Reads the proportional size of each worker, all of its processes together."""
    return [proportional_size(host, pids) for pids in workers]


def _warn(entry: _Entry, pid: int, its: Resident, real: int | None) -> None:
    count = len(its.pids)
    tell(
        logging.WARNING,
        "%s (pid %d) has %s of the host's memory%s, and memory='%s' was asked for. "
        "Ask for as much as it uses: else others are placed where there is no room "
        "for them",
        entry.label(),
        pid,
        format_bytes(its.nbytes if real is None else real),
        f" in {count} processes" if count > 1 else "",
        format_bytes(entry.asked or 0),
    )
