"""Checks the memory in use from time to time, and ends a worker when it is short."""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import TYPE_CHECKING, ClassVar, final

from actorlib._base.log import warn
from actorlib._enforcement.host_memory import memory_usage, private_sizes
from actorlib._enforcement.tiers import Verdict
from actorlib._features.memory_monitor.policy import (
    Candidate,
    choose,
    is_over,
    largest,
    pause_before_next_check,
)
from actorlib._options.resources import format_bytes
from actorlib.exceptions import OUT_OF_MEMORY, OutOfMemoryError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from actorlib._enforcement.host_memory import MemoryUsage
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.engine import LocalEngine
    from actorlib.exceptions import Exit

_DEFAULT = 0.95
_UNREADABLE = 1.0
"""Seconds until the next check if the memory in use cannot be read."""
_log = logging.getLogger("actorlib")


@final
class MemoryMonitor:
    """Ends workers of one runtime while memory is short.

    A check, once a second or more often, reads two small files on the loop (50 us). A
    thread reads the sizes of the workers only when memory is short.
    """

    command: ClassVar[str] = "init(memory_threshold=...)"
    on_ray: ClassVar[str] = "Ray has a memory monitor of its own"

    def __init__(self, engine: LocalEngine) -> None:
        self._machine = engine.machine
        self._table = engine.actor_table
        self._loop = engine.actor_table.loop
        self._threshold = 1.0
        self._timer: asyncio.TimerHandle | None = None
        self._has_warned = False
        self._is_closed = False
        engine.at_end(self._close)

    def start(self, threshold: float | None) -> None:
        """Begins to check the memory.

        A worker is ended from this part of the memory in use on: None is the default, 1
        never.
        """
        self._threshold = _DEFAULT if threshold is None else threshold
        if self._threshold < 1 and not self._machine.is_shared:
            self._check_later()

    def _close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _check_later(self, pause: float = 0.0) -> None:
        if not self._is_closed:
            self._timer = self._loop.call_later(pause, self._check)

    def _check(self) -> None:
        usage = memory_usage(self._machine.host)
        if usage is None:
            if self._machine.host.system == "linux":  # too many files are open for now
                self._check_later(_UNREADABLE)
            return
        if not is_over(usage, self._threshold):
            self._has_warned = False
            self._check_later(pause_before_next_check(usage, self._threshold))
            return
        # A process id is 0 until the template has forked the worker.
        workers = {
            process.pid: supervisor
            for supervisor in self._table.by_id.values()
            if (process := supervisor.record.process) is not None
            and process.pid
            and not process.exited.done()
        }
        read = partial(private_sizes, self._machine.host, workers.keys())
        try:
            sizes = self._loop.run_in_executor(None, read)
        except RuntimeError:  # no thread can be started now
            self._check_later(pause_before_next_check(usage, self._threshold))
            return
        sizes.add_done_callback(partial(self._end_one, usage, workers))

    def _end_one(
        self,
        usage: MemoryUsage,
        workers: Mapping[int, ActorSupervisor],
        sizes: asyncio.Future[dict[int, int]],
    ) -> None:
        """Ends one worker, and checks again when its process is gone."""
        if self._is_closed or sizes.cancelled():
            return
        victim = None
        try:
            candidates = [
                self._candidate(workers[pid], nbytes)
                for pid, nbytes in sizes.result().items()
                if workers[pid].pid == pid  # it may have ended during the reading
            ]
            chosen = choose(candidates, usage)
            if chosen is not None:
                victim = workers[chosen.pid]
                self._end(victim, largest(candidates), usage)
            elif not self._has_warned:
                self._has_warned = True
                warn("%s. Other programs hold most of it", self._shortage(usage))
        except Exception:  # noqa: BLE001  # around a callback that no caller awaits
            _log.exception("the memory monitor has failed: a bug in actorlib")
        process = victim.record.process if victim is not None else None
        if process is None:
            self._check_later(pause_before_next_check(usage, self._threshold))
            return
        process.exited.add_done_callback(lambda _: self._check_later())

    def _candidate(self, supervisor: ActorSupervisor, nbytes: int) -> Candidate:
        record = supervisor.record
        worker = self._table.pool.workers.by_id.get(record.id)
        started = record.started_at
        return Candidate(
            pid=supervisor.pid,
            title=record.title if worker is None else worker.title,
            nbytes=nbytes,
            started=math.inf if started is None else started,
            is_retriable=(
                supervisor.may_restart() if worker is None else worker.is_retriable
            ),
            is_actor=record.is_actor,
        )

    def _end(
        self,
        victim: ActorSupervisor,
        workers: tuple[tuple[str, int], ...],
        usage: MemoryUsage,
    ) -> None:
        shortage = self._shortage(usage)
        listed = ", ".join(f"{title}: {format_bytes(size)}" for title, size in workers)
        reason = f"it was ended because {shortage}; the largest workers were {listed}"
        error = partial(_error, workers=workers, threshold=self._threshold)
        victim.end_for(Verdict(OUT_OF_MEMORY, reason, error))

    def _shortage(self, usage: MemoryUsage) -> str:
        used, total = format_bytes(usage.used), format_bytes(usage.total)
        return (
            f"{usage.fraction:.0%} of the memory was in use ({used} of {total}; "
            f"init(memory_threshold={self._threshold}))"
        )


def _error(
    message: str,
    how: Exit,
    actor_id: str,
    *,
    workers: tuple[tuple[str, int], ...],
    threshold: float,
) -> OutOfMemoryError:
    return OutOfMemoryError(
        message, exit=how, actor_id=actor_id, workers=workers, threshold=threshold
    )
