"""Receives the items of a generator's call in this process.

``async for ref in h.items.remote(10): print(await ref)``, and in plain methods of
actors ``for ref in gen: ref.get()``: users have an ``ObjectRefGenerator``. Items are
refs that are done. A ``break`` out of the loop, a cancellation in it, or the end of the
generator's last reference cancels the call, like an ordinary generator.

Behind it is a ``StreamReader``. It has the place of a ref in the engine's table of
calls. The engine adds items on the thread that reads its pipe, readers take them on any
thread, and the generator's destructor may run in the middle of either. So there is a
lock, and a dropped generator only schedules its cancellation. A reader without an item
waits for the next *arrival*, which is a ref too. So the wait is the same as for any
other result, blocking or awaiting, and a cancelled wait loses nothing.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, Self, TypeVar

from actorlib._base.public import public
from actorlib._futures.flow_control import UNREAD, ReceiveWindow, bounds_of
from actorlib._futures.object_ref import ObjectRef, ResultOwner, label_of_call
from actorlib._loops.loop_thread import run_on_loop_of
from actorlib.exceptions import ProtocolError, TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from actorlib._futures.flow_control import Bounds
    from actorlib._options.callee import Callee


R = TypeVar("R")
NO_ITEM = -1
"""The size of an item that does not count as unread."""


class ForceCancel(Protocol):
    """Cancels a call by its number, and ends the process that runs it."""

    def __call__(self, call: int, *, recursive: bool) -> None: ...


class StreamOwner(ResultOwner, Protocol):
    """The interface of the engine that receives the items of a StreamReader.

    The owner's ``UnansweredCalls`` and the worker's clients implement it. Ray's
    ``RayTask`` has only the methods of ``ResultOwner``.
    """

    def taken(self, number: int, count: int) -> None:
        """Sends the number of items taken to the producer, or UNREAD."""
        ...

    def later(self, callback: Callable[[], None]) -> None:
        """Schedules a callback on the engine's thread; callable from a destructor."""
        ...


