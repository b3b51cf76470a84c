"""Samples a runtime while a page is open.

There is no background task: the first client that waits for the next sample takes it
when it is due, and all clients get the same. So there is one query for all pages, and
none without a page. Samples that take the runtime long are taken less often.
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
    count_calls,
    describe_status,
)
from actorlib.exceptions import RuntimeUnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._queries.processes import Usage
    from actorlib._queries.protocol import Answer
    from actorlib._queries.rows import ActorStatus, Status
    from actorlib._web.looks import Point, Shown

_INTERVAL = 1.0
"""Seconds between two samples."""
_EASE = 20
"""The least interval between samples, in multiples of the time for one."""
_PATIENCE = 1.0


class Ask(Protocol):
    """Sends queries to a runtime: over its socket, or from a thread of its process."""

    def __call__(
        self, verb: str, /, *, patience: float = ..., **options: Any
    ) -> Answer:
        """Sends a query; blocks until the answer."""
        ...


class Sample(NamedTuple):
    """A sample: its number, from 1, and the content of the page.

    ``text`` is the content in JSON, encoded once for all clients.
    """

    number: int
    content: Shown | Blocked | Gone | None
    text: str


@final
class Watch:
    """Samples one runtime.

    Attributes:
        latest: The latest sample.
        known: The content of the latest sample that the runtime has answered, or None.
        points: The points of the curves, the latest last.
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
        self._sampling = asyncio.Lock()
        self._over = asyncio.Event()
        self._rates = Rates()
        self._due = 0.0
        self.latest = Sample(0, None, "{}")
        self.known: Shown | None = None
        self.points: deque[Point] = deque(maxlen=POINTS)

    async def after(self, number: int) -> Sample | None:
        """Waits for the sample after the one of a number; returns None at the end."""
        async with self._sampling:
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
            answer, usages = await asyncio.to_thread(self._query)
            took = time.monotonic() - began
            self._due = began + max(self._interval, _EASE * took)
            content = self._content_of(answer, usages)
            text = in_json(PAGE.encode(content))
            self.latest = Sample(self.latest.number + 1, content, text)
            return self.latest

    def close(self) -> None:
        """Ends all waits; called on the loop of the server."""
        self._over.set()

    @property
    def own_pid(self) -> int:
        """The process of the program; 0 before the first sample."""
        return self.known.status.pid if self.known else 0

    def actor(self, actor: str) -> ActorStatus | None:
        """Returns the row of an actor in the latest sample."""
        rows = self.known.actors if self.known else ()
        return next((row for row in rows if row.actor_id == actor), None)

    def _query(self) -> tuple[Answer | str, dict[int, Usage]]:
        """Queries the runtime, and the system about its processes; in a thread."""
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

    def _content_of(
        self, answer: Answer | str, usages: dict[int, Usage]
    ) -> Shown | Blocked | Gone:
        at = self._clock()
        if isinstance(answer, str):
            return Gone(at=at, reason=answer)
        if answer.outcome == BLOCKED:
            return Blocked(at=at, standstill=answer.value)
        if self._rates.add(count_calls(answer.value, usages, at)):
            self.points.clear()
        self.known = describe_status(answer.value, usages, self._rates, at)
        self.points.append(self.known.point)
        return self.known


def in_json(content: object) -> str:
    """Encodes content of the page in compact JSON."""
    return json.dumps(content, separators=(",", ":"))
