"""Runs all steps of an end, even if some raise.

Most modules take part in the end of a worker. A module that begins to keep something
for a worker adds a step to the worker's cleanup, with its phase. So the end of a worker
costs only the steps that are necessary.
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


def tear_down(subject: object, *steps: Callable[[], object]) -> None:
    """Runs every step of an end.

    The steps give back a share of the machine, answers that others wait for, and
    memory. A step that fails must not prevent the next ones: its error is logged as our
    bug.

    Args:
        subject: The object that ends, for the log.
        *steps: The steps, in order.

    Raises:
        BaseException: The first that is not an Exception, after all steps: the program
            has to end.
    """
    stopping: BaseException | None = None
    for step in steps:
        try:
            step()
        except Exception:  # noqa: BLE001  # around a step of an end
            _log.exception("a step of the end of %r failed: a bug in actorlib", subject)
        except BaseException as error:  # noqa: BLE001  # raised below
            stopping = stopping or error
    if stopping is not None:
        raise stopping


class Phase(enum.IntEnum):
    """The order of the steps of a worker's cleanup."""

    ROUTES = 1
    """Nothing more is sent to the worker, and no call counts as running there."""
    ANSWERS = 2
    """Callers that wait for the worker's answers get an error."""
    REFERENCES = 3
    """The worker's references are released. After the answers, which keep the objects
    in them alive."""
    EVIDENCE = 4
    """Traces of the end in the worker's memory are read, before it is released."""
    MEMORY = 5
    """The worker's shared memory is forgotten when no process uses any of it."""
    ACTORS = 6
    """The actors that it has created end with it. Late, as other ends begin."""
    GROUPS = 7
    """The placement groups that it has created are removed. Last: they end actors."""


class Cleanup(Generic[T]):
    """Runs the cleanup steps of a worker when it has ended.

    Args:
        always: The steps of every worker, with their phases.
    """

    __slots__ = ("_phases",)

    def __init__(self, always: Mapping[Callable[[T], object], Phase]) -> None:
        self._phases = dict(always)

    def add(self, phase: Phase, step: Callable[[T], object]) -> None:
        """Adds a step; it runs once even if it is added several times.

        Args:
            phase: The phase; in one phase steps run in the order in which they were
                added.
            step: Gets the session of the worker.
        """
        self._phases[step] = phase

    def run(self, session: T) -> None:
        """Runs all steps; see ``tear_down``."""
        steps = sorted(self._phases, key=self._phases.__getitem__)
        tear_down(session, *(partial(step, session) for step in steps))
