"""Makes, replaces and ends equal actors, and keeps their number.

Callbacks on the ends of replicas keep their number: there is no task for it.

Each replica has a slot, from 0. Its successor has the same slot, so a slot lives on
when an actor is replaced.
"""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from actorlib._api.actor_handle import pin_of
from actorlib._api.decorators import create_in_slot, interface_and_options
from actorlib._api.replica_scaling import WaitMeter, pause_before
from actorlib._core.engine import find_engine
from actorlib.exceptions import ActorHandleNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actorlib._api.actor_handle import ActorHandle, ActorMethod
    from actorlib._api.decorators import ActorClass
    from actorlib._base.ids import ActorId
    from actorlib._core.engine import Engine

P = ParamSpec("P")
R = TypeVar("R")


class Replica:
    """One actor among equal ones.

    Attributes:
        handle: Its handle.
        id: Its id.
        slot: Its number among the replicas.
        ended: Done when it is dead for good.
        ready: Done when it is ready for calls, or can never be.
        calls: The number of calls that were sent to it.
        failed_checks: The number of failed health checks in a row.
        leaves: Whether it gets no more calls, finishes those it has, and ends.
        methods: The methods without options, whose calls may go to another replica.
        waits: Measures for how long its calls wait.
    """

    def __init__(self, handle: ActorHandle[Any], slot: int) -> None:
        engine = pin_of(handle).engine
        self.handle = handle
        self.slot = slot
        self.id: ActorId = pin_of(handle).actor_id
        self.ended = engine.dead(self.id)
        self.ready = engine.ready(self.id)
        self.calls = 0
        self.failed_checks = 0
        self.leaves = False
        self.methods: dict[str, ActorMethod[..., Any]] = {}
        self.waits = WaitMeter()

    @property
    def was_ready(self) -> bool:
        ready = self.ready
        return ready.done() and not ready.cancelled() and ready.exception() is None


