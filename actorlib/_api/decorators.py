"""``@remote``: a class becomes an ActorClass, whose instances live in workers."""

from __future__ import annotations

import functools
import inspect
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from actorlib._api.actor_handle import ActorHandle, hold_of
from actorlib._api.bindings import CurrentSource
from actorlib._api.placement_group import grouped, with_spec
from actorlib._api.remote_function import GeneratorFunction, RemoteFunction, decorated
from actorlib._core.actor_options import RAYS_NAMES, ActorKeywords, ActorOptions
from actorlib._core.engine import ActorSpec, HandlePin, current_engine
from actorlib._core.function_options import (
    CommonKeywords,
    FunctionKeywords,
    FunctionOptions,
    checked_actor,
    checked_function,
    in_our_words,
    names_of,
)
from actorlib._core.interface import Interface, interface_of
from actorlib._core.public import public
from actorlib._core.runtime_env import found_by_name, settled_env

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from actorlib._core.engine import Engine

P = ParamSpec("P")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


@public("actorlib")
class ActorClass(Generic[P, T]):
    """A class whose instances are actors, made by ``.remote(...)``.

    Its class attributes, static methods and class methods are those of the class
    itself and run here.
    """

    def __init__(
        self,
        cls: Callable[P, T],
        options: ActorOptions,
        interface: Interface,
        origin: ActorClass[P, T] | None = None,
    ) -> None:
        self.__wrapped__ = cls
        self._options = options
        self._interface = interface
        self._face = interface.under(options)
        self._origin = origin or self
        self._engine: Callable[[], Engine] = current_engine
        self._source: CurrentSource[ActorClass[P, T]]
        if origin is None:
            functools.update_wrapper(self, cls, updated=())
            again = functools.partial(ActorClass, cls, options, interface)
            self._source = CurrentSource(cls, self, again, is_kept_if_mutable=False)
        else:
            self._engine = origin._engine  # noqa: SLF001  # of this class
            self._source = origin._source  # noqa: SLF001  # likewise

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ActorHandle[T]:
        """Creates an actor; returns its handle at once.

        Its placement on a device and the start of its process go on in the background;
        calls made meanwhile wait in order. ``await handle`` waits for it.

        Args:
            *args: For the constructor; sent by value. An ObjectRef given by itself
                arrives as its value.
            **kwargs: Likewise.

        Raises:
            TypeError: The arguments do not fit the constructor, or cannot be sent.
            ActorAlreadyExistsError: A living actor has its name.
            UnsupportedOptionError: The engine cannot do what an option asks.
            NotADirectoryError: Its ``working_dir`` is none.
            ValueError: It does not fit into the placement group that it is to be in.
            RuntimeError: No runtime is running in this process.
        """
        self._interface.constructor.check(len(args), kwargs)
        engine = self._engine()
        source = self._source.get()
        spec = ActorSpec(
            source=source,
            sent=_sent(source),
            interface=self._face,
            args=args,
            kwargs=kwargs,
            options=grouped(self._interface.class_name, _settled(self._options)),
        )
        if self._options.get_if_exists:
            return ActorHandle(engine.obtain(spec))
        name = spec.options.name
        return ActorHandle(HandlePin(engine, engine.create(spec), self._face, name))

    def _remote(
        self,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        **options: Unpack[ActorKeywords],
    ) -> ActorHandle[T]:
        """``.options(...).remote(*args, **kwargs)``, as older scripts write it."""
        create = cast("Callable[..., ActorHandle[T]]", self.options(**options).remote)
        return create(*(args or ()), **(kwargs or {}))

    def options(self, /, **options: Unpack[ActorKeywords]) -> ActorClass[P, T]:
        """The same class with some options replaced.

        Args:
            **options: See ActorOptions.

        Raises:
            TypeError: A value has the wrong type.
            ValueError: An option is unknown or its value out of range.
        """
        updated = self._options.updated(_with_ids(options))
        return ActorClass(self.__wrapped__, updated, self._interface, self._origin)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __dir__(self) -> list[str]:
        return sorted({*self._interface.methods, "options", "remote"})

    def __repr__(self) -> str:
        return f"ActorClass({self._interface.class_name})"

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Refuses: an instance would look like an actor and be none."""
        name = self._interface.class_name
        raise TypeError(
            f"an actor class cannot be instantiated directly: write {name}.remote(...) "
            f"instead of {name}(...)"
        )

    def __mro_entries__(self, _: object) -> NoReturn:
        name = self._interface.class_name
        raise TypeError(
            f"{name} is an actor class and cannot be inherited from: decorate the "
            "derived class, and leave its base a plain class"
        )

    def __reduce__(self) -> str | tuple[object, ...]:
        if self is not self._origin:
            return _derived, (self._origin, self._options)
        if _is_found(self):
            return cast("type", self.__wrapped__).__qualname__
        # The interface travels too: a class sent by value may name its own actor class
        # in a method, which is then loaded before the class has its methods.
        return ActorClass, (self.__wrapped__, self._options, self._interface)


if TYPE_CHECKING:

    class _Class(Protocol[P, R_co]):
        """A class, where a checker lets classes be protocols; others see types."""

        @property
        def __mro__(self) -> tuple[type, ...]: ...
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    class _Wraps(Protocol[P, R_co]):
        @property
        def __wrapped__(self) -> Callable[P, R_co]: ...

    class _TypedClass(ActorClass[..., T], Generic[T]):
        """An actor class whose parameters are read off the class when it is used."""

        @property
        def __wrapped__(self) -> type[T]: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # it is one
        def remote(  # type: ignore[override]  # the same, more exactly
            self: _Wraps[P, T], /, *args: P.args, **kwargs: P.kwargs
        ) -> ActorHandle[T]: ...
        def options(self, /, **options: Unpack[ActorKeywords]) -> _TypedClass[T]: ...

    class _OfClasses(Protocol):
        @overload
        def __call__(self, cls: _Class[P, T], /) -> ActorClass[P, T]: ...
        @overload
        def __call__(self, cls: type[T], /) -> _TypedClass[T]: ...

    class _OfFunctions(Protocol):
        @overload
        def __call__(  # type: ignore[overload-overlap]  # see remote()
            self, function: Callable[P, NoReturn], /
        ) -> RemoteFunction[P, Any]: ...
        @overload
        def __call__(  # type: ignore[overload-overlap]  # what yields is the one
            self, function: Callable[P, Iterator[T]], /
        ) -> GeneratorFunction[P, T]: ...
        @overload
        def __call__(self, function: Callable[P, T], /) -> RemoteFunction[P, T]: ...

    class _OfBoth(Protocol):
        @overload
        def __call__(self, cls: _Class[P, T], /) -> ActorClass[P, T]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # a class is the one
        @overload
        def __call__(self, cls: type[T], /) -> _TypedClass[T]: ...  # type: ignore[overload-overlap]  # a class is the one
        @overload
        def __call__(  # type: ignore[overload-overlap]  # see remote()
            self, function: Callable[P, NoReturn], /
        ) -> RemoteFunction[P, Any]: ...
        @overload
        def __call__(  # type: ignore[overload-overlap]  # what yields is the one
            self, function: Callable[P, Iterator[T]], /
        ) -> GeneratorFunction[P, T]: ...
        @overload
        def __call__(self, function: Callable[P, T], /) -> RemoteFunction[P, T]: ...


@overload
def remote(cls: _Class[P, T], /) -> ActorClass[P, T]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # a class is the one
@overload
def remote(cls: type[T], /) -> _TypedClass[T]: ...  # type: ignore[overload-overlap]  # a class is the one
@overload
def remote(function: Callable[P, NoReturn], /) -> RemoteFunction[P, Any]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # what gives Any is no generator: this takes it before that
@overload
def remote(function: Callable[P, Iterator[T]], /) -> GeneratorFunction[P, T]: ...
@overload
def remote(function: Callable[P, T], /) -> RemoteFunction[P, T]: ...
@overload
def remote(**options: Unpack[CommonKeywords]) -> _OfBoth: ...  # pyright: ignore[reportOverlappingOverload]  # what fits both is for both
@overload
def remote(**options: Unpack[ActorKeywords]) -> _OfClasses: ...
@overload
def remote(**options: Unpack[FunctionKeywords]) -> _OfFunctions: ...
@public("actorlib")
def remote(*given: object, **options: Any) -> object:
    """Turns a class into an actor class, or a function into a remote one.

    ``@remote`` for what asks for nothing in particular, ``@remote(num_gpus=0.5)`` for
    an actor that holds half a GPU for life, or a function that holds it while it runs.
    ``remote(cls)`` is the same as a function.

    Args:
        *given: The class, or the function.
        **options: What each actor asks for, or each call; see ActorOptions and
            FunctionOptions.

    Raises:
        TypeError: It decorates something that is neither, or a value has the wrong
            type.
        ValueError: An option is unknown or its value out of range, or the function is
            one that cannot be called from afar.
    """
    if not given:
        if not options:
            raise TypeError(
                "write @remote without brackets, or give it options: "
                "@remote(num_gpus=0.5)"
            )
        given_options = _with_ids(options)
        known = set(names_of(FunctionOptions))
        is_for_functions = given_options.keys() <= known
        if not (is_for_functions and given_options.keys() - names_of(ActorOptions)):
            checked_actor(
                given_options
            )  # what is wrong is so for whatever it decorates
        if is_for_functions:
            checked_function(given_options)
        return functools.partial(_decorated, options=given_options)
    if len(given) > 1 or options:
        raise TypeError(
            "@remote takes either the class or the function, or options by name: "
            "@remote(num_gpus=0.5)"
        )
    return _decorated(*given, options={})


def _decorated(
    given: object, *, options: Mapping[str, object]
) -> ActorClass[..., Any] | RemoteFunction[..., Any]:
    if isinstance(given, ActorClass):
        raise TypeError(f"{given!r} is an actor class already")
    if isinstance(given, RemoteFunction):
        raise TypeError(
            f"{given!r} is no plain function or class: it is remote already"
        )
    if inspect.isfunction(given):
        return decorated(given, checked_function(options))
    if not inspect.isclass(given):
        raise TypeError(
            "@remote takes a class whose instances become actors, or a function "
            f"written in Python, not {given!r} ({type(given).__name__})"
        )
    return ActorClass(given, checked_actor(options), interface_of(given))


def _sent(cls: ActorClass[..., Any]) -> object:
    """What a worker is sent: a class by value goes without what only callers need."""
    return cls if _is_found(cls) else cls.__wrapped__


def _is_found(cls: ActorClass[..., Any]) -> bool:
    """Whether other processes find it by the name that it has here."""
    plain = cast("type", cls.__wrapped__)
    return found_by_name(plain.__module__, plain.__qualname__) is cls


def found_by(
    made: ActorClass[..., Any] | RemoteFunction[..., Any], engine: Callable[[], Engine]
) -> None:
    """Says where an actor class, or a remote function, finds its engine.

    Args:
        made: What ``remote`` made, just now.
        engine: Gives the engine, or raises; called by each ``.remote()``.
    """
    made._engine = engine  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file and its like


def plan_of(cls: ActorClass[..., Any]) -> tuple[Interface, ActorOptions]:
    """The face of an actor class and what each of its actors asks for."""
    return cls._interface, cls._options  # pyright: ignore[reportPrivateUsage]  # of this file


def _derived(origin: ActorClass[P, T], options: ActorOptions) -> ActorClass[P, T]:
    interface = origin._interface  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    return ActorClass(origin.__wrapped__, options, interface, origin)


def _settled(options: ActorOptions) -> ActorOptions:
    """The options with an absolute ``working_dir``, which has to be there."""
    env = settled_env(options.runtime_env)
    return options if env is None else options.updated({"runtime_env": env})


def _with_ids(options: Mapping[str, object]) -> dict[str, object]:
    """The options with ids in the place of handles: a wish keeps no actor alive."""
    named = {RAYS_NAMES.get(name, name): value for name, value in options.items()}
    given = with_spec(in_our_words(named))
    for name in ("near", "apart_from"):
        if name not in given:
            continue
        value = given[name]
        if value is None:
            continue
        is_list = name == "apart_from" and isinstance(value, list | tuple)
        actors = cast("Sequence[object]", value if is_list else (value,))
        if not all(isinstance(actor, ActorHandle) for actor in actors):
            raise TypeError(
                f"{name} takes the handle of an actor, not {given[name]!r} "
                f"({type(given[name]).__name__})"
            )
        handles = cast("Sequence[ActorHandle[Any]]", actors)
        given[name] = tuple(hold_of(handle).actor_id for handle in handles)
    return given
