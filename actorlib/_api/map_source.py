"""Reads the values of a map from iterables, or from an asynchronous one.

A value is read only when its call can begin, so an endless iterable needs no more
memory than the running calls.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterable, Iterable
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, cast

from actorlib._base.validation import wrong_type
from actorlib._loops.loop_thread import may_block

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

_END: Any = object()


class ValueSource:
    """Reads the arguments of calls from iterables, one for each argument.

    The shortest ends the calls. A single one may be asynchronous. One that is both is
    asynchronous where a loop runs.

    Attributes:
        width: The number of arguments of a call.
        is_over: Whether there are no more.
        coming: The task that waits for the next value of an asynchronous one, or None.
    """

    def __init__(self, where: str, iterables: Sequence[object]) -> None:
        self.width = len(iterables)
        self.is_over = False
        self.coming: asyncio.Task[Any] | None = None
        self._flat: list[object] = []
        self._error: Exception | None = None
        self._later: AsyncIterator[Any] | None = None
        self._now: Iterator[Any] = iter(())
        first = iterables[0]
        if self.width > 1:
            _check_iterables(where, iterables)
            together = zip(*cast("Sequence[Iterable[Any]]", iterables), strict=False)
            self._now = chain.from_iterable(together)
        elif isinstance(first, AsyncIterable) and (
            not isinstance(first, Iterable) or not may_block()
        ):
            self._later = aiter(cast("AsyncIterable[Any]", first))
        elif isinstance(first, Iterable):
            self._now = iter(cast("Iterable[Any]", first))
        else:
            raise wrong_type(
                f"{where} takes its values from an iterable, such as a list", first
            )

    @property
    def is_async(self) -> bool:
        """Whether the values come from an asynchronous iterable."""
        return self._later is not None

    def take(self, count: int, *, is_partial: bool) -> tuple[object, ...]:
        """Reads the arguments of several calls.

        Args:
            count: The largest number of calls.
            is_partial: Whether to return fewer if the others are not available yet.

        Returns:
            The arguments, one after the other; empty if there are none, or not yet.

        Raises:
            Exception: The error of the iterable, after all values before it.
        """
        flat = self._flat
        if self._error is None and not self.is_over:
            try:
                self._gather(flat, count * self.width)
            except BaseException as error:
                self.is_over = True
                if not isinstance(error, Exception):
                    raise
                self._error = error
        if flat:
            if not (is_partial or self.is_over or len(flat) == count * self.width):
                return ()
            self._flat = []
            return tuple(flat)
        if self._error is not None:
            failure, self._error = self._error, None
            raise failure
        return ()

    def _gather(self, flat: list[object], length: int) -> None:
        """Adds values up to a length; those before an error remain."""
        if self._later is None:
            flat.extend(islice(self._now, length - len(flat)))
            self.is_over = len(flat) < length
            return
        while len(flat) < length and not self.is_over:
            if self.coming is None:
                next_value = _next_of(self._later)
                self.coming = asyncio.get_running_loop().create_task(next_value)
            if not self.coming.done():
                return
            task, self.coming = self.coming, None
            value = task.result()
            if value is _END:
                self.is_over = True
            else:
                flat.append(value)

    def close(self) -> asyncio.Task[Any] | None:
        """Reads no more values; may be called from a destructor.

        Returns the cancelled task that waits for the next one, if there is one.
        """
        self.is_over = True
        self._error = None
        self._flat.clear()
        coming, self.coming = self.coming, None
        if coming is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                coming.get_loop().call_soon_threadsafe(coming.cancel)
        return coming


def _check_iterables(where: str, iterables: Sequence[object]) -> None:
    for each in iterables:
        if not isinstance(each, Iterable):
            raise wrong_type(
                f"{where} takes the values of several arguments from an iterable "
                "each, such as a list",
                each,
            )


async def _next_of(values: AsyncIterator[Any]) -> Any:
    return await anext(values, _END)
