"""Runs the plain methods of an actor with an event loop.

That is done on a loop, which stands still meanwhile: the actor's own, or that of a
concurrency group that has coroutines. A group without coroutines has threads.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from actorlib._core.current_call import is_late
from actorlib._core.engine import ActorExit
from actorlib._core.interface import find_method
from actorlib._wire.messages import CALL, Frame
from actorlib._worker import invoke
from actorlib._worker.generator_runner import GeneratorRunner
from actorlib._worker.generators import is_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._worker.async_client import AsyncOwnerClient
    from actorlib._worker.concurrency_groups import Gate
    from actorlib._worker.generators import OutgoingStreams


class PlainMethods:
    """Runs plain methods.

    Args:
        client: The engine of the worker.
        streams: What the actor makes for readers.
        others_wait: Whether calls wait for a place, or for this thread.
        over: Takes the answer of a call, or None if it has ended the actor.
        pause: Takes a stream that waits for its reader.
        is_on_the_loop: Whether all of it runs on the loop that reads the pipe.

    Attributes:
        cancelled: The calls that were cancelled before they ended.
    """

    _instance: object
    _generators: GeneratorRunner

    def __init__(
        self,
        client: AsyncOwnerClient,
        streams: OutgoingStreams,
        others_wait: Callable[[], bool],
        over: Callable[[int, Gate | None, Frame | None], None],
        pause: Callable[[int, Gate | None], None],
        *,
        is_on_the_loop: bool,
    ) -> None:
        self._client = client
        self._streams = streams
        self._others_wait = others_wait
        self._over = over
        self._pause = pause
        self._is_on_the_loop = is_on_the_loop
        self._gates: dict[int, Gate | None] = {}
        self.cancelled: set[int] = set()

    def set_instance(self, instance: object) -> None:
        """Takes the actor's object, before its first call."""
        self._instance = instance
        client = self._client
        self._generators = GeneratorRunner(
            partial(find_method, instance),
            client.where,
            client,
            self._streams,
            self._send_item,
            self._send_last,
            self._others_wait,
            self.cancelled,
            client.try_read,
        )

    def run(self, frame: Frame, gate: Gate | None) -> None:
        """Runs one call to its end, or a stream until its reader is behind.

        Args:
            frame: The call, or what wakes a stream.
            gate: Where it has a place, if it needs one.

        Raises:
            BaseException: What ends the actor.
        """
        is_of_stream = frame[0] != CALL and is_stream(frame)
        run = self._run_stream if is_of_stream else self._run
        run(frame, gate)

    def close(self) -> None:
        """The actor ends: generators that are paused run their ``finally``."""
        if self._is_on_the_loop:
            self._client.begin_blocking()
        try:
            self._generators.close()
        finally:
            if self._is_on_the_loop:
                self._client.end_blocking()

    def _run_stream(self, frame: Frame, gate: Gate | None) -> None:
        call = frame[1]
        self._client.interrupted.discard(call)  # it is closed, if it was to be
        self._gates[call] = gate
        noted = self._client.running_calls
        if noted is not None:
            noted.begin(call)
        is_over = True
        if self._is_on_the_loop:
            self._client.begin_blocking()
        try:
            is_over = self._generators.serve(frame)
        except ActorExit:
            del self._gates[call]
            self._over(call, gate, None)
        finally:
            if self._is_on_the_loop:
                self._client.end_blocking()
        if not is_over:
            del self._gates[call]
            self._pause(call, gate)
        elif noted is not None:
            noted.end(call)

    def _send_last(self, answer: Frame) -> None:
        self._over(answer[1], self._gates.pop(answer[1]), answer)

    def _send_item(self, frame: Frame) -> None:
        self._client.post(invoke.with_own_buffers(frame))

    def _run(self, frame: Frame, gate: Gate | None) -> None:
        _, call, _, borrowed, *headers, _ = frame
        if call in self.cancelled or (headers and is_late(headers[0])):
            with self._client.borrowing(borrowed):  # gives the handles in it back
                pass
            self._over(call, gate, invoke.cancelled(call))
            return
        noted = self._client.running_calls
        if noted is not None:
            noted.begin(call)
        answer: Frame | None = None
        held: object = None
        if self._is_on_the_loop:
            self._client.begin_blocking()
        try:
            answer, held = invoke.invoke(self._client, self._instance, frame)
        except ActorExit:
            pass
        finally:
            if self._is_on_the_loop:
                self._client.end_blocking()
        # What it gave or raised is still held here: a handle in it is given back after
        # it was sent.
        self._over(call, gate, answer)
        if noted is not None:
            noted.end(call)
        del held
