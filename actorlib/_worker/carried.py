"""What the caller said of a call, where the call runs."""

from __future__ import annotations

from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from actorlib._telling import enter_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


def call_with(
    told: Mapping[str, Any],
    method: Callable[..., object],
    args: list[Any] | tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> object:
    """Calls a plain method where the context variables hold what they held there.

    The thread has its own context back afterwards.

    Args:
        told: What the caller said of the call.
        method: The method.
        args: Its positional arguments.
        kwargs: Its keyword arguments.

    Raises:
        SerializationError: A context variable's value cannot be loaded here.
        BaseException: What the method raised.
    """
    if "variables" not in told:
        return method(*args, **kwargs)
    return _context(told).run(method, *args, **kwargs)


def stepper(told: Mapping[str, Any], source: Iterator[Any]) -> Callable[[], Any]:
    """Takes the next item of a generator, each in the same context; see call_with."""
    if "variables" not in told:
        return source.__next__
    return partial(_context(told).run, source.__next__)


def _context(told: Mapping[str, Any]) -> Context:
    context = copy_context()
    context.run(enter_variables, told)
    return context
