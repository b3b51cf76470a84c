"""Produces the events of the calls that run in a worker.

``WorkerEngine.events`` is None while there is no consumer. An executor that begins to
run the code of a call asks it for a ``CallRun``, and tells that how the code ended: so
there is one place that reads the clock and says how a run ended. Consumers:

* ``run_recorder``: keeps when calls ran, for traces and timelines.
* ``run_observer``: tells copies of middlewares, and the owner, of calls that have the
  header ``observed``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from actorlib._wire.messages import RECORD_END
from actorlib._worker.call_run import CallRun

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextvars import Context

    from actorlib._core.engine import Engine
    from actorlib._wire.actor_config import ActorConfig
    from actorlib._wire.messages import Frame
    from actorlib._worker.run_observer import Copies, RunObserver
    from actorlib._worker.run_recorder import RunRecorder


@final
class RunEvents:
    """Keeps the consumers of one worker.

    Args:
        engine: The engine of the worker.
        config: What the owner says of the worker.
        post: Sends a frame to the owner now.
        gather: Sends a frame to the owner, at the latest with the answer that follows.

    Attributes:
        recorder: Records when calls run; None while there is no trace.
        observer: Tells middlewares; None while there are none.
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
        self._on_part = self._tell_part  # bound once, as each run needs it

    @property
    def has_consumers(self) -> bool:
        """Whether there is one."""
        return self.recorder is not None or self.observer is not None

    def observe(self, middlewares: bytes) -> None:
        """Tells these middlewares from now on; see OBSERVE."""
        observer, self.observer = self.observer, None
        if observer is not None:
            observer.end()
        if middlewares:
            from actorlib._worker.run_observer import RunObserver  # noqa: PLC0415  # seldom

            self.observer = RunObserver(
                self._engine, self._config, self._gather, middlewares, self._copies
            )
            self.observer.begin()

    def record(self, mode: int, number: int) -> None:
        """Records when calls run, or no more, and answers with it; see RECORD."""
        recorder = self.recorder
        if recorder is None:
            from actorlib._worker.run_recorder import RunRecorder  # noqa: PLC0415  # seldom

            recorder = RunRecorder(self._post)
        self.recorder = None if mode == RECORD_END else recorder
        if number:
            recorder.send(number)

    def started(self, frame: Frame, context: Context | None = None) -> CallRun:
        """The code of a call begins to run.

        Args:
            frame: The call, or what wakes its stream.
            context: What the code runs in. Default: None, for that of the thread.
        """
        run = CallRun(frame, context, self._on_part)
        if self.observer is not None and run.headers is not None and run.is_whole:
            run.tell_end = self.observer.started(run)
        run.begin()
        return run

    def _tell_part(self, run: CallRun) -> None:
        if self.recorder is not None:
            self.recorder.ran(run)

    def sets_context(self, headers: Mapping[str, Any]) -> bool:
        """Whether middlewares are told of a call, and may set context variables."""
        return (
            self.observer is not None
            and "observed" in headers
            and self.observer.has_middlewares
        )

    def sent(self, number: int, parent: int) -> None:
        """A call leaves over a link; see ``RunRecorder``."""
        if self.recorder is not None:
            self.recorder.link_call(number, parent)

    def close(self) -> None:
        """The worker ends: what was recorded is sent."""
        if self.recorder is not None:
            self.recorder.send(0)
