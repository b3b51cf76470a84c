"""Traces of a runtime, for its program and for other processes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, final

from actorlib._base.public import public
from actorlib._features.recording.runtime import PATIENCE, CallRecording
from actorlib._queries.queries import SLACK, Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from os import PathLike
    from types import TracebackType

    from actorlib._core.engine import RuntimeEngine
    from actorlib._features.recording.trace_events import Event, Recorded
    from actorlib._queries.queries import Parameters

MOST_TRACED: Final = 200_000
"""The most calls, and the most runs, of a trace: more are too long an answer."""
LONGEST_TRACE: Final = 3600.0
"""The longest time of a trace in seconds."""


@public("actorlib.types")
@final
class Trace:
    """Records a runtime while the block runs; made by ``runtime.trace()``.

    Its attributes are set after the block, even if the block has raised.

    Attributes:
        events: The trace events for ``json.dumps``: a list of dicts in Chrome's Trace
            Event Format.
        calls: The number of calls, including those between actors.
        runs: The number of runs of calls, and of parts of streams.
        dropped: The number of dropped calls and runs: the oldest are dropped.
        silent: The actors that did not send their latest recordings within a second:
            each runs a plain method, or is stopped or stuck.
    """

    events: list[dict[str, Any]]
    calls: int
    runs: int
    dropped: int
    silent: tuple[str, ...]

    def __init__(
        self,
        recording: Callable[[], CallRecording],
        path: str | PathLike[str] | None,
        kept: int,
    ) -> None:
        self._recording = recording
        self._path = path
        self._kept = kept
        self._began: float | None = None

    async def __aenter__(self) -> Self:
        """Begins to record.

        Raises:
            RuntimeError: The runtime is not running, or this one was entered before.
            UnsupportedOptionError: The engine is Ray's.
        """
        if self._began is not None:
            raise RuntimeError("a trace is entered once: call runtime.trace() again")
        self._began = self._recording().begin(self._kept)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the recording, draws it and writes the file.

        Cancelled: the recording ends, and nothing is drawn.

        Raises:
            OSError: The file cannot be written.
            RuntimeError: The runtime has ended.
        """
        assert self._began is not None
        make = await self._recording().end(self._began)
        await asyncio.to_thread(self._draw, make)

    def _draw(self, make: Callable[[], Recorded]) -> None:
        recorded = make()
        drawn = recorded.document()
        self.events = drawn["traceEvents"]
        self.calls = drawn["otherData"]["calls"]
        self.runs = drawn["otherData"]["runs"]
        self.dropped = recorded.dropped
        self.silent = tuple(recorded.silent)
        if self._path is not None:
            Path(self._path).write_text(json.dumps(drawn), encoding="utf-8")


@final
class Timeline:
    """Records a script from its start to its end."""

    def __init__(self, recording: CallRecording, kept: int) -> None:
        self._recording = recording
        self._began = recording.begin(kept)

    async def read(self) -> tuple[float, list[Event]]:
        """Returns the events until now; see ``begin_timeline``."""
        make = await self._recording.end(self._began, goes_on=True)
        recorded = await asyncio.to_thread(make)
        return recorded.began, await asyncio.to_thread(recorded.events)


def trace(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """Records the runtime for ``seconds``, with at most ``kept`` calls."""
    seconds = parameters.take("seconds", 5.0)
    if type(seconds) not in (int, float) or not 0 < seconds <= LONGEST_TRACE:
        raise ValueError(
            f"seconds takes more than 0 and at most {LONGEST_TRACE:g}, not {seconds!r}"
        )
    most = parameters.count("kept", MOST_TRACED // 2, MOST_TRACED, "calls")

    def begin() -> asyncio.Task[Callable[[], Recorded]]:
        return engine.loop.create_task(_record(engine, seconds, most))

    def plain(make: Callable[[], Recorded]) -> Mapping[str, Any]:
        return make().to_plain()

    return Asked(begin, plain, seconds + PATIENCE + SLACK)


async def _record(
    engine: RuntimeEngine, seconds: float, most: int
) -> Callable[[], Recorded]:
    """Records for some time; cancelled if the client has ended."""
    recording = engine.attached(CallRecording, "runtime.trace()")
    began = recording.begin(most)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        recording.end(began)
        raise
    return await recording.end(began)
