"""The steps of an end: each of them is done, whatever the others raise.

A worker that is gone is the end that most have a part in: whoever begins to keep
something for a worker adds a step to its cleanup, and says in which phase. So the end
of a worker costs no more than what was kept for it.
"""

from __future__ import annotations

import enum
import logging
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


T = TypeVar("T")

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
        except Exception:  # noqa: BLE001  # around a step of an end
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
    ACTORS = 6
    """The actors that it made end with it. Late: ends of others begin."""
    GROUPS = 7
    """The placement groups that it made are removed. Last: they evict actors."""


class Cleanup(Generic[T]):
    """Lets go of what was kept for a worker, when the worker is gone.

    Args:
        always: What is done at the end of every worker, and when.
    """

    __slots__ = ("_phases",)

    def __init__(self, always: Mapping[Callable[[T], object], Phase]) -> None:
        self._phases = dict(always)

    def add(self, phase: Phase, step: Callable[[T], object]) -> None:
        """Has a step taken, once however often it is added.

        Args:
            phase: When among all others; in one phase the first to be added is first.
            step: Lets go of what is kept for a worker.
        """
        self._phases[step] = phase

    def run(self, session: T) -> None:
        """Takes all steps, whatever some raise; see ``tear_down``."""
        steps = sorted(self._phases, key=self._phases.__getitem__)
        tear_down(session, *(partial(step, session) for step in steps))
