"""What each rank of a gang is called with, and which failure is to blame."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from actorlib.exceptions import ActorDiedError, TaskError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actorlib._options.function_options import FunctionOptions


def rows_of(label: str, size: int, iterables: Sequence[object]) -> list[list[Any]]:
    """The arguments of each rank.

    Args:
        label: The function's name.
        size: How many ranks there are.
        iterables: One iterable for each argument.

    Raises:
        TypeError: Something is not iterable.
        ValueError: There are more or fewer items than ranks.
    """
    rows: list[list[Any]] = [[] for _ in range(size)]
    for place, given in enumerate(iterables):
        try:
            items = list(islice(cast("Iterable[Any]", given), size + 1))
        except TypeError as error:
            if hasattr(given, "__iter__"):
                raise
            raise TypeError(
                f"group.map({label}, ...) takes an iterable for each argument, with an "
                f"item for each bundle, not {given!r} ({type(given).__name__}): write "
                f"[value] * {size} for the same one everywhere"
            ) from error
        if len(items) != size:
            found = f"more than {size}" if len(items) > size else f"{len(items)}"
            raise ValueError(
                f"group.map({label}, ...) takes an item for each of the {size} "
                f"bundles, and iterable {place} has {found}"
            )
        for row, item in zip(rows, items, strict=True):
            row.append(item)
    return rows


def is_death(error: BaseException) -> TypeGuard[ActorDiedError]:
    """Whether a process ended that nobody had ended."""
    return _is_end(error) and error.exit.cause != "asked"


def first_cause(failures: Mapping[int, BaseException]) -> int:
    """Which rank to blame.

    Args:
        failures: The error of each rank that failed, in the order in which they came.

    Returns:
        The first whose process died, as errors of others follow from that; else the
        first that raised; else the first.
    """
    died = [rank for rank, error in failures.items() if is_death(error)]
    raised = [rank for rank, error in failures.items() if not _is_end(error)]
    return [*died, *raised, *failures][0]


def explanation(gang: str, size: int, failures: Mapping[int, BaseException]) -> str:
    """What is said of a gang beside the error of the rank to blame."""
    first = first_cause(failures)
    others = [
        f"rank {rank} failed, too: {first_line(error)}"
        for rank, error in failures.items()
        if rank != first and (is_death(error) or not _is_end(error))
    ]
    end = "all others were ended" if size > 1 else "it was ended"
    return "; ".join([f"this was rank {first} of {size} in {gang}: {end}", *others])


def is_retried(error: BaseException, options: FunctionOptions) -> bool:
    """Whether a gang is made anew after such an error, if it may be once more."""
    if isinstance(error, TaskError):
        retried = options.retried
        return retried if isinstance(retried, bool) else isinstance(error, retried)
    # What failed to start would hardly start the next time.
    return is_death(error) and error.exit.cause != "failed to start"


def _is_end(error: BaseException) -> TypeGuard[ActorDiedError]:
    """Whether it tells of the end of a rank, and is no error of its code."""
    return isinstance(error, ActorDiedError) and not isinstance(error, TaskError)


def first_line(error: BaseException) -> str:
    """The error in one line."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
