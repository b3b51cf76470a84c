"""Every call of a function in a runtime, and every worker that runs them.

Workers are lives like those of actors, which nobody sees as such. A call is in exactly
one place: in line in its crew, or with one worker. What happens to a worker happens to
the oldest call that it has, which is the one that runs; those behind it go to another
one as if they had never been sent.
"""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any

from actorlib._code import Sent
from actorlib._local.ahead import depth
from actorlib._local.birth import Sealed
from actorlib._local.holders import OWNER
from actorlib._local.idle import Idle
from actorlib._local.plans import Plans
from actorlib._local.tasks import Hand, Lesson, Plan, Task
from actorlib._local.verdicts import Verdicts
from actorlib._local.watch import Watch
from actorlib._ref import ObjectRef
from actorlib._resources import CPU
from actorlib._snapshot import CrewInfo
from actorlib._wire.frames import CANCEL, FAILURE, RAISED, UNBEGUN, Frame
from actorlib._wire.payload import encode_call
from actorlib.exceptions import Exit, WorkerCrashedError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection

    from actorlib._engine import ActorId, LoanId
    from actorlib._local.crew import Crew
    from actorlib._local.machine import Machine
    from actorlib._local.tasks import Code, Reply, Workshop
    from actorlib._local.wishes import Demand
    from actorlib._options import ActorOptions
    from actorlib._wire.frames import Payload
    from actorlib.accelerators.base import Lease

_NOTHING = encode_call((), {})
_LEARN = "learn"


