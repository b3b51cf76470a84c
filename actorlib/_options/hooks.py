"""Makes an actor's object, and finds the methods that run first and last.

Decorators mark these methods. Names such as ``setup`` and ``close`` would not do, as
classes have ordinary methods with these names.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from actorlib._base.public import public
from actorlib._base.validation import wrong_type
from actorlib._options.interface import is_generator, signature_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

MethodT = TypeVar("MethodT", bound="Callable[..., Any]")

_MARK = "__actorlib_hook__"
_SETUP = "setup"
_CLOSE = "close"


class Hooks(NamedTuple):
    """The names of the methods that run before the first call and after the last.

    They may be a context: ``__aenter__`` and ``__aexit__``.
    """

    setup: str | None = None
    close: str | None = None
    are_context: bool = False

    def close_of(self, instance: object) -> Callable[[object], object] | None:
        """Returns the function that closes an instance, or None."""
        if self.close is None:
            return None
        method: Callable[..., object] = getattr(type(instance), self.close)
        if self.are_context:  # as after a block without an error
            return lambda actor: method(actor, None, None, None)
        return method


@public("actorlib")
def setup(method: MethodT) -> MethodT:
    """Marks the method of an actor class that runs before its first call.

    It runs after the constructor, in the actor's process, and where the actor's methods
    run: an ``async def`` on its event loop. It is part of the creation: the actor is
    not alive before the method has returned, and an error in it is treated like an
    error of the constructor (callers get ``ActorDiedError`` with that as its
    ``__cause__``; the method marked with ``close`` does not run). After a restart it
    runs again. A class without marked methods that defines ``__aenter__`` and
    ``__aexit__`` is entered and left instead.

    Args:
        method: A method without parameters except ``self``, plain or ``async def``. A
            class has one; a class that derives from it may override it, with or without
            the mark.

    Returns:
        The same method, which may also be called like any other.

    Raises:
        TypeError: It is not a method, or it is a generator.

    Example:
        >>> @actorlib.remote
        ... class Feed:
        ...     @actorlib.setup
        ...     async def connect(self):
        ...         self.lines = ["a", "b"]
        ...     @actorlib.close
        ...     async def disconnect(self):
        ...         self.lines.clear()
        ...     async def first(self):
        ...         return self.lines[0]
        >>> await Feed.remote().first.remote()
        'a'
    """
    _mark(method, _SETUP)
    return method


@public("actorlib")
def close(method: MethodT) -> MethodT:
    """Marks the method of an actor class that runs after its last call.

    It runs at every end except a kill: the last handle is dropped, the block of the
    actor or of the runtime ends, ``exit_actor()``, and SIGTERM where the program runs
    by ``actorlib.run``. When the runtime ends, it has the ``grace`` of ``init``, as
    calls have, and is killed after that. It runs before ``__ray_shutdown__`` and before
    ``atexit`` handlers. An error in it is printed, and the actor ends nevertheless.

    Args:
        method: A method without parameters except ``self``, plain or ``async def``,
            which runs on the actor's event loop. A class has one; a class that derives
            from it may override it, with or without the mark.

    Returns:
        The same method, which may also be called like any other.

    Raises:
        TypeError: It is not a method, or it is a generator.

    Example:
        >>> @actorlib.remote
        ... class Log:
        ...     def __init__(self):
        ...         self.lines = []
        ...     @actorlib.close
        ...     def flush(self):
        ...         self.lines.clear()
        ...     def write(self, line):
        ...         self.lines.append(line)
        ...         return len(self.lines)
        >>> async with Log.remote() as log:
        ...     await log.write.remote("a line")
        1
    """
    _mark(method, _CLOSE)
    return method


def make_instance(
    cls: type, args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[object, Coroutine[Any, Any, object] | None]:
    """Makes an instance; returns the coroutine of an ``async def`` constructor too."""
    constructor = cast("Any", cls).__init__
    if not inspect.iscoroutinefunction(constructor):
        return cls(*args, **kwargs), None
    # As ``type.__call__`` does, which refuses a constructor that returns a coroutine.
    new: Any = cls.__new__
    takes_nothing = new is object.__new__
    instance: object = new(cls) if takes_nothing else new(cls, *args, **kwargs)
    if not isinstance(instance, cls):
        return instance, None
    return instance, constructor(instance, *args, **kwargs)


def hooks_of(cls: type) -> Hooks:
    """Returns the checked marked methods of a class, or those of ``async with``."""
    marked: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        for name, value in vars(base).items():
            if not isinstance(value, FunctionType):
                continue  # reading an attribute of it may run code
            kind = value.__dict__.get(_MARK)
            if kind is None:
                continue
            other = marked.setdefault(kind, name)
            if other != name:
                raise ValueError(
                    f"{cls.__name__} has two methods that are marked with @{kind}, "
                    f"{other}() and {name}(): mark one, and have it call the other"
                )
    for kind, name in marked.items():
        _check_arguments(cls, name, kind)
    if marked:
        return Hooks(marked.get(_SETUP), marked.get(_CLOSE))
    if hasattr(cls, "__aenter__") and hasattr(cls, "__aexit__"):
        return Hooks("__aenter__", "__aexit__", are_context=True)
    return Hooks()


def _mark(method: Callable[..., Any], kind: str) -> None:
    if not inspect.isfunction(method):
        raise wrong_type(f"@{kind} marks a method of an actor class", method)
    if is_generator(method):
        raise TypeError(
            f"@{kind} marks a method that returns, plain or async def, and "
            f"{method.__qualname__} is a generator"
        )
    setattr(method, _MARK, kind)


def _check_arguments(cls: type, name: str, kind: str) -> None:
    try:
        signature_of(getattr(cls, name)).bind(None)
    except TypeError as error:
        raise TypeError(
            f"{cls.__name__}.{name} is marked with @{kind}, which calls it without "
            f"arguments: {error}"
        ) from None
