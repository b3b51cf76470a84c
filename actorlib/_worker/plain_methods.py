"""The plain methods of an actor with an event loop.

They run on the main thread, one at a time; those of a concurrency group on threads of
that group, as many at once as it says. The loop, in its own thread, reads the pipe and
puts the calls here in order; what they answer leaves by way of the loop.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from actorlib._core.current_call import is_late, running
from actorlib._core.engine import ActorExit
from actorlib._wire.messages import CALL, LEAVE, Frame
from actorlib._worker import invoke
from actorlib._worker.generator_runner import GeneratorRunner
from actorlib._worker.generators import is_stream
from actorlib._worker.invoke import call_with
from actorlib._worker.method_timing import MethodTiming
from actorlib._worker.startup import GroupThreads

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from actorlib._worker.async_client import AsyncOwnerClient
    from actorlib._worker.concurrency_groups import Gate
    from actorlib._worker.generators import Streams
    from actorlib._worker.loop_watchdog import LoopWatch
    from actorlib._worker.startup import Start


_LOOK: Frame = ()
"""No job, but something came."""


class _Unanswered(threading.local):
    """Whether an answer of this thread may not have left yet."""

    is_so = False


class PlainMethods:
    """Calls of plain methods that wait for their thread.

    Args:
        start: What the worker was told first.
        loop: The loop beside the main thread.
        uplink: The engine.
        answered: Sends an answer; called from the loop's thread.
        streams: What the actor makes for readers.
        set_aside: Gives the place of a stream to others; called from there too.
        has_line: Whether calls wait for a place; called from any thread.
        gates: How many calls of each group run at once.

    Attributes:
        watch: Looks at the loop; set before ``run``.
    """

    watch: LoopWatch
    _producer: GeneratorRunner

    def __init__(
        self,
        start: Start,
        loop: asyncio.AbstractEventLoop,
        uplink: AsyncOwnerClient,
        answered: Callable[[Frame], None],
        streams: Streams,
        set_aside: Callable[[int], None],
        has_line: Callable[[], bool],
        gates: Mapping[str, Gate],
    ) -> None:
        self._instance: object = None
        self._loop = loop
        self._uplink = uplink
        self._send_answer = answered
        self._streams = streams
        self._give_place = set_aside
        self._has_line = has_line
        self._jobs: queue.SimpleQueue[Frame | BaseException | None] = (
            queue.SimpleQueue()
        )
        self._queued = 0
        self._unanswered = _Unanswered()
        self._cancelled: set[int] = set()
        self._pace = MethodTiming()
        # Only groups that somebody has named: all else is the main thread's.
        self._threads = {
            gate: GroupThreads(
                start.crew, f"{start.config.class_name}-{group}", self._serve_apart
            )
            for group, gate in gates.items()
            if group
        }
        self._apart: dict[int, GroupThreads] = {}
        self._alone: asyncio.Future[None] | None = None

    # On the loop's thread.

    def put(self, frame: Frame, gate: Gate | None) -> None:
        """Adds a call behind those that wait, or has a thread of its group run it.

        Args:
            frame: The call.
            gate: Where it has a place, if it needs one.
        """
        self._queued += 1
        threads = self._threads.get(gate) if gate is not None else None
        if threads is None:
            self._jobs.put(frame)
            return
        self._apart[frame[1]] = threads
        threads.give(frame)

    def cancel(self, call: int) -> None:
        """A call is not wanted any more, if it is one of these."""
        if not self._streams.cancel(call) and self._queued:
            self._cancelled.add(call)

    def was_cancelled(self, call: int) -> bool:
        """Whether a call is not wanted any more."""
        return call in self._cancelled

    def clear(self) -> list[int]:
        """Forgets the calls that wait; gives their numbers."""
        numbers: list[int] = []
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._jobs.get_nowait()
                if isinstance(job, tuple) and job:
                    numbers.append(job[1])
        return numbers

    def look(self) -> None:
        """Has the main thread look at the loop from now on, if it has time to."""
        self.watch.wake()
        self._jobs.put(_LOOK)

    def end(self, error: BaseException | None) -> None:
        """Ends the main thread behind the calls that wait, with an error or without."""
        self._jobs.put(error)

    async def alone(self) -> None:
        """Waits until no thread of a group runs anything."""
        if self._apart:
            self._alone = self._loop.create_future()
            await self._alone

    def finish(self) -> None:
        """Ends the threads of groups, each behind the call that it runs."""
        for threads in self._threads.values():
            threads.end()

    def _answered(self, answer: Frame) -> None:
        self._over(answer[1])
        if not self._queued:
            self._cancelled.clear()
        self._send_answer(answer)
        self._tell_alone()

    def _set_aside(self, call: int) -> None:
        # Here and not where it ran: what wakes it comes through this thread.
        self._over(call)
        self._give_place(call)
        self._streams.set_aside(self._streams.of(call))
        self._tell_alone()

    def _over(self, call: int) -> None:
        self._queued -= 1
        if self._apart:
            threads = self._apart.pop(call, None)
            if threads is not None:
                threads.rested()

    def _tell_alone(self) -> None:
        # Behind what has followed in its place.
        if self._alone is not None and not self._apart and not self._alone.done():
            self._alone.set_result(None)

    def _left_apart(self, call: int) -> None:
        """A call of a group has no answer: it has ended the actor."""
        self._apart.pop(call, None)
        self._tell_alone()

    # On the main thread.

    def run(self, instance: object) -> None:
        """Runs the calls until the end.

        Args:
            instance: Whose methods they are of.

        Raises:
            BaseException: What ``end`` was given, or what ended a method.
        """
        self._instance = instance
        jobs = self._jobs
        self._producer = GeneratorRunner(
            partial(getattr, instance),
            self._where,
            self._uplink,
            self._streams,
            self._send_item,
            self._send_last,
            lambda: not jobs.empty() or self._has_line(),
            self._cancelled,
        )
        while (job := self._next()) is not None:
            if isinstance(job, BaseException):
                raise job
            self._serve(job)
        self._producer.close()
        self._wait_until_all_went()

    def _next(self) -> Frame | BaseException | None:
        """The next job; looks at the loop while there is none."""
        while True:
            try:
                job = self._jobs.get(timeout=self.watch.period)
            except queue.Empty:
                self.watch.look()
            else:
                if job != _LOOK:
                    return job

    # On the main thread, or on one of a group's.

    def _serve_apart(self, frame: Frame) -> None:
        try:
            self._serve(frame)
        except BaseException as error:  # noqa: BLE001  # it ends the actor, from the main thread
            self._loop.call_soon_threadsafe(self._break, error, frame[1])

    def _break(self, error: BaseException, call: int) -> None:
        # The owner sees the pipe end now, also while the main thread is busy.
        self._uplink.channel.close()
        self.end(error)
        self._left_apart(call)

    def _serve(self, frame: Frame) -> None:
        if frame[0] != CALL and is_stream(frame):
            self._run_stream(frame)
        else:
            self._run(frame)

    def _run_stream(self, frame: Frame) -> None:
        self._wait_until_answered()
        call = frame[1]
        try:
            is_over = self._producer.serve(frame)
        except ActorExit:
            self._uplink.post((LEAVE, call))
            self._loop.call_soon_threadsafe(self._left_apart, call)
            return
        if not is_over:
            self._loop.call_soon_threadsafe(self._set_aside, call)

    def _send_last(self, answer: Frame) -> None:
        self._unanswered.is_so = True
        self._loop.call_soon_threadsafe(self._answered, invoke.kept(answer))

    def _send_item(self, frame: Frame) -> None:
        self._uplink.post(invoke.kept(frame))

    def _run(self, frame: Frame) -> None:
        _, call, name, loans, *told, payload = frame
        if call in self._cancelled or (told and is_late(told[0])):
            with self._uplink.borrowing(loans):  # gives the handles in it back
                pass
            self._loop.call_soon_threadsafe(self._answered, invoke.cancelled(call))
            return
        if not self._pace.is_quick(name):
            self._wait_until_answered()
        started = time.perf_counter()
        running.set((call, name, told[0] if told else None))
        raised: BaseException | None = None
        try:
            try:
                args, kwargs = self._uplink.arguments(loans, payload)
                method = getattr(self._instance, name)
                if told:
                    value = call_with(told[0], method, args, kwargs)
                else:
                    value = method(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  # the user's code
                raised, where = error, self._where(name)
                answer = invoke.failure(self._uplink, call, error, where)
            else:
                answer = invoke.result(
                    self._uplink, call, value, lambda: self._where(name)
                )
        except ActorExit:
            self._uplink.post((LEAVE, call))
            self._loop.call_soon_threadsafe(self._left_apart, call)
            return
        running.set(None)
        # What it gave or raised is still held here: a handle in it is given back after
        # it was sent.
        self._send_last(answer)
        del raised  # its traceback holds this frame
        self._pace.ran(name, time.perf_counter() - started)

    def _wait_until_answered(self) -> None:
        """Waits until what was answered has left: what comes next may take long."""
        if not self._unanswered.is_so:
            return
        self._unanswered.is_so = False
        left = threading.Event()

        async def leave() -> None:
            await self._uplink.channel.drain()
            left.set()

        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(leave()))
        left.wait()

    def _where(self, method: str) -> str:
        return self._uplink.where(method)

    def _wait_until_all_went(self) -> None:
        """Waits for what was asked of other actors and waits for its arguments."""
        went = threading.Event()
        self._uplink.outbox.all_went(went.set)
        went.wait()
