"""Makes many calls of one method in few frames: ``handle.method.map(items)``.

Most of what a short call costs is its frame, its entries in tables and its ref. So one
call carries a chunk of many: the worker calls the method for each, and answers once.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from actorlib._core.object_ref import end_wait, release_if_unused, result_owner_of
from actorlib._core.public import public

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Sequence

    from actorlib._core.object_ref import ObjectRef

R = TypeVar("R")

CHUNK_SIZE = 256
"""How many calls a chunk has by default."""


class _BatchProgress:
    """Counts the chunks that have been answered, without keeping the batch alive.

    Attributes:
        left: How many have no answer.
        failed: The first one that has failed, or None.
    """

    def __init__(self, left: int) -> None:
        self.left = left
        self.failed: ObjectRef[Any] | None = None
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def is_over(self) -> bool:
        """Whether all have been answered, or one has failed."""
        return not self.left or self.failed is not None

    def answered(self, chunk: ObjectRef[Any]) -> None:
        """Counts one more answer."""
        self.left -= 1
        if self.failed is None and (chunk.cancelled() or chunk.exception()):
            self.failed = chunk
        if self.is_over:
            for waiter in self._waiters:
                end_wait(waiter)
            self._waiters.clear()

    def waiter(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Makes a future that is done when it is over."""
        waiter = loop.create_future()
        self._waiters.add(waiter)
        return waiter


@public("actorlib")
class Batch(Generic[R]):
    """The results of many calls, in the order in which they were made.

    Write ``results = await batch``, or ``async for result in batch`` to have each as
    soon as its chunk is there; in plain methods of actors, ``batch.get()`` and a plain
    ``for``. What a call raised is raised there, with a note that says which call it
    was, and the chunks that have not answered are cancelled.

    A wait that is cancelled cancels the calls if nobody holds the batch any more.

    Args:
        chunks: The results of the chunks.

    Example:
        >>> @actorlib.remote
        ... class Doubler:
        ...     def double(self, x):
        ...         return 2 * x
        >>> batch = Doubler.remote().double.map(range(4))
        >>> await batch
        [0, 2, 4, 6]
    """

    __slots__ = ("_chunks", "_progress")

    def __init__(self, chunks: Sequence[ObjectRef[list[R]]]) -> None:
        self._chunks = chunks
        self._progress = _BatchProgress(len(chunks))
        for chunk in chunks:
            chunk.add_done_callback(self._progress.answered)

    def __await__(self) -> Generator[Any, None, list[R]]:
        """Waits for all results, or for the first failure.

        Raises:
            Exception: What a call raised, or ActorDiedError.
        """
        if not self._progress.is_over:
            loop = asyncio.get_running_loop()
            if loop is self._chunks[0].get_loop():
                waiter: asyncio.Future[Any] = self._progress.waiter(loop)
            else:  # as for a ref: a thread waits on behalf of this loop
                waiter = loop.run_in_executor(None, self._wait)
            try:
                yield from waiter
            except asyncio.CancelledError:
                release_if_unused(self._chunks)
                # The traceback keeps this frame, and the frame would keep the batch.
                del self
                raise
        if self._progress.failed is not None:
            self.cancel()
            self._progress.failed.get()
        return [result for chunk in self._chunks for result in chunk.result()]

    async def __aiter__(self) -> AsyncGenerator[R]:
        """The results, one after the other."""
        for chunk in self._chunks:
            try:
                results = await chunk
            except asyncio.CancelledError:
                release_if_unused(self._chunks)
                raise
            except BaseException:
                self.cancel()
                raise
            for result in results:
                yield result

    def get(self, timeout: float | None = None) -> list[R]:
        """Blocks this thread until all results are there.

        Args:
            timeout: Seconds to wait at the most, or None. Default: None.

        Raises:
            GetTimeoutError: It took longer; the calls go on.
            RuntimeError: This thread runs an event loop: await it instead.
            Exception: What a call raised, or ActorDiedError; when its turn has come.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        return list(self._each(deadline))

    def __iter__(self) -> Iterator[R]:
        """The results, one after the other; this thread is blocked meanwhile."""
        return self._each(None)

    def _each(self, deadline: float | None) -> Iterator[R]:
        for chunk in self._chunks:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                results = chunk.get(left)
            except BaseException:
                if chunk.done():
                    self.cancel()
                raise
            yield from results

    def cancel(self) -> None:
        """Stops the calls that have no result yet."""
        for chunk in self._chunks:
            if not chunk.done():
                chunk.cancel()
            elif not chunk.cancelled():
                chunk.exception()  # somebody has looked at it

    def _wait(self) -> None:
        for chunk in self._chunks:
            result_owner_of(chunk).wait(chunk, None)

    def __repr__(self) -> str:
        count = len(self._chunks)
        return f"<Batch, {count - self._progress.left} of {count} chunks done>"


def chunks_of(
    iterables: Sequence[Iterable[object]], chunksize: int
) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Splits the arguments of many calls into chunks.

    Args:
        iterables: One for each argument; the shortest ends the calls.
        chunksize: How many calls are in a chunk, at the most.

    Yields:
        The number of the first call, and the arguments of all, one after the other.
    """
    width = len(iterables)
    flat: Iterator[object] = (
        iter(iterables[0])
        if width == 1
        else itertools.chain.from_iterable(zip(*iterables, strict=False))
    )
    start = 0
    while chunk := tuple(itertools.islice(flat, chunksize * width)):
        yield start, chunk
        start += len(chunk) // width
