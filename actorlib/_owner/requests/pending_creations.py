"""Actors that workers create: first the class and options, then the arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from actorlib._options.actor_options import ActorOptions
from actorlib._options.interface import Interface
from actorlib._owner.actors.actor_record import ActorDefinition, EncodedArguments
from actorlib._owner.actors.exit_reason import lost
from actorlib._owner.actors.worker_session import Phase
from actorlib._owner.objects.refcount import OWNER
from actorlib._owner.requests.untrusted import load_items
from actorlib._wire.errors import exception_of
from actorlib._wire.function_code import ClassDefinition
from actorlib._wire.messages import DIED, RESULT
from actorlib._wire.serialization import decode, encode
from actorlib.exceptions import ActorAlreadyExistsError, ProtocolError

if TYPE_CHECKING:
    import asyncio

    from actorlib._base.ids import ActorId, CountedId
    from actorlib._owner.actors.actor_table import ActorTable
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.requests.worker_calls import WorkerCall
    from actorlib._shm.memory import Payload
    from actorlib._wire.arguments import SendingEngine


class PendingCreations:
    """Creates the actors of workers before their arguments have arrived."""

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
        declaration: bytes,
    ) -> None:
        """Creates an actor, unless its name is taken.

        Args:
            call: The call that waits for the owner of the name, if there is a name.
            maker: The worker.
            actor: Its id, chosen by the worker.
            borrowed: The references that the class captures, or None.
            source: The pickled class.
            declaration: The pickled interface and options.
        """
        interface, options, exceptions = _load_checked(declaration)
        failure = None
        try:
            of_actor, of_methods = decode(exceptions)
            options = options.updated({"retry_exceptions": of_actor})
            interface = interface.retrying(of_methods)
        except Exception as error:  # noqa: BLE001  # the user's classes: fails the actor
            failure = error
        if call is not None:
            names = self._table.actor_names
            holder = names.holder(options)
            if holder is not None and options.get_if_exists:
                call.answer_with(holder)
                return
            try:
                names.vacant(options)
            except ActorAlreadyExistsError as error:
                call.fail(error)
                return
            call.answer((RESULT, 0, None, encode(None)))
        definition = ClassDefinition(self._engine, source, borrowed or ())
        arguments = self._table.create_for(
            actor, ActorDefinition(definition, interface, options), maker
        )
        if failure is not None and not arguments.done():
            arguments.set_exception(failure)
        if arguments.done():  # or the actor was refused
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
        """Passes an actor the arguments of its constructor, or the error."""
        arguments = self._awaited.get(actor)
        if not is_good:
            borrowed = None  # an error has no borrowed references
        self._references.arrived(borrowed or (), OWNER)
        if arguments is None or arguments.done():  # the actor was killed before
            self._references.returned(borrowed or (), OWNER)
            return
        if is_good:
            arguments.set_result(EncodedArguments(payload, borrowed))
        else:
            arguments.set_exception(exception_of(DIED, "", "", "", payload))

    def on_worker_gone(self, session: WorkerSession) -> None:
        """Fails the creations whose arguments a worker has not sent."""
        for actor, arguments in list(self._awaited.items()):
            if actor.startswith(session.prefix) and not arguments.done():
                reason = "the actor that made it ended before its arguments were ready"
                message = f"actor {actor.hex()} was never created: {reason}"
                arguments.set_exception(lost(actor, message, reason))


def _load_checked(declaration: bytes) -> tuple[Interface, ActorOptions, bytes]:
    """Loads the interface, options and exceptions of an actor, and validates them.

    Raises:
        ProtocolError: They are invalid.
    """
    interface, options, exceptions = load_items(
        declaration, Interface, ActorOptions, bytes
    )
    try:
        options = options.updated({})  # unpickling does not validate
        name: object = interface.class_name
        methods: object = interface.methods
    except Exception as error:
        raise ProtocolError(f"invalid options: {error}") from error
    if not isinstance(name, str) or not isinstance(methods, Mapping):
        raise ProtocolError(f"an invalid class: {name!r}")
    return interface, options, exceptions
