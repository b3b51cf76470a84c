"""An event loop beside the main thread, for actors with ``async def`` methods.

The main thread is the actor's own: it runs the constructor and then the plain methods,
one at a time and in order, as in any other actor, so what belongs to a thread (a
database connection, the current device, signal handlers) stays there. The loop has a
thread of its own, runs the ``async def`` methods concurrently, and owns the socket.

Runs async generators: each in the task of its call, on the loop.

While its reader is behind, the task waits and has given its place among the calls that
run at once to another; it stands in line for a place again when there is room.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from functools import (
    partial,
)
from typing import (
    TYPE_CHECKING,
    Any,
)

from actorlib._core.actor_options import (
    LOOPED_LIMIT,
)
from actorlib._core.current_call import (
    running,
)
from actorlib._core.engine import (
    ActorExit,
    set_engine,
)
from actorlib._wire.async_channel import (
    Channel,
)
from actorlib._wire.call_headers import (
    enter_variables,
)
from actorlib._wire.messages import (
    CALL,
    CALL_WITH,
    CANCEL,
    FAILURE,
    ITEM,
    LEAVE,
    LINKED,
    READY,
    RESULT,
    STOP,
    STREAM_ACK,
    STREAM_EXPIRE,
    Frame,
)
from actorlib._worker import (
    invoke,
)
from actorlib._worker.async_client import (
    AsyncOwnerClient,
)
from actorlib._worker.concurrency_groups import (
    Gate,
    Gates,
)
from actorlib._worker.generators import (
    CUT_OFF,
    Streams,
    is_stream,
    size_of,
)
from actorlib._worker.invoke import (
    begun_with,
)
from actorlib._worker.loop_watchdog import (
    LoopWatch,
)
from actorlib._worker.plain_methods import (
    PlainMethods,
)
from actorlib._worker.startup import (
    construct,
    shutting_down,
)

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Callable,
        Mapping,
    )

    from actorlib._wire.blocking_channel import (
        Pipe,
    )
    from actorlib._worker.generators import (
        Stream,
    )
    from actorlib._worker.startup import (
        Start,
    )


_OFTEN = 0x3F


class AsyncStreams:
    """The async generators of an actor with an event loop; on the loop's thread.

    Args:
        loop: The loop.
        uplink: The engine.
        streams: Where it is said how far each may go.
        leave: Gives a place among the calls that run at once to the next.
        give_up: Takes a call out of the line for a place; None if it was not in it.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        uplink: AsyncOwnerClient,
        streams: Streams,
        leave: Callable[[Gate], None],
        give_up: Callable[[int], Frame | None],
    ) -> None:
        self._loop = loop
        self._uplink = uplink
        self._streams = streams
        self._leave = leave
        self._give_up = give_up
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
                if self._uplink.is_over:
                    self._uplink.over(stream.call)
                self._check_wanted(stream)
                self._give(stream, value, where)
                del value
                if not stream.ahead.is_read or not stream.made & _OFTEN:
                    await asyncio.sleep(0)
                if not stream.ahead.is_read and gate.waiting:
                    await self._wait(stream, gate)
                while not self._streams.may_go(stream):
                    await self._wait(stream, gate)
        except asyncio.CancelledError:
            if stream.ending is None:
                raise
            raise asyncio.CancelledError(stream.ending) from None
        finally:
            self._streams.end(stream.call)
            await source.aclose()
        return stream.made

    def _check_wanted(self, stream: Stream) -> None:
        """Ends a generator that went on although it was cancelled."""
        task = asyncio.current_task()
        if stream.ending is not None or (task is not None and task.cancelling()):
            raise asyncio.CancelledError

    def go_on(self, call: int) -> None:
        """A stream has room again, and a place."""
        self._waiting.pop(call).set_result(None)

    def end(self) -> None:
        """The actor ends: those that wait for their readers, now or later, end."""
        self._streams.are_ending = True
        for waiting in self._waiting.values():
            waiting.cancel()

    def _give(self, stream: Stream, value: object, where: Callable[[], str]) -> None:
        if stream.ahead.is_read:
            item = invoke.item(self._uplink, stream.call, stream.made, value, where)
            self._streams.put(stream, size_of(item[4]))
            self._uplink.channel.send(invoke.kept(item))
        stream.made += 1

    async def _wait(self, stream: Stream, gate: Gate) -> None:
        if self._streams.are_ending:
            raise asyncio.CancelledError
        call = stream.call
        waiting = self._waiting[call] = self._loop.create_future()
        self._leave(gate)
        self._streams.set_aside(stream)
        try:
            await waiting
        except asyncio.CancelledError:
            if self._waiting.pop(call, None) is not None:
                stream.is_aside = False
                self._give_up(call)
                gate.running += 1  # its end gives a place back
            raise


