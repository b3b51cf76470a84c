"""Runs the calls of ``async def`` methods and async generators, each in its own task.

From Python 3.12 on, the first step of a call runs where its frame was read, if no
earlier work waits. It is the task's own step, so code that asks for the current task
gets the one that continues later. Older Pythons have no such step. The states of a call
and their transitions::

  accepted
    |
    |-- nothing earlier waits --> READY --- CANCEL ---------> answered: cancelled
    |                               |
    |                               | all frames of the read are sorted
    |                               v
    |                           BEGINNING -- it returns or raises --> answered
    |                               |
    |                               | it suspends, or is cancelled in that step
    |                               v
    |                            RUNNING --- it ends -------> answered
    |                               ^
    |                               | the loop runs its first step
    |                               |
    '-- earlier work waits -----> UNBEGUN -- CANCEL --------> answered: cancelled

``_ready`` contains the calls that are READY, ``_beginning`` is the one that is
BEGINNING. ``MethodLoop.tasks`` contains the calls that are RUNNING or UNBEGUN, and
``_unbegun`` the latter. Earlier work waits in these cases: a call is UNBEGUN; a plain
method is to run; a frame may have woken a task, which continues first; blocking code
reads in place of the loop; the user has set a task factory, which has to be called;
first steps have taken long, so that the loop gets its turn.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from actorlib._core.current_call import running
from actorlib._core.engine import ActorExit
from actorlib._futures.object_ref import end_wait
from actorlib._options.interface import bind_method
from actorlib._wire.codec import pack
from actorlib._wire.messages import CALL, CALL_SCALARS, CALL_WITH, RESULT_SCALAR, Frame
from actorlib._worker.executors import invoke
from actorlib._worker.executors.generators import CUT_OFF, nbytes_of
from actorlib._worker.executors.invoke import begin_run, start_async

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
    from contextvars import Context

    from actorlib._worker.executors.actor_loop import ActorLoop, MethodLoop
    from actorlib._worker.executors.concurrency_groups import Gate
    from actorlib._worker.executors.generators import OutgoingStream, OutgoingStreams
    from actorlib._worker.executors.run_events import CallRun

_can_call: Callable[[object], bool] = callable
"""The builtin without its type guard, which would narrow values of type Any."""
BEGINS_AT_ONCE = sys.version_info >= (3, 12)
_LONG = 0.01
"""Seconds of first steps after which the next ones wait for the loop's next turn."""
_YIELD_MASK = 0x3F
"""A generator whose reader keeps up lets other tasks run every 64 items."""
_NEXT_TURN = -1
"""Represents that turn in ``_unbegun``; no call has this number."""


