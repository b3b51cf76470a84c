"""Tells what the object store keeps: how much, by whom, for which calls, since when.

Nothing is kept for this but the time at which a block of shared memory was first held.
All else is looked up when somebody asks, and described for as many as are asked for.
"""

from __future__ import annotations

import time
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final, final

from actorlib._base.ids import PREFIX_SIZE, ActorId, ObjectId, maker_of
from actorlib._owner.objects.refcount import OWNER, RUNTIME
from actorlib._rows.snapshot import ObjectInfo
from actorlib._shm.allocator import whole_pages
from actorlib._shm.memory import SharedPayload

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from actorlib._base.ids import CountedId
    from actorlib._owner.actors.actor_table import ActorTable
    from actorlib._owner.objects.objects import KeptObject
    from actorlib._owner.requests.clients import Clients
    from actorlib._rows.snapshot import ObjectOrder
    from actorlib._shm.memory import Payload

MOST_CALLS: Final = 10_000
"""How many calls are looked at for what is among their arguments."""
MOST_NAMED: Final = 10
"""How many of them are named for one object."""

_NEVER = float("inf")

Borrowing = tuple[str, "Collection[CountedId]"]
"""A call, by its name, and what is counted among its arguments."""


@final
class StoredObjects:
    """Lists what one runtime keeps.

    Args:
        table: The actors of the runtime.
        clients: The programs that are attached; None before the first of them.
    """

    def __init__(self, table: ActorTable, clients: Clients | None) -> None:
        self._table = table
        self._clients = clients
        self._now = time.monotonic()
        self._titles: dict[int, str] = {OWNER: "the program", RUNTIME: "the runtime"}

    def listed(self, sort: ObjectOrder, limit: int | None) -> list[ObjectInfo]:
        """Lists what is kept, as many as are asked for; see RuntimeEngine."""
        store, is_by_age = self._table.object_store, sort == "age"
        blocks = store.live()
        kept = {one.object_id: one for one in self._table.objects.kept()}
        warm = _warm(blocks, store.touched())
        # Bare tuples: there may be 100,000 blocks, and the loop waits meanwhile.
        order = [
            (since if is_by_age else -nbytes, block)
            for block, (nbytes, since) in blocks.items()
        ]
        order += [
            (_NEVER if is_by_age else -(_nbytes_of(one.payload) or 0), one.object_id)
            for one in kept.values()
        ]
        order += [
            (_NEVER if is_by_age else -nbytes, maker) for maker, nbytes in warm.items()
        ]
        first = sorted(order)[:limit]
        if not first:
            return []
        calls = calls_with(islice(self._borrowing(), MOST_CALLS))
        return [
            self._block(made, *blocks[made], calls)
            if made in blocks
            else self._ref(kept[ObjectId(made)], calls)
            if made in kept
            else self._warm(made, warm[made])
            for _, made in first
        ]

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

    def _block(
        self,
        block: bytes,
        nbytes: int,
        since: float,
        calls: dict[CountedId, list[str]],
    ) -> ObjectInfo:
        return ObjectInfo(
            kind="block",
            state="live",
            object_id=block.hex(),
            nbytes=nbytes or None,
            maker=self._title(maker_of(block)),
            holders=self._holders(block),
            arguments_of=tuple(calls.get(block, ())),
            age=max(0.0, self._now - since),
        )

    def _ref(self, kept: KeptObject, calls: dict[CountedId, list[str]]) -> ObjectInfo:
        payload = kept.payload
        return ObjectInfo(
            kind="ref",
            state="live" if kept.is_filled else "pending",
            object_id=kept.object_id.hex(),
            nbytes=_nbytes_of(payload),
            maker=self._title(maker_of(kept.object_id)),
            holders=self._holders(kept.object_id),
            arguments_of=tuple(calls.get(kept.object_id, ())),
            block=payload.block.hex() if isinstance(payload, SharedPayload) else "",
        )

    def _warm(self, maker: bytes, nbytes: int) -> ObjectInfo:
        return ObjectInfo(
            kind="block",
            state="warm",
            object_id="",
            nbytes=nbytes,
            maker=self._title(maker_of(maker)),
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
            known = None if self._clients is None else self._clients.title(session)
            return known or "a worker that has ended"
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


def _warm(
    blocks: Mapping[bytes, tuple[int, float]], touched: Mapping[bytes, int]
) -> dict[bytes, int]:
    """Says how much each process has touched and keeps no value in, by its prefix."""
    left = dict(touched)
    for block, (nbytes, _) in blocks.items():
        maker = block[:PREFIX_SIZE]
        if maker in left:
            left[maker] -= whole_pages(nbytes)
    return {maker: nbytes for maker, nbytes in left.items() if nbytes > 0}


def _nbytes_of(payload: Payload | None) -> int | None:
    """The bytes of a payload that are in no shared memory; None if nobody knows."""
    if payload is None:
        return None
    if isinstance(payload, SharedPayload):
        return 0
    if isinstance(payload, list):
        return sum(memoryview(piece).nbytes for piece in payload)
    return len(payload)
