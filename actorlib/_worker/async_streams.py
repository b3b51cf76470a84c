"""Runs async generators: each in the task of its call, on the loop.

While its reader is behind, the task waits and has given its place among the calls that
run at once to another; it stands in line for a place again when there is room.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from actorlib._worker import replies
from actorlib._worker.streams import size_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from actorlib._wire.frames import Frame
    from actorlib._worker.gate import Gate
    from actorlib._worker.looplink import LoopedUplink
    from actorlib._worker.streams import Stream, Streams

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
        uplink: LoopedUplink,
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
            item = replies.item(self._uplink, stream.call, stream.made, value, where)
            self._streams.put(stream, size_of(item[4]))
            self._uplink.channel.send(replies.kept(item))
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
