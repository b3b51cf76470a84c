"""Shared memory of a runtime, which the owner and its workers allocate.

Blocks are counted like actors (``refcount``). When a block is no longer held, its maker
is told. The memory of a worker that ended stays as long as a process holds a part of
it. Then every process that knows the segment is told to forget it.

While blocks come and go, each process that has touched memory is asked once a minute to
free what no block has used since the previous request. After two minutes without blocks
nothing is left to free, and the timer stops.
"""

from __future__ import annotations

import heapq
import logging
import time
from typing import TYPE_CHECKING

from actorlib._base.ids import PREFIX_SIZE
from actorlib._owner.actors.worker_session import Phase
from actorlib._rows.snapshot import ObjectStoreInfo
from actorlib._shm.layout import SEGMENT_NAME_SIZE
from actorlib._shm.memory import SharedMemory, SharingOptions
from actorlib._shm.running_calls import CELLS, MARK
from actorlib._shm.segments import MemoryBudget
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Sequence

    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._owner.actors.worker_session import WorkerSession

_log = logging.getLogger("actorlib")

SWEEP_INTERVAL = 60.0
"""Seconds between two sweeps of memory that is not used."""
_SWEEPS = 2
"""How many sweeps follow the last use: the second frees what is unused since the
first."""


class ObjectStore:
    """Tracks which process made which shared memory, and which processes know it.

    Args:
        limit: The bytes that all processes may touch together; 0 shares nothing.
        settings: How large values are sent.
        loop: The owner's loop, for the timer.

    Attributes:
        memory: The memory of the owner.
        live: The blocks that are held: their bytes, 0 if unknown, and since when, by
            ``time.monotonic()``.
    """

    def __init__(
        self, limit: int, settings: SharingOptions, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.memory = SharedMemory()
        self.memory.settings = settings
        self._sizes = self.memory.sizes = {}
        self.live: dict[bytes, tuple[int, float]] = {}
        if limit:
            self.memory.budget = MemoryBudget(limit)
        self._makers: dict[bytes, WorkerSession] = {}
        self._slots: dict[bytes, int] = {}
        self._free_slots: list[int] = []
        self._next_slot = 1
        self._held: dict[bytes, int] = {}
        self._orphaned: set[bytes] = set()
        self._is_closed = False
        self._loop = loop
        self._sweeps_left = 0
        self._sweep_timer: asyncio.TimerHandle | None = None

    def info(self) -> ObjectStoreInfo:
        """Returns the bytes that are held, kept warm, and allowed."""
        budget = self.memory.budget
        if budget is None:
            return ObjectStoreInfo()
        try:
            used = budget.used()
        except ProtocolError as error:  # the worker is unknown
            _log.warning("%s; what makes no sense is forgotten", error)
            budget.repair()
            used = budget.used()
        # A worker may have updated its number just now.
        live = min(sum(nbytes for nbytes, _ in self.live.values()), used)
        return ObjectStoreInfo(live=live, warm=used - live, limit=budget.limit)

    def touched(self) -> dict[bytes, int]:
        """Returns the bytes that each process has touched, by the prefix of its ids.

        It includes processes that have ended while their blocks are held.
        """
        budget = self.memory.budget
        if budget is None:
            return {}
        try:
            slots = budget.slots()
        except ProtocolError:  # info() repairs it, and says so
            return {}
        slot_of = {self.memory.prefix[:PREFIX_SIZE]: 0, **self._slots}
        return {
            prefix: slots[slot] for prefix, slot in slot_of.items() if slot < len(slots)
        }

    def enter(self, session: WorkerSession, sock: socket.socket) -> None:
        """Adds a worker, and sends it the limit of the bytes that it may touch.

        Args:
            session: The session of the worker.
            sock: The owner's end of its pipe, before the first frame.
        """
        prefix = session.prefix
        self._makers[prefix] = session
        session.cleanup.add(Phase.MEMORY, self._worker_gone)
        if self.memory.budget is None:
            return
        if self._free_slots:
            slot = heapq.heappop(self._free_slots)
        elif self._next_slot < MemoryBudget.SLOTS:
            slot, self._next_slot = self._next_slot, self._next_slot + 1
        else:
            return  # all values of this one use its pipe
        self._slots[prefix] = slot
        self.memory.budget.add_slot(slot)
        session.sharing.send_setup(sock, slot)

    def call_cells(self, prefix: bytes, count: int = CELLS) -> Sequence[int]:
        """Returns the first cells for the calls of a process; empty if it has none."""
        slot, budget = self._slots.get(prefix), self.memory.budget
        if slot is not None and budget is not None:
            return budget.call_cells_of(slot, count)
        maker = self._makers.get(prefix)
        return () if maker is None else (maker.local_call_cells or ())[:count]

    def mark(self, prefix: bytes) -> int:
        """Returns the number of the call that a process has noted as running, or 0."""
        cells = self.call_cells(prefix, MARK + 1)
        return cells[MARK] if cells else 0

    def held(self, block: bytes) -> None:
        """Counts a block that is held from now on."""
        self.live[block] = self._sizes.pop(block, 0), time.monotonic()
        name = block[:SEGMENT_NAME_SIZE]
        self._held[name] = self._held.get(name, 0) + 1
        self._sweep_later()

    def unheld(self, block: bytes) -> None:
        """Frees a block that is no longer held."""
        self.live.pop(block, None)
        self._sizes.pop(block, None)
        name = block[:SEGMENT_NAME_SIZE]
        self._held[name] -= 1
        if not self._held[name]:
            del self._held[name]
        if self._is_closed:
            return
        self._sweep_later()
        if self.memory.is_own(block):
            self.memory.free(block)
        elif (maker := self._makers.get(block[:PREFIX_SIZE])) is not None:
            maker.channel.send(({"free": block},))
        elif name not in self._held:
            self._forget(name)

    def _worker_gone(self, session: WorkerSession) -> None:
        """Forgets the memory of a worker, now or when none of it is held."""
        prefix = session.prefix
        del self._makers[prefix]
        segments = {
            name for name in session.sharing.known_segments if name.startswith(prefix)
        }
        self._orphaned |= segments
        for name in segments - self._held.keys():
            self._forget(name)
        self._give_slot_back(prefix)

    def close(self) -> None:
        """Stops sharing. Loaded values stay valid."""
        self._is_closed = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self.memory.close()

    def _sweep_later(self) -> None:
        """Schedules sweeps, as memory is used."""
        self._sweeps_left = _SWEEPS
        if self._sweep_timer is None and not self._is_closed:
            self._sweep_timer = self._loop.call_later(SWEEP_INTERVAL, self._sweep)

    def _sweep(self) -> None:
        self._sweeps_left -= 1
        for prefix, touched in self.touched().items():
            maker = self._makers.get(prefix)
            if touched and maker is not None:
                maker.channel.send(({"sweep": True},))
        self.memory.sweep()
        self._sweep_timer = None
        if self._sweeps_left:
            self._sweep_timer = self._loop.call_later(SWEEP_INTERVAL, self._sweep)

    def _forget(self, name: bytes) -> None:
        self._orphaned.discard(name)
        self.memory.forget_segment(name)
        for session in self._makers.values():
            if name in session.sharing.known_segments:
                session.sharing.known_segments.discard(name)
                session.channel.send(({"gone": name},))
        self._give_slot_back(name[:PREFIX_SIZE])

    def _give_slot_back(self, prefix: bytes) -> None:
        """Frees the slot of a process when none of its memory is left."""
        if prefix in self._makers or any(
            name.startswith(prefix) for name in self._orphaned
        ):
            return
        slot = self._slots.pop(prefix, None)
        if slot is not None and self.memory.budget is not None:
            self.memory.budget.clear_slot(slot)
            heapq.heappush(self._free_slots, slot)


def settings_of(options: RuntimeOptions) -> SharingOptions:
    """Returns how large values are sent in a runtime."""
    spills = options.object_store_full == "spill"
    return SharingOptions(share_above=options.shared_memory_threshold, spills=spills)
