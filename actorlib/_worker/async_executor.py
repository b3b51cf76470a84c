"""Runs the calls of an actor with ``async def`` methods on one event loop.

The constructor, the plain methods and the ``async def`` methods all run on it, in the
order in which their calls came, so the state of an actor belongs to one thread. A plain
method blocks the loop while it runs. The loop also reads the pipe.

Each concurrency group has threads of its own. A group that has coroutines has one: its
loop's, on which its plain methods run, too. The pipe is then read by a loop on a thread
beside all of them, and frames cross to it.

Async generators run each in the task of its call. While its reader is behind, the task
waits and has given its place among the calls that run at once to another; it stands in
line for a place again when there is room.

From Python 3.12 on the first step of an ``async def`` runs where its frame was read,
if nothing that came earlier waits. That is the task's own step, so all that asks for
the current task finds the one that goes on later. Older Pythons have no such step.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import sys
import threading
import time
from collections import deque
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from actorlib._core.actor_options import LOOPED_LIMIT
from actorlib._core.current_call import running
from actorlib._core.engine import ActorExit, set_engine
from actorlib._core.interface import bind_method, find_method
from actorlib._core.loop_thread import UserLoopPortal, blocking_allowed, new_loop
from actorlib._core.object_ref import end_wait, hide_from_other_loops, mark_seen
from actorlib._wire.async_channel import AsyncChannel
from actorlib._wire.codec import pack
from actorlib._wire.messages import (
    CALL,
    CALL_SCALARS,
    CALL_WITH,
    CANCEL,
    FAILURE,
    ITEM,
    LEAVE,
    LINKED,
    RESULT,
    RESULT_SCALAR,
    STOP,
    STREAM_ACK,
    STREAM_EXPIRE,
    Frame,
)
from actorlib._worker import invoke
from actorlib._worker.async_client import AsyncOwnerClient
from actorlib._worker.concurrency_groups import Gate, Gates
from actorlib._worker.executor_threads import GroupThreads
from actorlib._worker.generators import CUT_OFF, OutgoingStreams, is_stream, nbytes_of
from actorlib._worker.invoke import begin_run, start_async
from actorlib._worker.loop_watchdog import LoopWatch, WatchThread
from actorlib._worker.method_timing import MethodTiming
from actorlib._worker.plain_methods import PlainMethods
from actorlib._worker.startup import construct, shutting_down

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Awaitable,
        Callable,
        Coroutine,
        Mapping,
        Sequence,
    )
    from contextvars import Context

    from actorlib._wire.blocking_channel import BlockingChannel
    from actorlib._worker.generators import OutgoingStream
    from actorlib._worker.run_events import CallRun
    from actorlib._worker.startup import Start

T = TypeVar("T")

_YIELD_MASK = 0x3F
"""A generator whose reader keeps up lets other tasks run every 64 items."""


class AsyncStreams:
    """Runs the async generators of an actor, each on the loop of its method.

    Args:
        client: The engine of the worker.
        streams: Says how far each may go.
        leave: Gives a place among the calls that run at once to the next.
        return_place: Gives up the place that a call would have got, or is about to.
    """

    def __init__(
        self,
        client: AsyncOwnerClient,
        streams: OutgoingStreams,
        leave: Callable[[Gate], None],
        return_place: Callable[[int, Gate], None],
    ) -> None:
        self._client = client
        self._streams = streams
        self._leave = leave
        self._return_place = return_place
        self._waiting: dict[int, asyncio.Future[None]] = {}

    async def run(
        self,
        frame: Frame,
        gate: Gate,
        source: AsyncGenerator[Any, None],
        where: Callable[[], str],
    ) -> int:
        """Sends the items of a generator; gives their number.

        Args:
            frame: Its call.
            gate: Where it has a place.
            source: The generator.
            where: Names it, for messages.

        Raises:
            asyncio.CancelledError: It was cancelled, or cut off and says why.
            Exception: What it raised, or why an item cannot be sent.
        """
        stream = self._streams.begin(frame)
        try:
            # Others of the actor may have all that may be unread.
            while not self._streams.may_go(stream):
                await self._wait(stream, gate)
            async for value in source:
                if self._client.is_over:
                    self._client.check_over(stream.call)
                self._check_wanted(stream)
                self._send_item(stream, value, where)
                del value
                if not stream.window.is_read or not stream.item_count & _YIELD_MASK:
                    await asyncio.sleep(0)
                if not stream.window.is_read and gate.waiting:
                    await self._wait(stream, gate)
                while not self._streams.may_go(stream):
                    await self._wait(stream, gate)
        except asyncio.CancelledError:
            if stream.end_reason is None:
                raise
            raise asyncio.CancelledError(stream.end_reason) from None
        finally:
            self._streams.end(stream.call)
            await source.aclose()
        return stream.item_count

    def _check_wanted(self, stream: OutgoingStream) -> None:
        """Ends a generator that went on although it was cancelled."""
        task = asyncio.current_task()
        if stream.end_reason is not None or (task is not None and task.cancelling()):
            raise asyncio.CancelledError

    def resume(self, call: int) -> bool:
        """Resumes a stream that has room again; False if it does not wait any more."""
        waiting = self._waiting.pop(call, None)
        if waiting is None:
            return False
        _call_on_its_loop(waiting, end_wait)
        return True

    def end(self) -> None:
        """Ends the streams that wait for their readers, now or later."""
        self._streams.are_closing = True
        for waiting in [*self._waiting.values()]:
            _call_on_its_loop(waiting, asyncio.Future[None].cancel)

    def _send_item(
        self, stream: OutgoingStream, value: object, where: Callable[[], str]
    ) -> None:
        if stream.window.is_read:
            item = invoke.encode_item(
                self._client, stream.call, stream.item_count, value, where
            )
            self._streams.put(stream, nbytes_of(item[4]))
            self._client.post(invoke.with_own_buffers(item))
        stream.item_count += 1

    async def _wait(self, stream: OutgoingStream, gate: Gate) -> None:
        if self._streams.are_closing:
            raise asyncio.CancelledError
        call = stream.call
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[call] = waiting
        self._leave(gate)
        self._streams.pause(stream)
        try:
            await waiting
        except asyncio.CancelledError:
            if self._waiting.pop(call, None) is not None:
                stream.is_paused = False
                self._return_place(call, gate)
            raise


def _call_on_its_loop(
    future: asyncio.Future[None], do: Callable[[asyncio.Future[None]], object]
) -> None:
    """Does something with a future where its loop runs."""
    loop = future.get_loop()
    if asyncio._get_running_loop() is loop:  # noqa: SLF001  # None, and no error, if there is none
        do(future)
    else:
        loop.call_soon_threadsafe(do, future)


_can_call: Callable[[object], bool] = callable
"""The builtin, by a name that does not make checkers forget a type of Any."""
_PAUSE_ABOVE = 4 * 1024 * 1024
_BEGINS_AT_ONCE = sys.version_info >= (3, 12)
_LONG = 0.01
"""After so many seconds of first steps, the next ones wait for the loop's next turn."""
_NEXT_TURN = -1
"""Stands for that turn among the calls that wait for it; no call has this number."""