_PAUSE_ABOVE = 4 * 1024 * 1024


def serve(start: Start, pipe: Pipe, loop: asyncio.AbstractEventLoop) -> None:
    """Lives the life of an actor with an event loop: born, called, stopped.

    Args:
        start: What the worker was told first.
        pipe: The worker's end of the pipe, with what was read of it.
        loop: A new loop, which runs in a thread of its own meanwhile.

    Raises:
        BaseException: What ends the process, as for a serial actor.
        EOFError: The owner is gone.
    """
    uplink = AsyncOwnerClient(start, loop, pipe)
    set_engine(uplink)
    looped = _Looped(start, loop, uplink, pipe)
    uplink.left = partial(looped.leave, start.config.grace)
    uplink.cancelled = looped.was_cancelled
    thread = start.crew.start(f"{start.config.class_name}-loop", looped.run)
    try:
        with uplink.borrowing(start.loans):
            looped.instance = construct(start, uplink.defined)
        if uplink.is_over:
            uplink.over(0)
    except ActorExit:
        looped.finish(thread)
        raise
    except BaseException as error:
        uplink.post(invoke.unmade(uplink, error, f"{start.label}()"))
        looped.finish(thread)
        raise SystemExit(1) from error
    uplink.post((READY, uplink.born(looped.instance)))
    try:
        with shutting_down(looped.instance, loop):
            looped.plain.run(looped.instance)
    finally:
        looped.finish(thread)


