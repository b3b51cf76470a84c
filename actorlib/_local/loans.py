"""Counting what is in payloads: handles, refs inside of values, blocks of memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Generator

    from actorlib._ids import LoanId


class Loans(Protocol):
    """Who holds what; see Lives and Holders."""

    def arrived(self, loans: Collection[LoanId], holder: int) -> None:
        """Counts what a frame brought to a holder."""
        ...

    def returned(self, loans: Collection[LoanId], holder: int) -> None:
        """Counts what a holder does not hold any more."""
        ...

    def lent(self, loans: Collection[LoanId], holder: int) -> None:
        """Hands over to a worker what this process kept for it."""
        ...


@contextmanager
def passing(
    counted: Loans, loans: Collection[LoanId] | None, holder: int
) -> Generator[None]:
    """Around what is done with a frame: a holder has what it brought meanwhile.

    Args:
        counted: Where that is counted.
        loans: What the frame brought.
        holder: Who has it.
    """
    if not loans:
        yield
        return
    counted.arrived(loans, holder)
    try:
        yield
    finally:
        counted.returned(loans, holder)