class StreamReader:
    """Receives the items of one call, in order; the result owner of their refs.

    Attributes:
        call: The engine's number for the call.
        completed: The whole call: its value is the number of items. It is for the
            engine; users get a separate ref, see ``whole``.
        is_detached: Whether the call continues without a reader.
        force_cancel: Cancels the call, and ends the process that runs it; None for
            calls of actors.
        callee: The callee, if the engine keeps no table of calls; see ObjectRef.
    """

    force_cancel: ForceCancel | None = None
    callee: object = ""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        owner: StreamOwner,
        bounds: Bounds,
        *,
        is_capped: bool = False,
        is_detached: bool = False,
    ) -> None:
        self.call = 0
        self.completed: ObjectRef[int] = ObjectRef(loop=loop)
        self.completed.bind(self, 0)
        self.is_detached = is_detached
        self._whole: WholeCall | None = None
        self._loop = loop
        self._owner = owner
        self._is_capped = is_capped
        self._window = ReceiveWindow(bounds, acks_each=is_capped)
        self._lock = threading.Lock()
        self._items: deque[tuple[ObjectRef[Any], int]] = deque()
        self._arrival: ObjectRef[None] | None = None
        self._received = 0
        self._number = 0
        self._is_over = False
        self._is_dropped = False

    @classmethod
    def of(
        cls, callee: Callee, loop: asyncio.AbstractEventLoop, owner: StreamOwner
    ) -> StreamReader:
        options = callee.options
        return cls(
            loop,
            owner,
            bounds_of(options.backpressure or 0),
            is_capped=callee.is_capped,
            is_detached=bool(options.detach),
        )

    # Called by readers.

    @property
    def is_exhausted(self) -> bool:
        """Whether every item was taken and no other will come."""
        return self._is_over and not self._items

    def take(self) -> ObjectRef[Any] | None:
        """Removes and returns the next item; None if there is none now."""
        with self._lock:
            if not self._items:
                return None
            ref, nbytes = self._items.popleft()
            is_due = nbytes != NO_ITEM and self._window.took(nbytes)
        if is_due and (self._is_capped or not self._is_over):
            self._owner.taken(self._number, self._window.count)
        return ref

    def arrival(self) -> ObjectRef[None]:
        """Returns a ref that is done when there is an item to take, or the end."""
        with self._lock:
            if self._arrival is not None:
                return self._arrival
            arrival: ObjectRef[None] = ObjectRef(loop=self._loop)
            arrival.bind(self, 0)
            if self._items or self._is_over:
                arrival.set_result(None)
            else:
                self._arrival = arrival
        return arrival

    def whole(self, reader: object) -> ObjectRef[int]:
        """Returns the whole call, as a ref that keeps the generator ``reader`` alive.

        A wait for the whole call keeps it running, even if no items are taken.
        """
        with self._lock:
            if self._whole is None:
                self._whole = WholeCall(self.completed, self)
        return self._whole.ref(reader)

    def drop(self) -> None:
        """Drops items from now on, and cancels the call unless it is detached.

        The producer of a detached call learns of it after it has sent an item.
        """
        with self._lock:
            if self._is_dropped:
                return
            self._is_dropped = True
            items, self._items = self._items, deque()
            runs_on = self.is_detached and not self._is_over
            is_due = bool(self._number) and (self._is_capped or runs_on)
        del items  # outside of the lock: it may run destructors of the user
        if is_due:
            self._owner.taken(self._number, UNREAD)
        if not self._is_over and not self.is_detached:
            self.completed.cancel()
        self._arrived()

    def drop_soon(self) -> None:
        """Schedules ``drop``; for a destructor."""
        if not self._is_capped and self._is_over:
            self._items.clear()  # there is nothing else to do
            return
        with suppress(RuntimeError):  # the loop is closed
            self._owner.later(self.drop)

    # Called by the engine.

    def bind(self, engine: ResultOwner, call: int) -> None:
        """Sets the number of its call; it already has its owner."""
        del engine
        self.call = call

    @property
    def has_received(self) -> bool:
        return self._received > 0

    def move_to(self, owner: StreamOwner) -> None:
        """Switches to another engine, before the first item has come."""
        self._owner = owner

    def put(
        self,
        number: int,
        index: int,
        payload: Any,
        load: Callable[[ObjectRef[Any], Any], None],
    ) -> None:
        """Receives an item.

        Args:
            number: The producer's number of the stream.
            index: The index of the item, from 0. An index that has come before is
                ignored: a call that is sent again makes its items again.
            payload: The encoded item.
            load: Decodes a payload into a ref.
        """
        self._number = number
        if index < self._received or self._is_dropped or self._is_over:
            if index == 0 and not self._is_over:
                self._acknowledge_again()
            return
        if index > self._received:
            self._fail_incomplete(index)
            return
        ref: ObjectRef[Any] = ObjectRef(loop=self._loop)
        ref.bind(self, 0)
        try:
            load(ref, payload)
        finally:  # even if the decoding was interrupted: then the ref fails
            with self._lock:
                self._received += 1
                if not self._is_over and not self._is_dropped:
                    self._items.append((ref, _size_of(payload)))
            if self._arrival is not None:
                self._arrived()

    def _fail_incomplete(self, sent: int) -> None:
        self.set_exception(
            ProtocolError(
                f"a stream has lost items: {sent} were sent, and {self._received} have "
                "come. This is a bug in actorlib"
            )
        )

    @property
    def lags(self) -> bool:
        return bool(self._items)

    def done(self) -> bool:
        return self._is_over

    def set_result(self, count: int) -> None:
        """Ends the stream after all items; ``count`` is their number."""
        if type(count) is not int:
            message = (
                f"a stream ended with {count!r} in place of the number of its items. "
                "This is a bug in actorlib"
            )
            self.set_exception(ProtocolError(message))
            return
        if count > self._received and not self._is_dropped and not self._is_over:
            self._fail_incomplete(count)
            return
        self._end(None)
        if not self.completed.done():
            self.completed.set_result(count)
        self._pass_on()

    def set_exception(self, error: BaseException) -> None:
        """Ends the stream with an error, after the items that have come."""
        self._end(error)
        if not self.completed.done():
            self.completed.set_exception(error)
            # The last item raises it; a dropped stream has no reader.
            if not self._is_dropped or isinstance(error, TaskCancelledError):
                self.completed.exception()
        self._pass_on()

    def exception(self) -> None:
        """Marks the error as seen, so that asyncio does not log it."""
        self.completed.exception()
        for ref, _ in tuple(self._items):  # another thread may take one meanwhile
            ref.exception()

    # The methods of ResultOwner, for its refs.

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Cancels the call, and drops the items that were not taken."""
        del call  # its refs have no numbers
        self._owner.cancel(self.call, recursive=recursive)
        self._end_cancelled()

    @property
    def interrupt(self) -> ForceCancel | None:
        """Cancels the call and interrupts a plain method; None if impossible."""
        stop: ForceCancel | None = getattr(self._owner, "interrupt", None)
        return None if stop is None else partial(self._stop_by, stop)

    def allow_force(self, force_cancel: ForceCancel) -> None:
        """Allows a cancellation by force, by the engine's number for the call."""
        self.force_cancel = partial(self._stop_by, force_cancel)

    def _stop_by(self, stop: ForceCancel, call: int, *, recursive: bool) -> None:
        del call  # its refs have no numbers
        stop(self.call, recursive=recursive)
        self._end_cancelled()

    def _end_cancelled(self) -> None:
        with self._lock:
            items, self._items = self._items, deque()
        del items
        self._end(TaskCancelledError("the call was cancelled"))
        for ref, _ in tuple(self._items):  # another thread may take one meanwhile
            ref.exception()
        if not self.completed.done():
            self.completed.set_cancelled()
        self._pass_on()

    def _pass_on(self) -> None:
        if self._whole is not None:
            self._whole.update()

    def label_of(self, call: int = 0) -> str:
        del call  # its refs have no numbers
        return label_of_call(self._owner, self.call) or str(self.callee)

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """Does nothing: a stream ends without a reader."""

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        self._owner.watch(ref, then)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        self._owner.wait(ref, timeout)

    def name(self) -> bytes:
        return self._owner.name()

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        return self._owner.travel(ref)

    def _acknowledge_again(self) -> None:
        """Repeats the acknowledgement for a producer that starts again."""
        if self._is_dropped:
            self._owner.taken(self._number, UNREAD)
        elif self._window.count:
            self._owner.taken(self._number, self._window.count)

    def _end(self, error: BaseException | None) -> None:
        failed: ObjectRef[Any] | None = None
        if error is not None:
            failed = ObjectRef(loop=self._loop)
            failed.bind(self, 0)
            failed.set_exception(error)
        with self._lock:
            if failed is not None and not self._is_over:
                if self._is_dropped:
                    failed.exception()
                else:
                    self._items.append((failed, NO_ITEM))
            self._is_over = True
        self._arrived()

    def _arrived(self) -> None:
        with self._lock:
            arrival, self._arrival = self._arrival, None
        if arrival is not None and not arrival.done():
            arrival.set_result(None)


