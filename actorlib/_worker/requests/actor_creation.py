"""Creates actors from within a worker, by requests to the owner."""

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
    """Creates actors from within a worker."""

    def __init__(self, engine: WorkerEngine, *, is_inline: bool) -> None:
        self._engine = engine
        self._is_inline = is_inline
        self._definitions = ClassDefinitions(engine)

    def create(self, spec: ActorSpec) -> tuple[ActorId, HandlePin | None]:
        """Creates an actor, or finds the one of its name; returns its id, and a pin."""
        engine, options = self._engine, spec.options
        if self._is_inline:
            refuse_env(options.runtime_env)
            if options.torch:
                refuse_ranks()
        options.refuse_callbacks()
        name = spec.interface.class_name
        definition = self._definitions.of(name, spec.source, spec.sent)
        source, captured = definition.source, definition.borrowed or None
        description = _describe(spec, self._inherited(options))
        arguments = Arguments(engine, name, spec.args, spec.kwargs)
        actor = ActorId(engine.new_id(ACTOR_KIND))

        def frame() -> Frame:
            try:
                payload, borrowed = arguments.payload()
            except Exception as error:  # noqa: BLE001  # a ref failed, so the actor does
                return (CREATE_ARGUMENTS, actor, False, None, dump_exception(error))
            return (CREATE_ARGUMENTS, actor, True, borrowed, payload)

        # Sent at once, because the handle may be used at once; the arguments follow.
        if options.name is None:
            engine.post((CREATE, 0, actor, captured, source, description))
        else:
            existing: HandlePin | None = engine.ask_and_wait(
                CREATE, actor, captured, source, description
            )
            if existing is not None:
                return existing.actor_id, existing
        engine.refcount.borrow((actor,))
        engine.sender.post(actor, frame, arguments)
        return actor, None

    def _inherited(self, options: ActorOptions) -> ActorOptions:
        """Adds the options that an actor created here inherits from this one."""
        inherited_env = self._engine.context.runtime_env
        if not inherited_env:
            return options
        return options.updated(
            {"runtime_env": merged_env(inherited_env, options.runtime_env)}
        )


def _describe(spec: ActorSpec, options: ActorOptions) -> bytes:
    # Pickled separately, because the owner may not have the modules of these classes.
    retried = spec.interface.retried()
    listed = dump((spec.options.retry_exceptions, retried))
    interface = spec.interface.retrying(dict.fromkeys(retried))
    return dump((interface, options.updated({"retry_exceptions": False}), listed))
