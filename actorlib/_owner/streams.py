"""Streams that the owner's own code reads, on whichever thread it runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from actorlib._core.object_ref import ResultOwner

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from actorlib._core.object_ref import ObjectRef


class StreamSource(Protocol):
    """Makes the items of streams: the router of an actor, or the pool of functions."""

    def taken(self, number: int, count: int) -> None:
        """Tells whoever makes them how many of them were taken."""
        ...


class CallsWithStreams(ResultOwner, StreamSource, Protocol):
    """Keeps calls whose answers may be streams."""

    def interrupt(self, call: int, *, recursive: bool = True) -> object:
        """Stops a call wherever it is; see ResultOwner."""
        ...

    def label_of(self, call: int) -> str:
        """Names a call in messages; empty if it is over."""
        ...


class OwnerFeed:
    """Reads streams for the owner's own code; see StreamOwner.

    Args:
        loop: The owner's loop.
        calls: The calls that they are of.
    """

    __slots__ = ("_calls", "_loop", "_thread")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, calls: CallsWithStreams
    ) -> None:
        self._loop = loop
        self._calls = calls
        self._thread = threading.get_ident()

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Stops the call; see ResultOwner."""
        self._calls.cancel(call, recursive=recursive)

    def interrupt(self, call: int, *, recursive: bool = True) -> None:
        """Stops the call wherever it is; see ResultOwner."""
        self._calls.interrupt(call, recursive=recursive)

    def label_of(self, call: int) -> str:
        """Names the call in messages; see ResultOwner."""
        return self._calls.label_of(call)

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; see ResultOwner."""
        self._calls.watch(ref, then)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks a thread beside the loop; see ResultOwner."""
        self._calls.wait(ref, timeout)

    def name(self) -> bytes:
        """Makes an id for what a ref stands for; see ResultOwner."""
        return self._calls.name()

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        """Says how a ref is pickled into a value that is sent; see ResultOwner."""
        return self._calls.travel(ref)

    def taken(self, number: int, count: int) -> None:
        """Tells how many items were taken; see StreamOwner."""
        if threading.get_ident() == self._thread:
            self._calls.taken(number, count)
        else:
            self._loop.call_soon_threadsafe(self._calls.taken, number, count)

    def later(self, callback: Callable[[], None]) -> None:
        """Calls back from the loop; see StreamOwner."""
        if threading.get_ident() == self._thread:
            self._loop.call_soon(callback)
        else:
            self._loop.call_soon_threadsafe(callback)
