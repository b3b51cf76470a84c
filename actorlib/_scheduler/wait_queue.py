"""A queue of requests: served in their order, where that makes a difference.

Higher priorities are first, and within one priority the earlier arrival
(``waiting_order``). A new request may thus be ahead of earlier ones.

The rule: a request may pass one that is ahead of it only if that delays no request.
So a request is delayed only by those ahead of it.

* Devices: never if the one ahead may get them. Which of them becomes free next is not
  known, so any share that the other takes may be the one that the first needs. A
  request for an H100 does not delay one that only an A100 can serve.
* Counted resources (CPU, memory, custom resources, and the shares of an only device):
  if the free amount is enough for both after all amounts of requests ahead were
  subtracted; or if those are served at the same release anyway (``overtaking``).
* A request that the machine can never grant waits outside the order and delays no
  other. The same holds for bundles of which it is not known whether they can be packed:
  otherwise one group could stop all requests for ever. They are tried whenever others
  are.

So no request of the highest waiting priority starves; lower priorities may. A large
waiting request does not stop requests that need other resources.

Two origins are different, because a holder of a lease waits for such a request, and the
requests at the front may wait for that very lease.

* ``RESUMED``, a function that waited for a result and requests its CPUs again, is
  delayed only by others of that origin.
* ``NESTED``, a request by the code of a worker, is delayed only by the first of equal
  requests that lack nothing but what running functions hold, because that is released
  when they end. A request that lacks what an actor holds, or a function that itself
  waits, does not delay it. When all functions wait, no request is left that delays it,
  so functions that wait for one another's results always end. No request starves from
  this: once a request lacks only what running functions hold, nested requests of its
  priority that arrive later no longer pass it.

Equal requests (of one origin, for the same amounts under the same constraints) share a
*subqueue*. If its head has to wait, all behind it have to wait, so the heads alone
decide about 100 000 waiters. They are tried in order, until the waiters that stay leave
nothing of any requested resource. Assumption: every request that may be granted has
been granted. This holds because :meth:`WaitQueue.serve` is called after every release
and departure, and when a new request changes the order of others (``is_reordered``). So
a new request needs no walk over the queue, only the sums of the amounts that wait ahead
of it and the devices that these may get.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from heapq import heappop, heappush, merge
from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._scheduler.overtaking import MAX_AMOUNTS, delays_no_waiter
from actorlib._scheduler.request import Origin
from actorlib._scheduler.waiting_order import (
    LOWEST_LEVEL,
    Waiter,
    by_number,
    first_number,
    level_of,
    number_for,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from actorlib._options.resources import Resources
    from actorlib._scheduler.candidates import Reserved
    from actorlib._scheduler.ledger import Ledger
    from actorlib._scheduler.request import DeviceConstraints, LeaseRequest, QueueKey
    from actorlib.accelerators.base import Lease


_head = attrgetter("head")

# To look one up takes 0.2 us before Python 3.12.
_NESTED, _USUAL = Origin.NESTED, Origin.USUAL


@final
class WaitQueue:
    """Keeps the requests that wait for one ledger, and serves them in order.

    Args:
        ledger: Grants the leases. The callers give them back to it.

    Attributes:
        is_reordered: Whether a new request has changed the order of others, so that one
            of them may be granted.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.is_reordered = False
        self._ledger = ledger
        self._arrivals = 0
        self._subqueues: dict[QueueKey, _Subqueue] = {}
        self._classes: dict[
            tuple[frozenset[str], DeviceConstraints, Origin], _RequestClass
        ] = {}
        self._nested_classes: set[_RequestClass] = set()
        self._heads: list[tuple[int, _Subqueue]] = []  # of each subqueue, in order
        self._infeasible: dict[int, Waiter] = {}

    def __iter__(self) -> Iterator[Waiter]:
        infeasible = sorted(self._infeasible.values(), key=by_number)
        return merge(*self._subqueues.values(), infeasible, key=by_number)

    def ahead_of(
        self, request: LeaseRequest, waiter: Waiter | None
    ) -> Iterator[Waiter]:
        """Yields the waiters that are ahead of a request, in order.

        ``waiter`` is the request in the queue, or None for a new request.
        """
        number = self._next_number(request) if waiter is None else waiter.number
        return takewhile(lambda other: other.number < number, self)

    def has_more_than(self, count: int, priority: int) -> bool:
        """Whether more than so many waiters are not below a priority.

        Those that can never be granted do not count.
        """
        limit = first_number(priority - 1)
        for number, subqueue in self._heads:
            if number >= limit or count < 0:
                break
            count -= subqueue.before(limit)
        return count < 0

    def try_at_once(self, request: LeaseRequest) -> Lease | None:
        """Grants a new request, or returns None.

        None if it would delay a waiter ahead of it, or too little is free.
        """
        if not self._subqueues:
            return self._ledger.try_acquire(request.resources, request.constraints)
        number, is_nested = self._next_number(request), request.origin is _NESTED
        raises_nested = bool(self._nested_classes) and self._raises_nested(
            request, request.priority
        )
        ahead = _WaitersAhead(self._ledger)
        for request_class in self._classes.values():
            if is_nested and request_class.origin is not Origin.RESUMED:
                front = min(request_class.subqueues, key=_head)
                if front.head < number:
                    self._block_nested(ahead, front, 0)
            elif raises_nested and request_class.origin is _NESTED:
                ahead.add_all(request_class, None)
            elif request_class.is_feasible:
                ahead.add_all(request_class, number)
        return ahead.lease(request)

    def enqueue(self, request: LeaseRequest) -> Waiter:
        """Inserts a request that :meth:`try_at_once` has just refused."""
        if self._nested_classes and self._raises_nested(request, request.priority):
            self._raise_nested(request.priority)
        waiter = Waiter(self._next_number(request), request)
        self._arrivals += 1
        self._insert(waiter)
        return waiter

    def change_constraints(
        self, waiter: Waiter, constraints: DeviceConstraints
    ) -> Waiter:
        """Changes the constraints of a waiter, which keeps its place in the order.

        Returns:
            The new waiter.

        Raises:
            LookupError: The waiter is not in the queue. Nothing has changed.
        """
        self.remove(waiter)
        request = waiter.request._replace(constraints=constraints)
        level = level_of(waiter.number)
        if self._raises_nested(request, level):  # it could not be granted before
            self._raise_nested(level)
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
        self._take_out(waiter)

    def _take_out(self, waiter: Waiter) -> None:
        key = waiter.request.queue_key
        subqueue = self._subqueues[key]
        head = subqueue.head
        subqueue.remove(waiter)
        self._move_head(subqueue, head)
        if not subqueue:
            del self._subqueues[key]
            self._drop(subqueue)

    def serve(self) -> list[tuple[Waiter, Lease]]:
        """Grants and removes every request that may be granted now."""
        self.is_reordered = False
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
            return
        subqueue = self._subqueues.get(request.queue_key) or self._new_subqueue(request)
        request_class = subqueue.request_class
        if request.origin is _NESTED:
            # Of its class, only the first waiter delays nested ones.
            others = (each.head for each in request_class.subqueues if each)
            self.is_reordered |= waiter.number < min(others, default=waiter.number)
        head = subqueue.head if subqueue else None
        subqueue.add(waiter)
        self._move_head(subqueue, head)

    def _next_number(self, request: LeaseRequest) -> int:
        highest = LOWEST_LEVEL if request.origin is _USUAL else self._highest_level()
        return number_for(request, self._arrivals, highest)

    def _highest_level(self) -> int:
        """Returns the highest level of the usual requests that delay others."""
        for number, subqueue in self._heads:
            request_class = subqueue.request_class
            if request_class.origin is _USUAL and request_class.is_feasible:
                return level_of(number)
        return LOWEST_LEVEL

    def _raises_nested(self, request: LeaseRequest, level: int) -> bool:
        """Whether nested waiters get at least the level of a request that waits."""
        return (
            request.origin is _USUAL
            and level > self._highest_level()
            and self._ledger.feasible(request.resources, request.constraints)
        )

    def _raise_nested(self, level: int) -> None:
        """Moves nested waiters up to a level, behind those that have it already."""
        below = first_number(level - 1)
        lower = [
            waiter
            for request_class in self._nested_classes
            for subqueue in request_class.subqueues
            for waiter in subqueue
            if waiter.number >= below
        ]
        for waiter in sorted(lower, key=by_number):
            self._take_out(waiter)
            waiter.number = first_number(level) + self._arrivals
            self._arrivals += 1
            self._insert(waiter)
            self.is_reordered = True

    def _move_head(self, subqueue: _Subqueue, before: int | None) -> None:
        """Updates the heads after a subqueue has changed; ``before`` was its head."""
        head = subqueue.head if subqueue else None
        if head == before:
            return
        if before is not None:
            del self._heads[bisect_left(self._heads, (before,))]
        if head is not None:
            insort(self._heads, (head, subqueue))

    def _new_subqueue(self, request: LeaseRequest) -> _Subqueue:
        resources, constraints = request.resources, request.constraints
        key = frozenset(resources.amounts), constraints, request.origin
        request_class = self._classes.get(key)
        if request_class is None:
            is_feasible = self._ledger.feasible(resources, constraints)
            request_class = self._classes[key] = _RequestClass(
                self._ledger, *key, is_feasible=is_feasible
            )
            if request.origin is _NESTED:
                self._nested_classes.add(request_class)
        subqueue = _Subqueue(request_class, resources)
        self._subqueues[request.queue_key] = subqueue
        request_class.subqueues[subqueue] = None
        return subqueue

    def _drop(self, subqueue: _Subqueue) -> None:
        request_class = subqueue.request_class
        del request_class.subqueues[subqueue]
        if not request_class.subqueues:
            del self._classes[
                request_class.names, request_class.constraints, request_class.origin
            ]
            self._nested_classes.discard(request_class)

    def _grants(self) -> Iterator[tuple[Waiter, Lease]]:
        # The waiters that delay running work, and those that delay all others.
        running = usual = _WaitersAhead(self._ledger)
        classes = list(self._classes.values())
        if self._nested_classes:
            running = _WaitersAhead(self._ledger)
        of = {
            request_class: usual if request_class.origin is _USUAL else running
            for request_class in classes
        }
        staying: set[_Subqueue] = set()
        fronts: set[_RequestClass] = set()
        for waiter, subqueue, position in _in_order(self._heads, staying):
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
            if running is usual:
                continue
            if request_class.origin is Origin.RESUMED:
                running.add(subqueue, position)
            elif request_class not in fronts:
                fronts.add(request_class)
                self._block_nested(running, subqueue, position)

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
        origin: Origin,
        *,
        is_feasible: bool,
    ) -> None:
        self.names = names
        self.constraints = constraints
        self.origin = origin
        self.is_feasible = is_feasible
        self.candidates = {
            name: ledger.pools[name].resolver.candidates(constraints)
            for name in names
            if not _is_counted(ledger, name)
        }
        self.subqueues: dict[_Subqueue, None] = {}


