"""Counting what is in payloads: handles, refs inside of values, blocks of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

    from actorlib._engine import LoanId


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
