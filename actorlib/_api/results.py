"""Iterators over results, for ``async for``, ``for`` and ``await``."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from actorlib._api.waiting import limited, run_async, run_blocking
from actorlib._base.public import public
from actorlib._base.validation import check_seconds
from actorlib.exceptions import TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Generator

    from actorlib._api.progress import Progress
    from actorlib._api.waiting import Steps
    from actorlib._futures.object_ref import ObjectRef

T_co = TypeVar("T_co", covariant=True)


class Raised:
    """An error in the place of a value: it is raised when it is taken."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def outcome_of(ref: ObjectRef[Any]) -> Any:
    """Returns the value of a ref that is done, or its error as ``Raised``."""
    if ref.cancelled():
        return Raised(TaskCancelledError("the call was cancelled"))
    error = ref.exception()
    return ref.result() if error is None else Raised(error)


@public("actorlib")
class Results(ABC, Generic[T_co]):
    """The results of many calls, each as soon as it is available, or all together.

    Use ``async for`` where a loop runs, and ``for`` in plain methods of actors. ``await
    results``, or ``results.get()`` in plain methods, returns a list of all that were
    not taken before.

    The error of a call is raised in the place of its value; the iteration may go on
    after it. Leaving the loop early loses no results. An ``await`` raises the first
    error, and cancels the remaining calls.

    Example:
        >>> @actorlib.remote
        ... def double(x):
        ...     return 2 * x
        >>> async for value in double.map([1, 2]):
        ...     print(value)
        2
        4
        >>> await double.map([1, 2])
        [2, 4]
    """

    def __init__(self, progress: Progress | None = None) -> None:
        self._ready: deque[Any] = deque()
        self._progress = progress
        self._fails_early = False
        self._collected: list[T_co] = []
        self._failure: BaseException | None = None

    def __aiter__(self) -> Results[T_co]:
        """Returns this iterator."""
        return self

    async def __anext__(self) -> T_co:
        """Returns the next result.

        Raises:
            Exception: The error of the call.
        """
        ready = self._ready
        if ready and self._progress is None and type(ready[0]) is not Raised:
            result: T_co = ready.popleft()  # the usual case of _take()
            return result
        if not ready:
            try:
                self._prepare_async()
                has_more = await run_async(self._shown())
            except asyncio.CancelledError:
                self._leave()
                del self  # the traceback would keep its refs alive
                raise
            if not has_more:
                raise StopAsyncIteration
        return self._take()

    def __iter__(self) -> Results[T_co]:
        """Returns this iterator."""
        return self

    def __next__(self) -> T_co:
        """Returns the next result; blocks this thread meanwhile.

        Raises:
            RuntimeError: This thread runs an event loop.
            Exception: The error of the call.
        """
        if not self._ready:
            self._prepare_blocking()
            if not run_blocking(self._shown()):
                raise StopIteration
        return self._take()

    def __await__(self) -> Generator[Any, None, list[T_co]]:
        """Waits for all results that were not taken, or for the first error.

        It returns the same list if it is awaited again. A cancelled wait cancels the
        calls if this object is not referenced elsewhere.

        Raises:
            Exception: The error of a call; the remaining calls are cancelled.
        """
        return self._all().__await__()

    async def _all(self) -> list[T_co]:
        try:
            self._prepare_async()
            self._fails_early = True
            return await run_async(self._collect())
        except asyncio.CancelledError:
            self._leave()
            del self  # the traceback would keep its refs alive
            raise

    def get(self, timeout: float | None = None) -> list[T_co]:
        """Blocks this thread until all results that were not taken are available.

        Args:
            timeout: The limit in seconds, or None. Default: None.

        Raises:
            GetTimeoutError: It took longer; the calls go on.
            RuntimeError: This thread runs an event loop: await it instead.
            Exception: The error of a call, in the order of results; the remaining calls
                are cancelled.
        """
        self._prepare_blocking()
        steps = self._collect()
        if timeout is not None:
            check_seconds("timeout", timeout)
            steps = limited(steps, timeout)
        return run_blocking(steps)

    async def aclose(self) -> None:
        """Drops the remaining results, for ``contextlib.aclosing``."""

    @abstractmethod
    def cancel(self) -> None:
        """Cancels the calls without a result."""

    @abstractmethod
    def _fill(self) -> Steps[bool]:
        """Waits until a result is ready; returns False if there are no more."""

    def _prepare_async(self) -> None:
        """Prepares a wait on the running loop."""

    def _prepare_blocking(self) -> None:
        """Prepares a wait of a blocked thread."""

    def _leave(self) -> None:
        """Is called after a cancelled wait."""

    def _shown(self) -> Steps[bool]:
        if self._progress is None:
            return self._fill()
        return self._progress.followed(self._fill())

    def _take(self) -> T_co:
        value = self._ready.popleft()
        if self._progress is not None:
            self._progress.advance()
        if type(value) is not Raised:
            result: T_co = value
            return result
        if self._progress is not None:
            self._progress.hide()
        self._has_raised()
        try:
            raise value.error
        finally:
            del value  # it would refer to this frame, which refers to it

    def _has_raised(self) -> None:
        """Is called before an error is raised."""

    def _collect(self) -> Steps[list[T_co]]:
        if self._failure is not None:
            raise self._failure
        try:
            while self._ready or (yield from self._shown()):
                self._take_ready()
        except Exception as error:
            self._failure = error
            self.cancel()
            raise
        return list(self._collected)

    def _take_ready(self) -> None:
        ready = self._ready
        if self._progress is None and Raised not in set(map(type, ready)):
            self._collected.extend(ready)
            ready.clear()
        while ready:
            self._collected.append(self._take())
