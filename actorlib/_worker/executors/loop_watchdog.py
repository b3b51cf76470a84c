"""Warns of what blocks the event loop of an actor, once for each method.

A method that blocks the loop, plain or ``async def``, stops all other methods there
without any report. A method that awaits its own actor with ``max_concurrency=1`` waits
forever. Both are found by sampling, so calls cost nothing: a thread pings each loop
twice a second, and inspects its stack if it does not answer. After a while without
calls the thread sleeps until the next one.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from itertools import takewhile
from typing import TYPE_CHECKING, Any, cast

from actorlib._base.stack_frames import is_library, outer_frames, place_of
from actorlib._futures.object_ref import ObjectRef
from actorlib._wire.messages import STUCK

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping
    from types import CodeType, FrameType

    from actorlib._wire.messages import Frame
    from actorlib._worker.executors.concurrency_groups import Gate
    from actorlib._worker.startup import ExecutorThreads

_log = logging.getLogger("actorlib")

PERIOD = 0.5
"""Seconds between two checks."""
PATIENCE = 1.0
"""Seconds that a loop may be blocked, or a call wait, before the warning."""
ROUNDS = 20
"""Checks of an idle actor before the thread sleeps."""
_AWAITS = cast("CodeType", cast("Any", ObjectRef).__await__.__code__)


class WatchThread:
    """Checks the loops of one actor, on a thread of its own.

    Attributes:
        is_asleep: Whether ``wake`` has to be called when a call arrives.
    """

    def __init__(self, threads: ExecutorThreads, name: str) -> None:
        self.is_asleep = True
        self._threads = threads
        self._name = name
        self._watches: list[LoopWatch] = []
        self._woken = threading.Event()
        self._ended = threading.Event()
        self._has_started = False

    def add(self, watch: LoopWatch) -> None:
        self._watches.append(watch)
        if not self.is_asleep:
            watch.wake()

    def wake(self) -> None:
        """Resumes the checks: a call has arrived."""
        for watch in self._watches:
            watch.wake()
        self.is_asleep = False
        self._woken.set()
        if not self._has_started:
            self._has_started = True
            self._threads.start(self._name, self._look)

    def end(self) -> None:
        self._ended.set()
        self._woken.set()

    def _look(self) -> None:
        while not self._ended.wait(PERIOD):
            for watch in [*self._watches]:
                watch.look()
            if all(watch.is_asleep for watch in self._watches):
                self._woken.clear()
                self.is_asleep = True
                if not self._ended.is_set():  # checked after the reset of the event
                    self._woken.wait()


class LoopWatch:
    """Checks one loop, on whose thread it is created.

    Args:
        where: Returns the name of a method, for messages.
        tasks: The calls that run on it, by number.
        runs: The code that runs calls, with the method as the local ``name``.
        bases: The code that runs the loop.

    Attributes:
        is_asleep: Whether no check is needed.
    """

    def __init__(
        self,
        where: Callable[[str], str],
        loop: asyncio.AbstractEventLoop,
        tasks: Mapping[int, tuple[asyncio.Task[None], Frame, Gate]],
        runs: tuple[CodeType, ...],
        bases: tuple[CodeType, ...],
        post: Callable[[Frame], None],
    ) -> None:
        self.is_asleep = True
        self._thread = threading.get_ident()
        self._where = where
        self._loop = loop
        self._tasks = tasks
        self._run_codes = runs
        self._bases = bases
        self._post = post
        self._pinged_at: float | None = None
        self._idle_looks = 0
        self._warned: set[str] = set()
        self._stuck_since: dict[int, float] = {}

    def wake(self) -> None:
        self._idle_looks = 0
        self.is_asleep = False

    def look(self) -> None:
        """Pings the loop, or warns of what blocks it; on the watching thread."""
        if self.is_asleep:
            return
        now = time.monotonic()
        if self._pinged_at is None:
            self._pinged_at = now
            with contextlib.suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(self._pong)
        elif now - self._pinged_at >= PATIENCE:
            self._warn_blocked(now - self._pinged_at)

    def _pong(self) -> None:
        """Answers on the loop's thread, and checks the calls that wait there."""
        self._pinged_at = None
        tasks = self._tasks
        self._idle_looks = 0 if tasks else self._idle_looks + 1
        if self._idle_looks >= ROUNDS:
            self.is_asleep = True
        elif tasks:
            self._look_for_stuck(tasks)

    def _warn_blocked(self, seconds: float) -> None:
        frame = sys._current_frames().get(self._thread)  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # the only way to another thread's stack
        if frame is None:
            return
        method = self._method_in(frame)
        if method in self._warned:
            return
        self._warned.add(method)
        _log.warning(
            "%s has blocked the event loop of its actor for %.1f s so far: no "
            "other method runs there meanwhile. It is in %s. Await what takes long, "
            "run it on a thread with asyncio.to_thread(), or put it into a concurrency "
            "group of its own",
            method,
            seconds,
            place_of(frame),
        )

    def _method_in(self, frame: FrameType) -> str:
        for outer in outer_frames(frame):
            if outer.f_code in self._run_codes:
                return self._where(outer.f_locals["name"])
        inside = takewhile(lambda f: f.f_code not in self._bases, outer_frames(frame))
        users = [f for f in inside if not is_library(f.f_code.co_filename)]
        outermost = users[-1] if users else frame
        return f"{outermost.f_code.co_name} (pid {os.getpid()})"

    def _look_for_stuck(
        self, tasks: Mapping[int, tuple[asyncio.Task[None], Frame, Gate]]
    ) -> None:
        now = time.monotonic()
        stuck = {
            call: (task, frame, gate)
            for call, (task, frame, gate) in tasks.items()
            if gate.limit == 1 and gate.waiting
        }
        self._stuck_since = {call: self._stuck_since.get(call, now) for call in stuck}
        for call, (task, frame, gate) in stuck.items():
            method = frame[2]
            ref = awaited(task)
            if now - self._stuck_since[call] < PATIENCE or ref is None:
                continue
            if f"{method} waits" not in self._warned:
                self._warned.add(f"{method} waits")
                waiting = tuple({other[2] for other in gate.waiting.values()})
                self._post((STUCK, ref.call, waiting, method))


def awaited(task: asyncio.Task[Any]) -> ObjectRef[Any] | None:
    """Returns the ref that a task awaits directly; None if it awaits something else."""
    step: Any = task.get_coro()
    while step is not None:
        if getattr(step, "gi_code", None) is _AWAITS:
            frame = step.gi_frame
            return None if frame is None else frame.f_locals["self"]
        step = getattr(step, "cr_await", None)
    return None
