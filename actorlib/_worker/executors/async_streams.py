"""Runs async generators, each in the task of its call.

While its reader is behind, the task waits and has given its place among the calls that
run at once to another; it stands in line for a place again when there is room.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from actorlib._futures.object_ref import end_wait
from actorlib._worker.executors import invoke
from actorlib._worker.executors.generators import nbytes_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from actorlib._wire.messages import Frame
    from actorlib._worker.executors.concurrency_groups import Gate
    from actorlib._worker.executors.generators import OutgoingStream, OutgoingStreams
    from actorlib._worker.requests.async_client import AsyncOwnerClient

_YIELD_MASK = 0x3F
"""A generator whose reader keeps up lets other tasks run every 64 items."""


class AsyncStreams:
    """Runs the async generators of an actor, each on the loop of its method.

    Args:
        client: The engine of the worker.
        streams: Says how far each may go.
        leave: Gives a place among the calls that run at once to the next.
        return_place: Gives up the place that a call would have got, or is about to.

    Attributes:
        streams: As given, like leave.
    """

    def __init__(
        self,
        client: AsyncOwnerClient,
        streams: OutgoingStreams,
        leave: Callable[[Gate], None],
        return_place: Callable[[int, Gate], None],
    ) -> None:
        self._client = client
        self.streams = streams
        self.leave = leave
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
        stream = self.streams.begin(frame)
        try:
            # Others of the actor may have all that may be unread.
            while not self.streams.may_go(stream):
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
                while not self.streams.may_go(stream):
                    await self._wait(stream, gate)
        except asyncio.CancelledError:
            if stream.end_reason is None:
                raise
            raise asyncio.CancelledError(stream.end_reason) from None
        finally:
            self.streams.end(stream.call)
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
        self.streams.are_closing = True
        for waiting in [*self._waiting.values()]:
            _call_on_its_loop(waiting, asyncio.Future[None].cancel)

    def _send_item(
        self, stream: OutgoingStream, value: object, where: Callable[[], str]
    ) -> None:
        if stream.window.is_read:
            item = invoke.encode_item(
                self._client, stream.call, stream.item_count, value, where
            )
            self.streams.put(stream, nbytes_of(item[4]))
            self._client.post(invoke.with_own_buffers(item))
        stream.item_count += 1

    async def _wait(self, stream: OutgoingStream, gate: Gate) -> None:
        if self.streams.are_closing:
            raise asyncio.CancelledError
        call = stream.call
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[call] = waiting
        self.leave(gate)
        self.streams.pause(stream)
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
