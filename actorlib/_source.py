"""Where values come from: an iterable, or one that has to be awaited."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, cast

from actorlib._results import END

_NOT_YET: Any = object()


class Source:
    """Where values come from: an iterable, or an asynchronous one.

    Args:
        where: Whose values they are, for messages.
        values: The iterable. One that is both is asynchronous where a loop runs.

    Attributes:
        is_over: Whether there are no more.
        coming: The next value of an asynchronous one, while it is waited for.

    Raises:
        TypeError: It is neither.
    """

    def __init__(self, where: str, values: object) -> None:
        self.is_over = False
        self.coming: asyncio.Task[Any] | None = None
        self._later: AsyncIterator[Any] | None = None
        self._now: Iterator[Any] = iter(())
        if isinstance(values, AsyncIterable) and (
            not isinstance(values, Iterable) or _has_loop()
        ):
            self._later = aiter(cast("AsyncIterable[Any]", values))
        elif isinstance(values, Iterable):
            self._now = iter(cast("Iterable[Any]", values))
        else:
            raise TypeError(
                f"{where} takes values from an iterable, not {values!r} "
                f"({type(values).__name__})"
            )

    @property
    def is_async(self) -> bool:
        """Whether a loop has to run to get at the values."""
        return self._later is not None

    def next(self) -> tuple[Any] | None:
        """The next value, or None if there is none, or not yet.

        Raises:
            Exception: What the iterable raised; it is over then.
        """
        if self.is_over:
            return None
        try:
            value = self._next()
        except BaseException:
            self.is_over = True
            raise
        if value is END:
            self.is_over = True
        elif value is not _NOT_YET:
            return (value,)
        return None

    def _next(self) -> Any:
        if self._later is None:
            return next(self._now, END)
        if self.coming is None:
            self.coming = asyncio.get_running_loop().create_task(_next_of(self._later))
        if not self.coming.done():
            return _NOT_YET
        came, self.coming = self.coming, None
        return came.result()

    def close(self) -> asyncio.Task[Any] | None:
        """Takes no more; gives what waits for the next one, being cancelled.

        May be called from a destructor.
        """
        self.is_over = True
        coming, self.coming = self.coming, None
        if coming is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                coming.get_loop().call_soon_threadsafe(coming.cancel)
        return coming


async def _next_of(values: AsyncIterator[Any]) -> Any:
    return await anext(values, END)


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
