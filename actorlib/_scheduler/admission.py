"""Admits requests to the ledger, at once or in the order of the queue."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, final

from actorlib._options.resources import GPU_MEMORY, Resources
from actorlib._scheduler.explain import held_by, preview, shortage
from actorlib._scheduler.long_waits import shell_hint
from actorlib._scheduler.wait_queue import WaitQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from actorlib._scheduler.ledger import Ledger
    from actorlib._scheduler.request import DeviceConstraints, LeaseRequest
    from actorlib._scheduler.waiting_order import Waiter
    from actorlib.accelerators.base import Device, Lease


@final
class Admission:
    """Admits requests to a ledger; requests without room wait.

    Every lease of the ledger has to be acquired and released here, on one event loop,
    because only a release serves the queue.

    ``loop`` is the loop of the waiting callers, or None for the running loop.
    ``holder_names`` and ``on_wait`` are those of ``Scheduler``.
    """

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
        return len(self._waiters)

    def acquire(self, request: LeaseRequest) -> asyncio.Future[Lease]:
        """Requests a lease: granted at once if that delays no waiter, else queued.

        A request that can never be granted waits for ever and delays no other.
        """
        loop = self._loop or asyncio.get_running_loop()
        pending: asyncio.Future[Lease] = loop.create_future()
        lease = self._queue.try_at_once(request)
        if lease is not None:
            pending.set_result(lease)
        else:
            waiter = self._queue.enqueue(request)
            self._pending[waiter] = pending
            self._waiters[pending] = waiter
            self._on_wait()
            if self._queue.is_reordered:
                self._serve()
        return pending

    def has_more_than(self, count: int, priority: int) -> bool:
        """Whether more than so many requests wait that are not below a priority.

        Requests that can never be granted do not count.
        """
        return len(self) > count and self._queue.has_more_than(count, priority)

    def leave(self, pending: asyncio.Future[Lease]) -> None:
        """Leaves the queue, or gives a lease back that was granted and never taken."""
        waiter = self._waiters.pop(pending, None)
        if waiter is not None and self._pending.pop(waiter, None) is not None:
            self._queue.remove(waiter)
            self._serve()
        elif pending.done() and not pending.cancelled():
            self.release(pending.result())

    def change_constraints(
        self, pending: asyncio.Future[Lease], constraints: DeviceConstraints
    ) -> None:
        """Changes the constraints of a waiting request; its turn stays the same.

        Nothing happens if its turn has come.
        """
        self._exchange(
            pending, lambda waiter: self._queue.change_constraints(waiter, constraints)
        )

    def requeue(self, pending: asyncio.Future[Lease]) -> None:
        """Moves a request to the end of the queue, unless its turn has come."""

        def move_to_end(waiter: Waiter) -> Waiter:
            self._queue.remove(waiter)
            return self._queue.enqueue(waiter.request)

        self._exchange(pending, move_to_end)

    def _exchange(
        self, pending: asyncio.Future[Lease], exchange: Callable[[Waiter], Waiter]
    ) -> None:
        """Exchanges the waiter of a request, unless its turn has come."""
        waiter = self._waiters.get(pending)
        if waiter is None or self._pending.pop(waiter, None) is None:
            return
        waiter = exchange(waiter)
        self._pending[waiter] = pending
        self._waiters[pending] = waiter
        self._serve()

    def release(self, lease: Lease) -> None:
        """Releases a lease and serves all requests that may be served now.

        Raises:
            LookupError: The lease is not held; nothing has changed.
        """
        self.ledger.release(lease)
        self._serve()

    def restore(self, devices: Collection[Device]) -> None:
        """Serves the requests for devices that another program may have released."""
        self.ledger.restore(devices)
        self._serve()

    def release_part(self, lease: Lease, name: str) -> Lease:
        """Releases a resource of a function while the function waits for a result.

        Returns:
            The lease on the rest.
        """
        part, rest = self.ledger.split(lease, name)
        self.ledger.release(part)
        # Even if the part was empty: from now on the rest is not transient, so waiters
        # for it delay no nested request.
        self._serve()
        return rest

    def waiting(self) -> list[tuple[str, str]]:
        """Lists the waiting requests, label and description, in their order."""
        return [(waiter.request.label, waiter.described) for waiter in self._queue]

    def demands(self) -> list[tuple[Resources, int, bool]]:
        """Lists the waiting amounts, each with its number and if it is feasible."""
        alike: dict[object, list[LeaseRequest]] = {}
        for waiter in self._queue:
            request = waiter.request
            shape = frozenset(request.resources.amounts.items()), request.constraints
            alike.setdefault(shape, []).append(request)
        return [
            (
                _with_bytes(first.resources, first.constraints),
                1 + len(others),
                not self.ledger.infeasible_part(first.resources, first.constraints),
            )
            for first, *others in alike.values()
        ]

    def explain(
        self, request: LeaseRequest, pending: asyncio.Future[Lease] | None
    ) -> str:
        """Explains why a request is not granted now, and which others are ahead of it.

        ``pending`` is the result of :meth:`acquire`, or None for a new request.
        """
        reason = shortage(self.ledger, request)
        return f"{reason}{self.describe_others(request, pending)}"

    def grants_at_once(self, request: LeaseRequest) -> bool:
        lease = self._queue.try_at_once(request)
        if lease is not None:
            self.ledger.release(lease)
        return lease is not None

    def preview(self, request: LeaseRequest) -> str:
        lease = self._queue.try_at_once(request)
        if lease is not None:
            self.ledger.release(lease)
            return preview(self.ledger, request, lease)
        head, *lines = preview(self.ledger, request, None).splitlines()
        return "\n".join([f"{head}{self.describe_others(request, None)}", *lines])

    def describe_others(
        self, request: LeaseRequest, pending: asyncio.Future[Lease] | None
    ) -> str:
        """Names the holders of what a request lacks, and the requests ahead of it.

        The text ends a sentence. It is empty if there are none, or if the request can
        never be granted.
        """
        if self.ledger.infeasible_part(request.resources, request.constraints):
            return ""
        holder_names = {**self.holder_names(), **self.ledger.other_programs}
        holders = held_by(self.ledger, request, holder_names)
        hint = shell_hint() if holders else ""
        place = None if pending is None else self._waiters.get(pending)
        ahead = [
            waiter
            for waiter in self._queue.ahead_of(request, place)
            if self._competes(waiter.request, request)
        ]
        if not ahead:
            return f"{holders}{hint}"
        others = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
        first = f"{ahead[0].request.label} ({ahead[0].described})"
        return f"{holders}{hint}. Ahead of it in the queue: {first}{others}"

    def _competes(self, first: LeaseRequest, request: LeaseRequest) -> bool:
        both = first.resources.amounts.keys() & request.resources.amounts.keys()
        overlaps = any(
            name not in self.ledger.pools
            or self.ledger.pools[name].resolver.may_overlap(
                first.constraints, request.constraints
            )
            for name in both
        )
        return overlaps and self.ledger.feasible(first.resources, first.constraints)

    def _serve(self) -> None:
        while granted := self._queue.serve():
            for waiter, lease in granted:
                pending = self._pending.pop(waiter)
                self._waiters.pop(pending, None)
                if pending.cancelled():
                    # Its caller has not left the queue yet. The next round of this
                    # loop grants the lease to others.
                    self.ledger.release(lease)
                else:
                    pending.set_result(lease)


def _with_bytes(resources: Resources, constraints: DeviceConstraints) -> Resources:
    if not constraints.gpu_memory:
        return resources
    amounts = {**resources.amounts, GPU_MEMORY: constraints.gpu_memory}
    return Resources.of(amounts)
