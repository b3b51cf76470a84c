"""Runs the plain methods of an actor with an event loop.

They run on a loop, which is blocked meanwhile: the actor's own, or that of a
concurrency group with coroutines. A group without coroutines has threads.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from actorlib._core.engine import ActorExit
from actorlib._wire.messages import CALL, Frame
from actorlib._worker.executors.generators import is_stream
from actorlib._worker.executors.invoke import CallExecutor, with_own_buffers

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._worker.executors.concurrency_groups import Gate
    from actorlib._worker.executors.generators import OutgoingStreams
    from actorlib._worker.requests.async_client import AsyncOwnerClient


class PlainMethods(CallExecutor["AsyncOwnerClient"]):
    """Runs plain methods.

    Args:
        client: The engine of the worker.
        streams: The streams of the actor.
        over: Receives the answer of a call, or None if it has ended the actor.
        pause: Receives a stream that waits for its reader.

    Attributes:
        cancelled: The calls that were cancelled before they ended.
        count: The number of calls that run or are scheduled.
    """

    def __init__(
        self,
        client: AsyncOwnerClient,
        streams: OutgoingStreams,
        over: Callable[[int, Gate | None, Frame | None], None],
        pause: Callable[[int, Gate | None], None],
    ) -> None:
        self.cancelled: set[int] = set()
        self.count = 0
        super().__init__(client, streams, self.cancelled)
        self._over = over
        self._on_pause = pause
        self._inbox = client.inbox
        self._gates: dict[int, Gate | None] = {}

    def set_instance(self, instance: object) -> None:
        """Sets the actor's object, before its first call."""
        self._instance = instance
        self._find = partial(getattr, instance)

    def run(self, frame: Frame, gate: Gate | None) -> bool:
        """Runs one call to its end, or a stream until its reader is behind.

        Args:
            frame: The call, or the frame that wakes a stream.
            gate: The gate in which it has a place, if it needs one.

        Returns:
            Whether its code ran.

        Raises:
            BaseException: The reason of the actor's end.
        """
        call = frame[1]
        if frame[0] != CALL and is_stream(frame):
            self._inbox.interrupted.discard(call)  # a stream is closed instead
        self._gates[call] = gate
        self._inbox.begin_blocking()
        try:
            return self.execute(frame)
        except ActorExit:
            self._inbox.end_blocking()
            self._over(call, self._gates.pop(call), None)
            if self._client.running_calls is not None:
                self._client.running_calls.end(call)
            return True
        finally:
            self._inbox.end_blocking()

    def close(self) -> None:
        """Closes paused generators at the end of the actor: ``finally`` blocks run."""
        self._inbox.begin_blocking()
        try:
            self.close_streams()
        finally:
            self._inbox.end_blocking()

    def _answer(self, answer: Frame) -> None:
        self._inbox.end_blocking()
        gate = self._gates.pop(answer[1])
        self._over(answer[1], gate, with_own_buffers(answer))

    def _pause(self, call: int) -> None:
        self._inbox.end_blocking()
        self._on_pause(call, self._gates.pop(call))

    def _send_item(self, item: Frame) -> None:
        self._client.post(with_own_buffers(item))

    def _others_wait(self) -> bool:
        # A stream without a reader yields to all other work of the loop.
        return True

    def _read_now(self) -> None:
        self._inbox.read_available()
