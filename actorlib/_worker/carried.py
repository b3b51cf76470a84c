"""What the caller said of a call, where the call runs."""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from actorlib._telling import enter_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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
    context = copy_context()
    context.run(enter_variables, told)
    return context.run(method, *args, **kwargs)
