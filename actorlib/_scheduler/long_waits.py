"""Logs once who has waited for a lease for long, and who holds what it needs.

An actor that waits looks like one that hangs, and nothing else tells them apart. There
is one timer for all of a runtime, and it is set only while something waits. All waits
that become due at about the same time are one record of the log, with one reason for
the requests of one shape.
"""

from __future__ import annotations

import builtins
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._base.log import warn
from actorlib._scheduler.device_pool import LISTED, listed

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Hashable, Sequence

    from actorlib.accelerators.base import Lease

LONG = 5.0
"""Seconds in the queue after which a wait is reported."""
GATHERED = 0.5
"""Seconds that a report waits for those that become due after it.

A thousand actors that are created in a loop, a tenth of a millisecond each, are one.
"""


class _Wait(NamedTuple):
    """A wait for a lease.

    Attributes:
        due: When it is to be reported.
        pending: The lease.
        shape: Equal for requests that are reported together.
        explain: Says why it waits; None if that is nothing to speak of.
        name: Names what waits.
        is_one_of_many: Whether it is not reported while another of its shape waits that
            was.
    """

    due: float
    pending: asyncio.Future[Lease]
    shape: Hashable
    explain: Callable[[], str | None]
    name: str
    is_one_of_many: bool


@final
class LongWaits:
    """Reports the long waits of one runtime.

    Args:
        loop: The owner's loop.
    """

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
        """Adds a request that waits from now on.

        Args:
            pending: The lease that it waits for.
            shape: Equal for requests that are reported together.
            explain: Says why it waits; None if that is nothing to speak of.
            name: Names what waits.
            is_one_of_many: Whether it is not reported while another of its shape waits
                that was.
        """
        due = self._loop.time() + LONG
        wait = _Wait(due, pending, shape, explain, name, is_one_of_many)
        self._waiting.append(wait)
        if self._timer is None:
            self._timer = self._loop.call_at(due + GATHERED, self._report_due)

    def close(self) -> None:
        """Reports nothing any more."""
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
            with suppress(Exception):  # a handler of the user's may raise
                warn(
                    "%s; runtime.explain() and runtime.snapshot() say more",
                    "\n".join(lines),
                )


def _line(reason: str, names: Sequence[str]) -> str:
    who = "They ask the same, and have" if names[1:] else "It has"
    line = f"{reason}. {who} waited in line for {LONG:g} s"
    if not names[1:] and reason.startswith(f"{names[0]} "):
        return line
    return f"{line}: {listed(names, len(names))}"


def shell_hint() -> str:
    """Says what keeps handles that nobody seems to hold in a shell; else is empty.

    A notebook keeps what each cell has shown, and a shell what was shown last.
    """
    if not (hasattr(sys, "ps1") or hasattr(builtins, "__IPYTHON__")):
        return ""
    return (
        " (a notebook keeps handles that cells have shown, as Out[2] and _: "
        "`await actorlib.kill(handle)` frees what an old one holds)"
    )
