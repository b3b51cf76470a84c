"""Workers that run functions which ask for the same, and the calls that wait for them.

A worker has a *seat* while it may run calls: the share of the machine that each of them
holds. Where calls ask for no device, seats are taken from the machine or a group, in
line with everybody else, and a worker without one is idle and holds nothing. Where they
ask for devices a worker is born with its seat, and its end is what frees that.

A seat is kept while more calls wait and nobody else stands in line.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from actorlib._local.ahead import AT_LEAST
from actorlib._resources import CPU

if TYPE_CHECKING:
    import asyncio

    from actorlib._local.seats import Seats
    from actorlib._local.tasks import Code, Hand, Task
    from actorlib._local.wishes import Demand
    from actorlib._options import ActorOptions
    from actorlib.accelerators.base import Lease

MOST_SEATS = 512
"""How many calls that ask for nothing run at once."""
MOST_LESSONS = 256
"""How many functions a worker learns before it is replaced."""


class Staff(Protocol):
    """What a crew needs around it; see Workers."""

    def hire(self, crew: Crew, label: str, options: ActorOptions) -> Hand:
        """Starts a worker."""
        ...

    def refuse(self, task: Task, error: BaseException) -> None:
        """Tells that nobody will ever run a call."""
        ...

    def may_start(self) -> bool:
        """Whether one more worker may be started now."""
        ...

    def is_idle(self, hand: Hand) -> None:
        """A worker has no seat any more."""
        ...

    def is_busy(self, hand: Hand) -> None:
        """An idle worker has one again."""
        ...

    def end(self, hand: Hand, why: str) -> None:
        """Ends a worker when all it has to pass on is passed on."""
        ...

    def send(self, task: Task, hand: Hand) -> None:
        """Sends a call to a worker."""
        ...

    def teach(self, code: Code, hand: Hand) -> None:
        """Sends a function to a worker."""
        ...


class Crew:
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
        seats: Seats,
        demand: Demand,
        options: ActorOptions,
        *,
        is_on_device: bool,
    ) -> None:
        self._staff = staff
        self._seats = seats
        self.demand = demand
        self.is_on_device = is_on_device
        self.hands: dict[Hand, None] = {}
        self.size = 0
        self._options = options
        self._waiting: deque[Task] = deque()
        self._seated: list[Hand] = []
        self._idle: list[Hand] = []
        self._promise: asyncio.Future[Lease] | None = None
        self._newcomer: Hand | None = None
        self._is_full = False

    @property
    def is_counted(self) -> bool:
        """Whether a call asks for anything at all."""
        return bool(self.demand.request.amounts)

    # Calls.

    def post(self, task: Task) -> None:
        """Adds a call behind those that wait."""
        self._waiting.append(task)
        self.size += 1
        if not self._is_full:
            self.feed()

    def post_again(self, tasks: list[Task]) -> None:
        """Adds calls before those that wait: they were sent before, and came back."""
        self._waiting.extendleft(reversed(tasks))
        self.size += len(tasks)
        self._is_full = False

    def dropped(self) -> None:
        """A call that waited is over."""
        self.size -= 1
        if not self.size:
            self._waiting.clear()
            self._is_full = False
            self._want_nothing()

    def give_up(self) -> list[Task]:
        """Forgets the calls that wait."""
        given_up = [task for task in self._waiting if task.reply is not None]
        self._waiting.clear()
        self.size = 0
        self._want_nothing()
        return given_up

    def feed(self) -> None:
        """Sends the calls that may go."""
        waiting = self._waiting
        self._is_full = False
        while waiting:
            task = waiting[0]
            if task.reply is None:
                waiting.popleft()
                continue
            hand = self._next_hand(task)
            if hand is None:
                self._is_full = not self._refuses_all()
                return
            waiting.popleft()
            self.size -= 1
            self._send(task, hand)

    def _refuses_all(self) -> bool:
        """Whether nobody can ever run the calls that wait: then they fail."""
        trouble = self._seats.trouble()
        if trouble is not None:
            for task in self.give_up():
                self._staff.refuse(task, type(trouble)(str(trouble)))
        return trouble is not None

    def _send(self, task: Task, hand: Hand) -> None:
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

    def _next_hand(self, task: Task) -> Hand | None:
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
        if best is not None and best.lease is None and not self.is_on_device:
            best = None
        new = self._new_seat(task.plan.label)
        if new is not None or best is None:
            return new
        return None if self._others_wait() else best

    # Seats.

    def _new_seat(self, label: str) -> Hand | None:
        """Somebody more, if there is room for them now; else their place in line."""
        if self.is_on_device:
            return self._new_holder(label)
        if self._promise is not None or not self._may_sit():
            return None
        promise = self._seats.enter(label)
        if promise.done():
            return self._sit(promise.result())
        self._promise = promise
        promise.add_done_callback(self._granted)
        return None

    def _may_sit(self) -> bool:
        if not (self._idle or self._staff.may_start()):
            return False
        is_full = not self.is_counted and len(self._seated) >= MOST_SEATS
        return not is_full and self._seats.trouble() is None

    def _granted(self, promise: asyncio.Future[Lease]) -> None:
        if promise is not self._promise:
            return  # given up, and back already
        self._promise = None
        if promise.cancelled() or promise.exception() is not None:
            self.feed()  # which finds out why, and tells
            return
        if not self.size:
            self._seats.leave(promise)
            return
        self._sit(promise.result())
        self.feed()
        self._unseat_idle()

    def _sit(self, lease: Lease) -> Hand:
        if self._idle:
            hand = self._idle.pop()
            self._staff.is_busy(hand)
        else:
            hand = self._staff.hire(self, "function", self._options)
            self.hands[hand] = None
        hand.lease = lease
        hand.is_seated = True
        self._seated.append(hand)
        return hand

    def _new_holder(self, label: str) -> Hand | None:
        """A worker that holds devices itself: it stands in line before it is born."""
        if self._newcomer is not None or not self._may_sit():
            return None
        hand = self._staff.hire(self, label, self._options)
        self.hands[hand] = None
        promise = hand.life.place.promise
        if promise is not None and promise.done():
            hand.is_seated = True
            self._seated.append(hand)
            return hand
        self._newcomer = hand
        hand.life.placed().add_done_callback(lambda _: self._placed(hand))
        return None

    def _placed(self, hand: Hand) -> None:
        if self._newcomer is not hand:
            return
        self._newcomer = None
        if hand.life.is_placeless or hand not in self.hands:
            return  # it never will be
        hand.is_seated = True
        self._seated.append(hand)
        self.feed()
        self._unseat_idle()

    def _unseat_idle(self) -> None:
        for hand in list(self._seated):
            if not hand.tasks:
                self._unseat(hand)

    def _unseat(self, hand: Hand) -> None:
        """Takes the seat of a worker that has nothing to do."""
        if self.is_on_device:
            if hand.is_leaving or self._others_wait():
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

    def _stand_up(self, hand: Hand) -> None:
        if hand.is_seated:
            hand.is_seated = False
            self._seated.remove(hand)
        lease, hand.lease = hand.lease, None
        if lease is not None:
            self._seats.release(lease)

    def dismiss(self, hand: Hand, why: str) -> None:
        """Ends a worker that has nothing to do."""
        hand.is_leaving = True
        if hand in self._idle:
            self._idle.remove(hand)
        if hand.is_seated:
            hand.is_seated = False
            self._seated.remove(hand)
        self._staff.end(hand, why)

    def _others_wait(self) -> bool:
        own = self._promise is not None or self._newcomer is not None
        return self._seats.others_wait(int(own))

    def _want_nothing(self) -> None:
        """No call waits: whoever stands in line for one leaves it."""
        promise, self._promise = self._promise, None
        if promise is not None:
            self._seats.leave(promise)
        hand, self._newcomer = self._newcomer, None
        if hand is not None:
            hand.life.kill("nobody needed it any more")

    # What workers say.

    def freed(self, hand: Hand) -> None:
        """A worker has answered a call."""
        self._is_full = False
        if hand.tasks:
            if self.size:
                self.feed()
            return
        may_keep = self.is_on_device or hand.lease is not None
        if self.size and may_keep and not hand.is_leaving and not self._others_wait():
            self.feed()
            if hand.tasks:
                return
        if hand in self.hands:
            self._unseat(hand)
        if self.size:
            self.feed()

    def blocked(self, hand: Hand) -> None:
        """The call of a worker waits for a result: others may have its CPUs."""
        hand.is_waiting = True
        if self.is_on_device:
            record = hand.life.record
            if record.lease is not None and CPU in record.lease.amounts:
                record.lease = self._seats.lend_cpus(record.lease)
        else:
            self._stand_up(hand)
        self.feed()

    def resumed(self, hand: Hand) -> None:
        """It goes on, at once: the machine may have more to do than it has CPUs."""
        hand.is_waiting = False
        if self.is_on_device or not hand.tasks or hand.is_seated:
            return
        if self._seats.trouble() is None:
            promise = self._seats.enter("")
            if promise.done():
                hand.lease = promise.result()
            else:
                self._seats.leave(promise)
        hand.is_seated = True
        self._seated.append(hand)

    def gone(self, hand: Hand) -> None:
        """The process of a worker is gone."""
        self.hands.pop(hand, None)
        if hand in self._idle:
            self._idle.remove(hand)
        if self._newcomer is hand:
            self._newcomer = None
        self._stand_up(hand)
        self._staff.is_busy(hand)
        self._is_full = False
