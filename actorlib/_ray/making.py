"""The hosts of actors, as Ray is given them: one class for each face."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorlib._ray.actors import Traits
from actorlib._ray.crossing import Birth
from actorlib._ray.host import AsyncHost, Host
from actorlib._ray.library import ray
from actorlib._resources import counted
from actorlib._runtime_env import inherited
from actorlib._wire.payload import dump

if TYPE_CHECKING:
    from actorlib._context import RuntimeContext
    from actorlib._engine import ActorSpec
    from actorlib._ray.crossing import House
    from actorlib._ray.home import Arrivals
    from actorlib._ray.sealed import Sealed


class Classes:
    """Ray's actor classes, each made and exported to the cluster once.

    What a class carries is what somebody needs who finds an actor of it by name.
    """

    def __init__(self) -> None:
        self._made: dict[bytes, Any] = {}

    def of(self, spec: ActorSpec) -> Any:
        """The class for an actor."""
        options, face = spec.options, spec.interface
        traits = traits_of(spec)
        groups = {} if face.is_async else dict(options.concurrency_groups or {})
        key = dump((face, traits, groups))
        made = self._made.get(key)
        if made is None:
            base = AsyncHost if face.is_async else Host
            # By this name the dashboard and Ray's own messages know the actor.
            host = type(face.class_name, (base,), {"face": face, "traits": traits})
            host.__module__ = base.__module__
            decorate = ray.remote(concurrency_groups=groups) if groups else ray.remote
            made = self._made[key] = decorate(host)
        return made


def traits_of(spec: ActorSpec) -> Traits:
    """What callers have to know of an actor's options."""
    face, options = spec.interface, spec.options
    return Traits(face.class_name, face.is_async, options.max_restarts, options.retried)


def birth_of(
    spec: ActorSpec,
    source: Sealed,
    context: RuntimeContext,
    house: House,
    arrivals: Arrivals,
    *,
    hides: bool,
) -> Birth:
    """What an actor is made from, besides its arguments.

    Args:
        spec: What is known of it.
        source: Its class.
        context: Where the code runs that makes it.
        house: What holds for the whole runtime.
        arrivals: What is called in its process.
        hides: Whether accelerators that it did not ask for are closed to it.
    """
    options, face = spec.options, spec.interface
    limits = options.limits(is_async=face.is_async) if face.is_async else {}
    return Birth(
        source=source,
        label=face.class_name,
        resources=counted(options.request.amounts),
        runtime_env=inherited(context.runtime_env, options.runtime_env) or {},
        hides=hides,
        limits=limits,
        groups=face.grouped(),
        group=options.group,
        captures=bool(options.placement_group_capture_child_tasks),
        house=house,
        begin=arrivals.host,
    )