class WholeCall:
    """Returns the whole call of a stream as a ref that keeps the generator."""

    __slots__ = ("_completed", "_lock", "_owner", "_ref")

    def __init__(self, completed: ObjectRef[int], owner: ResultOwner) -> None:
        self._completed = completed
        self._owner = owner
        # Reentrant: a destructor may end the stream while its thread holds the lock.
        self._lock = threading.RLock()
        self._ref: weakref.ref[ObjectRef[int]] | None = None

    def ref(self, generator: object) -> ObjectRef[int]:
        """Returns the ref, the same one as long as it is held."""
        with self._lock:
            earlier = None if self._ref is None else self._ref()
            if earlier is not None:
                return earlier
            ref: ObjectRef[int] = ObjectRef(loop=self._completed.get_loop())
            ref.bind(self._owner, 0)
            ref.generator = generator
            self._ref = weakref.ref(ref)
            copy_outcome(self._completed, ref)
        return ref

    def update(self) -> None:
        """Copies the outcome of the call to the ref, if the ref is held."""
        with self._lock:
            ref = None if self._ref is None else self._ref()
        if ref is not None:
            copy_outcome(self._completed, ref)


def copy_outcome(ref: ObjectRef[R], to: ObjectRef[R]) -> None:
    if not ref.done() or to.done():
        return
    if ref.cancelled():
        to.set_cancelled()
        return
    error = ref.exception()
    if error is None:
        to.set_result(ref.result())
    else:
        to.set_exception(error)
        to.exception()  # the last item raises it


