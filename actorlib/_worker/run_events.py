"""Produces the events of the calls that run in a worker.

``WorkerEngine.events`` is None while there is no consumer. An executor that begins to
run the code of a call asks it for a ``CallRun``, and tells that how the code ended: so
there is one place that reads the clock and says how a run ended. Consumers:

* ``RunRecorder``: keeps when calls ran, for traces and timelines.
* ``run_observer``: tells copies of middlewares, and the owner, of calls that have the
  header ``observed``.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast, final

import msgpack  # pyright: ignore[reportMissingTypeStubs]  # it ships none

from actorlib._core.outcomes import status_of_run
from actorlib._wire.messages import (
    CALL_WITH,
    OBSERVE,
    RECORD_END,
    RECORDED,
    STREAM_ACK,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Context

    from actorlib._core.engine import Engine
    from actorlib._core.outcomes import Status
    from actorlib._wire.actor_config import ActorConfig
    from actorlib._wire.messages import Frame
    from actorlib._worker.run_observer import Copies, RunObserver

_PIECE: Final = 1000
_SECONDS: Final = 0.25

_msgpack: Any = msgpack


@final
class RunRecorder:
    """Records when calls ran, and when the worker made calls over links.

    What was recorded goes to the owner in pieces, a quarter of a second's at the most,
    with the next run: so little is kept here, and little is lost if the process is
    killed. The owner keeps the pieces as they come.

    Args:
        post: Sends a frame to the owner.
    """

    def __init__(self, post: Callable[[Frame], None]) -> None:
        self._post = post
        # Filled by any thread that runs calls, and emptied by one at a time.
        self._runs: deque[tuple[int, str, float, float, str, bool]] = deque()
        self._link_calls: deque[tuple[int, int, float]] = deque()
        self._sent_at = 0.0
        self._sending = threading.Lock()

    def ran(self, frame: Frame, began: float, ended: float, error: str) -> None:
        """A call has run, or the part of a stream that its reader had room for.

        Args:
            frame: The call, or what woke the stream.
            began: When that began.
            ended: When it ended.
            error: The class of its error; empty for none.
        """
        kind, call, name = frame[0], frame[1], frame[2]
        is_part = kind == STREAM_ACK or (kind == CALL_WITH and "stream" in frame[4])
        self._runs.append((call, name, began, ended, error, is_part))
        if ended - self._sent_at > _SECONDS or len(self._runs) >= _PIECE:
            self.send(0)

    def link_call(self, number: int, parent: int) -> None:
        """A call leaves over a link.

        Args:
            number: The number that no other call over a link has.
            parent: That of the call that makes it, or 0.
        """
        self._link_calls.append((number, parent, time.monotonic()))

    def send(self, number: int) -> None:
        """Sends what was recorded since the last time.

        Args:
            number: That of the question that this answers; 0 if nobody has asked.
        """
        with self._sending:
            self._sent_at = time.monotonic()
            runs = [self._runs.popleft() for _ in range(len(self._runs))]
            calls = [self._link_calls.popleft() for _ in range(len(self._link_calls))]
            piece = cast("bytes", _msgpack.packb((runs, calls)))
            self._post((RECORDED, number, len(runs), piece))


@final
class CallRun:
    """One run of a call's code, which has begun.

    A generator whose reader is behind is paused, and resumed later: each part has a
    beginning and an end of its own.

    Args:
        events: Those of the worker: who records may change while the code runs.
        frame: The call; or what wakes a stream that began before there were consumers.
        tell_end: Told of the end by the consumer that was told of the beginning; the
            status, the class of the error, when the code began and ended.
    """

    __slots__ = ("_began", "_events", "_frame", "_resumed", "_tell_end")

    def __init__(
        self,
        events: RunEvents,
        frame: Frame,
        tell_end: Callable[[Status, str, float, float], None] | None,
    ) -> None:
        self._events = events
        self._frame = frame
        self._tell_end = tell_end
        self._began = self._resumed = time.monotonic()

    def pause(self) -> None:
        """The generator waits for its reader."""
        recorder = self._events.recorder  # which any thread may replace
        if recorder is not None:
            recorder.ran(self._frame, self._resumed, time.monotonic(), "")

    def resume(self) -> None:
        """It goes on."""
        self._resumed = time.monotonic()

    def finish(
        self, error: BaseException | None = None, *, is_cancelled: bool = False
    ) -> None:
        """The code has returned, or raised.

        Args:
            error: What it raised. Default: None.
            is_cancelled: Whether the call ended as it was cancelled. Default: False.
        """
        ended = time.monotonic()
        status: Status = "ok"
        name = ""
        if is_cancelled or error is not None:
            status, name = status_of_run(error, is_cancelled=is_cancelled)
        recorder = self._events.recorder
        if recorder is not None:
            recorder.ran(self._frame, self._resumed, ended, name)
        if self._tell_end is not None:
            self._tell_end(status, name, self._began, ended)


@final
class RunEvents:
    """Keeps the consumers of one worker, and makes the runs that they are told of.

    Args:
        engine: The engine of the worker.
        config: What the owner says of the worker.
        post: Sends a frame to the owner now.
        gather: Sends a frame to the owner, at the latest with the answer that follows.

    Attributes:
        recorder: Is told of all runs; None while there is no trace.
        observer: Is told of calls that have a header for it; None while there are no
            middlewares.
    """

    def __init__(
        self,
        engine: Engine,
        config: ActorConfig,
        post: Callable[[Frame], None],
        gather: Callable[[Frame], None],
    ) -> None:
        self.recorder: RunRecorder | None = None
        self.observer: RunObserver | None = None
        self._engine = engine
        self._config = config
        self._post = post
        self._gather = gather
        self._copies: Copies = []

    def switch(self, frame: Frame) -> RunEvents | None:
        """Adds a consumer or removes one.

        Args:
            frame: What the owner wants; see OBSERVE and RECORD.

        Returns:
            What ``WorkerEngine.events`` is from now on.
        """
        (self._observe if frame[0] == OBSERVE else self._record)(*frame[1:])
        return None if self.recorder is None and self.observer is None else self

    def _observe(self, middlewares: bytes) -> None:
        observer, self.observer = self.observer, None
        if observer is not None:
            observer.end()
        if middlewares:
            from actorlib._worker.run_observer import RunObserver  # noqa: PLC0415  # seldom

            self.observer = RunObserver(
                self._engine, self._config, self._gather, middlewares, self._copies
            )

    def _record(self, mode: int, number: int) -> None:
        recorder = self.recorder or RunRecorder(self._post)
        self.recorder = None if mode == RECORD_END else recorder
        if number:
            recorder.send(number)

    def started(self, frame: Frame, context: Context | None = None) -> CallRun:
        """The code of a call begins to run.

        Args:
            frame: The call, or what wakes its stream.
            context: What the code runs in. Default: None, for that of the thread.
        """
        tell_end: Callable[[Status, str, float, float], None] | None = None
        if self.observer is not None and frame[0] == CALL_WITH:
            tell_end = self.observer.started(frame[2], frame[4], context)
        return CallRun(self, frame, tell_end)

    def sets_context(self, headers: Mapping[str, Any]) -> bool:
        """Whether middlewares are told of a call, and may set context variables."""
        return (
            self.observer is not None
            and "observed" in headers
            and self.observer.has_middlewares
        )

    def sent(self, number: int, parent: int) -> None:
        """A call leaves over a link; see ``RunRecorder``."""
        recorder = self.recorder
        if recorder is not None:
            recorder.link_call(number, parent)

    def close(self) -> None:
        """The worker ends: what was recorded is sent."""
        if self.recorder is not None:
            self.recorder.send(0)
