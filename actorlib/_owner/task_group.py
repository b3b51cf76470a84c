"""Workers that run functions which ask for the same, and the calls that wait for them.

A worker has a *seat* while it may run calls: the share of the machine that each of them
holds. Where calls ask for no device, seats are taken from the machine or a group, in
line with everybody else, and a worker without one is idle and holds nothing. Where they
ask for devices a worker is born with its seat, and its end is what frees that.

A seat is kept while more calls wait and nobody else stands in line. While a call waits
for a result its CPUs are lent: first to a nested call, one that another call has made,
as otherwise more and more calls would begin and wait; and it goes on when it has them
back. What else it holds it keeps.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

from actorlib._core.resources import CPU
from actorlib._owner.task import AT_LEAST
from actorlib._wire.messages import GO_ON

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from actorlib._core.actor_options import ActorOptions
    from actorlib._owner.task import FunctionCode, Task, TaskWorker
    from actorlib._owner.task_slots import Slots
    from actorlib._scheduler.catalogue import Demand
    from actorlib.accelerators.base import Lease

MOST_SEATS = 512
"""How many calls that ask for nothing run at once."""
MOST_LESSONS = 256
"""How many functions a worker learns before it is replaced."""


class Staff(Protocol):
    """What a crew needs around it; see Workers."""

    def hire(
        self,
        crew: WorkerGroup,
        label: str,
        options: ActorOptions,
        *,
        is_nested: bool = False,
    ) -> TaskWorker:
        """Starts a worker."""
        ...

    def refuse(self, task: Task, error: BaseException) -> None:
        """Tells that nobody will ever run a call."""
        ...

    def enter(self, crew: WorkerGroup) -> None:
        """Takes a crew in: it is fed when more workers may be started."""
        ...

    def may_start(self) -> bool:
        """Whether one more worker may be started now."""
        ...

    def waits(
        self,
        promise: asyncio.Future[Lease],
        label: str,
        tell: Callable[[], str | None],
    ) -> None:
        """A function waits for a seat; why it does, if that is to be told."""
        ...

    def is_idle(self, hand: TaskWorker) -> None:
        """A worker has no seat any more."""
        ...

    def is_busy(self, hand: TaskWorker) -> None:
        """An idle worker has one again."""
        ...

    def is_waiting(self, number: int) -> None:
        """So many more workers wait for results, or fewer."""
        ...

    def end(self, hand: TaskWorker, why: str) -> None:
        """Ends a worker when all it has to pass on is passed on."""
        ...

    def send(self, task: Task, hand: TaskWorker) -> None:
        """Sends a call to a worker."""
        ...

    def teach(self, code: FunctionCode, hand: TaskWorker) -> None:
        """Sends a function to a worker."""
        ...


class _Backlog:
    """The calls of a crew that wait, nested ones or the others, and who comes for them.

    Attributes:
        is_nested: Whether they are nested ones.
        waiting: They, in order; also some that are over.
        promise: Their place in the line for a seat, if they have one.
        newcomer: The worker that is being born with a seat for them, if there is one.
        found_nobody: Whether the last look found nobody who runs one.
    """

    __slots__ = ("found_nobody", "is_nested", "newcomer", "promise", "waiting")

    def __init__(self, *, is_nested: bool) -> None:
        self.is_nested = is_nested
        self.waiting: deque[Task] = deque()
        self.promise: asyncio.Future[Lease] | None = None
        self.newcomer: TaskWorker | None = None
        self.found_nobody = False


class WorkerGroup:
    """The workers of one shape, and the calls that wait for one of them.

    Args:
        staff: What is around it.
        seats: Where it gets its seats from.
        demand: What a call asks for.
        options: What a worker asks for itself.
        is_on_device: Whether that is everything that a call asks for.
    """

    def __init__(
        self,
        staff: Staff,
        seats: Slots,
        demand: Demand,
        options: ActorOptions,
        *,
        is_on_device: bool,
    ) -> None:
        self._staff = staff
        self._seats = seats
        self.demand = demand
        self.is_on_device = is_on_device
        self.hands: dict[TaskWorker, None] = {}
        self.size = 0
        self._options = options
        self._cpus = demand.request.amounts.get(CPU, 0)
        self._usual = _Backlog(is_nested=False)
        self._nested = _Backlog(is_nested=True)
        self._seated: list[TaskWorker] = []
        self._idle: list[TaskWorker] = []
        staff.enter(self)

    @property
    def is_counted(self) -> bool:
        """Whether a call asks for anything at all."""
        return bool(self.demand.request.amounts)

    # Calls.

    def post(self, task: Task) -> None:
        """Adds a call behind those that wait."""
        backlog = self._nested if task.is_nested else self._usual
        backlog.waiting.append(task)
        self.size += 1
        if not backlog.found_nobody:
            self.feed()

    def post_again(self, tasks: list[Task]) -> None:
        """Adds calls before those that wait: they were sent before, and came back."""
        for task in reversed(tasks):
            self._backlog_of(task).waiting.appendleft(task)
        self.size += len(tasks)
        self._nested.found_nobody = self._usual.found_nobody = False

    def dropped(self) -> None:
        """A call that waited is over."""
        self.size -= 1
        if not self.size:
            self._forget_waiting()

    def give_up(self) -> list[Task]:
        """Forgets the calls that wait."""
        given_up = [
            task
            for backlog in (self._usual, self._nested)
            for task in backlog.waiting
            if not task.is_dropped
        ]
        self.size = 0
        self._forget_waiting()
        return given_up

    def _forget_waiting(self) -> None:
        for backlog in (self._usual, self._nested):
            backlog.waiting.clear()
            backlog.found_nobody = False
        self._want_nothing()

    def feed(self, *, nested_first: bool = False) -> None:
        """Sends the calls that may go.

        Args:
            nested_first: Whether the first of them is a nested one, if there is any,
                rather than the one that came first.
        """
        nested = self._nested
        nested.found_nobody = self._usual.found_nobody = False
        if nested.waiting:
            self._feed_in_turn(nested_first=nested_first)
        else:
            self._feed_others()
        if nested.promise is not None and not nested.waiting:
            # What has passed others is not for the rest of those who wait.
            promise, nested.promise = nested.promise, None
            self._seats.leave(promise)

    def _feed_others(self) -> None:
        """Sends the calls that may go where none is nested: the usual case."""
        waiting = self._usual.waiting
        while waiting:
            task = waiting[0]
            if task.is_dropped:
                waiting.popleft()
                continue
            hand = self._next_hand(task)
            if hand is None:
                if not self._refuses_all():
                    self._usual.found_nobody = True
                return
            waiting.popleft()
            self.size -= 1
            self._send(task, hand)

    def _feed_in_turn(self, *, nested_first: bool) -> None:
        while first := self._first(nested_first=nested_first):
            nested_first = False
            for task in first:
                hand = self._next_hand(task)
                if hand is not None:
                    self._backlog_of(task).waiting.popleft()
                    self.size -= 1
                    self._send(task, hand)
                    break
            else:
                if not self._refuses_all():
                    for task in first:
                        self._backlog_of(task).found_nobody = True
                return

    def _first(self, *, nested_first: bool) -> list[Task]:
        """Who has waited for longest: the nested one, and the other one."""
        first: list[Task] = []
        for waiting in (self._usual.waiting, self._nested.waiting):
            while waiting and waiting[0].is_dropped:
                waiting.popleft()
            if waiting:
                first.append(waiting[0])
        if len(first) > 1:
            first.sort(key=lambda task: (nested_first > task.is_nested, task.number))
        return first

    def _backlog_of(self, task: Task) -> _Backlog:
        return self._nested if task.is_nested else self._usual

    def _refuses_all(self) -> bool:
        """Whether nobody can ever run the calls that wait: then they fail."""
        trouble = self._seats.trouble()
        if trouble is not None:
            for task in self.give_up():
                self._staff.refuse(task, type(trouble)(str(trouble)))
        return trouble is not None

    def _send(self, task: Task, hand: TaskWorker) -> None:
        plan = task.plan
        code = plan.code
        if code.number not in hand.known:
            hand.known.add(code.number)
            self._staff.teach(code, hand)
            if len(hand.known) >= MOST_LESSONS:
                hand.is_leaving = True
        if plan.max_calls:
            hand.sent[code.number] += 1
            if hand.sent[code.number] >= plan.max_calls:
                hand.is_leaving = True
        hand.is_stuck = not plan.goes_ahead
        hand.depth = min(hand.depth, code.depth) if hand.tasks else code.depth
        hand.tasks[task] = None
        self._staff.send(task, hand)

    def _next_hand(self, task: Task) -> TaskWorker | None:
        """Who runs a call: somebody free, somebody new, or somebody quick."""
        depth = task.plan.code.depth if task.plan.goes_ahead else AT_LEAST
        best, least = None, depth
        for hand in self._seated:
            if hand.is_leaving or hand.is_stuck or hand.is_waiting:
                continue
            count = len(hand.tasks)
            if not count:
                return hand
            if count < least and count < hand.depth:
                best, least = hand, count
        if best is not None and not self._has_cpus(best):
            best = None
        new = self._new_seat(task)
        if new is not None or best is None:
            return new
        return None if self._others_wait() else best

    # Seats.

    def _new_seat(self, task: Task) -> TaskWorker | None:
        """Somebody more, if there is room for them now; else their place in line."""
        label, backlog = task.plan.label, self._backlog_of(task)
        if self.is_on_device:
            return self._new_holder(label, backlog)
        if backlog.promise is not None or not self._may_sit():
            return None
        promise = self._seats.enter(label, is_nested=backlog.is_nested)
        if promise.done():
            return self._sit(promise.result())
        backlog.promise = promise
        promise.add_done_callback(partial(self._granted, backlog))
        self._staff.waits(promise, label, lambda: self._why(label, promise))
        return None

    def _why(self, label: str, promise: asyncio.Future[Lease]) -> str | None:
        """Why nobody runs calls; None if somebody does: that others wait is usual."""
        if any(hand.tasks for hand in self.hands):
            return None
        return self._seats.explain(label, promise)

    def _may_sit(self) -> bool:
        if not (self._idle or self._staff.may_start()):
            return False
        is_full = not self.is_counted and len(self._seated) >= MOST_SEATS
        return not is_full and self._seats.trouble() is None

    def _granted(self, backlog: _Backlog, promise: asyncio.Future[Lease]) -> None:
        if backlog.promise is not promise:
            return  # given up, and back already
        backlog.promise = None
        if promise.cancelled() or promise.exception() is not None:
            self.feed()  # which finds out why, and tells
            return
        if not (backlog.waiting if backlog.is_nested else self.size):
            self._seats.leave(promise)
            return
        self._sit(promise.result())
        self.feed(nested_first=backlog.is_nested)
        self._unseat_idle()

    def _sit(self, lease: Lease) -> TaskWorker:
        if self._idle:
            hand = self._idle.pop()
            self._staff.is_busy(hand)
        else:
            hand = self._staff.hire(self, "function", self._options)
            self.hands[hand] = None
        hand.lease = lease
        self._seats.occupy(lease)
        self._seat(hand)
        return hand

    def _seat(self, hand: TaskWorker) -> None:
        hand.is_seated = True
        self._seated.append(hand)

    def _new_holder(self, label: str, backlog: _Backlog) -> TaskWorker | None:
        """A worker that holds devices itself: it stands in line before it is born."""
        if backlog.newcomer is not None or not self._may_sit():
            return None
        is_nested = backlog.is_nested
        hand = self._staff.hire(self, label, self._options, is_nested=is_nested)
        self.hands[hand] = None
        promise = hand.life.placement.pending
        if promise is not None and promise.done():
            self._seats.occupy(promise.result())
            self._seat(hand)
            return hand
        backlog.newcomer = hand
        if promise is not None:
            self._staff.waits(promise, label, lambda: self._why(label, promise))
        hand.life.placement.settled().add_done_callback(
            lambda _: self._placed(hand, backlog)
        )
        return None

    def _placed(self, hand: TaskWorker, backlog: _Backlog) -> None:
        if backlog.newcomer is not hand:
            return
        backlog.newcomer = None
        lease = hand.life.record.lease
        if hand.life.placement.is_awaited or hand not in self.hands or lease is None:
            return  # it never will be
        self._seats.occupy(lease)
        self._seat(hand)
        self.feed(nested_first=backlog.is_nested)
        self._unseat_idle()

    def _unseat_idle(self) -> None:
        for hand in list(self._seated):
            if not hand.tasks:
                self._unseat(hand)

    def _unseat(self, hand: TaskWorker) -> None:
        """Takes the seat of a worker that has nothing to do."""
        if self.is_on_device:
            if hand.is_leaving or not self._has_cpus(hand) or self._others_wait():
                self.dismiss(hand, "it has run what it was started for")
            else:
                self._staff.is_idle(hand)
            return
        self._stand_up(hand)
        if hand.is_leaving:
            self.dismiss(hand, "it has run what it was started for")
        else:
            self._idle.append(hand)
            self._staff.is_idle(hand)

    def _stand_up(self, hand: TaskWorker) -> None:
        if hand.is_seated:
            hand.is_seated = False
            self._seated.remove(hand)
        lease, hand.lease = hand.lease, None
        if lease is not None:
            self._seats.release(lease)

    def dismiss(self, hand: TaskWorker, why: str) -> None:
        """Ends a worker that has nothing to do."""
        hand.is_leaving = True
        if hand in self._idle:
            self._idle.remove(hand)
        if hand.is_seated:
            hand.is_seated = False
            self._seated.remove(hand)
        self._staff.end(hand, why)

    def _others_wait(self) -> bool:
        usual, nested = self._usual, self._nested
        if self.is_on_device:
            ours = (usual.newcomer is not None) + (nested.newcomer is not None)
        else:
            ours = (usual.promise is not None) + (nested.promise is not None)
        return self._seats.others_wait(ours)

    def _want_nothing(self) -> None:
        """No call waits: whoever stands in line for one leaves it."""
        for backlog in (self._usual, self._nested):
            promise, backlog.promise = backlog.promise, None
            if promise is not None:
                self._seats.leave(promise)
            hand, backlog.newcomer = backlog.newcomer, None
            if hand is not None:
                hand.life.kill("nobody needed it any more")

    # What workers say.

    def freed(self, hand: TaskWorker) -> None:
        """A worker has answered a call."""
        self._nested.found_nobody = self._usual.found_nobody = False
        if hand.is_waiting and not hand.tasks:
            self._end_wait(hand)  # it was cancelled, and did not wait for its CPUs
        if hand.tasks:
            if self.size:
                self.feed()
            return
        may_keep = self._has_cpus(hand) and not hand.is_leaving
        if self.size and may_keep and not self._others_wait():
            self.feed()
            if hand.tasks:
                return
        if hand in self.hands:
            self._unseat(hand)
        if self.size:
            self.feed()

    def blocked(self, hand: TaskWorker, number: int) -> None:
        """The call of a worker waits for a result: others may have its CPUs.

        Args:
            hand: The worker.
            number: The number of the wait there.
        """
        self._end_wait(hand)
        hand.wait = number
        hand.is_waiting = True
        self._staff.is_waiting(1)
        if not self.is_on_device and hand.is_seated:
            hand.is_seated = False
            self._seated.remove(hand)
        lease = self._held_by(hand)
        if lease is not None and {CPU} == {*lease.amounts}:
            self._hold(hand, None)
            if not self._lent_on(lease):
                self._seats.release(lease)
        elif lease is not None and lease.amounts:
            self._hold(hand, self._seats.lend(lease))
        self.feed()

    def _lent_on(self, lease: Lease) -> bool:
        """Lends a seat to a nested call, if there is one.

        The last one is likely to be the very one that is waited for; by arrival it
        would be one of somebody who waits as well, and again more would have begun.
        """
        waiting = self._nested.waiting
        while waiting and waiting[-1].is_dropped:
            waiting.pop()
        if not waiting or not self._may_sit():
            return False
        task = waiting.pop()
        self.size -= 1
        self._send(task, self._sit(lease))
        return True

    def resumed(self, hand: TaskWorker) -> None:
        """The call of a worker has that, and goes on when it has its CPUs."""
        if not hand.is_waiting or hand.going_on is not None:
            return
        promise = None
        if not self._has_cpus(hand) and self._seats.trouble() is None:
            label = next((task.plan.label for task in hand.tasks), "function")
            promise = self._seats.ask_back(label, self._cpus, self._held_by(hand))
        if promise is None:
            self._go_on(hand, None)
        elif promise.done():
            self._go_on(hand, promise.result())
        else:
            hand.going_on = promise
            promise.add_done_callback(partial(self._got_back, hand))

    def _got_back(self, hand: TaskWorker, promise: asyncio.Future[Lease]) -> None:
        if hand.going_on is promise:
            has_failed = promise.cancelled() or promise.exception() is not None
            self._go_on(hand, None if has_failed else promise.result())

    def _go_on(self, hand: TaskWorker, cpus: Lease | None) -> None:
        hand.going_on = None
        self._end_wait(hand)
        lease = self._held_by(hand)
        if cpus is not None:
            lease = cpus if lease is None else self._seats.merge(lease, cpus)
            self._hold(hand, lease)
        if lease is not None:
            self._seats.occupy(lease)
        if not self.is_on_device:
            self._seat(hand)
        hand.life.dispatch.tell((GO_ON, hand.wait))

    def _end_wait(self, hand: TaskWorker) -> None:
        """The call of a worker does not wait any more."""
        promise, hand.going_on = hand.going_on, None
        if promise is not None:
            self._seats.leave(promise)
        if hand.is_waiting:
            hand.is_waiting = False
            self._staff.is_waiting(-1)

    def _held_by(self, hand: TaskWorker) -> Lease | None:
        return hand.life.record.lease if self.is_on_device else hand.lease

    def _hold(self, hand: TaskWorker, lease: Lease | None) -> None:
        if self.is_on_device:
            hand.life.record.lease = lease
        else:
            hand.lease = lease

    def _has_cpus(self, hand: TaskWorker) -> bool:
        """Whether a worker has the CPUs that a call asks for, and has not lent them."""
        lease = hand.life.record.lease if self.is_on_device else hand.lease
        if lease is None:
            return self.is_on_device  # it is being born with them
        return not self._cpus or CPU in lease.amounts

    def gone(self, hand: TaskWorker) -> None:
        """The process of a worker is gone."""
        self.hands.pop(hand, None)
        self._end_wait(hand)
        if hand in self._idle:
            self._idle.remove(hand)
        for backlog in (self._usual, self._nested):
            if backlog.newcomer is hand:
                backlog.newcomer = None
        self._stand_up(hand)
        self._staff.is_busy(hand)
        self._nested.found_nobody = self._usual.found_nobody = False
