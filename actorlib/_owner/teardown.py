"""Runs all steps of an end, even if some raise."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

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
