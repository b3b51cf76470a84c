"""Fills refs with the results of Ray tasks; the ``ResultOwner`` on Ray.

A task holds its ref until the answer, fails the ref at the deadline, and keeps the
state of an unanswered call.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from actorlib._api.result_parts import PartsOwner, ResultSplit
from actorlib._api.waiting import CombinedRef
from actorlib._futures.object_ref import (
    IMMUTABLE,
    REFS,
    BorrowedRef,
    ObjectRef,
    mark_seen,
)
from actorlib._loops.loop_thread import TOO_LATE, block, may_block
from actorlib._ray import client_mode
from actorlib._ray.errors import translate
from actorlib._ray.messages import failure_of
from actorlib._ray.pickled import (
    PickledValue,
    check_pickled_by_ray,
    pickle_value,
    unpickle_value,
)
from actorlib._ray.ray_api import (
    error_class,
    fetch,
    is_client,
    outside_of_pickling,
    ray,
)
from actorlib._wire.call_headers import late_error
from actorlib.exceptions import (
    GetTimeoutError,
    SerializationError,
    TaskCancelledError,
    TaskError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from actorlib._core.current_call import Deadline
    from actorlib._ray.actors import Actor
    from actorlib._ray.process import ProcessState


_RAY_ERROR = error_class()
_SURELY_SENT = 1.0
"""Seconds after which a call of a ready actor has left this process."""
_ON_ITS_WAY = 1.0
"""Seconds in which a finished result has to arrive here, if no time is left."""
_WOULD_BLOCK = (
    "get() would block the event loop that this thread runs: await the ref instead"
)
_numbers = itertools.count(1)


class RayTask:
    """Fills the ref of a call, or of a value that was put; see ResultOwner.

    It holds the ref strongly until a wait for it is cancelled, and weakly from then on:
    if no other holder is left, the call is cancelled.

    ``where`` names the method or function in messages. ``read`` converts an answer to
    the value of the ref, if they differ.

    Attributes:
        ray_ref: Ray's ref.
        actor: The actor of a method; None after the answer.
        pending_call: The state of the call, for a call of an actor.
        on_done: Called when its ref is filled, even while plain code blocks the loop.
    """

    def __init__(
        self,
        process: ProcessState,
        ray_ref: Any,
        where: str,
        actor: Actor | None = None,
        read: Callable[[Any], Any] | None = None,
        pending_call: PendingCall | None = None,
    ) -> None:
        self.ray_ref = ray_ref
        self.pending_call = pending_call
        self._process = process
        self._where = where
        self.actor = actor
        self._read = read
        self._held: ObjectRef[Any] | None = None
        self._weak: weakref.ref[ObjectRef[Any]] | None = None
        self._is_named = False
        self._is_borrowed = False
        self._is_stopped = False
        self._deadline: Deadline | None = None
        self.on_done: Callable[[], None] = _nothing

    def __repr__(self) -> str:
        return f"<Task {self._where}>"

    def ref(self) -> ObjectRef[Any]:
        """Returns the ref of a call, and requests its answer."""
        ref: ObjectRef[Any] = ObjectRef(loop=self._process.loop)
        self._bind(ref)
        self.ask()
        return ref

    def borrowed(self) -> ObjectRef[Any]:
        """Returns the ref of a value that is fetched when it is first used."""
        ref: BorrowedRef[Any] = BorrowedRef(loop=self._process.loop)
        self._bind(ref)
        ref.set_source(self.ask, _nothing)
        self._held, self._weak = None, weakref.ref(ref)
        self._is_borrowed = True
        return ref

    def unasked(self) -> ObjectRef[Any]:
        """Returns a ref that ``settle`` fills, and not an answer of Ray."""
        ref: ObjectRef[Any] = ObjectRef(loop=self._process.loop)
        self._bind(ref)
        self._process.pending[self] = None
        return ref

    def filled(self, answer: Any) -> ObjectRef[Any]:
        ref: ObjectRef[Any] = ObjectRef(loop=self._process.loop)
        self._bind(ref)
        self.settle(answer)
        return ref

    def is_of(self, ref: ObjectRef[Any]) -> bool:
        """Whether a ref is the whole result, and not a part of it."""
        return ref.result_owner is self

    def ask(self) -> None:
        if self._held is None and self._weak is not None:
            self._held, self._weak = self._weak(), None
        self._process.pending[self] = None
        fetch_value = client_mode.fetch if self._process.is_client else fetch
        fetch_value(self.ray_ref, self._came)

    def settle(self, answer: Any) -> None:
        """Fills the ref with an answer; on the thread that fills refs."""
        self._process.pending.pop(self, None)
        ref, read, actor = self._mine(), self._read, self.actor
        # A result keeps no actor alive.
        self._held = self._weak = self._read = self.actor = None
        if read is not None:
            answer = read(answer)
        if isinstance(answer, _RAY_ERROR):
            answer = FailedAnswer(self._translated(answer, actor))
        if self._is_stopped:
            _give_up(ref)  # whatever the answer is
            return
        if self._deadline is not None and self.is_late:
            # It came after the deadline and before the timer.
            answer = FailedAnswer(late_error(self._where, self._deadline))
        if ref is None:
            return
        if type(answer) is PickledValue:
            answer = _loaded(answer, self._where)
        with suppress(asyncio.InvalidStateError):  # it was cancelled
            if isinstance(answer, FailedAnswer):
                ref.set_exception(answer.error)
            else:
                is_whole = read is None and self.ray_ref is not None
                has_more = is_whole and type(answer) not in IMMUTABLE
                kept_value = (self._load_again, None, None, False) if has_more else None
                ref.set_result(answer, kept_value)
            self.on_done()

    def _load_again(self) -> Any:
        """Loads the value again, as it was produced."""
        answer = ray.get(self.ray_ref)
        return unpickle_value(answer) if type(answer) is PickledValue else answer

    def fail(self, error: BaseException) -> None:
        """Fails the ref without an answer; asyncio does not log an unread error."""
        self._process.pending.pop(self, None)
        ref = self._mine()
        self._held = self._weak = None
        if self._is_stopped:
            _give_up(ref)
        elif ref is not None and not ref.done():
            ref.set_exception(error)
            ref.exception()
            self.on_done()

    def is_due(self, deadline: Deadline) -> None:
        """Ends the call at its deadline, which the calls that it makes inherit."""
        ref = self._mine()
        if ref is None or ref.done():
            return
        self._deadline = deadline
        late = partial(self._process.post, self.expire)
        timer = self._process.timers.add(deadline[0], late)
        self._process.watch(ref, partial(self._process.timers.discard, timer))

    @property
    def is_late(self) -> bool:
        """Whether its deadline has passed."""
        return self._deadline is not None and self.time_left(None) == 0

    def expire(self) -> None:
        """Fails the ref at the deadline; on the thread that fills refs."""
        if self not in self._process.pending or self._deadline is None:
            return  # it was answered
        ref, error = self._mine(), late_error(self._where, self._deadline)
        self._drop(recursive=False)
        self._weak = None
        if self._is_stopped:
            _give_up(ref)
        elif ref is not None:
            with suppress(asyncio.InvalidStateError):  # the answer has just arrived
                ref.set_exception(error)
                self.on_done()

    # The owner of the ref's result.

    def cancel(self, call: int, *, recursive: bool = True) -> bool:
        """Cancels the call; returns True if its end is reported; see ResultOwner.

        Ray answers for an ``async def`` at its end, or at once if it has not begun.
        """
        del call
        if self.pending_call is None or not self.pending_call.ends_later:
            self._drop(recursive=recursive)
            return False
        if not self._is_stopped:
            self._is_stopped = True
            self._stop(recursive=recursive)
        return True

    def _drop(self, *, recursive: bool) -> None:
        """Cancels the call, and no longer waits for its answer."""
        self._held = None
        self._process.pending.pop(self, None)
        if self._is_stopped:
            return
        if self.pending_call is None or self.pending_call.sent_at is None:
            self._stop(recursive=recursive)
            return
        # An ordered actor would wait for the number of a call that was cancelled before
        # it was sent, and then count as unavailable.
        wait = self.pending_call.sent_at + _SURELY_SENT - time.monotonic()
        if wait <= _SURELY_SENT and (self.actor is None or self.actor.is_ready):
            stop = partial(self._stop, recursive=recursive)
            self._process.after(max(wait, 0.0), stop)

    def _stop(self, *, recursive: bool) -> None:
        if ray.is_initialized():  # else it has ended with the cluster
            with suppress(TypeError, ValueError):  # a value that was put is not a call
                ray.cancel(self.ray_ref, recursive=recursive)

    def label_of(self, call: int) -> str:
        del call  # it has no number
        return self._where

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """Cancels the call when the ref is no longer held; see ResultOwner.

        A ref from another process may be held there.
        """
        if self.is_of(ref) and self._held is not None and not self._is_borrowed:
            self._held = None
            self._weak = weakref.ref(ref, lambda _: self._process.post(self.cancel, 0))

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        self._process.watch(ref, then)

    def name(self) -> bytes:
        """Returns Ray's id of the result, or a new one for a part; see ResultOwner."""
        own: bytes = self.ray_ref.binary()
        if not self._is_named:
            self._is_named = True
            return own
        return own + next(_numbers).to_bytes(4, "big")

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        """Reduces a ref so that Ray counts it; see ResultOwner."""
        check_pickled_by_ray("a ref")
        return self._process.entry_points.ref, (ray_ref_of(ref),)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks this thread until a ref is done; see ResultOwner."""
        process = self._process
        if process.is_owner:
            block(ref, timeout, _WOULD_BLOCK)
            return
        if isinstance(ref, CombinedRef):
            self._wait_for_several(ref, timeout)
            return
        is_whole = self.is_of(ref) and self.ray_ref is not None
        if process.is_here and not is_whole and not may_block():
            raise RuntimeError(_WOULD_BLOCK)
        deadline = None if timeout is None else time.monotonic() + timeout
        if is_whole:
            # Ray notices that this worker waits, and gives its CPUs to others.
            limit = self.time_left(timeout)
            ready = self._is_there(limit)
            if not ready and limit == timeout:
                raise GetTimeoutError(TOO_LATE)
            if process.is_here:
                if ready:
                    self.settle(self._fetched())
                else:
                    self.expire()
                return
        rest = None if deadline is None else deadline - time.monotonic()
        if rest is not None and is_whole:
            rest = max(rest, _ON_ITS_WAY)
        if not process.wait(ref, rest):
            raise GetTimeoutError(TOO_LATE)

    def _wait_for_several(self, several: CombinedRef, timeout: float | None) -> None:
        """Blocks this thread until a combined ref is done."""
        process = self._process
        deadline = None if timeout is None else time.monotonic() + timeout
        while not several.done():
            rest = None if deadline is None else max(0.0, deadline - time.monotonic())
            pending = {_whole(ref): ref for ref in several.refs if not ref.done()}
            if None not in pending:
                first = _first_of(cast("Iterable[RayTask]", pending), rest)
                if not first:
                    raise GetTimeoutError(TOO_LATE)
                for task in first:
                    task.wait(pending[task], rest)
                continue
            if process.is_here and not may_block():
                raise RuntimeError(_WOULD_BLOCK)
            if not process.wait(several, rest):
                raise GetTimeoutError(TOO_LATE)

    def _is_there(self, timeout: float | None) -> bool:
        """Whether Ray has the result within some seconds.

        Raises:
            TaskCancelledError: The waiting call was cancelled.
        """
        return bool(_ready_of([self], timeout))

    def time_left(self, timeout: float | None) -> float | None:
        """Returns the timeout, or the time until the deadline if that is less."""
        if self._deadline is None:
            return timeout
        rest = max(0.0, self._deadline[0] - time.monotonic())
        return rest if timeout is None else min(rest, timeout)

    def _bind(self, ref: ObjectRef[Any]) -> None:
        ref.bind(self, 0)
        self._held = ref

    def _mine(self) -> ObjectRef[Any] | None:
        return self._weak() if self._weak is not None else self._held

    def _came(self, answer: Any) -> None:
        """Passes the answer on; on a Ray thread."""
        self._process.post(self.settle, answer)

    def _fetched(self) -> Any:
        try:
            return ray.get(self.ray_ref)
        except _RAY_ERROR as error:
            return error

    def _translated(self, error: Any, actor: Actor | None) -> BaseException:
        if actor is None:
            return translate(error, self._where)
        translated = translate(error, self._where, actor.hex)
        return actor.note_end(translated, self._where)


def _whole(ref: ObjectRef[Any]) -> RayTask | None:
    """Returns the task of a ref, if the ref is its whole result and Ray has it."""
    task = ref.result_owner
    is_whole = (
        isinstance(task, RayTask) and task.is_of(ref) and task.ray_ref is not None
    )
    return cast("RayTask", task) if is_whole else None


def _first_of(tasks: Iterable[RayTask], timeout: float | None) -> list[RayTask]:
    """Returns the first tasks that are done or late; none after the timeout."""
    waiting = list(tasks)
    limits = [task.time_left(timeout) for task in waiting]
    limit = min((limit for limit in limits if limit is not None), default=None)
    ready = _ready_of(waiting, limit)
    return ready or [task for task in waiting if task.time_left(None) == 0]


def _ready_of(tasks: list[RayTask], timeout: float | None) -> list[RayTask]:
    """Waits until Ray has the result of one of the tasks; returns the finished ones.

    Raises:
        TaskCancelledError: The waiting call was cancelled.
    """
    by_ref = {task.ray_ref: task for task in tasks}
    try:
        ready, _ = ray.wait([*by_ref], timeout=timeout, fetch_local=False)
    except KeyboardInterrupt:
        # In methods, only Ray interrupts, to end the waits of a cancelled call.
        if ray.get_runtime_context().get_actor_id() is None:
            raise
        if all(task.time_left(None) != 0 for task in tasks):
            raise TaskCancelledError("the call that waits was cancelled") from None
        return []
    return [by_ref[ref] for ref in ready]


class FailedAnswer:
    """An error of actorlib in the place of an answer."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


