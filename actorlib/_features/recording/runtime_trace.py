"""A trace: what a runtime does meanwhile, for its program and for who asks outside."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, final

from actorlib._base.public import public
from actorlib._features.recording.runtime import CallRecording
from actorlib._features.recording.trace_events import document, to_plain
from actorlib._queries.queries import SLACK, Asked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from os import PathLike
    from types import TracebackType

    from actorlib._core.engine import RuntimeEngine
    from actorlib._features.recording.trace_events import Recorded
    from actorlib._queries.queries import Parameters

_TELLING = 1.0
"""Seconds that workers may take to tell the rest of what they have recorded."""
MOST_TRACED: Final = 200_000
"""How many calls, and how many runs, a trace may have: more is too long an answer."""
LONGEST_TRACE: Final = 3600.0
"""Seconds that a trace may take."""


@public("actorlib")
@final
class Trace:
    """What a runtime does while the block runs; made by ``runtime.trace()``.

    Its attributes are there after the block, also if that has raised.

    Attributes:
        events: The trace events, as ``json.dumps`` takes them: a list of dicts in
            Chrome's Trace Event Format.
        calls: How many calls were made, also from actor to actor.
        runs: How many runs of calls were seen, and parts of streams.
        dropped: How many calls and runs there was no room for, of the oldest.
        silent: The actors that did not tell within a second what they have recorded of
            late: each runs a plain method, or is stopped or stuck.
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
            raise RuntimeError("a trace is entered once: ask runtime.trace() for more")
        self._began = self._recording().begin(self._kept)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends that, draws it and writes the file.

        Cancelled: nothing is recorded any more, and nothing is drawn.

        Raises:
            OSError: The file cannot be written.
            RuntimeError: The runtime has ended meanwhile.
        """
        assert self._began is not None
        make = await self._recording().end(self._began, _TELLING)
        await asyncio.to_thread(self._draw, make)

    def _draw(self, make: Callable[[], Recorded]) -> None:
        recorded = make()
        drawn = document(recorded)
        self.events = drawn["traceEvents"]
        self.calls = drawn["otherData"]["calls"]
        self.runs = drawn["otherData"]["runs"]
        self.dropped = recorded.dropped
        self.silent = tuple(recorded.silent)
        if self._path is not None:
            Path(self._path).write_text(json.dumps(drawn), encoding="utf-8")


def trace(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """What the runtime does for so many ``seconds``, of which so much is ``kept``."""
    seconds = parameters.take("seconds", 5.0)
    if type(seconds) not in (int, float) or not 0 < seconds <= LONGEST_TRACE:
        raise ValueError(
            f"seconds takes more than 0 and at most {LONGEST_TRACE:g}, not {seconds!r}"
        )
    kept = parameters.count("kept", MOST_TRACED // 2, MOST_TRACED, "calls")

    def begin() -> asyncio.Task[Callable[[], Recorded]]:
        return engine.loop.create_task(_traced(engine, seconds, kept))

    def made(make: Callable[[], Recorded]) -> Mapping[str, Any]:
        return to_plain(make())

    return Asked(begin, made, seconds + _TELLING + SLACK)


async def _traced(
    engine: RuntimeEngine, seconds: float, kept: int
) -> Callable[[], Recorded]:
    """Records for a while; cancelled, as who has asked is gone: no more."""
    recording = engine.attached(CallRecording, "runtime.trace()")
    began = recording.begin(kept)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        recording.end(began, _TELLING)
        raise
    return await recording.end(began, _TELLING)
