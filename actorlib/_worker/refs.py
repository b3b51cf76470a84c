"""What a worker has asked and has no answer to, by its own numbers.

A ref is held strongly until a wait for it is cancelled, and weakly from then on.
"""

from __future__ import annotations

import itertools
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from actorlib._reading import Reading
from actorlib._ref import ObjectRef
from actorlib._wire.answers import fill, load
from actorlib._wire.frames import CANCELLED, FAILURE, Frame

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from actorlib._ref import Replier

_Entry = ObjectRef[Any] | weakref.ref[ObjectRef[Any]] | Reading


class Refs:
    """Refs and streams without an answer.

    Args:
        loop: What they take for their loop.
        replier: Who fills them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, replier: Replier) -> None:
        self._loop = loop
        self._replier = replier
        self._numbers = itertools.count(1)
        self._entries: dict[int, _Entry] = {}
        self._lost: Exception | None = None

    def __contains__(self, call: object) -> bool:
        """Whether somebody waits for a call."""
        return call in self._entries

    def new(self, replier: Replier | None = None) -> ObjectRef[Any]:
        """A ref with the number under which its answer will come.

        Args:
            replier: Who fills it; None for whoever fills most of them.
        """
        ref: ObjectRef[Any] = ObjectRef(loop=self._loop)
        self.adopt(ref)
        if replier is not None:
            ref.bind(replier, ref.call)
        return ref

    def unasked(self, cls: type[ObjectRef[Any]]) -> ObjectRef[Any]:
        """A ref that no answer comes for yet."""
        ref = cls(loop=self._loop)
        ref.bind(self._replier, 0)
        return ref

    def adopt(self, ref: ObjectRef[Any]) -> None:
        """Gives a ref the number under which its answer will come."""
        ref.bind(self._replier, next(self._numbers))
        self._entries[ref.call] = ref
        if self._lost is not None:
            self.fail(ref.call, self._lost)

    def add(self, reading: Reading) -> None:
        """Gives a stream the number under which its items will come."""
        reading.bind(self._replier, next(self._numbers))
        self._entries[reading.call] = reading

    def drop(self, call: int) -> bool:
        """Nobody waits for a call any more; whether somebody did."""
        return self._entries.pop(call, None) is not None

    def loosen(self, ref: ObjectRef[Any], gone: Callable[[object], None]) -> None:
        """Holds a ref weakly from now on.

        Args:
            ref: The ref.
            gone: Called when nobody holds it; anywhere.
        """
        if ref.call in self._entries:
            self._entries[ref.call] = weakref.ref(ref, gone)

    def settle(self, frame: Frame) -> None:
        """Fills the ref that a frame answers."""
        ref = self._taken(frame[1])
        if ref is not None and not ref.done():
            fill(ref, frame)
            if frame[0] == FAILURE and frame[2] == CANCELLED:
                ref.exception()  # no report of a ref that nobody awaits any more

    def item(self, frame: Frame) -> None:
        """Gives an item to the stream that it is of."""
        reading = self._entries.get(frame[1])
        if isinstance(reading, Reading):
            reading.put(frame[1], frame[2], frame[4], partial(load, loans=frame[3]))

    def fail(self, call: int, error: BaseException) -> None:
        """A call gets no answer."""
        ref = self._taken(call)
        if ref is not None and not ref.done():
            ref.set_exception(error)

    def fail_all(self, error: Exception) -> None:
        """Nothing that was or will be asked is answered."""
        self._lost = error
        for call in list(self._entries):
            self.fail(call, error)

    def _taken(self, call: int) -> ObjectRef[Any] | Reading | None:
        entry = self._entries.pop(call, None)
        return entry() if isinstance(entry, weakref.ref) else entry
