"""Encodes and sends the calls of the owner's code, in order.

A call whose arguments are refs waits here until they have their values. The later calls
to the same actor wait with it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from actorlib._futures.object_ref import REFS
from actorlib._owner.actors.actor_record import EncodedArguments
from actorlib._owner.objects.refcount import OWNER
from actorlib._wire.arguments import Arguments, Call, call_when_done, encode_arguments
from actorlib._wire.codec import are_scalars
from actorlib._wire.ordering import CallOrder

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence

    from actorlib._base.ids import ActorId
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._futures.stream_reader import StreamReader
    from actorlib._options.callee import Callee
    from actorlib._owner.actors.actor_record import ActorRecord
    from actorlib._owner.actors.supervisor import ActorSupervisor, DueArguments
    from actorlib._owner.functions.task_pool import TaskPool
    from actorlib._owner.functions.task_worker import CalledFunction
    from actorlib._owner.objects.refcount import BorrowedReferences
    from actorlib._wire.arguments import SendingEngine

    Result: TypeAlias = ObjectRef[Any] | StreamReader


class MethodLabel(NamedTuple):
    """Names a method of an actor when a message needs it, with the actor's own name."""

    record: ActorRecord
    name: str

    def __str__(self) -> str:
        return self.record.called.method(self.name)


