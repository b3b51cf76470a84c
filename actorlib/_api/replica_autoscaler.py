"""Applies the decisions about the number of replicas, with one timer.

The timer looks at the replicas while they have calls, and once more to end those that
were not needed. A call only checks whether it runs.
"""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING

from actorlib._api.decorators import interface_and_options
from actorlib._api.group_options import with_context
from actorlib._api.replica_scaling import ReplicaLoad, Scaler
from actorlib._api.replica_set import weakly
from actorlib._base.log import warn
from actorlib._futures.object_ref import mark_seen
from actorlib._options.actor_options import LOOPED_LIMIT

if TYPE_CHECKING:
    import asyncio

    from actorlib._api.decorators import ActorClass
    from actorlib._api.replica_scaling import ScalingLimits
    from actorlib._api.replica_set import Replica, ReplicaSet

_MISSING = ReplicaLoad(pending=0, wait=0.0, accepts=False, starts=True)
"""The load of a replica that could not be made yet."""


class Autoscaler:
    """Keeps the number of replicas that their calls need.

    Args:
        replicas: The replicas.
        limits: The limits of their number.

    Attributes:
        limits: The same.
    """

    def __init__(self, replicas: ReplicaSet, limits: ScalingLimits) -> None:
        self.limits = limits
        self._replicas = replicas
        self._scaler = Scaler(limits)
        self._timer: asyncio.TimerHandle | None = None
        self._is_watching = False
        self._had_calls = False
        self._is_starting = False
        self._has_reported = False
        # Replicas are made in the context of their owner, not of a call.
        self._context = copy_context()

    def watch(self) -> None:
        """Begins to watch the replicas; called after each call, by any thread."""
        if not self._is_watching:
            self._is_watching = True
            self._replicas.engine.later(weakly(self._begin))

    def close(self) -> None:
        """Stops watching."""
        self._is_watching = True
        self._cancel_timer()

    def _begin(self) -> None:
        self._cancel_timer()
        self._context.run(self._look)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        replicas, limits = self._replicas, self.limits
        if replicas.over:
            return
        self._is_watching = False
        after: float | None = limits.interval
        has_calls = True
        if not replicas.changing.locked():
            now, staying = replicas.loop.time(), replicas.staying
            loads = [self._load_of(each, now) for each in staying]
            # Those that are tried again later count as well, or they would be made
            # even when no call needs them any longer.
            loads += [_MISSING] * (replicas.wanted - max(len(staying), limits.least))
            was_starting = self._is_starting
            self._is_starting = any(load.starts for load in loads)
            if was_starting and not self._is_starting:
                for each in staying:
                    each.waits.forget()
                loads = [load._replace(wait=0.0) for load in loads]
            has_calls = any(load.pending or load.starts for load in loads)
            concurrency = concurrency_of(replicas.actor_class)
            count, after = self._scaler.decide(now, loads, concurrency)
            if count < len(loads):
                for end in replicas.shrink(count):
                    end.add_done_callback(mark_seen)
            elif count > len(loads) >= replicas.wanted:
                self._grow(count)
        # A call of another thread may be on its way: one more look without a call.
        if has_calls or self._had_calls:
            self._is_watching = True
            after = limits.interval
        self._had_calls = has_calls
        if after is not None:
            self._timer = replicas.loop.call_later(
                after, weakly(self._look), context=self._context
            )

    def _load_of(self, replica: Replica, now: float) -> ReplicaLoad:
        engine = self._replicas.engine
        queue = engine.call_queue(replica.id)
        return ReplicaLoad(
            pending=engine.backlogs([replica.id])[0],
            wait=replica.waits.measure(now, queue.oldest, queue.last),
            accepts=self._replicas.load_of(replica) is not None,
            starts=not replica.was_ready,
        )

    def _grow(self, count: int) -> None:
        replicas = self._replicas
        for number in range(replicas.wanted + 1, count + 1):
            reason = self._shortage()
            if reason:
                self._report(reason)
                return
            replicas.try_to_grow(number)
            self._is_starting = True  # it may be ready at the next look
        self._has_reported = False

    def _shortage(self) -> str:
        """Explains why no further replica can be placed now; empty if one can."""
        interface, options = interface_and_options(self._replicas.actor_class)
        name = interface.class_name
        try:
            options = with_context(name, options)
        except (OSError, ValueError) as error:  # its folder was removed, for example
            return str(error)
        return self._replicas.engine.shortage(name, options)

    def _report(self, reason: str) -> None:
        """Logs why there is no further replica, once until there is one again."""
        if self._has_reported:
            return
        self._has_reported = True
        count = self._replicas.wanted
        warn(
            "calls of %s wait for more than %g s, and a further replica cannot be "
            "placed now. Calls go on in the present replicas (%d), and the next one is "
            "placed when there is room: end what holds the resources, give init() "
            "more, or set max=%d. %s",
            self._replicas.class_name,
            self.limits.target_wait,
            count,
            count,
            reason,
        )


def concurrency_of(actor_class: ActorClass[..., object]) -> int:
    """Returns how many calls an actor of a class runs at once, without its groups."""
    interface, options = interface_and_options(actor_class)
    return options.max_concurrency or (LOOPED_LIMIT if interface.is_async else 1)
