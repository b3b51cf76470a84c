"""Looks at a runtime for as long as somebody watches, and at no other time.

There is no task that looks: whoever waits for the next look takes it, once it is due,
and all others get the same. So a runtime is asked once, however many watch, and never
while nobody does. A look that keeps the runtime busy is taken less often.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, final

from actorlib._queries import processes
from actorlib._queries.protocol import BLOCKED
from actorlib._web.looks import (
    PAGE,
    POINTS,
    Blocked,
    Gone,
    Rates,
    counted,
    described,
)
from actorlib.exceptions import RuntimeUnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._queries.processes import Usage
    from actorlib._queries.protocol import Answer
    from actorlib._queries.rows import ActorStatus, Status
    from actorlib._web.looks import Point, Shown

_INTERVAL = 1.0
"""Seconds between two looks."""
_EASE = 20
"""A look that takes so long is repeated after so many times as long."""
_PATIENCE = 1.0


class Ask(Protocol):
    """Asks a runtime: over its socket, or from a thread of its own process."""

    def __call__(
        self, verb: str, /, *, patience: float = ..., **options: Any
    ) -> Answer:
        """Asks; blocks until the answer is there."""
        ...


class Look(NamedTuple):
    """What was seen.

    Attributes:
        number: Counts looks, from 1.
        shown: What the page shows.
        text: The same in JSON, written once for all who watch.
    """

    number: int
    shown: Shown | Blocked | Gone | None
    text: str


@final
class Watch:
    """Looks at one runtime.

    Args:
        ask: Asks it.
        usage: Says what a process uses.
        clock: Says the time, in seconds since the epoch.
        interval: Seconds between two looks.

    Attributes:
        latest: The last look.
        known: What it showed, or what the last one did at which the runtime answered;
            None before that.
        points: What the curves show, the latest look last.
    """

    def __init__(
        self,
        ask: Ask,
        *,
        usage: Callable[[int], Usage | None] = processes.usage,
        clock: Callable[[], float] = time.time,
        interval: float = _INTERVAL,
    ) -> None:
        self._ask = ask
        self._usage = usage
        self._clock = clock
        self._interval = interval
        self._looking = asyncio.Lock()
        self._over = asyncio.Event()
        self._rates = Rates()
        self._due = 0.0
        self.latest = Look(0, None, "{}")
        self.known: Shown | None = None
        self.points: deque[Point] = deque(maxlen=POINTS)

    async def after(self, number: int) -> Look | None:
        """Waits for a look that is later than one; gives None if there will be none.

        Args:
            number: That of the look that was seen last; 0 for none.
        """
        async with self._looking:
            now = time.monotonic()
            is_new = self.latest.number > number
            if is_new and (number or now < self._due):
                return self.latest
            with suppress(TimeoutError):
                async with asyncio.timeout(self._due - now):
                    await self._over.wait()
            if self._over.is_set():
                return None
            began = time.monotonic()
            told = await asyncio.to_thread(self._told)
            took = time.monotonic() - began
            self._due = began + max(self._interval, _EASE * took)
            shown = self._shown(*told)
            text = in_json(PAGE.encode(shown))
            self.latest = Look(self.latest.number + 1, shown, text)
            return self.latest

    def close(self) -> None:
        """Lets those go who wait; called on the loop that serves them."""
        self._over.set()

    @property
    def own_pid(self) -> int:
        """The process of the program; 0 before it was seen."""
        return self.known.status.pid if self.known else 0

    def actor(self, actor: str) -> ActorStatus | None:
        """What was seen of an actor when the runtime told of it last."""
        rows = self.known.actors if self.known else ()
        return next((row for row in rows if row.actor_id == actor), None)

    def _told(self) -> tuple[Answer | str, dict[int, Usage]]:
        """Asks the runtime, and the system about its processes; in a thread."""
        try:
            answer = self._ask("status", patience=_PATIENCE, dead=True)
        except (RuntimeUnreachableError, ValueError) as error:
            return str(error), {}
        usages: dict[int, Usage] = {}
        if answer.outcome != BLOCKED:
            status: Status = answer.value
            living = (one for one in status.snapshot.actors if one.state != "dead")
            for pid in {status.pid, *filter(None, (actor.pid for actor in living))}:
                with suppress(OSError):
                    usage = self._usage(pid)
                    if usage is not None:
                        usages[pid] = usage
        return answer, usages

    def _shown(
        self, answer: Answer | str, usages: dict[int, Usage]
    ) -> Shown | Blocked | Gone:
        at = self._clock()
        if isinstance(answer, str):
            return Gone(at=at, reason=answer)
        if answer.outcome == BLOCKED:
            return Blocked(at=at, standstill=answer.value)
        if self._rates.add(counted(answer.value, usages, at)):
            self.points.clear()
        self.known = described(answer.value, usages, self._rates, at)
        self.points.append(self.known.point)
        return self.known


def in_json(shown: object) -> str:
    """Writes what the page shows, in as few bytes as JSON takes."""
    return json.dumps(shown, separators=(",", ":"))
