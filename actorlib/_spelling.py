"""What somebody may have meant who wrote a name that there is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def closest(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """The names that look most like one that is unknown, the likeliest first.

    Args:
        name: What was written.
        known: What there is.
        count: How many at the most.
    """
    # A tenth of the import of this package, for messages that few ever see.
    from difflib import get_close_matches  # noqa: PLC0415

    return get_close_matches(name, known, n=count)
