"""Converts deadlines of calls between machines.

On one machine a deadline is a time by ``time.monotonic()``. Between machines it is a
clock time. If the clocks differ, a call never gets more time than it had when it was
sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorlib._core.current_call import deadline_of

if TYPE_CHECKING:
    from collections.abc import Mapping


def to_clock_time(
    headers: Mapping[str, Any], now: float, clock: float
) -> Mapping[str, Any]:
    """Converts the headers of a call for sending.

    ``now`` and ``clock`` are one time, by ``time.monotonic()`` and by ``time.time()``.
    """
    deadline = deadline_of(headers)
    if deadline is None:
        return headers
    when, seconds, giver = deadline
    rest = when - now
    return {**headers, "deadline": (clock + rest, rest, seconds, giver)}


def from_clock_time(
    headers: Mapping[str, Any], now: float, clock: float
) -> Mapping[str, Any]:
    """Converts the headers of a received call; see ``to_clock_time``."""
    deadline = headers.get("deadline")
    if deadline is None:
        return headers
    end, rest, seconds, giver = deadline
    when = now + min(rest, end - clock)
    return {**headers, "deadline": (when, seconds, giver)}
