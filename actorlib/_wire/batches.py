"""Runs a chunk of a map: many calls of one callee that came in one frame.

A failed call does not affect the others: the chunk fails with the first error, which
carries the values and the other errors to the caller (``PartialChunk``).
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from actorlib._core.engine import current_engine
from actorlib._wire.errors import PartialChunk
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

_CHECK_INTERVAL = 0.001
"""Seconds between two checks whether the chunk was cancelled."""
_NO_VALUE: Any = object()
_ENDS = (SystemExit, KeyboardInterrupt)
"""What ends the actor, or interrupts the chunk. All else fails one call only."""


def call_each(
    method: Callable[..., object], batch: tuple[int, bool], args: Sequence[Any]
) -> tuple[float, list[object]]:
    """Calls a plain method once for each item, one after the other.

    ``batch`` is the number of arguments of each call, and whether the first error ends
    the chunk.

    Returns:
        The seconds that it took, and the results.

    Raises:
        TaskCancelledError: The chunk was cancelled, or is too late.
        Exception: The first error of a call; it carries the chunk, see PartialChunk.
    """
    width, stops = batch
    results: list[object] = []
    failures: list[tuple[int, BaseException]] = []
    add = results.append
    context, now = current_engine().context, time.perf_counter

    def raise_if_cancelled() -> None:
        if context.is_canceled():
            raise TaskCancelledError("the batch was cancelled")

    begun = now()
    next_check = begun + _CHECK_INTERVAL
    for values in args if width == 1 else _calls(args, width):
        try:
            add(method(values) if width == 1 else method(*values))
        except _ENDS:
            raise
        except BaseException as error:  # noqa: BLE001  # it takes the place of the result
            raise_if_cancelled()
            failures.append((len(results), error))
            if stops:
                break
            add(None)
        if now() > next_check:
            raise_if_cancelled()
            next_check = now() + _CHECK_INTERVAL
    if failures:
        raise PartialChunk(now() - begun, results, failures).error()
    return now() - begun, results


async def await_each(
    method: Callable[..., Coroutine[Any, Any, object]],
    batch: tuple[int, bool],
    args: Sequence[Any],
    slots: tuple[Callable[[], bool], Callable[[], None]],
) -> tuple[float, list[object]]:
    """Calls an ``async def`` method once for each item, concurrently in free slots.

    The chunk has a slot itself, so it continues without another one. ``slots`` are two
    functions: one acquires a slot if it is free and no call waits for it, the other
    releases it. Otherwise like ``call_each``; the other calls are cancelled at an error
    that ends the chunk.
    """
    take, give_back = slots
    width, stops = batch
    results: list[object] = [_NO_VALUE] * (len(args) // width)
    failures: list[tuple[int, BaseException]] = []
    begun = time.perf_counter()

    async def call(place: int, values: Sequence[Any]) -> None:
        try:
            results[place] = await method(*values)
        except _ENDS:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The call has cancelled itself: it has no value, as ``_outcome`` says.
        except BaseException as error:
            failures.append((place, error))
            results[place] = None
            if stops:
                raise

    last = len(results) - 1
    with suppress(BaseExceptionGroup):  # its errors are among the failures
        async with asyncio.TaskGroup() as group:
            for place, values in enumerate(_calls(args, width)):
                if place < last and take():
                    task = group.create_task(call(place, values))
                    task.add_done_callback(lambda _: give_back())
                else:
                    await call(place, values)
    return _outcome(time.perf_counter() - begun, results, failures, stops=stops)


def _outcome(
    seconds: float,
    results: list[object],
    failures: list[tuple[int, BaseException]],
    *,
    stops: bool,
) -> tuple[float, list[object]]:
    """Returns the outcome of calls that ran concurrently."""
    if failures and stops:
        missing = [place for place, value in enumerate(results) if value is _NO_VALUE]
        first = min([failures[0][0], *missing])
        raise PartialChunk(seconds, results[:first], failures[:1]).error()
    for place, value in enumerate(results):
        if value is _NO_VALUE:  # a call that has cancelled itself
            failures.append((place, TaskCancelledError("the call was cancelled")))
            results[place] = None
    if failures:
        raise PartialChunk(seconds, results, failures).error()
    return seconds, results


def _calls(args: Sequence[Any], width: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(args), width):
        yield args[start : start + width]
