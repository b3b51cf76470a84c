"""Creates actors from within a worker: tells the owner of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._base.ids import ACTOR_KIND, ActorId
from actorlib._options.runtime_env import merged_env, refuse_env, refuse_ranks
from actorlib._wire.arguments import Arguments
from actorlib._wire.errors import dump_exception
from actorlib._wire.function_code import ClassDefinitions
from actorlib._wire.messages import CREATE, CREATE_ARGUMENTS, Frame
from actorlib._wire.serialization import dump

if TYPE_CHECKING:
    from actorlib._core.engine import ActorSpec, HandlePin
    from actorlib._options.actor_options import ActorOptions
    from actorlib._worker.requests.engine import WorkerEngine


class ActorCreation:
    """Creates actors from within a worker.

    Args:
        engine: The engine of the worker.
        is_inline: Whether actors live in this very process.
    """

    def __init__(self, engine: WorkerEngine, *, is_inline: bool) -> None:
        self._engine = engine
        self._is_inline = is_inline
        self._definitions = ClassDefinitions(engine)

    def create(self, spec: ActorSpec) -> tuple[ActorId, HandlePin | None]:
        """Starts an actor, or finds the one of its name; gives its id, and a pin."""
        engine, options = self._engine, spec.options
        if self._is_inline:
            refuse_env(options.runtime_env)
            if options.torch:
                refuse_ranks()
        options.refuse_callbacks()
        name = spec.interface.class_name
        definition = self._definitions.of(name, spec.source, spec.sent)
        source, captured = definition.source, definition.borrowed or None
        described = _described(spec, self._inheriting(options))
        arguments = Arguments(engine, name, spec.args, spec.kwargs)
        actor = ActorId(engine.new_id(ACTOR_KIND))

        def frame() -> Frame:
            try:
                payload, lent = arguments.payload()
            except Exception as error:  # noqa: BLE001  # a ref that failed: so does the actor
                return (CREATE_ARGUMENTS, actor, False, None, dump_exception(error))
            return (CREATE_ARGUMENTS, actor, True, lent, payload)

        # At once, as whoever gets its handle may speak of it; the arguments may follow.
        if options.name is None:
            engine.post((CREATE, 0, actor, captured, source, described))
        else:
            taken: HandlePin | None = engine.ask_and_wait(
                CREATE, actor, captured, source, described
            )
            if taken is not None:
                return taken.actor_id, taken
        engine.refcount.borrow((actor,))
        engine.sender.post(actor, frame, arguments)
        return actor, None

    def _inheriting(self, options: ActorOptions) -> ActorOptions:
        """Adds what an actor created here inherits from this one to its options."""
        inherited_env = self._engine.context.runtime_env
        if not inherited_env:
            return options
        return options.updated(
            {"runtime_env": merged_env(inherited_env, options.runtime_env)}
        )


def _described(spec: ActorSpec, options: ActorOptions) -> bytes:
    """Describes an actor to the owner, but for its class and its arguments."""
    # Apart from the rest, as the owner may not have the modules they are of.
    retried = spec.interface.retried()
    listed = dump((spec.options.retry_exceptions, retried))
    interface = spec.interface.retrying(dict.fromkeys(retried))
    return dump((interface, options.updated({"retry_exceptions": False}), listed))
