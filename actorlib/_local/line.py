"""Who may go next: first come, first served, where it makes a difference.

The rule: someone later may pass someone who waits only if that delays nobody.

* Devices: never of those that the earlier one may get. Which of them becomes free next
  is not known, so any share that a later one takes may be the one that was waited for.
  Who waits for an H100 holds nobody up who can do with an A100.
* What is merely counted (CPU, memory, custom): if it is enough for both, that is,
  after setting aside all that those earlier in line ask of it.
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

Those who ask for the same set of resources, and wish for the same devices, stand in one
*lane*. A request that has to wait closes at least one resource to everyone behind it
(it bars the devices that it may get, or what it asks sets aside more than is free), and
with it its own lane: one look at the head of each lane tells what 100 000 waiters may
do. Assumption: whoever may go has gone, which holds as :meth:`Line.serve` is called
after every release and departure; so a newcomer needs no walk at all, only the sum of
what those in line ask and the devices that their lanes may get.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from heapq import merge
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias, final

from actorlib._local.where import ANYWHERE, Where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from actorlib._local.ledger import Ledger
    from actorlib._local.reach import Barred, Reach
    from actorlib._resources import Resources
    from actorlib.accelerators.base import Lease

_arrival = attrgetter("number")


class Priority(enum.Enum):
    """Who has to let whom pass; see above."""

    GOES_ON = "goes on"
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
    where: Where = ANYWHERE
    priority: Priority = Priority.USUAL


@final
class Line:
    """Those who wait for one ledger, in order of arrival.

    Args:
        ledger: What they wait for; it is asked for leases and never given one back.
    """

    __slots__ = ("_asked", "_beside", "_lanes", "_ledger", "_numbers")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._numbers = count()
        self._lanes: dict[_Key, _Lane] = {}
        self._beside: OrderedDict[int, Waiter] = OrderedDict()
        self._asked: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Waiter]:
        """Everyone who waits, in order of arrival."""
        lanes = (lane.waiters.values() for lane in self._lanes.values())
        return merge(*lanes, self._beside.values(), key=_arrival)

    def pass_by(
        self,
        request: Resources,
        where: Where = ANYWHERE,
        priority: Priority = Priority.USUAL,
    ) -> Lease | None:
        """Grants a newcomer's request, if it need not stand in line.

        Returns:
            The lease, or None if it would delay someone or too little is free.
        """
        if not self._lanes:
            return self._ledger.try_acquire(request, where)
        ahead = _Ahead(self._ledger)
        if priority is Priority.USUAL:
            ahead.asked = self._asked
            for lane in self._lanes.values():
                if lane.is_sure:
                    ahead.bar(lane)
            return ahead.grant(request, where)
        for lane in self._of(Priority.GOES_ON):
            for waiter in lane.waiters.values():
                ahead.add(waiter, lane)
        if priority is Priority.NESTED:
            for lane in self._of(Priority.NESTED, Priority.USUAL):
                self._hold_up(ahead, lane.first, lane)
        return ahead.grant(request, where)

    def join(
        self,
        label: str,
        request: Resources,
        where: Where = ANYWHERE,
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
        self._stand(waiter)
        return waiter

    def wish_anew(self, waiter: Waiter, where: Where) -> Waiter:
        """Lets someone wish for other devices; the order of arrival is the same.

        Raises:
            LookupError: It is not in line. Nothing has changed.
        """
        self.leave(waiter)
        waiter = replace(waiter, where=where)
        earlier = self._stand(waiter)
        waiters = sorted(earlier.values(), key=_arrival)
        earlier.clear()
        earlier.update((other.number, other) for other in waiters)
        return waiter

    def _stand(self, waiter: Waiter) -> OrderedDict[int, Waiter]:
        """Puts someone at the end of the lane it belongs to; gives that lane."""
        request, where = waiter.request, waiter.where
        if self._ledger.never(request, where):
            self._beside[waiter.number] = waiter
            return self._beside
        key = frozenset(request.amounts), where, waiter.priority
        lane = self._lanes.get(key)
        if lane is None:
            is_sure = self._ledger.feasible(request, where)
            lane = self._lanes[key] = _Lane(self._ledger, *key, is_sure=is_sure)
        lane.waiters[waiter.number] = waiter
        if lane.is_sure:
            self._asked.update(request.amounts)
        return lane.waiters

    def leave(self, waiter: Waiter) -> None:
        """Takes someone out; whoever stood behind may then go.

        Raises:
            LookupError: It is not in line. Nothing has changed.
        """
        if self._beside.pop(waiter.number, None) is not None:
            return
        key = frozenset(waiter.request.amounts), waiter.where, waiter.priority
        lane = self._lanes[key]
        del lane.waiters[waiter.number]
        if not lane.waiters:
            del self._lanes[key]
        if lane.is_sure:
            self._asked.subtract(waiter.request.amounts)

    def serve(self) -> list[tuple[Waiter, Lease]]:
        """Lets everyone go who may.

        Returns:
            Who got what, in order of arrival; they are in line no more.
        """
        granted = list(self._walk())
        for waiter, _ in granted:
            self.leave(waiter)
        return granted

    def _walk(self) -> Iterator[tuple[Waiter, Lease]]:
        # What holds up those who are nested, and what holds up everybody else.
        nested = usual = _Ahead(self._ledger)
        lanes = self._of(Priority.NESTED, Priority.USUAL)
        if any(lane.priority is Priority.NESTED for lane in lanes):
            nested = _Ahead(self._ledger)
        for waiter, lane in _in_order(self._of(Priority.GOES_ON)):
            lease = nested.grant(waiter.request, waiter.where)
            if lease is not None:
                yield waiter, lease
                continue
            for ahead in {nested, usual}:
                ahead.add(waiter, lane)
        of = {lane: usual if lane.is_usual else nested for lane in lanes}
        fronts: set[_Lane] = set()
        in_vain: set[_Lane] = set()
        for waiter, lane in _in_order(lanes, lambda lane: of[lane].closes_all(lane)):
            if lane in in_vain:
                continue
            ahead = of[lane]
            if not ahead.closes(lane):
                lease = ahead.grant(waiter.request, waiter.where)
                if lease is not None:
                    yield waiter, lease
                    continue
            elif all(of[each].closes(each) for each in lanes):
                return
            if not lane.is_sure:
                in_vain.add(lane)  # those behind it ask for the same bundles
                continue
            usual.add(waiter, lane)
            if nested is not usual and lane not in fronts:
                fronts.add(lane)
                self._hold_up(nested, waiter, lane)

    def _of(self, *priorities: Priority) -> list[_Lane]:
        return [lane for lane in self._lanes.values() if lane.priority in priorities]

    def _hold_up(self, ahead: _Ahead, waiter: Waiter, lane: _Lane) -> None:
        """Lets someone who stays in line hold up those who are nested, if he may.

        Who is not kept waiting by what is free now waits because of somebody else.
        """
        ledger, asked = self._ledger, (waiter.request, waiter.where)
        if lane.is_sure and ledger.lacking(*asked) and ledger.could_come(*asked):
            ahead.add(waiter, lane)


_Key: TypeAlias = tuple[frozenset[str], Where, Priority]


class _Lane:
    """Those who ask for the same resources and wish for the same devices.

    Attributes:
        names: The resources.
        where: The wish.
        priority: Whom they have to let pass, and who them.
        is_sure: Whether they can be granted at all; if that is not known, they delay
            nobody.
        reaches: By kind of device, those that they may get.
        waiters: Those in it by number. An OrderedDict, as a dict that is emptied from
            its front gets slow: it looks for its first key among those that are gone.
    """

    __slots__ = ("is_sure", "names", "priority", "reaches", "waiters", "where")

    def __init__(
        self,
        ledger: Ledger,
        names: frozenset[str],
        where: Where,
        priority: Priority,
        *,
        is_sure: bool,
    ) -> None:
        self.is_sure = is_sure
        self.names = names
        self.where = where
        self.priority = priority
        self.reaches = {
            name: ledger.pools[name].scopes.reach(where)
            for name in names
            if name in ledger.pools
        }
        self.waiters: OrderedDict[int, Waiter] = OrderedDict()

    @property
    def is_usual(self) -> bool:
        """Whether nothing is particular about them."""
        return self.priority is Priority.USUAL

    @property
    def first(self) -> Waiter:
        """Who has waited for longest."""
        return next(iter(self.waiters.values()))


class _Ahead:
    """What those ask who stay in line, and what they leave to those behind.

    Attributes:
        asked: The sums of what they ask.
        closed: The names of which they leave nothing.
        barred: The devices that they may get, of kinds of which they leave some.
    """

    __slots__ = ("_ledger", "asked", "barred", "closed")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.asked: Counter[str] = Counter()
        self.closed: set[str] = set()
        self.barred: dict[str, Barred] = {}

    def grant(self, request: Resources, where: Where) -> Lease | None:
        """A lease on what is left, or None."""
        pools = self._ledger.pools
        for name, amount in request.amounts.items():
            if name in pools:
                if name in self.closed:
                    return None
            elif amount > self._ledger.free(name) - self.asked[name]:
                return None
        return self._ledger.try_acquire(request, where, self.barred)

    def add(self, waiter: Waiter, lane: _Lane) -> None:
        """Someone stays in line."""
        self.asked.update(waiter.request.amounts)
        self.bar(lane)
        self.closed.update(
            name
            for name in waiter.request.amounts
            if name not in lane.reaches
            and self._ledger.free(name) - self.asked[name] < 1
        )

    def bar(self, lane: _Lane) -> None:
        """Keeps the devices that someone in a lane may get from all who come later."""
        for name, reach in lane.reaches.items():
            if name in self.closed:
                continue
            barred = self.barred.get(name)
            if barred is None:
                barred = self.barred[name] = self._ledger.pools[name].scopes.barred()
            barred.add(reach)
            if barred.are_all:
                self.closed.add(name)

    def closes(self, lane: _Lane) -> bool:
        """Whether nobody in a lane can go."""
        return not self.closed.isdisjoint(lane.names) or any(
            self._covers(name, reach) for name, reach in lane.reaches.items()
        )

    def closes_all(self, lane: _Lane) -> bool:
        """Whether nothing is left of all that a lane asks for."""
        return all(
            name in self.closed
            or (name in lane.reaches and self._covers(name, lane.reaches[name]))
            for name in lane.names
        )

    def _covers(self, name: str, reach: Reach) -> bool:
        barred = self.barred.get(name)
        return barred is not None and barred.covers(reach)


def _in_order(
    lanes: Sequence[_Lane], is_over: Callable[[_Lane], bool] = lambda _: False
) -> Iterator[tuple[Waiter, _Lane]]:
    """The waiters of lanes, in order of arrival.

    Args:
        lanes: The lanes.
        is_over: Whether those of a lane who are left do not matter any more.
    """
    for _, waiter, lane in merge(*(_until(is_over, lane) for lane in lanes)):
        yield waiter, lane


def _until(
    is_over: Callable[[_Lane], bool], lane: _Lane
) -> Iterator[tuple[int, Waiter, _Lane]]:
    """The waiters of a lane, until all it asks for is closed: nobody behind matters."""
    for number, waiter in lane.waiters.items():
        if is_over(lane):
            return
        yield number, waiter, lane
