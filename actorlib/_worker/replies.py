"""What a method returned or raised becomes a frame that always arrives.

A value that cannot be sent is the method's failure and nobody else's; an exception
that cannot be sent arrives as its text.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from actorlib._engine import collecting
from actorlib._wire.frames import CANCELLED, FAILURE, RAISED, RESULT, Frame
from actorlib._wire.payload import decode, encode

if TYPE_CHECKING:
    from actorlib._engine import ActorId, Engine
    from actorlib._wire.frames import Payload

_SIMPLE = frozenset({type(None), bool, int, float})


def result(engine: Engine, call: int, value: object, where: str) -> Frame:
    """The answer with a method's value, or with why it cannot be sent."""
    if type(value) in _SIMPLE:
        try:
            return (RESULT, call, None, encode(value))
        except OverflowError:  # pragma: no cover  # encode() has a way around it
            pass
    try:
        payload, loans = _encoded(engine, value)
    except Exception as error:  # noqa: BLE001  # pickling runs the user's code
        trouble = TypeError(
            f"{where} returned a {type(value).__qualname__}, which cannot be sent to "
            f"another process: {error}"
        )
        trouble.__cause__ = error
        return failure(engine, call, trouble, where)
    return (RESULT, call, loans, payload)


def failure(engine: Engine, call: int, error: BaseException, where: str) -> Frame:
    """The answer with what a method raised."""
    text = "".join(traceback.format_exception(error))
    try:
        payload, loans = _encoded(engine, error)
        # Exceptions with a constructor of their own often pickle and then do not load.
        decode(payload)
    except Exception:  # noqa: BLE001  # the user's class
        payload, loans = b"", None
    summary = "".join(traceback.format_exception_only(error)).strip()
    return (FAILURE, call, RAISED, summary, text, where, loans, payload)


def cancelled(call: int) -> Frame:
    """The answer of a call that was cancelled while it ran."""
    return (FAILURE, call, CANCELLED, "", "", "", None, b"")


def _encoded(engine: Engine, value: object) -> tuple[Payload, list[ActorId] | None]:
    with collecting(engine) as loans:
        return encode(value), loans or None
