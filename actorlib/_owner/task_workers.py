"""Every worker of functions in a runtime: hired, taught, sent calls, and gone.

Workers are lives like those of actors, which nobody sees as such.

Workers of functions that have nothing to do, and how long they stay.

Calls that were sent ahead behind one that takes long: they are taken back.
"""

from __future__ import annotations

import weakref
from typing import (
    TYPE_CHECKING,
)

from actorlib._core.snapshot import (
    WorkerGroupInfo,
)
from actorlib._owner.creation import (
    EncodedArguments,
)
from actorlib._owner.refcount import (
    OWNER,
)
from actorlib._owner.task import (
    STUCK,
    NoReply,
    TaskWorker,
)
from actorlib._wire.function_code import (
    Sent,
)
from actorlib._wire.messages import (
    RETURN_UNSTARTED,
)
from actorlib._wire.serialization import (
    encode_call,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import (
        Callable,
        Collection,
    )

    from actorlib._core.actor_options import (
        ActorOptions,
    )
    from actorlib._core.ids import (
        ActorId,
    )
    from actorlib._owner.machine import (
        LocalNode,
    )
    from actorlib._owner.task import (
        FunctionCode,
        Task,
        Workshop,
    )
    from actorlib._owner.task_group import (
        WorkerGroup,
    )
    from actorlib.accelerators.base import (
        Lease,
    )


LONGEST = 30.0
"""Seconds after which a worker without anything to do is ended."""
_SWEEP = 1.0


class Idle:
    """Workers that wait for calls, the one that does for longest first.

    There are never more than the machine has CPUs and, besides, than have waited for
    results at once of late; and none where memory is short.

    Args:
        loop: The owner's loop.
        machine: Where they are.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, machine: LocalNode) -> None:
        self._leaving: dict[TaskWorker, str] = {}
        self._loop = loop
        self._machine = machine
        self._hands: dict[TaskWorker, None] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._waiting = 0
        self._most_waiting = 0

    def is_waiting(self, number: int) -> None:
        """So many more workers wait for results; their CPUs want workers meanwhile."""
        self._waiting += number
        self._most_waiting = max(self._most_waiting, self._waiting)

    def add(self, hand: TaskWorker) -> None:
        """A worker has nothing to do."""
        hand.idle_since = self._loop.time()
        self._hands[hand] = None
        self._keep(self._machine.parallel + self._most_waiting)
        self._begin()

    def _keep(self, number: int) -> None:
        """Ends those too many that have had nothing to do for longest."""
        while len(self._hands) > number:
            self._dismiss(next(iter(self._hands)))

    def remove(self, hand: TaskWorker) -> None:
        """It has something to do again, or is gone."""
        self._hands.pop(hand, None)
        if hand.life.ended.done():
            self._leaving.pop(hand, None)

    def make_room(self) -> None:
        """Somebody stands in line: what idle workers hold may be what they want."""
        for hand in [hand for hand in self._hands if hand.crew.is_on_device]:
            self._dismiss(hand)

    def end(self, hand: TaskWorker, why: str) -> None:
        """Ends a worker when all it has to pass on is passed on; see Staff."""
        if hand.life.dispatch.unsent:
            self._leaving[hand] = why
            self._begin()
        else:
            hand.life.end(why)

    def _begin(self) -> None:
        if self._sweeping is None and (self._hands or self._leaving):
            self._sweeping = self._loop.call_later(_SWEEP, self._sweep)

    def close(self) -> None:
        """Looks after nobody any more."""
        self._hands.clear()
        self._leaving.clear()
        if self._sweeping is not None:
            self._sweeping.cancel()

    def _dismiss(self, hand: TaskWorker) -> None:
        self._hands.pop(hand, None)
        hand.crew.dismiss(hand, "it had nothing to do")

    def _sweep(self) -> None:
        self._sweeping = None
        now = self._loop.time()
        is_short = self._machine.has_little_memory()
        for hand in list(self._hands):
            if is_short or now - hand.idle_since >= LONGEST:
                self._dismiss(hand)
        self._keep(self._machine.parallel + self._most_waiting)
        self._most_waiting = self._waiting
        leaving, self._leaving = self._leaving, {}
        for hand, why in leaving.items():
            self.end(hand, why)
        self._begin()


class StuckCallMonitor:
    """Looks after workers that have more than one call, while there are any.

    Args:
        loop: The owner's loop.
        hands: The workers, live.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, hands: Collection[TaskWorker]
    ) -> None:
        self._loop = loop
        self._hands = hands
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """A worker has more than one call."""
        if self._timer is None:
            self._timer = self._loop.call_later(STUCK, self._look)

    def close(self) -> None:
        """Looks after nobody any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        is_ahead = False
        for hand in self._hands:
            if len(hand.tasks) < 2:
                continue
            is_ahead = True
            if hand.answers == hand.looked_at and not hand.is_stuck:
                hand.is_stuck = True
                hand.life.dispatch.tell((RETURN_UNSTARTED,))
                hand.look()
            hand.looked_at = hand.answers
        if is_ahead:
            self.begin()


_NOTHING = encode_call((), {})
_LEARN = "learn"


class Workers:
    """What crews need around them; see Staff.

    Args:
        workshop: Where workers live.
        machine: Where that is.
        lost: Told of a worker whose process is gone, with the calls that it had.
        refuse: Told of a call that nobody will run, and why.

    Attributes:
        hands: The workers, by id.
        end: Ends a worker when all it has to pass on is passed on; see Staff.
    """

    def __init__(
        self,
        workshop: Workshop,
        machine: LocalNode,
        lost: Callable[[TaskWorker], None],
        refuse: Callable[[Task, BaseException], None],
    ) -> None:
        self.hands: dict[ActorId, TaskWorker] = {}
        self._refuse = refuse
        self._workshop = workshop
        self._machine = machine
        self._loans = workshop.loans
        self._lost = lost
        self._idle = Idle(workshop.loop, machine)
        self.end = self._idle.end
        self._crews: weakref.WeakSet[WorkerGroup] = weakref.WeakSet()
        self._starting = 0
        self._watch = StuckCallMonitor(workshop.loop, self.hands.values())
        self._lesson = NoReply()
        machine.scheduler.admission.when_joined = self._idle.make_room
        workshop.groups.when_joined = self._idle.make_room

    def hire(
        self,
        crew: WorkerGroup,
        label: str,
        options: ActorOptions,
        *,
        is_nested: bool = False,
    ) -> TaskWorker:
        """Starts a worker; see Staff."""
        life = self._workshop.create_worker(
            label,
            options,
            crew.demand,
            EncodedArguments(_NOTHING, None),
            is_nested=is_nested,
        )
        hand = TaskWorker(crew, life)
        self.hands[life.record.id] = hand
        if not crew.is_on_device:
            self._starting += 1
            life.ready().add_done_callback(self._started)
        life.ended.add_done_callback(lambda _: self._gone(hand))
        return hand

    def enter(self, crew: WorkerGroup) -> None:
        """Takes a crew in; see Staff."""
        self._crews.add(crew)

    def _started(self, ready: asyncio.Future[None]) -> None:
        self._starting -= 1
        if not ready.cancelled():
            ready.exception()  # the end of the life tells of it
        self._feed_all()

    def _gone(self, hand: TaskWorker) -> None:
        """The process of a worker is gone: what it had goes to others, or fails."""
        del self.hands[hand.life.record.id]
        hand.crew.gone(hand)
        self._lost(hand)
        self._feed_all()

    def _feed_all(self) -> None:
        for crew in list(self._crews):
            if crew.size:
                crew.feed()

    def may_start(self) -> bool:
        """Whether one more worker may be started now; see Staff."""
        return self._starting < self._machine.parallel

    def waits(
        self,
        promise: asyncio.Future[Lease],
        label: str,
        tell: Callable[[], str | None],
    ) -> None:
        """A function waits for a seat; see Staff."""
        self._workshop.long_waits.add(promise, label, tell)

    def is_idle(self, hand: TaskWorker) -> None:
        """A worker has nothing to do; see Staff."""
        self._idle.add(hand)

    def is_busy(self, hand: TaskWorker) -> None:
        """It has something to do again, or is gone; see Staff."""
        self._idle.remove(hand)

    def is_waiting(self, number: int) -> None:
        """So many more workers wait, or fewer; see Staff."""
        self._idle.is_waiting(number)

    def send(self, task: Task, hand: TaskWorker) -> None:
        """Sends a call to a worker; see Staff."""
        task.hand = hand
        loans = task.loans
        if loans:  # once more: it may have to be sent again
            self._loans.arrived(loans, OWNER)
        method = task.plan.code.method
        task.sent_as = hand.life.dispatch.send(
            task, method, loans, task.payload, task.headers
        )
        if len(hand.tasks) > 1:
            self._watch.begin()

    def teach(self, code: FunctionCode, hand: TaskWorker) -> None:
        """Sends a function to a worker; see Staff."""
        self._loans.arrived(code.loans, OWNER)
        lesson = encode_call((code.method, Sent(code.source)), {})
        hand.life.dispatch.send(self._lesson, _LEARN, code.loans or None, lesson)

    def refuse(self, task: Task, error: BaseException) -> None:
        """Tells that nobody will ever run a call; see Staff."""
        self._refuse(task, error)

    def left(self, actor: ActorId, ran: int) -> None:
        """The process of a worker is gone; which call it said it ran."""
        hand = self.hands.get(actor)
        if hand is not None:
            hand.ran = ran

    def info(self) -> tuple[WorkerGroupInfo, ...]:
        """What is known of each crew."""
        return tuple(
            WorkerGroupInfo(
                resources=str(crew.demand.request),
                waiting=crew.size,
                running=sum(bool(hand.tasks) for hand in crew.hands),
                blocked=sum(hand.is_waiting for hand in crew.hands),
                pids=tuple(hand.life.pid for hand in crew.hands),
            )
            for crew in self._crews
            if crew.hands or crew.size
        )

    def close(self) -> list[Task]:
        """Looks after nobody any more; gives the calls that wait."""
        self._idle.close()
        self._watch.close()
        return [task for crew in list(self._crews) for task in crew.give_up()]
