"""Iterators over results, for ``async for``, for ``for``, and to be awaited."""

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
    """An error among values: it is raised when its turn comes."""

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
    """The results of many calls, each as soon as it is there, or all together.

    ``async for`` where a loop runs, ``for`` in plain methods of actors. ``await
    results``, or ``results.get()`` in plain methods, gives a list of all that were not
    taken before.

    What a call raised is raised where its value would be; whoever catches it may go on
    with the same iterator. One that is left early has lost nothing. An ``await`` raises
    the first error, and cancels the calls that are left.

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
        """Itself."""
        return self

    async def __anext__(self) -> T_co:
        """The next result.

        Raises:
            Exception: What the call raised.
        """
        ready = self._ready
        if ready and self._progress is None and type(ready[0]) is not Raised:
            result: T_co = ready.popleft()  # as below, at hand for most
            return result
        if not ready:
            try:
                self._prepare_async()
                has_more = await run_async(self._shown())
            except asyncio.CancelledError:
                self._leave()
                del self  # the traceback would keep what nobody else holds
                raise
            if not has_more:
                raise StopAsyncIteration
        return self._take()

    def __iter__(self) -> Results[T_co]:
        """Itself."""
        return self

    def __next__(self) -> T_co:
        """The next result; this thread is blocked meanwhile.

        Raises:
            RuntimeError: This thread runs an event loop.
            Exception: What the call raised.
        """
        if not self._ready:
            self._prepare_blocking()
            if not run_blocking(self._shown()):
                raise StopIteration
        return self._take()

    def __await__(self) -> Generator[Any, None, list[T_co]]:
        """Waits for all results that were not taken, or for the first error.

        It gives the same list again if it is awaited again. A wait that is cancelled
        cancels the calls if nobody holds this object any more.

        Raises:
            Exception: What a call raised; the calls that are left are cancelled.
        """
        return self._all().__await__()

    async def _all(self) -> list[T_co]:
        try:
            self._prepare_async()
            self._fails_early = True
            return await run_async(self._collect())
        except asyncio.CancelledError:
            self._leave()
            del self  # as above
            raise

    def get(self, timeout: float | None = None) -> list[T_co]:
        """Blocks this thread until all results are there that were not taken.

        Args:
            timeout: Seconds to wait at the most, or None. Default: None.

        Raises:
            GetTimeoutError: It took longer; the calls go on.
            RuntimeError: This thread runs an event loop: await it instead.
            Exception: What a call raised, when its turn has come; the calls that are
                left are cancelled.
        """
        self._prepare_blocking()
        steps = self._collect()
        if timeout is not None:
            check_seconds("timeout", timeout)
            steps = limited(steps, timeout)
        return run_blocking(steps)

    async def aclose(self) -> None:
        """Gives up what is left, for ``contextlib.aclosing``."""

    @abstractmethod
    def cancel(self) -> None:
        """Stops the calls that have no result yet."""

    @abstractmethod
    def _fill(self) -> Steps[bool]:
        """The wait until something is ready; False if there is no further result."""

    def _prepare_async(self) -> None:
        """Prepares to be awaited on the running loop."""

    def _prepare_blocking(self) -> None:
        """Prepares to be waited for by a blocked thread."""

    def _leave(self) -> None:
        """Does what a cancelled wait calls for."""

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
            del value  # it would hold this frame, which holds it

    def _has_raised(self) -> None:
        """Does what an error calls for that is being raised."""

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