class CallSubmitter:
    """Encodes and sends the calls of the owner's code, in order."""

    def __init__(
        self,
        engine: SendingEngine,
        references: BorrowedReferences,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._engine = engine
        self._references = references
        self._loop = loop
        self.order: CallOrder[ActorId, Callable[[], None]] = CallOrder()

    def arguments(
        self, where: object, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> Arguments:
        """Returns arguments as they are now; this process holds the references in them.

        Raises:
            SerializationError: An argument cannot be sent.
        """
        arguments = Arguments(self._engine, where, args, kwargs)
        if arguments.borrowed:
            self._references.arrived(arguments.borrowed, OWNER)
        return arguments

    def constructor_arguments(self, arguments: Arguments) -> DueArguments:
        """Encodes a constructor's arguments as soon as its refs are done."""
        if arguments.are_ready:
            return self._encode(arguments)
        later: asyncio.Future[EncodedArguments] = self._loop.create_future()
        call_when_done(arguments.refs, partial(self._encode_into, later, arguments))
        return later

    def send(
        self,
        supervisor: ActorSupervisor,
        ref: Result,
        callee: Callee,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        headers: dict[str, object] | None,
    ) -> None:
        """Sends a call, now or after the calls to the actor that wait.

        Raises:
            SerializationError: An argument cannot be sent.
        """
        router = supervisor.router
        has_refs = not (
            REFS.isdisjoint(map(type, args))
            and REFS.isdisjoint(map(type, kwargs.values()))
        )
        where = MethodLabel(supervisor.record, callee.name)
        if not (has_refs or self.order):  # the usual case
            payload, borrowed = encode_arguments(
                self._engine, where, args, kwargs, may_be_plain=False
            )
            if borrowed:
                self._references.arrived(borrowed, OWNER)
            number = router.send(ref, callee.name, borrowed or None, payload, headers)
            ref.bind(router, number)
            return
        if not kwargs and _are_scalars_and_refs(args):
            self._send_unfilled(supervisor, ref, callee, args, headers)
            return
        arguments = self.arguments(where, args, kwargs)
        if self.order or not arguments.are_ready:
            number = router.defer(ref, callee.name, headers)
            ref.bind(router, number)
            call = Call(number, callee, arguments, headers)
            send = partial(self._send_deferred, supervisor, call)
            self._send_in_order(supervisor, callee, arguments.refs, send)
            return
        encoded = self._encode(arguments)
        if isinstance(encoded, BaseException):
            ref.bind(router, 0)
            ref.set_exception(encoded)
        else:
            number = router.send(
                ref, callee.name, encoded.borrowed, encoded.payload, headers
            )
            ref.bind(router, number)

    def _send_unfilled(
        self,
        supervisor: ActorSupervisor,
        ref: Result,
        callee: Callee,
        args: tuple[object, ...],
        headers: dict[str, object] | None,
    ) -> None:
        """Sends a call of scalars and refs; see ``send``.

        Scalars never change, so they are not encoded before the refs have their values.
        If those are scalars too, the call is as short as any.
        """
        router = supervisor.router
        refs = [cast("ObjectRef[Any]", arg) for arg in args if type(arg) in REFS]
        if not self.order:
            scalars = _fill_refs(args)
            if scalars is not None:
                router.call(ref, callee.name, scalars, headers)
                return
        number = router.defer(ref, callee.name, headers)
        ref.bind(router, number)
        send = partial(self._fill, supervisor, number, callee, args, headers)
        self._send_in_order(supervisor, callee, refs, send)

    def _fill(
        self,
        supervisor: ActorSupervisor,
        number: int,
        callee: Callee,
        args: tuple[object, ...],
        headers: dict[str, object] | None,
    ) -> None:
        """Sends a call of scalars and refs that are done."""
        router = supervisor.router
        scalars = _fill_refs(args)
        if scalars is None:  # a ref has an error, or a value that is not a scalar
            where = MethodLabel(supervisor.record, callee.name)
            arguments = self.arguments(where, args, {})
            self._send_deferred(supervisor, Call(number, callee, arguments, headers))
            return
        waiting = router.take_deferred(number)
        if waiting is not None:
            router.call(waiting, callee.name, scalars, headers)
        supervisor.idle()

    def _send_in_order(
        self,
        supervisor: ActorSupervisor,
        callee: Callee,
        refs: Sequence[ObjectRef[Any]],
        send: Callable[[], None],
    ) -> None:
        """Sends a call when its refs are done and the calls before it were sent."""
        lane = supervisor.record.id
        ready, passes = all(ref.done() for ref in refs), not callee.keeps_order
        if self.order.add(lane, send, ready=ready, passes=passes):
            send()
            return

        def settled() -> None:
            for send_next in self.order.resolve(lane, send):
                send_next()

        call_when_done(refs, settled)

    def _send_deferred(self, supervisor: ActorSupervisor, call: Call) -> None:
        router = supervisor.router
        waiting = router.take_deferred(call.number)
        encoded = self._encode_for(waiting, call.arguments)
        if waiting is not None and encoded is not None:
            payload, borrowed = encoded
            name = call.callee.name
            sent = router.send(waiting, name, borrowed, payload, call.headers)
            waiting.bind(router, sent)
        supervisor.idle()

    def post(
        self, pool: TaskPool, entry: CalledFunction, ref: Result, call: Call
    ) -> None:
        """Posts a call of a function when its arguments exist."""
        if not call.arguments.refs:  # the usual case
            payload, borrowed = call.arguments.payload()
            ref.bind(pool, pool.post(ref, entry, borrowed, payload, call.headers))
            return
        call.number = pool.defer(ref, entry.label, call.headers)
        ref.bind(pool, call.number)
        call_when_done(
            call.arguments.refs, partial(self._post_deferred, pool, entry, call)
        )

    def _post_deferred(self, pool: TaskPool, entry: CalledFunction, call: Call) -> None:
        waiting = pool.take_deferred(call.number)
        encoded = self._encode_for(waiting, call.arguments)
        if waiting is not None and encoded is not None:
            payload, borrowed = encoded
            posted = pool.post(waiting, entry, borrowed, payload, call.headers)
            waiting.bind(pool, posted)

    def _encode_for(
        self, waiting: Result | None, arguments: Arguments
    ) -> EncodedArguments | None:
        """Returns the payload of a call whose refs are done, if it is still to be sent.

        Args:
            waiting: Receives the answer, or the reason why there is no payload; None if
                the call was cancelled while it waited.
            arguments: Its arguments.
        """
        encoded = self._encode(arguments)
        if isinstance(encoded, BaseException):
            if waiting is not None:
                waiting.set_exception(encoded)
            return None
        if waiting is None:
            self._references.returned(encoded.borrowed or (), OWNER)
            return None
        return encoded

    def _encode(self, arguments: Arguments) -> EncodedArguments | BaseException:
        """Returns the payload of arguments whose refs are done, or their error."""
        try:
            payload, borrowed = arguments.payload()
        except Exception as error:  # noqa: BLE001  # it becomes the answer
            self._references.returned(arguments.borrowed, OWNER)
            return error
        if arguments.refs:
            if borrowed:
                self._references.arrived(borrowed, OWNER)
            if arguments.borrowed:
                self._references.returned(arguments.borrowed, OWNER)
        return EncodedArguments(payload, borrowed)

    def _encode_into(
        self, later: asyncio.Future[EncodedArguments], arguments: Arguments
    ) -> None:
        encoded = self._encode(arguments)
        if isinstance(encoded, EncodedArguments):
            if later.done():
                self._references.returned(encoded.borrowed or (), OWNER)
            else:
                later.set_result(encoded)
        elif not later.done():
            later.set_exception(encoded)


def _are_scalars_and_refs(args: tuple[object, ...]) -> bool:
    """Whether each argument is a scalar or a ref."""
    return are_scalars(tuple([None if type(arg) in REFS else arg for arg in args]))


def _fill_refs(args: tuple[object, ...]) -> tuple[object, ...] | None:
    """Returns arguments with the values of refs, or None if not all are scalars."""
    values: list[object] = []
    for arg in args:
        if type(arg) not in REFS:
            values.append(arg)
            continue
        ref = cast("ObjectRef[Any]", arg)
        if not ref.done() or ref.cancelled() or ref.exception() is not None:
            return None
        if ref.kept_value is not None:
            return None
        values.append(ref.result())
    filled = tuple(values)
    return filled if are_scalars(filled) else None
