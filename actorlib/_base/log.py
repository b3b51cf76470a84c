"""Logs messages of the owner that do not belong to a call, and checks log levels."""

from __future__ import annotations

import logging
from contextlib import suppress
from contextvars import Context

from actorlib._base.validation import wrong_type

_log = logging.getLogger("actorlib")


def warn(message: str, *args: object) -> None:
    """Logs a warning in an empty context.

    The task that logs it was started by an earlier call, and has that call's context. A
    notebook reads the context to find the cell of a message. With an empty context it
    shows the message in the cell that runs now.

    Raises:
        Exception: A handler of the user has raised it.
    """
    Context().run(_log_message, logging.WARNING, message, args)


def tell(level: int, message: str, *args: object) -> None:
    """Logs a message as ``warn`` does, of any level; ignores what handlers raise.

    A caller that has to format a text first checks whether the logger has that level
    enabled.
    """
    with suppress(Exception):  # a handler of the user may raise
        Context().run(_log_message, level, message, args)


def _log_message(level: int, message: str, args: tuple[object, ...]) -> None:
    _log.log(level, message, *args, stacklevel=3)


def checked_level(value: object, name: str = "log_level") -> int:
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
        raise wrong_type(
            f"{name} takes a level of logging, for example 'INFO' or 20", value
        )
    if not 0 <= value < 1 << 31:
        raise ValueError(f"{name} takes a number of 0 or more, not {value}")
    return value
