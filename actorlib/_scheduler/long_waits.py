"""Logs once who has waited for a lease for long, and who holds what it needs.

An actor that waits looks like one that hangs, and nothing else tells them apart. There
is one timer for all of a runtime, and it is set only while somebody waits. Requests of
one shape are reported together, and not again while the first of them waits.
"""

from __future__ import annotations

import builtins
import sys
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._core.log import warn

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Hashable, Sequence

    from actorlib.accelerators.base import Lease

LONG = 5.0
"""Seconds in the queue after which a wait is reported."""


class _Wait(NamedTuple):
    """A wait for a lease.

    Attributes:
        due: When it is to be reported.
        pending: The lease.
        shape: Equal for requests that are reported together.
        explain: Says why it waits; None if that is nothing to speak of.
    """

    due: float
    pending: asyncio.Future[Lease]
    shape: Hashable
    explain: Callable[[], str | None]


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
    ) -> None:
        """Adds a request that waits from now on.

        Args:
            pending: The lease that it waits for.
            shape: Equal for requests that are reported together.
            explain: Says why it waits; None if that is nothing to speak of.
        """
        due = self._loop.time() + LONG
        self._waiting.append(_Wait(due, pending, shape, explain))
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._report_due)

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
            self._timer = self._loop.call_at(waiting[0].due, self._report_due)
        for shape, each in alike.items():
            self._report(shape, each)

    def _report(self, shape: Hashable, waiting: Sequence[_Wait]) -> None:
        reason = waiting[0].explain()
        if reason is None:
            return
        self._reported[shape] = waiting[0].pending
        more = (
            f", as have {len(waiting) - 1} more that ask the same"
            if waiting[1:]
            else ""
        )
        with suppress(Exception):  # a handler of the user's may raise
            warn(
                "%s. It has waited in line for %g s%s; runtime.explain() and "
                "runtime.snapshot() say more",
                reason.rstrip("."),
                LONG,
                more,
            )


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
