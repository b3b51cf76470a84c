"""A depth-first search with backtracking, used to arrange bundles.

It does not recurse: a group may have more bundles, and a machine more devices, than
Python allows frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Iterator

C = TypeVar("C")


class Problem(Protocol[C]):
    """A problem that is solved choice by choice, and keeps its current choices."""

    @property
    def is_solved(self) -> bool: ...

    @property
    def is_given_up(self) -> bool:
        """Whether the search has taken too many steps."""
        ...

    def state(self) -> Hashable:
        """Returns the state that determines the remaining choices."""
        ...

    def choices(self) -> Iterator[C]:
        """Yields the possible choices, the best first."""
        ...

    def make(self, choice: C) -> None: ...

    def undo(self, choice: C) -> None: ...


def solutions(problem: Problem[C], seen: set[Hashable]) -> Generator[list[C]]:
    """Yields the choices that solve a problem, one solution for each final state.

    However it ends, even by ``close``, all choices are undone.

    Args:
        problem: The problem.
        seen: The states without further solutions. The search adds those that it has
            left.
    """
    states: list[Hashable] = []
    options: list[Iterator[C]] = []
    chosen: list[C] = []
    try:
        while True:
            state = problem.state()
            is_new = state not in seen
            if is_new and problem.is_solved:
                yield list(chosen)
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
                if not chosen:
                    return
                problem.undo(chosen.pop())
            problem.make(choice)
            chosen.append(choice)
    finally:
        while chosen:
            problem.undo(chosen.pop())


def first_solution(problem: Problem[C], seen: set[Hashable]) -> list[C] | None:
    """Returns the first solution of a problem, or None; see :func:`solutions`."""
    search = solutions(problem, seen)
    try:
        return next(search, None)
    finally:
        search.close()
