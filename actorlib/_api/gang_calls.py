"""The arguments of each rank of a gang, and the failure that its error reports."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from actorlib.exceptions import ActorDiedError, TaskError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actorlib._options.function_options import FunctionOptions


def rows_of(label: str, size: int, iterables: Sequence[object]) -> list[list[Any]]:
    """Returns the arguments of each rank, from one iterable for each argument."""
    rows: list[list[Any]] = [[] for _ in range(size)]
    for place, iterable in enumerate(iterables):
        try:
            items = list(islice(cast("Iterable[Any]", iterable), size + 1))
        except TypeError as error:
            if hasattr(iterable, "__iter__"):
                raise
            raise TypeError(
                f"group.map({label}, ...) takes an iterable for each argument, with an "
                f"item for each bundle, not {iterable!r} ({type(iterable).__name__}): "
                f"write [value] * {size} for the same one everywhere"
            ) from error
        if len(items) != size:
            number = f"more than {size}" if len(items) > size else f"{len(items)}"
            raise ValueError(
                f"group.map({label}, ...) takes an item for each of the {size} "
                f"bundles, and iterable {place} has {number}"
            )
        for row, item in zip(rows, items, strict=True):
            row.append(item)
    return rows


def is_death(error: BaseException) -> TypeGuard[ActorDiedError]:
    """Whether the error is the unrequested end of a process."""
    return _is_end(error) and error.exit.cause != "asked"


def first_cause(failures: Mapping[int, BaseException]) -> int:
    """Returns the rank whose failure caused the others, which are in order of arrival.

    That is the first rank whose process died, as errors of others follow from that;
    else the first that raised; else the first.
    """
    died = [rank for rank, error in failures.items() if is_death(error)]
    raised = [rank for rank, error in failures.items() if not _is_end(error)]
    return [*died, *raised, *failures][0]


def explanation(gang: str, size: int, failures: Mapping[int, BaseException]) -> str:
    """Returns the note on the error of the first rank that failed."""
    first = first_cause(failures)
    others = [
        f"rank {rank} failed, too: {first_line(error)}"
        for rank, error in failures.items()
        if rank != first and (is_death(error) or not _is_end(error))
    ]
    end = "all others were ended" if size > 1 else "it was ended"
    return "; ".join([f"this was rank {first} of {size} in {gang}: {end}", *others])


def is_retried(error: BaseException, options: FunctionOptions) -> bool:
    """Whether a gang is created again after an error, if it has retries."""
    if isinstance(error, TaskError):
        retried = options.retried
        return retried if isinstance(retried, bool) else isinstance(error, retried)
    # A rank that failed to start would fail again.
    return is_death(error) and error.exit.cause != "failed to start"


def _is_end(error: BaseException) -> TypeGuard[ActorDiedError]:
    """Whether the error is the end of a rank, and not an error of its code."""
    return isinstance(error, ActorDiedError) and not isinstance(error, TaskError)


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
