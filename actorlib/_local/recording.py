"""The engine of a script that asks for its timeline: it writes down what it does.

A call costs some 3 us more then, of ten in a burst; so this is the engine of nobody who
has not asked for it.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from actorlib._local.crossing import CrossingEngine
from actorlib._local.timeline import CALL, Span, Timeline

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from actorlib._engine import ActorSpec
    from actorlib._function_options import FunctionSpec
    from actorlib._ids import ActorId
    from actorlib._interface import Method
    from actorlib._local.machine import Machine
    from actorlib._local.supervisor import Life
    from actorlib._reading import Reading
    from actorlib._ref import ObjectRef
    from actorlib._runtime_options import RuntimeOptions

_clock = time.perf_counter


class RecordingEngine(CrossingEngine):
    """A CrossingEngine that keeps a timeline of what its script does.

    Args:
        machine: What there is.
        options: How the runtime behaves.
        kept: How many events are kept.
    """

    def __init__(self, machine: Machine, options: RuntimeOptions, kept: int) -> None:
        super().__init__(machine, options)
        self._timeline = Timeline(kept)

    def timeline(self) -> list[dict[str, Any]]:
        """What was done and when, as Chrome's trace events."""
        now = _clock()
        epoch = now - time.time()
        return self._across(partial(self._timeline.events, now, epoch))

    def create(self, spec: ActorSpec) -> ActorId:
        """Starts the life of an actor; see Engine."""
        actor = super().create(spec)
        begin = partial(self._begin, actor, spec.interface.class_name, _clock())
        if threading.get_ident() == self._thread:
            begin()
        else:
            self._home.post(begin)
        return actor

    def call(
        self,
        actor: ActorId,
        method: Method,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Sends a call; see Engine."""
        begun = _clock()
        ref = super().call(actor, method, args, kwargs)
        ref.add_done_callback(partial(self._done, begun, actor, method.name))
        return ref

    def run(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Calls a function; see Engine."""
        begun = _clock()
        ref = super().run(spec, args, kwargs)
        ref.add_done_callback(partial(self._done, begun, b"", spec.label))
        return ref

    def stream(
        self,
        actor: ActorId,
        method: Method,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        *,
        is_capped: bool,
    ) -> Reading:
        """Sends a call of a generator; see Engine."""
        begun = _clock()
        reading = super().stream(actor, method, args, kwargs, is_capped=is_capped)
        done = partial(self._done, begun, actor, method.name)
        reading.completed.add_done_callback(done)
        return reading

    def run_stream(
        self,
        spec: FunctionSpec,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> Reading:
        """Calls a function that yields; see Engine."""
        begun = _clock()
        reading = super().run_stream(spec, args, kwargs)
        reading.completed.add_done_callback(partial(self._done, begun, b"", spec.label))
        return reading

    # On the loop.

    def _begin(self, actor: ActorId, label: str, begun: float) -> None:
        life = self.lives.find(actor)
        if life is not None:
            self._timeline.begin_life(actor, label, begun)
            life.ended.add_done_callback(partial(self._ended, life))

    def _ended(self, life: Life, _: object) -> None:
        how = str(life.record.exit or "ended")
        self._timeline.end_life(life.record.id, how, _clock())

    def _done(
        self, begun: float, track: bytes, name: str, ref: asyncio.Future[Any]
    ) -> None:
        # exception() would count as somebody's look at it, who would be told else.
        error = cast("Any", ref)._exception  # noqa: SLF001  # asyncio's name for it
        outcome = "finished" if error is None else type(error).__name__
        if ref.cancelled():
            outcome = "TaskCancelledError"
        self._timeline.add(Span(CALL, begun, _clock(), track, name, outcome))
