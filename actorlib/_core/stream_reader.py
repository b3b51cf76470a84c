"""A stream as it is read in this process: what has come, what was taken, its end.

It stands in the engine's table of calls as a ref does, and takes items besides. The
engine puts items in where it reads its pipe, readers take them in any thread, and the
generator's destructor may run in the middle of either; hence the lock, and hence a
dropped generator only leaves a note for the engine.

Items are refs that are done. Whoever finds none waits for the next *arrival*, a ref
too, so waiting is the same here as for any other result, blocking or awaiting, and a
wait that is cancelled loses nothing.

What a call of a generator gives: its items, one ref after the other.

``async for ref in h.items.remote(10): print(await ref)``, and in plain methods of
actors ``for ref in gen: ref.get()``. Each step waits until the next item is there, so
its ref is done; a ref that is kept is good for ever.

It ends as a generator of one's own does: whoever breaks out of the loop, is cancelled
in it or loses the generator ends what makes the items.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, Self, TypeVar

from actorlib._core.flow_control import UNREAD, ReceiveWindow, bounds_of
from actorlib._core.loop_thread import at_home
from actorlib._core.object_ref import (
    ObjectRef,
    ResultOwner,
    bind,
    called,
    give_up,
    named,
    read_by,
)
from actorlib._core.public import public
from actorlib.exceptions import ProtocolError, TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._core.callee import Callee
    from actorlib._core.flow_control import Bounds


R = TypeVar("R")
_NO_ITEM = -1


class Force(Protocol):
    """Stops a call, and ends the process that it runs in."""

    def __call__(self, call: int, *, recursive: bool) -> None:
        """Stops a call by its number, and perhaps the calls that it has made."""
        ...


class Feed(Protocol):
    """What a stream needs of the engine that it comes through."""

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Stops the call; see Replier."""
        ...

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; see Replier."""
        ...

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks this thread until the ref is done; see Replier."""
        ...

    def name(self) -> bytes:
        """An id for what a ref stands for; see Replier."""
        ...

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        """How a ref is pickled into a value that is being sent; see Replier."""
        ...

    def taken(self, number: int, count: int) -> None:
        """Tells the producer how many items were taken; UNREAD if nobody reads."""
        ...

    def later(self, callback: Callable[[], None]) -> None:
        """Calls back where no other work of the engine is under way."""
        ...


