"""Actors that a worker makes: what the owner is told of each."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol

from actorlib._core.ids import ACTOR_KIND, ActorId, new_id
from actorlib._core.runtime_env import inherited, refuse_own
from actorlib._wire.arguments import Arguments, SendingEngine
from actorlib._wire.errors import dump_exception
from actorlib._wire.function_code import ClassDefinitions
from actorlib._wire.messages import CREATE, CREATE_ARGUMENTS, Frame
from actorlib._wire.serialization import dump

if TYPE_CHECKING:
    from actorlib._core.actor_options import ActorOptions
    from actorlib._core.engine import ActorSpec, HandlePin
    from actorlib._worker.pending import OrderedSender
    from actorlib._worker.refcount import LocalRefCount
    from actorlib._worker.startup import Start


class Link(SendingEngine, Protocol):
    """The engine of the worker."""

    loans: LocalRefCount
    outbox: OrderedSender

    def post(self, frame: Frame) -> None:
        """Sends a frame to the owner."""
        ...

    def asked(self, kind: int, *fields: object) -> Any:
        """What the owner answers to a frame, at once."""
        ...


class ActorCreation:
    """Makes actors.

    Args:
        link: The engine of the worker.
        start: What the worker was told first.
    """

    def __init__(self, link: Link, start: Start) -> None:
        self._link = link
        self._prefix = start.config.prefix
        self._is_shared = start.config.is_inline
        self._ids = itertools.count(1)
        self._definitions = ClassDefinitions(link)

    def new_id(self, kind: int) -> bytes:
        """An id for something that this worker makes: an actor, or a group."""
        return new_id(self._prefix, kind, next(self._ids))

    def make(self, spec: ActorSpec) -> tuple[ActorId, HandlePin | None]:
        """Starts an actor, or finds who has its name: its id, or theirs."""
        link, options = self._link, spec.options
        if self._is_shared:
            refuse_own(options.runtime_env)
        name = spec.interface.class_name
        definition = self._definitions.of(name, spec.source, spec.sent)
        source, captured = definition.source, definition.loans or None
        face = _face(spec, self._heir(options))
        arguments = Arguments(link, name, spec.args, spec.kwargs)
        actor = ActorId(self.new_id(ACTOR_KIND))

        def frame() -> Frame:
            try:
                payload, loans = arguments.payload()
            except Exception as error:  # noqa: BLE001  # a ref that failed: so does the actor
                return (CREATE_ARGUMENTS, actor, False, None, dump_exception(error))
            return (CREATE_ARGUMENTS, actor, True, loans, payload)

        # At once, as whoever gets its handle may speak of it; the arguments may follow.
        if options.name is None:
            link.post((CREATE, 0, actor, captured, source, face))
        else:
            taken: HandlePin | None = link.asked(CREATE, actor, captured, source, face)
            if taken is not None:
                return taken.actor_id, taken
        link.loans.arrived((actor,))
        link.outbox.post(actor, frame, arguments)
        return actor, None

    def _heir(self, options: ActorOptions) -> ActorOptions:
        """The options of an actor made here, with what it has from this one."""
        outer = self._link.context.runtime_env
        if not outer:
            return options
        return options.updated({"runtime_env": inherited(outer, options.runtime_env)})


def _face(spec: ActorSpec, options: ActorOptions) -> bytes:
    """What the owner is told of an actor, but for its class and its arguments."""
    # Apart from the rest, as the owner may not have the modules they are of.
    retried = spec.interface.retried()
    listed = dump((spec.options.retry_exceptions, retried))
    interface = spec.interface.retrying(dict.fromkeys(retried))
    return dump((interface, options.updated({"retry_exceptions": False}), listed))
