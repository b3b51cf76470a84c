"""Calls on their way out, with their arguments and in order.

A call of the owner's code whose arguments are refs waits here until they have their
values, and those behind it to the same actor wait with it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from actorlib._futures.object_ref import REFS
from actorlib._owner.actors.creation import EncodedArguments
from actorlib._owner.objects.refcount import OWNER
from actorlib._wire.arguments import Arguments, Call, call_when_done, share_arrays
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
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.functions.task_pool import TaskPool
    from actorlib._owner.functions.task_worker import CalledFunction
    from actorlib._owner.objects.refcount import BorrowedReferences
    from actorlib._wire.arguments import SendingEngine

    Result: TypeAlias = ObjectRef[Any] | StreamReader


class MethodLabel(NamedTuple):
    """Names a method of an actor as it calls itself, once a message asks for that."""

    record: ActorRecord
    name: str

    def __str__(self) -> str:
        return self.record.called.method(self.name)


class CallSubmitter:
    """Encodes and sends what the owner's code calls, in order.

    Args:
        engine: Whose handles may be among the arguments.
        references: Counts them.
        loop: The owner's loop.
    """

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
        """Arguments as they are now; this process holds what is among them.

        Raises:
            SerializationError: One cannot be sent.
        """
        arguments = Arguments(self._engine, where, args, kwargs)
        if arguments.borrowed:
            self._references.arrived(arguments.borrowed, OWNER)
        return arguments

    def constructor_arguments(
        self, arguments: Arguments
    ) -> EncodedArguments | BaseException | asyncio.Future[EncodedArguments]:
        """A constructor's arguments, why there are none, or a future of them."""
        if arguments.are_ready:
            return self._completed(arguments)
        later: asyncio.Future[EncodedArguments] = self._loop.create_future()
        call_when_done(arguments.refs, partial(self._complete_into, later, arguments))
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
        """Sends a call, now or behind those to the actor that wait.

        Args:
            supervisor: The actor.
            ref: Gets the answer.
            callee: What is called.
            args: The positional arguments.
            kwargs: The keyword arguments.
            headers: What the caller says of the call.

        Raises:
            SerializationError: An argument cannot be sent.
        """
        router = supervisor.router
        if not kwargs and _are_scalars_and_refs(args):
            self._send_unfilled(supervisor, ref, callee, args, headers)
            return
        if not (kwargs or self.order):
            shared = share_arrays(self._engine, args)
            if shared is not None:
                payload, loans = shared
                if loans:
                    self._references.arrived(loans, OWNER)
                number = router.send(ref, callee.name, loans or None, payload, headers)
                ref.bind(router, number)
                return
        where = MethodLabel(supervisor.record, callee.name)
        arguments = self.arguments(where, args, kwargs)
        if self.order or not arguments.are_ready:
            number = router.defer(ref, callee.name, headers)
            ref.bind(router, number)
            call = Call(number, callee, arguments, headers)
            send = partial(self._send_deferred, supervisor, call)
            self._send_in_order(supervisor, callee, arguments.refs, send)
            return
        encoded = self._completed(arguments)
        if isinstance(encoded, BaseException):
            ref.bind(router, 0)
            ref.set_exception(encoded)
        else:
            payload, borrowed = encoded
            ref.bind(router, router.send(ref, callee.name, borrowed, payload, headers))

    def _send_unfilled(
        self,
        supervisor: ActorSupervisor,
        ref: Result,
        callee: Callee,
        args: tuple[object, ...],
        headers: dict[str, object] | None,
    ) -> None:
        """Sends a call of scalars and refs; see ``send``.

        As scalars never change, they need not be encoded before the refs have their
        values, and if those are scalars too, the call is as short as any.
        """
        router = supervisor.router
        refs = [cast("ObjectRef[Any]", arg) for arg in args if type(arg) in REFS]
        if not self.order:
            scalars = _filled(args)
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
        scalars = _filled(args)
        if scalars is None:  # what has a value, or an error, that takes more
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
        """Sends a call when its refs are done and those before it have gone."""
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
        encoded = self._encoded_for(waiting, call.arguments)
        if waiting is not None and encoded is not None:
            payload, borrowed = encoded
            name = call.callee.name
            sent = router.send(waiting, name, borrowed, payload, call.headers)
            waiting.bind(router, sent)
        supervisor.idle()

    def post(
        self, pool: TaskPool, entry: CalledFunction, ref: Result, call: Call
    ) -> None:
        """Posts a call of a function when its arguments are there.

        Args:
            pool: Where it goes.
            entry: The function.
            ref: Gets the answer.
            call: The call, which has no number yet.
        """
        call.number = pool.defer(ref, entry.label, call.headers)
        ref.bind(pool, call.number)
        call_when_done(
            call.arguments.refs, partial(self._post_deferred, pool, entry, call)
        )

    def _post_deferred(self, pool: TaskPool, entry: CalledFunction, call: Call) -> None:
        waiting = pool.take_deferred(call.number)
        encoded = self._encoded_for(waiting, call.arguments)
        if waiting is not None and encoded is not None:
            payload, borrowed = encoded
            posted = pool.post(waiting, entry, borrowed, payload, call.headers)
            waiting.bind(pool, posted)

    def _encoded_for(
        self, waiting: Result | None, arguments: Arguments
    ) -> EncodedArguments | None:
        """The payload of a call whose refs are done, if it is still to be sent.

        Args:
            waiting: Gets the answer, and why there is no payload; None if the call was
                cancelled while it waited.
            arguments: Its arguments.
        """
        encoded = self._completed(arguments)
        if isinstance(encoded, BaseException):
            if waiting is not None:
                waiting.set_exception(encoded)
            return None
        if waiting is None:
            self._references.returned(encoded.borrowed or (), OWNER)
            return None
        return encoded

    def _completed(self, arguments: Arguments) -> EncodedArguments | BaseException:
        """The payload of arguments whose refs are done, or why there is none."""
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

    def _complete_into(
        self, later: asyncio.Future[EncodedArguments], arguments: Arguments
    ) -> None:
        encoded = self._completed(arguments)
        if isinstance(encoded, EncodedArguments):
            if later.done():
                self._references.returned(encoded.borrowed or (), OWNER)
            else:
                later.set_result(encoded)
        elif not later.done():
            later.set_exception(encoded)


def _are_scalars_and_refs(args: tuple[object, ...]) -> bool:
    """Whether arguments are scalars, and refs given by themselves."""
    return are_scalars(tuple([None if type(arg) in REFS else arg for arg in args]))


def _filled(args: tuple[object, ...]) -> tuple[object, ...] | None:
    """Puts the values of refs into arguments; None if not all are scalars then."""
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
