"""One run of a call's code in a worker: what consumers of its events are told of."""

from __future__ import annotations

import operator
import time
from typing import TYPE_CHECKING, Any, final

from actorlib._core.outcomes import status_of_run
from actorlib._wire.messages import CALL_WITH, STREAM_ACK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Context

    from actorlib._core.outcomes import Status
    from actorlib._wire.messages import Frame


@final
class CallRun:
    """One run of a call's code.

    A generator whose reader is behind is paused, and resumed later: each part has a
    beginning and an end of its own.

    Args:
        frame: The call; or what wakes a stream that began before there were consumers.
        context: What the code runs in; None for the context of its thread.
        tell_part: Is told of each part that has ended.

    Attributes:
        call: The number of the call.
        name: The method, or the function with its number before it.
        headers: The headers of the call; None if it has none.
        is_stream: Whether the call gives items.
        is_whole: Whether there were consumers when the call began.
        tell_end: Is told of the end, if a consumer was told of the beginning.
        context: As given.
        began: When the code began, by ``time.monotonic()``; of a generator, the first
            part.
        resumed: The same for this part.
        ended: When this part ended.
        status: How it ended.
        error: The class of its error; empty for none.
    """

    __slots__ = (
        "_tell_part",
        "began",
        "call",
        "context",
        "ended",
        "error",
        "headers",
        "is_stream",
        "is_whole",
        "name",
        "resumed",
        "status",
        "tell_end",
    )

    def __init__(
        self,
        frame: Frame,
        context: Context | None,
        tell_part: Callable[[CallRun], None],
    ) -> None:
        kind = frame[0]
        self.call: int = frame[1]
        self.name: str = frame[2]
        self.headers: Mapping[str, Any] | None = None
        self.is_stream = False
        if kind in (CALL_WITH, STREAM_ACK):
            self.headers = frame[4]
            self.is_stream = "stream" in frame[4]
        self.is_whole = kind != STREAM_ACK
        self.context = context
        self.status: Status = "ok"
        self.error = ""
        self.began = self.resumed = self.ended = 0.0
        self.tell_end: Callable[[CallRun], None] | None = None
        self._tell_part = tell_part

    def begin(self) -> None:
        """The code is called now."""
        self.began = self.resumed = time.monotonic()

    def in_context(self) -> Callable[..., Any]:
        """Gives what calls a function where the code of the call runs."""
        return operator.call if self.context is None else self.context.run

    def pause(self) -> None:
        """The generator waits for its reader."""
        self._end_part()

    def resume(self) -> None:
        """It goes on."""
        self.resumed = time.monotonic()

    def finish(
        self, error: BaseException | None = None, *, is_cancelled: bool = False
    ) -> None:
        """The code has returned, or raised.

        Args:
            error: What it raised. Default: None.
            is_cancelled: Whether the call ended as it was cancelled. Default: False.
        """
        if is_cancelled or error is not None:
            self.status, self.error = status_of_run(error, is_cancelled=is_cancelled)
        self._end_part()
        if self.tell_end is not None:
            self.tell_end(self)

    def _end_part(self) -> None:
        self.ended = time.monotonic()
        self._tell_part(self)
