"""The steps of an end: each of them is done, whatever the others raise.

A worker that is gone is the end that most have a part in: whoever keeps something for
each worker subscribes once, and says in which phase.
"""

from __future__ import annotations

import enum
import logging
from bisect import insort
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._owner.worker_session import WorkerSession

_log = logging.getLogger("actorlib")


def tear_down(whose: object, *steps: Callable[[], object]) -> None:
    """Takes every step of an end.

    What ends holds a share of the machine, answers that others wait for, and memory.
    One step that fails must keep nobody from what the next would have given back, so
    what it raised is logged as our bug and the rest is done all the same.

    Args:
        whose: What ends, for the log.
        *steps: What has to be done, in order.

    Raises:
        BaseException: The first that is no Exception, when all is done: somebody wants
            the program to end.
    """
    stopping: BaseException | None = None
    for step in steps:
        try:
            step()
        except Exception:  # noqa: BLE001  # around a life
            _log.exception("a step of the end of %r failed: a bug in actorlib", whose)
        except BaseException as error:  # noqa: BLE001  # raised below
            stopping = stopping or error
    if stopping is not None:
        raise stopping


class Phase(enum.IntEnum):
    """The order in which what was kept for a worker is let go of."""

    ROUTES = 1
    """Nothing is sent to it any more, and nothing is known to run there."""
    ANSWERS = 2
    """Whoever waits for what it has not given is told that this will never come."""
    REFERENCES = 3
    """What it held is given back: what nobody else holds ends. Behind the answers, as
    those keep what is in them."""
    EVIDENCE = 4
    """What it has written of its own end is read, before its memory is gone."""
    MEMORY = 5
    """Shared memory that it made is forgotten, as soon as nobody holds any of it."""
    CHILDREN = 6
    """The actors and groups that it made end with it. Last: ends of others begin."""


class WorkersGone:
    """Tells everybody who keeps something for a worker that the worker is gone."""

    def __init__(self) -> None:
        self._subscribed: list[tuple[Phase, Callable[[WorkerSession], object]]] = []

    def subscribe(
        self, phase: Phase, on_worker_gone: Callable[[WorkerSession], object]
    ) -> None:
        """Has somebody told of each worker that is gone, from now on.

        Args:
            phase: When among all others; in one phase the first to subscribe is first.
            on_worker_gone: Forgets what was kept for a worker.
        """
        insort(self._subscribed, (phase, on_worker_gone), key=itemgetter(0))

    def tell(self, session: WorkerSession) -> None:
        """Tells all of them, whatever some raise; see ``tear_down``."""
        steps = (partial(forget, session) for _, forget in self._subscribed)
        tear_down(session, *steps)
