"""Every call of a function in a runtime.

A call is in exactly one place: in line in its crew, or with one worker. What happens to
a worker happens to the oldest call that it has, which is the one that runs; those
behind it go to another one as if they had never been sent.

What becomes of a call of a function: whoever waits for it is told.
"""

from __future__ import annotations

import itertools
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
from actorlib._owner.calls_under_way import (
    Marks,
    UnderWay,
)
from actorlib._owner.deadlines import (
    Timed,
    Timekeeper,
)
from actorlib._owner.mailbox import (
    DeferredCalls,
)
from actorlib._owner.refcount import (
    OWNER,
)
from actorlib._owner.response_target import (
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
        self._tasks: dict[int, Task] = {}
        self._held = DeferredCalls()
        self._numbers = itertools.count(1)
        self._marks = Marks()
        self._next_mark = 0.0
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
        told: Mapping[str, object] | None,
        *,
        is_nested: bool = False,
    ) -> int:
        """Takes a call, whose arguments are there; gives its number.

        Args:
            reply: Who gets the answer.
            plan: What it is a call of.
            loans: What is in its arguments, which this process holds for it.
            payload: The arguments.
            told: What the caller says of this call alone.
            is_nested: Whether a worker makes it.
        """
        number = next(self._numbers)
        task = Task(self, number, plan, reply, loans, payload, told)
        task.is_nested = is_nested
        crew = plan.crew
        if crew is None or self._closed_for:
            self._refuse(task, plan.trouble or self._over(plan))
            return 0
        now = self.loop.time()
        if now >= self._next_mark:
            oldest = next(iter(self._tasks), number)
            self._next_mark = self._marks.mark(number, now, oldest)
        self._tasks[number] = task
        if told is not None:
            self._time(number, plan, told)
        crew.post(task)
        return number

    def hold_back(
        self,
        ref: ObjectRef[Any] | StreamReader,
        plan: FunctionEntry,
        told: Mapping[str, object] | None,
    ) -> int:
        """Keeps the place of a call that waits for its arguments; gives its number."""
        number = self._held.add(ref, plan.label, self.loop.time())
        if told is not None:
            self._time(number, plan, told)
        return number

    def let_go(self, number: int) -> ObjectRef[Any] | StreamReader | None:
        """The arguments are there: whom the answer is for, or None if nobody waits."""
        self._timekeeper.discard(number)
        return self._held.take(number)

    def unanswered(self) -> list[UnderWay]:
        """The calls that have no answer yet."""
        posted = [
            UnderWay(
                task.number,
                task.plan.label,
                _state_of(task),
                task.reply,
                task.told,
                self._marks.when(task.number),
            )
            for task in self._tasks.values()
            if task.reply is not None
        ]
        return [*posted, *self._held.unanswered()]

    def task(self, number: int) -> Task | None:
        """A call that was posted and is not over; None if there is none."""
        return self._tasks.get(number)

    def answered(self, task: Task, frame: Frame) -> None:
        """The answer of a call came from its worker; see Ended."""
        hand = task.hand
        assert hand is not None
        if self._timed and task.number in self._timed:
            self._look_at_clock(task)
        if frame[0] == FAILURE and task.reply is not None:
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
        give_answer(task.reply, frame, self.loans)
        task.reply = None
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
        del self._tasks[task.number]
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
        reply, task.reply = task.reply, None
        self._tasks.pop(task.number, None)
        self._timekeeper.discard(task.number)
        if task.loans:
            self.loans.returned(task.loans, OWNER)
        # Whoever ended the runtime knows: no report of a ref that nobody awaits.
        give_error(reply, error, is_known=bool(self._closed_for))

    def _over(self, plan: FunctionEntry) -> WorkerCrashedError:
        how = Exit(cause="asked", reason=self._closed_for or "it was cancelled")
        return WorkerCrashedError(f"{plan.label} has no result: {how}", exit=how)

    # Streams.

    def item(self, task: Task, frame: Frame) -> None:
        """An item came from a worker, for whoever still reads; see Ended."""
        reply, (_, _, index, loans, payload) = task.reply, frame
        if isinstance(reply, StreamReader):
            reply.put(task.number, index, payload, partial(load, loans=loans))
        elif reply is not None:
            cast("Reader", reply).item((ITEM, task.number, *frame[2:]))

    def taken(self, number: int, count: int) -> None:
        """Tells the worker of a stream how many items of it were taken; see Source."""
        task = self._tasks.get(number)
        if task is not None and task.hand is not None:
            task.hand.life.dispatch.streams.taken(task.sent_as, count)

    # Deadlines.

    def _time(
        self, number: int, plan: FunctionEntry, told: Mapping[str, object]
    ) -> None:
        if "deadline" in told:
            deadline = cast("Deadline", told["deadline"])
            self._timekeeper.add(number, plan.label, deadline)

    def _late(self, number: int, timed: Timed) -> None:
        """Stops a call whose time is over; what it made has inherited that."""
        held = self._held.reply(number)
        task = self._tasks.get(number)
        reply = held if task is None else task.reply
        self.cancel(number, recursive=False)
        error = late_error(timed.method, timed.deadline)
        give_error(reply, error)

    def _look_at_clock(self, task: Task) -> None:
        """An answer may come too late, before the timer could say so."""
        timed = self._timed[task.number]
        if timed.is_over:
            self._timekeeper.discard(task.number)
            reply, task.reply = task.reply, None
            error = late_error(timed.method, timed.deadline)
            give_error(reply, error)

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
        self._held.drop(call)
        self._timekeeper.discard(call)
        task = self._tasks.pop(call, None)
        if task is None:
            return
        task.reply = None
        hand, crew = task.hand, task.plan.crew
        if hand is None:
            assert crew is not None
            self.loans.returned(task.loans or (), OWNER)
            crew.dropped()
            return
        self._tasks[call] = task  # until the worker says that it is rid of it
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
        task = self._tasks.get(call)
        if task is None:
            return self._held.method(call)
        hand = task.hand
        pid = 0 if hand is None else hand.life.pid
        return f"{task.plan.label} (pid {pid})" if pid else task.plan.label

    def loosen(self, ref: ObjectRef[Any]) -> None:
        """From now on the call is cancelled if nobody holds the ref; see Replier."""
        number = ref.call

        def gone(_: object) -> None:
            # A destructor may run anywhere.
            soon(self.loop, partial(self.cancel, number))

        task = self._tasks.get(number)
        if task is not None and isinstance(task.reply, ObjectRef):
            task.reply = weakref.ref(ref, gone)
        else:
            self._held.loosen(number, weakref.ref(ref, gone))

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
            elif task.reply is None or self._closed_for:
                self._refuse(task, self._over(task.plan))
            else:
                again.append(task)
        hand.crew.post_again(again)

    def _is_made_again(self, task: Task, hand: TaskWorker) -> bool:
        """Whether a call is made again whose process died; else it is over."""
        how = hand.life.record.exit or Exit(cause="lost")
        if task.reply is None or self._closed_for:
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
