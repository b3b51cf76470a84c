"""Every call of a function in a runtime.

A call is in exactly one place: in line in its crew, or with one worker. What happens to
a worker happens to the oldest call that it has, which is the one that runs; those
behind it go to another one as if they had never been sent.

What becomes of a call of a function: whoever waits for it is told.
"""

from __future__ import annotations

import weakref
from functools import (
    partial,
)
from typing import (
    TYPE_CHECKING,
    Any,
    cast,
)

from actorlib._core.loop_thread import (
    soon,
)
from actorlib._core.object_ref import (
    ObjectRef,
)
from actorlib._core.stream_reader import (
    StreamReader,
)
from actorlib._owner.call_table import (
    CallTable,
)
from actorlib._owner.calls_under_way import (
    UnderWay,
)
from actorlib._owner.deadlines import (
    Timed,
    Timekeeper,
)
from actorlib._owner.refcount import (
    OWNER,
)
from actorlib._owner.response_target import (
    awaited,
    give_answer,
    give_error,
    is_answer_retried,
)
from actorlib._owner.task import (
    FunctionEntry,
    Task,
    TaskWorker,
    depth,
)
from actorlib._owner.task_functions import (
    FunctionTable,
)
from actorlib._owner.task_workers import (
    Workers,
)
from actorlib._wire.call_headers import (
    late_error,
)
from actorlib._wire.errors import (
    load,
)
from actorlib._wire.messages import (
    CANCEL,
    FAILURE,
    ITEM,
    RAISED,
    UNBEGUN,
    Frame,
)
from actorlib.exceptions import (
    Exit,
    TaskPlacementGroupRemoved,
    WorkerCrashedError,
)

if TYPE_CHECKING:
    from collections.abc import (
        Collection,
        Mapping,
    )

    from actorlib._core.current_call import (
        Deadline,
    )
    from actorlib._core.ids import (
        LoanId,
    )
    from actorlib._core.snapshot import (
        CallState,
    )
    from actorlib._owner.machine import (
        LocalNode,
    )
    from actorlib._owner.response_target import (
        ResponseTarget,
    )
    from actorlib._owner.streams import (
        Reader,
    )
    from actorlib._owner.task import (
        Workshop,
    )
    from actorlib._shm.payload import (
        Payload,
    )


