"""Tells what the object store keeps: how much, by whom, for which calls, since when.

Nothing is kept for this but the time at which a block of shared memory was first held.
All else is looked up when somebody asks, and described for as many as are asked for.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, final

from actorlib._core.ids import PREFIX_SIZE, ActorId, maker_of
from actorlib._core.snapshot import ObjectInfo
from actorlib._owner.refcount import OWNER, RUNTIME
from actorlib._owner.shared_memory import LiveBlock
from actorlib._shm.allocator import whole_pages
from actorlib._shm.memory import SharedPayload

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from actorlib._core.ids import CountedId
    from actorlib._core.snapshot import ObjectOrder
    from actorlib._owner.actor_table import ActorTable
    from actorlib._owner.objects import KeptObject
    from actorlib._shm.memory import Payload

MOST_CALLS: Final = 10_000
"""How many calls are looked at for what is among their arguments."""
MOST_NAMED: Final = 10
"""How many of them are named for one object."""

_NEVER = float("inf")

Borrowing = tuple[str, "Collection[CountedId]"]
"""A call, by its name, and what is counted among its arguments."""


class WarmMemory(NamedTuple):
    """What a process has touched and keeps no value in.

    Attributes:
        maker: How the ids of what it makes begin.
        nbytes: The bytes.
    """

    maker: bytes
    nbytes: int


class _Found(NamedTuple):
    """What may be told of, and by what it is put in order."""

    nbytes: int
    since: float
    what: LiveBlock | KeptObject | WarmMemory


@final
class StoredObjects:
    """Lists what one runtime keeps.

    Args:
        table: That of the runtime.
    """

    def __init__(self, table: ActorTable) -> None:
        self._table = table
        self._now = time.monotonic()
        self._titles: dict[int, str] = {OWNER: "the program", RUNTIME: "the runtime"}

    def listed(self, sort: ObjectOrder, limit: int | None) -> list[ObjectInfo]:
        """Lists what is kept, as many as are asked for; see RuntimeEngine."""
        found = list(self._found())
        count = len(found) if limit is None else limit
        if sort == "age":
            first = heapq.nsmallest(count, found, key=lambda row: row.since)
        else:
            first = heapq.nlargest(count, found, key=lambda row: row.nbytes)
        if not first:
            return []
        calls = calls_with(islice(self._borrowing(), MOST_CALLS))
        return [self._described(row.what, calls) for row in first]

    def _found(self) -> Iterator[_Found]:
        store, live = self._table.object_store, Counter[bytes]()
        for block in store.live():
            live[block.block[:PREFIX_SIZE]] += whole_pages(block.nbytes)
            yield _Found(block.nbytes, block.since, block)
        for kept in self._table.objects.kept():
            yield _Found(_nbytes_of(kept.payload) or 0, _NEVER, kept)
        for maker, touched in store.touched().items():
            warm = touched - live[maker]
            if warm > 0:
                yield _Found(warm, _NEVER, WarmMemory(maker, warm))

    def _borrowing(self) -> Iterator[Borrowing]:
        """Walks over the calls whose arguments are in this process, oldest first."""
        for supervisor in self._table.by_id.values():
            record = supervisor.record
            if not record.is_actor:
                continue  # their calls are the pool's
            if supervisor.unsent is not None and supervisor.unsent.borrowed:
                yield f"{record.title}, as it is made", supervisor.unsent.borrowed
            for method, borrowed in supervisor.router.borrowing():
                yield record.method(method), borrowed
        yield from self._table.pool.borrowing()

    def _described(
        self,
        what: LiveBlock | KeptObject | WarmMemory,
        calls: dict[CountedId, list[str]],
    ) -> ObjectInfo:
        if isinstance(what, WarmMemory):
            return ObjectInfo(
                kind="block",
                state="warm",
                object_id="",
                nbytes=what.nbytes,
                maker=self._title(maker_of(what.maker)),
            )
        if isinstance(what, LiveBlock):
            return ObjectInfo(
                kind="block",
                state="live",
                object_id=what.block.hex(),
                nbytes=what.nbytes or None,
                maker=self._title(maker_of(what.block)),
                holders=self._holders(what.block),
                arguments_of=tuple(calls.get(what.block, ())),
                age=max(0.0, self._now - what.since),
            )
        payload = what.payload
        return ObjectInfo(
            kind="ref",
            state="live" if what.is_filled else "pending",
            object_id=what.object_id.hex(),
            nbytes=_nbytes_of(payload),
            maker=self._title(maker_of(what.object_id)),
            holders=self._holders(what.object_id),
            arguments_of=tuple(calls.get(what.object_id, ())),
            block=payload.block.hex() if isinstance(payload, SharedPayload) else "",
        )

    def _holders(self, counted: CountedId) -> dict[str, int]:
        found: Counter[str] = Counter()
        for holder, count in self._table.refcount.holders(counted).items():
            found[self._title(holder)] += count
        return dict(found)

    def _title(self, process: int) -> str:
        """Names a process: that of the program, of an actor, or one for functions."""
        known = self._titles.get(process)
        if known is None:
            known = self._titles[process] = self._title_of_worker(process)
        return known

    def _title_of_worker(self, session: int) -> str:
        actor = self._table.refcount.who(session)
        supervisor = self._table.by_id.get(ActorId(actor)) if actor else None
        if supervisor is None:
            return "a worker that has ended"
        if not supervisor.record.is_actor:
            return f"a worker of functions (pid {supervisor.pid})"
        return supervisor.record.title


def calls_with(calls: Iterable[Borrowing]) -> dict[CountedId, list[str]]:
    """Says which calls have something among their arguments.

    Args:
        calls: The calls, the oldest first.

    Returns:
        By what it is, the names of the first of them.
    """
    found: dict[CountedId, list[str]] = {}
    for name, borrowed in calls:
        for counted in dict.fromkeys(borrowed):
            named = found.setdefault(counted, [])
            if len(named) < MOST_NAMED:
                named.append(name)
    return found


def _nbytes_of(payload: Payload | None) -> int | None:
    """The bytes of a payload that are in no shared memory; None if nobody knows."""
    if payload is None:
        return None
    if isinstance(payload, SharedPayload):
        return 0
    if isinstance(payload, list):
        return sum(memoryview(piece).nbytes for piece in payload)
    return len(payload)
