"""Results as they come, for a plain ``for``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import actorlib
from actorlib.blocking._script_runtime import SCRIPT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from actorlib._api.actor_handle import ActorMethod
    from actorlib._api.remote_function import RemoteFunction
    from actorlib._api.results import Results
    from actorlib._core.object_ref import ObjectRef
    from actorlib._core.stream_reader import ObjectRefGenerator

__all__ = ["as_completed", "map_unordered"]

T = TypeVar("T")


def as_completed(
    refs: Sequence[ObjectRef[T] | ObjectRefGenerator[T]],
    *,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    progress: bool | str = False,
) -> Results[T]:
    """The values of refs in the order in which they come.

    Args:
        refs: Refs and generators, each of them once.
        chunk_size: Taken so that scripts may say so: each comes when it is there.
        yield_obj_refs: Gives the refs, all done, instead of their values.
        progress: Shows how many have come, as ``actorlib.as_completed`` does.
    """
    del chunk_size
    SCRIPT.engine()
    return actorlib.as_completed(refs, yield_obj_refs=yield_obj_refs, progress=progress)


def map_unordered(
    fn: RemoteFunction[..., T] | ActorMethod[..., T] | Callable[[Any], ObjectRef[T]],
    items: Iterable[Any],
    *,
    backpressure_size: int = 100,
    chunk_size: int = 10,
    progress: bool | str = False,
) -> Results[T]:
    """Makes a call for each item and gives the results in the order in which they come.

    Args:
        fn: A remote function, a method of an actor, or what gives the ref of a call.
        items: The items, taken as calls are done.
        backpressure_size: How many are under way at the most.
        chunk_size: As for ``as_completed``.
        progress: As for ``as_completed``.
    """
    del chunk_size
    SCRIPT.engine()
    call: Any = fn
    return actorlib.map_unordered(
        call, items, backpressure_size=backpressure_size, progress=progress
    )
