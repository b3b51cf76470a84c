"""Calls a method of each replica in intervals, and restarts those that fail."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from actorlib._futures.object_ref import mark_seen
from actorlib.exceptions import RuntimeDrainingError

if TYPE_CHECKING:
    import weakref

    from actorlib._api.replica_set import Replica, ReplicaSet

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
        await method.options(timeout=check.timeout).remote()
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
        owner.engine.kill(replica.id, restart=True).add_done_callback(mark_seen)
