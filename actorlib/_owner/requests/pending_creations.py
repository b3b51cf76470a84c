"""Actors that workers make: first the class and options, then the arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from actorlib._options.actor_options import ActorOptions
from actorlib._options.interface import Interface
from actorlib._owner.actors.actor_record import ActorDefinition, EncodedArguments
from actorlib._owner.objects.refcount import OWNER
from actorlib._owner.requests.untrusted import opened_as
from actorlib._owner.teardown import Phase
from actorlib._wire.errors import exception_of
from actorlib._wire.function_code import ClassDefinition
from actorlib._wire.messages import DIED, RESULT
from actorlib._wire.serialization import decode, encode
from actorlib.exceptions import (
    ActorAlreadyExistsError,
    ActorDiedError,
    Exit,
    ProtocolError,
)

if TYPE_CHECKING:
    import asyncio

    from actorlib._base.ids import ActorId, CountedId
    from actorlib._owner.actors.actor_table import ActorTable
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.requests.worker_calls import WorkerCall
    from actorlib._shm.memory import Payload
    from actorlib._wire.arguments import SendingEngine


class PendingCreations:
    """Creates the actors that workers make, before their arguments are there.

    Args:
        engine: Holds what classes capture.
        table: The actors.
    """

    def __init__(self, engine: SendingEngine, table: ActorTable) -> None:
        self._engine = engine
        self._table = table
        self._references = table.references
        self._awaited: dict[ActorId, asyncio.Future[EncodedArguments]] = {}

    def create(
        self,
        call: WorkerCall | None,
        maker: WorkerSession,
        actor: ActorId,
        borrowed: tuple[CountedId, ...] | None,
        source: bytes,
        face: bytes,
    ) -> None:
        """Creates an actor, unless its name is taken.

        Args:
            call: Waits to hear whose the name is, if there is one.
            maker: The worker.
            actor: Its id, given by the worker.
            borrowed: What the class captures, or None.
            source: The pickled class.
            face: Its interface and options.
        """
        interface, options, listed = _checked(face)
        trouble = None
        try:
            of_actor, of_methods = decode(listed)
            options = options.updated({"retry_exceptions": of_actor})
            interface = interface.retrying(of_methods)
        except Exception as error:  # noqa: BLE001  # the user's classes: it is never born
            trouble = error
        if call is not None:
            names = self._table.actor_names
            taken = names.holder(options)
            if taken is not None and options.get_if_exists:
                call.answer_with(taken)
                return
            try:
                names.vacant(options)
            except ActorAlreadyExistsError as error:
                call.fail(error)
                return
            call.answer((RESULT, 0, None, encode(None)))
        definition = ClassDefinition(self._engine, source, borrowed or ())
        made = ActorDefinition(definition, interface, options)
        arguments = self._table.create_for(actor, made, maker)
        if trouble is not None:
            arguments.set_exception(trouble)
            return
        self._awaited[actor] = arguments
        maker.cleanup.add(Phase.ANSWERS, self.on_worker_gone)
        arguments.add_done_callback(lambda _: self._awaited.pop(actor, None))

    def give(
        self,
        actor: ActorId,
        is_good: bool,  # noqa: FBT001  # a field of the frame
        borrowed: tuple[CountedId, ...] | None,
        payload: Payload,
    ) -> None:
        """Gives an actor the arguments of its constructor, or why there are none."""
        arguments = self._awaited.get(actor)
        if not is_good:
            borrowed = None  # an error lends nothing
        self._references.arrived(borrowed or (), OWNER)
        if arguments is None or arguments.done():  # it was killed before
            self._references.returned(borrowed or (), OWNER)
            return
        if is_good:
            arguments.set_result(EncodedArguments(payload, borrowed))
        else:
            arguments.set_exception(exception_of(DIED, "", "", "", payload))

    def on_worker_gone(self, session: WorkerSession) -> None:
        """Fails the creations whose arguments a worker has not given."""
        for actor, arguments in list(self._awaited.items()):
            if actor.startswith(session.prefix) and not arguments.done():
                reason = "the actor that made it ended before its arguments were there"
                arguments.set_exception(_never(actor, reason))


def _checked(face: bytes) -> tuple[Interface, ActorOptions, bytes]:
    """Reads what a worker says of an actor, with options that are what options may be.

    Raises:
        ProtocolError: It makes no sense.
    """
    interface, options, listed = opened_as(face, Interface, ActorOptions, bytes)
    try:
        options = options.updated({})  # what was loaded has not been checked yet
        name: object = interface.class_name
        methods: object = interface.methods
    except Exception as error:
        raise ProtocolError(f"options that make no sense: {error}") from error
    if not isinstance(name, str) or not isinstance(methods, Mapping):
        raise ProtocolError(f"a class that makes no sense: {name!r}")
    return interface, options, listed


def _never(actor: ActorId, reason: str) -> ActorDiedError:
    how = Exit(cause="lost", reason=reason)
    message = f"actor {actor.hex()} never came to life: {reason}"
    return ActorDiedError(message, exit=how, actor_id=actor.hex())
