"""Sets the public module of a class or function, from which users import it.

So reprs, ``help()`` and tracebacks show a name that can be imported, and pickles by
reference load after a file has moved. ``inspect.getsource`` still finds functions and
methods, as their code has the name of its file. It cannot find classes: it looks up the
file of a class by its ``__module__`` alone (``sys.modules[cls.__module__].__file__``),
so that is either the public module or the file. From Python 3.13 on a class also has
its line, which would be wrong for another file. The decorator deletes it, so that no
source is found rather than a wrong one. Rejected: a metaclass, which ``ObjectRef`` and
typed dicts cannot have, and a string that is equal to both names, which pickle would
write out in full.
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
        home: The public module that exports it under its name. It becomes its
            ``__module__``.
    """

    def decorate(member: T) -> T:
        cast("Any", member).__module__ = home
        with suppress(AttributeError):
            del cast("Any", member).__firstlineno__
        return member

    return decorate
