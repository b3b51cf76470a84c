"""Serves an actor with ``async def`` methods: its frames, its limits, its end.

The constructor, the plain methods and the ``async def`` methods run on one event loop,
in the order of their calls, so the state of an actor belongs to one thread. A plain
method blocks the loop while it runs. The loop also reads the pipe.

Each concurrency group has its own threads. A group with coroutines has one thread,
which runs its loop and its plain methods. With groups, the loop of another thread reads
the pipe, and frames cross to the threads of the groups.

This file receives frames, admits calls through their gates, runs plain methods, and
ends the actor. ``coroutines`` runs ``async def`` methods. ``group_loops`` decides where
the calls of groups run, and ``actor_loop`` runs the loop of the actor's own thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
import time
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec

from actorlib._base.ids import LINKED
from actorlib._core.engine import ActorExit, set_engine
from actorlib._futures.object_ref import end_wait, hide_from_other_loops
from actorlib._loops.loop_thread import UserLoopPortal, blocking_allowed, new_loop
from actorlib._options.actor_options import LOOPED_LIMIT
from actorlib._options.interface import find_method
from actorlib._wire.async_channel import AsyncChannel
from actorlib._wire.messages import (
    CALL,
    CALL_SCALARS,
    CALL_WITH,
    CANCEL,
    FAILURE,
    ITEM,
    LEAVE,
    RESULT,
    STOP,
    STREAM_ACK,
    STREAM_EXPIRE,
    Frame,
)
from actorlib._worker.executors import invoke
from actorlib._worker.executors.actor_loop import ActorLoop, MethodLoop
from actorlib._worker.executors.concurrency_groups import Gate, Gates
from actorlib._worker.executors.coroutines import (
    BEGINS_AT_ONCE,
    Coroutines,
    with_payload,
)
from actorlib._worker.executors.generators import CUT_OFF, OutgoingStreams, is_stream
from actorlib._worker.executors.group_loops import GroupLoops, SharedGate
from actorlib._worker.executors.invoke import (
    CallExecutor,
    MethodTiming,
    with_own_buffers,
)
from actorlib._worker.executors.loop_watchdog import LoopWatch, WatchThread
from actorlib._worker.executors.termination import end_after_calls, end_now
from actorlib._worker.requests.async_client import AsyncOwnerClient
from actorlib._worker.startup import construct, shutting_down

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Mapping

    from actorlib._wire.blocking_channel import BlockingChannel
    from actorlib._worker.executors.group_threads import GroupThreads
    from actorlib._worker.startup import Start

P = ParamSpec("P")

_PAUSE_ABOVE = 4 * 1024 * 1024
"""Unsent bytes above which the channel stops reading."""


def serve(start: Start, pipe: BlockingChannel, loop: asyncio.AbstractEventLoop) -> None:
    """Serves an actor with an event loop: creates it, runs its calls, ends it.

    The loop is a new one, and runs on this thread.
    """
    pipe_loop = new_loop() if any(start.config.limits) else loop
    client = AsyncOwnerClient(start, pipe_loop, pipe)
    set_engine(client)
    executor = AsyncExecutor(client, start, loop)
    actor_loop = executor.actor_loop
    with executor.reading():
        instance = construct(start, client, actor_loop.call, actor_loop.run_to_end)
        executor.set_instance(instance)
        client.report_ready(instance)
        if not start.config.is_inline:
            end_after_calls(executor.terminate)
        if pipe_loop is loop and not start.config.is_inline:
            client.inbox.take_interrupts()
        with shutting_down(instance, actor_loop.run_to_end):
            actor_loop.run()


class AsyncExecutor(CallExecutor[AsyncOwnerClient]):
    """Runs the methods of an actor with an event loop.

    It is the executor of plain methods, and passes ``async def`` methods to
    ``Coroutines``.

    Args:
        loop: The loop of this thread; without groups it reads the pipe.
    """

    def __init__(
        self,
        client: AsyncOwnerClient,
        start: Start,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        streams = OutgoingStreams(self._wake, start.config.max_unread)
        super().__init__(client, streams, set())
        pipe, pipe_loop = client.pipe, client.loop
        self._start = start
        self._loop = loop
        self._pipe_loop = pipe_loop
        self._is_single = pipe_loop is loop
        # Context variables that plain code sets are visible to later code.
        self._main = MethodLoop(loop, copy_context(), is_shared=not self._is_single)
        self._inbox = client.inbox
        self._channel = client.channel = AsyncChannel(
            pipe_loop,
            pipe.sock,
            self._receive_from_pipe,
            self._pipe_lost,
            sharing=pipe.sharing,
            decoder=pipe.decoder,
            pause_above=_PAUSE_ABOVE,
        )
        self.actor_loop = ActorLoop(client, self._main)
        client.inbox.receive = self._receive_from_link
        client.on_leave = lambda: self._start_background(self._leave_actor())
        client.is_call_cancelled = self._was_cancelled
        self._gates = Gates(
            start.config.limits or {"": LOOPED_LIMIT},
            start.config.groups,
            kind=Gate if self._is_single else SharedGate,
        )
        # The default limit is for coroutines; plain methods run one at a time.
        self._limits_plain = bool(start.config.limits)
        self._method_kinds: dict[str, tuple[bool, Gate | None]] = {}
        # The gates of ``async def`` methods, if all run on the loop that reads.
        self._async_gates: dict[str, Gate] = {}
        self._resumed_early: set[int] = set()
        self._timing = MethodTiming()
        # The plain calls that run, with their gates.
        self._plain_gates: dict[int, Gate | None] = {}
        self._plain_over = self._on_pipe_thread(self._plain_ended)
        self._plain_paused = self._on_pipe_thread(self._pause_plain)
        self._coroutines = Coroutines(
            self.actor_loop,
            self._streams,
            self._on_pipe_thread(self._ended),
            self._on_pipe_thread(self._leave),
            self._on_pipe_thread(self._return_place),
        )
        self._begin_scalars = (
            self._coroutines.begin_soon
            if BEGINS_AT_ONCE
            else self._coroutines.begin_scalars
        )
        self._group_loops = GroupLoops(
            start,
            self._gates,
            self.actor_loop,
            lambda method: self._inspect(method)[0],
            self._run_in_group,
            self._watch_loop,
        )
        self._watchdog = WatchThread(start.threads, f"{start.config.class_name}-watch")
        self._watch_loop(self._main)
        self._threads_of_call: dict[int, tuple[GroupThreads, Gate]] = {}
        self._pipe_thread: threading.Thread | None = None
        # Referenced here, because ``_loops`` holds portals weakly.
        self._portal: UserLoopPortal | None = None
        self._is_terminating = False
        self._change_waiters: list[asyncio.Future[None]] = []
        self._background: set[asyncio.Task[None]] = set()

    # On the actor's own thread.

    @contextlib.contextmanager
    def reading(self) -> Generator[None]:
        """Reads the pipe in the block, while a loop runs; then finishes all calls."""
        with blocking_allowed():
            self._start_reading()
            try:
                yield
            finally:
                self._finish()

    def _start_reading(self) -> None:
        asyncio.set_event_loop(self._loop)
        if self._is_single:
            self._inbox.begin()
            return
        hide_from_other_loops()
        began = threading.Event()
        name = f"{self._start.config.class_name}-pipe"
        self._pipe_thread = self._start.threads.start(name, self._read_pipe, began)
        began.wait()

    def set_instance(self, instance: object) -> None:
        """Sets the actor's object: calls may begin now, on any thread."""
        self._coroutines.instance = self._instance = instance
        self._find = partial(getattr, instance)

    def _finish(self) -> None:
        """Cancels running calls, sends remaining frames, and ends the other loops."""
        self.actor_loop.end(None)
        self._watchdog.end()
        self._group_loops.stop_threads()
        if self._is_single:
            self.actor_loop.run_until_done(self._cancel_and_drain())
            self._channel.close()
            self._inbox.finish()
            return
        if self._pipe_thread is None:
            return
        work = asyncio.run_coroutine_threadsafe(
            self._cancel_and_drain(), self._pipe_loop
        )
        self.actor_loop.run_until_done(asyncio.wrap_future(work, loop=self._loop))
        self._pipe_loop.call_soon_threadsafe(self._pipe_loop.stop)
        self._pipe_thread.join()

    # On the thread that reads the pipe, which may be the same.

    def _read_pipe(self, began: threading.Event) -> None:
        asyncio.set_event_loop(self._pipe_loop)
        self._portal = UserLoopPortal(self._pipe_loop)
        self._inbox.begin()
        began.set()
        try:
            self._pipe_loop.run_forever()
        except BaseException as error:  # noqa: BLE001  # of a value that was loaded; it ends the actor
            self.actor_loop.break_actor(error)
            self._pipe_loop.run_forever()
        self._channel.close()
        self._inbox.finish()
        self._pipe_loop.close()

    async def _cancel_and_drain(self) -> None:
        """Runs the ``finally`` blocks of running calls, and sends answers."""
        self._gates.clear()
        for call in self._coroutines.running():
            self._cancel(call)
        self._coroutines.begin_ready()  # calls that an error has kept from beginning
        # A loop of a group may be blocked forever.
        limit = None if self._is_single else self._start.config.grace
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(
                self._until(lambda: not self._coroutines.running()), limit
            )
        await self._channel.drain()
        self._group_loops.stop_loops()

    def _receive_from_pipe(self, frames: list[Frame]) -> None:
        if self._inbox.sources:
            self._inbox.read_links()
        self._receive(frames)

    def _receive(self, frames: list[Frame]) -> None:
        if self._watchdog.is_asleep:
            self._watchdog.wake()
        coroutines = self._coroutines
        if not coroutines.may_gather():
            self._take(frames)
            return
        coroutines.is_gathering = True
        try:
            self._take(frames)
            coroutines.begin_ready()
        finally:
            coroutines.is_gathering = False

    def _take(self, frames: list[Frame]) -> None:
        client, gates = self._client, self._async_gates
        for frame in frames:
            kind = frame[0]
            if kind == CALL_SCALARS:
                gate = gates.get(frame[2])
                if gate is None or gate.running >= gate.limit or client.is_leaving:
                    self._accept(with_payload(frame))
                    continue
                # The usual call, begun here: that saves 0.3 us of 4.2.
                gate.running += 1
                self._begin_scalars(frame, gate)
                continue
            if kind == CALL:
                self._accept(frame)
                continue
            if kind == CALL_WITH:
                self._accept(frame, frame[4])
                continue
            self._coroutines.has_woken = True
            if kind in (RESULT, FAILURE):
                self._client.settle(frame)
            elif kind == CANCEL:
                # It may arrive on two routes; the second would cancel the clean-up.
                if frame[1] not in self._coroutines.cancelled:
                    self._cancel(frame[1])
                if len(frame) > 2 and self._coroutines.plain_count:
                    self._inbox.interrupt(frame[1])
            elif kind == STOP and not self._client.is_leaving:
                self._receive(self._client.incoming_links.close_links())
                self._start_background(self._stop())
            elif kind != STOP:
                self._receive_of_streams(frame)

    def _receive_from_link(self, frames: list[Frame]) -> None:
        """Receives the frames of a link, and records calls as running from now on."""
        for frame in frames:
            if frame[0] in (CALL, CALL_WITH):
                self._client.incoming_links.call_began(frame[1], frame[2])
        self._receive(frames)

    def _receive_of_streams(self, frame: Frame) -> None:
        if frame[0] == ITEM:
            self._client.item(frame)
        elif frame[0] == STREAM_ACK:
            self._streams.acknowledge(frame[1], frame[2])
        elif frame[0] == STREAM_EXPIRE:
            for call in self._streams.stalled():
                self._streams.cancel(call, CUT_OFF)
                self._cancel(call)
        else:
            self._receive(self._client.take_other(frame))

    def _start_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._pipe_loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def terminate(self) -> None:
        """Ends the process by SIGTERM when no call runs; no further call begins."""
        self._is_terminating = self._client.is_leaving = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._pipe_loop.call_soon_threadsafe(
                lambda: self._start_background(self._end_when_idle())
            )

    async def _end_when_idle(self) -> None:
        self._gates.clear()
        await self._until(self._is_idle)
        await self._channel.drain()
        end_now()

    async def _leave_actor(self) -> None:
        """Ends the actor at its own request: running calls get a grace period."""
        for waiting in self._gates.clear():
            self._client.discard(waiting)
            self._channel.send((LEAVE, waiting[1]))
        with contextlib.suppress(TimeoutError):
            grace = self._start.config.grace
            await asyncio.wait_for(self._until(self._is_idle), grace)
        self.actor_loop.end(ActorExit())  # finish() cancels calls that still run

    async def _stop(self) -> None:
        await self._until(lambda: self._gates.are_empty)
        self._coroutines.end_streams()
        await self._until(self._is_idle)
        if self._is_single:
            self._close_plain_streams()
        else:
            closing = self._on_its_own_thread(self._close_plain_streams)
            await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(closing, self._loop),
                loop=self._pipe_loop,
            )
        if self._client.events is not None:
            self._client.events.close()
        all_sent = self._pipe_loop.create_future()
        self._client.sender.when_all_sent(
            lambda: self._client.later(partial(end_wait, all_sent))
        )
        await all_sent
        self.actor_loop.end(None)

    async def _on_its_own_thread(self, work: Callable[[], None]) -> None:
        work()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            change: asyncio.Future[None] = self._pipe_loop.create_future()
            self._change_waiters.append(change)
            self._coroutines.has_waits = True
            await change

    def _notify_waiters(self) -> None:
        changes, self._change_waiters = self._change_waiters, []
        self._coroutines.has_waits = False
        for change in changes:
            end_wait(change)

    def _is_idle(self) -> bool:
        return not (self._coroutines.plain_count or self._coroutines.running())

    def _pipe_lost(self, _: Exception | None) -> None:
        self._client.fail_all(EOFError("the owner is gone"))
        # No caller waits for running or waiting calls.
        self._gates.clear()
        for call in self._coroutines.running():
            self._cancel(call)
        self.actor_loop.end(EOFError("the owner is gone"))

    # Calls, on that thread.

    def _accept(self, frame: Frame, headers: Mapping[str, Any] | None = None) -> None:
        if self._is_terminating:
            return  # the owner sees that the call has not begun
        if self._client.is_leaving:
            self._channel.send((LEAVE, frame[1]))
            return
        is_async, gate = self._method_kinds.get(frame[2]) or self._inspect(frame[2])
        if headers is not None and "group" in headers:
            gate = self._gates.of(frame[2], headers["group"])
        if (
            is_async
            and gate is not None
            and gate.running < gate.limit
            and self._is_single
            and (headers is None or not is_stream(frame))
        ):
            gate.running += 1
            self._coroutines.begin_soon(frame, gate)
        elif gate is None or gate.enter(frame):
            self._start_call(frame, gate, is_async)

    def _inspect(self, name: str) -> tuple[bool, Gate | None]:
        """Returns whether a method is an ``async def``, and the gate of its calls."""
        try:
            method = find_method(self._coroutines.instance, name)
        except Exception:  # noqa: BLE001  # of the user's class; the call reports it
            cls = type(self._coroutines.instance)
            method = inspect.getattr_static(cls, name, None)
        is_async = self._is_async(method)
        gate = self._gates.of(name) if is_async or self._limits_plain else None
        self._method_kinds[name] = is_async, gate
        if is_async and gate is not None and self._is_single:
            self._async_gates[name] = gate
        return is_async, gate

    def _is_async(self, method: object) -> bool:
        return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)

    def _start_call(self, frame: Frame, gate: Gate | None, is_async: bool) -> None:  # noqa: FBT001  # the hot path
        if is_async and frame[0] == STREAM_ACK:
            if not self._coroutines.resume_stream(frame[1]):
                self._resumed_early.add(frame[1])
        elif is_async and gate is not None:
            self._coroutines.start(frame, gate, self._group_loops.loop_of(gate))
        else:
            self._start_plain(frame, gate)

    def _start_plain(self, frame: Frame, gate: Gate | None) -> None:
        self._coroutines.plain_count += 1
        if gate is None or self._group_loops.has_coroutines(gate):
            methods = self._group_loops.loop_of(gate)
            methods.call_soon(
                self._run_plain, frame, gate, methods, context=methods.context
            )
        else:
            threads = self._group_loops.threads_of(gate)
            self._threads_of_call[frame[1]] = threads, gate
            threads.submit(frame)

    def _wake(self, frame: Frame) -> None:
        """Queues a stream that has room again for a place."""
        self._inbox.do(partial(self._wake_here, frame))

    def _wake_here(self, frame: Frame) -> None:
        # At the end of the actor, a paused plain generator is closed instead.
        if not self._streams.are_closing or self._method_kinds[frame[2]][0]:
            self._accept(frame, frame[4])

    def _leave(self, gate: Gate) -> None:
        """Frees the place of a call; the next waiting call begins."""
        frame = gate.leave()
        if frame is not None:
            self._start_call(frame, gate, self._method_kinds[frame[2]][0])

    def _ended(self, call: int, gate: Gate | None, answer: Frame | None) -> None:
        """Sends the answer of a call, or none if the call has ended the actor."""
        if answer is None:
            self._channel.send((LEAVE, call))
        else:
            self._send(answer)
        self._coroutines.forget(call)
        if gate is not None:
            self._leave(gate)
        if self._change_waiters:
            self._notify_waiters()

    def _plain_ended(self, call: int, gate: Gate | None, answer: Frame | None) -> None:
        self._plain_finished(call)
        self._ended(call, gate, answer)

    def _pause_plain(self, call: int, gate: Gate | None) -> None:
        """Pauses a plain stream that waits for its reader, and frees its place."""
        self._plain_finished(call)
        if gate is not None:
            self._leave(gate)
        # On this thread, because frames that wake it arrive here.
        self._streams.pause(self._streams.of(call))
        if self._change_waiters:
            self._notify_waiters()

    def _plain_finished(self, call: int) -> None:
        self._coroutines.plain_count -= 1
        if not self._coroutines.plain_count:
            self._cancelled.clear()
            self._inbox.interrupted.clear()
        threads = self._threads_of_call.pop(call, None)
        if threads is not None:
            threads[0].became_idle()

    def _cancel(self, call: int) -> None:
        if self._coroutines.cancel(call):
            pass
        elif self._streams.cancel(call):
            pass  # a plain generator that has begun is closed at its next turn
        elif (waiting := self._gates.drop(call)) is not None:
            self._client.discard(waiting)
            self._send(invoke.cancelled(call))
            if self._change_waiters:
                self._notify_waiters()
        else:
            if self._coroutines.plain_count:
                self._cancelled.add(call)
            self._coroutines.cancel_ready(call)

    def _was_cancelled(self, call: int) -> bool:
        """Whether a running call was cancelled; from any thread."""
        return call in self._coroutines.cancelled or call in self._cancelled

    def _return_place(self, call: int, gate: Gate) -> None:
        if call in self._resumed_early:
            self._resumed_early.discard(call)
        else:
            self._gates.drop(call)
            gate.add()

    def _send(self, answer: Frame) -> None:
        if answer[1] < LINKED:
            self._channel.send(answer)
        else:
            self._client.incoming_links.answer(answer)

    def _on_pipe_thread(self, callback: Callable[P, None]) -> Callable[P, None]:
        if self._is_single:  # it is called on that thread
            return callback

        def cross(*args: P.args, **kwargs: P.kwargs) -> None:
            self._client.later(partial(callback, *args, **kwargs))

        return cross

    # Calls of plain methods, where they run.

    def _run_plain(self, frame: Frame, gate: Gate | None, methods: MethodLoop) -> None:
        if self.actor_loop.has_ended:
            return
        if self._client.is_leaving:
            self._plain_over(frame[1], gate, None)
            return
        name = frame[2]
        if not self._timing.is_quick(name):
            self._client.flush()  # the next call may take long
        started = time.perf_counter()
        try:
            has_run = self._run_method(frame, gate)
        except BaseException as error:  # noqa: BLE001  # it ends the actor
            if methods is self._main:
                self.actor_loop.end(error)
            else:
                self.actor_loop.break_actor(error)
            return
        if has_run and not self._timing.record(name, time.perf_counter() - started):
            # Waiting calls may have been cancelled.
            self._inbox.read_available()

    def _run_in_group(self, frame: Frame) -> None:
        _, gate = self._threads_of_call[frame[1]]
        try:
            self._run_method(frame, gate)
        except BaseException as error:  # noqa: BLE001  # it ends the actor
            self.actor_loop.break_actor(error)

    def _run_method(self, frame: Frame, gate: Gate | None) -> bool:
        """Runs a plain call, which may have a place in a gate; see ``execute``."""
        call = frame[1]
        if frame[0] != CALL and is_stream(frame):
            self._inbox.interrupted.discard(call)  # a stream is closed instead
        self._plain_gates[call] = gate
        self._inbox.begin_blocking()
        try:
            return self.execute(frame)
        except ActorExit:
            self._inbox.end_blocking()
            self._plain_over(call, self._plain_gates.pop(call), None)
            if self._client.running_calls is not None:
                self._client.running_calls.end(call)
            return True
        finally:
            self._inbox.end_blocking()

    def _close_plain_streams(self) -> None:
        self._inbox.begin_blocking()
        try:
            self.close_streams()
        finally:
            self._inbox.end_blocking()

    def _answer(self, answer: Frame) -> None:
        self._inbox.end_blocking()
        gate = self._plain_gates.pop(answer[1])
        self._plain_over(answer[1], gate, with_own_buffers(answer))

    def _pause(self, call: int) -> None:
        self._inbox.end_blocking()
        self._plain_paused(call, self._plain_gates.pop(call))

    def _send_item(self, item: Frame) -> None:
        self._client.post(with_own_buffers(item))

    def _others_wait(self) -> bool:
        # A stream without a reader yields to all other work of the loop.
        return True

    def _read_now(self) -> None:
        self._inbox.read_available()

    def _watch_loop(self, methods: MethodLoop) -> None:
        client, actor_loop = self._client, self.actor_loop
        runs = (*self._coroutines.runs, self._run_plain.__code__)
        bases = (
            actor_loop.run.__code__,
            actor_loop.call.__code__,
            actor_loop.run_to_end.__code__,
            self._group_loops.run_loop.__code__,
        )
        self._watchdog.add(
            LoopWatch(
                client.where, methods.loop, methods.tasks, runs, bases, client.post
            )
        )
