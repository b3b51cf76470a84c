"""Produces the events of the calls that run in a worker.

``WorkerEngine.events`` is None without consumers. An executor that begins to run the
code of a call gets a ``CallRun``, and reports the end of the code to it. So one place
reads the clock and determines the outcome. ``features`` attaches the consumers, of
which there are two kinds.
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
        """Records the run of a call, or of a part of a stream that the frame woke.

        ``error`` is the class of the error; empty if there was none.
        """
        ...

    def link_call(self, number: int, parent: int) -> None:
        """Records a call that leaves over a link.

        No other call over a link has its number. The parent is the number of the call
        that makes it, or 0.
        """
        ...

    def send(self, number: int) -> None:
        """Sends the unsent records, at the end of the worker (0) or on request."""
        ...


class RunObserver(Protocol):
    """A consumer of the runs of calls that have the header ``observed``."""

    @property
    def sets_context(self) -> bool:
        """Whether the consumer may set context variables for the code that runs."""
        ...

    def started(
        self, name: str, headers: Mapping[str, Any], context: Context | None
    ) -> Callable[[Status, str, float, float], None] | None:
        """Observes the start of a call's code, in a context or in that of the thread.

        ``name`` is the method, or the function with its number before it.

        Returns:
            A function for the end, which gets the status, the class of the error, the
            start time and the end time. None if the call has no such header.
        """
        ...


@final
class CallRun:
    """One run of a call's code.

    A generator whose reader is behind is paused and resumed. Each part has its own
    start and end.

    Args:
        events: The events of the worker; the recorder may change while the code runs.
        frame: The call, or the frame that wakes a stream that began without consumers.
        tell_end: The function of the observer for the end; see RunObserver.
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
        """Ends a part of the run: the generator waits for its reader."""
        recorder = self._events.recorder  # any thread may replace it
        if recorder is not None:
            recorder.ran(self._frame, self._resumed, time.monotonic(), "")

    def resume(self) -> None:
        self._resumed = time.monotonic()

    def finish(
        self, error: BaseException | None = None, *, is_cancelled: bool = False
    ) -> None:
        """Ends the run: the code has returned or raised, or was cancelled."""
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
    """The consumers of one worker; creates the runs that they observe.

    Attributes:
        recorder: Records all runs; None if there is none.
        observer: Observes calls with its header; None if there is none.
    """

    def __init__(self) -> None:
        self.recorder: RunRecorder | None = None
        self.observer: RunObserver | None = None

    def started(self, frame: Frame, context: Context | None = None) -> CallRun:
        """Begins the run of a call; the frame may wake its stream."""
        tell_end: Callable[[Status, str, float, float], None] | None = None
        if self.observer is not None and frame[0] == CALL_WITH:
            tell_end = self.observer.started(frame[2], frame[4], context)
        return CallRun(self, frame, tell_end)

    def sets_context(self, headers: Mapping[str, Any]) -> bool:
        """Whether a consumer observes a call and may set context variables."""
        return (
            self.observer is not None
            and "observed" in headers
            and self.observer.sets_context
        )

    def sent(self, number: int, parent: int) -> None:
        """Records a call over a link; see RunRecorder."""
        recorder = self.recorder
        if recorder is not None:
            recorder.link_call(number, parent)

    def close(self) -> None:
        """Sends the unsent records: the worker ends."""
        if self.recorder is not None:
            self.recorder.send(0)
