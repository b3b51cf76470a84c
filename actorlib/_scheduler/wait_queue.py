"""A queue of requests: first come, first served, where that makes a difference.

The rule: a later request may pass an earlier one only if that delays no request.

* Devices: never if the earlier one may get them. Which of them becomes free next is
  not known, so any share that a later one takes may be the one that the earlier one
  needs. A request for an H100 does not delay one that only an A100 can serve.
* Counted resources (CPU, memory, custom resources, and the shares of an only device):
  if the free amount is enough for both after all amounts of earlier requests were
  subtracted; or if the earlier ones are served at the same release anyway
  (``overtaking``).
* A request that the machine can never grant waits outside the order and delays no
  other. The same holds for bundles of which it is not known whether they can be packed:
  otherwise one group could stop all requests for ever. They are tried whenever others
  are.

So no request starves, and a large waiting request does not stop requests that need
other resources.

Two priorities are different, because a holder of a lease waits for such a request, and
the requests at the front may wait for that very lease.

* ``RESUMED``, a function that waited for a result and requests its CPUs again, is
  delayed only by others of that priority.
* ``NESTED``, a request by the code of a worker, is delayed only by the first of equal
  requests that lack nothing but what running functions hold, because that is released
  when they end. A request that lacks what an actor holds, or a function that itself
  waits, does not delay it. When all functions wait, no request is left that delays it,
  so functions that wait for one another's results always end. No request starves from
  this: once a request lacks only what running functions hold, it is no longer passed.

Equal requests (of one priority, for the same amounts under the same constraints) share
a *subqueue*. If its head has to wait, all behind it have to wait, so the heads alone
decide about 100 000 waiters. They are tried in the order of arrival, until the waiters
that stay leave nothing of any requested resource. Assumption: every request that may be
granted has been granted. This holds because :meth:`WaitQueue.serve` is called after
every release and departure. So a new request needs no walk over the queue, only the
sums of the waiting amounts and the devices that waiters may get.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from heapq import heappop, heappush, merge
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._base.value import dataclass
from actorlib._scheduler.overtaking import MAX_AMOUNTS, delays_no_waiter
from actorlib._scheduler.request import Priority

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from actorlib._options.resources import Resources
    from actorlib._scheduler.candidates import Reserved
    from actorlib._scheduler.ledger import Ledger
    from actorlib._scheduler.request import DeviceConstraints, LeaseRequest
    from actorlib.accelerators.base import Lease


_arrival = attrgetter("number")
_head = attrgetter("head")

Amounts = frozenset[tuple[str, int]]
"""The amounts of a request, by name."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class Waiter:
    """A request in the queue, and its order of arrival; compared by identity."""

    number: int
    request: LeaseRequest


