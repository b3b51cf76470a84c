"""Chooses the replica of each call, refuses calls that exceed a limit, and moves calls.

The numbers of calls are the engine's: no call is counted or watched here.
"""

from __future__ import annotations

import random
import threading
from functools import partial
from typing import TYPE_CHECKING

from actorlib._api.replica_limits import CallRate
from actorlib._api.replica_routing import KeyTable, choose
from actorlib._api.replica_set import weakly
from actorlib.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    Exit,
    OverloadedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._api.replica_set import Replica, ReplicaSet
    from actorlib._base.ids import ActorId

FEW = 8
"""Up to this number of replicas a call compares all; above it, two random ones."""


class ReplicaRouter:
    """Chooses the replica of each call; called by any thread.

    Args:
        replicas: The replicas.
        max_pending: The calls without an answer that each may have; None for any
            number.
        health: The method of health checks, for messages; None without checks.

    Attributes:
        move: Chooses another replica for a call of one that has died; None if there is
            none. It does not keep the router alive.
    """

    def __init__(
        self,
        replicas: ReplicaSet,
        max_pending: int | None,
        health: str | None,
    ) -> None:
        self._set = replicas
        self._engine = replicas.engine
        self._max_pending = max_pending
        self._health = health
        self._turn = 0
        self._rate = CallRate()
        self._keys = KeyTable()
        self._lock = threading.Lock()
        self.move: Callable[[], ActorId | None] = weakly(self._choose_again)
        self._move_key: Callable[[bytes], ActorId | None] = weakly(
            self._choose_key_again
        )

    def route(self) -> Replica:
        """Chooses the replica of a call.

        Raises:
            ActorUnavailableError: There is none.
            OverloadedError: All have as many calls as they may have.
        """
        chosen = self._choose()
        if chosen is None:
            # Calls wait for replicas that start; for others as their options say.
            routed, _ = self._set.routed
            waiting = [each for each in routed if not each.was_ready] or routed
            if not waiting:
                raise self._no_replica()
            chosen = waiting[self._turn % len(waiting)]
        if self._max_pending is not None:
            chosen = self._with_room(chosen, self._max_pending)
        return chosen

    def _choose(self) -> Replica | None:
        """Chooses a replica that accepts calls now; None if none does."""
        routed, ids = self._set.routed
        count = len(routed)
        if count > FEW:
            one = int(random.random() * count)
            other = int(random.random() * (count - 1))
            other += other >= one
            place = choose(self._engine.loads((ids[one], ids[other])), 0)
            if place is not None:
                return routed[other if place else one]
        turn = self._turn = self._turn + 1
        place = choose(self._engine.loads(ids), turn)
        return None if place is None else routed[place]

    def _choose_again(self) -> ActorId | None:
        if self._set.over:
            return None
        starting = (each for each in self._set.routed[0] if not each.was_ready)
        return _counted(self._choose() or next(starting, None))

    # Calls with a key.

    def route_key(self, digest: bytes) -> Replica:
        """Chooses the replica of a call with a key, given the digest of the key.

        Raises:
            ActorUnavailableError: There is none.
            OverloadedError: It has as many calls as it may have.
        """
        chosen = self._choose_by_key(digest)
        if chosen is None:
            raise self._no_replica()
        if self._max_pending is not None:
            self._sample()
            [backlog] = self._engine.backlogs([chosen.id])
            if backlog >= self._max_pending:
                name = f"{self._set.class_name}[{chosen.slot}]"
                count = len(self._set.routed[0])
                raise self._overloaded(
                    f"{name}, the replica of this key, has {backlog} calls without an "
                    f"answer, and max_pending={self._max_pending}",
                    backlog * count,
                )
        return chosen

    def move_key(self, digest: bytes) -> Callable[[], ActorId | None]:
        """Returns ``move`` for calls with a key."""
        return partial(self._move_key, digest)

    def _choose_by_key(self, digest: bytes) -> Replica | None:
        """Chooses the replica of a key; None if there is none.

        A key leaves a replica that has ended or is being restarted: what that knew of
        it is gone. It stays with one that starts if calls wait there.
        """
        routed, ids = self._set.routed
        loads = zip(routed, self._engine.loads(ids), strict=True)
        accepting = [each for each, load in loads if load is not None]
        starting = [each for each in routed if not each.was_ready]
        present = starting or routed
        if accepting:
            present = [*(each for each in starting if each.calls), *accepting]
        offers = accepting or present
        with self._lock:
            slot = self._keys.choose(
                digest, {each.slot for each in present}, [each.slot for each in offers]
            )
        return next((each for each in reversed(present) if each.slot == slot), None)

    def _choose_key_again(self, digest: bytes) -> ActorId | None:
        return _counted(None if self._set.over else self._choose_by_key(digest))

    # The limit of pending calls.

    def _with_room(self, chosen: Replica, limit: int) -> Replica:
        """Returns the chosen replica, or another one if that is full.

        Raises:
            OverloadedError: All are full.
        """
        self._sample()
        engine = self._engine
        if engine.backlogs([chosen.id])[0] < limit:
            return chosen
        # Others may have room: not all are compared, and some start.
        routed, ids = self._set.routed
        backlogs = engine.backlogs(ids)
        room = [
            (backlogs[place], place)
            for place, load in enumerate(engine.loads(ids))
            if backlogs[place] < limit
            and (load is not None or not routed[place].was_ready)
        ]
        if room:
            return routed[min(room)[1]]
        pending = sum(backlogs)
        raise self._overloaded(
            f"{self._set!r} has {pending} calls without an answer, and "
            f"max_pending={limit} for each replica",
            pending,
        )

    def _sample(self) -> None:
        now = self._set.loop.time()
        if now >= self._rate.due:
            ended = self._set.ended_calls
            with self._lock:
                self._rate.sample(now, ended)

    def _overloaded(self, fault: str, calls: int) -> OverloadedError:
        now, ended = self._set.loop.time(), self._set.ended_calls
        with self._lock:
            seconds = self._rate.time_for(calls, now, ended)
        return OverloadedError(
            f"{fault}: call again in about {seconds:.2g} s, or allow more calls or "
            "replicas",
            retry_after=seconds,
        )

    def _no_replica(self) -> BaseException:
        replicas = self._set
        problem = f"{replicas!r} has no replica that accepts calls"
        if replicas.over:
            return RuntimeError(f"{problem}: {replicas.over}")
        if not replicas.wanted:
            return RuntimeError(f"{problem}: it was scaled to 0")
        death = replicas.last_death
        if isinstance(death, ActorDiedError):
            message = f"{problem}. The last death: {death}"
            actor = death.actor_id
            return ActorUnavailableError(message, exit=death.exit, actor_id=actor)
        if death is not None:
            return RuntimeError(f"{problem}. The last could not be made: {death}")
        is_ill = any(each.failed_checks for each in replicas.staying)
        reason = f"{self._health}() fails" if is_ill else "the next is being made"
        end = Exit(cause="restarted", reason=reason)
        return ActorUnavailableError(f"{problem}: {reason}", exit=end)


def _counted(chosen: Replica | None) -> ActorId | None:
    if chosen is None:
        return None
    chosen.calls += 1
    return chosen.id
