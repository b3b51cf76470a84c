"""Who may go next: first come, first served, where it makes a difference.

The rule: someone later may pass someone who waits only if that delays nobody.

* Devices: never, if both ask for the same kind. Which device becomes free next is
  not known, so any share that a later one takes may be the one that was waited for.
* What is merely counted (CPU, memory, custom): if it is enough for both, that is,
  after setting aside all that those earlier in line ask of it.
* Who asks for what the machine can never give waits beside the line and delays nobody.

So nobody starves, and a waiting giant does not stop those who need nothing of his.

Those who ask for the same set of resources stand in one *lane*. A request that has
to wait closes at least one resource to everyone behind it (it lacked devices, or what
it asks sets aside more than is free), and with it its own lane: one look at the head
of each lane tells what 100 000 waiters may do. Assumption: whoever may go has gone,
which holds as :meth:`Line.serve` is called after every release and departure; so a
newcomer needs no walk at all, only the sum of what those in line ask.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from heapq import merge
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib._local.ledger import Ledger
    from actorlib._resources import Resources
    from actorlib.accelerators.base import Lease

_arrival = attrgetter("number")


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Waiter:
    """A place in line; two are never the same place.

    Attributes:
        number: The order of arrival.
        label: Who asks, for messages.
        request: What is asked.
    """

    number: int
    label: str
    request: Resources


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
        # An OrderedDict, as a dict that is emptied from its front gets slow: it looks
        # for its first key among those that are gone.
        self._lanes: dict[frozenset[str], OrderedDict[int, Waiter]] = {}
        self._beside: OrderedDict[int, Waiter] = OrderedDict()
        self._asked: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Waiter]:
        """Everyone who waits, in order of arrival."""
        lanes = (lane.values() for lane in self._lanes.values())
        return merge(*lanes, self._beside.values(), key=_arrival)

    def pass_by(self, request: Resources) -> Lease | None:
        """Grants a newcomer's request, if it need not stand in line.

        Returns:
            The lease, or None if it would delay someone or too little is free.
        """
        return self._grant(request, self._asked)

    def join(self, label: str, request: Resources) -> Waiter:
        """Puts a request at the end: one that :meth:`pass_by` has just not granted."""
        waiter = Waiter(number=next(self._numbers), label=label, request=request)
        if self._ledger.feasible(request):
            lane = self._lanes.setdefault(frozenset(request.amounts), OrderedDict())
            lane[waiter.number] = waiter
            self._asked.update(request.amounts)
        else:
            self._beside[waiter.number] = waiter
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Takes someone out; whoever stood behind may then go.

        Raises:
            LookupError: It is not in line. Nothing has changed.
        """
        if self._beside.pop(waiter.number, None) is not None:
            return
        names = frozenset(waiter.request.amounts)
        del self._lanes[names][waiter.number]
        if not self._lanes[names]:
            del self._lanes[names]
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
        ahead: Counter[str] = Counter()  # what those ask who stay in line
        closed: set[str] = set()  # the names of which they leave nothing
        lanes = (_until(closed, *lane) for lane in self._lanes.items())
        for waiter in merge(*lanes, key=_arrival):
            asked = waiter.request.amounts
            if closed.isdisjoint(asked):
                lease = self._grant(waiter.request, ahead)
                if lease is not None:
                    yield waiter, lease
                    continue
            elif not any(map(closed.isdisjoint, self._lanes)):
                return
            ahead.update(asked)
            closed.update(name for name in asked if not self._leaves(name, 1, ahead))

    def _grant(self, request: Resources, ahead: Counter[str]) -> Lease | None:
        for name, amount in request.amounts.items():
            if not self._leaves(name, amount, ahead):
                return None
        return self._ledger.try_acquire(request)

    def _leaves(self, name: str, amount: int, ahead: Counter[str]) -> bool:
        if name in self._ledger.kinds:
            return not ahead[name]
        return amount <= self._ledger.free(name) - ahead[name]


def _until(
    closed: set[str], names: frozenset[str], lane: OrderedDict[int, Waiter]
) -> Iterator[Waiter]:
    """The waiters of a lane, until all it asks for is closed: nobody behind matters."""
    for waiter in lane.values():
        if names <= closed:
            return
        yield waiter
