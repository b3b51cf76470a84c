"""An answer that crossed a process: what arrived is given or raised as it was meant.

The user's exception arrives as an instance of its own class and of ``TaskError``, by
a class made for the two. Where that cannot be (the class forbids it, or its module is
not here), a plain ``TaskError`` carries it.
"""

from __future__ import annotations

import contextlib
import copyreg
import functools
import inspect
from typing import TYPE_CHECKING, Any, Protocol, cast

from actorlib._wire.frames import CANCELLED, DIED, RESULT
from actorlib._wire.payload import decode
from actorlib._wire.shared import Shared
from actorlib.exceptions import (
    RemoteTraceback,
    SerializationError,
    TaskCancelledError,
    TaskError,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from actorlib._wire.frames import Frame, Payload


class Fillable(Protocol):
    """What takes an answer, as a future does."""

    def set_result(self, result: Any, /) -> None:
        """Takes the value."""
        ...

    def set_exception(self, exception: BaseException, /) -> None:
        """Takes why there is none."""
        ...


def fill(reply: Fillable, frame: Frame) -> None:
    """Gives a future the value or the error of the frame that answers it."""
    if frame[0] != RESULT:
        _, _, kind, summary, text, where, _, payload = frame
        reply.set_exception(error_of(kind, summary, text, where, payload))
        return
    load(reply, frame[3], frame[2])


def load(
    reply: Fillable, payload: Payload, loans: Collection[bytes] | None = None
) -> None:
    """Gives a future the value in a payload, or why it cannot be loaded.

    Args:
        reply: The future; a ref keeps what lies in shared memory, for passing it on.
        payload: The value.
        loans: What is in it and counted.
    """
    try:
        value = decode(payload)
    except Exception as error:  # noqa: BLE001  # loading runs the user's code
        trouble = SerializationError(f"the result cannot be loaded here: {error}")
        trouble.__cause__ = error
        reply.set_exception(trouble)
    else:
        if isinstance(payload, Shared):
            payload.hold()
            cast("Any", reply).kept = payload, loans
        reply.set_result(value)


def parts_of(error: BaseException) -> tuple[type, tuple[Any, ...], dict[str, Any]]:
    """The class of an exception, the arguments that make it, and what else it holds.

    Builtin exceptions say themselves what makes them: it is not always ``args``
    (``OSError.filename``), nor is all else in ``__dict__`` (``ImportError.name``).
    """
    arguments, state = error.args, dict(error.__dict__)
    for name in _slots_of(type(error)):
        with contextlib.suppress(AttributeError):
            state[name] = getattr(error, name)
    maker = next(base for base in type(error).__mro__ if "__reduce__" in vars(base))
    if maker.__module__ == "builtins":
        # Only the builtin ones: a user's own says how to run the user's constructor.
        _, arguments, *rest = cast("tuple[Any, ...]", error.__reduce__())
        if rest and isinstance(rest[0], dict):
            state |= rest[0]
    return type(error), arguments, state


def _slots_of(cls: type) -> list[str]:
    return [
        name
        for base in cls.__mro__
        for name in copyreg._slotnames(base)  # type: ignore[attr-defined]  # pyright: ignore  # noqa: PGH003, SLF001  # as pickle finds them
    ]


def remake(
    cls: type[BaseException],
    arguments: tuple[Any, ...],
    args: tuple[Any, ...],
    state: dict[str, Any],
) -> BaseException:
    """An exception from its parts, without a constructor of the user's.

    Args:
        cls: Its class.
        arguments: For the constructor of its closest builtin base.
        args: Its ``args``.
        state: Its other attributes.
    """
    try:
        error = cls.__new__(cls, *arguments)
    except TypeError:  # MemoryError's own takes no other class, and keeps nothing
        error = BaseException.__new__(cls, *arguments)
    _builtin_constructor(cls)(error, *arguments)
    object.__setattr__(error, "args", args)
    for name, value in state.items():
        object.__setattr__(error, name, value)
    return error


def error_of(
    kind: int, summary: str, text: str, where: str, payload: Payload
) -> BaseException:
    """The exception that a FAILURE frame stands for.

    Args:
        kind: RAISED, DIED or CANCELLED.
        summary: The last line of the traceback; of a cancelled call why, if it is
            known.
        text: The traceback.
        where: Which method of which actor.
        payload: The pickled exception, or empty if it could not be pickled, or there
            was none.
    """
    if kind == CANCELLED and not payload:
        return TaskCancelledError(summary or "the call was cancelled")
    try:
        cause = cast("BaseException | None", decode(payload) if payload else None)
    except Exception:  # noqa: BLE001  # loading runs the user's code, and its module may be missing here
        cause = None
    if kind in (CANCELLED, DIED) and cause is not None:
        return cause
    return task_error(cause, summary, text, where)


def task_error(
    cause: BaseException | None, summary: str, text: str, where: str
) -> TaskError:
    """A TaskError that is an instance of the cause's class too, if that can be."""
    while isinstance(cause, TaskError) and cause.cause is not None:
        cause = cause.cause  # it crossed another process before; the text tells of both
    error = _like(cause) if cause is not None else None
    if error is None:
        error = TaskError(f"{where} raised {summary}")
    told = RemoteTraceback(f"In {where}:\n{text}")
    for name, value in (
        ("cause", cause),
        ("traceback_str", text),
        ("where", where),
        ("__cause__", told),
    ):
        # By way of object: the user's class may refuse attributes.
        object.__setattr__(error, name, value)
    return error


def _task_error_of(
    parts: tuple[Any, ...] | None, summary: str, text: str, where: str
) -> TaskError:
    cause = None
    if parts is not None:
        cls, arguments, state, args = parts
        cause = remake(cls, arguments, args, state)
    return task_error(cause, summary, text, where)


def _like(cause: BaseException) -> TaskError | None:
    """The same exception as an instance of TaskError too, if there can be one."""
    try:
        cls = _dual_class(type(cause))  # type: ignore[arg-type]  # classes are hashable
        _, arguments, state = parts_of(cause)
        made = remake(cls, arguments, cause.args, state)
    except Exception:  # noqa: BLE001  # the user's class: it may forbid anything
        return None
    return made if isinstance(made, TaskError) else None


@functools.cache
def _dual_class(cls: type[BaseException]) -> type[TaskError]:
    if issubclass(cls, StopIteration):
        # A future refuses it: in a coroutine it would mean the end of that coroutine.
        raise TypeError("StopIteration cannot be raised by a future")

    def reduce(self: TaskError) -> tuple[object, ...]:
        summary = f"{cls.__name__}: {self}"
        parts = self.cause and (*parts_of(self.cause), self.cause.args)
        return _task_error_of, (parts, summary, self.traceback_str, self.where)

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


def _builtin_constructor(cls: type[BaseException]) -> Any:
    """The constructor of the closest builtin base: it sets what ``__dict__`` lacks.

    ``OSError.errno`` or ``UnicodeDecodeError.start`` live in C; the user's own
    ``__init__`` is not run again, as its arguments are not known.
    """
    for base in cls.__mro__:
        if base.__module__ == "builtins":
            return inspect.getattr_static(base, "__init__")
    raise AssertionError("every exception has a builtin base")
