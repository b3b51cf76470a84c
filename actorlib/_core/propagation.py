"""Context variables that are sent along with each call: ``propagate`` marks them.

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

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class PropagatedVariable(NamedTuple):
    """A context variable that is sent with calls.

    Attributes:
        variable: The variable.
        module: The module that has marked it; None if it came with a call, and no code
            of this process has marked it yet.
    """

    variable: ContextVar[Any]
    module: str | None


_ABSENT = object()
PROPAGATED: dict[str, PropagatedVariable] = {}
"""Every marked variable, by name."""

OBSERVED: ContextVar[Any] = ContextVar("actorlib_observed")
"""What crosses with the call that is being made, if it is observed; see ``Observed``.

It is among the marked variables while somebody observes calls: so one look tells a call
with which nothing travels. It has a header of its own, and is set nowhere else.
"""
_observers: WeakSet[object] = WeakSet()
"""Weakly: workers in the program's own process end without a word."""


def begin_observing(observer: object) -> None:
    """Has ``OBSERVED`` looked at for each call, until all observers have ended that."""
    _observers.add(observer)
    PROPAGATED[OBSERVED.name] = PropagatedVariable(OBSERVED, __name__)


def end_observing(observer: object) -> None:
    """Ends that, for one of them."""
    _observers.discard(observer)
    if not _observers:
        PROPAGATED.pop(OBSERVED.name, None)


@public("actorlib")
def propagate(variable: ContextVar[T]) -> ContextVar[T]:
    """Marks a context variable: from now on its value travels with calls.

    Its value where ``.remote()`` is written is set in the context that the method runs
    in, and so on in what that calls. Write it where the variable is made::

        request_id = actorlib.propagate(ContextVar("order_id"))

    The value is sent by value, like an argument, with each call; handles and refs
    cannot be in it. A variable that has no value, or its default alone, is not sent.

    Args:
        variable: The variable. Its name is what it is known by everywhere.

    Returns:
        The same.

    Raises:
        TypeError: It is no context variable.
        ValueError: Another one of that name is marked.

    Example:
        >>> from contextvars import ContextVar
        >>> order_id = actorlib.propagate(ContextVar("order_id"))
        >>> @actorlib.remote
        ... def who():
        ...     return order_id.get()
        >>> token = order_id.set("r1")
        >>> await who.remote()
        'r1'
    """
    if not isinstance(cast("object", variable), ContextVar):
        raise TypeError(
            f"propagate() takes a contextvars.ContextVar, not {variable!r} "
            f"({type(variable).__name__})"
        )
    caller = sys._getframe(1).f_globals  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # as namedtuple() finds where it is
    module = str(caller.get("__name__", "__main__"))
    known = PROPAGATED.get(variable.name)
    is_other = known is not None and known.variable is not variable
    if known is not None and is_other and known.module not in (None, module):
        raise ValueError(
            f"a context variable {variable.name!r} is marked already, by "
            f"{known.module}: variables travel by their names, so give this one another"
        )
    _mark(variable, module)
    return variable


def current_values() -> dict[str, object]:
    """The values of the marked variables in this context, of those that are set."""
    context = copy_context()
    return {
        name: context[marked.variable]
        for name, marked in PROPAGATED.items()
        if marked.variable in context
    }


def set_values(arrived: dict[str, object]) -> None:
    """Sets variables in this context.

    Args:
        arrived: What came with a call, by name.
    """
    for name, value in arrived.items():
        marked = PROPAGATED.get(name)
        if marked is None:
            # No code here has marked it; what is called from here may have.
            marked = _mark(ContextVar(name), None)
        marked.variable.set(value)


def _mark(variable: ContextVar[Any], module: str | None) -> PropagatedVariable:
    if ContextVar not in copyreg.dispatch_table:
        copyreg.pickle(ContextVar, _reduce)  # pyright: ignore[reportArgumentType]  # a generic class is one
    known = PROPAGATED.get(variable.name)
    if known is not None and known.module is None:
        # It came with the call in which its module is loaded.
        value = known.variable.get(_ABSENT)
        if value is not _ABSENT:
            variable.set(value)
    marked = PROPAGATED[variable.name] = PropagatedVariable(variable, module)
    return marked


def _reduce(variable: ContextVar[Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    marked = PROPAGATED.get(variable.name)
    if marked is None or marked.variable is not variable:
        raise TypeError(
            f"cannot pickle the context variable {variable.name!r}, which is not "
            "marked: write actorlib.propagate(variable) where it is made"
        )
    try:
        default: tuple[Any, ...] = (Context().run(variable.get),)
    except LookupError:
        default = ()
    return _named, (variable.name, marked.module, default)


def _named(name: str, module: str | None, default: tuple[Any, ...]) -> ContextVar[Any]:
    """The marked variable of a name; it is made if this process has none yet."""
    if module is not None and module != "__main__" and name not in PROPAGATED:
        with suppress(ImportError):  # then the variable itself is made here
            importlib.import_module(module)
    known = PROPAGATED.get(name)
    if known is not None and known.module is not None:
        return known.variable
    made: ContextVar[Any] = (
        ContextVar(name, default=default[0]) if default else ContextVar(name)
    )
    return _mark(made, module).variable
