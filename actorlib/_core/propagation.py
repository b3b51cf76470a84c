"""Context variables that are sent with each call: ``propagate`` marks them.

A marked variable has the same name in every process and is pickled by that name, so
that a class of ``__main__`` which uses one as a global can be sent. Variables that are
not marked are not sent, and cost nothing.
"""

from __future__ import annotations

import copyreg
import importlib
import sys
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast
from weakref import WeakSet

from actorlib._base.public import public
from actorlib._base.validation import wrong_type

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class PropagatedVariable(NamedTuple):
    """A context variable that is sent with calls.

    Attributes:
        variable: The variable.
        module: The module that has marked it. None if it came with a call and no code
            of this process has marked it yet.
    """

    variable: ContextVar[Any]
    module: str | None


_ABSENT = object()
PROPAGATED: dict[str, PropagatedVariable] = {}
"""Every marked variable, by name."""

OBSERVED: ContextVar[Any] = ContextVar("actorlib_observed")
"""The data that is sent with the current call if it is observed; see ``Observed``.

It is one of the marked variables while calls are observed, so one check identifies a
call that sends no variables. It is sent in a separate header. Only observers set it.
"""
_observers: WeakSet[object] = WeakSet()
"""Weak, because a worker in the program's process ends without ``end_observing``."""


def begin_observing(observer: object) -> None:
    """Marks ``OBSERVED``, until all observers have called ``end_observing``."""
    _observers.add(observer)
    PROPAGATED[OBSERVED.name] = PropagatedVariable(OBSERVED, __name__)


def end_observing(observer: object) -> None:
    _observers.discard(observer)
    if not _observers:
        PROPAGATED.pop(OBSERVED.name, None)


@public("actorlib")
def propagate(variable: ContextVar[T]) -> ContextVar[T]:
    """Marks a context variable: from now on its value is sent with calls.

    The value at ``.remote()`` is set in the context of the method, and so in the calls
    that the method makes. Mark the variable where it is created::

        order_id = actorlib.propagate(ContextVar("order_id"))

    The value is copied, like an argument, with each call; it cannot contain handles and
    refs. A variable without a value, or with its default only, is not sent.

    Args:
        variable: The variable. Its name identifies it in all processes.

    Returns:
        The same variable.

    Raises:
        TypeError: It is not a context variable.
        ValueError: Another variable of that name is marked.

    Example:
        >>> from contextvars import ContextVar
        >>> order_id = actorlib.propagate(ContextVar("order_id"))
        >>> @actorlib.remote
        ... def read_order():
        ...     return order_id.get()
        >>> token = order_id.set("r1")
        >>> await read_order.remote()
        'r1'
    """
    if not isinstance(cast("object", variable), ContextVar):
        raise wrong_type("propagate() takes a contextvars.ContextVar", variable)
    caller = sys._getframe(1).f_globals  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # as in namedtuple()
    module = str(caller.get("__name__", "__main__"))
    marked = PROPAGATED.get(variable.name)
    is_other = marked is not None and marked.variable is not variable
    if marked is not None and is_other and marked.module not in (None, module):
        raise ValueError(
            f"{marked.module} has already marked a context variable named "
            f"{variable.name!r}: variables are sent by their names, so give this one "
            "another name"
        )
    _mark(variable, module)
    return variable


def current_values() -> dict[str, object]:
    """Returns the values of the marked variables that are set in this context."""
    context = copy_context()
    return {
        name: context[marked.variable]
        for name, marked in PROPAGATED.items()
        if marked.variable in context
    }


def set_values(arrived: dict[str, object]) -> None:
    """Sets the variables that came with a call, by name, in this context."""
    for name, value in arrived.items():
        marked = PROPAGATED.get(name)
        if marked is None:
            # No code here has marked it; the code of nested calls may have.
            marked = _mark(ContextVar(name), None)
        marked.variable.set(value)


def _mark(variable: ContextVar[Any], module: str | None) -> PropagatedVariable:
    if ContextVar not in copyreg.dispatch_table:
        copyreg.pickle(ContextVar, _reduce)  # pyright: ignore[reportArgumentType]  # a generic class is one
    earlier = PROPAGATED.get(variable.name)
    if earlier is not None and earlier.module is None:
        # It came with the call in which its module is imported.
        value = earlier.variable.get(_ABSENT)
        if value is not _ABSENT:
            variable.set(value)
    marked = PROPAGATED[variable.name] = PropagatedVariable(variable, module)
    return marked


def _reduce(variable: ContextVar[Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    marked = PROPAGATED.get(variable.name)
    if marked is None or marked.variable is not variable:
        raise TypeError(
            f"cannot pickle the context variable {variable.name!r}, which is not "
            "marked: write actorlib.propagate(variable) where it is created"
        )
    try:
        default: tuple[Any, ...] = (Context().run(variable.get),)
    except LookupError:
        default = ()
    return _named, (variable.name, marked.module, default)


def _named(name: str, module: str | None, default: tuple[Any, ...]) -> ContextVar[Any]:
    """Returns the marked variable of a name; creates it if it does not exist."""
    if module is not None and module != "__main__" and name not in PROPAGATED:
        with suppress(ImportError):  # then the variable is created here
            importlib.import_module(module)
    marked = PROPAGATED.get(name)
    if marked is not None and marked.module is not None:
        return marked.variable
    variable: ContextVar[Any] = (
        ContextVar(name, default=default[0]) if default else ContextVar(name)
    )
    return _mark(variable, module).variable
