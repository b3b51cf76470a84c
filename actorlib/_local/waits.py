"""Which threads of actors wait for which calls, and whether they wait for one another.

A thread that blocks until a call is answered does nothing else. So if that call needs
a thread which blocks likewise, and so on until the first, none of them will ever end.
Only what is certain is kept here: a wait that may end by itself is no edge.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

A = TypeVar("A", bound=Hashable)
C = TypeVar("C", bound=Hashable)


class Wait(NamedTuple, Generic[C]):
    """A thread that waits.

    Attributes:
        who: The method that it runs, with its class.
        call: What it waits for.
    """

    who: str
    call: C


class Need(NamedTuple, Generic[A]):
    """What a call that has no answer needs.

    Attributes:
        what: The method, with its class.
        thread: The one thread that can run it, or None if it is not known.
    """

    what: str
    thread: tuple[A, int] | None


class Link(NamedTuple):
    """One wait of a circle.

    Attributes:
        who: Who waits.
        what: What for.
    """

    who: str
    what: str


class Waits(Generic[A, C]):
    """Who waits for what, by thread: an actor, and MAIN or LOOP of ``_wire.frames``."""

    def __init__(self) -> None:
        self._waits: dict[tuple[A, int], Wait[C]] = {}

    def __len__(self) -> int:
        """How many threads wait, or have waited for what is answered by now."""
        return len(self._waits)

    def begin(
        self,
        thread: tuple[A, int],
        wait: Wait[C],
        need: Callable[[C], Need[A] | None],
    ) -> list[Link]:
        """A thread begins to wait.

        Args:
            thread: Which one.
            wait: What for.
            need: What a call needs now; None if it has been answered.

        Returns:
            The circle that this closes, beginning here; empty if there is none.
        """
        self._waits[thread] = wait
        links: list[Link] = []
        seen: set[tuple[A, int]] = set()
        following: tuple[A, int] | None = thread
        while following is not None and following not in seen:
            seen.add(following)
            waiting = self._waits.get(following)
            needed = need(waiting.call) if waiting is not None else None
            if waiting is None or needed is None:
                return []
            links.append(Link(waiting.who, needed.what))
            following = needed.thread
        if following != thread:
            return []
        del self._waits[thread]
        return links

    def end(self, thread: tuple[A, int]) -> None:
        """A thread does not wait any more."""
        self._waits.pop(thread, None)

    def forget(self, actor: A) -> None:
        """The process of an actor is gone."""
        for thread in [thread for thread in self._waits if thread[0] == actor]:
            del self._waits[thread]


def circle_in_words(links: list[Link]) -> str:
    """What waits for what, and what to do about it."""
    first = links[0]
    told = f"{first.who} waits for {first.what}"
    if len(links) == 1:
        told += " of the same actor"
    for before, link in pairwise(links):
        if link.who != before.what:
            told += f", which is behind {link.who}"
        told += f", which waits for {link.what}"
    return (
        f"{told}, which cannot begin before {first.who} has ended: make one of them "
        "async, give the actor max_concurrency=2, or await it elsewhere"
    )
