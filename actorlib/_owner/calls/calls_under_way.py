"""Tells which of an actor's calls run, from those that have no answer.

No frame says when a call begins: an actor begins them in the order in which they came,
as many as its limits allow, so what runs follows from what has no answer.
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
        number: Its number in its actor; 0 where it has none yet.
        method: The name of the method.
        state: Where it is; ``sent`` if it is in the worker.
        target: Who wants the answer.
        headers: What was said of it besides its arguments.
        since: When it was made, by the clock of the loop; None if that is unknown.
        gives_way: Whether it lets others run, as a stream does whose reader is behind.
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
    face: Interface,
    options: ActorOptions,
    *,
    is_busy: bool = False,
) -> Iterator[UnderWay]:
    """Gives the same calls, and says of those in the worker which run.

    Args:
        calls: Those of one actor, in the order in which they were sent.
        face: Its methods.
        options: How many run at once.
        is_busy: Whether it runs a call that is none of these.
    """
    limits = options.limits(is_async=face.is_async)
    groups = face.grouped()
    taken: Counter[str] = Counter()
    if is_busy:
        taken[MAIN_THREAD] = 1
    for call in calls:
        if call.state != "sent":
            yield call
            continue
        places = _places(call, face, groups, limits)
        runs = all(taken[place] < limit for place, limit in places)
        if runs and not call.gives_way:
            taken.update(place for place, _ in places)
        yield call._replace(state="running" if runs else "queued")


def _places(
    call: UnderWay,
    face: Interface,
    groups: Mapping[str, str],
    limits: Mapping[str, int],
) -> list[tuple[str, int]]:
    """What a call needs to run: its places, each with how many there are."""
    group = (call.headers or {}).get("group") or groups.get(call.method, "")
    method = face.methods.get(call.method)
    is_async = method is not None and method.is_async
    places: list[tuple[str, int]] = []
    if limits:
        places.append((f"group {group}", limits[group]))
    elif is_async:
        places.append(("group ", LOOPED_LIMIT))
    if is_async:
        return places
    if not limits or (face.is_async and not group):
        places.append((MAIN_THREAD, 1))
    elif any(face.methods[name].is_async for name in groups if groups[name] == group):
        places.append((f"the thread of group {group}", 1))
    return places