class Coroutines:
    """Runs the calls of ``async def`` methods and async generators.

    Args:
        over: Receives the answer of a call, or None if it has ended the actor.
        leave: Frees the place of a call among those that run at once.
        return_place: Counts the place of a stream that was cancelled while it waited.

    Attributes:
        runs: The code that runs a call, with its method as the local ``name``.
        cancelled: The calls that run and were cancelled.
        plain_count: The number of plain calls that run or are scheduled, which the
            executor counts.
        is_gathering: Whether the frames of one read are being sorted.
        has_woken: Whether a frame may have woken a task, which continues before a later
            call begins.
        has_waits: Whether the executor waits for calls to end.
    """

    instance: object

    def __init__(
        self,
        actor_loop: ActorLoop,
        streams: OutgoingStreams,
        over: Callable[[int, Gate | None, Frame | None], None],
        leave: Callable[[Gate], None],
        return_place: Callable[[int, Gate], None],
    ) -> None:
        client = self._client = actor_loop.client
        main = self._main = actor_loop.main
        self._actor_loop = actor_loop
        self._loop = main.loop
        self._context = main.context
        self._tasks = main.tasks
        self._is_single = client.loop is main.loop
        self._channel = client.channel
        self._streams = streams
        self.plain_count = 0
        self._over = over
        self._leave = leave
        self._return_place = return_place
        self.runs = (self._run_async.__code__, self._run_scalars.__code__)
        self.cancelled: set[int] = set()
        self.is_gathering = False
        self.has_woken = False
        self.has_waits = False
        # Calls that begin as soon as all frames of a read are sorted: the answer that
        # the first call blocks for may be among them.
        self._ready: deque[tuple[Frame, Gate]] = deque()
        self._cancelled_ready: set[int] = set()
        # It has no entry in ``tasks`` during its first step, after which most calls are
        # over.
        self._beginning: tuple[Coroutine[Any, Any, None], Frame, Gate] | None = None
        self._unbegun: set[int] = set()
        # The loops of calls, if there are several loops.
        self._loop_of_call: dict[int, MethodLoop] = {}
        # The streams that wait for their readers, by the numbers of their calls.
        self._waiting_streams: dict[int, asyncio.Future[None]] = {}

    # On the thread that reads the pipe.

    def may_gather(self) -> bool:
        """Whether calls may begin before the next turn of the loop.

        They may not while blocking code reads in place of the loop, or if the user has
        set a task factory, which has to be called.
        """
        return (
            BEGINS_AT_ONCE
            and self._is_single
            and not self.is_gathering
            and self._client.inbox.free_loop != 0
            and asyncio.current_task(self._loop) is None
            and self._loop.get_task_factory() is None
        )

    def begin_soon(self, frame: Frame, gate: Gate) -> None:
        """Begins a call on the only loop, behind all earlier work."""
        if self.is_gathering and not (
            self._unbegun or self.plain_count or self.has_woken
        ):
            self._ready.append((frame, gate))
        else:
            self.has_woken = False  # this call waits behind the woken task
            self.begin(with_payload(frame), gate, self._main)

    def begin_scalars(self, frame: Frame, gate: Gate) -> None:
        """Begins a call with scalar arguments in the loop's next turn."""
        methods = self._main
        work = self._run_scalars(frame, gate)
        task = methods.loop.create_task(work, context=methods.context.copy())
        methods.tasks[frame[1]] = task, frame, gate

    def start(self, frame: Frame, gate: Gate, methods: MethodLoop) -> None:
        """Begins a call on a loop, in the loop's next turn."""
        if self._is_single:
            self.begin(frame, gate, methods)
        else:
            self._loop_of_call[frame[1]] = methods
            methods.loop.call_soon_threadsafe(self.begin, frame, gate, methods)

    def running(self) -> list[int]:
        """Lists the calls that run or are to begin."""
        if not self._is_single:
            return [*self._loop_of_call]
        beginning = () if self._beginning is None else (self._beginning[1][1],)
        return [*self._tasks, *beginning, *(frame[1] for frame, _ in self._ready)]

    def forget(self, call: int) -> None:
        if not self._is_single:
            self._loop_of_call.pop(call, None)

    def cancel(self, call: int) -> bool:
        """Cancels a call that has a task; False if it has none."""
        if self._beginning is not None and call == self._beginning[1][1]:
            self._enlist_beginning(*self._beginning)
        if self._is_single:
            if call not in self._tasks:
                return False
            self.cancelled.add(call)
            self._cancel_here(call, self._main)
            return True
        methods = self._loop_of_call.get(call)
        if methods is None:
            return False
        self.cancelled.add(call)
        methods.loop.call_soon_threadsafe(self._cancel_here, call, methods)
        return True

    def cancel_ready(self, call: int) -> None:
        """Cancels a call if it is READY."""
        if self._ready:
            self._cancelled_ready.add(call)

    # Where they run.

    def begin_ready(self) -> None:
        """Runs the first steps of the calls that are READY, in order."""
        if not self._ready:
            return
        started = time.perf_counter()
        ready = self._ready
        while ready:
            self._begin_now(*ready.popleft())
        self._cancelled_ready.clear()
        if time.perf_counter() - started > _LONG:
            self._unbegun.add(_NEXT_TURN)
            self._loop.call_soon(self._unbegun.discard, _NEXT_TURN)

    def _begin_now(self, frame: Frame, gate: Gate) -> None:
        """Runs the first step of a call; see the states."""
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
        """Records the task of the first step that runs, so that it can be cancelled."""
        self._beginning = None
        for task in asyncio.all_tasks(self._loop):
            if task.get_coro() is coroutine:
                self._tasks[frame[1]] = task, frame, gate

    def begin(self, frame: Frame, gate: Gate, methods: MethodLoop) -> None:
        """Creates the task of a call; the loop runs its first step."""
        if BEGINS_AT_ONCE and self._is_single:
            self._unbegun.add(frame[1])
        work = self._run_async(frame, gate, methods)
        task = methods.loop.create_task(work, context=methods.context.copy())
        methods.tasks[frame[1]] = task, frame, gate

    async def _run_async(self, frame: Frame, gate: Gate, methods: MethodLoop) -> None:
        call, name = frame[1], frame[2]
        headers = frame[4] if frame[0] == CALL_WITH else None
        if BEGINS_AT_ONCE:
            beginning = self._beginning
            if call not in methods.tasks and (
                beginning is None or beginning[1] is not frame
            ):
                # The user's factory creates eager tasks. This one continues when it is
                # recorded, and not inside of the reader of the pipe. If it is cancelled
                # here, it has not begun, and ``_never_began`` answers.
                await asyncio.sleep(0)
            self._unbegun.discard(call)
        running.set((call, name, headers))
        noted = self._client.running_calls
        if noted is not None:
            noted.begin(call)
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
        """Runs a call with scalar arguments; see ``_run_async``.

        Every name and every step counts, as there is one such coroutine per call. Its
        task alone begins it, so nothing has to be checked before.
        """
        call, name = frame[1], frame[2]
        running.set((call, name, None))
        noted = self._client.running_calls
        if noted is not None:
            noted.begin(call)
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
        try:
            answer = (
                self._answer_cancelled(call)
                if call in self.cancelled
                else invoke.own_result(self._client, call, value, name)
            )
        except SystemExit as error:
            self._exited(call, gate, methods, error)
            return
        if (
            answer[0] == RESULT_SCALAR
            and self._is_single
            and not (gate.waiting or self.has_waits)
        ):
            # The usual answer, 1.2 us faster than ``_ended``.
            tasks, channel = methods.tasks, self._channel
            tasks.pop(call, None)
            write = channel.write if tasks or self._ready else channel.write_last
            write(pack(answer))
            gate.running -= 1
            if self._client.running_calls is not None:
                self._client.running_calls.end(call)
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
        """Answers a call whose method has raised, or was cancelled."""
        answer: Frame | None
        try:
            if isinstance(error, asyncio.CancelledError):
                why = CUT_OFF if CUT_OFF in error.args else ""
                is_ending = self._client.is_leaving or self._streams.are_closing
                answer = None if is_ending else invoke.cancelled(call, why)
            elif call in self.cancelled:
                answer = self._answer_cancelled(call, error)
            else:
                answer = invoke.failure(
                    self._client, call, error, self._client.where(name)
                )
        except SystemExit as exiting:
            self._exited(call, gate, methods, exiting)
        else:
            self._answer(call, gate, methods, answer)

    def _exited(
        self, call: int, gate: Gate, methods: MethodLoop, error: SystemExit
    ) -> None:
        """Ends the actor, or sends no answer if the actor ends at its own request."""
        if isinstance(error, ActorExit):
            self._answer(call, gate, methods, None)
            return
        methods.tasks.pop(call, None)
        self._loop_of_call.pop(call, None)
        self._actor_loop.break_actor(error)

    def _answer(
        self, call: int, gate: Gate, methods: MethodLoop, answer: Frame | None
    ) -> None:
        methods.tasks.pop(call, None)
        if answer is not None and type(answer[-1]) is not bytes:
            answer = invoke.with_own_buffers(answer)
        self._over(call, gate, answer)
        if self._client.running_calls is not None:
            self._client.running_calls.end(call)

    def _answer_cancelled(self, call: int, error: BaseException | None = None) -> Frame:
        """Creates the answer of a cancelled call that has run to its end."""
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
        """Starts a call that has headers; returns the coroutine to await."""
        where = partial(self._client.where, frame[2])
        stream = partial(self._run_stream, frame, gate, where=where)
        places = gate.take, partial(self._leave, gate)
        return start_async(frame[4], method, arguments, places, stream)

    def _cancel_here(self, call: int, methods: MethodLoop) -> None:
        running = methods.tasks.get(call)
        if running is None:  # it has ended
            self.cancelled.discard(call)
            return
        task, frame, gate = running
        task.cancel()
        task.add_done_callback(lambda _: self._never_began(frame, gate, methods))

    def _never_began(self, frame: Frame, gate: Gate, methods: MethodLoop) -> None:
        """Answers a call whose task was cancelled before its first step."""
        call = frame[1]
        self.cancelled.discard(call)
        self._unbegun.discard(call)
        if methods.tasks.pop(call, None) is not None:
            self._answer_unbegun(frame, gate)

    def _answer_unbegun(self, frame: Frame, gate: Gate) -> None:
        call = frame[1]
        self._client.discard(frame)
        answer = None if self._client.is_leaving else invoke.cancelled(call)
        self._over(call, gate, answer)

    # Async generators, each in the task of its call.

    async def _run_stream(
        self,
        frame: Frame,
        gate: Gate,
        source: AsyncGenerator[Any, None],
        where: Callable[[], str],
    ) -> int:
        """Sends the items of a generator; returns their number.

        While its reader is behind, the task waits, and its place among the calls that
        run at once is free for another call. It queues for a place again when the
        reader has taken items.

        Raises:
            asyncio.CancelledError: The call was cancelled, or the stream was cut off.
            Exception: The error of the generator, or of an item that cannot be sent.
        """
        stream = self._streams.begin(frame)
        try:
            # Other streams of the actor may have used up the limit of unread items.
            while not self._streams.may_go(stream):
                await self._wait_for_reader(stream, gate)
            async for value in source:
                if self._client.is_over:
                    self._client.check_over(stream.call)
                _check_wanted(stream)
                self._send_item(stream, value, where)
                del value
                if not stream.window.is_read or not stream.item_count & _YIELD_MASK:
                    await asyncio.sleep(0)
                if not stream.window.is_read and gate.waiting:
                    await self._wait_for_reader(stream, gate)
                while not self._streams.may_go(stream):
                    await self._wait_for_reader(stream, gate)
        except asyncio.CancelledError:
            if stream.end_reason is None:
                raise
            raise asyncio.CancelledError(stream.end_reason) from None
        finally:
            self._streams.end(stream.call)
            await source.aclose()
        return stream.item_count

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

    async def _wait_for_reader(self, stream: OutgoingStream, gate: Gate) -> None:
        if self._streams.are_closing:
            raise asyncio.CancelledError
        call = stream.call
        waiting = asyncio.get_running_loop().create_future()
        self._waiting_streams[call] = waiting
        self._leave(gate)
        self._streams.pause(stream)
        try:
            await waiting
        except asyncio.CancelledError:
            if self._waiting_streams.pop(call, None) is not None:
                stream.is_paused = False
                self._return_place(call, gate)
            raise

    def resume_stream(self, call: int) -> bool:
        """Resumes a stream that has a place again; False if it no longer waits."""
        waiting = self._waiting_streams.pop(call, None)
        if waiting is None:
            return False
        _call_on_its_loop(waiting, end_wait)
        return True

    def end_streams(self) -> None:
        """Ends the streams that wait for their readers, now or later."""
        self._streams.are_closing = True
        for waiting in [*self._waiting_streams.values()]:
            _call_on_its_loop(waiting, asyncio.Future[None].cancel)


def _check_wanted(stream: OutgoingStream) -> None:
    """Ends a generator that went on although it was cancelled."""
    task = asyncio.current_task()
    if stream.end_reason is not None or (task is not None and task.cancelling()):
        raise asyncio.CancelledError


def _call_on_its_loop(
    future: asyncio.Future[None], do: Callable[[asyncio.Future[None]], object]
) -> None:
    loop = future.get_loop()
    if asyncio._get_running_loop() is loop:  # noqa: SLF001  # None, and no error, if there is none
        do(future)
    else:
        loop.call_soon_threadsafe(do, future)


def with_payload(frame: Frame) -> Frame:
    """Converts a CALL_SCALARS to a CALL, whose payload is a tuple."""
    if frame[0] != CALL_SCALARS:
        return frame
    return (CALL, frame[1], frame[2], None, frame[3:])


def _begun(
    work: Coroutine[Any, Any, None],
    loop: asyncio.AbstractEventLoop,
    context: Context,
) -> asyncio.Task[None]:
    """Creates a task, and runs its first step at once."""
    # The type checker uses the signatures of the oldest supported Python.
    eager: Any = asyncio.Task
    task: asyncio.Task[None] = eager(work, loop=loop, context=context, eager_start=True)
    return task
