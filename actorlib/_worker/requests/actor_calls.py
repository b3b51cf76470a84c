"""Sends calls to other actors in order, each as soon as its arguments are ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from actorlib._core.current_call import running
from actorlib._core.propagation import PROPAGATED
from actorlib._futures.stream_reader import StreamReader
from actorlib._wire.arguments import Arguments, Call
from actorlib._wire.call_headers import headers_of
from actorlib._wire.serialization import encode_plain_call
from actorlib._worker.executors.invoke import pack_headers
from actorlib._worker.links.outgoing_links import call_by_owner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._base.ids import CountedId
    from actorlib._core.current_call import Running
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._options.callee import BoundMethod
    from actorlib._shm.memory import Payload
    from actorlib._wire.messages import Frame
    from actorlib._worker.links.outgoing_links import OutgoingLinks
    from actorlib._worker.requests.engine import WorkerEngine
    from actorlib._worker.requests.pending import PendingResults


N = TypeVar("N", "ObjectRef[Any]", StreamReader)


class ActorCalls:
    """Creates the frames of calls, and sends them over a link or to the owner."""

    def __init__(
        self, engine: WorkerEngine, results: PendingResults, links: OutgoingLinks
    ) -> None:
        self._engine = engine
        self._results = results
        self._links = links

    def call(
        self,
        callee: BoundMethod,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        new_result: Callable[[], N],
    ) -> N:
        """Calls an actor; the call is sent when its arguments are ready.

        ``new_result`` creates the ref or the stream of the answer, with its number.
        """
        parent_call = running.get()
        headers = self._headers_of(callee, parent_call)
        parent = 0 if parent_call is None else parent_call[0]
        sender = self._engine.sender
        payload = encode_plain_call(args, kwargs)
        if payload is not None:
            # The usual call, also a special case in the owner: it has no references
            # and no refs to wait for, so it needs no ``Call``.
            with sender.lock:
                if not sender.is_blocked:
                    result = new_result()
                    result.callee = callee
                    self._send_plain(result.call, parent, callee, headers, payload)
                    return result
        arguments = Arguments(self._engine, callee, args, kwargs)
        result = new_result()
        result.callee = callee
        call = Call(result.call, callee, arguments, headers, parent)
        sender.send(call, self._frame)
        return result

    def stream(
        self,
        callee: BoundMethod,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> StreamReader:
        def new_result() -> StreamReader:
            reader = StreamReader.of(callee, self._results.loop, self._engine)
            self._results.add(reader)
            return reader

        return self.call(callee, args, kwargs, new_result)

    def _headers_of(
        self, callee: BoundMethod, parent_call: Running | None
    ) -> dict[str, Any] | None:
        if (
            callee.headers is None
            and not PROPAGATED
            and (parent_call is None or not parent_call[2])
        ):
            return None
        return pack_headers(headers_of(callee, parent_call, self._engine.where))

    def _frame(
        self, call: Call, payload: Payload, borrowed: list[CountedId] | None
    ) -> Frame | None:
        """Sends a call over a link, or returns the frame for the owner."""
        number, parent, headers = call.number, call.parent, call.headers
        actor, name = call.callee.actor, call.callee.name
        if borrowed or number in self._engine.sender.deferred:
            self._links.fence(actor)
        elif self._links.send(number, parent, actor, name, headers, payload):
            return None
        target = (number, parent, actor, name, borrowed)
        return call_by_owner(target, headers, payload)

    def _send_plain(
        self,
        number: int,
        parent: int,
        callee: BoundMethod,
        headers: dict[str, Any] | None,
        payload: bytes,
    ) -> None:
        """Sends a call without references that does not have to wait."""
        if number not in self._results:  # the owner is gone
            return
        actor, name = callee.actor, callee.name
        if not self._links.send(number, parent, actor, name, headers, payload):
            target = (number, parent, actor, name, None)
            self._engine.post(call_by_owner(target, headers, payload))
