"""Makes calls that middlewares see, in the place of an engine's own verbs.

That is where the events of a call come from at its caller: *created*, and *finished*
with its ref. Those of the code that runs come from ``_worker/executors/run_events.py``.

An engine is asked for ``call`` and ``stream`` by name for each call. So two attributes
of the engine, which hide its methods of these names, are all that it takes to see every
call; without them nothing is asked and nothing costs.
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
"""Methods of actors whose tallies are found at once; actors come and go."""

Ran: TypeAlias = tuple[float, float, str]
"""When a call's code began and ended, and the name of what it raised."""


class _CallUnderWay:
    """A call that was told of and has no answer; tells of its end once.

    A call that nobody wants the answer of ends with its ref, which is what holds this:
    then it is told of as cancelled.
    """

    __slots__ = ("_call", "_calls", "_later", "_tokens", "_told")

    def __init__(
        self,
        call: ObservedCall,
        told: Middlewares,
        calls: dict[int, list[Ran]],
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        self._call = call
        self._calls = calls
        self._later = later
        self._told: Middlewares | None = None
        self._tokens = told.before(call)
        self._told = told
        calls[call.number] = []

    def end(self, status: Status, error: str = "") -> None:
        """The call is over."""
        told, self._told = self._told, None
        if told is None:
            return
        runs = self._calls.pop(self._call.number, [])
        began, ended, raised = runs[-1] if runs else (None, None, "")
        if status == "lost" and raised:
            status = "error"  # of another actor, which the code did not catch
        if status == "error":
            error = raised or error  # without what we have put around it
        outcome = Outcome(status, error, began, ended, len(runs))
        told.after(self._call, self._tokens, outcome)

    def __del__(self) -> None:
        if self._told is not None:
            # A destructor may run anywhere, also in the middle of a middleware.
            why = TaskCancelledError.__name__
            self._later(partial(self.end, "cancelled", why))


class ObservedCalls:
    """Makes the calls of one engine, and tells middlewares of them.

    Args:
        engine: The engine.
        numbers: Gives the numbers of calls.
        caller: The id of the actor whose engine it is; empty for any other.
        told: Gives the middlewares.

    Attributes:
        under_way: When the code of calls that were told of ran, by their numbers.
    """

    def __init__(
        self,
        engine: Engine,
        numbers: Iterator[int],
        caller: bytes,
        told: Callable[[], Middlewares],
    ) -> None:
        self._told = told
        self.under_way: dict[int, list[Ran]] = {}
        self._engine: Any = engine
        self._numbers = numbers
        self._caller = caller
        self._call = engine.call
        self._stream = engine.stream

    def begin(self, counter: CallCounter | None = None) -> None:
        """Sees every call of the engine from now on.

        Args:
            counter: Who wants calls counted, and sees few of them; None to see all.
        """
        self._engine.call = self.call if counter is None else self._counted_by(counter)
        self._engine.stream = self.stream
        if counter is not None:
            end_observing(self)
        elif OBSERVED.name not in PROPAGATED:  # else another engine of this process
            begin_observing(self)

    def end(self) -> None:
        """Sees no more calls."""
        del self._engine.call, self._engine.stream
        end_observing(self)

    def call(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> ObjectRef[Any]:
        """Makes a call; see Engine."""
        under_way = self._begin(callee, is_stream=False)
        ref: ObjectRef[Any] = self._made(under_way, self._call, callee, args, kwargs)
        if under_way[0] is not None:
            add_done_callback(ref, partial(_done, under_way[0]))
        return ref

    def _counted_by(self, counter: CallCounter) -> Callable[..., ObjectRef[Any]]:
        """Gives what makes calls in the place of ``call``, most without a look at them.

        Each step of it is a percent of a call that is made among many.
        """
        make, observe = self._call, self.call
        get_ident, thread = threading.get_ident, threading.get_ident()
        tallies: dict[tuple[bytes, str], Tally] = {}

        def ask(callee: Callee) -> Tally | None:
            try:
                tally = counter.tally_of(callee)
            except Exception as error:  # noqa: BLE001  # the user's code
                self._told().note(counter, "tally_of", error)
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
            else:  # a call of something that does this took a tenth of the time
                ref.first_waiter = tally
            return ref

        return call

    def stream(
        self,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        """Calls a generator; see Engine."""
        under_way = self._begin(callee, is_stream=True)
        reader: StreamReader = self._made(under_way, self._stream, callee, args, kwargs)
        if under_way[0] is not None:
            add_done_callback(reader.completed, partial(_done, under_way[0]))
        return reader

    def _begin(
        self, callee: Callee, *, is_stream: bool
    ) -> tuple[_CallUnderWay | None, Observed]:
        number, made = next(self._numbers), time.monotonic()
        carrier: dict[str, str] = {}
        told, under_way = self._told(), None
        if told.each:
            call = _seen(
                number, callee, self._caller, is_stream=is_stream, carrier=carrier
            )
            under_way = _CallUnderWay(call, told, self.under_way, self._engine.later)
            carrier = _text(call.carrier) if call.carrier else {}
        return under_way, (number, self._caller, made, carrier)

    def _made(
        self,
        under_way: tuple[_CallUnderWay | None, Observed],
        verb: Callable[..., Any],
        *call: object,
    ) -> Any:
        """Makes a call with what crosses with it; tells of one that cannot be made."""
        token = OBSERVED.set(under_way[1])
        is_looked_for = OBSERVED.name in PROPAGATED
        if not is_looked_for:  # as most calls are only counted
            begin_observing(self)
        try:
            return verb(*call)
        except BaseException as error:
            if under_way[0] is not None:
                under_way[0].end("error", type(error).__name__)
            raise
        finally:
            if not is_looked_for:
                end_observing(self)
            OBSERVED.reset(token)


def _seen(
    number: int,
    callee: Callee,
    caller: bytes,
    *,
    is_stream: bool,
    carrier: dict[str, str],
) -> ObservedCall:
    class_name, actor_name = "", None
    if isinstance(callee, BoundMethod):
        class_name, actor_name = callee.class_name, callee.actor_name
    return ObservedCall(
        "caller",
        number,
        callee.actor.hex(),
        class_name,
        actor_name,
        callee.name,
        caller.hex(),
        is_stream=is_stream,
        carrier=carrier,
    )


def _text(carrier: dict[str, str]) -> dict[str, str]:
    """Gives what crosses: what is no text does not."""
    given = cast("dict[object, object]", carrier)
    return {
        name: value
        for name, value in given.items()
        if type(name) is str and type(value) is str
    }


def _done(under_way: _CallUnderWay, ref: asyncio.Future[Any]) -> None:
    under_way.end(*status_of_ref(ref))
