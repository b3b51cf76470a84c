"""Grants, deaths, restarts and drains in any order: nobody is given a share early.

Some stand in line for a part of a placement group, which may be removed meanwhile, with
those inside or while what they had drains.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.invariants import check_ledger
from helpers.occupants import GIB, Worker
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actorlib._base.ids import ACTOR_KIND, GROUP_KIND, ActorId, new_id, prefix_of
from actorlib._enforcement.drains import LIMIT
from actorlib._enforcement.gpu_processes import Listed
from actorlib._enforcement.gpu_watch import GpuWatch
from actorlib._options.group_spec import GroupId, GroupSpec
from actorlib._options.kinds import UNITS
from actorlib._options.resources import Resources
from actorlib._scheduler.request import LeaseRequest
from actorlib._scheduler.scheduler import Scheduler
from actorlib.accelerators import Device, Inventory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actorlib._enforcement.drains import Drain
    from actorlib._enforcement.nvml_session import Look
    from actorlib._scheduler.placement_group import Group
    from actorlib.accelerators import Lease

CARDS = 2
PREFIX = prefix_of(bytes(4), 0)
BUNDLES: list[list[dict[str, float | str]]] = [
    [{"GPU": 0.5}],
    [{"GPU": 1}],
    [{"GPU": 0.25}, {"gpu_memory": "60GiB"}],
    [{"GPU": 0.5}, {"gpu_memory": "40GiB"}, {"GPU": 0.5, "gpu_memory": "1GiB"}],
    [{"GPU": 1}, {"GPU": 1}],
]


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

    def __init__(self, see: Callable[[Sequence[str]], Look]) -> None:
        self._see = see
        self.asked: list[tuple[tuple[str, ...], Look, Callable[[Look], None]]] = []

    def look(self, devices: Sequence[str], then: Callable[[Look], None]) -> None:
        self.asked.append((tuple(devices), self._see(devices), then))

    def answer(self, *, is_late: bool) -> None:
        devices, then_seen, then = self.asked.pop(0)
        then(self._see(devices) if is_late else then_seen)


@dataclass(eq=False)
class Wish:
    """An actor: where it stands in line, and whether it uses what it gets at once."""

    actor: ActorId
    group: GroupSpec | None
    pending: asyncio.Future[Lease]
    is_quick: bool


@dataclass(eq=False)
class Life:
    """An actor's worker, and what the driver still has of it.

    ``over_at`` is when nobody has to wait for it any more.
    """

    worker: Worker
    lease: Lease
    wish: Wish
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
            capacity, Inventory(devices={"GPU": (*devices,)}), (), self.loop
        )
        self.session = ScriptedSession(self._see)
        session: Any = self.session
        self.gpus = GpuWatch(self.loop, lambda _: session, print)
        self.waiting: list[Wish] = []
        self.lives: list[Life] = []
        self.restarting: list[tuple[Lease, Drain, Wish]] = []
        self.groups: list[Group] = []
        self.removed: list[tuple[Group, asyncio.Future[None]]] = []
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

    def new_id(self, kind: int) -> bytes:
        self.pid += 1
        return new_id(PREFIX, kind, self.pid)

    @rule(units=st.sampled_from([2500, 5000, UNITS, 2 * UNITS]), is_quick=st.booleans())
    def ask(self, units: int, *, is_quick: bool) -> None:
        self.enter(units, None, is_quick=is_quick)

    def enter(self, units: int, group: GroupSpec | None, *, is_quick: bool) -> None:
        actor = ActorId(self.new_id(ACTOR_KIND))
        request = LeaseRequest("A", Resources.of({"GPU": units}), group=group)
        if group is not None:
            assert not self.scheduler.groups.add_member(
                group, actor, lambda _: self.evict(actor)
            )
        pending = self.scheduler.acquire(request)
        self.waiting.append(Wish(actor, group, pending, is_quick))
        if is_quick:
            self.start()

    @rule(bundles=st.sampled_from(BUNDLES))
    @precondition(lambda self: len(self.groups) < 3)
    def reserve(self, bundles: list[dict[str, float | str]]) -> None:
        made = GroupId(self.new_id(GROUP_KIND))
        spec = GroupSpec(id=made, bundles=tuple(bundles))
        self.groups.append(self.scheduler.groups.reserve(spec, 0))

    @rule(
        data=st.data(),
        units=st.sampled_from([2500, 5000, UNITS]),
        is_quick=st.booleans(),
    )
    @precondition(lambda self: self.groups)
    def ask_inside(self, data: st.DataObject, units: int, *, is_quick: bool) -> None:
        group = data.draw(st.sampled_from(self.groups))
        self.enter(units, group.spec, is_quick=is_quick)

    @rule(data=st.data())
    @precondition(lambda self: self.groups)
    def remove(self, data: st.DataObject) -> None:
        group = data.draw(st.sampled_from(self.groups))
        self.groups.remove(group)
        gone = self.scheduler.groups.remove(group, "a test says so")
        self.removed.append((group, gone))

    def evict(self, actor: ActorId) -> None:
        """Ends an actor whose group is removed, as its supervisor does."""
        for wish in [each for each in self.waiting if each.actor == actor]:
            self.waiting.remove(wish)
            self.scheduler.leave(wish.pending)
            self.forget(wish)
        for life in self.lives:
            if life.wish.actor == actor and life.is_alive:
                self.end(life, restarts=False)
        for each in [each for each in self.restarting if each[2].actor == actor]:
            self.restarting.remove(each)
            each[1].hold(each[0], self.scheduler.release)
            self.forget(each[2])

    def forget(self, wish: Wish) -> None:
        """An actor is dead, and has given everything back but what drains."""
        if wish.group is not None:
            self.scheduler.groups.remove_member(wish.group, wish.actor)

    @rule(data=st.data())
    @precondition(lambda self: self.waiting)
    def give_up(self, data: st.DataObject) -> None:
        wish = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(wish)
        self.scheduler.leave(wish.pending)
        self.forget(wish)

    @rule()
    def start(self) -> None:
        self.loop.turn()
        for wish in [each for each in self.waiting if each.pending.done()]:
            self.waiting.remove(wish)
            if wish.pending.exception() is not None:  # it fits into no bundle
                assert wish.group is not None
                self.forget(wish)
            else:
                self.launch(wish.pending.result(), wish)
        for each in [each for each in self.restarting if each[1].is_over]:
            self.restarting.remove(each)
            self.launch(each[0], each[2])

    def launch(self, lease: Lease, wish: Wish) -> None:
        self.pid += 1
        life = Life(Worker(self.pid), lease, wish)
        if wish.is_quick:
            life.on = {share.device.uuid or "" for share in lease.shares}
        self.lives.append(life)
        self.gpus.add_worker(life.worker, "A", lease, is_watched=False)

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
        self.gpus.drain_worker(life.worker)
        lease, drain = life.lease, self.gpus.drains.of(life.worker)
        if drain is None:
            assert self.is_closed
            life.over_at = self.loop.now
        if restarts and drain is None:
            self.launch(lease, life.wish)
        elif restarts and drain is not None:
            self.restarting.append((lease, drain, life.wish))
        elif drain is None:
            self.scheduler.release(lease)
            self.forget(life.wish)
        else:
            drain.hold(lease, self.scheduler.release)
            self.forget(life.wish)

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
        self.gpus.stop()

    # What always holds.

    @invariant()
    def the_ledger_is_exact(self) -> None:
        check_ledger(self.scheduler.ledger)

    def drain_of(self, life: Life) -> bool:
        """Whether others have to wait for what the driver has of a life."""
        return not life.is_alive and bool(life.on) and self.loop.now < life.over_at

    @invariant()
    def nobody_is_early(self) -> None:
        if self.is_closed:
            return
        ledger = self.scheduler.ledger
        held = {id(lease) for lease in ledger.leases}
        used = {id(life.lease) for life in self.lives if life.is_alive}
        for life in filter(self.drain_of, self.lives):
            assert id(life.lease) not in used
            if life.wish.group is None:
                assert id(life.lease) in held
        on_each: Counter[str] = Counter()
        for life in self.lives:
            if life.is_alive or self.drain_of(life):
                on_each.update({s.device.id: s.units for s in life.lease.shares})
        assert max(on_each.values(), default=0) <= UNITS

    @invariant()
    def groups_are_gone_behind_those_inside(self) -> None:
        if self.is_closed:
            return
        inside = {
            life.wish.group.id
            for life in self.lives
            if life.wish.group and (life.is_alive or self.drain_of(life))
        }
        for group, gone in self.removed:
            assert not (gone.done() and group.spec.id in inside)
        held = {id(lease) for lease in self.scheduler.ledger.leases}
        for group in self.scheduler.groups:
            assert group.lease is None or id(group.lease) in held

    def teardown(self) -> None:
        """Everybody who waits is served, and everything comes back."""
        while self.waiting or self.lives or self.restarting or self.groups:
            before = self.counts()
            for life in [each for each in self.lives if each.is_alive]:
                self.end(life, restarts=False)
            self.lives.clear()
            self.loop.now += LIMIT
            self.loop.turn()
            self.start()
            if self.counts() == before:
                # Who waits for a group that is not reserved yet goes on after others.
                assert self.groups, "somebody waits for ever"
                group = next((g for g in self.groups if g.state == "CREATED"), None)
                assert group or not self.waiting, "a group waits for ever"
                group = group or self.groups[0]
                self.groups.remove(group)
                gone = self.scheduler.groups.remove(group, "the test is over")
                self.removed.append((group, gone))
        self.loop.now += LIMIT
        self.loop.turn()
        assert list(self.gpus.drains) == []
        assert all(gone.done() for _, gone in self.removed)
        assert list(self.scheduler.groups) == []
        assert self.scheduler.ledger.available() == self.scheduler.ledger.total()
        self.loop.close()

    def counts(self) -> tuple[int, ...]:
        every = (self.waiting, self.lives, self.restarting, self.groups)
        return tuple(map(len, every))


DrainMachine.TestCase.settings = settings(stateful_step_count=40)
TestDrainsInAnyOrder = DrainMachine.TestCase
