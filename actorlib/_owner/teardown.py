"""The steps of an end: each of them is done, whatever the others raise."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

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
