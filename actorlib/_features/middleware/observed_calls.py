"""Makes calls that middlewares see, instead of an engine's own operations.

The caller's events of a call come from here: *created*, and *finished* with its ref.
The events of the code that runs come from ``_worker/executors/run_events.py``.

The attributes ``call`` and ``stream`` of an engine are read for each call. So two
instance attributes, which hide the methods with these names, are enough to see every
call. Without middlewares they do not exist and cost nothing.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from actorlib._base.outcomes import status_of_ref
from actorlib._core.propagation import (
    OBSERVED,
    PROPAGATED,
    begin_observing,
    end_observing,
)
from actorlib._loops.loop_thread import add_done_callback
from actorlib._options.call_events import ObservedCall, Outcome
from actorlib._options.callee import BoundMethod
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping

    from actorlib._base.outcomes import Status
    from actorlib._core.engine import Engine
    from actorlib._features.middleware.middlewares import CallCounter, Middlewares
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._futures.stream_reader import StreamReader
    from actorlib._futures.tally import Tally
    from actorlib._options.call_events import Observed
    from actorlib._options.callee import Callee

_MOST_TALLIES: Final = 10_000
"""The most cached tallies of methods of actors; actors come and go."""

Ran: TypeAlias = tuple[float, float, str]
"""When a call's code began and ended, and the class name of its error."""


class _CallUnderWay:
    """A call that was reported and has no answer; reports its end once.

    If the caller drops the ref, which owns this object, the call is reported as
    cancelled.
    """

    __slots__ = ("_call", "_calls", "_later", "_middlewares", "_tokens")

    def __init__(
        self,
        call: ObservedCall,
        middlewares: Middlewares,
        calls: dict[int, list[Ran]],
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        self._call = call
        self._calls = calls
        self._later = later
        self._middlewares: Middlewares | None = None
        self._tokens = middlewares.before(call)
        self._middlewares = middlewares
        calls[call.number] = []

    def end(self, status: Status, error: str = "") -> None:
        middlewares, self._middlewares = self._middlewares, None
        if middlewares is None:
            return
        runs = self._calls.pop(self._call.number, [])
        began, ended, raised = runs[-1] if runs else (None, None, "")
        if status == "lost" and raised:
            status = "error"  # of another actor, which the code did not catch
        if status == "error":
            error = raised or error  # without our wrapper
        outcome = Outcome(status, error, began, ended, len(runs))
        middlewares.after(self._call, self._tokens, outcome)

    def __del__(self) -> None:
        if self._middlewares is not None:
            # A destructor may run anywhere, even inside a middleware.
            why = TaskCancelledError.__name__
            self._later(partial(self.end, "cancelled", why))


class ObservedCalls:
    """Makes the calls of one engine, and reports them to middlewares.

    ``caller`` is the id of the actor that has this engine; empty for any other engine.

    Attributes:
        under_way: The runs of unanswered calls, by their numbers.
    """

    def __init__(
        self,
        engine: Engine,
        numbers: Iterator[int],
        caller: bytes,
        middlewares: Callable[[], Middlewares],
    ) -> None:
        self._middlewares = middlewares
        self.under_way: dict[int, list[Ran]] = {}
        self._engine: Any = engine
        self._numbers = numbers
        self._caller = caller
        self._call = engine.call
        self._stream = engine.stream

    def begin(self, counter: CallCounter | None = None) -> None:
        """Observes all calls of the engine from now on, or counts most of them."""
        self._engine.call = self.call if counter is None else self._counted_by(counter)
        self._engine.stream = self.stream
        if counter is not None:
            end_observing(self)
        elif OBSERVED.name not in PROPAGATED:  # else another engine of this process
            begin_observing(self)

    def end(self) -> None:
        """Stops observing calls."""
        del self._engine.call, self._engine.stream
        end_observing(self)

    def call(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        under_way = self._begin(callee, is_stream=False)
        ref: ObjectRef[Any] = self._make(under_way, self._call, callee, args, kwargs)
        if under_way[0] is not None:
            add_done_callback(ref, partial(_done, under_way[0]))
        return ref

    def _counted_by(self, counter: CallCounter) -> Callable[..., ObjectRef[Any]]:
        """Returns the replacement of ``call`` that only counts most calls.

        Each step of it costs one percent of a call in a batch.
        """
        make, observe = self._call, self.call
        get_ident, thread = threading.get_ident, threading.get_ident()
        tallies: dict[tuple[bytes, str], Tally] = {}

        def ask(callee: Callee) -> Tally | None:
            try:
                tally = counter.tally_of(callee)
            except Exception as error:  # noqa: BLE001  # the user's code
                self._middlewares().note(counter, "tally_of", error)
                return None
            if tally is not None:
                if len(tallies) >= _MOST_TALLIES:
                    tallies.clear()
                tallies[callee.actor, callee.name] = tally
            return tally

        def call(
            callee: Callee, args: tuple[object, ...], kwargs: Mapping[str, object]
        ) -> ObjectRef[Any]:
            tally = tallies.get((callee.actor, callee.name))
            if tally is not None and tally.left:
                tally.left -= 1
            elif (tally := ask(callee)) is None:
                return observe(callee, args, kwargs)
            try:
                ref: ObjectRef[Any] = make(callee, args, kwargs)
            except BaseException:
                tally.refuse()
                raise
            if get_ident() != thread or ref.done():
                add_done_callback(ref, tally.count)
            else:  # a function call for this took a tenth of the time
                ref.first_waiter = tally
            return ref

        return call

    def stream(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        under_way = self._begin(callee, is_stream=True)
        reader: StreamReader = self._make(under_way, self._stream, callee, args, kwargs)
        if under_way[0] is not None:
            add_done_callback(reader.completed, partial(_done, under_way[0]))
        return reader

    def _begin(
        self, callee: Callee, *, is_stream: bool
    ) -> tuple[_CallUnderWay | None, Observed]:
        number, created = next(self._numbers), time.monotonic()
        carrier: dict[str, str] = {}
        middlewares, under_way = self._middlewares(), None
        if middlewares.each:
            method = callee if isinstance(callee, BoundMethod) else None
            call = ObservedCall(
                "caller",
                number,
                callee.actor.hex(),
                "" if method is None else method.class_name,
                None if method is None else method.actor_name,
                callee.name,
                self._caller.hex(),
                is_stream=is_stream,
                carrier=carrier,
            )
            later = self._engine.later
            under_way = _CallUnderWay(call, middlewares, self.under_way, later)
            carrier = _text(call.carrier) if call.carrier else {}
        return under_way, (number, self._caller, created, carrier)

    def _make(
        self,
        under_way: tuple[_CallUnderWay | None, Observed],
        operation: Callable[..., Any],
        *call: object,
    ) -> Any:
        """Makes a call with the context to propagate; reports its failure."""
        token = OBSERVED.set(under_way[1])
        is_propagated = OBSERVED.name in PROPAGATED
        if not is_propagated:  # as most calls are only counted
            begin_observing(self)
        try:
            return operation(*call)
        except BaseException as error:
            if under_way[0] is not None:
                under_way[0].end("error", type(error).__name__)
            raise
        finally:
            if not is_propagated:
                end_observing(self)
            OBSERVED.reset(token)


def _text(carrier: dict[str, str]) -> dict[str, str]:
    """Returns the items of a carrier that are text: only these are sent."""
    return {
        name: value
        for name, value in cast("dict[object, object]", carrier).items()
        if type(name) is str and type(value) is str
    }


def _done(under_way: _CallUnderWay, ref: asyncio.Future[Any]) -> None:
    under_way.end(*status_of_ref(ref))
