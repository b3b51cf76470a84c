"""Runs the loops and the threads of concurrency groups.

A group with coroutines has one thread, which runs its loop and its plain methods. Any
other group has several threads. Both are created for the first call that needs them.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from actorlib._core.engine import ActorExit
from actorlib._loops.loop_thread import blocking_allowed, new_loop
from actorlib._worker.executors.actor_loop import MethodLoop
from actorlib._worker.executors.concurrency_groups import Gate
from actorlib._worker.executors.group_threads import GroupThreads

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.messages import Frame
    from actorlib._worker.executors.actor_loop import ActorLoop
    from actorlib._worker.executors.concurrency_groups import Gates
    from actorlib._worker.startup import Start


class SharedGate(Gate):
    """A gate for several threads, of which one admits calls."""

    __slots__ = ("_lock",)

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._lock = threading.Lock()

    def enter(self, frame: Frame) -> bool:
        with self._lock:
            return super().enter(frame)

    def take(self) -> bool:
        with self._lock:
            return super().take()

    def add(self) -> None:
        with self._lock:
            super().add()

    def leave(self) -> Frame | None:
        with self._lock:
            return super().leave()


class GroupLoops:
    """The loops and the threads of an actor's concurrency groups.

    Args:
        actor_loop: The loop of the actor's own thread, for calls without a group.
        serve: Runs a call on a thread.
        watch: Called with each loop, on its thread.
    """

    def __init__(
        self,
        start: Start,
        gates: Gates,
        actor_loop: ActorLoop,
        is_async: Callable[[str], bool],
        serve: Callable[[Frame], None],
        watch: Callable[[MethodLoop], None],
    ) -> None:
        self._start = start
        self._gates = gates
        self._actor_loop = actor_loop
        self._is_async = is_async
        self._serve = serve
        self._watch = watch
        self._threads: dict[Gate, GroupThreads] = {}
        self._loops: dict[Gate, MethodLoop] = {}

    def has_coroutines(self, gate: Gate) -> bool:
        """Whether the plain methods of a group run on its loop."""
        if gate is self._gates.default or gate in self._loops:
            return True
        if gate in self._threads:
            return False
        group = self._gates.name_of(gate)
        groups = self._start.config.groups
        return any(self._is_async(name) for name in groups if groups[name] == group)

    def loop_of(self, gate: Gate | None) -> MethodLoop:
        """Returns the loop of a gate's group, which is created on demand."""
        if gate is None or gate is self._gates.default:
            return self._actor_loop.main
        methods = self._loops.get(gate)
        if methods is None:
            methods = MethodLoop(
                new_loop(), self._actor_loop.main.context.copy(), is_shared=True
            )
            self._loops[gate] = methods
            # There are threads if the caller has moved a coroutine to this group.
            threads = self._threads.pop(gate, None)
            if threads is not None:
                threads.stop()
            name = f"{self._start.config.class_name}-{self._gates.name_of(gate)}-loop"
            self._start.threads.start(name, self.run_loop, methods, threads)
        return methods

    def threads_of(self, gate: Gate) -> GroupThreads:
        threads = self._threads.get(gate)
        if threads is None:
            name = f"{self._start.config.class_name}-{self._gates.name_of(gate)}"
            threads = GroupThreads(self._start.threads, name, self._serve)
            self._threads[gate] = threads
        return threads

    def stop_threads(self) -> None:
        """Ends the threads as soon as they have no calls."""
        for threads in self._threads.values():
            threads.stop()

    def stop_loops(self) -> None:
        """Stops the loops, from any thread."""
        for methods in self._loops.values():
            methods.loop.call_soon_threadsafe(methods.loop.stop)

    def run_loop(self, methods: MethodLoop, threads: GroupThreads | None) -> None:
        """Runs the loop of a group until it is stopped, on its thread.

        ``threads`` ran the calls of the group before.
        """
        if threads is not None:
            threads.join()
        loop = methods.loop
        asyncio.set_event_loop(loop)
        self._watch(methods)
        with blocking_allowed():
            while True:
                try:
                    loop.run_forever()
                    break
                except ActorExit:  # see ``ActorLoop.run``
                    continue
                except BaseException as error:  # noqa: BLE001  # it ends the actor
                    self._actor_loop.break_actor(error)
        close(loop)


def close(loop: asyncio.AbstractEventLoop) -> None:
    """Cancels the remaining tasks of a loop and closes it, like ``asyncio.run``."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(_end_tasks(loop, tasks))
    loop.close()


async def _end_tasks(
    loop: asyncio.AbstractEventLoop, tasks: set[asyncio.Task[object]]
) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
