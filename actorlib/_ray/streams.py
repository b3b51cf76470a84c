"""Reads a Ray stream: the reader behind ``ObjectRefGenerator`` on Ray.

It does not read ahead, as Ray lets a producer continue when an item is read. A waiting
reader requests the next ref, which may not exist yet, and Ray calls back when it does.
"""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from actorlib._futures.object_ref import ObjectRef, mark_seen
from actorlib._futures.stream_reader import WholeCall
from actorlib._ray.ray_api import error_class, fetch, peek_item, ray, read_item
from actorlib._ray.refs import FailedAnswer, RayTask
from actorlib.exceptions import DeadlineExceededError, TaskCancelledError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._core.current_call import Deadline
    from actorlib._ray.actors import Actor
    from actorlib._ray.process import ProcessState
    from actorlib._ray.refs import PendingCall

_RAY_ERROR = error_class()
_END = cast("type[Exception]", ray.exceptions.ObjectRefStreamEndOfStreamError)


class RayStreamReader:
    """Reads a Ray generator, with the interface of StreamReader.

    Attributes:
        completed: The whole call: its value is the number of items.
        is_detached: Whether the call continues without a reader.
    """

    def __init__(
        self,
        process: ProcessState,
        generator: Any,
        where: str,
        actor: Actor | None,
        pending_call: PendingCall | None = None,
        *,
        is_detached: bool = False,
    ) -> None:
        self.is_detached = is_detached
        self._whole: WholeCall | None = None
        self._process = process
        self._generator = generator
        self._where = where
        self._actor = actor
        self._lock = threading.RLock()
        self._unfetched: deque[Any] = deque()
        self._items: deque[ObjectRef[Any]] = deque()
        self._arrival: ObjectRef[None] | None = None
        self._is_asking = False
        self._is_ending = False
        self._is_over = False
        self._has_failed = False
        self._count = 0
        self._task = RayTask(
            process, generator.completed(), where, actor, self._completed, pending_call
        )
        self.completed: ObjectRef[int] = self._task.ref()
        self.completed.bind(self, 0)
        self.completed.add_done_callback(mark_seen)  # the last item has the error
        self.completed.add_done_callback(self._pass_on)
        self._task.on_done = self._whole_done

    # For readers.

    @property
    def is_exhausted(self) -> bool:
        """Whether all items were taken and no item will come."""
        return self._is_over and not self._items and not self._unfetched

    def take(self) -> ObjectRef[Any] | None:
        """Returns the next item, or None if there is none now."""
        with self._lock:
            return self._items.popleft() if self._items else None

    def arrival(self) -> ObjectRef[None]:
        """Returns a ref that is done when there is an item, or at the end."""
        with self._lock:
            if self._arrival is not None:
                return self._arrival
            arrival: ObjectRef[None] = ObjectRef(loop=self._process.loop)
            arrival.bind(self, 0)
            if self._items or self.is_exhausted:
                arrival.set_result(None)
                return arrival
            self._arrival = arrival
            if not self._is_asking:
                self._ask()
        return arrival

    def whole(self, reader: object) -> ObjectRef[int]:
        """Returns the ref of the whole call; it holds the reader; see StreamReader."""
        with self._lock:
            if self._whole is None:
                self._whole = WholeCall(self.completed, self)
        return self._whole.ref(reader)

    def _pass_on(self, completed: object) -> None:
        del completed
        if self._whole is not None:
            self._whole.update()

    def drop(self) -> None:
        """Ends the reading: cancels the call, unless it is detached.

        Ray discards further items of a detached one.
        """
        if not self._is_over and not self.is_detached:
            self.completed.cancel()
        with self._lock:
            self._generator = None
            self._unfetched.clear()
            items, self._items = self._items, deque()
            self._is_over = True
        del items  # outside of the lock: this may run the user's destructors
        self._arrived()

    def drop_soon(self) -> None:
        """Does the same later, for destructors."""
        self._process.post(self.drop)

    def done(self) -> bool:
        """Whether the stream has ended."""
        return self._is_over

    # The owner of its refs' results; items have owners of their own.

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Cancels the call, and drops items that were not taken; see ResultOwner."""
        del call
        self._task.cancel(0, recursive=recursive)
        self._give_up(TaskCancelledError("the call was cancelled"))

    def is_due(self, deadline: Deadline) -> None:
        """Ends the call at its deadline; see RayTask."""
        self._task.is_due(deadline)
        self.completed.add_done_callback(self._late)

    def _late(self, completed: ObjectRef[int]) -> None:
        if not completed.cancelled():
            error = completed.exception()
            if isinstance(error, DeadlineExceededError) and not self._is_over:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Drops the items that were not taken, and ends with an error."""
        with self._lock:
            self._unfetched.clear()
            items, self._items = self._items, deque()
            self._is_over = True
            self._items.append(self._failed(error))
        del items
        self._arrived()

    def label_of(self, call: int) -> str:
        """Returns the name of the call in messages; see ResultOwner."""
        del call  # its own refs have no number
        return self._where

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """Does nothing: ``drop`` ends a stream without a reader; see ResultOwner."""

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; see ResultOwner."""
        self._task.watch(ref, then)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks this thread until a ref is done; see ResultOwner."""
        self._task.wait(ref, timeout)

    def name(self) -> bytes:
        """Makes an id for a ref; see ResultOwner."""
        return self._task.name()

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        """Reduces a ref for pickle; see ResultOwner."""
        return self._task.travel(ref)

    # Items.

    def _ask(self) -> None:
        """Requests the next item from Ray; under the lock."""
        self._is_asking = True
        if self._unfetched:
            ref = self._unfetched.popleft()
            fetch(ref, partial(self._post, ref))
        else:
            fetch(peek_item(self._generator), partial(self._post, None))

    def _post(self, ref: Any, answer: Any) -> None:
        """Passes an item on; on a Ray thread."""
        self._process.post(self._came, ref, answer)

    def _came(self, ref: Any, answer: Any) -> None:
        if self._task.is_late:  # the timer may not have run yet
            self._task.expire()
        with self._lock:
            self._is_asking = False
            if self._is_over:
                return
            if ref is None:
                ref = self._unfetched.popleft() if self._unfetched else self._read()
            if ref is not None:
                self._put(ref, answer)
            elif isinstance(answer, _RAY_ERROR) and not isinstance(answer, _END):
                self._put(self._task.ray_ref, answer)
        if ref is None and not self._is_over:
            self._end()
        else:
            self._arrived()

    def _read(self) -> Any | None:
        ref = None if self._generator is None else read_item(self._generator)
        if ref is not None:
            self._count += 1
        return ref

    def _put(self, ray_ref: Any, answer: Any) -> None:
        if isinstance(answer, _RAY_ERROR):
            self._has_failed = True
        item = RayTask(self._process, ray_ref, self._where, self._actor)
        self._items.append(item.filled(answer))

    def _end(self) -> None:
        """Ends the reading; the call itself may still fail."""
        self._is_ending = True
        if self.completed.done():
            self._close()

    def _whole_done(self) -> None:
        self._pass_on(self.completed)
        if self._is_ending:
            self._close()

    def _close(self) -> None:
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            is_cut = self.completed.cancelled()  # the error was added then
            error = None if is_cut else self.completed.exception()
            if error is not None and not self._has_failed:
                self._items.append(self._failed(error))
        self._arrived()

    def _completed(self, answer: Any) -> Any:
        """Reads the remaining items at the end of the call."""
        with self._lock:
            while not self._is_over and (ref := self._read()) is not None:
                self._unfetched.append(ref)
            if isinstance(answer, _RAY_ERROR):
                return answer
            return self._count

    def _failed(self, error: BaseException) -> ObjectRef[Any]:
        task = RayTask(self._process, self._task.ray_ref, self._where)
        ref = task.filled(FailedAnswer(error))
        ref.exception()  # asyncio does not log it if no reader is left
        return ref

    def _arrived(self) -> None:
        with self._lock:
            arrival, self._arrival = self._arrival, None
        if arrival is not None and not arrival.done():
            arrival.set_result(None)
