"""Logs each long wait for a lease once, with the holders of the missing resources.

Without this log, a waiting actor looks like one that hangs. A runtime has one timer,
which is set only while a request waits. All waits that become due at about the same
time are one record of the log, with one reason for the requests of one shape.
"""

from __future__ import annotations

import builtins
import logging
import sys
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._base.log import tell
from actorlib._scheduler.device_pool import LISTED, listed

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Hashable, Sequence

    from actorlib.accelerators.base import Lease

LONG = 5.0
"""Seconds in the queue after which a wait is reported."""
GATHERED = 0.5
"""Seconds that a report waits for further waits that become due.

So a thousand actors that are created in a loop, in a tenth of a millisecond each, are
one report.
"""


class _Wait(NamedTuple):
    """A wait for a lease.

    Attributes:
        due: The time of its report.
        pending: The lease.
        shape: Equal for requests that are reported together.
        explain: Returns the reason of the wait; None if it needs no report.
        name: The name of the waiting actor, function or group.
        is_one_of_many: Whether it is not reported while another reported request of its
            shape waits.
    """

    due: float
    pending: asyncio.Future[Lease]
    shape: Hashable
    explain: Callable[[], str | None]
    name: str
    is_one_of_many: bool


@final
class LongWaits:
    """Reports the long waits of one runtime."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[_Wait] = deque()
        self._reported: dict[Hashable, asyncio.Future[Lease]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(
        self,
        pending: asyncio.Future[Lease],
        shape: Hashable,
        explain: Callable[[], str | None],
        name: str,
        *,
        is_one_of_many: bool = False,
    ) -> None:
        """Adds a request that waits from now on; see ``_Wait`` for the arguments."""
        due = self._loop.time() + LONG
        wait = _Wait(due, pending, shape, explain, name, is_one_of_many)
        self._waiting.append(wait)
        if self._timer is None:
            self._timer = self._loop.call_at(due + GATHERED, self._report_due)

    def close(self) -> None:
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _report_due(self) -> None:
        self._timer = None
        now, waiting = self._loop.time(), self._waiting
        self._reported = {
            k: first for k, first in self._reported.items() if not first.done()
        }
        alike: dict[Hashable, list[_Wait]] = {}
        while waiting and (waiting[0].pending.done() or waiting[0].due <= now):
            wait = waiting.popleft()
            if not (wait.pending.done() or wait.shape in self._reported):
                alike.setdefault(wait.shape, []).append(wait)
        if waiting:
            due = waiting[0].due + GATHERED
            self._timer = self._loop.call_at(due, self._report_due)
        self._report([*alike.values()])

    def _report(self, alike: Sequence[Sequence[_Wait]]) -> None:
        lines: list[str] = []
        others: list[str] = []
        for first, *more in alike:
            names = [first.name, *(wait.name for wait in more)]
            if len(lines) >= LISTED and not first.is_one_of_many:
                others += names
                continue
            reason = first.explain()
            if reason is None:
                continue
            if first.is_one_of_many:
                names = names[:1]
                self._reported[first.shape] = first.pending
            lines.append(_line(reason.rstrip("."), names))
        if others:
            lines.append(f"These have waited as long: {listed(others, len(others))}")
        if lines:
            tell(
                logging.WARNING,
                "%s; runtime.explain() and runtime.snapshot() say more",
                "\n".join(lines),
            )


def _line(reason: str, names: Sequence[str]) -> str:
    subject = "They ask for the same, and have" if names[1:] else "It has"
    line = f"{reason}. {subject} waited for {LONG:g} s"
    if not names[1:] and reason.startswith(f"{names[0]} "):
        return line
    return f"{line}: {listed(names, len(names))}"


def shell_hint() -> str:
    """Returns a hint on hidden handles in a notebook or shell; otherwise "".

    A notebook keeps the output of each cell, and a shell the last output.
    """
    if not (hasattr(sys, "ps1") or hasattr(builtins, "__IPYTHON__")):
        return ""
    return (
        " (a notebook keeps handles that cells have shown, as Out[2] and _: "
        "`await actorlib.kill(handle)` frees what an old one holds)"
    )
