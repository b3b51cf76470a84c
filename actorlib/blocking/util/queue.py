"""``Queue`` with blocking waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import actorlib
from actorlib._script_runtime import SCRIPT
from actorlib.exceptions import Empty, Full

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actorlib._api.actor_handle import ActorHandle

__all__ = ["Empty", "Full", "Queue"]

T = TypeVar("T")


class Queue(Generic[T]):
    """A first-in, first-out queue in a separate actor; it may be an argument.

    Methods block; those whose names end in ``_async`` are coroutines. See
    ``actorlib.Queue``.

    Args:
        maxsize: The largest number of items, or 0 for any number.
        actor_options: Options of its actor.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
    """

    def __init__(
        self, maxsize: int = 0, actor_options: Mapping[str, Any] | None = None
    ) -> None:
        SCRIPT.engine()
        self._queue: actorlib.Queue[T] = actorlib.Queue(maxsize, actor_options)
        self._is_shut_down = False

    @property
    def actor(self) -> ActorHandle[Any] | None:
        """The handle of its actor; None after ``shutdown()``."""
        return None if self._is_shut_down else self._queue.actor

    @property
    def maxsize(self) -> int:
        """The largest number of items, or 0 for any number."""
        return self._queue.maxsize

    def __repr__(self) -> str:
        return repr(self._queue)

    def __len__(self) -> int:
        return self.qsize()

    def __bool__(self) -> bool:
        """Returns True, even if it is empty: see ``empty()``."""
        return True

    def qsize(self) -> int:
        """Returns the number of items."""
        return self._queue.qsize().get()

    size = qsize

    def empty(self) -> bool:
        """Whether there is no item."""
        return self._queue.empty().get()

    def full(self) -> bool:
        """Whether there is no room."""
        return self._queue.full().get()

    def put(
        self,
        item: T,
        block: bool = True,  # noqa: FBT001, FBT002  # as in the standard library
        timeout: float | None = None,
    ) -> None:
        """Adds an item at the end; waits for room.

        Args:
            item: Sent by value.
            block: If False, it fails at once if there is no room.
            timeout: Seconds to wait for room, or None.

        Raises:
            Full: There is no room in time.
            ValueError: ``timeout`` is negative.
        """
        self._queue.put(item, block, timeout).get()

    def get(
        self,
        block: bool = True,  # noqa: FBT001, FBT002  # as in the standard library
        timeout: float | None = None,
    ) -> T:
        """Removes and returns the first item; waits for one.

        Args:
            block: If False, it fails at once if there is no item.
            timeout: Seconds to wait for an item, or None.

        Raises:
            Empty: There is no item in time.
            ValueError: ``timeout`` is negative.
        """
        return self._queue.get(block, timeout).get()

    def put_nowait(self, item: T) -> None:
        """Adds an item at the end, or raises Full."""
        self.put(item, block=False)

    def get_nowait(self) -> T:
        """Removes and returns the first item, or raises Empty."""
        return self.get(block=False)

    def put_nowait_batch(self, items: Iterable[T]) -> None:
        """Adds several items at the end, or none of them and raises Full."""
        self._queue.put_nowait_batch(items).get()

    def get_nowait_batch(self, num_items: int) -> list[T]:
        """Removes and returns the first items, or none of them and raises Empty."""
        return self._queue.get_nowait_batch(num_items).get()

    async def put_async(
        self,
        item: T,
        block: bool = True,  # noqa: FBT001, FBT002  # as in the standard library
        timeout: float | None = None,  # noqa: ASYNC109  # as in the standard library
    ) -> None:
        """Does the same as ``put``, as a coroutine."""
        await self._queue.put(item, block, timeout)

    async def get_async(
        self,
        block: bool = True,  # noqa: FBT001, FBT002  # as in the standard library
        timeout: float | None = None,  # noqa: ASYNC109  # as in the standard library
    ) -> T:
        """Does the same as ``get``, as a coroutine."""
        return await self._queue.get(block, timeout)

    async def put_nowait_async(self, item: T) -> None:
        """Does the same as ``put_nowait``, as a coroutine."""
        await self.put_async(item, block=False)

    async def get_nowait_async(self) -> T:
        """Does the same as ``get_nowait``, as a coroutine."""
        return await self.get_async(block=False)

    def shutdown(
        self,
        force: bool = False,  # noqa: FBT001, FBT002  # as Ray's users write it
        grace_period_s: float = 5,
    ) -> None:
        """Ends the queue's actor; its items are lost.

        Args:
            force: Whether to end it before its calls are done.
            grace_period_s: Seconds for its calls otherwise.
        """
        self._is_shut_down = True
        self._queue.shutdown(0 if force else grace_period_s).get()
