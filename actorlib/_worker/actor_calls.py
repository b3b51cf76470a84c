"""Calls of other actors on their way out: with their arguments, and in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from actorlib._core.current_call import running
from actorlib._core.propagation import MARKED
from actorlib._core.stream_reader import Feed, StreamReader
from actorlib._wire.arguments import Arguments, SendingEngine
from actorlib._wire.call import Call
from actorlib._wire.call_headers import headers_of
from actorlib._wire.messages import CALL_ACTOR, CALL_ACTOR_WITH, CANCEL, Frame
from actorlib._worker.invoke import packed

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from actorlib._core.callee import BoundMethod
    from actorlib._core.current_call import Running
    from actorlib._core.object_ref import ResultOwner
    from actorlib._worker.outgoing_links import OutgoingLinks
    from actorlib._worker.pending import OrderedSender, PendingResults


class Numbered(Protocol):
    """A ref, or a stream."""

    call: int
    asked: object


N = TypeVar("N", bound=Numbered)


class Asker(SendingEngine, Feed, Protocol):
    """The engine of the worker."""

    outbox: OrderedSender

    def where(self, method: str) -> str:
        """Names a method of the actor that asks, for messages."""
        ...


class Lasting:
    """The replier of refs of ``async def`` methods, whose end a cancellation awaits.

    Args:
        engine: That of the worker, which does everything else that a replier does.
        stop: Cancels a call; True if it is answered when it has ended.
    """

    def __init__(self, engine: ResultOwner, stop: Callable[..., bool]) -> None:
        self._stop = stop
        self.loosen = engine.loosen
        self.watch = engine.watch
        self.wait = engine.wait
        self.name = engine.name
        self.travel = engine.travel

    def cancel(self, call: int, *, recursive: bool = True) -> bool:
        """Stops a call; see ResultOwner."""
        return self._stop(call, recursive=recursive)


class ActorCalls:
    """Makes the frames of calls, and chooses which way they go.

    Args:
        engine: That of the worker.
        refs: What it has asked and has no answer to.
        peers: Whom it calls over links.
        loop: What streams take for their loop.

    Attributes:
        held: The calls that wait here for their arguments.
    """

    def __init__(
        self,
        engine: Asker,
        refs: PendingResults,
        peers: OutgoingLinks,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.held: set[int] = set()
        self._loop = loop
        self._engine = engine
        self._refs = refs
        self._peers = peers

    def call(
        self,
        callee: BoundMethod,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        new: Callable[[], N],
    ) -> N:
        """Sends a call to an actor, when its arguments are there.

        Args:
            callee: What is called.
            args: The positional arguments.
            kwargs: The keyword arguments.
            new: Makes what waits for the answer, with its number.

        Raises:
            SerializationError: It cannot be sent.
        """
        parent_call = running.get()
        headers = self._headers_of(callee, parent_call)
        arguments = Arguments(self._engine, callee.name, args, kwargs)
        waiting = new()
        waiting.asked = callee
        parent = 0 if parent_call is None else parent_call[0]
        call = Call(waiting.call, callee, arguments, headers, parent)
        self._engine.outbox.send(call, self._frame, self._deferred)
        return waiting

    def stream(
        self,
        callee: BoundMethod,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        """Sends a call of a generator; see Engine."""

        def new() -> StreamReader:
            reading = StreamReader.of(callee, self._loop, self._engine)
            self._refs.add(reading)
            return reading

        return self.call(callee, args, kwargs, new)

    def _headers_of(
        self, callee: BoundMethod, parent_call: Running | None
    ) -> dict[str, Any] | None:
        if (
            callee.headers is None
            and not MARKED
            and (parent_call is None or not parent_call[2])
        ):
            return None
        return packed(headers_of(callee, parent_call, self._engine.where))

    def _deferred(self, call: Call) -> Frame:
        self.held.add(call.number)
        return call.deferred()

    def _frame(self, call: Call) -> Frame | None:
        """The frame of a call that may go by way of the owner, if it has to."""
        number, parent, headers = call.number, call.parent, call.headers
        actor, name = call.callee.actor, call.callee.name
        was_deferred = number in self.held
        if was_deferred:
            self.held.discard(number)
        if number not in self._refs:  # cancelled while it waited
            return None
        encoded = self._refs.payload_of(call)
        if encoded is None:
            return (CANCEL, number, False)
        payload, loans = encoded
        if loans or was_deferred:
            self._peers.fence(actor)
        elif self._peers.send(number, parent, actor, name, headers, payload):
            return None
        if headers:
            target = (number, parent, actor, name, loans)
            return (CALL_ACTOR_WITH, *target, headers, payload)
        return (CALL_ACTOR, number, parent, actor, name, loans, payload)