class FunctionTask(RayTask):
    """Fills the ref of a call of a function."""

    def force_cancel(self, call: int, *, recursive: bool = True) -> None:
        del call
        self._held = None
        self._process.pending.pop(self, None)
        ray.cancel(self.ray_ref, force=True, recursive=recursive)


def ray_ref_of(ref: ObjectRef[Any]) -> Any:
    """Returns Ray's ref for a ref.

    Raises:
        UnsupportedOptionError: It combines several results that do not exist yet.
    """
    whole = _whole(ref)
    if whole is not None:
        return whole.ray_ref
    task = ref.result_owner
    if isinstance(task, PartsOwner) and (task.split is not None or ref.done()):
        if ref.call not in task.kept:
            task.kept[ref.call] = _sent_part(task, ref)
        return task.kept[ref.call]
    if ref.done():
        return _put_result(ref)
    raise UnsupportedOptionError(
        f"{ref!r} combines several results, or items of a generator, that are not "
        "finished, and Ray has no such ref: await it first"
    )


def _put_result(ref: ObjectRef[Any]) -> Any:
    value = ref.result()  # raises its error
    kept_value = ref.kept_value
    if kept_value is not None:
        value = kept_value[0]()
    sent = pickle_value(value) if is_client() else value
    return outside_of_pickling(lambda: ray.put(sent))


