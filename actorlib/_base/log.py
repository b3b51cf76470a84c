"""What the owner logs, which belongs to no call, and the levels of logging."""

from __future__ import annotations

import logging
from contextlib import suppress
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
    Context().run(_tell, logging.WARNING, message, args)


def tell(level: int, message: str, *args: object) -> None:
    """Logs something that is no warning, likewise in an empty context.

    Args:
        level: ``logging.INFO`` or ``logging.DEBUG``. Whoever has to make a text for
            this asks first whether the logger has that level on.
        message: With ``%s`` for each argument.
        *args: The arguments.
    """
    with suppress(Exception):  # a handler of the user's may raise
        Context().run(_tell, level, message, args)


def _tell(level: int, message: str, args: tuple[object, ...]) -> None:
    _log.log(level, message, *args, stacklevel=3)


def checked_level(value: object, name: str = "log_level") -> int:
    """Gives the number of a level of ``logging`` that was written.

    Args:
        value: What was written: its name, or a number.
        name: What it is called where it was written.

    Raises:
        TypeError: It is neither a number nor a word.
        ValueError: There is no such level.
    """
    if isinstance(value, str):
        levels = logging.getLevelNamesMapping()
        level = levels.get(value, levels.get(value.upper()))
        if level is None:
            raise ValueError(
                f"{name} takes one of {', '.join(map(repr, levels))}, or a number, "
                f"not {value!r}"
            )
        return level
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"{name} takes a level of logging, for example 'INFO' or 20, not "
            f"{value!r} ({type(value).__name__})"
        )
    if not 0 <= value < 1 << 31:
        raise ValueError(f"{name} takes a number of 0 or more, not {value}")
    return value
