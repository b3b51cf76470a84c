"""The option ``priority`` of actors, functions and placement groups."""

from __future__ import annotations

from actorlib._base.validation import wrong_type

MAX_PRIORITY = 2**20
"""The highest priority; the lowest is its negative."""


def check_priority(name: str, value: object) -> None:
    """Checks that a value is a whole number from -MAX_PRIORITY to MAX_PRIORITY."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(f"{name} takes a whole number, for example 5", value)
    if not -MAX_PRIORITY <= value <= MAX_PRIORITY:
        raise ValueError(
            f"{name} takes a whole number from {-MAX_PRIORITY} to {MAX_PRIORITY}, not "
            f"{value!r}"
        )
