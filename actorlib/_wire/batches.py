"""Runs a batch: many calls of one method that came in one frame."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from actorlib._core.engine import current_engine
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

_CHECK_INTERVAL = 0.001
"""Seconds between two checks of a batch whether it was cancelled."""


def call_each(
    method: Callable[..., object],
    batch: tuple[int, int | None],
    args: Sequence[Any],
) -> list[object]:
    """Calls a plain method once for each item, one after the other.

    Args:
        method: The method.
        batch: How many arguments each call has, and the number of the first call,
            which is None where a chunk was sent without.
        args: The arguments of all.

    Raises:
        TaskCancelledError: Nobody wants the results any more.
        Exception: What a call raised.
    """
    width, first = batch
    results: list[object] = []
    add = results.append
    raise_if_cancelled, now = _cancellation_check(), time.perf_counter
    next_check = now() + _CHECK_INTERVAL
    try:
        for values in args if width == 1 else _calls(args, width):
            add(method(values) if width == 1 else method(*values))
            if now() > next_check:
                raise_if_cancelled()
                next_check = now() + _CHECK_INTERVAL
    except Exception as error:
        error.add_note(_place(first, len(results)))
        raise
    return results


async def await_each(
    method: Callable[..., Coroutine[Any, Any, object]],
    batch: tuple[int, int | None],
    args: Sequence[Any],
    slots: tuple[Callable[[], bool], Callable[[], None]],
) -> list[object]:
    """Calls an ``async def`` method once for each item, side by side in free slots.

    The batch has a slot of its own, so it goes on where there is no other.

    Args:
        method: The method.
        batch: How many arguments each call has, and the number of the first call,
            which is None where a chunk was sent without.
        args: The arguments of all.
        slots: Takes one more slot, if there is one that nobody waits for; gives it to
            whoever waits by then.

    Raises:
        Exception: What a call raised; the others are cancelled.
    """
    take, give_back = slots
    width, first = batch
    results: list[object] = [None] * (len(args) // width)

    async def call(index: int, values: Sequence[Any]) -> None:
        try:
            results[index] = await method(*values)
        except Exception as error:
            error.add_note(_place(first, index))
            raise

    last = len(results) - 1
    failed: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for index, values in enumerate(_calls(args, width)):
                if index < last and take():
                    task = group.create_task(call(index, values))
                    task.add_done_callback(lambda _: give_back())
                else:
                    await call(index, values)
    except BaseExceptionGroup as errors:
        failed = errors.exceptions[0]
    if failed is not None:  # raised here, its cause and its context stay what they are
        raise failed
    return results


def _place(first: int | None, index: int) -> str:
    if first is None:
        return f"in call {index} of its chunk, counted from 0"
    return f"in call {first + index} of a batch, counted from 0"


def _calls(args: Sequence[Any], width: int) -> Iterator[Sequence[Any]]:
    """Gives the arguments of each call."""
    for start in range(0, len(args), width):
        yield args[start : start + width]


def _cancellation_check() -> Callable[[], None]:
    """Makes a check that raises if the running call was cancelled or is too late."""
    context = current_engine().context

    def raise_if_cancelled() -> None:
        if context.is_canceled():
            raise TaskCancelledError("nobody wants the rest of a batch any more")

    return raise_if_cancelled
