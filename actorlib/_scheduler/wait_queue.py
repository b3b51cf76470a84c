"""Who may go next: first come, first served, where it makes a difference.

The rule: someone later may pass someone who waits only if that delays nobody.

* Devices: never of those that the earlier one may get. Which of them becomes free next
  is not known, so any share that a later one takes may be the one that was waited for.
  Who waits for an H100 holds nobody up who can do with an A100.
* What is merely counted (CPU, memory, custom, and the shares of an only device): if it
  is enough for both, that is, after setting aside all that those earlier in line ask of
  it; or if whatever releases let them in would let them in all the same (``gaps``).
* Who asks for what the machine can never give waits beside the line and delays nobody.
  Who asks for bundles of which it is not known whether they can be packed delays nobody
  either, or one group could stop everyone for ever; it is tried whenever others are.

So nobody starves, and a waiting giant does not stop those who need nothing of his.

Two kinds of requests are not like the others, as somebody who holds something waits for
them. What he holds may be the very thing that those at the front wait for.

* A function that waited for a result and *goes on* asks its CPUs back. It is held up
  only by others that do.
* What is asked for by code of a worker is *nested*. It is held up only by those at the
  fronts of their lanes that wait for nothing but what running functions hold, as that
  comes back by itself; and in particular not by one who waits for what is held by an
  actor, or by a function that waits itself. When all functions wait nobody is left who
  holds it up, so functions that wait for one another's results always end. Nobody
  starves of this either: who gets all but what running functions hold is passed by
  nobody any more.

Those who ask for the same, and wish for the same devices, stand in one *lane*. If its
head has to wait, so have all behind it: one look at the head of each lane tells what
100 000 waiters may do. Lanes are looked at in the order in which their heads came,
until those who stay leave nothing of what anyone asks for. Assumption: whoever may go
has gone, which holds as :meth:`Line.serve` is called after every release and departure;
so a newcomer needs no walk at all, only what those in line ask and the devices that
they may get.

Whether a share delays those who wait, whenever others give theirs back.

Someone who waits for 0.7 of what there is 3 of is let in by the release that leaves 0.7
free. Which one that is nobody knows, but what may be free at all is known: the whole,
less the sum of some of those who hold or wait. If no such amount is at least 0.7 and
below 1, then whatever lets the 0.7 in lets it in with 0.3 taken as well, and whoever
asks for 0.3 may pass.

That stays true when several have passed: each was asked about those before it, with all
who held and waited then, and they only become fewer. So who waits is served at the same
release as if nobody had passed.
"""

from __future__ import annotations

import enum
import itertools
from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from heapq import heappop, heappush, merge
from math import gcd
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._scheduler.request import ANYWHERE, DeviceConstraints

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from actorlib._core.resources import Resources
    from actorlib._scheduler.device_pool import Candidates, Reserved
    from actorlib._scheduler.ledger import Ledger
    from actorlib.accelerators.base import Lease


MAX_AMOUNTS = 32
"""How many different amounts are considered; where there are more, nobody passes."""

_MAX_SUMS = 100_000
"""How many sums are told apart at the most."""