def _size_of(payload: Any) -> int:
    if type(payload) is bytes:
        return len(payload)
    sizes = getattr(payload, "sizes", None)  # of a value in shared memory
    return sum(map(len, payload)) if sizes is None else sum(sizes)


@public("actorlib")
class ObjectRefGenerator(Generic[R]):
    """The items of one call, in order, while the method still runs.

    The method is never further ahead of its reader than its limit (``backpressure=``).
    It is cancelled when the generator is closed or dropped, or when a wait for an item
    is cancelled: its ``finally`` blocks run, and its actor is free. With
    ``detach=True`` it runs to its end instead, and its items are dropped. A holder of
    ``completed()`` keeps the call.

    If the method raises, or its actor dies, the last ref raises that exception. Several
    tasks may read from one generator: each item goes to one of them.

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

    __slots__ = ("__weakref__", "_reader", "_waits")

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader
        self._waits = 0

    def __iter__(self) -> Self:
        """Returns the generator itself: for plain methods of actors."""
        return self

    def __next__(self) -> ObjectRef[R]:
        """Blocks this thread until the next item is there.

        Raises:
            StopIteration: There are no more items.
            RuntimeError: This thread runs the event loop: write ``async for``.
        """
        reader = self._reader
        while (ref := reader.take()) is None:
            if reader.is_exhausted:
                raise StopIteration
            try:
                reader.arrival().get()
            except RuntimeError as error:
                if asyncio._get_running_loop() is None:  # noqa: SLF001  # None in a fork, too
                    raise
                raise RuntimeError(
                    "a plain 'for' over a stream would block the event loop that "
                    "receives its items: write 'async for' instead"
                ) from error
        return ref

    def values(self) -> StreamValues[R]:
        """Returns the values of the items instead of their refs.

        Example:
            >>> @actorlib.remote
            ... def squares(n):
            ...     for x in range(n):
            ...         yield x * x
            >>> [value async for value in squares.remote(4).values()]
            [0, 1, 4, 9]
        """
        return StreamValues(self)

    def __aiter__(self) -> Self:
        """Returns the generator itself."""
        return self

    async def __anext__(self) -> ObjectRef[R]:
        """Waits until the next item is there.

        Cancelled: the call is cancelled too, unless it is detached or another task
        waits for an item. To check for an item without that risk, use
        ``actorlib.wait``.

        Raises:
            StopAsyncIteration: There are no more items.
        """
        reader = self._reader
        while (ref := reader.take()) is None:
            if reader.is_exhausted:
                raise StopAsyncIteration
            self._waits += 1
            try:
                await reader.arrival()
            except asyncio.CancelledError:
                if self._waits == 1 and not reader.is_detached:
                    self.cancel()
                raise
            finally:
                self._waits -= 1
        return ref

    if not TYPE_CHECKING:  # type checkers refuse it by themselves

        def __await__(self) -> NoReturn:
            """Refuses: a generator has several results."""
            raise TypeError(
                "a call of a generator returns a stream of refs, which cannot be "
                "awaited: write 'async for ref in stream: value = await ref', or "
                "'await stream.completed()' to wait for the end"
            )

    def next_ready(self) -> bool:
        """Whether the next item is there, so that ``next()`` would not wait."""
        reader = self._reader
        return not reader.is_exhausted and reader.arrival().done()

    def is_finished(self) -> bool:
        """Whether every item was taken, and no other will come."""
        return self._reader.is_exhausted

    def completed(self) -> ObjectRef[int]:
        """Returns a ref of the whole call: the number of its items, or its error.

        A holder of this ref keeps the call, even if the generator itself is dropped.
        """
        return self._reader.whole(self)

    def cancel(
        self, *, recursive: bool = True, force: bool = False, interrupt: bool = False
    ) -> bool:
        """Stops the method at its yield, or an ``async def`` at its await.

        A remote function is interrupted at any line. ``finally`` blocks run. Items that
        were not taken are dropped: the next ref raises TaskCancelledError and is the
        last.

        Args:
            recursive: If True, the calls that it has made are cancelled, too. Default:
                True.
            force: If True, the process of a running function is ended. A call of an
                actor does not accept it: ``kill`` ends the actor. Default: False.
            interrupt: If True, a plain method gets ``KeyboardInterrupt`` at its current
                line; see ``actorlib.cancel``. Default: False.

        Returns:
            False if the call is done already; its items stay.

        Raises:
            TypeError: ``recursive``, ``force`` or ``interrupt`` is not a bool.
            ValueError: ``force`` for an actor; ``interrupt`` for a call that this
                program has not made itself, or with ``force``.
        """
        return self._reader.completed.cancel(
            recursive=recursive, force=force, interrupt=interrupt
        )

    def close(self) -> None:
        """Ends the method, unless it is detached; no more items can be read.

        ``contextlib.closing(h.items.remote())`` closes it at the end of a block.
        """
        reader = self._reader
        if reader.done():
            reader.drop()
        else:  # a task on the loop may wait for an item, and another thread close it
            run_on_loop_of(reader.completed, reader.drop)

    async def aclose(self) -> None:
        """Ends the method, like ``close``; for ``contextlib.aclosing``."""
        self.close()

    def __del__(self) -> None:
        with suppress(AttributeError):  # the interpreter shuts down
            self._reader.drop_soon()

    def __repr__(self) -> str:
        reader = self._reader
        if reader.done():
            return "<ObjectRefGenerator finished>"
        where = reader.completed.call_label
        return f"<ObjectRefGenerator running{where and f': {where}'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an ObjectRefGenerator cannot be sent to another process: send the refs of "
            "its items, or the handle of the actor, which can be called there"
        )


if TYPE_CHECKING:

    class UntypedResult(ObjectRef[Any], ObjectRefGenerator[Any]):  # type: ignore[misc]  # pyright: ignore[reportIncompatibleMethodOverride]  # one of the two
        """The result of a method or a function of unknown type: a ref, or a stream.

        With ``num_returns=2`` it is a list of refs.
        """

        def __iter__(self) -> Iterator[ObjectRef[Any]]: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # one of the two


@public("actorlib.types")
class StreamValues(Generic[R]):
    """The values of a stream: ``async for``, or ``for`` in plain methods of actors.

    It is what ``stream.values()`` returns. The next value is taken after the code that
    uses one, as with the refs.
    """

    def __init__(self, stream: ObjectRefGenerator[R]) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[R]:
        """Yields the values; blocks this thread until each is there."""
        for ref in self._stream:
            yield ref.get()

    async def __aiter__(self) -> AsyncIterator[R]:
        """Yields the values as they arrive."""
        async for ref in self._stream:
            yield await ref


def reader_of(generator: ObjectRefGenerator[Any]) -> StreamReader:
    return generator._reader  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