def serve(start: Start, pipe: BlockingChannel, loop: asyncio.AbstractEventLoop) -> None:
    """Serves an actor with an event loop: makes it, runs its calls, ends it.

    Args:
        start: What the START frame said.
        pipe: The worker's end of the pipe, with what was read of it.
        loop: A new loop, which runs on this thread meanwhile.

    Raises:
        BaseException: What ends the process, as for a serial actor.
        EOFError: The owner is gone.
    """
    pipe_loop = new_loop() if any(start.config.limits) else loop
    client = AsyncOwnerClient(start, pipe_loop, pipe)
    set_engine(client)
    executor = AsyncExecutor(client, start, loop)
    with blocking_allowed():
        executor.start_reading()
        try:
            instance = construct(start, client, executor.call, executor.run_to_end)
            executor.set_instance(instance)
            client.report_ready(instance)
            if pipe_loop is loop and not start.config.is_inline:
                client.take_interrupts()
            with shutting_down(instance, executor.run_to_end):
                executor.run()
        finally:
            executor.finish()


class SharedGate(Gate):
    """Lets any thread take places, while one thread lets calls in and out."""

    __slots__ = ("_lock",)

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._lock = threading.Lock()

    def enter(self, frame: Frame) -> bool:
        """Takes the frame of a call; see Gate."""
        with self._lock:
            return super().enter(frame)

    def take(self) -> bool:
        """Takes a place for what is no call of its own; see Gate."""
        with self._lock:
            return super().take()

    def add(self) -> None:
        """Counts a call that has a place; see Gate."""
        with self._lock:
            super().add()

    def leave(self) -> Frame | None:
        """Frees the place of a call; see Gate."""
        with self._lock:
            return super().leave()