def delays_nobody(
    total: int, held: Mapping[int, int], waiting: Mapping[int, int], amount: int
) -> bool:
    """Whether someone may hold an amount as long as it likes and delay nobody.

    Args:
        total: What there is.
        held: How many hold how much, by amount.
        waiting: How many wait for how much, by amount.
        amount: What is asked.

    Returns:
        False also where that is not known, as too many different amounts are in play.
    """
    counts = dict(held)
    for each, count in waiting.items():
        counts[each] = counts.get(each, 0) + count
    step = gcd(*counts) or 1
    if (
        len(counts) > MAX_AMOUNTS
        or len(waiting) > MAX_AMOUNTS // 2
        or total // step > _MAX_SUMS
    ):
        return False
    for wanted in waiting:
        counts[wanted] -= 1
        sums = _sums(counts, step, total // step)
        counts[wanted] += 1
        # What others may have if what they leave is enough for it, but not for both.
        least = max(0, (total - wanted - amount) // step + 1)
        most = (total - wanted) // step
        if sums >> least & ((1 << max(0, most - least + 1)) - 1):
            return False
    return True


def _sums(counts: Mapping[int, int], step: int, most: int) -> int:
    """The sums of all choices, as bits, none above a limit."""
    sums, within = 1, (2 << most) - 1
    for amount, count in counts.items():
        times = 1
        while count > 0 and sums != within:
            sums |= sums << (amount // step * min(times, count)) & within
            count -= times  # noqa: PLW2901  # in powers of two: few steps for thousands
            times *= 2
    return sums


_arrival = attrgetter("number")

Asked = frozenset[tuple[str, int]]
"""The amounts of a request, by name."""


class Priority(enum.Enum):
    """Who has to let whom pass; see above."""

    RESUMED = "goes on"
    """A function that has what it waited for, and asks for its CPUs."""
    NESTED = "nested"
    """What code of a worker asks for."""
    USUAL = "usual"
    """Everybody else."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Waiter:
    """A place in line; two are never the same place.

    Attributes:
        number: The order of arrival.
        label: Who asks, for messages.
        request: What is asked.
        where: What is wished of the devices.
        priority: Who has to let it pass.
    """

    number: int
    label: str
    request: Resources
    where: DeviceConstraints = ANYWHERE
    priority: Priority = Priority.USUAL


@final
class WaitQueue:
    """Those who wait for one ledger, in order of arrival.

    Args:
        ledger: What they wait for; it is asked for leases and never given one back.
    """

    __slots__ = ("_beside", "_heads", "_lanes", "_ledger", "_numbers", "_wishes")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._numbers = itertools.count()
        self._lanes: dict[
            tuple[Asked, DeviceConstraints, Priority], _EqualRequests
        ] = {}
        self._wishes: dict[
            tuple[frozenset[str], DeviceConstraints, Priority], _RequestClass
        ] = {}
        # Who came first in each lane, in order; apart, those of functions that go on.
        self._heads: dict[bool, list[tuple[int, _EqualRequests]]] = {
            True: [],
            False: [],
        }
        self._beside: OrderedDict[int, Waiter] = OrderedDict()

    def __iter__(self) -> Iterator[Waiter]:
        """Everyone who waits, in order of arrival."""
        lanes = (iter(lane) for lane in self._lanes.values())
        return merge(*lanes, self._beside.values(), key=_arrival)

    def try_at_once(
        self,
        request: Resources,
        where: DeviceConstraints = ANYWHERE,
        priority: Priority = Priority.USUAL,
    ) -> Lease | None:
        """Grants a newcomer's request, if it need not stand in line.

        Returns:
            The lease, or None if it would delay someone or too little is free.
        """
        if not self._lanes:
            return self._ledger.try_acquire(request, where)
        ahead = _WaitersAhead(self._ledger)
        for wish in self._wishes.values():
            if priority is Priority.USUAL:
                if wish.is_sure:
                    ahead.add_all(wish)
            elif wish.priority is Priority.RESUMED:
                ahead.add_all(wish)
            elif priority is Priority.NESTED:
                front = min(wish.lanes, key=_head)
                self._hold_up(ahead, front, 0)
        return ahead.lease(request, where)

    def enqueue(
        self,
        label: str,
        request: Resources,
        where: DeviceConstraints = ANYWHERE,
        priority: Priority = Priority.USUAL,
    ) -> Waiter:
        """Puts a request at the end: one that :meth:`pass_by` has just not granted."""
        waiter = Waiter(
            number=next(self._numbers),
            label=label,
            request=request,
            where=where,
            priority=priority,
        )
        self._insert(waiter)
        return waiter

    def change_constraints(self, waiter: Waiter, where: DeviceConstraints) -> Waiter:
        """Lets someone wish for other devices; the order of arrival is the same.

        Raises:
            LookupError: It is not in line. Nothing has changed.
        """
        self.remove(waiter)
        waiter = replace(waiter, where=where)
        self._insert(waiter)
        return waiter

    def remove(self, waiter: Waiter) -> None:
        """Takes someone out; whoever stood behind may then go.

        Raises:
            LookupError: It is not in line. Nothing has changed.
        """
        if self._beside.pop(waiter.number, None) is not None:
            return
        asked = frozenset(waiter.request.amounts.items())
        key = asked, waiter.where, waiter.priority
        lane = self._lanes[key]
        head = lane.head
        lane.remove(waiter)
        if waiter.number == head:
            heads = self._heads[lane.wish.goes_on]
            del heads[bisect_left(heads, (head,))]
            if lane:
                insort(heads, (lane.head, lane))
        if not lane:
            del self._lanes[key]
            self._forget(lane)

    def serve(self) -> list[tuple[Waiter, Lease]]:
        """Lets everyone go who may.

        Returns:
            Who got what, in order of arrival; they are in line no more.
        """
        granted = list(self._walk())
        for waiter, _ in granted:
            self.remove(waiter)
        return granted

    def _insert(self, waiter: Waiter) -> None:
        """Puts someone where it belongs by its number."""
        request, where = waiter.request, waiter.where
        if self._ledger.never(request, where):
            self._beside[waiter.number] = waiter
            numbers = list(self._beside)
            if numbers[-1:] < numbers[-2:-1]:  # it wished anew, and came before others
                for number in sorted(numbers):
                    self._beside.move_to_end(number)
            return
        key = frozenset(request.amounts.items()), where, waiter.priority
        lane = self._lanes.get(key) or self._lane(*key, request)
        head = lane.head if lane else None
        lane.add(waiter)
        if lane.head != head:
            heads = self._heads[lane.wish.goes_on]
            if head is not None:
                del heads[bisect_left(heads, (head,))]
            insort(heads, (lane.head, lane))

    def _lane(
        self,
        asked: Asked,
        where: DeviceConstraints,
        priority: Priority,
        request: Resources,
    ) -> _EqualRequests:
        key = frozenset(request.amounts), where, priority
        wish = self._wishes.get(key)
        if wish is None:
            is_sure = self._ledger.feasible(request, where)
            wish = self._wishes[key] = _RequestClass(
                self._ledger, *key, is_sure=is_sure
            )
        lane = self._lanes[asked, where, priority] = _EqualRequests(wish, request)
        wish.lanes[lane] = None
        return lane

    def _forget(self, lane: _EqualRequests) -> None:
        wish = lane.wish
        del wish.lanes[lane]
        if not wish.lanes:
            del self._wishes[wish.names, wish.where, wish.priority]

    def _walk(self) -> Iterator[tuple[Waiter, Lease]]:
        # What holds up those who are nested, and what holds up everybody else.
        nested = usual = _WaitersAhead(self._ledger)
        wishes = [wish for wish in self._wishes.values() if not wish.goes_on]
        if any(wish.priority is Priority.NESTED for wish in wishes):
            nested = _WaitersAhead(self._ledger)
        staying: set[_EqualRequests] = set()
        for waiter, lane, place in _in_order(self._heads[True], staying):
            lease = nested.grant(waiter)
            if lease is not None:
                yield waiter, lease
                continue
            staying.add(lane)
            for ahead in {nested, usual}:
                ahead.add(lane, place)
        of = {wish: usual if wish.is_usual else nested for wish in wishes}
        fronts: set[_RequestClass] = set()
        for waiter, lane, place in _in_order(self._heads[False], staying):
            wish, ahead = lane.wish, of[lane.wish]
            if not ahead.closes(wish):
                lease = ahead.grant(waiter)
                if lease is not None:
                    yield waiter, lease
                    continue
            elif all(of[each].closes(each) for each in wishes):
                return
            staying.add(lane)
            if not wish.is_sure:
                continue
            usual.add(lane, place)
            if nested is not usual and wish not in fronts:
                fronts.add(wish)
                self._hold_up(nested, lane, place)

    def _hold_up(self, ahead: _WaitersAhead, lane: _EqualRequests, place: int) -> None:
        """Lets someone who stays in line hold up those who are nested, if he may.

        Who is not kept waiting by what is free now waits because of somebody else.
        """
        ledger, asked = self._ledger, (lane.request, lane.wish.where)
        if lane.wish.is_sure and ledger.lacking(*asked) and ledger.could_come(*asked):
            ahead.add(lane, place, most=1)


class _RequestClass:
    """Those who ask for the same resources and wish for the same devices.

    Attributes:
        names: The resources.
        where: The wish.
        priority: Whom they have to let pass, and who them.
        is_sure: Whether it can be granted at all; if that is not known, they delay
            nobody.
        reaches: By kind of device, those that they may get.
        lanes: Where they stand, by what they ask.
    """

    __slots__ = ("is_sure", "lanes", "names", "priority", "reaches", "where")

    def __init__(
        self,
        ledger: Ledger,
        names: frozenset[str],
        where: DeviceConstraints,
        priority: Priority,
        *,
        is_sure: bool,
    ) -> None:
        self.names = names
        self.where = where
        self.priority = priority
        self.is_sure = is_sure
        self.reaches = {
            name: ledger.pools[name].scopes.candidates(where)
            for name in names
            if not _is_counted(ledger, name)
        }
        self.lanes: dict[_EqualRequests, None] = {}

    @property
    def is_usual(self) -> bool:
        """Whether nothing is particular about them."""
        return self.priority is Priority.USUAL

    @property
    def goes_on(self) -> bool:
        """Whether they are functions that have what they waited for."""
        return self.priority is Priority.RESUMED


class _EqualRequests:
    """Those who ask for the same amounts and wish for the same devices, in order.

    Attributes:
        wish: What they wish for.
        request: What each asks.
    """

    __slots__ = ("_first", "_numbers", "_waiters", "request", "wish")

    def __init__(self, wish: _RequestClass, request: Resources) -> None:
        self.wish = wish
        self.request = request
        # Ascending; the first few have left. A list that is emptied from its front
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
        """The number of whoever came first."""
        return self._numbers[self._first]

    def nth(self, place: int) -> Waiter:
        """Whoever has so many before it."""
        return self._waiters[self._numbers[self._first + place]]

    def before(self, number: int | None, start: int = 0) -> int:
        """How many came before somebody, those at the start apart; None for all."""
        if number is None:
            return len(self) - start
        return max(0, bisect_left(self._numbers, number) - self._first - start)

    def add(self, waiter: Waiter) -> None:
        insort(self._numbers, waiter.number, self._first)
        self._waiters[waiter.number] = waiter

    def remove(self, waiter: Waiter) -> None:
        del self._waiters[waiter.number]
        place = bisect_left(self._numbers, waiter.number)
        if place > self._first:
            del self._numbers[place]
            return
        self._first += 1
        if self._first > len(self._waiters):
            del self._numbers[: self._first]
            self._first = 0


class _WaitersAhead:
    """What those ask who stay in line, and what they leave to those behind.

    Args:
        ledger: What they ask it of.

    Attributes:
        asked: The sums of what they ask, those further behind in their lanes included.
        some: Who of a lane stays, for each lane that asks for what is counted, by name.
        closed: The names of which they leave nothing.
        barred: The devices that they may get, of kinds of which they leave some.
    """

    __slots__ = ("_held", "_ledger", "asked", "barred", "closed", "some")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._held: dict[str, Counter[int]] = {}
        self.asked: Counter[str] = Counter()
        self.some: dict[str, list[_StayingRequests]] = {}
        self.closed: set[str] = set()
        self.barred: dict[str, Reserved] = {}

    def grant(self, waiter: Waiter) -> Lease | None:
        """A lease on what those who came before someone leave, or None."""
        return self.lease(waiter.request, waiter.where, waiter.number)

    def lease(
        self, request: Resources, where: DeviceConstraints, number: int | None = None
    ) -> Lease | None:
        """A lease on what is left, or None.

        Args:
            request: What is asked.
            where: What is wished of the devices.
            number: The order of arrival; None for one who came after all others.
        """
        for name, amount in request.amounts.items():
            if name in self.closed:
                return None
            if _is_counted(self._ledger, name) and not self._leaves(
                name, amount, number
            ):
                return None
        lease = self._ledger.try_acquire(request, where, self.barred)
        if lease is not None:
            self._held.clear()
        return lease

    def add_all(self, wish: _RequestClass) -> None:
        """All who wish for this stay in line."""
        for lane in wish.lanes:
            self._count(_StayingRequests(lane, 0, len(lane)))
        self.bar(wish)

    def add(self, lane: _EqualRequests, gone: int, most: int | None = None) -> None:
        """Those in a lane stay in line, but for so many of the first.

        Args:
            lane: The lane.
            gone: How many do not.
            most: How many of the others do; None for all.
        """
        self._count(_StayingRequests(lane, gone, len(lane) if most is None else most))
        self.bar(lane.wish)
        for name in lane.request.amounts:
            if name in lane.wish.reaches or name in self.closed:
                continue
            free, some = self._ledger.free(name), self.some[name]
            if free and len(some) > MAX_AMOUNTS // 2:
                free -= sum(each.amount(name) for each in some)
            if free < 1:
                self.closed.add(name)

    def bar(self, wish: _RequestClass) -> None:
        """Keeps the devices that someone may get from all who come later."""
        for name, reach in wish.reaches.items():
            if name in self.closed:
                continue
            barred = self.barred.get(name)
            if barred is None:
                barred = self.barred[name] = self._ledger.pools[
                    name
                ].scopes.nothing_reserved()
            barred.add(reach)
            if barred.is_everything:
                self.closed.add(name)

    def closes(self, wish: _RequestClass) -> bool:
        """Whether nobody can go who wishes for this."""
        return not self.closed.isdisjoint(wish.names) or any(
            self._covers(name, reach) for name, reach in wish.reaches.items()
        )

    def _count(self, some: _StayingRequests) -> None:
        for name, amount in some.lane.request.amounts.items():
            if name not in some.lane.wish.reaches:
                self.asked[name] += amount * some.before(None)
                self.some.setdefault(name, []).append(some)

    def _leaves(self, name: str, amount: int, number: int | None) -> bool:
        """Whether someone may have so much of what is counted."""
        free = self._ledger.free(name)
        if not amount <= free:
            return False
        if amount <= free - self.asked[name]:
            return True
        some = self.some[name]
        if len(some) > MAX_AMOUNTS // 2:
            aside = sum(each.amount(name) * each.before(number) for each in some)
            return amount <= free - aside
        waiting: Counter[int] = Counter()
        for each in some:
            waiting[each.amount(name)] += each.before(number)
        if amount <= free - sum(units * n for units, n in waiting.items()):
            return True
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = self._ledger.held(name)
        total = self._ledger.capacity.amounts[name]
        return delays_nobody(total, held, +waiting, amount)

    def _covers(self, name: str, reach: Candidates) -> bool:
        barred = self.barred.get(name)
        return barred is not None and barred.covers(reach)


class _StayingRequests(NamedTuple):
    """Those of a lane who stay in line.

    Attributes:
        lane: The lane.
        gone: How many at its front do not.
        most: How many of the others do.
    """

    lane: _EqualRequests
    gone: int
    most: int

    def amount(self, name: str) -> int:
        """What each asks of a resource."""
        return self.lane.request.amounts[name]

    def before(self, number: int | None) -> int:
        """How many of them came before somebody; None for all."""
        return min(self.most, self.lane.before(number, self.gone))


def _in_order(
    heads: Sequence[tuple[int, _EqualRequests]], staying: Collection[_EqualRequests]
) -> Iterator[tuple[Waiter, _EqualRequests, int]]:
    """Those at the front of lanes, in order of arrival, and their places in these.

    Args:
        heads: Who came first in each lane, in order.
        staying: The lanes of which nobody else is wanted; it may grow meanwhile.
    """
    behind: list[tuple[int, int, _EqualRequests]] = []
    done = 0
    while done < len(heads) or behind:
        if behind and (done == len(heads) or behind[0] < heads[done]):
            _, place, lane = heappop(behind)
        else:
            (_, lane), place = heads[done], 0
            done += 1
        yield lane.nth(place), lane, place
        if lane not in staying and place + 1 < len(lane):
            heappush(behind, (lane.nth(place + 1).number, place + 1, lane))


def _head(lane: _EqualRequests) -> int:
    return lane.head


def _is_counted(ledger: Ledger, name: str) -> bool:
    """Whether any part is as good as any other: so it is on an only device, too."""
    pool = ledger.pools.get(name)
    return pool is None or len(pool.devices) == 1
