"""Reference counts of actors, objects and blocks: who holds what, and how often.

The owner is one holder, and so is each worker that was lent a handle, once for each
frame with one. A worker returns all its references to an actor at once, when its last
handle is gone. Both travel on one pipe in order, so a handle on its way is never
missed: it is counted before the frame is sent, and returned after the frame arrived.

References of an actor to itself do not count, or it would never end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from actorlib._base.ids import CountedId


OWNER = 0
"""The holder of this process; a worker is its session's number."""
RUNTIME = -1
"""The holder of detached actors, from their creation to their end."""


class RefCount:
    """Counts the references of each holder, without consequences."""

    def __init__(self) -> None:
        self._counts: dict[CountedId, dict[int, int]] = {}
        self._selves: dict[int, CountedId] = {}
        # By worker, its objects: else the end of each would walk over all objects.
        self._lent: dict[int, dict[CountedId, None]] = {}

    def __repr__(self) -> str:
        return f"<RefCount of {len(self._counts)} actors>"

    def is_held(self, actor: CountedId) -> bool:
        """Whether any holder except the actor itself has a reference."""
        # A loop, as a generator takes three times as long, and a call with a borrowed
        # reference comes here four times.
        for holder in self._counts.get(actor, ()):
            if self._selves.get(holder) != actor:
                return True
        return False

    def has(self, counted: CountedId, holder: int) -> bool:
        return holder in self._counts.get(counted, ())

    def holders(self, counted: CountedId) -> Mapping[int, int]:
        """Returns the holders, each with the number of its references."""
        return self._counts.get(counted, {})

    def enter(self, holder: int, actor: CountedId) -> None:
        """Notes the actor of a worker."""
        self._selves[holder] = actor

    def who(self, holder: int) -> CountedId | None:
        """Returns the actor of a worker; None if it is gone."""
        return self._selves.get(holder)

    def add(self, actor: CountedId, holder: int) -> bool:
        """Adds a reference; True if the actor was not held before."""
        counts = self._counts.get(actor)
        was_held = counts is not None and self.is_held(actor)
        if counts is None:
            counts = self._counts[actor] = {}
        self._give(counts, actor, holder)
        return not was_held

    def remove(self, actor: CountedId, holder: int, count: int = 1) -> bool:
        """Removes references; True if the actor is not held now.

        Raises:
            LookupError: The holder has fewer references.
        """
        counts = self._remove_from(actor, holder, count)
        if holder in counts:
            return False
        if not counts:
            del self._counts[actor]
            return True
        return not self.is_held(actor)

    def lent(self, actors: Iterable[CountedId], holder: int) -> None:
        """Moves references of this process to the worker that they were sent to.

        Raises:
            LookupError: This process has none.
        """
        for actor in actors:
            # It is held before and after: no callback.
            self._give(self._remove_from(actor, OWNER, 1), actor, holder)

    def _give(self, counts: dict[int, int], actor: CountedId, holder: int) -> None:
        if holder in counts:
            counts[holder] += 1
            return
        counts[holder] = 1
        if holder > OWNER:
            self._lent.setdefault(holder, {})[actor] = None

    def _remove_from(self, actor: CountedId, holder: int, count: int) -> dict[int, int]:
        """Removes references of a holder; returns the counts of all holders."""
        counts = self._counts.get(actor, {})
        had = counts.get(holder, 0)
        if had < count:
            raise LookupError(
                f"holder {holder} gives back {count} references to {actor.hex()}, "
                f"and had {had}"
            )
        if had > count:
            counts[holder] = had - count
        else:
            del counts[holder]
            if holder > OWNER:
                del self._lent[holder][actor]
        return counts

    def forget(self, holder: int) -> list[CountedId]:
        """Forgets a worker that is gone; returns what is not held now."""
        self._selves.pop(holder, None)
        unheld = [
            actor
            for actor in list(self._lent.get(holder, ()))
            if self.remove(actor, holder, self._counts[actor][holder])
        ]
        self._lent.pop(holder, None)
        return unheld


class BorrowedReferences(RefCount):
    """Counts the references in payloads: handles, refs inside of values, blocks.

    Args:
        on_held: Called with each object that is held now and was not before.
        on_unheld: Called with each object that is no longer held.

    Attributes:
        on_unheld: As given.
    """

    def __init__(
        self,
        on_held: Callable[[CountedId], None],
        on_unheld: Callable[[CountedId], None],
    ) -> None:
        super().__init__()
        self._on_held = on_held
        self.on_unheld = on_unheld

    def retain(self, counted: CountedId, holder: int) -> None:
        if self.add(counted, holder):
            self._on_held(counted)

    def release(self, counted: CountedId, holder: int, count: int = 1) -> None:
        """Removes references of a holder.

        Raises:
            LookupError: The holder has fewer references.
        """
        if self.remove(counted, holder, count):
            self.on_unheld(counted)

    def arrived(self, borrowed: Collection[CountedId], holder: int) -> None:
        """Adds the references that a frame brought to a holder."""
        for counted in borrowed:
            if self.add(counted, holder):
                self._on_held(counted)

    def returned(self, borrowed: Collection[CountedId], holder: int) -> None:
        """Removes references that a holder has returned."""
        for counted in borrowed:
            if self.remove(counted, holder):
                self.on_unheld(counted)


class UnsentResults:
    """Counts the refs that an actor has sent, and whose values it has not sent yet.

    Args:
        when_empty: Called when none is left.
    """

    def __init__(self, when_empty: Callable[[], None]) -> None:
        self._when_empty = when_empty
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self) -> None:
        self._count += 1

    def remove(self) -> None:
        """Discounts a ref whose value was sent or is not needed."""
        self._count -= 1
        if not self._count:
            self._when_empty()


class passing:  # noqa: N801  # used like the functions of ``contextlib``
    """Holds the references in a frame while the frame is processed."""

    __slots__ = ("_borrowed", "_holder", "_references")

    def __init__(
        self,
        references: BorrowedReferences,
        borrowed: Collection[CountedId] | None,
        holder: int,
    ) -> None:
        self._references = references
        self._borrowed = borrowed
        self._holder = holder

    def __enter__(self) -> None:
        if self._borrowed:
            self._references.arrived(self._borrowed, self._holder)

    def __exit__(self, *_: object) -> None:
        if self._borrowed:
            self._references.returned(self._borrowed, self._holder)
