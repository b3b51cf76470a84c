"""What a call of a generator gives: its items, one ref after the other.

``async for ref in h.items.remote(10): print(await ref)``, and in plain methods of
actors ``for ref in gen: ref.get()``. Each step waits until the next item is there, so
its ref is done; a ref that is kept is good for ever.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Generic, NoReturn, Self, TypeVar

if TYPE_CHECKING:
    from actorlib._reading import Reading
    from actorlib._ref import ObjectRef

R = TypeVar("R")


class ObjectRefGenerator(Generic[R]):
    """The items of one call, in order, while the method still runs.

    The producer is a bounded number of items ahead of what was taken
    (``backpressure=``). When the generator is dropped, the method runs on to its end
    and its items are thrown away where they are made; ``cancel()`` stops it.

    An exception of the method comes as the last ref, which raises it; so does the
    actor's death. Several may read from one generator: each item goes to one of them.
    """

    __slots__ = ("__weakref__", "_reading")

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

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
        """Waits until the next item is there; cancelled: no item is lost.

        Raises:
            StopAsyncIteration: There are no more.
        """
        reading = self._reading
        while (ref := reading.take()) is None:
            if reading.is_exhausted:
                raise StopAsyncIteration
            await reading.arrival()
        return ref

    def completed(self) -> ObjectRef[int]:
        """The whole call: the number of its items, or what it raised."""
        return self._reading.completed

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

    async def aclose(self) -> None:
        """Stops the method likewise; there are no more items, for whoever reads."""
        self.cancel()
        self._reading.drop()

    def __del__(self) -> None:
        with suppress(AttributeError):  # the interpreter is going down
            self._reading.drop_soon()

    def __repr__(self) -> str:
        state = "finished" if self._reading.done() else "running"
        return f"<ObjectRefGenerator {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an ObjectRefGenerator cannot travel: pass its items, or the handle of the "
            "actor that makes them"
        )
