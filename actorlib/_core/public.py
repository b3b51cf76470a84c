"""Where public things are at home: the module that users import them from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def public(home: str) -> Callable[[T], T]:
    """Decorates a class or a function that users import from another module.

    Its ``__module__`` is that module, whatever file it is written in: so ``help()``,
    reprs and tracebacks name what can be imported, and what is pickled by reference
    stays loadable when files move.

    Args:
        home: The public module, which has it by its own name.
    """

    def settle(made: T) -> T:
        cast("Any", made).__module__ = home
        return made

    return settle
