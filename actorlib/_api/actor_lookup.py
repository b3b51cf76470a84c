"""Functions that return actors by their names, or list all of them.

These functions return at once, in the program and in actors, on an event loop too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from actorlib._api.actor_handle import ActorHandle
from actorlib._base.public import public
from actorlib._base.validation import check_bool, check_option, wrong_type
from actorlib._core.engine import current_engine
from actorlib._options.actor_options import ActorOptions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actorlib._api.decorators import ActorClass
    from actorlib._rows.snapshot import ActorInfo, Filter

T = TypeVar("T")


@overload
def get_actor(
    name: str, actor_class: str | None = None, namespace: str | None = None
) -> ActorHandle[Any]: ...
@overload
def get_actor(
    name: str,
    actor_class: ActorClass[..., T] | type[T],
    namespace: str | None = None,
) -> T: ...
@public("actorlib")
def get_actor(name: str, actor_class: object = None, namespace: object = None) -> Any:
    """Returns the handle of a living actor by its name.

    The name exists from ``.remote()`` on, even while the constructor runs; calls wait
    then. A name does not keep an actor alive, but the handle does.

    Args:
        name: The name of ``.options(name=...)``.
        actor_class: The class that the actor has to have. To a type checker the handle
            is an instance of it, as with ``Model.spawn()``. A string here is the
            namespace. Default: None, for any.
        namespace: The namespace; None for that of the runtime. Default: None.

    Raises:
        ActorNotFoundError: No living actor has that name there. It is a ValueError.
        TypeError: A name is not a string, or the actor has another class.
        ValueError: A name is empty.
        RuntimeError: No runtime is running in this process.

    Example:
        >>> @actorlib.remote(name="counter")
        ... class Counter:
        ...     def ping(self):
        ...         return "pong"
        >>> counter = Counter.remote()
        >>> await actorlib.get_actor("counter").ping.remote()
        'pong'
    """
    if isinstance(actor_class, str):
        actor_class, namespace = None, actor_class
    class_name = None if actor_class is None else _name_of(actor_class)
    check_option(ActorOptions, "name", name)
    if namespace is not None:
        check_option(ActorOptions, "namespace", namespace)
    pin = current_engine().find(name, cast("str | None", namespace))
    if class_name is not None and pin.interface.class_name != class_name:
        raise TypeError(
            f"the actor {name!r} has the class {pin.interface.class_name}, and not "
            f"{class_name}"
        )
    handle: ActorHandle[Any] = ActorHandle(pin)
    return handle


def _name_of(actor_class: object) -> str:
    from actorlib._api.decorators import ActorClass, interface_and_options  # noqa: PLC0415  # loaded if the caller has a class

    if not isinstance(actor_class, ActorClass):
        raise wrong_type(
            "get_actor() takes a name, and then an actor class of @actorlib.remote or "
            "a namespace",
            actor_class,
        )
    interface, _ = interface_and_options(cast("ActorClass[..., Any]", actor_class))
    return interface.class_name


@public("actorlib")
def list_named_actors(
    all_namespaces: bool = False,  # noqa: FBT001, FBT002  # as Ray's users know it
) -> list[Any]:
    """Lists the names of living actors.

    Args:
        all_namespaces: If True, all namespaces are included, else only that of the
            runtime. Default: False.

    Returns:
        Names; for all namespaces, dicts ``{"name": ..., "namespace": ...}``.

    Raises:
        TypeError: ``all_namespaces`` is neither True nor False.
        RuntimeError: No runtime is running in this process.

    Example:
        >>> @actorlib.remote
        ... class Counter:
        ...     pass
        >>> counter = await Counter.options(name="c1").remote()
        >>> actorlib.list_named_actors()
        ['c1']
    """
    check_bool("all_namespaces", all_namespaces)
    engine = current_engine()
    if all_namespaces:
        return [
            {"name": name, "namespace": namespace} for namespace, name in engine.names()
        ]
    here = engine.context.namespace
    return [name for namespace, name in engine.names() if namespace == here]


@public("actorlib")
def list_actors(
    *, filters: Iterable[Filter] | None = None, limit: int | None = None
) -> list[ActorInfo]:
    """Lists the living actors, and dead ones in the history.

    Actors that live or have a handle come first, then the latest of the others, up to
    ``init(actor_history=...)``.

    Args:
        filters: Conditions, each ``(field of ActorInfo, "=" or "!=", value)``; all of
            them have to hold. States are compared without regard to case;
            ``DEPENDENCIES_UNREADY`` and ``PENDING_CREATION`` are accepted too. Default:
            None.
        limit: The largest number of actors, or None for all. Default: None.

    Raises:
        TypeError: A filter or the limit has the wrong type.
        ValueError: A filter has an unknown field or state, or the limit is below 1.
        RuntimeError: No runtime is running in this process.

    Example:
        >>> @actorlib.remote
        ... class Counter:
        ...     pass
        >>> counter = await Counter.remote()
        >>> [row.class_name for row in actorlib.list_actors(limit=10)]
        ['Counter']
    """
    from actorlib._rows.snapshot import checked_filters, matching  # noqa: PLC0415  # 4 ms that few programs need

    conditions = checked_filters(filters, limit)
    return matching(current_engine().actors(), conditions)[:limit]
