"""A depth-first search that takes steps back, for all that arranges bundles.

Not by recursion: a group may have more bundles, and a machine more devices, than Python
has frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Iterator

C = TypeVar("C")


class Problem(Protocol[C]):
    """A problem that is solved choice by choice, and remembers those it has made."""

    @property
    def is_solved(self) -> bool:
        """Whether nothing is left to choose."""
        ...

    @property
    def is_given_up(self) -> bool:
        """Whether the search has taken too long."""
        ...

    def state(self) -> Hashable:
        """Returns all that tells which choices remain, whatever led there."""
        ...

    def choices(self) -> Iterator[C]:
        """Yields what may be chosen now, the best first."""
        ...

    def make(self, choice: C) -> None:
        """Makes a choice."""
        ...

    def undo(self, choice: C) -> None:
        """Takes the last choice back."""
        ...


def solutions(problem: Problem[C], seen: set[Hashable]) -> Generator[list[C]]:
    """Yields the choices that solve a problem, one solution for each final state.

    However it ends, also by ``close``, all choices are taken back.

    Args:
        problem: The problem.
        seen: The states from which nothing more is to be had; those that the search
            has left are added.
    """
    states: list[Hashable] = []
    options: list[Iterator[C]] = []
    made: list[C] = []
    try:
        while True:
            state = problem.state()
            is_new = state not in seen
            if is_new and problem.is_solved:
                yield list(made)
            states.append(state)
            is_open = is_new and not problem.is_solved
            options.append(problem.choices() if is_open else iter(()))
            while True:
                choice = next(options[-1], None)
                if problem.is_given_up:
                    return
                if choice is not None:
                    break
                seen.add(states.pop())
                options.pop()
                if not made:
                    return
                problem.undo(made.pop())
            problem.make(choice)
            made.append(choice)
    finally:
        while made:
            problem.undo(made.pop())


def first_solution(problem: Problem[C], seen: set[Hashable]) -> list[C] | None:
    """Returns the first solution of a problem, or None; see :func:`solutions`."""
    found = solutions(problem, seen)
    try:
        return next(found, None)
    finally:
        found.close()
