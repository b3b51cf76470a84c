"""An answer that crossed a process: what arrived is given or raised as it was meant.

The user's exception arrives as an instance of its own class and of ``TaskError``, by
a class made for the two. Where that cannot be (the class forbids it, or its module is
not here), a plain ``TaskError`` carries it.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, cast

from actorlib._wire.frames import CANCELLED, DIED, RESULT
from actorlib._wire.payload import decode
from actorlib.exceptions import (
    RemoteTraceback,
    SerializationError,
    TaskCancelledError,
    TaskError,
)

if TYPE_CHECKING:
    import asyncio

    from actorlib._wire.frames import Frame, Payload


def fill(reply: asyncio.Future[Any], frame: Frame) -> None:
    """Gives a future the value or the error of the frame that answers it."""
    if frame[0] != RESULT:
        _, _, kind, summary, text, where, _, payload = frame
        reply.set_exception(error_of(kind, summary, text, where, payload))
        return
    try:
        value = decode(frame[3])
    except Exception as error:  # noqa: BLE001  # loading runs the user's code
        trouble = SerializationError(f"the result cannot be loaded here: {error}")
        trouble.__cause__ = error
        reply.set_exception(trouble)
    else:
        reply.set_result(value)


def remake(
    cls: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]
) -> BaseException:
    """An exception from its parts, without its constructor."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


def error_of(
    kind: int, summary: str, text: str, where: str, payload: Payload
) -> BaseException:
    """The exception that a FAILURE frame stands for.

    Args:
        kind: RAISED, DIED or CANCELLED.
        summary: The last line of the traceback.
        text: The traceback.
        where: Which method of which actor.
        payload: The pickled exception, or empty if it could not be pickled.
    """
    if kind == CANCELLED:
        return TaskCancelledError("the call was cancelled")
    try:
        cause = cast("BaseException | None", decode(payload) if payload else None)
    except Exception:  # noqa: BLE001  # loading runs the user's code, and its module may be missing here
        cause = None
    if kind == DIED and cause is not None:
        return cause
    return task_error(cause, summary, text, where)


def task_error(
    cause: BaseException | None, summary: str, text: str, where: str
) -> TaskError:
    """A TaskError that is an instance of the cause's class too, if that can be."""
    error = _like(cause) if cause is not None else None
    if error is None:
        error = TaskError(f"{where} raised {summary}")
    error.cause = cause
    error.traceback_str = text
    error.where = where
    error.__cause__ = RemoteTraceback(f"In {where}:\n{text}")
    return error


def _like(cause: BaseException) -> TaskError | None:
    if isinstance(cause, TaskError):
        # It crossed a process before: raised again it needs no second class.
        cls = type(cause)
    else:
        try:
            cls = _dual_class(type(cause))  # type: ignore[arg-type]  # classes are hashable
        except TypeError:  # the class forbids subclasses, or its layout does
            return None
    try:
        error = cls.__new__(cls, *cause.args)
        _state_of_builtin(cause)(error, *cause.args)
        error.args = cause.args
        error.__dict__.update(cause.__dict__)
    except Exception:  # noqa: BLE001  # the user's class: its state is its own business
        return None
    return error


@functools.cache
def _dual_class(cls: type[BaseException]) -> type[TaskError]:
    if issubclass(cls, StopIteration):
        # A future refuses it: in a coroutine it would mean the end of that coroutine.
        raise TypeError("StopIteration cannot be raised by a future")

    def reduce(self: TaskError) -> tuple[object, ...]:
        summary = f"{cls.__name__}: {self}"
        return task_error, (self.cause, summary, self.traceback_str, self.where)

    return type(
        f"TaskError({cls.__name__})",
        (TaskError, cls),
        {
            "__module__": cls.__module__,
            "__reduce__": reduce,
            "__init__": cls.__init__,
            "__str__": cls.__str__,
        },
    )


def _state_of_builtin(cause: BaseException) -> Any:
    """The initialiser of the closest builtin base: it sets what ``__dict__`` lacks.

    ``OSError.errno`` or ``UnicodeDecodeError.start`` live in C; the user's own
    ``__init__`` is not run again, as its arguments are not known.
    """
    for base in type(cause).__mro__:
        if base.__module__ == "builtins":
            return inspect.getattr_static(base, "__init__")
    raise AssertionError("every exception has a builtin base")