class StreamReader:
    """The reader's end of one stream; the replier of its refs.

    Args:
        loop: What its refs take for their loop.
        feed: The engine.
        bounds: How far the producer may be ahead.
        is_capped: Whether other streams of the actor wait for what is taken here.
        is_detached: Whether the call goes on when nobody reads any more.

    Attributes:
        call: The engine's number for the call.
        completed: The whole call: its value is the number of items. It is the
            engine's; a reader gets one of his own, see ``whole``.
        is_detached: See above.
        force: Stops the call, and ends the process that it runs in; None where that
            is an actor's.
        asked: What was called, where the engine does not keep that; see ObjectRef.
    """

    force: Force | None = None
    asked: object = ""
    _engine: ResultOwner

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        feed: Feed,
        bounds: Bounds,
        *,
        is_capped: bool = False,
        is_detached: bool = False,
    ) -> None:
        self.call = 0
        self.completed: ObjectRef[int] = ObjectRef(loop=loop)
        bind(self.completed, self, 0)
        self.is_detached = is_detached
        self._whole: weakref.ref[ObjectRef[int]] | None = None
        self._loop = loop
        self._feed = feed
        self._is_capped = is_capped
        self._tally = ReceiveWindow(bounds, tells_each=is_capped)
        self._lock = threading.Lock()
        self._items: deque[tuple[ObjectRef[Any], int]] = deque()
        self._arrival: ObjectRef[None] | None = None
        self._received = 0
        self._number = 0
        self._is_over = False
        self._is_dropped = False

    @classmethod
    def of(
        cls, callee: Callee, loop: asyncio.AbstractEventLoop, feed: Feed
    ) -> StreamReader:
        """The reader of a call that is about to be made."""
        options = callee.options
        return cls(
            loop,
            feed,
            bounds_of(options.backpressure or 0),
            is_capped=callee.is_capped,
            is_detached=bool(options.detach),
        )

    # For readers.

    @property
    def is_exhausted(self) -> bool:
        """Whether every item was taken and none will come."""
        return self._is_over and not self._items

    def take(self) -> ObjectRef[Any] | None:
        """The next item; None if there is none now."""
        with self._lock:
            if not self._items:
                return None
            ref, nbytes = self._items.popleft()
            tells = nbytes != _NO_ITEM and self._tally.took(nbytes)
        if tells and (self._is_capped or not self._is_over):
            self._feed.taken(self._number, self._tally.count)
        return ref

    def arrival(self) -> ObjectRef[None]:
        """Done when there is an item to be taken, or the end."""
        with self._lock:
            if self._arrival is not None:
                return self._arrival
            arrival: ObjectRef[None] = ObjectRef(loop=self._loop)
            bind(arrival, self, 0)
            if self._items or self._is_over:
                arrival.set_result(None)
            else:
                self._arrival = arrival
        return arrival

    def whole(self, reader: object) -> ObjectRef[int]:
        """The whole call, as a ref that keeps its reader.

        Whoever waits for the whole call wants it to go on, also if he takes no items.

        Args:
            reader: What ``drop`` is called for when it is gone.
        """
        with self._lock:
            known = None if self._whole is None else self._whole()
            if known is not None:
                return known
            whole: ObjectRef[int] = ObjectRef(loop=self._loop)
            bind(whole, self, 0)
            read_by(whole, reader)
            self._whole = weakref.ref(whole)
            pass_on(self.completed, whole)
        return whole

    def drop(self) -> None:
        """Nobody reads any more: the call is cancelled, unless it is detached.

        The producer of a detached one is told once it has sent something.
        """
        with self._lock:
            if self._is_dropped:
                return
            self._is_dropped = True
            items, self._items = self._items, deque()
            is_left = self.is_detached and not self._is_over
            tells = bool(self._number) and (self._is_capped or is_left)
        del items  # not before: it may be the end of the user's own objects
        if tells:
            self._feed.taken(self._number, UNREAD)
        if not self._is_over and not self.is_detached:
            self.completed.cancel()
        self._arrived()

    def drop_soon(self) -> None:
        """The same, from a destructor."""
        if not self._is_capped and self._is_over:
            self._items.clear()  # the rest waits for the garbage collector
            return
        with suppress(RuntimeError):  # the loop is closed
            self._feed.later(self.drop)

    # For the engine.

    def put(
        self,
        number: int,
        index: int,
        payload: Any,
        load: Callable[[ObjectRef[Any], Any], None],
    ) -> None:
        """Takes an item in.

        Args:
            number: What the producer calls the stream.
            index: Which item it is, from 0; one that was there before is passed over,
                as a call that is sent again begins anew.
            payload: The item.
            load: Gives a ref the value in a payload.
        """
        self._number = number
        if index < self._received or self._is_dropped or self._is_over:
            if index == 0 and not self._is_over:
                self._tell_anew()
            return
        if index > self._received:
            self._cut_short(index)
            return
        ref: ObjectRef[Any] = ObjectRef(loop=self._loop)
        bind(ref, self, 0)
        try:
            load(ref, payload)
        finally:  # also if loading it was interrupted: its ref says so
            with self._lock:
                self._received += 1
                if not self._is_over and not self._is_dropped:
                    self._items.append((ref, _size_of(payload)))
            if self._arrival is not None:
                self._arrived()

    def _cut_short(self, made: int) -> None:
        """Items are missing: the stream fails, or a reader would take it for whole."""
        self.set_exception(
            ProtocolError(
                f"{made} items of a stream were made, and {self._received} have come"
            )
        )

    @property
    def lags(self) -> bool:
        """Whether an item is there that nobody has taken."""
        return bool(self._items)

    def done(self) -> bool:
        """Whether the end has come."""
        return self._is_over

    def set_result(self, count: int) -> None:
        """All items have come.

        Args:
            count: How many there were.
        """
        if type(count) is not int:
            told = f"a stream ended with {count!r}, which is no number of items"
            self.set_exception(ProtocolError(told))
            return
        if count > self._received and not self._is_dropped and not self._is_over:
            self._cut_short(count)
            return
        self._end(None)
        if not self.completed.done():
            self.completed.set_result(count)
        self._pass_on()

    def set_exception(self, error: BaseException) -> None:
        """The stream ends with an error, behind the items that have come."""
        self._end(error)
        if not self.completed.done():
            self.completed.set_exception(error)
            # The last item tells of it; and what was cut off, nobody wanted any more.
            if not self._is_dropped or isinstance(error, TaskCancelledError):
                self.completed.exception()
        self._pass_on()

    def exception(self) -> None:
        """Whoever looks knows of the error: nobody has to be told of it."""
        self.completed.exception()
        for ref, _ in self._items:
            ref.exception()

    # The replier of its refs.

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Stops the call; what was not taken is gone; see Replier."""
        del call  # its own refs have no number
        self._feed.cancel(self.call, recursive=recursive)
        self._stopped()

    def may_force(self, stop: Force) -> None:
        """Lets the call be stopped by force.

        Args:
            stop: Does so, by the engine's number for the call.
        """

        def force(call: int, *, recursive: bool) -> None:
            del call  # its own refs have no number
            stop(self.call, recursive=recursive)
            self._stopped()

        self.force = force

    def _stopped(self) -> None:
        with self._lock:
            items, self._items = self._items, deque()
        del items
        self._end(TaskCancelledError("the call was cancelled"))
        for ref, _ in self._items:
            ref.exception()
        if not self.completed.done():
            give_up(self.completed)
        self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            whole = None if self._whole is None else self._whole()
        if whole is not None:
            pass_on(self.completed, whole)

    def called(self, call: int = 0) -> str:
        """What the call is called in messages; see Namer."""
        del call  # its own refs have no number
        return named(self._feed, self.call) or str(self.asked)

    def loosen(self, ref: ObjectRef[Any]) -> None:
        """Nothing: a stream ends by itself when nobody reads; see Replier."""

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; see Replier."""
        self._feed.watch(ref, then)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks this thread until a ref is done; see Replier."""
        self._feed.wait(ref, timeout)

    def name(self) -> bytes:
        """An id for what a ref stands for; see Replier."""
        return self._feed.name()

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        """How a ref is pickled into a value that is being sent; see Replier."""
        return self._feed.travel(ref)

    def _tell_anew(self) -> None:
        """The call begins again: the producer knows nothing of what was taken."""
        if self._is_dropped:
            self._feed.taken(self._number, UNREAD)
        elif self._tally.count:
            self._feed.taken(self._number, self._tally.count)

    def _end(self, error: BaseException | None) -> None:
        failed: ObjectRef[Any] | None = None
        if error is not None:
            failed = ObjectRef(loop=self._loop)
            bind(failed, self, 0)
            failed.set_exception(error)
        with self._lock:
            if failed is not None and not self._is_over:
                if self._is_dropped:
                    failed.exception()
                else:
                    self._items.append((failed, _NO_ITEM))
            self._is_over = True
        self._arrived()

    def _arrived(self) -> None:
        with self._lock:
            arrival, self._arrival = self._arrival, None
        if arrival is not None and not arrival.done():
            arrival.set_result(None)


def pass_on(ref: ObjectRef[R], to: ObjectRef[R]) -> None:
    """Gives one ref what another one has, if it has it and that has nothing yet."""
    if not ref.done() or to.done():
        return
    if ref.cancelled():
        give_up(to)
        return
    error = ref.exception()
    if error is None:
        to.set_result(ref.result())
    else:
        to.set_exception(error)
        to.exception()  # the last item tells of it


def _size_of(payload: Any) -> int:
    if type(payload) is bytes:
        return len(payload)
    sizes = getattr(payload, "sizes", None)  # in shared memory
    return sum(map(len, payload)) if sizes is None else sum(sizes)


@public("actorlib")
class ObjectRefGenerator(Generic[R]):
    """The items of one call, in order, while the method still runs.

    The producer is a bounded number of items ahead of what was taken
    (``backpressure=``). It is cancelled when the generator is closed or dropped, or a
    wait for an item is cancelled: its ``finally`` blocks run, and its actor is free.
    With ``detach=True`` it runs on to its end then, and what it makes is thrown away.
    Who holds ``completed()`` holds the call.

    An exception of the method comes as the last ref, which raises it; so does the
    actor's death. Several may read from one generator: each item goes to one of them.

    Example:
        >>> @actorlib.remote
        ... class Source:
        ...     def lines(self):
        ...         yield "a"
        ...         yield "b"
        >>> generator = Source.remote().lines.remote()
        >>> [await ref async for ref in generator]
        ['a', 'b']
        >>> generator.is_finished()
        True
    """

    __slots__ = ("__weakref__", "_reading", "_waits")

    def __init__(self, reading: StreamReader) -> None:
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
            recursive: Whether the calls that it has made are cancelled too. Default:
                True.
            force: Whether the process of a running function is ended; there is no force
                for an actor but ``kill``. Default: False.

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


def reading_of(generator: ObjectRefGenerator[Any]) -> StreamReader:
    """The reader's end of a stream, for those who wait for several."""
    return generator._reading  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
