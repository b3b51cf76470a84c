"""Says in the log, once, who has waited for a share for long, and who has it.

An actor that waits looks like one that hangs, and nothing else tells them apart. There
is one timer for all of a runtime, and it is set only while somebody waits. Those who
ask for the same are told of together, and not again while the first of them waits.
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
"""Seconds in line after which it is said."""


class _Wait(NamedTuple):
    """A place in line.

    Attributes:
        due: When it is to be told of.
        promise: What is waited for.
        kind: What those have in common who ask for the same.
        tell: Says why it waits; None if that is nothing to speak of.
    """

    due: float
    promise: asyncio.Future[Lease]
    kind: Hashable
    tell: Callable[[], str | None]


@final
class LongWaits:
    """Those who wait for a share in one runtime.

    Args:
        loop: The owner's loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waits: deque[_Wait] = deque()
        self._told: dict[Hashable, asyncio.Future[Lease]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(
        self,
        promise: asyncio.Future[Lease],
        kind: Hashable,
        tell: Callable[[], str | None],
    ) -> None:
        """Somebody stands in line.

        Args:
            promise: What is waited for.
            kind: What those have in common who ask for the same.
            tell: Says why it waits; None if that is nothing to speak of.
        """
        due = self._loop.time() + LONG
        self._waits.append(_Wait(due, promise, kind, tell))
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._look)

    def close(self) -> None:
        """Says nothing any more."""
        self._waits.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        now, waits = self._loop.time(), self._waits
        self._told = {k: first for k, first in self._told.items() if not first.done()}
        alike: dict[Hashable, list[_Wait]] = {}
        while waits and (waits[0].promise.done() or waits[0].due <= now):
            wait = waits.popleft()
            if not (wait.promise.done() or wait.kind in self._told):
                alike.setdefault(wait.kind, []).append(wait)
        if waits:
            self._timer = self._loop.call_at(waits[0].due, self._look)
        for kind, each in alike.items():
            self._say(kind, each)

    def _say(self, kind: Hashable, waits: Sequence[_Wait]) -> None:
        reason = waits[0].tell()
        if reason is None:
            return
        self._told[kind] = waits[0].promise
        more = f", as have {len(waits) - 1} more that ask the same" if waits[1:] else ""
        with suppress(Exception):  # a handler of the user's may raise
            warn(
                "%s. It has waited in line for %g s%s; runtime.explain() and "
                "runtime.snapshot() say more",
                reason.rstrip("."),
                LONG,
                more,
            )


def kept_by_shell() -> str:
    """What keeps handles that nobody seems to hold, where code is typed in; or nothing.

    A notebook keeps what each cell has shown, and a shell what was shown last.
    """
    if not (hasattr(sys, "ps1") or hasattr(builtins, "__IPYTHON__")):
        return ""
    return (
        " (a notebook keeps handles that cells have shown, as Out[2] and _: "
        "`await actorlib.kill(handle)` frees what an old one holds)"
    )