class MethodLoop:
    """Holds a loop and the calls that run on it.

    Attributes:
        loop: The loop.
        context: The context of its plain methods. Two threads cannot enter one context.
        tasks: The calls of ``async def`` methods that run on it, by number.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self.loop = loop
        self.context = context
        self.tasks: dict[int, tuple[asyncio.Task[None], Frame, Gate]] = {}


class AsyncExecutor:
    """Runs the methods of an actor with an event loop.

    Args:
        client: The engine of the worker, with its pipe and the loop that reads it.
        start: What the START frame said.
        loop: The loop of this thread: that of the pipe, if there are no groups.

    Attributes:
        instance: The actor's object.
    """

    instance: object

    def __init__(
        self,
        client: AsyncOwnerClient,
        start: Start,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        pipe, pipe_loop = client.pipe, client.loop
        self._start = start
        self._loop = loop
        self._pipe_loop = pipe_loop
        self._is_single = pipe_loop is loop
        # What plain code sets is there in all that runs later.
        self._context = copy_context()
        self._main = MethodLoop(loop, self._context)
        self._tasks = self._main.tasks
        self._client = client
        self._channel = client.channel = AsyncChannel(
            pipe_loop,
            pipe.sock,
            self._receive_from_pipe,
            self._pipe_lost,
            sharing=pipe.sharing,
            decoder=pipe.decoder,
            pause_above=_PAUSE_ABOVE,
        )
        client.reader.receive = self._receive_from_link
        client.on_leave = self._begin_to_leave
        client.is_call_cancelled = self._was_cancelled
        self._streams = OutgoingStreams(self._wake, start.config.max_unread)
        self._gates = Gates(
            start.config.limits or {"": LOOPED_LIMIT},
            start.config.groups,
            kind=Gate if self._is_single else SharedGate,
        )
        # The default is for coroutines; plain methods are one at a time anyhow.
        self._limits_plain = bool(start.config.limits)
        self._method_kinds: dict[str, tuple[bool, Gate | None]] = {}
        # Those of ``async def`` methods, if all of them run on the loop that reads.
        self._async_gates: dict[str, Gate] = {}
        self._async_streams = AsyncStreams(
            client, self._streams, self._leave, self._return_place
        )
        self._resumed_early: set[int] = set()
        self._cancelled: set[int] = set()
        # Calls that begin as soon as all frames of a read are taken in: the answer that
        # the first of them blocks for may be among those.
        self._ready: deque[tuple[Frame, Gate]] = deque()
        self._cancelled_ready: set[int] = set()
        self._takes_ready = False
        # The call whose first step runs: it has no entry in ``tasks`` before the end of
        # that, and most need none then.
        self._beginning: tuple[Coroutine[Any, Any, None], Frame, Gate] | None = None
        # Those whose first step is the loop's: what comes later may not overtake them.
        self._unbegun: set[int] = set()
        # Whether a frame has come that may have woken a task: that goes on before what
        # came later begins.
        self._has_woken = False
        self._plain_running = 0
        self._timing = MethodTiming()
        self._plain_methods = PlainMethods(
            client,
            self._streams,
            self._plain_done,
            self._pause_plain,
            is_on_the_loop=self._is_single,
        )
        self._watchdog = WatchThread(start.threads, f"{start.config.class_name}-watch")
        self._watch_loop(self._main)
        # Where calls of groups run.
        self._group_threads: dict[Gate, GroupThreads] = {}
        self._group_loops: dict[Gate, MethodLoop] = {}
        self._loop_of_call: dict[int, MethodLoop] = {}
        self._threads_of_call: dict[int, tuple[GroupThreads, Gate]] = {}
        self._pipe_thread: threading.Thread | None = None
        self._beside: UserLoopPortal | None = None
        self._change_waiters: list[asyncio.Future[None]] = []
        self._background: set[asyncio.Task[None]] = set()
        self._ending: tuple[BaseException | None] | None = None
        # An ``async def`` that begins or ends the actor's life.
        self._awaited_task: asyncio.Task[object] | None = None

    # On the actor's own thread.

    def start_reading(self) -> None:
        """Reads the pipe from now on, while a loop runs."""
        asyncio.set_event_loop(self._loop)
        if self._is_single:
            self._client.begin()
            return
        hide_from_other_loops()
        began = threading.Event()
        name = f"{self._start.config.class_name}-pipe"
        self._pipe_thread = self._start.threads.start(name, self._read_pipe, began)
        began.wait()

    def set_instance(self, instance: object) -> None:
        """Takes the actor's object: calls may come now, on whichever thread."""
        self.instance = instance
        self._plain_methods.set_instance(instance)

    def call(self, work: Callable[[], T]) -> T:
        """Calls plain code on the loop, which runs meanwhile; gives what that gives.

        Raises:
            BaseException: What it raised.
        """
        gave: list[T] = []
        raised: list[BaseException] = []

        def run() -> None:
            if self._is_single:
                self._client.begin_blocking()
            try:
                value = self._called(work)
            except BaseException as error:  # noqa: BLE001  # it is raised below
                raised.append(error)
            else:
                gave.append(value)
            finally:
                if self._is_single:
                    self._client.end_blocking()
                self._loop.stop()

        self._loop.call_soon(run, context=self._context)
        while not (gave or raised):
            self._loop.run_forever()
        if raised:
            raise raised.pop()
        return gave.pop()

    def _called(self, work: Callable[[], T]) -> T:
        raised: BaseException | None = None
        try:
            return work()
        except BaseException as error:
            raised = error
            raise
        finally:
            self._client.leave_if_fork(raised)
            del raised  # its traceback holds this frame

    def run_to_end(self, work: Callable[[], object]) -> None:
        """Calls plain code on the loop, and awaits what it gives if it can be."""
        value = self.call(work)
        if not inspect.iscoroutine(value):
            return
        # In this context, so that later calls see the variables that it sets.
        task = self._loop.create_task(value, context=self._context)
        self._awaited_task = task
        try:
            self._run_until_done(task)
        finally:
            self._awaited_task = None

    def run(self) -> None:
        """Runs the calls until the end.

        Raises:
            BaseException: What ended the actor.
        """
        while self._ending is None:
            try:
                self._loop.run_forever()
            except ActorExit:  # out of a task of the user's own: it leaves by and by
                continue
            except BaseException as error:  # noqa: BLE001  # likewise; it is raised below
                self._break(error)
        [ending] = self._ending
        if ending is not None:
            raise ending

    def finish(self) -> None:
        """Cancels what still runs, sends what is left, and ends the other loops."""
        self._end(None)
        self._watchdog.end()
        for threads in self._group_threads.values():
            threads.stop()
        if self._is_single:
            self._run_until_done(self._cancel_and_drain())
            self._channel.close()
            self._client.finish()
            return
        if self._pipe_thread is None:
            return
        work = asyncio.run_coroutine_threadsafe(
            self._cancel_and_drain(), self._pipe_loop
        )
        self._run_until_done(asyncio.wrap_future(work, loop=self._loop))
        self._pipe_loop.call_soon_threadsafe(self._pipe_loop.stop)
        self._pipe_thread.join()

    def _run_until_done(self, work: Awaitable[T]) -> T:
        """Runs the loop until something is done, whoever stops the loop meanwhile."""
        # What ends the actor stops the loop from another thread, perhaps only now.
        future = asyncio.ensure_future(work, loop=self._loop)
        future.add_done_callback(lambda _: self._loop.stop())
        try:
            while not future.done():
                self._loop.run_forever()
        finally:
            if future.done():
                mark_seen(future)  # what it raised may have come out of the loop
        return future.result()

    # On the thread that reads the pipe, which may be the same.

    def _read_pipe(self, began: threading.Event) -> None:
        asyncio.set_event_loop(self._pipe_loop)
        self._beside = UserLoopPortal(self._pipe_loop)
        self._client.begin()
        began.set()
        try:
            self._pipe_loop.run_forever()
        except BaseException as error:  # noqa: BLE001  # a value could not be loaded; it ends the actor
            self._break(error)
            self._pipe_loop.run_forever()
        self._channel.close()
        self._client.finish()
        self._pipe_loop.close()

    async def _cancel_and_drain(self) -> None:
        """Lets the ``finally`` blocks of what still runs run, and answers leave."""
        self._gates.clear()
        for call in self._running():
            self._cancel(call)
        if self._ready:  # an error has come between
            self._begin_ready()
        # A loop of a group may be blocked for ever.
        limit = None if self._is_single else self._start.config.grace
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._until(lambda: not self._running()), limit)
        await self._channel.drain()
        for methods in self._group_loops.values():
            methods.loop.call_soon_threadsafe(methods.loop.stop)

    def _receive_from_pipe(self, frames: list[Frame]) -> None:
        if self._client.reader.sources:
            self._client.reader.read_all()
        self._receive(frames)

    def _receive(self, frames: list[Frame]) -> None:
        if self._watchdog.is_asleep:
            self._watchdog.wake()
        if not _BEGINS_AT_ONCE or self._takes_ready or not self._may_begin():
            self._take(frames)
            return
        self._takes_ready = True
        try:
            self._take(frames)
            if self._ready:
                self._begin_ready()
        finally:
            self._takes_ready = False

    def _may_begin(self) -> bool:
        """Whether calls may begin before the next turn of the loop.

        Not where blocking code reads in the place of the loop. A task factory is the
        user's own, who wants it asked.
        """
        return (
            self._is_single
            and not self._client.reader.is_blocked
            and asyncio.current_task(self._loop) is None
            and self._loop.get_task_factory() is None
        )

    def _take(self, frames: list[Frame]) -> None:
        client, gates = self._client, self._async_gates
        for frame in frames:
            kind = frame[0]
            if kind == CALL_SCALARS:
                gate = gates.get(frame[2])
                if gate is None or gate.running >= gate.limit or client.is_leaving:
                    self._accept(_with_payload(frame))
                    continue
                # The usual call, begun at hand: that is 0.3 us of 4.2.
                gate.running += 1
                if _BEGINS_AT_ONCE:
                    self._begin_soon(frame, gate)
                    continue
                work = self._run_scalars(frame, gate)
                task = self._loop.create_task(work, context=self._context.copy())
                self._tasks[frame[1]] = task, frame, gate
                continue
            if kind == CALL:
                self._accept(frame)
                continue
            if kind == CALL_WITH:
                self._accept(frame, frame[4])
                continue
            self._has_woken = True
            if kind in (RESULT, FAILURE):
                self._client.settle(frame)
            elif kind == CANCEL:
                # It may come by two ways, and would end the cleaning up.
                if frame[1] not in self._cancelled:
                    self._cancel(frame[1])
                if len(frame) > 2 and self._plain_running:
                    client.interrupt_soon(frame[1])
            elif kind == STOP and not self._client.is_leaving:
                self._receive(self._client.incoming_links.close_links())
                self._start_background(self._stop())
            elif kind != STOP:
                self._receive_of_streams(frame)

    def _receive_from_link(self, frames: list[Frame]) -> None:
        """Takes what has come over a link, and notes that it runs from now on."""
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

    def _begin_to_leave(self) -> None:
        self._start_background(self._leave_actor(self._start.config.grace))

    async def _leave_actor(self, grace: float) -> None:
        """The actor ends by its own will: what runs has a grace, what waits has none.

        Args:
            grace: Seconds.
        """
        for waiting in self._gates.clear():
            self._discard(waiting)
            self._channel.send((LEAVE, waiting[1]))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._until(self._is_idle), grace)
        self._end(ActorExit())  # what runs on is cancelled by finish()

    async def _stop(self) -> None:
        await self._until(lambda: self._gates.are_empty)
        self._async_streams.end()
        await self._until(self._is_idle)
        if self._is_single:
            self._plain_methods.close()
        else:
            closing = self._on_its_own_thread(self._plain_methods.close)
            await asyncio.wrap_future(
                asyncio.run_coroutine_threadsafe(closing, self._loop),
                loop=self._pipe_loop,
            )
        if self._client.events is not None:
            self._client.events.close()
        went = self._pipe_loop.create_future()
        self._client.sender.when_all_sent(
            lambda: self._client.later(partial(end_wait, went))
        )
        await went
        self._end(None)

    async def _on_its_own_thread(self, work: Callable[[], None]) -> None:
        work()

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            change: asyncio.Future[None] = self._pipe_loop.create_future()
            self._change_waiters.append(change)
            await change

    def _tell_changed(self) -> None:
        changes, self._change_waiters = self._change_waiters, []
        for change in changes:
            end_wait(change)

    def _is_idle(self) -> bool:
        return not (self._plain_running or self._running())

    def _running(self) -> list[int]:
        """The calls of ``async def`` methods that run."""
        if not self._is_single:
            return [*self._loop_of_call]
        beginning = () if self._beginning is None else (self._beginning[1][1],)
        return [*self._tasks, *beginning, *(frame[1] for frame, _ in self._ready)]

    def _end(self, error: BaseException | None) -> None:
        """Ends the actor, with an error or without; from any thread."""
        if self._ending is None:
            self._ending = (error,)
            task = self._awaited_task  # another thread may clear it
            if task is not None:  # the constructor may wait for long
                self._loop.call_soon_threadsafe(task.cancel)
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _break(self, error: BaseException) -> None:
        """The same; the owner sees the pipe end now, also while a thread is busy."""
        if threading.get_ident() == self._client.reader.thread:
            self._channel.close()
        else:
            self._client.later(self._channel.close)
        self._end(error)

    def _pipe_lost(self, _: Exception | None) -> None:
        self._client.fail_all(EOFError("the owner is gone"))
        # Nobody wants what waits or runs any more.
        self._gates.clear()
        for call in self._running():
            self._cancel(call)
        self._end(EOFError("the owner is gone"))

    # Calls, on that thread.

    def _accept(self, frame: Frame, headers: Mapping[str, Any] | None = None) -> None:
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
            self._begin_soon(frame, gate)
        elif gate is None or gate.enter(frame):
            self._start_call(frame, gate, is_async)

    def _begin_soon(self, frame: Frame, gate: Gate) -> None:
        """Begins a call behind all that came before it; see the top of this file."""
        if self._takes_ready and not (
            self._unbegun or self._plain_running or self._has_woken
        ):
            self._ready.append((frame, gate))
        else:
            self._has_woken = False  # this one is between
            self._begin_async(_with_payload(frame), gate, self._main)

    def _inspect(self, name: str) -> tuple[bool, Gate | None]:
        """Whether a method is an ``async def``, and which gate its calls pass."""
        try:
            method = find_method(self.instance, name)
        except AttributeError:  # the call itself says so
            method = None
        is_async = inspect.iscoroutinefunction(method)
        is_async = is_async or inspect.isasyncgenfunction(method)
        gate = self._gates.of(name) if is_async or self._limits_plain else None
        self._method_kinds[name] = is_async, gate
        if is_async and gate is not None and self._is_single:
            self._async_gates[name] = gate
        return is_async, gate

    def _start_call(self, frame: Frame, gate: Gate | None, is_async: bool) -> None:  # noqa: FBT001  # the hot path
        if is_async and frame[0] == STREAM_ACK:
            if not self._async_streams.resume(frame[1]):
                self._resumed_early.add(frame[1])
        elif is_async and gate is not None:
            if self._is_single:
                self._begin_async(frame, gate, self._main)
                return
            methods = self._loop_of_call[frame[1]] = self._loop_of(gate)
            methods.loop.call_soon_threadsafe(self._begin_async, frame, gate, methods)
        else:
            self._plain_running += 1
            if self._is_single:
                self._loop.call_soon(
                    self._run_plain, frame, gate, self._main, context=self._context
                )
            elif gate is None or self._has_coroutines(gate):
                methods = self._main if gate is None else self._loop_of(gate)
                methods.loop.call_soon_threadsafe(
                    self._run_plain, frame, gate, methods, context=methods.context
                )
            else:
                threads = self._threads_of(gate)
                self._threads_of_call[frame[1]] = threads, gate
                threads.submit(frame)

    def _has_coroutines(self, gate: Gate) -> bool:
        """Whether the plain methods of a group run on its loop."""
        if gate is self._gates.default or gate in self._group_loops:
            return True
        if gate in self._group_threads:
            return False
        group = self._gates.name_of(gate)
        groups = self._start.config.groups
        return any(self._inspect(name)[0] for name in groups if groups[name] == group)

    def _loop_of(self, gate: Gate) -> MethodLoop:
        """The loop of a group, made when it is needed."""
        if gate is self._gates.default:
            return self._main
        methods = self._group_loops.get(gate)
        if methods is None:
            methods = MethodLoop(new_loop(), self._context.copy())
            self._group_loops[gate] = methods
            # They are there if a call has moved the first coroutine to this group.
            threads = self._group_threads.pop(gate, None)
            if threads is not None:
                threads.stop()
            name = f"{self._start.config.class_name}-{self._gates.name_of(gate)}-loop"
            self._start.threads.start(name, self._run_loop, methods, threads)
        return methods

    def _threads_of(self, gate: Gate) -> GroupThreads:
        """The threads of a group, for its plain methods."""
        threads = self._group_threads.get(gate)
        if threads is None:
            name = f"{self._start.config.class_name}-{self._gates.name_of(gate)}"
            threads = GroupThreads(self._start.threads, name, self._run_in_group)
            self._group_threads[gate] = threads
        return threads

    def _wake(self, frame: Frame) -> None:
        """A stream has room again: it stands in line for a place."""
        if threading.get_ident() == self._client.reader.thread:
            self._wake_here(frame)
        else:
            self._client.later(partial(self._wake_here, frame))

    def _wake_here(self, frame: Frame) -> None:
        # Where the actor ends, a plain one that is paused is closed instead.
        if not self._streams.are_closing or self._method_kinds[frame[2]][0]:
            self._accept(frame, frame[4])

    def _leave_here(self, gate: Gate) -> None:
        """A call is over: the one that waits for its place begins."""
        frame = gate.leave()
        if frame is not None:
            self._start_call(frame, gate, self._method_kinds[frame[2]][0])

    def _ended(self, call: int, gate: Gate, answer: Frame | None) -> None:
        """A call of an ``async def`` is over; no answer if it has ended the actor."""
        if answer is None:
            self._channel.send((LEAVE, call))
        else:
            self._send(answer)
        if not self._is_single:
            self._loop_of_call.pop(call, None)
        self._leave_here(gate)
        if self._change_waiters:
            self._tell_changed()

    def _plain_ended(self, call: int, gate: Gate | None, answer: Frame | None) -> None:
        """The same of a plain method."""
        self._plain_finished(call)
        if answer is None:
            self._channel.send((LEAVE, call))
        else:
            self._send(answer)
        if gate is not None:
            self._leave_here(gate)
        if self._change_waiters:
            self._tell_changed()

    def _pause(self, call: int, gate: Gate | None) -> None:
        """A plain stream waits for its reader, and gives its place to others."""
        self._plain_finished(call)
        if gate is not None:
            self._leave_here(gate)
        # Here and not where it ran: what wakes it comes through this thread.
        self._streams.pause(self._streams.of(call))
        if self._change_waiters:
            self._tell_changed()

    def _plain_finished(self, call: int) -> None:
        self._plain_running -= 1
        if not self._plain_running:
            self._plain_methods.cancelled.clear()
            self._client.interrupted.clear()
        threads = self._threads_of_call.pop(call, None)
        if threads is not None:
            threads[0].became_idle()

    def _cancel(self, call: int) -> None:
        if self._beginning is not None and call == self._beginning[1][1]:
            self._enlist_beginning(*self._beginning)
        methods = self._main if self._is_single else self._loop_of_call.get(call)
        if methods is not None and (call in methods.tasks or not self._is_single):
            self._cancelled.add(call)
            if self._is_single:
                self._cancel_async(call, methods)
            else:
                methods.loop.call_soon_threadsafe(self._cancel_async, call, methods)
        elif self._streams.cancel(call):
            pass  # a plain one that has begun: closed when its turn comes
        elif (waiting := self._gates.drop(call)) is not None:
            self._discard(waiting)
            self._send(invoke.cancelled(call))
            if self._change_waiters:
                self._tell_changed()
        else:
            if self._plain_running:
                self._plain_methods.cancelled.add(call)
            if self._ready:
                self._cancelled_ready.add(call)

    def _was_cancelled(self, call: int) -> bool:
        """Whether a call that runs is not wanted any more; from any thread."""
        return call in self._cancelled or call in self._plain_methods.cancelled

    def _discard(self, frame: Frame) -> None:
        """Gives back the handles in a call that will not run."""
        if frame[0] == CALL_SCALARS:  # there are none
            return
        self._client.incoming_links.call_over(frame[1])
        with self._client.borrowing(frame[3]):
            pass

    def _return_place_here(self, call: int, gate: Gate) -> None:
        """A stream was cancelled while it waited: its end gives a place back."""
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

    # Calls of ``async def`` methods, where they run.

    def _begin_ready(self) -> None:
        """Runs the first steps of the calls that have come, in their order."""
        started = time.perf_counter()
        ready = self._ready
        while ready:
            self._begin_now(*ready.popleft())
        self._cancelled_ready.clear()
        if time.perf_counter() - started > _LONG:
            self._unbegun.add(_NEXT_TURN)
            self._loop.call_soon(self._unbegun.discard, _NEXT_TURN)

    def _begin_now(self, frame: Frame, gate: Gate) -> None:
        """Runs the first step of a call; see the top of this file."""
        if self._cancelled_ready and frame[1] in self._cancelled_ready:
            self._answer_unbegun(frame, gate)
            return
        if frame[0] == CALL_SCALARS:
            coroutine = self._run_scalars(frame, gate)
        else:
            coroutine = self._run_async(frame, gate, self._main)
        self._beginning = coroutine, frame, gate
        try:
            task = _begun(coroutine, self._loop, self._context.copy())
        finally:
            self._beginning = None
        if not task.done():
            self._tasks[frame[1]] = task, frame, gate

    def _enlist_beginning(
        self, coroutine: Coroutine[Any, Any, None], frame: Frame, gate: Gate
    ) -> None:
        """Makes the task of the first step that runs known: it is to be cancelled."""
        self._beginning = None
        for task in asyncio.all_tasks(self._loop):
            if task.get_coro() is coroutine:
                self._tasks[frame[1]] = task, frame, gate

    def _begin_async(self, frame: Frame, gate: Gate, methods: MethodLoop) -> None:
        if _BEGINS_AT_ONCE and self._is_single:
            self._unbegun.add(frame[1])
        work = self._run_async(frame, gate, methods)
        task = methods.loop.create_task(work, context=methods.context.copy())
        methods.tasks[frame[1]] = task, frame, gate

    async def _run_async(self, frame: Frame, gate: Gate, methods: MethodLoop) -> None:
        call, name = frame[1], frame[2]
        headers = frame[4] if frame[0] == CALL_WITH else None
        if _BEGINS_AT_ONCE:
            beginning = self._beginning
            if call not in methods.tasks and (
                beginning is None or beginning[1] is not frame
            ):
                # The user's factory makes eager tasks: this one goes on when it is
                # known, and not inside of what reads the pipe. Cancelled here, it has
                # not begun, and ``_never_began`` answers.
                await asyncio.sleep(0)
            if self._unbegun:
                self._unbegun.discard(call)
        running.set((call, name, headers))
        run: CallRun | None = None
        try:
            events = self._client.events
            args: Sequence[Any]
            if headers or (events is not None and events.recorder is not None):
                args, kwargs, run = begin_run(self._client, frame, None)
            else:
                args, kwargs = self._client.arguments(frame[3], frame[-1])
            method: Any = getattr(self.instance, name)
            if not _can_call(method):
                method = bind_method(self.instance, name)
            if headers is None:
                value = await method(*args, **kwargs)
            else:
                value = await self._start_with(frame, gate, method, (args, kwargs))
        except BaseException as error:  # noqa: BLE001  # the user's code
            if run is not None:
                run.finish(error)
            self._raised(call, name, gate, methods, error)
        else:
            if run is not None:
                run.finish()
            self._returned(call, name, gate, methods, value)

    async def _run_scalars(self, frame: Frame, gate: Gate) -> None:
        """Runs a call whose arguments are scalars, as it came; see ``_run_async``.

        Every name and every step less counts where there is one such coroutine for
        each call; it is begun by its task alone, so nothing has to be looked at before.
        """
        call, name = frame[1], frame[2]
        running.set((call, name, None))
        events = self._client.events
        run: CallRun | None = None
        if events is not None and events.recorder is not None:
            run = events.started(frame)
        try:
            method: Any = getattr(self.instance, name)
            if not _can_call(method):
                method = bind_method(self.instance, name)
            value = await method(*frame[3:])
        except BaseException as error:  # noqa: BLE001  # the user's code
            if run is not None:
                run.finish(error)
            self._raised(call, name, gate, self._main, error)
        else:
            if run is not None:
                run.finish()
            self._returned(call, name, gate, self._main, value)

    def _returned(
        self, call: int, name: str, gate: Gate, methods: MethodLoop, value: object
    ) -> None:
        """Answers a call whose ``async def`` has given a value."""
        try:
            answer = (
                self._cancelled_answer(call)
                if call in self._cancelled
                else invoke.own_result(self._client, call, value, name)
            )
        except SystemExit as error:
            self._exited(call, gate, methods, error)
            return
        if (
            answer[0] == RESULT_SCALAR
            and self._is_single
            and not (gate.waiting or self._change_waiters)
        ):
            # The usual answer: what ``_ended`` does of it, 1.2 us sooner.
            tasks, channel = methods.tasks, self._channel
            tasks.pop(call, None)
            write = channel.write if tasks or self._ready else channel.write_last
            write(pack(answer))
            gate.running -= 1
            return
        self._answer(call, gate, methods, answer)

    def _raised(
        self,
        call: int,
        name: str,
        gate: Gate,
        methods: MethodLoop,
        error: BaseException,
    ) -> None:
        """Answers a call whose ``async def`` has raised, or was cancelled."""
        answer: Frame | None
        try:
            if isinstance(error, asyncio.CancelledError):
                why = CUT_OFF if CUT_OFF in error.args else ""
                is_ending = self._client.is_leaving or self._streams.are_closing
                answer = None if is_ending else invoke.cancelled(call, why)
            elif call in self._cancelled:
                answer = self._cancelled_answer(call, error)
            else:
                answer = invoke.failure(self._client, call, error, self._where(name))
        except SystemExit as exiting:
            self._exited(call, gate, methods, exiting)
        else:
            self._answer(call, gate, methods, answer)

    def _exited(
        self, call: int, gate: Gate, methods: MethodLoop, error: SystemExit
    ) -> None:
        """Ends the actor, or gives no answer if the actor ends by its own will."""
        if isinstance(error, ActorExit):
            self._answer(call, gate, methods, None)
            return
        methods.tasks.pop(call, None)
        self._loop_of_call.pop(call, None)
        self._break(error)

    def _answer(
        self, call: int, gate: Gate, methods: MethodLoop, answer: Frame | None
    ) -> None:
        """Sends an answer, by way of the thread that reads the pipe."""
        methods.tasks.pop(call, None)
        if answer is not None and type(answer[-1]) is not bytes:
            answer = invoke.with_own_buffers(answer)
        if self._is_single:
            self._ended(call, gate, answer)
        else:
            self._client.later(partial(self._ended, call, gate, answer))

    def _cancelled_answer(self, call: int, error: BaseException | None = None) -> Frame:
        """The answer of a call that was cancelled and went on to its end."""
        if self._client.is_over:
            self._client.check_over(call, error)
        if isinstance(error, SystemExit):
            raise error
        return invoke.cancelled(call)

    def _start_with(
        self,
        frame: Frame,
        gate: Gate,
        method: Callable[..., Any],
        arguments: tuple[Sequence[Any], Mapping[str, Any]],
    ) -> Coroutine[Any, Any, object]:
        """Starts a call that has headers; gives what is to be awaited."""
        where = partial(self._where, frame[2])
        stream = partial(self._async_streams.run, frame, gate, where=where)
        places = gate.take, partial(self._leave, gate)
        return start_async(frame[4], method, arguments, places, stream)

    def _cancel_async(self, call: int, methods: MethodLoop) -> None:
        running = methods.tasks.get(call)
        if running is None:  # it has ended meanwhile
            self._cancelled.discard(call)
            return
        task, frame, gate = running
        task.cancel()
        task.add_done_callback(lambda _: self._never_began(frame, gate, methods))

    def _never_began(self, frame: Frame, gate: Gate, methods: MethodLoop) -> None:
        """Answers for a task that was cancelled before its first step."""
        call = frame[1]
        self._cancelled.discard(call)
        self._unbegun.discard(call)
        if methods.tasks.pop(call, None) is not None:
            self._answer_unbegun(frame, gate)

    def _answer_unbegun(self, frame: Frame, gate: Gate) -> None:
        call = frame[1]
        self._discard(frame)
        answer = None if self._client.is_leaving else invoke.cancelled(call)
        if self._is_single:
            self._ended(call, gate, answer)
        else:
            self._client.later(partial(self._ended, call, gate, answer))

    def _leave(self, gate: Gate) -> None:
        if self._is_single:
            self._leave_here(gate)
        else:
            self._client.later(partial(self._leave_here, gate))

    def _return_place(self, call: int, gate: Gate) -> None:
        if self._is_single:
            self._return_place_here(call, gate)
        else:
            self._client.later(partial(self._return_place_here, call, gate))

    # Calls of plain methods, where they run.

    def _run_plain(self, frame: Frame, gate: Gate | None, methods: MethodLoop) -> None:
        """Runs one on the loop of the actor's own thread, or of a group."""
        if self._ending is not None:
            return
        if self._client.is_leaving:
            self._plain_done(frame[1], gate, None)
            return
        name = frame[2]
        if self._is_single and not self._timing.is_quick(name):
            self._client.flush()  # what comes next may take long
        started = time.perf_counter()
        try:
            self._plain_methods.run(frame, gate)
        except BaseException as error:  # noqa: BLE001  # it ends the actor
            if methods is self._main:
                self._end(error)
            else:
                self._break(error)
            return
        if (
            not self._timing.ran(name, time.perf_counter() - started)
            and self._is_single
        ):
            self._client.read_now()  # calls that wait may have been cancelled meanwhile

    def _run_in_group(self, frame: Frame) -> None:
        """Runs one on a thread of its group."""
        _, gate = self._threads_of_call[frame[1]]
        try:
            self._plain_methods.run(frame, gate)
        except BaseException as error:  # noqa: BLE001  # it ends the actor, from its own thread
            self._break(error)

    def _plain_done(self, call: int, gate: Gate | None, answer: Frame | None) -> None:
        if answer is not None:
            answer = invoke.with_own_buffers(answer)
        if self._is_single:
            self._plain_ended(call, gate, answer)
        else:
            self._client.later(partial(self._plain_ended, call, gate, answer))

    def _pause_plain(self, call: int, gate: Gate | None) -> None:
        if self._is_single:
            self._pause(call, gate)
        else:
            self._client.later(partial(self._pause, call, gate))

    # The loops of groups.

    def _run_loop(self, methods: MethodLoop, threads: GroupThreads | None) -> None:
        if threads is not None:
            threads.join()
        loop = methods.loop
        asyncio.set_event_loop(loop)
        self._watch_loop(methods)
        with blocking_allowed():
            while True:
                try:
                    loop.run_forever()
                    break
                except ActorExit:  # see ``run``
                    continue
                except BaseException as error:  # noqa: BLE001  # it ends the actor, from its own thread
                    self._break(error)
        close(loop)

    def _watch_loop(self, methods: MethodLoop) -> None:
        runs = (
            self._run_async.__code__,
            self._run_scalars.__code__,
            self._run_plain.__code__,
        )
        bases = (
            self.run.__code__,
            self.call.__code__,
            self.run_to_end.__code__,
            self._run_loop.__code__,
        )
        client, loop = self._client, methods.loop
        self._watchdog.add(
            LoopWatch(client.where, loop, methods.tasks, runs, bases, client.post)
        )

    def _where(self, method: str) -> str:
        return self._client.where(method)


def _with_payload(frame: Frame) -> Frame:
    """Makes a CALL of a CALL_SCALARS, with a tuple in the place of the payload."""
    if frame[0] != CALL_SCALARS:
        return frame
    return (CALL, frame[1], frame[2], None, frame[3:])


def _begun(
    work: Coroutine[Any, Any, None],
    loop: asyncio.AbstractEventLoop,
    context: Context,
) -> asyncio.Task[None]:
    """Makes a task, and runs its first step at once."""
    # The checker reads the signatures of the oldest Python that we run on.
    eager: Any = asyncio.Task
    task: asyncio.Task[None] = eager(work, loop=loop, context=context, eager_start=True)
    return task


def close(loop: asyncio.AbstractEventLoop) -> None:
    """Ends what the user's code has left on a loop, as ``asyncio.run`` does."""
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
