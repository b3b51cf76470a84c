"""What an actor has promised and not given: it is not idle before it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Debts:
    """Refs that an actor has sent, and whose values it has not passed on yet.

    Args:
        paid: Called when none is left.
    """

    def __init__(self, paid: Callable[[], None]) -> None:
        self._paid = paid
        self._count = 0

    def __bool__(self) -> bool:
        """Whether any is left."""
        return self._count > 0

    def more(self) -> None:
        """The actor has sent a ref."""
        self._count += 1

    def less(self) -> None:
        """It has passed its value on, or nobody wants that any more."""
        self._count -= 1
        if not self._count:
            self._paid()
