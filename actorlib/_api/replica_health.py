"""Calls a method of each replica in intervals, and restarts those that fail."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from actorlib._api.actor_handle import no_such_method, without_limit
from actorlib._base.validation import check_text
from actorlib._futures.object_ref import mark_seen
from actorlib.exceptions import ActorHandleNotFoundError, RuntimeDrainingError

if TYPE_CHECKING:
    import weakref

    from actorlib._api.replica_set import Replica, ReplicaSet
    from actorlib._options.interface import Interface

MOST_FAILED_CHECKS = 3
"""The number of failed health checks in a row after which a replica is killed."""


class HealthCheck(NamedTuple):
    """A health check.

    Attributes:
        method: The name of the method.
        interval: Seconds between two checks.
        timeout: Seconds that a check may take.
    """

    method: str
    interval: float
    timeout: float


def check_health_method(interface: Interface, name: str) -> None:
    """Makes sure that a class has a method that can be called as a health check.

    Raises:
        TypeError: The name is not a string, or the method needs arguments, or does not
            return one result.
        ValueError: It has no method of that name.
    """
    check_text("health", name, "'check'")
    method = interface.methods.get(name)
    if method is None:
        raise ValueError(f"health: {no_such_method(interface, name)}")
    count = method.options.parts
    is_stream = method.is_stream and not method.options.is_counted
    if is_stream or count != 1:
        kind = "is a generator" if is_stream else f"has num_returns={count}"
        raise TypeError(
            "health takes the name of a method that returns one result, and "
            f"{interface.class_name}.{name} {kind}"
        )
    method.check(0, {})


async def watch_health(replicas: weakref.ref[ReplicaSet], check: HealthCheck) -> None:
    """Checks all replicas in intervals, while their set exists."""
    while True:
        await asyncio.sleep(check.interval)
        owner = replicas()
        if owner is None:
            return
        accepting = [each for each in owner.staying if owner.load_of(each) is not None]
        await asyncio.gather(*map(partial(_check, owner, check), accepting))
        del owner, accepting


async def _check(owner: ReplicaSet, check: HealthCheck, replica: Replica) -> None:
    method = getattr(replica.handle, check.method)
    try:
        # Without the limit: a busy replica is not an ill one.
        await without_limit(method.options(timeout=check.timeout)).remote()
    except RuntimeDrainingError:
        return  # the check was not sent
    except Exception:  # noqa: BLE001  # any error is a failed check
        replica.failed_checks += 1
    else:
        replica.failed_checks = 0
    if replica.leaves or replica not in owner.replicas:
        return
    if not replica.failed_checks:
        owner.include(replica)
    elif replica.failed_checks < MOST_FAILED_CHECKS:
        owner.exclude(replica)
    else:
        replica.failed_checks = 0
        owner.include(replica)  # it is skipped until it is back
        with suppress(ActorHandleNotFoundError):  # the runtime has ended meanwhile
            owner.engine.kill(replica.id, restart=True).add_done_callback(mark_seen)
