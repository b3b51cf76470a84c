"""Grants, deaths, restarts and drains in any order: nobody is given a share early."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.occupants import GIB, Worker
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorlib._core.kinds import KINDS, UNITS
from actorlib._core.resources import Resources
from actorlib._enforcement.draining import LIMIT
from actorlib._enforcement.drains import Drains
from actorlib._enforcement.gpu_processes import Listed, Occupant, Occupants
from actorlib._scheduler.request import LeaseRequest
from actorlib._scheduler.scheduler import Scheduler
from actorlib.accelerators import Device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actorlib._enforcement.drains import Drain
    from actorlib._enforcement.nvml_session import Look
    from actorlib.accelerators import Lease

CARDS = 2


class SteppedLoop(asyncio.SelectorEventLoop):
    """A loop whose clock stands still until it is told to go on."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def turn(self) -> None:
        """Does what is due, and what that makes due."""
        for _ in range(4):
            self.call_soon(self.stop)
            self.run_forever()


class ScriptedSession:
    """Answers when it is told to, with what was so when it was asked, or is now."""

    is_over = False

    def __init__(self, see: Callable[[Sequence[str]], Look]) -> None:
        self._see = see
        self.asked: list[tuple[tuple[str, ...], Look, Callable[[Look], None]]] = []

    def look(self, devices: Sequence[str], then: Callable[[Look], None]) -> None:
        self.asked.append((tuple(devices), self._see(devices), then))

    def answer(self, *, is_late: bool) -> None:
        devices, then_seen, then = self.asked.pop(0)
        then(self._see(devices) if is_late else then_seen)


@dataclass(eq=False)
class Life:
    """An actor's worker, and what the driver still has of it.

    ``over_at`` is when nobody has to wait for it any more.
    """

    worker: Worker
    lease: Lease
    is_alive: bool = True
    on: set[str] = field(default_factory=set)
    over_at: float = 0.0


class DrainMachine(RuleBasedStateMachine):
    """A machine of two cards, and a driver that is slow to let go."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = SteppedLoop()
        devices = [
            Device(
                family="nvidia",
                kind="GPU",
                index=index,
                id=str(index),
                uuid=f"GPU-{index}",
                source="NVML",
                memory=80 * GIB,
            )
            for index in range(CARDS)
        ]
        capacity = Resources.of({"GPU": CARDS * UNITS})
        self.scheduler = Scheduler(
            capacity, {"GPU": devices}, {"GPU": KINDS["GPU"]}, (), self.loop
        )
        session: Any = ScriptedSession(self._see)
        self.session: ScriptedSession = session
        self.drains = Drains(self.loop, session, Occupants())
        self.waiting: list[asyncio.Future[Lease]] = []
        self.lives: list[Life] = []
        self.restarting: list[tuple[Lease, Drain]] = []
        self.is_closed = False
        self.pid = 100

    def _see(self, devices: Sequence[str]) -> Look:
        return {
            device: tuple(
                Listed(
                    life.worker.pid,
                    GIB,
                    frozenset({life.worker.pid}) if life.is_alive else frozenset(),
                )
                for life in self.lives
                if device in life.on
            )
            for device in devices
        }

    # What happens.

    @rule(units=st.sampled_from([2500, 5000, UNITS, 2 * UNITS]))
    def ask(self, units: int) -> None:
        request = LeaseRequest("A", Resources.of({"GPU": units}))
        self.waiting.append(self.scheduler.acquire(request))

    @rule(data=st.data())
    @precondition(lambda self: self.waiting)
    def give_up(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.waiting) - 1))
        self.scheduler.leave(self.waiting.pop(place))

    @rule()
    def start(self) -> None:
        self.loop.turn()
        granted = [pending for pending in self.waiting if pending.done()]
        self.waiting = [pending for pending in self.waiting if not pending.done()]
        for pending in granted:
            self.launch(pending.result())
        for lease, drain in [each for each in self.restarting if each[1].is_over]:
            self.restarting.remove((lease, drain))
            self.launch(lease)

    def launch(self, lease: Lease) -> None:
        self.pid += 1
        life = Life(Worker(self.pid), lease)
        self.lives.append(life)
        self.drains.entered(life, Occupant("A", life.worker, lease))

    @rule(data=st.data())
    @precondition(lambda self: any(life.is_alive for life in self.lives))
    def use(self, data: st.DataObject) -> None:
        life = data.draw(
            st.sampled_from([each for each in self.lives if each.is_alive])
        )
        life.on = {share.device.uuid or "" for share in life.lease.shares}

    @rule(data=st.data(), restarts=st.booleans())
    @precondition(lambda self: any(life.is_alive for life in self.lives))
    def die(self, data: st.DataObject, *, restarts: bool) -> None:
        life = data.draw(
            st.sampled_from([each for each in self.lives if each.is_alive])
        )
        self.end(life, restarts=restarts)

    def end(self, life: Life, *, restarts: bool) -> None:
        life.is_alive = False
        life.over_at = self.loop.now + LIMIT
        lease, drain = life.lease, self.drains.left(life)
        if drain is None:
            assert self.is_closed
            life.over_at = self.loop.now
        if restarts and drain is None:
            self.launch(lease)
        elif restarts and drain is not None:
            self.restarting.append((lease, drain))
        elif drain is None:
            self.scheduler.release(lease)
        else:
            drain.hold(lease, self.scheduler.release)

    @rule(data=st.data())
    @precondition(lambda self: any(not life.is_alive for life in self.lives))
    def let_go(self, data: st.DataObject) -> None:
        dead = [each for each in self.lives if not each.is_alive]
        self.lives.remove(data.draw(st.sampled_from(dead)))

    @rule(is_late=st.booleans())
    @precondition(lambda self: self.session.asked)
    def answer(self, *, is_late: bool) -> None:
        self.session.answer(is_late=is_late)
        self.loop.turn()

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.3, 4.0, LIMIT]))
    def wait(self, seconds: float) -> None:
        self.loop.now += seconds
        self.loop.turn()

    @rule()
    @precondition(lambda self: len(self.lives) > 4)
    def shut_down(self) -> None:
        self.is_closed = True
        self.drains.close()

    # What always holds.

    @invariant()
    def the_ledger_is_exact(self) -> None:
        self.scheduler.ledger.check()

    @invariant()
    def nobody_is_early(self) -> None:
        if self.is_closed:
            return
        held = {id(lease) for lease in self.scheduler.ledger.leases}
        used = {id(life.lease) for life in self.lives if life.is_alive}
        for life in self.lives:
            is_draining = not life.is_alive and life.on
            if is_draining and self.loop.now < life.over_at:
                assert id(life.lease) in held
                assert id(life.lease) not in used

    def teardown(self) -> None:
        """Everybody who waits is served, and everything comes back."""
        while self.waiting or self.lives or self.restarting:
            before = len(self.waiting), len(self.lives), len(self.restarting)
            for life in [each for each in self.lives if each.is_alive]:
                self.end(life, restarts=False)
            self.lives.clear()
            self.loop.now += LIMIT
            self.loop.turn()
            self.start()
            after = len(self.waiting), len(self.lives), len(self.restarting)
            assert after != before, "somebody waits for ever"
        assert list(self.drains) == []
        assert self.scheduler.ledger.available() == self.scheduler.ledger.total()
        self.loop.close()


DrainMachine.TestCase.settings = settings(
    max_examples=50, stateful_step_count=40, deadline=None
)
TestDrainsInAnyOrder = DrainMachine.TestCase
