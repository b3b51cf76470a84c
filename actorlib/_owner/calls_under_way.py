"""The calls of one actor without an answer, and which of them run.

Nobody is told when a call begins: an actor begins them in the order in which they came,
as many as its limits allow, so what runs follows from what has no answer.

Roughly when each of a row of numbers was given, told from a few marks.

A clock read for each call would cost all of them what few ever ask for. So a mark is
set where a turn of the loop gives its first number, unless the last one is close.
"""

from __future__ import annotations

from bisect import (
    bisect_right,
)
from collections import (
    Counter,
)
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
)

from actorlib._core.actor_options import (
    LOOPED_LIMIT,
)

if TYPE_CHECKING:
    from collections.abc import (
        Iterable,
        Mapping,
    )

    from actorlib._core.actor_options import (
        ActorOptions,
    )
    from actorlib._core.interface import (
        Interface,
    )
    from actorlib._core.snapshot import (
        CallState,
    )


MAIN_THREAD = "the main thread"


class UnderWay(NamedTuple):
    """A call without an answer.

    Attributes:
        number: Its number in its actor; 0 where it has none yet.
        method: The name of the method.
        state: Where it is; ``sent`` if it is in the worker.
        reply: Who wants the answer.
        told: What was said of it besides its arguments.
        since: When it was made, by the clock of the loop; None if that is unknown.
        gives_way: Whether it lets others run, as a stream does whose reader is behind.
    """

    number: int
    method: str
    state: CallState
    reply: Any
    told: Mapping[str, Any] | None
    since: float | None
    gives_way: bool = False


def with_states(
    calls: Iterable[UnderWay],
    face: Interface,
    options: ActorOptions,
    *,
    is_busy: bool = False,
) -> list[UnderWay]:
    """The same calls; of those in the worker it is told which run.

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
    found: list[UnderWay] = []
    for call in calls:
        if call.state != "sent":
            found.append(call)
            continue
        places = _places(call, face, groups, limits)
        runs = all(taken[place] < limit for place, limit in places)
        if runs and not call.gives_way:
            taken.update(place for place, _ in places)
        found.append(call._replace(state="running" if runs else "queued"))
    return found


def _places(
    call: UnderWay,
    face: Interface,
    groups: Mapping[str, str],
    limits: Mapping[str, int],
) -> list[tuple[str, int]]:
    """What a call needs to run: its places, each with how many there are."""
    group = (call.told or {}).get("group") or groups.get(call.method, "")
    method = face.methods.get(call.method)
    is_async = method is not None and method.is_async
    places: list[tuple[str, int]] = []
    if limits:
        places.append((f"group {group}", limits[group]))
    elif is_async:
        places.append(("group ", LOOPED_LIMIT))
    if not is_async and (not limits or (face.is_async and not group)):
        places.append((MAIN_THREAD, 1))
    return places


_CLOSE = 0.05
_FEW = 32
_MOST = 256


class Marks:
    """Says when numbers were given that go up by one; see above."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._times: list[float] = []
        self._close = _CLOSE

    def __len__(self) -> int:
        """How many marks are kept."""
        return len(self._firsts)

    def mark(self, first: int, now: float, oldest: int) -> float:
        """A number is given now, and all lower ones were given before.

        Args:
            first: The number.
            now: The time, in seconds.
            oldest: The least number that is asked for from now on.

        Returns:
            When the next mark is due: none has to be set before.
        """
        over = bisect_right(self._firsts, oldest) - 1
        if over > 0:
            del self._firsts[:over], self._times[:over]
        self._firsts.append(first)
        self._times.append(now)
        if len(self._firsts) > _MOST:
            # Something is very old, and so its age may be coarser. The last mark stays.
            self._firsts, self._times = self._firsts[::2], self._times[::2]
            self._close = (now - self._times[0]) / (_MOST // 2)
        elif len(self._firsts) < _FEW:
            self._close = _CLOSE
        return now + self._close

    def when(self, number: int) -> float | None:
        """When a number was given, at most a twentieth of a second too early.

        Coarser if others have been given for long. None if nothing was marked yet.
        """
        place = bisect_right(self._firsts, number) - 1
        return self._times[place] if place >= 0 else None
