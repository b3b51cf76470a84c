"""Deadlines on their way between machines, each of which counts from its own start.

On one machine a deadline is a moment by ``time.monotonic()``. On its way it is one by
the clocks of the machines, which are taken to agree; where they do not, a call never
gets more time than it had when it was sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorlib._calling import deadline_of

if TYPE_CHECKING:
    from collections.abc import Mapping


def leaving(told: Mapping[str, Any], now: float, clock: float) -> Mapping[str, Any]:
    """What is said of a call, as it is sent.

    Args:
        told: The same, as it holds in this process.
        now: The moment by ``time.monotonic()``.
        clock: The same moment by ``time.time()``.
    """
    deadline = deadline_of(told)
    if deadline is None:
        return told
    when, seconds, giver = deadline
    left = when - now
    return {**told, "deadline": (clock + left, left, seconds, giver)}


def arriving(told: Mapping[str, Any], now: float, clock: float) -> Mapping[str, Any]:
    """What is said of a call, as it holds where that arrives.

    Args:
        told: What came.
        now: The moment by ``time.monotonic()``.
        clock: The same moment by ``time.time()``.
    """
    came = told.get("deadline")
    if came is None:
        return told
    end, left, seconds, giver = came
    when = now + min(left, end - clock)
    return {**told, "deadline": (when, seconds, giver)}
