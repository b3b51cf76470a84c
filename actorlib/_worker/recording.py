"""Records when calls ran in this worker, and when it made calls over links.

The owner says when to begin and when to end. What was recorded goes to it in pieces, a
quarter of a second's at the most, with the next run: so little is kept here, and little
is lost if the process is killed. The owner keeps the pieces as they come.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs]  # it ships none

from actorlib._wire.messages import CALL_WITH, RECORDED, STREAM_ACK
from actorlib._worker.generators import is_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from actorlib._wire.messages import Frame

_PIECE: Final = 1000
_SECONDS: Final = 0.25

_msgpack: Any = msgpack


class RunRecorder:
    """Records the runs of one worker.

    Args:
        send: Sends a frame to the owner.
    """

    def __init__(self, send: Callable[[Frame], None]) -> None:
        self._send = send
        # Filled by any thread that runs calls, and emptied by one at a time.
        self._runs: deque[tuple[int, str, float, float, str, bool]] = deque()
        self._sent: deque[tuple[int, int, float]] = deque()
        self._errors: dict[int, str] = {}
        self._told_at = 0.0
        self._tells = threading.Lock()

    def run(self, frame: Frame, serve: Callable[[Frame], None]) -> None:
        """Runs a call, or the part of a stream that its reader has room for.

        Args:
            frame: The call, or what wakes the stream.
            serve: Runs it.
        """
        began = time.monotonic()
        try:
            serve(frame)
        finally:
            self._ran(frame, began)

    async def awaited(
        self,
        frame: Frame,
        run: Callable[..., Coroutine[Any, Any, None]],
        *args: object,
    ) -> None:
        """Runs a call of an ``async def``.

        Args:
            frame: The call.
            run: Runs it, and is called here: a task may be cancelled before it begins.
            *args: What that takes besides.
        """
        began = time.monotonic()
        try:
            await run(frame, *args)
        finally:
            self._ran(frame, began)

    def failed(self, call: int, error: BaseException) -> None:
        """A call that runs has raised something."""
        self._errors[call] = type(error).__name__

    def link_call(self, number: int, parent: int) -> None:
        """A call leaves over a link.

        Args:
            number: The number that no other call over a link has.
            parent: That of the call that makes it, or 0.
        """
        self._sent.append((number, parent, time.monotonic()))

    def _ran(self, frame: Frame, began: float) -> None:
        kind, call, name = frame[0], frame[1], frame[2]
        ended = time.monotonic()
        is_part = kind == STREAM_ACK or (kind == CALL_WITH and is_stream(frame))
        error = self._errors.pop(call, "") if self._errors else ""
        self._runs.append((call, name, began, ended, error, is_part))
        if ended - self._told_at > _SECONDS or len(self._runs) >= _PIECE:
            self.tell(0)

    def tell(self, number: int) -> None:
        """Sends what was recorded since the last time.

        Args:
            number: That of the question that this answers; 0 if nobody has asked.
        """
        with self._tells:
            self._told_at = time.monotonic()
            runs = [self._runs.popleft() for _ in range(len(self._runs))]
            sent = [self._sent.popleft() for _ in range(len(self._sent))]
            piece = cast("bytes", _msgpack.packb((runs, sent)))
            self._send((RECORDED, number, len(runs), piece))
