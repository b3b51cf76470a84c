"""What the owner logs that nobody has just asked for."""

from __future__ import annotations

import logging
from contextvars import Context

_log = logging.getLogger("actorlib")


def warn(message: str, *args: object) -> None:
    """Logs a warning in no context of the user's.

    What runs here was started by some call of long ago, and the end that it tells of is
    not that one's: a notebook asks the context which cell a message belongs to, and
    without one shows it in the cell that runs.

    Args:
        message: With ``%s`` for each argument.
        *args: Those.

    Raises:
        Exception: What a handler of the user's raised.
    """
    Context().run(_warn, message, args)


def _warn(message: str, args: tuple[object, ...]) -> None:
    _log.warning(message, *args, stacklevel=3)
