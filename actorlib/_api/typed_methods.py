"""``@method``: sets the options and the exact type of a method.

The decorated method remains a plain function, with its options as an attribute, which
``interface_of`` reads. To a type checker ``typed(handle)`` is an instance of the class.
On an instance the method is an ``ActorMethod`` with the parameters and the result of
the function. A type cannot be a handle and the user's class at once, so the methods
of a handle itself take anything.
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from actorlib._api.actor_handle import ActorHandle
from actorlib._base.public import public
from actorlib._base.validation import wrong_type
from actorlib._options.call_options import CallOptions
from actorlib._options.interface import OPTIONS, is_generator
from actorlib.exceptions import UnknownOptionError

S = TypeVar("S")
T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

    from actorlib._api.actor_handle import ActorMethod
    from actorlib._api.replicas import Replicas
    from actorlib._futures.stream_reader import ObjectRefGenerator
    from actorlib._options.call_options import CallKeywords, MethodKeywords

    class BoundMethod(ActorMethod[P, R], Generic[P, R, C]):
        """A method of an instance, which may be a handle or, in its own class, self."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # a handle's refuses

    class BoundGenerator(Generic[P, R, C]):
        """A generator of an instance, which may be a handle or, in its class, self."""

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C: ...
        def remote(
            self, /, *args: P.args, **kwargs: P.kwargs
        ) -> ObjectRefGenerator[R]: ...
        def options(
            self, /, **options: Unpack[CallKeywords]
        ) -> BoundGenerator[P, R, C]: ...


@public("actorlib.types")
class TypedMethod(Generic[S, P, R, C]):
    """The type of a method under ``@method``; at run time it is a plain function."""

    if TYPE_CHECKING:

        @overload
        def __get__(
            self, instance: None, owner: object, /
        ) -> Callable[Concatenate[S, P], C]: ...
        @overload
        def __get__(
            self, instance: object, owner: object, /
        ) -> BoundMethod[P, R, C]: ...
        def __get__(self, instance: object, owner: object, /) -> object: ...
        def __call__(self, instance: S, /, *args: P.args, **kwargs: P.kwargs) -> C: ...


@public("actorlib.types")
class TypedGenerator(Generic[S, P, R, C]):
    """The type of a generator under ``@method``; at run time it is a function."""

    if TYPE_CHECKING:

        @overload
        def __get__(
            self, instance: None, owner: object, /
        ) -> Callable[Concatenate[S, P], C]: ...
        @overload
        def __get__(
            self, instance: object, owner: object, /
        ) -> BoundGenerator[P, R, C]: ...
        def __get__(self, instance: object, owner: object, /) -> object: ...


class _Decorator(Protocol):
    @overload
    def __call__(
        self, function: Callable[Concatenate[S, P], Coroutine[Any, Any, R]], /
    ) -> TypedMethod[S, P, R, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]  # as the checker reads: the first
        self, function: Callable[Concatenate[S, P], AsyncIterator[R]], /
    ) -> TypedGenerator[S, P, R, AsyncIterator[R]]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]  # as the checker reads: the first
        self, function: Callable[Concatenate[S, P], Iterator[R]], /
    ) -> TypedGenerator[S, P, R, Iterator[R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[S, P], R], /
    ) -> TypedMethod[S, P, R, R]: ...


@overload
def method(
    function: Callable[Concatenate[S, P], Coroutine[Any, Any, R]], /
) -> TypedMethod[S, P, R, Coroutine[Any, Any, R]]: ...
@overload
def method(  # type: ignore[overload-overlap]  # as the checker reads: the first
    function: Callable[Concatenate[S, P], AsyncIterator[R]], /
) -> TypedGenerator[S, P, R, AsyncIterator[R]]: ...
@overload
def method(  # type: ignore[overload-overlap]  # as the checker reads: the first
    function: Callable[Concatenate[S, P], Iterator[R]], /
) -> TypedGenerator[S, P, R, Iterator[R]]: ...
@overload
def method(function: Callable[Concatenate[S, P], R], /) -> TypedMethod[S, P, R, R]: ...
@overload
def method(**options: Unpack[MethodKeywords]) -> _Decorator: ...
@public("actorlib")
def method(*given: object, **options: Any) -> object:
    """Sets the options of a method of an actor class, and its exact type.

    Use ``@method`` for the type only, and ``@method(concurrency_group="io")`` for
    options.

    Args:
        *given: The method.
        **options: The options of its calls, by name.
            ``help(actorlib.types.CallOptions)`` describes each option; ``name`` and
            ``key`` are only for single calls.

    Returns:
        The same plain method, which may still be called on an instance. To a type
        checker it is a TypedMethod or a TypedGenerator.

    Raises:
        TypeError: It does not decorate a method, an option is unknown or only for
            single calls (``name``, ``key``), or a value has the wrong type.
        ValueError: A value is out of range.

    Example:
        >>> @actorlib.remote(concurrency_groups={"io": 2})
        ... class Store:
        ...     @actorlib.method(concurrency_group="io", timeout=5)
        ...     def read(self, name: str) -> str:
        ...         return name.upper()
        >>> await Store.remote().read.remote("a")
        'A'
    """
    for word in ("name", "key"):
        if word in options:
            raise UnknownOptionError(
                f"{word}={options[word]!r} is an option of one call and not of a "
                f"method: write .options({word}=...)"
            )
    checked = CallOptions().updated(options)

    def decorate(function: object) -> object:
        if isinstance(function, type) or not callable(function):
            raise wrong_type("@method takes a method of a class", function)
        # Looking up a static or class method on the class returns the wrapped function.
        plain = getattr(function, "__func__", function)
        name = getattr(plain, "__qualname__", repr(plain))
        checked.check(name, is_stream=is_generator(plain))
        setattr(plain, OPTIONS, checked)
        return function

    if not given:
        return decorate
    if len(given) > 1 or options:
        raise TypeError(
            "@method takes either the method or options by name: "
            "@method(concurrency_group='io')"
        )
    return decorate(*given)


@public("actorlib")
def typed(handle: ActorHandle[T] | Replicas[T]) -> T:
    """Returns a handle with the type of its class, for type checkers.

    ``typed(h).ping.remote(1)`` is checked against ``def ping(self, n: int) -> str``
    where ``ping`` is decorated with ``@method``. At run time it is ``handle`` itself.

    Args:
        handle: A handle of an actor, or Replicas.

    Raises:
        TypeError: It is neither.

    Example:
        >>> @actorlib.remote
        ... class Adder:
        ...     @actorlib.method
        ...     def add(self, a: int, b: int) -> int:
        ...         return a + b
        >>> adder = Adder.remote()
        >>> await actorlib.typed(adder).add.remote(1, 2)
        3
    """
    if not isinstance(cast("object", handle), ActorHandle):
        from actorlib._api.replicas import Replicas  # noqa: PLC0415  # few have them

        if not isinstance(cast("object", handle), Replicas):
            raise wrong_type(
                "typed() takes the handle of an actor, or Replicas", handle
            )
    return cast("T", handle)
