"""Derives which of an actor's unanswered calls run.

No frame reports that a call begins. An actor begins calls in the order of their
arrival, as many as its limits allow, so the unanswered calls show which of them run.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from actorlib._options.actor_options import LOOPED_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.interface import Interface
    from actorlib._rows.snapshot import CallState


MAIN_THREAD = "the main thread"


class UnderWay(NamedTuple):
    """A call without an answer.

    Attributes:
        number: Its number in its actor; 0 before it has one.
        method: The name of the method.
        state: Its state; ``sent`` if it is in the worker.
        target: The recipient of the answer.
        headers: The headers of the call.
        since: The time of the call, by the clock of the loop; None if unknown.
        gives_way: Whether others run beside it, as with a stream whose reader lags.
    """

    number: int
    method: str
    state: CallState
    target: Any
    headers: Mapping[str, Any] | None
    since: float | None
    gives_way: bool = False


def with_states(
    calls: Iterable[UnderWay],
    interface: Interface,
    options: ActorOptions,
    *,
    is_busy: bool = False,
) -> Iterator[UnderWay]:
    """Yields the same calls, with the state running or queued for those in the worker.

    Args:
        calls: Those of one actor, in the order in which they were sent.
        interface: The interface of the actor's class.
        options: The options of the actor, with its limits.
        is_busy: Whether it runs a call that is not among these.
    """
    limits = options.limits(is_async=interface.is_async)
    groups = interface.grouped()
    running: Counter[str] = Counter()
    if is_busy:
        running[MAIN_THREAD] = 1
    for call in calls:
        if call.state != "sent":
            yield call
            continue
        places = _places(call, interface, groups, limits)
        runs = all(running[place] < limit for place, limit in places)
        if runs and not call.gives_way:
            running.update(place for place, _ in places)
        yield call._replace(state="running" if runs else "queued")


def _places(
    call: UnderWay,
    interface: Interface,
    groups: Mapping[str, str],
    limits: Mapping[str, int],
) -> list[tuple[str, int]]:
    """Returns the places that a call needs to run, each with its capacity."""
    group = (call.headers or {}).get("group") or groups.get(call.method, "")
    method = interface.methods.get(call.method)
    is_async = method is not None and method.is_async
    places: list[tuple[str, int]] = []
    if limits:
        places.append((f"group {group}", limits[group]))
    elif is_async:
        places.append(("group ", LOOPED_LIMIT))
    if is_async:
        return places
    if not limits or (interface.is_async and not group):
        places.append((MAIN_THREAD, 1))
    elif any(
        interface.methods[name].is_async for name in groups if groups[name] == group
    ):
        places.append((f"the thread of group {group}", 1))
    return places
