"""Reads a Ray stream: the ``StreamReader`` of ``ObjectRefGenerator`` on Ray.

It does not read ahead, as Ray lets a producer continue when an item is read. A waiting
reader requests the next ref, which may not exist yet, and Ray calls back when it does.
"""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from actorlib._futures.flow_control import bounds_of
from actorlib._futures.object_ref import mark_seen
from actorlib._futures.stream_reader import NO_ITEM, StreamReader
from actorlib._ray.ray_api import error_class, fetch, peek_item, ray, read_item
from actorlib._ray.refs import FailedAnswer, RayTask
from actorlib.exceptions import DeadlineExceededError, TaskCancelledError

if TYPE_CHECKING:
    from actorlib._core.current_call import Deadline
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._ray.actors import Actor
    from actorlib._ray.process import ProcessState
    from actorlib._ray.refs import PendingCall

_RAY_ERROR = error_class()
_END = cast("type[Exception]", ray.exceptions.ObjectRefStreamEndOfStreamError)


class RayStreamReader(StreamReader):
    """Reads a Ray generator; the task of its call is the owner of its refs."""

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
        self._task = task = RayTask(
            process, generator.completed(), where, actor, self._completed, pending_call
        )
        owner = cast("Any", task)  # Ray needs no messages about items that were taken
        super().__init__(process.loop, owner, bounds_of(0), is_detached=is_detached)
        self._process = process
        self._generator = generator
        self._where = where
        self._actor = actor
        # Reentrant: Ray may call back at once, inside of ``fetch``.
        self._lock = threading.RLock()  # type: ignore[assignment]
        self._unfetched: deque[Any] = deque()
        self._is_asking = False
        self._is_ending = False
        self._has_failed = False
        self._count = 0
        self.completed = task.ref()
        self.completed.bind(self, 0)
        self.completed.add_done_callback(mark_seen)  # the last item has the error
        self.completed.add_done_callback(lambda _: self._pass_on())
        task.on_done = self._whole_done

    # For readers.

    def arrival(self) -> ObjectRef[None]:
        with self._lock:
            is_first = self._arrival is None
            arrival = super().arrival()
            if is_first and not (arrival.done() or self._is_asking):
                self._ask()
        return arrival

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
        self._process.post(self.drop)

    # The owner of its refs' results; items have owners of their own.

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        del call  # its refs have no numbers
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
            self._items.append((self._failed(error), NO_ITEM))
        del items
        self._arrived()

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
            self._end_reading()
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
        self._items.append((item.filled(answer), NO_ITEM))

    def _end_reading(self) -> None:
        """Ends the reading; the call itself may still fail."""
        self._is_ending = True
        if self.completed.done():
            self._close()

    def _whole_done(self) -> None:
        self._pass_on()
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
                self._items.append((self._failed(error), NO_ITEM))
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