def _sent_part(owner: PartsOwner, part: ObjectRef[Any]) -> Any:
    """Returns Ray's ref for a part of a result, which may not exist yet.

    Ray's refs stand for whole results here, so a Ray task extracts the part.
    """
    whole = _whole(owner.whole)
    if whole is None or owner.split is None:
        return _put_result(part)
    part.add_done_callback(mark_seen)  # the call that it is sent to fails, too
    take = ray.remote(num_cpus=0, max_retries=-1)(take_part)
    name = f"part {part.call} of {owner.split.where}"
    args = (whole.ray_ref, *owner.split, part.call)
    return outside_of_pickling(
        lambda: take.options(name=name).remote(*args, is_client=is_client())
    )


def take_part(
    whole: Any, count: int, where: str, place: int, *, is_client: bool
) -> Any:
    """Extracts a part of a result, in a Ray worker."""
    split = ResultSplit(count, where)
    try:
        part = split.part(unpickle_value(whole), place)
    except TaskError as error:
        raise failure_of(error.cause or error, where, retried=False) from None
    return pickle_value(part) if is_client else part


def tasks_among(values: Iterable[object]) -> Iterator[RayTask]:
    for value in values:
        if type(value) in REFS:
            task = cast("ObjectRef[Any]", value).result_owner
            if isinstance(task, RayTask):
                yield task


def _loaded(answer: PickledValue, where: str) -> Any:
    try:
        return unpickle_value(answer)
    except Exception as error:  # noqa: BLE001  # the user's classes
        return FailedAnswer(
            SerializationError(f"the answer of {where} cannot be loaded here: {error}")
        )


def _give_up(ref: ObjectRef[Any] | None) -> None:
    if ref is not None and not ref.done():
        ref.set_cancelled()


def _nothing() -> None:
    """Does nothing."""


class PendingCall(NamedTuple):
    """An unanswered call of an actor.

    Attributes:
        method: The method.
        sent_at: When it was sent, if later calls of its actor wait for it; infinite if
            it waits for its arguments.
        waits: The tasks of its arguments, as far as known.
        ends_later: Whether it may clean up first when it is cancelled.
    """

    method: str
    sent_at: float | None
    waits: tuple[object, ...]
    ends_later: bool = False

    @property
    def keeps_order(self) -> bool:
        """Whether later calls of its actor wait for it."""
        return self.sent_at is not None