class _Looped:
    instance: object

    def __init__(
        self,
        start: Start,
        loop: asyncio.AbstractEventLoop,
        uplink: AsyncOwnerClient,
        pipe: Pipe,
    ) -> None:
        self._loop = loop
        self._uplink = uplink
        self._channel = uplink.channel = Channel(
            loop,
            pipe.sock,
            self._receive,
            self._lost,
            showing=pipe.showing,
            decoder=pipe.decoder,
            pause_above=_PAUSE_ABOVE,
        )
        uplink.reader.receive = self._receive_straight
        self._streams = Streams(self._wake, start.config.max_unread)
        self._gates = Gates(
            start.config.limits or {"": LOOPED_LIMIT}, start.config.groups
        )
        self.plain = PlainMethods(
            start,
            loop,
            uplink,
            self._answered,
            self._streams,
            self._set_aside,
            lambda: not self._gates.are_empty,
            self._gates.by_group(),
        )
        self.tasks: dict[int, tuple[asyncio.Task[None], Frame, Gate]] = {}
        self._watch = self.plain.watch = LoopWatch(
            uplink.where, loop, self, _Looped._run_async.__code__, uplink.post
        )
        # The default is for coroutines; plain methods are one at a time anyhow.
        self._counts_plain = bool(start.config.limits)
        self._items = AsyncStreams(
            loop, uplink, self._streams, self._left, self._gates.drop
        )
        self._gated: dict[int, Gate] = {}
        self._cancelled: set[int] = set()
        self._emptied: asyncio.Future[None] | None = None
        self._known: dict[str, tuple[bool, Gate | None]] = {}
        self._stopping: asyncio.Task[None] | None = None

    # On the loop's thread.

    def run(self) -> None:
        """Runs the loop until ``finish``."""
        self._uplink.thread = threading.get_ident()
        self._uplink.reader.thread = self._watch.thread = self._uplink.thread
        asyncio.set_event_loop(self._loop)
        while True:
            try:
                self._loop.run_forever()
                break
            except ActorExit:  # out of a task of the user's own: ``leave`` goes on
                continue
            except BaseException as error:  # noqa: BLE001  # likewise; it ends the actor, from the main thread
                self._channel.close()
                self.plain.end(error)
        self._loop.run_until_complete(self._wind_up())
        self._channel.close()

    async def _wind_up(self) -> None:
        """Lets the ``finally`` blocks of what still runs run, and answers leave."""
        self._gates.clear()
        for call in list(self.tasks):
            self._cancel(call)
        await asyncio.gather(*self._running(), return_exceptions=True)
        await self._channel.drain()

    def _receive(self, frames: list[Frame]) -> None:
        if self._watch.is_asleep:
            self.plain.look()
        for frame in frames:
            kind = frame[0]
            if kind == CALL:
                self._accept(frame)
            elif kind == CALL_WITH:
                self._accept(frame, frame[4])
            elif kind in (RESULT, FAILURE):
                self._uplink.settle(frame)
            elif kind == CANCEL:
                # It may come by two ways, and would end the cleaning up.
                if frame[1] not in self._cancelled:
                    self._cancel(frame[1])
            elif kind == STOP and not self._uplink.is_leaving:
                self._receive(self._uplink.guests.part())
                self._stopping = self._loop.create_task(self._stop())
            elif kind != STOP:
                self._receive_of_streams(frame)

    def _receive_straight(self, frames: list[Frame]) -> None:
        """Takes what has come over a link, and notes that it runs from now on."""
        for frame in frames:
            if frame[0] in (CALL, CALL_WITH):
                self._uplink.guests.began(frame[1], frame[2])
        self._receive(frames)

    def _receive_of_streams(self, frame: Frame) -> None:
        if frame[0] == ITEM:
            self._uplink.item(frame)
        elif frame[0] == STREAM_ACK:
            self._streams.told(frame[1], frame[2])
        elif frame[0] == STREAM_EXPIRE:
            for call in self._streams.stand_still():
                self._streams.cancel(call, CUT_OFF)
                self._cancel(call)
        else:
            self._receive(self._uplink.heed(frame))

    def leave(self, grace: float) -> None:
        """The actor ends by its own will: what runs has a grace, what waits has none.

        Args:
            grace: Seconds.
        """
        self._stopping = self._loop.create_task(self._leave(grace))

    async def _leave(self, grace: float) -> None:
        for waiting in self._gates.clear():
            self._give_up(waiting)
            self._channel.send((LEAVE, waiting[1]))
        for call in self.plain.clear():
            self._channel.send((LEAVE, call))
        alone = self._loop.create_task(self.plain.alone())
        await asyncio.wait([*self._running(), alone], timeout=grace)
        alone.cancel()
        self.plain.end(ActorExit())  # what runs on is cancelled by finish()

    def _accept(self, frame: Frame, told: Mapping[str, Any] | None = None) -> None:
        if self._uplink.is_leaving:
            self._channel.send((LEAVE, frame[1]))
            return
        is_async, gate = self._known.get(frame[2]) or self._look_at(frame[2])
        if told is not None and "group" in told:
            gate = self._gates.of(frame[2], told["group"])
        if told is not None and is_stream(frame):
            if gate is None or gate.enter(frame):
                self._begin(frame, gate, is_async)
        elif is_async and gate is not None and gate.running < gate.limit:
            # The usual case, without a call of anything.
            gate.running += 1
            task = self._loop.create_task(self._run_async(frame, gate))
            self.tasks[frame[1]] = task, frame, gate
        elif gate is None or gate.enter(frame):
            self._begin(frame, gate, is_async)

    def _look_at(self, name: str) -> tuple[bool, Gate | None]:
        """Whether a method is an ``async def``, and which gate its calls pass."""
        method = getattr(self.instance, name, None)
        is_async = inspect.iscoroutinefunction(method)
        is_async = is_async or inspect.isasyncgenfunction(method)
        gate = self._gates.of(name) if is_async or self._counts_plain else None
        self._known[name] = is_async, gate
        return is_async, gate

    def _begin(self, frame: Frame, gate: Gate | None, is_async: bool) -> None:  # noqa: FBT001  # the hot path
        if is_async and frame[0] == STREAM_ACK:
            self._items.go_on(frame[1])
            return
        if is_async and gate is not None:
            task = self._loop.create_task(self._run_async(frame, gate))
            self.tasks[frame[1]] = task, frame, gate
            return
        if gate is not None:
            self._gated[frame[1]] = gate
        self.plain.put(frame, gate)

    def _wake(self, frame: Frame) -> None:
        """A stream has room again: it stands in line for a place."""
        self._accept(frame, frame[4])

    def _set_aside(self, call: int) -> None:
        """A plain stream waits for its reader, and gives its place to others."""
        gate = self._gated.pop(call, None)
        if gate is not None:
            self._left(gate)

    def _left(self, gate: Gate) -> None:
        """A call is over: the one that waits for its place begins."""
        frame = gate.leave()
        if frame is not None:
            self._begin(frame, gate, self._known[frame[2]][0])
            self._tell_emptied()

    def _tell_emptied(self) -> None:
        if self._emptied is not None and self._gates.are_empty:
            self._emptied.set_result(None)
            self._emptied = None

    async def _run_async(self, frame: Frame, gate: Gate) -> None:
        _, call, name, loans, *told, payload = frame
        answer: Frame | None
        running.set((call, name, told[0] if told else None))
        try:
            try:
                if told:
                    enter_variables(told[0])
                args, kwargs = self._uplink.arguments(loans, payload)
                method = getattr(self.instance, name)
                value = await (
                    self._begun(frame, gate, method, (args, kwargs))
                    if told
                    else method(*args, **kwargs)
                )
            except asyncio.CancelledError as error:
                why = CUT_OFF if CUT_OFF in error.args else ""
                answer = invoke.cancelled(call, why)
                if self._uplink.is_leaving or self._streams.are_ending:
                    answer = None
            except BaseException as error:  # noqa: BLE001  # the user's code
                answer = (
                    self._unwanted(call, error)
                    if call in self._cancelled
                    else invoke.failure(self._uplink, call, error, self._where(name))
                )
            else:
                answer = (
                    self._unwanted(call)
                    if call in self._cancelled
                    else invoke.result(
                        self._uplink, call, value, lambda: self._where(name)
                    )
                )
        except ActorExit:
            answer = None
        except SystemExit as error:  # it ends the actor, from the main thread
            # The owner sees the pipe end now, also while the main thread is busy.
            self._channel.close()
            self.plain.end(error)
            return
        del self.tasks[call]
        if answer is None:
            self._channel.send((LEAVE, call))
        else:
            self._send(invoke.kept(answer))
        if gate.waiting:
            self._left(gate)
        else:
            gate.running -= 1

    def _unwanted(self, call: int, error: BaseException | None = None) -> Frame:
        """The answer of a call that was cancelled and went on to its end."""
        if self._uplink.is_over:
            self._uplink.over(call, error)
        if isinstance(error, SystemExit):
            raise error
        return invoke.cancelled(call)

    def _begun(self, frame: Frame, gate: Gate, method: Any, given: Any) -> Any:
        where = partial(self._where, frame[2])
        stream = partial(self._items.run, frame, gate, where=where)
        places = gate.take, partial(self._left, gate)
        return begun_with(frame[4], method, given, places, stream)

    def _cancel(self, call: int) -> None:
        running = self.tasks.get(call)
        if running is not None:
            task, frame, gate = running
            self._cancelled.add(call)
            task.cancel()
            task.add_done_callback(lambda _: self._never_began(frame, gate))
        elif self._streams.cancel(call):
            pass  # a plain one that has begun: closed when its turn comes
        elif (waiting := self._gates.drop(call)) is not None:
            self._give_up(waiting)
            self._send(invoke.cancelled(call))
            self._tell_emptied()
        else:
            self.plain.cancel(call)

    def was_cancelled(self, call: int) -> bool:
        """Whether a call that runs is not wanted any more; from any thread."""
        return call in self._cancelled or self.plain.was_cancelled(call)

    def _never_began(self, frame: Frame, gate: Gate) -> None:
        """Answers for a task that was cancelled before its first step."""
        self._cancelled.discard(frame[1])
        if self.tasks.pop(frame[1], None) is not None:
            self._give_up(frame)
            call = frame[1]
            self._send(
                (LEAVE, call) if self._uplink.is_leaving else invoke.cancelled(call)
            )
            self._left(gate)

    def _give_up(self, frame: Frame) -> None:
        """Gives back the handles in a call that will not run."""
        self._uplink.guests.over(frame[1])
        with self._uplink.borrowing(frame[3]):
            pass

    async def _stop(self) -> None:
        if not self._gates.are_empty:
            self._emptied = self._loop.create_future()
            await self._emptied
        self._items.end()
        await asyncio.gather(*self._running(), return_exceptions=True)
        await self.plain.alone()
        self.plain.end(None)

    def _running(self) -> list[asyncio.Task[None]]:
        return [task for task, *_ in self.tasks.values()]

    def _lost(self, _: Exception | None) -> None:
        self._uplink.fail_all(EOFError("the owner is gone"))
        # Nobody wants what waits or runs any more.
        self._gates.clear()
        self.plain.clear()
        for call in list(self.tasks):
            self._cancel(call)
        self.plain.end(EOFError("the owner is gone"))

    def _send(self, answer: Frame) -> None:
        if answer[1] < LINKED:
            self._channel.send(answer)
        else:
            self._uplink.guests.answer(answer)

    def _answered(self, answer: Frame) -> None:
        self._send(answer)
        if self._gated:
            self._left(self._gated.pop(answer[1]))

    def _where(self, method: str) -> str:
        return self._uplink.where(method)

    # On the main thread.

    def finish(self, thread: threading.Thread) -> None:
        """Cancels what still runs, sends what is left and ends the loop."""
        self.plain.finish()
        self._loop.call_soon_threadsafe(self._loop.stop)
        thread.join()
