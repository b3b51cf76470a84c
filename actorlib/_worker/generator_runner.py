"""Runs plain generators: until they end, or until their readers are behind.

It is the same for an actor with one thread, with several, and on an event loop; what
differs is who reads the pipe, and who waits. A generator whose items are read runs on
without giving way. One whose reader is gone gives way to every call that waits: it is
run for what it does besides, and may have no end.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from actorlib._core.current_call import running
from actorlib._wire.messages import RESULT, STREAM_ACK, Frame
from actorlib._wire.serialization import encode
from actorlib._worker import invoke
from actorlib._worker.generators import nbytes_of
from actorlib._worker.invoke import begin_run, context_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actorlib._worker.client import OwnerClient
    from actorlib._worker.generators import OutgoingStream, OutgoingStreams

_QUICK = 100e-6
_SELDOM = 0x3F


def _nothing() -> None: ...


class GeneratorRunner:
    """Makes the items of plain generators: of an actor, or of functions.

    Args:
        make: Gives what makes a generator, by its name.
        where: Names it for messages.
        client: The engine.
        streams: Says how far each may go.
        send: Sends an item, now.
        answer: Sends the last frame of a stream, behind its items.
        others_wait: Whether a call waits for this thread.
        cancelled: The calls that were cancelled before they began.
        read_now: Reads what has come, if nobody else does.
        failed: Makes the answer of a call whose generator raised; None for the usual.
    """

    def __init__(
        self,
        make: Callable[[str], Callable[..., Any]],
        where: Callable[[str], str],
        client: OwnerClient,
        streams: OutgoingStreams,
        send: Callable[[Frame], None],
        answer: Callable[[Frame], None],
        others_wait: Callable[[], bool],
        cancelled: set[int],
        read_now: Callable[[], None] = _nothing,
        failed: Callable[[int, str, BaseException], Frame] | None = None,
    ) -> None:
        self._make = make
        self._where = where
        self._client = client
        self._streams = streams
        self._send = send
        self._answer = answer
        self._others_wait = others_wait
        self._cancelled = cancelled
        self._read_now = read_now
        self._failed = failed or self._failure

    def serve(self, frame: Frame) -> bool:
        """Begins a stream, or goes on with one that was woken.

        Args:
            frame: Its call, or what woke it.

        Returns:
            Whether it is over, and its last frame sent; else it is to be paused.

        Raises:
            BaseException: What ends the actor.
        """
        _, call, name, _, headers, _ = frame
        is_new = frame[0] != STREAM_ACK
        # A function has its number before its name, which nobody else knows.
        running.set((call, name.rpartition(":")[2], headers))
        stream = self._streams.begin(frame) if is_new else self._streams.of(call)
        try:
            if is_new:
                # In this order: from now on a cancellation is the stream's.
                if call in self._cancelled:
                    self._cancelled.discard(call)
                    self._streams.cancel(call)
                context = context_of(self._client, frame)
                args, kwargs, stream.run = begin_run(self._client, frame, context)
                stream.source = self._generator(name, args, kwargs)
                # No code of ours stands between its caller and it; see InterruptSignal.
                next_item = stream.source.__next__
                stream.next_item = (
                    next_item if context is None else partial(context.run, next_item)
                )
            elif stream.run is not None:
                stream.run.resume()
            elif self._client.events is not None:
                stream.run = self._client.events.started(frame)
            answer = self._run(stream)
        except BaseException as error:  # noqa: BLE001  # the user's code
            # While the error is held: a handle in it is given back after it was sent.
            self._end(call, self._failed(call, name, error), error)
            return True
        if answer is None:
            running.set(None)
            if stream.run is not None:
                stream.run.pause()
            return False
        self._end(call, answer)
        return True

    def _end(
        self, call: int, answer: Frame, error: BaseException | None = None
    ) -> None:
        running.set(None)
        run = self._streams.of(call).run
        if run is not None:
            run.finish(error, is_cancelled=invoke.is_cancelled(answer))
        self._streams.end(call)
        self._answer(answer)

    def _failure(self, call: int, name: str, error: BaseException) -> Frame:
        return invoke.failure(self._client, call, error, self._where(name))

    def close(self) -> None:
        """The actor ends: the ``finally`` blocks of those that are paused run."""
        for stream in self._streams.clear():
            if stream.run is not None:
                stream.run.finish(is_cancelled=True)
            if stream.source is not None:
                try:
                    stream.source.close()
                except BaseException as error:  # noqa: BLE001  # the user's code
                    self._send(self._failure(stream.call, stream.wake_frame[2], error))

    def _generator(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        source = self._make(name)(*args, **kwargs)
        if not hasattr(source, "__next__"):
            kind = type(source).__qualname__
            raise TypeError(
                f"{name}() is a generator to its callers, and gave a {kind}"
            )
        return source

    def _run(self, stream: OutgoingStream) -> Frame | None:
        """Runs a generator; gives its last frame, or None if it is to be paused."""
        streams, window = self._streams, stream.window
        clock = time.perf_counter
        while True:
            if not streams.may_go(stream):
                self._read_now()
                if not streams.may_go(stream):
                    return None
            if stream.end_reason is not None:
                self._close(stream)
                return invoke.cancelled(stream.call, stream.end_reason)
            started = clock()
            try:
                value = stream.next_item()
            except StopIteration:
                self._check_over(stream)
                return (RESULT, stream.call, None, encode(stream.item_count))
            if window.is_read:
                self._give(stream, value)
            else:
                self._check_over(stream)
            del value
            stream.item_count += 1
            if not window.is_read:
                self._read_now()
                if self._others_wait():
                    return None
            elif clock() - started > _QUICK or not stream.item_count & _SELDOM:
                # Its reader may have said something meanwhile.
                self._read_now()

    def _give(self, stream: OutgoingStream, value: object) -> None:
        name = stream.wake_frame[2]
        try:
            frame = invoke.encode_item(
                self._client,
                stream.call,
                stream.item_count,
                value,
                lambda: self._where(name),
            )
        except TypeError:
            self._close(stream)
            raise
        self._streams.put(stream, nbytes_of(frame[4]))
        # The value is still held here: a handle in it is given back after it was sent.
        self._send(frame)

    def _check_over(self, stream: OutgoingStream) -> None:
        if self._client.is_over:
            self._client.check_over(stream.call)

    def _close(self, stream: OutgoingStream) -> None:
        close = getattr(stream.source, "close", None)
        if close is not None:
            close()
