"""Every worker of functions in a runtime: hired, taught, sent calls, and gone.

Workers are lives like those of actors, which nobody sees as such.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from actorlib._code import Sent
from actorlib._local.birth import Sealed
from actorlib._local.holders import OWNER
from actorlib._local.idle import Idle
from actorlib._local.tasks import Hand, Lesson
from actorlib._local.watch import Watch
from actorlib._snapshot import CrewInfo
from actorlib._wire.payload import encode_call

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from actorlib._ids import ActorId
    from actorlib._local.crew import Crew
    from actorlib._local.machine import Machine
    from actorlib._local.tasks import Code, Task, Workshop
    from actorlib._options import ActorOptions
    from actorlib.accelerators.base import Lease

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
        machine: Machine,
        lost: Callable[[Hand], None],
        refuse: Callable[[Task, BaseException], None],
    ) -> None:
        self.hands: dict[ActorId, Hand] = {}
        self._refuse = refuse
        self._workshop = workshop
        self._machine = machine
        self._loans = workshop.loans
        self._lost = lost
        self._idle = Idle(workshop.loop, machine)
        self.end = self._idle.end
        self._crews: weakref.WeakSet[Crew] = weakref.WeakSet()
        self._starting = 0
        self._watch = Watch(workshop.loop, self.hands.values())
        self._lesson = Lesson()
        machine.scheduler.admission.when_joined = self._idle.make_room
        workshop.groups.when_joined = self._idle.make_room

    def hire(
        self, crew: Crew, label: str, options: ActorOptions, *, is_nested: bool = False
    ) -> Hand:
        """Starts a worker; see Staff."""
        life = self._workshop.bear_worker(
            label,
            options,
            crew.demand,
            Sealed(_NOTHING, None),
            is_nested=is_nested,
        )
        hand = Hand(crew, life)
        self.hands[life.record.id] = hand
        if not crew.is_on_device:
            self._starting += 1
            life.ready().add_done_callback(self._started)
        life.ended.add_done_callback(lambda _: self._gone(hand))
        return hand

    def enter(self, crew: Crew) -> None:
        """Takes a crew in; see Staff."""
        self._crews.add(crew)

    def _started(self, ready: asyncio.Future[None]) -> None:
        self._starting -= 1
        if not ready.cancelled():
            ready.exception()  # the end of the life tells of it
        self._feed_all()

    def _gone(self, hand: Hand) -> None:
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

    def is_idle(self, hand: Hand) -> None:
        """A worker has nothing to do; see Staff."""
        self._idle.add(hand)

    def is_busy(self, hand: Hand) -> None:
        """It has something to do again, or is gone; see Staff."""
        self._idle.remove(hand)

    def is_waiting(self, number: int) -> None:
        """So many more workers wait, or fewer; see Staff."""
        self._idle.is_waiting(number)

    def send(self, task: Task, hand: Hand) -> None:
        """Sends a call to a worker; see Staff."""
        task.hand = hand
        loans = task.loans
        if loans:  # once more: it may have to be sent again
            self._loans.arrived(loans, OWNER)
        method = task.plan.code.method
        task.sent_as = hand.life.dispatch.send(
            task, method, loans, task.payload, task.told
        )
        if len(hand.tasks) > 1:
            self._watch.begin()

    def teach(self, code: Code, hand: Hand) -> None:
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

    def info(self) -> tuple[CrewInfo, ...]:
        """What is known of each crew."""
        return tuple(
            CrewInfo(
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
