"""Lists the content of the object store: sizes, makers, holders, calls and ages.

Only the time at which a block was first held is recorded for this. All else is looked
up on request, for as many objects as are requested.
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
"""How many calls are searched for objects among their arguments."""
MOST_NAMED: Final = 10
"""How many calls are named for one object."""

_NEVER = float("inf")

Borrowing = tuple[str, "Collection[CountedId]"]
"""The name of a call, and the references among its arguments."""


@final
class StoredObjects:
    """Lists the objects that one runtime keeps."""

    def __init__(self, table: ActorTable, clients: Clients | None) -> None:
        self._table = table
        self._clients = clients
        self._now = time.monotonic()
        self._titles: dict[int, str] = {OWNER: "the program", RUNTIME: "the runtime"}

    def listed(self, sort: ObjectOrder, limit: int | None) -> list[ObjectInfo]:
        """Lists as many objects as requested; see RuntimeEngine."""
        store, is_by_age = self._table.object_store, sort == "age"
        blocks = store.live
        objects = {one.object_id: one for one in self._table.objects.kept()}
        warm = _warm(blocks, store.touched())
        # Bare tuples: there may be 100,000 blocks, and the loop waits meanwhile.
        order = [
            (since if is_by_age else -nbytes, block)
            for block, (nbytes, since) in blocks.items()
        ]
        order += [
            (_NEVER if is_by_age else -(_nbytes_of(one.payload) or 0), one.object_id)
            for one in objects.values()
        ]
        order += [
            (_NEVER if is_by_age else -nbytes, maker) for maker, nbytes in warm.items()
        ]
        first = sorted(order)[:limit]
        if not first:
            return []
        calls = calls_with(islice(self._borrowing(), MOST_CALLS))
        return [
            self._block(key, *blocks[key], calls)
            if key in blocks
            else self._ref(objects[ObjectId(key)], calls)
            if key in objects
            else self._warm(key, warm[key])
            for _, key in first
        ]

    def _borrowing(self) -> Iterator[Borrowing]:
        """Yields the calls whose arguments are in this process, oldest first."""
        for supervisor in self._table.by_id.values():
            record = supervisor.record
            if not record.is_actor:
                continue  # their calls are in the pool
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
        holders: Counter[str] = Counter()
        for holder, count in self._table.references.holders(counted).items():
            holders[self._title(holder)] += count
        return dict(holders)

    def _title(self, process: int) -> str:
        """Returns the name of a process: the program, an actor, or another worker."""
        title = self._titles.get(process)
        if title is None:
            title = self._titles[process] = self._title_of_worker(process)
        return title

    def _title_of_worker(self, session: int) -> str:
        actor = self._table.references.who(session)
        supervisor = self._table.by_id.get(ActorId(actor)) if actor else None
        if supervisor is None:
            title = None if self._clients is None else self._clients.title(session)
            return title or "a worker that has ended"
        if not supervisor.record.is_actor:
            return f"a worker of functions (pid {supervisor.pid})"
        return supervisor.record.title


def calls_with(calls: Iterable[Borrowing]) -> dict[CountedId, list[str]]:
    """Returns the calls that have an object among their arguments.

    Args:
        calls: The calls, the oldest first.

    Returns:
        By object, the names of the first of them.
    """
    names_of: dict[CountedId, list[str]] = {}
    for name, borrowed in calls:
        for counted in dict.fromkeys(borrowed):
            names = names_of.setdefault(counted, [])
            if len(names) < MOST_NAMED:
                names.append(name)
    return names_of


def _warm(
    blocks: Mapping[bytes, tuple[int, float]], touched: Mapping[bytes, int]
) -> dict[bytes, int]:
    """Returns the unused bytes that each process has touched, by its prefix."""
    unused = dict(touched)
    for block, (nbytes, _) in blocks.items():
        maker = block[:PREFIX_SIZE]
        if maker in unused:
            unused[maker] -= whole_pages(nbytes)
    return {maker: nbytes for maker, nbytes in unused.items() if nbytes > 0}


def _nbytes_of(payload: Payload | None) -> int | None:
    """Returns the bytes of a payload outside of shared memory; None if unknown."""
    if payload is None:
        return None
    if isinstance(payload, SharedPayload):
        return 0
    if isinstance(payload, list):
        return sum(memoryview(piece).nbytes for piece in payload)
    return len(payload)