class _Subqueue:
    """Keeps equal requests in order.

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

        ``number`` is its place in the order; None if it is after all of these waiters.
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

    def add_all(self, request_class: _RequestClass, number: int | None) -> None:
        """Adds the waiters of a class that are ahead of a number; None for all."""
        has_some = False
        for subqueue in request_class.subqueues:
            if count := subqueue.before(number):
                self._count(_StayingRequests(subqueue, 0, count), count)
                has_some = True
        if has_some:
            self.reserve(request_class)

    def add(self, subqueue: _Subqueue, leaving: int, most: int | None = None) -> None:
        """Adds the waiters of a subqueue that stay.

        Args:
            subqueue: The subqueue.
            leaving: The number of waiters at its front that do not stay.
            most: How many of the others are counted; None for all.
        """
        most = len(subqueue) if most is None else most
        counted = _StayingRequests(subqueue, leaving, most)
        self._count(counted, counted.before(None))
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

    def _count(self, staying: _StayingRequests, count: int) -> None:
        for name, amount in staying.subqueue.resources.amounts.items():
            if name not in staying.subqueue.request_class.candidates:
                self.requested[name] += amount * count
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
    """Yields waiters in order, with subqueue and position.

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


def _is_counted(ledger: Ledger, name: str) -> bool:
    """Whether all parts of a resource are equal, as those of a single device are."""
    pool = ledger.pools.get(name)
    return pool is None or len(pool.devices) == 1
