"""Results in the order in which they are ready, for a plain ``for``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import actorlib
from actorlib._api.pipeline import map_options, start_map
from actorlib._base.validation import check_bool
from actorlib._script_runtime import SCRIPT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from os import PathLike

    from actorlib._api.actor_handle import ActorMethod
    from actorlib._api.remote_function import RemoteFunction
    from actorlib._api.results import Results
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._futures.stream_reader import ObjectRefGenerator

__all__ = ["as_completed", "map_unordered"]

T = TypeVar("T")


def as_completed(
    refs: Sequence[ObjectRef[T] | ObjectRefGenerator[T]],
    *,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    progress: bool | str = False,
) -> Results[T]:
    """Yields the values of refs in the order in which they are ready.

    Args:
        refs: Refs and generators, each of them once.
        chunk_size: Has no effect: each value comes when it is ready.
        yield_obj_refs: Yields the finished refs instead of their values.
        progress: Shows a progress bar; see ``actorlib.as_completed``.
    """
    del chunk_size
    SCRIPT.engine()
    return actorlib.as_completed(refs, yield_obj_refs=yield_obj_refs, progress=progress)


def map_unordered(
    fn: RemoteFunction[..., T] | ActorMethod[..., T] | Callable[[Any], ObjectRef[T]],
    items: Iterable[Any],
    *,
    ordered: bool = False,
    chunksize: int | Literal["auto"] = 1,
    backpressure_size: int = 100,
    chunk_size: int = 10,
    yield_obj_refs: bool = False,
    progress: bool | str = False,
    on_error: Literal["raise", "return"] = "raise",
    return_exceptions: bool = False,
    cache: str | PathLike[str] | None = None,
    version: str | int | None = None,
) -> Results[T]:
    """Calls a function for each item; yields results in the order of their readiness.

    Args:
        fn: A remote function, a method of an actor, or a function that returns a ref.
        items: The items, taken as calls are done.
        ordered: See ``actorlib.map_unordered``.
        chunksize: The number of items of one call, or ``"auto"``.
        backpressure_size: The largest number of unfinished calls.
        chunk_size: See ``as_completed``.
        yield_obj_refs: See ``as_completed``. Each call has one item then.
        progress: See ``as_completed``.
        on_error: ``"return"`` yields errors in the places of results.
        return_exceptions: The same as ``on_error="return"``.
        cache: See ``function.map``; not with ``yield_obj_refs``.
        version: See ``function.map``.
    """
    del chunk_size
    SCRIPT.engine()
    check_bool("yield_obj_refs", yield_obj_refs)
    if cache is not None and yield_obj_refs:
        raise ValueError(
            "cache and yield_obj_refs exclude each other: a cached result has no ref"
        )
    options = map_options(
        (items,),
        ordered=ordered,
        chunksize=1 if yield_obj_refs else chunksize,
        progress=progress,
        on_error=on_error,
        return_exceptions=return_exceptions,
    )
    options = replace(options, yields_refs=yield_obj_refs)
    return start_map(
        "map_unordered()",
        fn,
        (items,),
        options,
        backpressure_size=backpressure_size,
        cache=cache,
        version=version,
    )
