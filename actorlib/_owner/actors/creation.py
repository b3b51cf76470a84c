"""What actors are made from, ready to be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from actorlib._base.ids import CountedId
    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.interface import Interface
    from actorlib._options.resources import Resources
    from actorlib._shm.memory import Payload
    from actorlib._wire.function_code import ClassDefinition


class ActorDefinition(NamedTuple):
    """What an actor is made from, ready to be sent.

    Attributes:
        definition: The class; None if it is a worker of functions.
        interface: The interface of the class.
        options: What it asks for.
        runs: What each function holds that it runs, if it is a worker of functions.
    """

    definition: ClassDefinition | None
    interface: Interface
    options: ActorOptions
    runs: Resources | None = None


class EncodedArguments(NamedTuple):
    """A constructor's or a method's arguments, ready to be sent.

    Attributes:
        payload: The arguments.
        borrowed: The actors whose handles are among them, or None.
    """

    payload: Payload
    borrowed: Collection[CountedId] | None