class TaskPool:
    """The functions of a runtime; the replier of the refs of their calls.

    Args:
        workshop: Where workers live.
        machine: What they get their seats from.
        may_wait: Whether what can never be given waits for ever.
        goes_ahead: Whether workers can say which call they ran when they are gone, so
            that several may be sent to one.

    Attributes:
        plans: What is known of the functions.
        workers: Who runs them.
        hands: The workers, by id.
    """

    def __init__(
        self,
        workshop: Workshop,
        machine: LocalNode,
        *,
        may_wait: bool,
        goes_ahead: bool,
    ) -> None:
        self._goes_ahead = goes_ahead
        self.loop = workshop.loop
        self.loans = workshop.loans
        self.workers = Workers(workshop, machine, self._lost, self._refuse)
        self.hands = self.workers.hands
        self.plans = FunctionTable(
            self.workers, workshop.loans, machine, workshop.groups, may_wait=may_wait
        )
        self._timekeeper: Timekeeper[int] = Timekeeper(workshop.clock, self._late)
        self._timed = self._timekeeper.calls  # at hand for every answer
        self._calls: CallTable[ResponseTarget, Task] = CallTable()
        self._closed_for = ""
        # The rest of a replier: what it does for refs of objects.
        self.watch = workshop.objects.watch
        self.wait = workshop.objects.wait
        self.name = workshop.objects.name
        self.travel = workshop.objects.travel

    # Calls.

    def post(
        self,
        reply: ResponseTarget,
        plan: FunctionEntry,
        loans: Collection[LoanId] | None,
        payload: Payload,
        headers: Mapping[str, object] | None,
        *,
        is_nested: bool = False,
    ) -> int:
        """Takes a call, whose arguments are there; gives its number.

        Args:
            reply: Who gets the answer.
            plan: What it is a call of.
            loans: What is in its arguments, which this process holds for it.
            payload: The arguments.
            headers: What the caller says of this call alone.
            is_nested: Whether a worker makes it.
        """
        crew = plan.crew
        if crew is None or self._closed_for:
            if loans:
                self.loans.returned(loans, OWNER)
            self._fail(reply, plan.trouble or self._over(plan))
            return 0
        task = Task(self, plan, loans, payload, headers)
        task.is_nested = is_nested
        calls = self._calls
        task.number = number = calls.begin(reply, task, headers)
        now = self.loop.time()
        if now >= calls.next_mark:
            calls.mark(now)
        if headers is not None:
            self._time(number, plan, headers)
        crew.post(task)
        return number

    def hold_back(
        self,
        ref: ObjectRef[Any] | StreamReader,
        plan: FunctionEntry,
        headers: Mapping[str, object] | None,
    ) -> int:
        """Keeps the place of a call that waits for its arguments; gives its number."""
        number = self._calls.defer(ref, plan.label, self.loop.time())
        if headers is not None:
            self._time(number, plan, headers)
        return number

    def let_go(self, number: int) -> ObjectRef[Any] | StreamReader | None:
        """The arguments are there: whom the answer is for, or None if nobody waits."""
        self._timekeeper.discard(number)
        return awaited(self._calls.take(number))

    def unanswered(self) -> list[UnderWay]:
        """The calls that have no answer yet."""
        calls = self._calls
        posted = [
            UnderWay(number, task.plan.label, _state_of(task), target, headers, since)
            for number, (target, task, headers) in calls.posted.items()
            if target is not None
            for since in (calls.since(number),)
        ]
        return posted + calls.deferred_under_way()

    def task(self, number: int) -> Task | None:
        """A call that was posted and is not over; None if there is none."""
        call = self._calls.posted.get(number)
        return None if call is None else call[1]

    def answered(self, task: Task, frame: Frame) -> None:
        """The answer of a call came from its worker; see Ended."""
        hand = task.hand
        assert hand is not None
        if self._timed and task.number in self._timed:
            self._look_at_clock(task)
        target = self._calls.target(task.number)
        if frame[0] == FAILURE and target is not None:
            if frame[2] == UNBEGUN:
                self._part(task, hand)
                self._came_back(task, hand)
                return
            if frame[2] == RAISED and self._is_made_anew(task, frame):
                give_answer(None, frame, self.loans)
                self._part(task, hand)
                task.retries = task.retries.one_less
                hand.crew.post_again([task])
                hand.crew.freed(hand)
                return
        # It is the worker's until it is answered: should that fail, the worker's end
        # answers it.
        give_answer(target, frame, self.loans)
        self._part(task, hand)
        self._forget(task)
        hand.crew.freed(hand)

    def _part(self, task: Task, hand: TaskWorker) -> None:
        """A worker has answered a call."""
        task.hand = None
        hand.tasks.pop(task, None)
        hand.answers += 1
        hand.is_stuck = False

    def _forget(self, task: Task) -> None:
        """A call is over."""
        self._calls.drop(task.number)
        if self._timed:
            self._timekeeper.discard(task.number)
        if task.loans:
            self.loans.returned(task.loans, OWNER)

    def _is_made_anew(self, task: Task, frame: Frame) -> bool:
        """Whether a call is made again after what its function raised."""
        return not self._closed_for and is_answer_retried(
            task.retries, frame, self.loans
        )

    def _came_back(self, task: Task, hand: TaskWorker) -> None:
        """A worker gave a call back that it had not begun."""
        if self._closed_for:
            self._refuse(task, self._over(task.plan))
            return
        if task.plan.max_calls:
            hand.sent[task.plan.code.number] -= 1
        hand.crew.post_again([task])
        hand.crew.freed(hand)

    def _refuse(self, task: Task, error: BaseException) -> None:
        """A call gets no value."""
        target = self._calls.drop(task.number)
        self._timekeeper.discard(task.number)
        if task.loans:
            self.loans.returned(task.loans, OWNER)
        self._fail(target, error)

    def _fail(self, target: ResponseTarget | None, error: BaseException) -> None:
        # Whoever ended the runtime knows: no report of a ref that nobody awaits.
        give_error(target, error, is_known=bool(self._closed_for))

    def _over(self, plan: FunctionEntry) -> WorkerCrashedError:
        how = Exit(cause="asked", reason=self._closed_for or "it was cancelled")
        return WorkerCrashedError(f"{plan.label} has no result: {how}", exit=how)

    # Streams.

    def item(self, task: Task, frame: Frame) -> None:
        """An item came from a worker, for whoever still reads; see Ended."""
        target, (_, _, index, loans, payload) = self._calls.target(task.number), frame
        if isinstance(target, StreamReader):
            target.put(task.number, index, payload, partial(load, loans=loans))
        elif target is not None:
            cast("Reader", target).item((ITEM, task.number, *frame[2:]))

    def taken(self, number: int, count: int) -> None:
        """Tells the worker of a stream how many items of it were taken; see Source."""
        task = self.task(number)
        if task is not None and task.hand is not None:
            task.hand.life.dispatch.streams.taken(task.sent_as, count)

    # Deadlines.

    def _time(
        self, number: int, plan: FunctionEntry, headers: Mapping[str, object]
    ) -> None:
        if "deadline" in headers:
            deadline = cast("Deadline", headers["deadline"])
            self._timekeeper.add(number, plan.label, deadline)

    def _late(self, number: int, timed: Timed) -> None:
        """Stops a call whose time is over; what it made has inherited that."""
        target = self._calls.target(number)
        self.cancel(number, recursive=False)
        give_error(target, late_error(timed.method, timed.deadline))

    def _look_at_clock(self, task: Task) -> None:
        """An answer may come too late, before the timer could say so."""
        timed = self._timed[task.number]
        if timed.is_over:
            self._timekeeper.discard(task.number)
            target = self._calls.abandon(task.number)
            give_error(target, late_error(timed.method, timed.deadline))

    # The replier of refs; the rest of it is that of objects.

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Stops a call; see Replier."""
        self._cancel(call, recursive=recursive)

    def force(self, call: int, *, recursive: bool = True) -> None:
        """Stops a call, and ends the process that runs it."""
        self._cancel(call, by_force=True, recursive=recursive)

    def _cancel(
        self, call: int, *, by_force: bool = False, recursive: bool = True
    ) -> None:
        self._timekeeper.discard(call)
        task = self.task(call)
        if task is None:
            self._calls.drop(call)  # it waits for its arguments, or is over
            return
        hand, crew = task.hand, task.plan.crew
        if hand is None:
            assert crew is not None
            self._calls.drop(call)
            task.is_dropped = True
            self.loans.returned(task.loans or (), OWNER)
            crew.dropped()
            return
        # It is over when the worker says that it is rid of it.
        self._calls.abandon(call)
        if not hand.is_there:
            self._withdraw(task, hand)
            return
        if by_force and next(iter(hand.tasks)) is task:
            task.was_forced = hand.is_leaving = True
            if recursive:
                hand.life.dispatch.cancel_made(task.sent_as, by_force=True)
            hand.life.kill("the call that it ran was cancelled")
            return
        hand.life.dispatch.tell((CANCEL, task.sent_as))
        if recursive:
            hand.life.dispatch.cancel_made(task.sent_as)
        hand.look()

    def _withdraw(self, task: Task, hand: TaskWorker) -> None:
        """A call is over whose worker is being started: it has not gone there yet."""
        hand.life.dispatch.cancel(task.sent_as)
        task.hand = None
        hand.tasks.pop(task)
        hand.is_stuck = False
        self._forget(task)
        hand.crew.freed(hand)

    def called(self, call: int) -> str:
        """What a call without an answer is called in messages; see Namer."""
        task = self.task(call)
        if task is None:
            deferred = self._calls.deferred.get(call)
            return "" if deferred is None else deferred.method
        hand = task.hand
        pid = 0 if hand is None else hand.life.pid
        return f"{task.plan.label} (pid {pid})" if pid else task.plan.label

    def loosen(self, ref: ObjectRef[Any]) -> None:
        """From now on the call is cancelled if nobody holds the ref; see Replier."""
        number = ref.call

        def gone(_: object) -> None:
            # A destructor may run anywhere.
            soon(self.loop, partial(self.cancel, number))

        if isinstance(self._calls.target(number), ObjectRef):
            self._calls.replace(number, weakref.ref(ref, gone))

    # What workers say.

    def _lost(self, hand: TaskWorker) -> None:
        """The process of a worker is gone: what it had goes to others, or fails."""
        tasks = list(hand.tasks)
        hand.tasks.clear()
        ran = next((task for task in tasks if task.sent_as == hand.ran), None)
        ran = ran or next(iter(tasks), None)
        again: list[Task] = []
        for task in tasks:
            task.hand = None
            if task is ran:
                # Nobody can be given the answers of what it has called.
                hand.life.dispatch.cancel_made(task.sent_as)
                if self._is_made_again(task, hand):
                    again.append(task)
            elif self._calls.target(task.number) is None or self._closed_for:
                self._refuse(task, self._over(task.plan))
            else:
                again.append(task)
        hand.crew.post_again(again)

    def _is_made_again(self, task: Task, hand: TaskWorker) -> bool:
        """Whether a call is made again whose process died; else it is over."""
        how = hand.life.record.exit or Exit(cause="lost")
        if self._calls.target(task.number) is None or self._closed_for:
            self._refuse(task, self._over(task.plan))
            return False
        if hand.life.record.was_evicted:
            message = f"{task.plan.label} has no result: {how}"
            self._refuse(task, TaskPlacementGroupRemoved(message, exit=how))
            return False
        if task.retries.times and how.cause not in ("failed to start", "lost"):
            task.retries = task.retries.one_less
            return True
        label, most = task.plan.label, task.plan.retries.times
        if how.cause == "failed to start":
            message = f"no process could be started that runs {label}: {how}"
        else:
            times = most - task.retries.times + 1
            tried = f" {times} times (max_retries={most})" if times > 1 else ""
            message = f"the process that ran {label} ended{tried}: {how}"
        self._refuse(task, WorkerCrashedError(message, exit=how))
        return False

    def paced(self, hand: TaskWorker, method: str, seconds: float) -> None:
        """How long a function takes of late."""
        if not self._goes_ahead:
            return
        number = int(method.partition(":")[0])
        for task in hand.tasks:
            if task.plan.code.number == number:
                task.plan.code.depth = depth(seconds)
                hand.depth = min(task.plan.code.depth for task in hand.tasks)
                return

    # The end.

    def close(self, why: str) -> None:
        """Refuses new calls, and fails those that wait."""
        self._closed_for = why
        self._timekeeper.keep(lambda _: False)
        for task in self.workers.close():
            self._refuse(task, self._over(task.plan))


def _state_of(task: Task) -> CallState:
    if task.hand is None:
        return "pending_resources"
    return "running" if next(iter(task.hand.tasks)) is task else "queued"
