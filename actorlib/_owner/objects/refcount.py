"""Reference counts of actors, objects and blocks: who holds which, how often.

The owner is one holder; so is every worker that was lent a handle, once for each
frame that brought it one. A worker gives back all it was lent of an actor at once, when
its last handle is gone. As both travel on one pipe in order, a handle on its way is
never missed: it is counted before the frame leaves, and given back after it came.

What an actor holds of itself counts for nothing, or it would never end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from actorlib._base.ids import CountedId


OWNER = 0
"""The holder that is this process; workers are known by their session's number."""
RUNTIME = -1
"""The holder of detached actors, from their creation to their end."""


class RefCount:
    """Counts what each holder was lent."""

    def __init__(self) -> None:
        self._counts: dict[CountedId, dict[int, int]] = {}
        self._selves: dict[int, CountedId] = {}
        # By worker, what it has: else the end of each would walk over all there is.
        self._lent: dict[int, dict[CountedId, None]] = {}

    def __repr__(self) -> str:
        return f"<RefCount of {len(self._counts)} actors>"

    def is_held(self, actor: CountedId) -> bool:
        """Whether anybody but the actor itself holds a handle of it."""
        # A loop, as a generator takes three times as long, and a call that lends
        # something comes here four times.
        for holder in self._counts.get(actor, ()):
            if self._selves.get(holder) != actor:
                return True
        return False

    def has(self, counted: CountedId, holder: int) -> bool:
        """Whether a holder was lent something, and has not given it back."""
        return holder in self._counts.get(counted, ())

    def holders(self, counted: CountedId) -> Mapping[int, int]:
        """Says who holds something, and how often."""
        return self._counts.get(counted, {})

    def enter(self, holder: int, actor: CountedId) -> None:
        """Takes note of which actor a worker is."""
        self._selves[holder] = actor

    def who(self, holder: int) -> CountedId | None:
        """Says which actor a worker is; None if it is gone."""
        return self._selves.get(holder)

    def add(self, actor: CountedId, holder: int) -> bool:
        """Counts one more reference; True if nobody held the actor before."""
        counts = self._counts.get(actor)
        was_held = counts is not None and self.is_held(actor)
        if counts is None:
            counts = self._counts[actor] = {}
        self._give(counts, actor, holder)
        return not was_held

    def remove(self, actor: CountedId, holder: int, count: int = 1) -> bool:
        """Counts references that were given back; True if nobody holds the actor now.

        Raises:
            LookupError: More is given back than was lent.
        """
        counts = self._taken_from(actor, holder, count)
        if holder in counts:
            return False
        if not counts:
            del self._counts[actor]
            return True
        return not self.is_held(actor)

    def move(self, actors: Iterable[CountedId], holder: int) -> None:
        """Hands references that this process kept to the worker they were sent to.

        Raises:
            LookupError: This process has none.
        """
        for actor in actors:
            # It has a holder before and after: nobody is to be told.
            self._give(self._taken_from(actor, OWNER, 1), actor, holder)

    def _give(self, counts: dict[int, int], actor: CountedId, holder: int) -> None:
        if holder in counts:
            counts[holder] += 1
            return
        counts[holder] = 1
        if holder > OWNER:
            self._lent.setdefault(holder, {})[actor] = None

    def _taken_from(self, actor: CountedId, holder: int, count: int) -> dict[int, int]:
        """Takes references from a holder; gives what each has of the actor then."""
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
        """Forgets a worker that is gone; gives what nobody holds now."""
        self._selves.pop(holder, None)
        held = list(self._lent.get(holder, ()))
        unheld = [
            actor
            for actor in held
            if self.remove(actor, holder, self._counts[actor][holder])
        ]
        self._lent.pop(holder, None)
        return unheld


class BorrowedReferences:
    """Counts what travels in payloads: handles, refs inside of values, blocks.

    Args:
        counts: Who holds what.
        on_held: Called with what somebody holds now, and nobody held before.
        on_unheld: Called with what nobody holds any more.
    """

    def __init__(
        self,
        counts: RefCount,
        on_held: Callable[[CountedId], None],
        on_unheld: Callable[[CountedId], None],
    ) -> None:
        self._counts = counts
        self._on_held = on_held
        self._on_unheld = on_unheld

    def retain(self, counted: CountedId, holder: int) -> None:
        """Counts what a holder has once more."""
        if self._counts.add(counted, holder):
            self._on_held(counted)

    def release(self, counted: CountedId, holder: int, count: int = 1) -> None:
        """Counts what a holder gives back, so many times at once.

        Raises:
            LookupError: More is given back than was lent.
        """
        if self._counts.remove(counted, holder, count):
            self._on_unheld(counted)

    def has(self, counted: CountedId, holder: int) -> bool:
        """Whether a holder has one that it has not given back."""
        return self._counts.has(counted, holder)

    def arrived(self, borrowed: Collection[CountedId], holder: int) -> None:
        """Counts what a frame brought to a holder."""
        for counted in borrowed:
            if self._counts.add(counted, holder):
                self._on_held(counted)

    def returned(self, borrowed: Collection[CountedId], holder: int) -> None:
        """Counts what a holder does not hold any more."""
        for counted in borrowed:
            if self._counts.remove(counted, holder):
                self._on_unheld(counted)

    def lent(self, borrowed: Collection[CountedId], holder: int) -> None:
        """Hands over to a worker what this process kept for it."""
        self._counts.move(borrowed, holder)


class passing:  # noqa: N801  # used as a verb, as ``contextlib`` does
    """Lends a holder what a frame has brought, while something is done with it.

    Args:
        references: Counts it.
        borrowed: What the frame brought.
        holder: Who has it.
    """

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
