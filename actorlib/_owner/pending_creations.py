"""Actors that workers make: first what they are, then the constructor's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from actorlib._core.actor_options import ActorOptions
from actorlib._core.interface import Interface
from actorlib._owner.creation import ActorDefinition, EncodedArguments
from actorlib._owner.refcount import OWNER
from actorlib._owner.untrusted import opened_as
from actorlib._wire.errors import error_of
from actorlib._wire.function_code import Definition
from actorlib._wire.messages import DIED, RESULT, Frame
from actorlib._wire.serialization import decode, encode
from actorlib.exceptions import (
    ActorAlreadyExistsError,
    ActorDiedError,
    Exit,
    ProtocolError,
)

if TYPE_CHECKING:
    import asyncio

    from actorlib._core.ids import ActorId, LoanId
    from actorlib._owner.names import Directory
    from actorlib._owner.objects import Objects
    from actorlib._owner.refcount import BorrowedReferences
    from actorlib._owner.supervisor import ActorSupervisor
    from actorlib._owner.worker_session import Session
    from actorlib._shm.payload import Payload


class Nursery(Protocol):
    """Where actors are born."""

    loans: BorrowedReferences
    directory: Directory
    objects: Objects

    def create_for(
        self, actor: ActorId, birth: ActorDefinition, maker: int
    ) -> asyncio.Future[EncodedArguments]:
        """Starts the life of an actor that a worker makes.

        Args:
            actor: Its id, given by the worker.
            birth: Its class and options.
            maker: The number of the worker's session.

        Returns:
            Takes the constructor's arguments, or why there are none.
        """
        ...


class Namer(Protocol):
    """A worker that makes an actor with a name, and waits for whose it is."""

    def answer(self, frame: Frame) -> None:
        """The name is the new actor's."""
        ...

    def lend(self, life: ActorSupervisor) -> None:
        """Another actor has the name."""
        ...

    def fail(self, error: BaseException) -> None:
        """The name is taken."""
        ...


class PendingCreations:
    """Actors that workers have made and not given their arguments yet."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._births: dict[ActorId, asyncio.Future[EncodedArguments]] = {}

    def create(
        self,
        namer: Namer | None,
        maker: int,
        actor: ActorId,
        loans: tuple[LoanId, ...] | None,
        source: bytes,
        face: bytes,
    ) -> None:
        """Starts the life of an actor, unless its name is taken.

        Args:
            namer: Is told whose the name is, if there is one.
            maker: The number of the worker's session.
            actor: Its id, given by the worker.
            loans: What the class captures, or None.
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
        if namer is not None:
            directory = self._nursery.directory
            taken = directory.holder(options)
            if taken is not None and options.get_if_exists:
                namer.lend(taken)
                return
            try:
                directory.vacant(options)
            except ActorAlreadyExistsError as error:
                namer.fail(error)
                return
            namer.answer((RESULT, 0, None, encode(None)))
        engine = self._nursery.objects.engine
        definition = Definition(engine, source, loans or ())
        birth = ActorDefinition(definition, interface, options)
        given = self._nursery.create_for(actor, birth, maker)
        if trouble is not None:
            given.set_exception(trouble)
            return
        self._births[actor] = given
        given.add_done_callback(lambda _: self._births.pop(actor, None))

    def give(
        self,
        actor: ActorId,
        is_good: bool,  # noqa: FBT001  # a field of the frame
        loans: tuple[LoanId, ...] | None,
        payload: Payload,
    ) -> None:
        """Gives an actor the arguments of its constructor, or why there are none."""
        given = self._births.get(actor)
        if not is_good:
            loans = None  # an error lends nothing
        self._nursery.loans.arrived(loans or (), OWNER)
        if given is None or given.done():  # it was killed before
            self._nursery.loans.returned(loans or (), OWNER)
            return
        if is_good:
            given.set_result(EncodedArguments(payload, loans))
        else:
            given.set_exception(error_of(DIED, "", "", "", payload))

    def on_worker_gone(self, session: Session) -> None:
        """Fails the creations whose arguments a worker has not given."""
        for actor, given in list(self._births.items()):
            if actor.startswith(session.prefix) and not given.done():
                reason = "the actor that made it ended before its arguments were there"
                given.set_exception(_never(actor, reason))


def _checked(face: bytes) -> tuple[Interface, ActorOptions, bytes]:
    """What a worker says of an actor, with options that are what options may be.

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
