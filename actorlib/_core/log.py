"""Warnings of the owner's that belong to no call."""

from __future__ import annotations

import logging
from contextvars import Context

_log = logging.getLogger("actorlib")


def warn(message: str, *args: object) -> None:
    """Logs a warning in an empty context.

    The task that logs it was started by some earlier call, and has that call's context.
    A notebook asks the context which cell a message belongs to; with an empty one it
    shows the message in the cell that runs now.

    Args:
        message: With ``%s`` for each argument.
        *args: The arguments.

    Raises:
        Exception: What a handler of the user's raised.
    """
    Context().run(_warn, message, args)


def _warn(message: str, args: tuple[object, ...]) -> None:
    _log.warning(message, *args, stacklevel=3)