class Pool:
    """The functions of a runtime; the replier of the refs of their calls.

    Args:
        workshop: Where workers live.
        machine: What they get their seats from.
        may_wait: Whether what can never be given waits for ever.
        goes_ahead: Whether workers can say which call they ran when they are gone, so
            that several may be sent to one.
    """

    def __init__(
        self, workshop: Workshop, machine: Machine, *, may_wait: bool, goes_ahead: bool
    ) -> None:
        self._goes_ahead = goes_ahead
        self.loop = workshop.loop
        self.hands: dict[ActorId, Hand] = {}
        self._workshop = workshop
        self._admission = machine.admission
        self._machine = machine
        self.loans = workshop.loans
        self.plans = Plans(self, workshop.loans, machine, may_wait=may_wait)
        self._verdicts = Verdicts(workshop.loans)
        self._idle = Idle(self.loop, machine)
        self.end = self._idle.end
        self._tasks: dict[int, Task] = {}
        self._held_back: dict[int, ObjectRef[Any] | weakref.ref[ObjectRef[Any]]] = {}
        self._numbers = itertools.count(1)
        self._crews: weakref.WeakSet[Crew] = weakref.WeakSet()
        self._starting = 0
        self._closed_for = ""
        self._watch = Watch(self.loop, self.hands.values())
        self._lesson = Lesson()
        self._admission.when_joined = self._idle.make_room
        # The rest of a replier: what it does for refs of objects.
        self.watch = workshop.objects.watch
        self.wait = workshop.objects.wait
        self.name = workshop.objects.name
        self.travel = workshop.objects.travel

    # Calls.

    def post(
        self,
        reply: Reply,
        plan: Plan,
        loans: Collection[LoanId] | None,
        payload: Payload,
    ) -> int:
        """Takes a call, whose arguments are there; gives its number.

        Args:
            reply: Who gets the answer.
            plan: What it is a call of.
            loans: What is in its arguments, which this process holds for it.
            payload: The arguments.
        """
        number = next(self._numbers)
        task = Task(self, number, plan, reply, loans, payload)
        crew = plan.crew
        if crew is None or self._closed_for:
            self._refuse(task, plan.trouble or self._over(plan))
            return 0
        self._tasks[number] = task
        crew.post(task)
        return number

    def hold_back(self, ref: ObjectRef[Any]) -> int:
        """Keeps the place of a call that waits for its arguments; gives its number."""
        number = next(self._numbers)
        self._held_back[number] = ref
        return number

    def let_go(self, number: int) -> ObjectRef[Any] | None:
        """The arguments are there: whom the answer is for, or None if nobody waits."""
        entry = self._held_back.pop(number, None)
        ref = entry() if isinstance(entry, weakref.ref) else entry
        return None if ref is None or ref.done() else ref

    def answered(self, task: Task, frame: Frame) -> None:
        """The answer of a call came from its worker; see Ended."""
        hand = task.hand
        assert hand is not None
        task.hand = None
        hand.tasks.pop(task, None)
        hand.answers += 1
        hand.is_stuck = False
        if frame[0] == FAILURE and task.reply is not None:
            if frame[2] == UNBEGUN:
                self._came_back(task, hand)
                return
            if frame[2] == RAISED and self._is_made_anew(task, frame):
                task.retries = task.retries.one_less
                self._verdicts.drop(frame)
                hand.crew.post_again([task])
                hand.crew.freed(hand)
                return
        reply, task.reply = task.reply, None
        self._verdicts.give(reply, frame)
        del self._tasks[task.number]
        if task.loans:
            self.loans.returned(task.loans, OWNER)
        hand.crew.freed(hand)

    def _is_made_anew(self, task: Task, frame: Frame) -> bool:
        """Whether a call is made again after what its function raised."""
        return not self._closed_for and self._verdicts.is_retried(task.retries, frame)

    def _came_back(self, task: Task, hand: Hand) -> None:
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
        if task.loans:
            self.loans.returned(task.loans, OWNER)
        # Whoever ended the runtime knows: no report of a ref that nobody awaits.
        self._verdicts.fail(reply, error, is_known=bool(self._closed_for))

    def _over(self, plan: Plan) -> WorkerCrashedError:
        how = Exit(cause="asked", reason=self._closed_for or "it was cancelled")
        return WorkerCrashedError(f"{plan.label} has no result: {how}", exit=how)

    # The replier of refs; the rest of it is that of objects.

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Stops a call; see Replier."""
        self._cancel(call, recursive=recursive)

    def force(self, call: int) -> None:
        """Stops a call, and ends the process that runs it."""
        self._cancel(call, by_force=True)

    def _cancel(
        self, call: int, *, by_force: bool = False, recursive: bool = True
    ) -> None:
        self._held_back.pop(call, None)
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
        if by_force and next(iter(hand.tasks)) is task:
            task.was_forced = hand.is_leaving = True
            hand.life.kill("the call that it ran was cancelled")
            return
        hand.life.dispatch.tell((CANCEL, task.sent_as))
        if recursive:
            hand.life.dispatch.cancel_made(task.sent_as)
        hand.look()

    def loosen(self, ref: ObjectRef[Any]) -> None:
        """From now on the call is cancelled if nobody holds the ref; see Replier."""
        number = ref.call

        def gone(_: object) -> None:
            # A destructor may run anywhere.
            self.loop.call_soon(self.cancel, number)

        task = self._tasks.get(number)
        if task is not None and isinstance(task.reply, ObjectRef):
            task.reply = weakref.ref(ref, gone)
        elif number in self._held_back:
            self._held_back[number] = weakref.ref(ref, gone)

    # Workers; see Staff.

    def hire(self, crew: Crew, label: str, options: ActorOptions) -> Hand:
        """Starts a worker; see Staff."""
        life = self._workshop.bear_worker(
            label, options, crew.demand, Sealed(_NOTHING, None)
        )
        hand = Hand(crew, life)
        self._crews.add(crew)
        self.hands[life.record.id] = hand
        if not crew.is_on_device:
            self._starting += 1
            life.ready().add_done_callback(self._started)
        life.ended.add_done_callback(lambda _: self._gone(hand))
        return hand

    def _started(self, ready: asyncio.Future[None]) -> None:
        self._starting -= 1
        if not ready.cancelled():
            ready.exception()  # the end of the life tells of it
        self._feed_all()

    def _feed_all(self) -> None:
        for crew in list(self._crews):
            if crew.size:
                crew.feed()

    def enter(self, label: str, demand: Demand) -> asyncio.Future[Lease]:
        """Asks for a seat; see Staff."""
        return self._admission.enter(label, *demand)

    def leave(self, promise: asyncio.Future[Lease]) -> None:
        """Gives up a place in line; see Staff."""
        self._admission.leave(promise)

    def lend_cpus(self, hand: Hand) -> None:
        """Gives CPUs back, for good: it would wait with its device; see Staff."""
        record = hand.life.record
        if record.lease is not None and CPU in record.lease.amounts:
            cpus, record.lease = self._machine.ledger.split(record.lease, CPU)
            self._admission.release(cpus)

    def release(self, lease: Lease) -> None:
        """Gives a seat back; see Staff."""
        self._admission.release(lease)

    def others_wait(self, own: int) -> bool:
        """Whether more than so many stand in line; see Staff."""
        return len(self._admission) > own

    def may_start(self) -> bool:
        """Whether one more worker may be started now; see Staff."""
        return self._starting < self._machine.parallel

    def is_idle(self, hand: Hand) -> None:
        """A worker has nothing to do; see Staff."""
        self._idle.add(hand)

    def is_busy(self, hand: Hand) -> None:
        """It has something to do again, or is gone; see Staff."""
        self._idle.remove(hand)

    def send(self, task: Task, hand: Hand) -> None:
        """Sends a call to a worker; see Staff."""
        task.hand = hand
        loans = task.loans
        if loans:  # once more: it may have to be sent again
            self.loans.arrived(loans, OWNER)
        plan = task.plan
        task.sent_as = hand.life.dispatch.send(
            task, plan.code.method, loans, task.payload, plan.told
        )
        if len(hand.tasks) > 1:
            self._watch.begin()

    def teach(self, code: Code, hand: Hand) -> None:
        """Sends a function to a worker; see Staff."""
        self.loans.arrived(code.loans, OWNER)
        lesson = encode_call((code.method, Sent(code.source)), {})
        hand.life.dispatch.send(self._lesson, _LEARN, code.loans or None, lesson)

    def _gone(self, hand: Hand) -> None:
        """The process of a worker is gone: what it had goes to others, or fails."""
        del self.hands[hand.life.record.id]
        crew = hand.crew
        crew.gone(hand)
        tasks = list(hand.tasks)
        hand.tasks.clear()
        ran = next((task for task in tasks if task.sent_as == hand.ran), None)
        ran = ran or next(iter(tasks), None)
        again: list[Task] = []
        for task in tasks:
            task.hand = None
            if task is ran:
                if self._is_made_again(task, hand):
                    again.append(task)
            elif task.reply is None or self._closed_for:
                self._refuse(task, self._over(task.plan))
            else:
                again.append(task)
        crew.post_again(again)
        self._feed_all()

    def _is_made_again(self, task: Task, hand: Hand) -> bool:
        """Whether a call is made again whose process died; else it is over."""
        how = hand.life.record.exit or Exit(cause="lost")
        if task.reply is None or self._closed_for:
            self._refuse(task, self._over(task.plan))
            return False
        if task.retries.times and how.cause not in ("failed to start", "lost"):
            task.retries = task.retries.one_less
            return True
        most = task.plan.retries.times
        tried = f" {most + 1} times (max_retries={most})" if most > 0 else ""
        message = f"the process that ran {task.plan.label} ended{tried}: {how}"
        self._refuse(task, WorkerCrashedError(message, exit=how))
        return False

    # What workers say.

    def left(self, actor: ActorId, ran: int) -> None:
        """The process of a worker is gone; which call it said it ran."""
        hand = self.hands.get(actor)
        if hand is not None:
            hand.ran = ran

    def paced(self, hand: Hand, method: str, seconds: float) -> None:
        """How long a function takes of late."""
        if not self._goes_ahead:
            return
        number = int(method.partition(":")[0])
        for task in hand.tasks:
            if task.plan.code.number == number:
                task.plan.code.depth = depth(seconds)
                hand.depth = min(task.plan.code.depth for task in hand.tasks)
                return

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

    # The end.

    def close(self, why: str) -> None:
        """Refuses new calls, and fails those that wait."""
        self._closed_for = why
        self._idle.close()
        self._watch.close()
        for crew in list(self._crews):
            for task in crew.give_up():
                self._refuse(task, self._over(task.plan))
