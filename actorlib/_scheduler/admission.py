"""Admits requests to the ledger: at once, or in the order of the queue."""

from __future__ import annotations

import asyncio
from itertools import takewhile
from typing import TYPE_CHECKING, final

from actorlib._options.resources import GPU_MEMORY, Resources
from actorlib._scheduler.explain import held_by, preview, shortage
from actorlib._scheduler.long_waits import shell_hint
from actorlib._scheduler.request import (
    ANYWHERE,
    DeviceConstraints,
    Priority,
    described,
)
from actorlib._scheduler.wait_queue import Waiter, WaitQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._scheduler.ledger import Ledger
    from actorlib.accelerators.base import Lease


@final
class Admission:
    """Admits requests to a ledger; those for which there is no room yet wait.

    Every lease of the ledger has to be acquired and released here, on one event loop:
    a release is what lets the queue move.

    Args:
        ledger: Grants the leases.
        loop: Where leases are waited for; None for the one that runs then.
        holder_names: Returns what the holders of leases are called, by the ids of the
            lease objects.
        on_wait: Called when a request has to wait.

    Attributes:
        ledger: As given.
        holder_names: As given.
    """

    __slots__ = (
        "_loop",
        "_on_wait",
        "_pending",
        "_queue",
        "_waiters",
        "holder_names",
        "ledger",
    )

    def __init__(
        self,
        ledger: Ledger,
        loop: asyncio.AbstractEventLoop | None = None,
        holder_names: Callable[[], Mapping[int, str]] = dict,
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self.ledger = ledger
        self._loop = loop
        self._queue = WaitQueue(ledger)
        self._pending: dict[Waiter, asyncio.Future[Lease]] = {}
        self._waiters: dict[asyncio.Future[Lease], Waiter] = {}
        self.holder_names = holder_names
        self._on_wait = on_wait

    def __len__(self) -> int:
        """Counts the requests that wait."""
        return len(self._waiters)

    def acquire(
        self,
        label: str,
        resources: Resources,
        constraints: DeviceConstraints = ANYWHERE,
        priority: Priority = Priority.USUAL,
    ) -> asyncio.Future[Lease]:
        """Requests a lease: granted at once if that delays no waiter, else queued.

        What can never be granted waits for ever and holds nobody up.

        Args:
            label: Who requests it, for messages.
            resources: How much.
            constraints: Of which devices.
            priority: Which waiters it may pass.

        Returns:
            The lease, now or later. Whoever takes it gives it back to :meth:`release`;
            whoever wants it no more says so to :meth:`leave`.
        """
        loop = self._loop or asyncio.get_running_loop()
        pending: asyncio.Future[Lease] = loop.create_future()
        lease = self._queue.try_at_once(resources, constraints, priority)
        if lease is not None:
            pending.set_result(lease)
        else:
            waiter = self._queue.enqueue(label, resources, constraints, priority)
            self._pending[waiter] = pending
            self._waiters[pending] = waiter
            self._on_wait()
        return pending

    def leave(self, pending: asyncio.Future[Lease]) -> None:
        """Leaves the queue, or gives a lease back that was granted and never taken.

        Args:
            pending: What ``acquire`` returned.
        """
        waiter = self._waiters.pop(pending, None)
        if waiter is not None and self._pending.pop(waiter, None) is not None:
            self._queue.remove(waiter)
            self._serve()
        elif pending.done() and not pending.cancelled():
            self.release(pending.result())

    def change_constraints(
        self, pending: asyncio.Future[Lease], constraints: DeviceConstraints
    ) -> None:
        """Changes the constraints of a request that waits; its turn stays the same.

        Args:
            pending: What ``acquire`` returned; nothing happens if its turn has come.
            constraints: Of which devices it is to be from now on.
        """
        waiter = self._waiters.get(pending)
        if waiter is None or self._pending.pop(waiter, None) is None:
            return
        waiter = self._queue.change_constraints(waiter, constraints)
        self._pending[waiter] = pending
        self._waiters[pending] = waiter
        self._serve()

    def requeue(self, pending: asyncio.Future[Lease]) -> None:
        """Moves a request to the end of the queue, unless its turn has come.

        Args:
            pending: What ``acquire`` returned.
        """
        waiter = self._waiters.get(pending)
        if waiter is None or self._pending.pop(waiter, None) is None:
            return
        self._queue.remove(waiter)
        asked = waiter.resources, waiter.constraints, waiter.priority
        waiter = self._queue.enqueue(waiter.label, *asked)
        self._pending[waiter] = pending
        self._waiters[pending] = waiter
        self._serve()

    def release(self, lease: Lease) -> None:
        """Gives a lease back and serves everyone who may be served now.

        Raises:
            LookupError: The lease is not held; nothing has changed.
        """
        self.ledger.release(lease)
        self._serve()

    def release_part(self, lease: Lease, name: str) -> Lease:
        """Releases what a function does not need while it waits for a result.

        Args:
            lease: What it holds.
            name: The resource that others may have meanwhile.

        Returns:
            What it keeps.
        """
        part, rest = self.ledger.split(lease, name)
        self.ledger.release(part)
        # Also where that was nothing: from now on the rest does not come back by
        # itself, and those who wait for it hold up no nested request.
        self._serve()
        return rest

    def waiting(self) -> list[tuple[str, str]]:
        """Lists who waits, by label, and describes for what, in order of arrival."""
        return [
            (waiter.label, described(waiter.resources, waiter.constraints))
            for waiter in self._queue
        ]

    def demands(self) -> list[tuple[Resources, int, bool]]:
        """Lists what is waited for, by how many, and whether it can ever be."""
        alike: dict[
            tuple[frozenset[tuple[str, int]], DeviceConstraints], list[Resources]
        ] = {}
        for waiter in self._queue:
            shape = frozenset(waiter.resources.amounts.items())
            alike.setdefault((shape, waiter.constraints), []).append(waiter.resources)
        return [
            (
                _with_bytes(asked[0], constraints),
                len(asked),
                not self.ledger.infeasible_part(asked[0], constraints),
            )
            for (_, constraints), asked in alike.items()
        ]

    def explain(
        self,
        label: str,
        resources: Resources,
        constraints: DeviceConstraints = ANYWHERE,
        pending: asyncio.Future[Lease] | None = None,
    ) -> str:
        """Says why a request is not granted now, and who is ahead of it in the queue.

        Args:
            label: Who requests it, as given to :meth:`acquire`.
            resources: How much.
            constraints: Of which devices.
            pending: What :meth:`acquire` returned; None for a newcomer.
        """
        reason = shortage(self.ledger, label, resources, constraints)
        held = self.held_by(resources, constraints)
        return f"{reason}{held}{self.ahead_of(resources, constraints, pending)}"

    def preview(
        self,
        label: str,
        resources: Resources,
        constraints: DeviceConstraints = ANYWHERE,
    ) -> str:
        """Says where a newcomer's request would go, or what stands in its way.

        Args:
            label: Who would request it.
            resources: How much.
            constraints: Of which devices.
        """
        lease = self._queue.try_at_once(resources, constraints)
        if lease is not None:
            self.ledger.release(lease)
            return preview(self.ledger, label, resources, constraints, lease)
        head, *lines = preview(
            self.ledger, label, resources, constraints, None
        ).splitlines()
        held, ahead = (
            self.held_by(resources, constraints),
            self.ahead_of(resources, constraints, None),
        )
        return "\n".join([f"{head}{held}{ahead}", *lines])

    def held_by(
        self, resources: Resources, constraints: DeviceConstraints = ANYWHERE
    ) -> str:
        """Says who holds what a request lacks now, to end a sentence."""
        held = held_by(self.ledger, resources, constraints, self.holder_names())
        return f"{held}{shell_hint()}" if held else ""

    def ahead_of(
        self,
        resources: Resources,
        constraints: DeviceConstraints,
        pending: asyncio.Future[Lease] | None,
    ) -> str:
        """Says who is ahead in the queue and competes, to end a sentence."""
        if self.ledger.infeasible_part(resources, constraints):
            return ""
        place = None if pending is None else self._waiters.get(pending)
        earlier = takewhile(lambda waiter: waiter is not place, self._queue)
        ahead = [w for w in earlier if self._competes(w, resources, constraints)]
        if not ahead:
            return ""
        others = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
        asked = described(ahead[0].resources, ahead[0].constraints)
        first = f"{ahead[0].label} ({asked})"
        return f". Ahead of it in line: {first}{others}"

    def _competes(
        self, waiter: Waiter, resources: Resources, constraints: DeviceConstraints
    ) -> bool:
        both = waiter.resources.amounts.keys() & resources.amounts.keys()
        overlaps = any(
            name not in self.ledger.pools
            or self.ledger.pools[name].resolver.may_overlap(
                waiter.constraints, constraints
            )
            for name in both
        )
        return overlaps and self.ledger.feasible(waiter.resources, waiter.constraints)

    def _serve(self) -> None:
        while granted := self._queue.serve():
            for waiter, lease in granted:
                pending = self._pending.pop(waiter)
                self._waiters.pop(pending, None)
                if pending.cancelled():
                    # It has not woken yet to leave the queue. Its lease is free again
                    # for the next round of this loop.
                    self.ledger.release(lease)
                else:
                    pending.set_result(lease)


def _with_bytes(resources: Resources, constraints: DeviceConstraints) -> Resources:
    if not constraints.gpu_memory:
        return resources
    amounts = {**resources.amounts, GPU_MEMORY: constraints.gpu_memory}
    return Resources.of(amounts)
