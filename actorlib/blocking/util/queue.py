"""A queue whose waits block."""

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
    """A first-in, first-out queue, kept by an actor of its own; travels as an argument.

    What takes time blocks; the methods that end in ``_async`` are coroutines. Else it
    is ``actorlib.Queue``.

    Args:
        maxsize: How many items it may have, or 0 for any number.
        actor_options: Options of its actor.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: One is out of range.
    """

    def __init__(
        self, maxsize: int = 0, actor_options: Mapping[str, Any] | None = None
    ) -> None:
        SCRIPT.engine()
        self._queue: actorlib.Queue[T] = actorlib.Queue(maxsize, actor_options)
        self._is_shut_down = False

    @property
    def actor(self) -> ActorHandle[Any] | None:
        """The handle of the actor behind it; None after ``shutdown()``."""
        return None if self._is_shut_down else self._queue.actor

    @property
    def maxsize(self) -> int:
        """How many items it may have, or 0."""
        return self._queue.maxsize

    def __repr__(self) -> str:
        return repr(self._queue)

    def __len__(self) -> int:
        return self.qsize()

    def __bool__(self) -> bool:
        """True, also if it is empty: what it has is asked by ``empty()``."""
        return True

    def qsize(self) -> int:
        """Tells how many items there are."""
        return self._queue.qsize().get()

    size = qsize

    def empty(self) -> bool:
        """Tells whether there is no item."""
        return self._queue.empty().get()

    def full(self) -> bool:
        """Tells whether there is no room."""
        return self._queue.full().get()

    def put(
        self,
        item: T,
        block: bool = True,  # noqa: FBT001, FBT002  # as in the standard library
        timeout: float | None = None,
    ) -> None:
        """Puts an item at the end; waits while there is no room.

        Args:
            item: Sent by value.
            block: False fails at once if there is no room.
            timeout: Seconds to wait for room at the most, or None.

        Raises:
            Full: There is no room, or not in time.
            ValueError: ``timeout`` is negative.
        """
        self._queue.put(item, block, timeout).get()

    def get(
        self,
        block: bool = True,  # noqa: FBT001, FBT002  # as in the standard library
        timeout: float | None = None,
    ) -> T:
        """Takes the first item; waits while there is none.

        Args:
            block: False fails at once if there is none.
            timeout: Seconds to wait for one at the most, or None.

        Raises:
            Empty: There is none, or not in time.
            ValueError: ``timeout`` is negative.
        """
        return self._queue.get(block, timeout).get()

    def put_nowait(self, item: T) -> None:
        """Puts an item at the end, or raises Full."""
        self.put(item, block=False)

    def get_nowait(self) -> T:
        """Takes the first item, or raises Empty."""
        return self.get(block=False)

    def put_nowait_batch(self, items: Iterable[T]) -> None:
        """Puts several items at the end, or none of them and raises Full."""
        self._queue.put_nowait_batch(items).get()

    def get_nowait_batch(self, num_items: int) -> list[T]:
        """Takes the first items, so many, or none and raises Empty."""
        return self._queue.get_nowait_batch(num_items).get()

    async def put_async(
        self,
        item: T,
        block: bool = True,  # noqa: FBT001, FBT002  # as in the standard library
        timeout: float | None = None,  # noqa: ASYNC109  # likewise
    ) -> None:
        """``put`` to be awaited."""
        await self._queue.put(item, block, timeout)

    async def get_async(
        self,
        block: bool = True,  # noqa: FBT001, FBT002  # as in the standard library
        timeout: float | None = None,  # noqa: ASYNC109  # likewise
    ) -> T:
        """``get`` to be awaited."""
        return await self._queue.get(block, timeout)

    async def put_nowait_async(self, item: T) -> None:
        """``put_nowait`` to be awaited."""
        await self.put_async(item, block=False)

    async def get_nowait_async(self) -> T:
        """``get_nowait`` to be awaited."""
        return await self.get_async(block=False)

    def shutdown(
        self,
        force: bool = False,  # noqa: FBT001, FBT002  # as Ray's users write it
        grace_period_s: float = 5,
    ) -> None:
        """Ends the queue's actor; what is in it is gone.

        Args:
            force: Whether it is ended without serving what it was sent.
            grace_period_s: Seconds that it is given otherwise.
        """
        self._is_shut_down = True
        self._queue.shutdown(0 if force else grace_period_s).get()
