"""Converts deadlines of calls for their way from one machine to another.

On one machine a deadline is a time by ``time.monotonic()``. On its way it is one by
the clocks of the machines, which are taken to agree; where they do not, a call never
gets more time than it had when it was sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorlib._core.current_call import deadline_of

if TYPE_CHECKING:
    from collections.abc import Mapping


def to_clock_time(
    headers: Mapping[str, Any], now: float, clock: float
) -> Mapping[str, Any]:
    """The headers of a call as they are sent.

    Args:
        headers: The same, as they hold in this process.
        now: The time by ``time.monotonic()``.
        clock: The same time by ``time.time()``.
    """
    deadline = deadline_of(headers)
    if deadline is None:
        return headers
    when, seconds, giver = deadline
    left = when - now
    return {**headers, "deadline": (clock + left, left, seconds, giver)}


def from_clock_time(
    headers: Mapping[str, Any], now: float, clock: float
) -> Mapping[str, Any]:
    """The headers of a call as they hold where it arrives.

    Args:
        headers: What came.
        now: The time by ``time.monotonic()``.
        clock: The same time by ``time.time()``.
    """
    came = headers.get("deadline")
    if came is None:
        return headers
    end, left, seconds, giver = came
    when = now + min(left, end - clock)
    return {**headers, "deadline": (when, seconds, giver)}
