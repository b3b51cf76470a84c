"""A trace: what a runtime does meanwhile, drawn for Perfetto and Chrome."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, final

from actorlib._core.public import public

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from types import TracebackType

    from actorlib._core.engine import RuntimeEngine
    from actorlib._core.trace_events import Recorded

_PATIENCE = 1.0


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
        engine: Callable[[], RuntimeEngine],
        path: str | PathLike[str] | None,
        kept: int,
    ) -> None:
        self._engine = engine
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
        self._began = self._engine().begin_trace(self._kept)
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
        make = await self._engine().end_trace(self._began, _PATIENCE)
        await asyncio.to_thread(self._draw, make)

    def _draw(self, make: Callable[[], Recorded]) -> None:
        from actorlib._core.trace_events import document  # noqa: PLC0415  # few ask

        recorded = make()
        drawn = document(recorded)
        self.events = drawn["traceEvents"]
        self.calls = drawn["otherData"]["calls"]
        self.runs = drawn["otherData"]["runs"]
        self.dropped = recorded.dropped
        self.silent = tuple(recorded.silent)
        if self._path is not None:
            Path(self._path).write_text(json.dumps(drawn), encoding="utf-8")