class ReplicaSet:
    """Equal actors, whose number it keeps.

    Args:
        engine: The engine of the actors.
        actor_class: The class of the actors.
        args: Positional arguments of each constructor.
        kwargs: Keyword arguments of each constructor.

    Attributes:
        actor_class: The class of new ones.
        class_name: The name of the first class.
        wanted: The number of replicas that there should be.
        replicas: All of them, including those that end.
        routed: Those that get calls, and their ids; replaced at each change, for other
            threads.
        changing: Held while their number or their class changes.
        last_death: The error of the last that could not be made.
        is_closed: Whether there will be no more.
    """

    def __init__(
        self,
        engine: Engine,
        actor_class: ActorClass[..., Any],
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> None:
        self.engine = engine
        self.loop = asyncio.get_running_loop()
        self.actor_class = actor_class
        self.class_name = interface_and_options(actor_class)[0].class_name
        self.wanted = 0
        self.replicas: list[Replica] = []
        self.routed: tuple[list[Replica], list[ActorId]] = ([], [])
        self.changing = asyncio.Lock()
        self.last_death: BaseException | None = None
        self.is_closed = False
        self._args = tuple(args)
        self._kwargs: dict[str, object] = dict(kwargs)
        self._calls_of_gone = 0
        self._failures = 0
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        states = [self.state_of(each) for each in self.replicas]
        counts = ", ".join(
            f"{states.count(state)} {state}" for state in dict.fromkeys(states)
        )
        suffix = f": {counts}" if counts else ""
        return f"Replicas({self.class_name}, {self.wanted}{suffix})"

    @property
    def staying(self) -> list[Replica]:
        """The replicas that are not about to end."""
        return [each for each in self.replicas if not each.leaves]

    @property
    def ended_calls(self) -> int:
        """The number of calls that have ended in all replicas so far."""
        replicas = list(self.replicas)  # the loop changes it while another thread reads
        backlogs = self.engine.backlogs([each.id for each in replicas])
        calls = zip(replicas, backlogs, strict=True)
        ended = sum(max(0, each.calls - backlog) for each, backlog in calls)
        return self._calls_of_gone + ended

    @property
    def over(self) -> str:
        """Why there can be no replicas; empty if there can be."""
        if self.is_closed:
            return "it was closed"
        # Another runtime may run by now, which must not get these actors.
        if find_engine() is not self.engine:
            return "its runtime was shut down"
        return ""

    def check_open(self) -> None:
        """Checks that the number of replicas may change.

        Raises:
            RuntimeError: It may not.
        """
        if self.over:
            raise RuntimeError(f"{self!r} can no longer be changed: {self.over}")

    def load_of(self, replica: Replica) -> int | None:
        return self.engine.loads([replica.id])[0]

    def state_of(self, replica: Replica) -> str:
        if replica.leaves:
            return "leaving"
        if not replica.was_ready:
            return "starting"
        if self.load_of(replica) is None:
            return "unavailable"
        return "unhealthy" if replica.failed_checks else "alive"

    # Creation.

    def grow(self, n: int) -> list[Replica]:
        """Makes replicas until there are ``n``; returns the new ones."""
        self.wanted = n
        new: list[Replica] = []
        while len(self.staying) < n:
            new.append(self.make())
        return new

    def try_to_grow(self, n: int) -> None:
        """Makes replicas until there are ``n``; if that fails, again later."""
        try:
            self.grow(n)
        except Exception as error:  # noqa: BLE001  # the class or an argument can no longer be sent
            # Its frames refer to this object, which would live on in the cycle.
            self.last_death = error.with_traceback(None)
            self._failures += 1
            self.plan_to_grow()

    def make(self, slot: int | None = None) -> Replica:
        """Makes a replica in a slot; None is the first free one."""
        if slot is None:
            slots = {each.slot for each in self.staying}
            slot = next(number for number in count() if number not in slots)
        handle = create_in_slot(self.actor_class, slot, self._args, self._kwargs)
        new = Replica(handle, slot)
        new.ready.add_done_callback(weakly(self._on_ready))
        new.ended.add_done_callback(partial(weakly(self._on_end), new.id))
        self.replicas.append(new)
        self._route_to([*self.routed[0], new])
        return new

    def _replace_missing(self) -> None:
        self._timer = None
        if not (self.over or self.changing.locked()):  # a change plans it at its end
            self.try_to_grow(self.wanted)

    def plan_to_grow(self) -> None:
        """Replaces the replicas that have died, soon."""
        if self._timer is None:
            pause = pause_before(self._failures)
            self._timer = self.loop.call_later(pause, weakly(self._replace_missing))

    def _on_ready(self, ready: asyncio.Future[None]) -> None:
        if not ready.cancelled() and ready.exception() is None:
            self._failures, self.last_death = 0, None

    def _on_end(self, actor: ActorId, _: asyncio.Future[None]) -> None:
        gone = next((each for each in self.replicas if each.id == actor), None)
        if gone is None:
            return
        self.replicas.remove(gone)
        self._calls_of_gone += gone.calls
        self.exclude(gone)
        if gone.leaves or self.is_closed:
            return
        if not gone.was_ready:
            self._failures += 1
            if gone.ready.done() and not gone.ready.cancelled():
                self.last_death = gone.ready.exception()
        self.plan_to_grow()

    # Changes.

    async def scale(self, n: int) -> None:
        """Changes the number of replicas, and waits for the change."""
        async with self.changing:
            self.check_open()
            before = self.wanted
            try:
                new = self.grow(n)
            except BaseException:
                self.shrink(before)  # to as many as before: new ones leave first
                raise
            leaving = self.shrink(n)
        await all_done(leaving)
        await all_ready(new)

    def shrink(self, n: int) -> list[asyncio.Future[None]]:
        """Has replicas end after their calls until there are ``n``.

        Those that have never been ready leave first, then those with the fewest calls.

        Returns:
            The futures of their ends.
        """
        self.wanted = n
        stay = self.staying
        stay.sort(key=lambda each: (each.was_ready, self.load_of(each) or 0))
        return self.leave(stay[: max(0, len(stay) - n)])

    async def replace(
        self,
        actor_class: ActorClass[..., Any],
        args: Sequence[object] | None,
        kwargs: Mapping[str, object] | None,
        *,
        surge: bool,
    ) -> None:
        """Replaces all replicas, one after the other; see Replicas.

        Args:
            actor_class: The class of the new ones.
            args: Their positional arguments; None for the same.
            kwargs: Their keyword arguments; None for the same.
            surge: Whether each new one is ready before an old one ends.
        """
        async with self.changing:
            self.check_open()
            before = self.actor_class, self._args, self._kwargs
            # Together: if one of them is wrong, nothing has changed.
            self.actor_class, self._args, self._kwargs = (
                actor_class,
                self._args if args is None else tuple(args),
                self._kwargs if kwargs is None else dict(kwargs),
            )
            try:
                for old in self.staying:
                    await self._replace_one(old, surge=surge)
            except BaseException:
                self.actor_class, self._args, self._kwargs = before
                raise
            finally:
                self.plan_to_grow()  # replaces those that died meanwhile

    async def _replace_one(self, old: Replica, *, surge: bool) -> None:
        if old not in self.replicas:
            return  # it has died, and is replaced at the end
        if surge:
            await self._make_ready(old.slot)
        await all_done(self.leave([old]))
        if not surge:
            await self._make_ready(old.slot)

    async def _make_ready(self, slot: int) -> None:
        self.check_open()  # they may have been closed meanwhile
        new = self.make(slot)
        try:
            await asyncio.shield(new.ready)
        except BaseException:
            self._stop_routing(new)
            self.replicas = [each for each in self.replicas if each is not new]
            raise

    # Ends.

    def leave(self, leaving: Sequence[Replica]) -> list[asyncio.Future[None]]:
        """Has replicas end after their calls; returns the futures of their ends."""
        for each in leaving:
            self._stop_routing(each)
        return _ends_of(leaving, self.engine.end)

    async def kill_all(self) -> None:
        """Ends all of them at once."""
        self.close()
        replicas = list(self.replicas)
        for each in replicas:
            self._stop_routing(each)
        await all_done(_ends_of(replicas, self.engine.kill))

    def close(self) -> None:
        """Makes no more replicas."""
        self.is_closed = True
        self.wanted = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Routing.

    def exclude(self, replica: Replica) -> None:
        """Sends no calls to a replica for now."""
        self._route_to([each for each in self.routed[0] if each is not replica])

    def include(self, replica: Replica) -> None:
        """Sends calls to a replica again."""
        if replica not in self.routed[0]:
            self._route_to([*self.routed[0], replica])

    def _stop_routing(self, replica: Replica) -> None:
        replica.leaves = True
        self.exclude(replica)

    def _route_to(self, replicas: list[Replica]) -> None:
        self.routed = replicas, [each.id for each in replicas]


def _ends_of(
    replicas: Sequence[Replica],
    end: Callable[[ActorId], asyncio.Future[None]],
) -> list[asyncio.Future[None]]:
    """Ends replicas; returns the futures of their ends."""
    ends: list[asyncio.Future[None]] = []
    for each in replicas:
        with suppress(ActorHandleNotFoundError):  # the end of the runtime ends it
            ends.append(end(each.id))
    return ends


async def all_ready(replicas: Sequence[Replica]) -> None:
    """Waits until all are ready; raises the first error afterwards."""
    await all_done([asyncio.shield(each.ready) for each in replicas])


async def all_done(futures: Sequence[asyncio.Future[None]]) -> None:
    """Waits for all futures, and then raises the first error."""
    for outcome in await asyncio.gather(*futures, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def weakly(method: Callable[P, R]) -> Callable[P, R | None]:
    """Returns a function that calls a method as long as its object exists."""
    reference = weakref.WeakMethod(method)

    def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
        bound = reference()
        return None if bound is None else bound(*args, **kwargs)

    return call