@final
class WaitQueue:
    """Keeps the requests that wait for one ledger, and serves them in order.

    Args:
        ledger: Grants the leases. The callers give them back to it.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._numbers = itertools.count()
        self._subqueues: dict[
            tuple[Amounts, DeviceConstraints, Priority], _Subqueue
        ] = {}
        self._classes: dict[
            tuple[frozenset[str], DeviceConstraints, Priority], _RequestClass
        ] = {}
        # The head of each subqueue, in order; by whether its priority is RESUMED.
        self._heads: dict[bool, list[tuple[int, _Subqueue]]] = {
            True: [],
            False: [],
        }
        self._infeasible: OrderedDict[int, Waiter] = OrderedDict()

    def __iter__(self) -> Iterator[Waiter]:
        subqueues = (iter(subqueue) for subqueue in self._subqueues.values())
        return merge(*subqueues, self._infeasible.values(), key=_arrival)

    def try_at_once(self, request: LeaseRequest) -> Lease | None:
        """Grants a new request, or returns None.

        None if it would delay a waiter, or too little is free.
        """
        if not self._subqueues:
            return self._ledger.try_acquire(request.resources, request.constraints)
        priority = request.priority
        ahead = _WaitersAhead(self._ledger)
        for request_class in self._classes.values():
            if priority is Priority.USUAL:
                if request_class.is_feasible:
                    ahead.add_all(request_class)
            elif request_class.priority is Priority.RESUMED:
                ahead.add_all(request_class)
            elif priority is Priority.NESTED:
                front = min(request_class.subqueues, key=_head)
                self._block_nested(ahead, front, 0)
        return ahead.lease(request)

    def enqueue(self, request: LeaseRequest) -> Waiter:
        """Appends a request that :meth:`try_at_once` has just refused."""
        waiter = Waiter(next(self._numbers), request)
        self._insert(waiter)
        return waiter

    def change_constraints(
        self, waiter: Waiter, constraints: DeviceConstraints
    ) -> Waiter:
        """Changes the constraints of a waiter, which keeps its order of arrival.

        Returns:
            The new waiter.

        Raises:
            LookupError: The waiter is not in the queue. Nothing has changed.
        """
        self.remove(waiter)
        request = waiter.request._replace(constraints=constraints)
        waiter = Waiter(waiter.number, request)
        self._insert(waiter)
        return waiter

    def remove(self, waiter: Waiter) -> None:
        """Removes a waiter; the waiters behind it may have to be served then.

        Raises:
            LookupError: The waiter is not in the queue. Nothing has changed.
        """
        if self._infeasible.pop(waiter.number, None) is not None:
            return
        key = _key(waiter.request)
        subqueue = self._subqueues[key]
        head = subqueue.head
        subqueue.remove(waiter)
        self._move_head(subqueue, head)
        if not subqueue:
            del self._subqueues[key]
            self._drop(subqueue)

    def serve(self) -> list[tuple[Waiter, Lease]]:
        """Grants and removes every request that may be granted now."""
        if not self._subqueues:
            return []
        granted = list(self._grants())
        for waiter, _ in granted:
            self.remove(waiter)
        return granted

    def _insert(self, waiter: Waiter) -> None:
        request = waiter.request
        if self._ledger.infeasible_part(request.resources, request.constraints):
            self._infeasible[waiter.number] = waiter
            numbers = list(self._infeasible)
            # After a change of its constraints, others may be later.
            if numbers[-1:] < numbers[-2:-1]:
                for number in sorted(numbers):
                    self._infeasible.move_to_end(number)
            return
        subqueue = self._subqueues.get(_key(request)) or self._new_subqueue(request)
        head = subqueue.head if subqueue else None
        subqueue.add(waiter)
        self._move_head(subqueue, head)

    def _move_head(self, subqueue: _Subqueue, before: int | None) -> None:
        """Updates the heads after a subqueue has changed; ``before`` was its head."""
        head = subqueue.head if subqueue else None
        if head == before:
            return
        heads = self._heads[subqueue.request_class.is_resumed]
        if before is not None:
            del heads[bisect_left(heads, (before,))]
        if head is not None:
            insort(heads, (head, subqueue))

    def _new_subqueue(self, request: LeaseRequest) -> _Subqueue:
        resources, constraints = request.resources, request.constraints
        key = frozenset(resources.amounts), constraints, request.priority
        request_class = self._classes.get(key)
        if request_class is None:
            is_feasible = self._ledger.feasible(resources, constraints)
            request_class = self._classes[key] = _RequestClass(
                self._ledger, *key, is_feasible=is_feasible
            )
        subqueue = _Subqueue(request_class, resources)
        self._subqueues[_key(request)] = subqueue
        request_class.subqueues[subqueue] = None
        return subqueue

    def _drop(self, subqueue: _Subqueue) -> None:
        request_class = subqueue.request_class
        del request_class.subqueues[subqueue]
        if not request_class.subqueues:
            del self._classes[
                request_class.names, request_class.constraints, request_class.priority
            ]

    def _grants(self) -> Iterator[tuple[Waiter, Lease]]:
        # The waiters ahead of nested requests, and those ahead of all others.
        nested = usual = _WaitersAhead(self._ledger)
        classes = [
            request_class
            for request_class in self._classes.values()
            if not request_class.is_resumed
        ]
        if any(request_class.priority is Priority.NESTED for request_class in classes):
            nested = _WaitersAhead(self._ledger)
        staying: set[_Subqueue] = set()
        for waiter, subqueue, position in _in_order(self._heads[True], staying):
            lease = nested.lease(waiter.request, waiter.number)
            if lease is not None:
                yield waiter, lease
                continue
            staying.add(subqueue)
            for ahead in {nested, usual}:
                ahead.add(subqueue, position)
        of = {
            request_class: nested
            if request_class.priority is Priority.NESTED
            else usual
            for request_class in classes
        }
        fronts: set[_RequestClass] = set()
        for waiter, subqueue, position in _in_order(self._heads[False], staying):
            request_class, ahead = subqueue.request_class, of[subqueue.request_class]
            if not ahead.leaves_nothing_for(request_class):
                lease = ahead.lease(waiter.request, waiter.number)
                if lease is not None:
                    yield waiter, lease
                    continue
            elif all(of[each].leaves_nothing_for(each) for each in classes):
                return
            staying.add(subqueue)
            if not request_class.is_feasible:
                continue
            usual.add(subqueue, position)
            if nested is not usual and request_class not in fronts:
                fronts.add(request_class)
                self._block_nested(nested, subqueue, position)

    def _block_nested(
        self, ahead: _WaitersAhead, subqueue: _Subqueue, position: int
    ) -> None:
        """Puts a waiter ahead of nested ones, if running functions hold what it lacks.

        A waiter that lacks nothing waits only because of other waiters.
        """
        ledger = self._ledger
        requested = subqueue.resources, subqueue.request_class.constraints
        if (
            subqueue.request_class.is_feasible
            and ledger.lacking(*requested)
            and ledger.could_free_up(*requested)
        ):
            ahead.add(subqueue, position, most=1)


class _RequestClass:
    """The waiters that request the same resources under the same constraints.

    Attributes:
        names: The resources.
        is_feasible: Whether they can certainly be granted at all; if not, they delay no
            request.
        candidates: By kind of device, the devices that they may get.
        subqueues: The waiters, a subqueue for each amount.
    """

    def __init__(
        self,
        ledger: Ledger,
        names: frozenset[str],
        constraints: DeviceConstraints,
        priority: Priority,
        *,
        is_feasible: bool,
    ) -> None:
        self.names = names
        self.constraints = constraints
        self.priority = priority
        self.is_feasible = is_feasible
        self.candidates = {
            name: ledger.pools[name].resolver.candidates(constraints)
            for name in names
            if not _is_counted(ledger, name)
        }
        self.subqueues: dict[_Subqueue, None] = {}

    @property
    def is_resumed(self) -> bool:
        return self.priority is Priority.RESUMED


class _Subqueue:
    """Keeps equal requests in order of arrival.

    Attributes:
        request_class: The class of these requests and of those for other amounts.
        resources: The amounts that each requests.
    """

    __slots__ = ("_first", "_numbers", "_waiters", "request_class", "resources")

    def __init__(self, request_class: _RequestClass, resources: Resources) -> None:
        self.request_class = request_class
        self.resources = resources
        # Ascending; those before ``_first`` have left. Removing the front of a list
        # would move all others each time.
        self._numbers: list[int] = []
        self._first = 0
        self._waiters: dict[int, Waiter] = {}

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[Waiter]:
        return (self._waiters[number] for number in self._numbers[self._first :])

    @property
    def head(self) -> int:
        return self._numbers[self._first]

    def at(self, position: int) -> Waiter:
        return self._waiters[self._numbers[self._first + position]]

    def before(self, number: int | None, start: int = 0) -> int:
        """Counts the waiters from ``start`` on with lower numbers; None for all."""
        if number is None:
            return len(self) - start
        return max(0, bisect_left(self._numbers, number) - self._first - start)

    def add(self, waiter: Waiter) -> None:
        insort(self._numbers, waiter.number, self._first)
        self._waiters[waiter.number] = waiter

    def remove(self, waiter: Waiter) -> None:
        del self._waiters[waiter.number]
        position = bisect_left(self._numbers, waiter.number)
        if position > self._first:
            del self._numbers[position]
            return
        self._first += 1
        if self._first > len(self._waiters):
            del self._numbers[: self._first]
            self._first = 0


class _WaitersAhead:
    """Sums up the requests of the waiters that stay, and what they leave to others.

    Attributes:
        requested: The sums of counted resources, over all waiters that stay.
        staying: The waiters of each subqueue that stay, by counted resource.
        exhausted: The resources of which they leave nothing.
        reserved: By kind, the devices that they may get.
    """

    __slots__ = ("_held", "_ledger", "exhausted", "requested", "reserved", "staying")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held: dict[str, Counter[int]] = {}
        self.requested: Counter[str] = Counter()
        self.staying: dict[str, list[_StayingRequests]] = {}
        self.exhausted: set[str] = set()
        self.reserved: dict[str, Reserved] = {}

    def lease(self, request: LeaseRequest, number: int | None = None) -> Lease | None:
        """Grants a request from what is left, or returns None.

        ``number`` is the order of arrival; None for one after all others.
        """
        for name, amount in request.resources.amounts.items():
            if name in self.exhausted:
                return None
            if _is_counted(self._ledger, name) and not self._may_take(
                name, amount, number
            ):
                return None
        lease = self._ledger.try_acquire(
            request.resources, request.constraints, self.reserved
        )
        if lease is not None:
            self._held.clear()
        return lease

    def add_all(self, request_class: _RequestClass) -> None:
        for subqueue in request_class.subqueues:
            self._count(_StayingRequests(subqueue, 0, len(subqueue)))
        self.reserve(request_class)

    def add(self, subqueue: _Subqueue, leaving: int, most: int | None = None) -> None:
        """Adds the waiters of a subqueue that stay.

        Args:
            subqueue: The subqueue.
            leaving: The number of waiters at its front that do not stay.
            most: How many of the others are counted; None for all.
        """
        most = len(subqueue) if most is None else most
        self._count(_StayingRequests(subqueue, leaving, most))
        self.reserve(subqueue.request_class)
        for name in subqueue.resources.amounts:
            if name in subqueue.request_class.candidates or name in self.exhausted:
                continue
            free, staying = self._ledger.free(name), self.staying[name]
            if free and len(staying) > MAX_AMOUNTS // 2:
                free -= sum(each.amount(name) for each in staying)
            if free < 1:
                self.exhausted.add(name)

    def reserve(self, request_class: _RequestClass) -> None:
        for name, candidates in request_class.candidates.items():
            if name in self.exhausted:
                continue
            reserved = self.reserved.get(name)
            if reserved is None:
                resolver = self._ledger.pools[name].resolver
                reserved = self.reserved[name] = resolver.none_reserved()
            reserved.add(candidates)
            if reserved.is_everything:
                self.exhausted.add(name)

    def leaves_nothing_for(self, request_class: _RequestClass) -> bool:
        return not self.exhausted.isdisjoint(request_class.names) or any(
            name in self.reserved and self.reserved[name].covers(candidates)
            for name, candidates in request_class.candidates.items()
        )

    def _count(self, staying: _StayingRequests) -> None:
        for name, amount in staying.subqueue.resources.amounts.items():
            if name not in staying.subqueue.request_class.candidates:
                self.requested[name] += amount * staying.before(None)
                self.staying.setdefault(name, []).append(staying)

    def _may_take(self, name: str, amount: int, number: int | None) -> bool:
        free = self._ledger.free(name)
        if not amount <= free:
            return False
        if amount <= free - self.requested[name]:
            return True
        staying = self.staying[name]
        if len(staying) > MAX_AMOUNTS // 2:
            earlier = sum(each.amount(name) * each.before(number) for each in staying)
            return amount <= free - earlier
        waiting: Counter[int] = Counter()
        for each in staying:
            waiting[each.amount(name)] += each.before(number)
        if amount <= free - sum(units * n for units, n in waiting.items()):
            return True
        leases = self._held.get(name)
        if leases is None:
            leases = self._held[name] = self._ledger.held(name)
        total = self._ledger.capacity.amounts[name]
        return delays_no_waiter(total, leases, +waiting, amount)


class _StayingRequests(NamedTuple):
    """The waiters of a subqueue that stay in it.

    Attributes:
        leaving: The number of waiters at its front that do not stay.
        most: How many of the others are counted.
    """

    subqueue: _Subqueue
    leaving: int
    most: int

    def amount(self, name: str) -> int:
        return self.subqueue.resources.amounts[name]

    def before(self, number: int | None) -> int:
        """Counts the waiters with lower numbers; None for all."""
        return min(self.most, self.subqueue.before(number, self.leaving))


def _in_order(
    heads: Sequence[tuple[int, _Subqueue]], staying: Collection[_Subqueue]
) -> Iterator[tuple[Waiter, _Subqueue, int]]:
    """Yields waiters in order of arrival, with subqueue and position.

    Args:
        heads: The head of each subqueue, in order.
        staying: The subqueues of which no more are yielded; it may grow meanwhile.
    """
    behind: list[tuple[int, int, _Subqueue]] = []
    done = 0
    while done < len(heads) or behind:
        if behind and (done == len(heads) or behind[0] < heads[done]):
            _, position, subqueue = heappop(behind)
        else:
            (_, subqueue), position = heads[done], 0
            done += 1
        yield subqueue.at(position), subqueue, position
        if subqueue not in staying and position + 1 < len(subqueue):
            heappush(behind, (subqueue.at(position + 1).number, position + 1, subqueue))


def _key(request: LeaseRequest) -> tuple[Amounts, DeviceConstraints, Priority]:
    amounts = frozenset(request.resources.amounts.items())
    return amounts, request.constraints, request.priority


def _is_counted(ledger: Ledger, name: str) -> bool:
    """Whether all parts of a resource are equal, as those of a single device are."""
    pool = ledger.pools.get(name)
    return pool is None or len(pool.devices) == 1
