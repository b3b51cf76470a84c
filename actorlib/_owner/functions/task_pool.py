"""Accepts every call of a function in a runtime, and delivers its answer.

A call is in exactly one place: in its queue, or with one worker. The end of a worker
affects the call that it runs. The calls behind it move to other workers as if they had
never been sent.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actorlib._futures.object_ref import ObjectRef, mark_seen
from actorlib._owner.actors.exit_reason import ended_for
from actorlib._owner.calls.call_table import CallTable
from actorlib._owner.calls.response_target import (
    UnansweredCalls,
    awaited,
    give_answer,
    give_error,
    retries_after,
)
from actorlib._owner.calls.router import give_item
from actorlib._owner.functions.task_functions import FunctionTable
from actorlib._owner.functions.task_queue import Task, retries_after_end
from actorlib._owner.functions.task_worker import TaskWorker
from actorlib._owner.functions.task_workers import TaskWorkers
from actorlib._owner.objects.refcount import OWNER
from actorlib._wire.errors import load_result
from actorlib._wire.messages import (
    CANCEL,
    FAILURE,
    RESULT,
    STREAM_ACK,
    UNSTARTED,
    Frame,
)
from actorlib._wire.serialization import encode
from actorlib.exceptions import Exit, TaskPlacementGroupRemoved, WorkerCrashedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from actorlib._base.ids import CountedId
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.calls.call_table import UnderWay
    from actorlib._owner.calls.response_target import Clock, ResponseTarget
    from actorlib._owner.functions.task_worker import CalledFunction, FunctionCall
    from actorlib._owner.machine import LocalNode
    from actorlib._owner.objects.objects import ObjectTable
    from actorlib._owner.objects.refcount import BorrowedReferences
    from actorlib._rows.snapshot import CallState
    from actorlib._scheduler.scheduler import Scheduler
    from actorlib._shm.memory import Payload

_NO_CALL: Final = None, None, None


class TaskPool(UnansweredCalls["FunctionCall"]):
    """Runs the functions of a runtime; owns the results of their calls.

    Workers may have several calls at once if ``may_prefetch``: then a worker that ended
    can tell which call it ran.

    Attributes:
        functions: The functions that were called.
        workers: The workers that run them.
    """

    def __init__(
        self,
        machine: LocalNode,
        scheduler: Scheduler,
        references: BorrowedReferences,
        objects: ObjectTable,
        clock: Clock,
        create_worker: Callable[..., ActorSupervisor],
        *,
        may_prefetch: bool,
    ) -> None:
        super().__init__(CallTable(), clock, objects)
        self._may_prefetch = may_prefetch
        self.references = references
        self.workers = TaskWorkers(
            create_worker,
            machine,
            scheduler,
            partial(_PooledWorker, self),
            self.refuse,
            self.worker_lost,
        )
        self.functions = FunctionTable(self.workers, references, machine, scheduler)
        self._posted = self.calls.posted
        self._closed_for = ""
        self.wait = objects.wait

    # Calls.

    def post(
        self,
        target: ResponseTarget,
        entry: CalledFunction,
        borrowed: Collection[CountedId] | None,
        payload: Payload | tuple[object, ...],
        headers: Mapping[str, object] | None,
        *,
        is_nested: bool = False,
    ) -> int:
        """Adds a call that has its arguments; returns its number.

        Args:
            target: The recipient of the answer.
            entry: The function.
            borrowed: The borrowed references in its arguments, which this process
                holds.
            payload: The arguments, or a tuple of them if all of them are scalars.
            headers: The headers that the caller sets for this call.
            is_nested: Whether a worker makes it.
        """
        queue = entry.queue
        if queue is None or self._closed_for:
            if borrowed:
                self.references.returned(borrowed, OWNER)
            self._fail(target, entry.error or self._cancelled_error(entry))
            return 0
        task: FunctionCall = Task(
            entry, borrowed, payload, headers, is_nested=is_nested
        )
        task.number = number = self.calls.begin(target, task, headers)
        self.calls.mark(self._now())
        if headers is not None:
            self.set_deadline(number, entry.label, headers)
        self.workers.post(task, queue)
        return number

    def unanswered(self, most: int | None = None) -> Iterator[UnderWay]:
        return self.calls.unanswered(most, _describe)

    def borrowing(self) -> Iterator[tuple[str, Collection[CountedId]]]:
        """Yields the calls that have borrowed references among their arguments."""
        for _, task, _ in self.calls.posted.values():
            if task.borrowed:
                yield task.entry.label, task.borrowed

    def task(self, number: int) -> FunctionCall | None:
        """Returns a call that was posted and is not over, or None."""
        call = self.calls.posted.get(number)
        return None if call is None else call[1]

    def settle(self, worker: TaskWorker, frame: Frame) -> None:
        """Delivers an answer to the caller, or queues the call again."""
        number = frame[1]
        # target() and drop() of the table, inlined for every answer.
        call = self._posted.get(number)
        if call is None or call[1].worker is not worker:
            give_answer(None, frame, self.references)
            return
        if self._timed and self.is_late(number):
            call = self._posted[number]
        target, task, _ = call
        if (
            frame[0] == FAILURE
            and target is not None
            and self._retry(task, worker, frame)
        ):
            return
        # The worker has it until it is answered: if that fails, the worker's end
        # answers it.
        if type(target) is ObjectRef and frame[0] == RESULT and frame[2] is None:
            if not target.done():  # give_answer(), inlined
                load_result(target, frame[3])
        else:
            ref = awaited(target) if self._closed_for else None
            give_answer(target, frame, self.references)
            if isinstance(ref, ObjectRef):
                mark_seen(ref)  # as in _fail(): the end of the runtime may be its cause
        self._finish(task, worker)

    def settle_scalar(self, worker: TaskWorker, number: int, value: object) -> None:
        """Delivers an answer whose value is in its frame."""
        target, task, _ = self._posted.get(number, _NO_CALL)
        if task is None or type(target) is not ObjectRef or self._timed:
            # The frame with a payload, which can be forwarded.
            self.settle(worker, (RESULT, number, None, encode(value)))
        elif task.worker is worker:
            if not target.done():
                target.set_result(value)
            self._finish(task, worker)

    def _finish(self, task: FunctionCall, worker: TaskWorker) -> None:
        worker.end(task)
        self._posted.pop(task.number, None)
        if self._timed:
            self._timekeeper.discard(task.number)
        if task.borrowed:
            self.references.returned(task.borrowed, OWNER)
        self.workers.worker_answered(worker)

    def _retry(self, task: FunctionCall, worker: TaskWorker, failure: Frame) -> bool:
        """Queues a failed call again; False if it may not run again."""
        if failure[2] == UNSTARTED:
            worker.return_unstarted(task)
            if self._closed_for:
                self.refuse(task, self._cancelled_error(task.entry))
                return True
        else:
            retries = None
            if not self._closed_for:
                retries = retries_after(task.retries, failure, self.references)
            if retries is None:
                return False
            give_answer(None, failure, self.references)
            worker.end(task)
            task.retries = retries
        worker.queue.put_back([task])
        self.workers.worker_answered(worker)
        return True

    def refuse(self, task: FunctionCall, error: BaseException) -> None:
        target = self.calls.drop(task.number)
        self._timekeeper.discard(task.number)
        if task.borrowed:
            self.references.returned(task.borrowed, OWNER)
        self._fail(target, error)

    def _fail(self, target: ResponseTarget | None, error: BaseException) -> None:
        # The program ended the runtime: no report of a ref that no caller awaits.
        give_error(target, error, is_known=bool(self._closed_for))

    def _cancelled_error(self, entry: CalledFunction) -> WorkerCrashedError:
        how = Exit(cause="asked", reason=self._closed_for or "it was cancelled")
        return WorkerCrashedError(f"{entry.label} has no result: {how}", exit=how)

    # Streams.

    def item(self, worker: TaskWorker, frame: Frame) -> None:
        target, task, _ = self._posted.get(frame[1], _NO_CALL)
        has_task = task is not None and task.worker is worker
        give_item(target if has_task else None, frame, self.references)

    def acknowledge(self, call: int, count: int) -> None:
        task = self.task(call)
        if task is not None and task.worker is not None:
            task.worker.tell((STREAM_ACK, call, count))

    # Operations of refs; see ResultOwner.

    def force_cancel(self, call: int, *, recursive: bool = True) -> None:
        """Stops a call, and ends the process that runs it."""
        self.drop(call, by_force=True, recursive=recursive)

    def drop(self, call: int, *, recursive: bool, by_force: bool = False) -> None:
        """Stops a call; it is over when its worker reports its end."""
        self._timekeeper.discard(call)
        task = self.task(call)
        if task is None:
            self.calls.drop(call)  # it waits for its arguments, or is over
            return
        worker, queue = task.worker, task.entry.queue
        if worker is None:
            assert queue is not None
            self.calls.drop(call)
            self.references.returned(task.borrowed or (), OWNER)
            self.workers.cancel(task, queue)
            return
        self.calls.abandon(call)
        if worker.channel is None:
            self._finish(task, worker)  # it was not sent yet
            return
        if by_force and worker.runs_alone(task):
            worker.is_leaving = True
            if recursive:
                worker.cancel_children(call, by_force=True)
            worker.supervisor.kill("the call that it ran was cancelled")
            return
        worker.tell((CANCEL, call))
        if recursive:
            worker.cancel_children(call)
        worker.wake_worker()

    def label_of(self, call: int) -> str:
        task = self.task(call)
        if task is None:
            deferred = self.calls.deferred.get(call)
            return "" if deferred is None else deferred.method
        worker = task.worker
        pid = 0 if worker is None else worker.supervisor.pid
        return f"{task.entry.label} (pid {pid})" if pid else task.entry.label

    def where(self, label: str) -> str:
        return label

    # Ends of workers.

    def worker_lost(self, worker: TaskWorker) -> None:
        """Queues the calls of an ended worker again, or fails them."""
        queue, how = worker.queue, worker.supervisor.record.exit or Exit(cause="lost")
        ran, again = worker.lose_tasks(worker.last_call)
        for task in reversed(ran):
            # No process can receive the answers of the calls that it has made.
            worker.cancel_children(task.number)
            retries = None
            if not worker.supervisor.record.was_evicted:
                retries = retries_after_end(
                    task, how.cause, can_start_workers=queue.can_run_calls()
                )
            if retries is None and self._is_wanted(task):
                self.refuse(task, _lost_error(task, worker, how))
            else:
                task.retries = retries or task.retries
                again.insert(0, task)
        for task in again:
            if not self._is_wanted(task):
                self.refuse(task, self._cancelled_error(task.entry))
        queue.put_back([task for task in again if self._is_wanted(task)])

    def _is_wanted(self, task: FunctionCall) -> bool:
        """Whether a call may move to another worker: a caller waits for it."""
        return self.calls.target(task.number) is not None and not self._closed_for

    def note_duration(self, worker: TaskWorker, method: str, seconds: float) -> None:
        """Notes how long a function takes at present."""
        if not self._may_prefetch:
            return
        worker.note_duration(int(method.partition(":")[0]), seconds)

    # The end.

    def close(self, why: str) -> None:
        """Refuses new calls, and fails those that wait."""
        self._closed_for = why
        self._timekeeper.keep(lambda _: False)
        for task in self.workers.close():
            self.refuse(task, self._cancelled_error(task.entry))


class _PooledWorker(TaskWorker):
    """Passes the answers of a worker to the pool; see WorkerRoute."""

    def __init__(self, pool: TaskPool, *args: Any) -> None:
        super().__init__(pool.references, *args)
        self._pool = pool

    def settle(self, frame: Frame) -> None:
        self._pool.settle(self, frame)

    def settle_scalar(self, number: int, value: object) -> None:
        self._pool.settle_scalar(self, number, value)

    def item(self, frame: Frame) -> None:
        self._pool.item(self, frame)


def _lost_error(task: FunctionCall, worker: TaskWorker, how: Exit) -> Exception:
    """Makes the error of a call that ran when its worker ended."""
    label, most = task.entry.label, task.entry.retries.times
    if worker.supervisor.record.was_evicted:
        return TaskPlacementGroupRemoved(f"{label} has no result: {how}", exit=how)
    if how.cause == "failed to start":
        message = f"no process could be started that runs {label}: {how}"
    else:
        times = most - task.retries.times + 1
        count = f" {times} times (max_retries={most})" if times > 1 else ""
        message = f"the process that ran {label} ended{count}: {how}"
    error = ended_for(worker.supervisor.record, message, how)
    if isinstance(error, WorkerCrashedError):  # the others are errors of actors
        return error
    return WorkerCrashedError(message, exit=how)


def _describe(_: int, task: FunctionCall) -> tuple[str, CallState]:
    label = task.entry.label
    if task.worker is None:
        return label, "pending_resources"
    return label, "running" if task.worker.runs(task) else "queued"
