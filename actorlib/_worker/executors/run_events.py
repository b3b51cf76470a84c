"""Produces the events of the calls that run in a worker.

``WorkerEngine.events`` is None while there is no consumer. An executor that begins to
run the code of a call asks it for a ``CallRun``, and tells that how the code ended: so
there is one place that reads the clock and says how a run ended. ``features`` attaches
consumers, of the two kinds below.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol, final

from actorlib._base.outcomes import status_of_run
from actorlib._wire.messages import CALL_WITH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Context

    from actorlib._base.outcomes import Status
    from actorlib._wire.messages import Frame


class RunRecorder(Protocol):
    """A consumer of all runs, and of the calls that the worker makes over links."""

    def ran(self, frame: Frame, began: float, ended: float, error: str) -> None:
        """A call has run, or the part of a stream that its reader had room for.

        Args:
            frame: The call, or what woke the stream.
            began: When that began.
            ended: When it ended.
            error: The class of its error; empty for none.
        """
        ...

    def link_call(self, number: int, parent: int) -> None:
        """A call leaves over a link.

        Args:
            number: The number that no other call over a link has.
            parent: That of the call that makes it, or 0.
        """
        ...

    def send(self, number: int) -> None:
        """Sends what is not sent yet: the worker ends, or the owner has asked.

        Args:
            number: That of the question that this answers; 0 if nobody has asked.
        """
        ...


class RunObserver(Protocol):
    """A consumer of the runs of those calls that have the header ``observed``."""

    @property
    def sets_context(self) -> bool:
        """Whether it may set context variables for the code that runs."""
        ...

    def started(
        self, name: str, headers: Mapping[str, Any], context: Context | None
    ) -> Callable[[Status, str, float, float], None] | None:
        """The code of a call begins to run.

        Args:
            name: The method, or the function with its number before it.
            headers: The headers of the call.
            context: What its code runs in; None for the context of the thread.

        Returns:
            Told of the end: the status, the class of the error, when the code began
            and ended. None if the call has no such header.
        """
        ...


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

    Attributes:
        recorder: Told of all runs; None while there is no such consumer.
        observer: Told of calls that have a header for it; None likewise.
    """

    def __init__(self) -> None:
        self.recorder: RunRecorder | None = None
        self.observer: RunObserver | None = None

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
        """Whether a consumer is told of a call, and may set context variables."""
        return (
            self.observer is not None
            and "observed" in headers
            and self.observer.sets_context
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
