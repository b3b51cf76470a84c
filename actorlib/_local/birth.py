"""What actors are made from, ready to be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from actorlib._code import Definition
    from actorlib._ids import LoanId
    from actorlib._interface import Interface
    from actorlib._options import ActorOptions
    from actorlib._resources import Resources
    from actorlib._wire.shared import Payload


class Birth(NamedTuple):
    """What an actor is made from, ready to be sent.

    Attributes:
        definition: The class; None if it is a worker of functions.
        interface: The face of the class.
        options: What it asks for.
        runs: What each function holds that it runs, if it is a worker of functions.
    """

    definition: Definition | None
    interface: Interface
    options: ActorOptions
    runs: Resources | None = None


class Sealed(NamedTuple):
    """A constructor's or a method's arguments, ready to be sent.

    Attributes:
        payload: The arguments.
        loans: The actors whose handles are among them, or None.
    """

    payload: Payload
    loans: Collection[LoanId] | None
