"""Names the module that users import a public class or function from.

So reprs, ``help()`` and tracebacks show a name that can be imported, and pickles by
reference load after a file has moved. ``inspect.getsource`` finds functions and methods
all the same, as their code knows its file. It cannot find classes: the file of a class
is looked up by its ``__module__`` alone (``sys.modules[cls.__module__].__file__``), so
that is either the public module or the file. From Python 3.13 on a class knows its
line, which says nothing in another file: it forgets it, so that no source is found
rather than a wrong one. Ways rejected: a metaclass, which ``ObjectRef`` and typed dicts
cannot have, and a string that is equal to both names, which pickle would write out in
full.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def public(home: str) -> Callable[[T], T]:
    """Decorates a class or a function that users import from another module.

    Args:
        home: The public module, which has it by its own name; it becomes its
            ``__module__``.
    """

    def decorate(made: T) -> T:
        cast("Any", made).__module__ = home
        with suppress(AttributeError):
            del cast("Any", made).__firstlineno__
        return made

    return decorate
