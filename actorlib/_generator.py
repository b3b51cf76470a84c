"""What a call of a generator gives: its items, one ref after the other.

``async for ref in h.items.remote(10): print(await ref)``, and in plain methods of
actors ``for ref in gen: ref.get()``. Each step waits until the next item is there, so
its ref is done; a ref that is kept is good for ever.

It ends as a generator of one's own does: whoever breaks out of the loop, is cancelled
in it or loses the generator ends what makes the items.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar

from actorlib._apart import at_home
from actorlib._ref import ObjectRef, called

if TYPE_CHECKING:
    from actorlib._reading import Reading

R = TypeVar("R")


class ObjectRefGenerator(Generic[R]):
    """The items of one call, in order, while the method still runs.

    The producer is a bounded number of items ahead of what was taken
    (``backpressure=``). It is cancelled when the generator is closed or dropped, or a
    wait for an item is cancelled: its ``finally`` blocks run, and its actor is free.
    With ``detach=True`` it runs on to its end then, and what it makes is thrown away.
    Who holds ``completed()`` holds the call.

    An exception of the method comes as the last ref, which raises it; so does the
    actor's death. Several may read from one generator: each item goes to one of them.
    """

    __slots__ = ("__weakref__", "_reading", "_waits")

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._waits = 0

    def __iter__(self) -> Self:
        """The generator itself: for plain methods of actors."""
        return self

    def __next__(self) -> ObjectRef[R]:
        """Blocks this thread until the next item is there.

        Raises:
            StopIteration: There are no more.
            RuntimeError: This thread runs the event loop: write ``async for``.
        """
        reading = self._reading
        while (ref := reading.take()) is None:
            if reading.is_exhausted:
                raise StopIteration
            reading.arrival().get()
        return ref

    def __aiter__(self) -> Self:
        """The generator itself."""
        return self

    async def __anext__(self) -> ObjectRef[R]:
        """Waits until the next item is there.

        Cancelled: the call is cancelled too, unless it is detached or somebody else
        waits for an item. To look again later, ask ``actorlib.wait``.

        Raises:
            StopAsyncIteration: There are no more.
        """
        reading = self._reading
        while (ref := reading.take()) is None:
            if reading.is_exhausted:
                raise StopAsyncIteration
            self._waits += 1
            try:
                await reading.arrival()
            except asyncio.CancelledError:
                if self._waits == 1 and not reading.is_detached:
                    self.cancel()
                raise
            finally:
                self._waits -= 1
        return ref

    def next_ready(self) -> bool:
        """Whether the next item is there, so that ``next()`` would not wait."""
        reading = self._reading
        return not reading.is_exhausted and reading.arrival().done()

    def is_finished(self) -> bool:
        """Whether every item was taken, and no other will come."""
        return self._reading.is_exhausted

    def completed(self) -> ObjectRef[int]:
        """The whole call: the number of its items, or what it raised.

        Who holds it keeps the call, also when the generator itself is dropped.
        """
        return self._reading.whole(self)

    def cancel(self, *, recursive: bool = True, force: bool = False) -> bool:
        """Stops the method at its yield, or an ``async def`` at its await.

        A remote function is interrupted wherever it is. ``finally`` blocks run. What
        was not taken is thrown away: the next ref raises TaskCancelledError and is the
        last.

        Args:
            recursive: Whether the calls that it has made are cancelled too.
            force: Whether the process of a running function is ended; there is no
                force for an actor but ``kill``.

        Returns:
            False if the call is done already; its items stay.

        Raises:
            TypeError: ``recursive`` or ``force`` is no bool.
            ValueError: ``force`` for an actor.
        """
        return self._reading.completed.cancel(recursive=recursive, force=force)

    def close(self) -> None:
        """Ends the method, unless it is detached; there are no more items to be read.

        ``contextlib.closing(h.items.remote())`` does so where a block is left.
        """
        reading = self._reading
        if reading.done():
            reading.drop()
        else:  # somebody may wait for an item on the loop, and another thread close it
            at_home(reading.completed, reading.drop)

    async def aclose(self) -> None:
        """Does the same, as ``contextlib.aclosing`` asks for it."""
        self.close()

    def __del__(self) -> None:
        with suppress(AttributeError):  # the interpreter is going down
            self._reading.drop_soon()

    def __repr__(self) -> str:
        reading = self._reading
        if reading.done():
            return "<ObjectRefGenerator finished>"
        where = called(reading.completed)
        return f"<ObjectRefGenerator running{where and f': {where}'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an ObjectRefGenerator cannot travel: pass its items, or the handle of the "
            "actor that makes them"
        )


def reading_of(generator: ObjectRefGenerator[Any]) -> Reading:
    """The reader's end of a stream, for those who wait for several."""
    return generator._reading  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
