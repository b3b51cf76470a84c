"""``@remote``: turns a class into an ActorClass, whose instances live in workers."""

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
    Self,
    TypeVar,
    Union,
    Unpack,
    cast,
    overload,
)

from actorlib._api.actor_handle import ActorHandle, pin_of
from actorlib._api.bindings import CurrentSource, found_by_name
from actorlib._api.group_options import with_context, with_group_spec
from actorlib._api.remote_function import (
    GeneratorFunction,
    RemoteFunction,
    make_function,
)
from actorlib._base.public import public
from actorlib._base.validation import options_by_word, wrong_type
from actorlib._core.engine import ActorSpec, HandlePin, current_engine
from actorlib._options.actor_options import ActorKeywords, ActorOptions
from actorlib._options.function_options import (
    FunctionKeywords,
    FunctionOptions,
    checked_as,
    with_given,
)
from actorlib._options.hooks import hooks_of
from actorlib._options.interface import Interface, interface_of

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Coroutine,
        Iterator,
        Mapping,
        Sequence,
    )

    from actorlib._api.remote_function import UntypedFunction
    from actorlib._core.engine import Engine
    from actorlib._options.actor_options import CommonKeywords

P = ParamSpec("P")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)


@public("actorlib.types")
class ActorClass(Generic[P, T]):
    """A class whose instances are actors, made by ``.remote(...)``.

    Its class attributes, static methods and class methods are those of the plain class
    and run in this process.

    Example:
        >>> @actorlib.remote
        ... class Counter:
        ...     def __init__(self, start=0):
        ...         self.value = start
        ...     def add(self, n):
        ...         self.value += n
        ...         return self.value

        >>> counter = await Counter.remote(start=40)
        >>> await counter.add.remote(2)
        42
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
        self._actor_interface = interface.with_actor_options(options)
        self._origin = origin or self
        self._engine: Callable[[], Engine] = current_engine
        self._source: CurrentSource[ActorClass[P, T]]
        if origin is None:
            functools.update_wrapper(cast("Any", self), cls, updated=())
            again = functools.partial(ActorClass, cls, options, interface)
            self._source = CurrentSource(cls, self, again, is_kept_if_mutable=False)
        else:
            self._engine = origin._engine  # noqa: SLF001  # of this class
            self._source = origin._source  # noqa: SLF001  # of this class

    def remote(self, /, *args: P.args, **kwargs: P.kwargs) -> ActorHandle[T]:
        """Creates an actor; returns its handle at once.

        It is placed and started in the background; calls made meanwhile wait in order.
        ``await handle`` waits for it. If this raises, nothing was made.

        Args:
            *args: Arguments of the constructor, sent by value. An argument that is an
                ObjectRef arrives as its value.
            **kwargs: Keyword arguments of the constructor, sent in the same way.

        Raises:
            TypeError: The arguments do not fit the constructor, or cannot be sent.
            ActorAlreadyExistsError: A living actor has its name.
            UnsupportedOptionError: The engine does not support an option.
            NotADirectoryError: Its ``working_dir`` does not exist.
            ValueError: It does not fit into its placement group, or it has
                ``torch=True`` and no bundle.
            RuntimeError: No runtime is running in this process.
        """
        return self._create(args, kwargs)

    def _create(
        self,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        slot: int | None = None,
    ) -> ActorHandle[T]:
        self._interface.constructor.check(len(args), kwargs)
        engine = self._engine()
        source = self._source.get()
        spec = ActorSpec(
            source=source,
            # A class by value is pickled without its ActorClass.
            sent=source if _is_importable(source) else source.__wrapped__,
            interface=self._actor_interface,
            args=args,
            kwargs=kwargs,
            options=with_context(self._interface.class_name, self._options),
            slot=slot,
        )
        if self._options.get_if_exists:
            return ActorHandle(engine.obtain(spec))
        name = spec.options.name
        return ActorHandle(
            HandlePin(engine, engine.create(spec), self._actor_interface, name)
        )

    def spawn(self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Creates an actor as ``remote`` does, with a handle for type checkers.

        To a type checker the handle is an instance of the class, so it completes the
        methods under ``@actorlib.method``, and checks their arguments and results. At
        run time it is an ActorHandle: ``spawn(...)`` is ``typed(remote(...))``.

        Args:
            *args: Arguments of the constructor; see ``remote``.
            **kwargs: Keyword arguments of the constructor.

        Raises:
            TypeError: The arguments do not fit, or cannot be sent. It raises the other
                errors of ``remote`` too.

        Example:
            >>> class Adder:
            ...     @actorlib.method
            ...     def add(self, a: int, b: int) -> int:
            ...         return a + b
            >>> Adders = actorlib.remote(num_cpus=1)(Adder)
            >>> adder = Adders.spawn()
            >>> await adder.add.remote(1, 2)
            3
        """
        return cast("T", self.remote(*args, **kwargs))

    def _remote(
        self,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        **options: Unpack[ActorKeywords],
    ) -> ActorHandle[T]:
        """Calls ``.options(...).remote(*args, **kwargs)``; for older scripts of Ray."""
        create = cast("Callable[..., ActorHandle[T]]", self.options(**options).remote)
        return create(*(args or ()), **(kwargs or {}))

    def options(self, /, **options: Unpack[ActorKeywords]) -> ActorClass[P, T]:
        """Returns the same class with some options replaced.

        Args:
            **options: The changed options of its actors, by name.
                ``help(actorlib.types.ActorOptions)`` describes each option.

        Returns:
            Another actor class; this one does not change.

        Raises:
            TypeError: A value has the wrong type, or an option is unknown.
            ValueError: A value is out of range. The message names the option, its
                values and the wrong one.

        Example:
            >>> @actorlib.remote
            ... class Counter:
            ...     def ping(self):
            ...         return "pong"
            >>> counter = Counter.options(num_gpus=0.25, name="c1").remote()
            >>> await actorlib.get_actor("c1").ping.remote()
            'pong'
        """
        updated = with_given(self._options, _with_actor_ids(options))
        return ActorClass(self.__wrapped__, updated, self._interface, self._origin)

    def __getitem__(self, parameters: Any) -> Self:
        """Returns the class itself, as type parameters change nothing: ``Box[int]``.

        Raises:
            TypeError: The class is not generic.
        """
        cast("Any", self.__wrapped__)[parameters]
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "__mro__":  # class decorators such as @dataclass read it first
            raise AttributeError(
                f"{self._interface.class_name} is an actor class and not a class any "
                "longer: put @actorlib.remote on top, above @dataclass and other "
                "decorators of classes",
                name=name,
            )
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __dir__(self) -> list[str]:
        return sorted({*self._interface.methods, "options", "remote", "spawn"})

    def __repr__(self) -> str:
        return f"ActorClass({self._interface.class_name})"

    if not TYPE_CHECKING:  # type checkers refuse it anyway

        def __call__(self, *_: object, **__: object) -> NoReturn:
            """Refuses: an instance would look like an actor and not be one."""
            name = self._interface.class_name
            raise TypeError(
                "an actor class cannot be instantiated directly: write "
                f"{name}.remote(...) instead of {name}(...)"
            )

        # In annotations, type checkers take a decorated class for the plain class.
        def __or__(self, other: object) -> object:
            """Makes an annotation: ``Model | None``."""
            return Union[self, other]  # noqa: UP007  # | calls this method

        def __ror__(self, other: object) -> object:
            """Makes an annotation: ``None | Model``."""
            return Union[other, self]  # noqa: UP007  # | calls this method

    def __mro_entries__(self, _: object) -> NoReturn:
        name = self._interface.class_name
        raise TypeError(
            f"{name} is an actor class and cannot be inherited from: decorate the "
            "derived class, and leave its base a plain class"
        )

    def __reduce__(self) -> str | tuple[object, ...]:
        if self is not self._origin:
            return _derived, (self._origin, self._options)
        if _is_importable(self):
            return cast("type", self.__wrapped__).__qualname__
        # The interface is sent too: a class sent by value may name its own actor class
        # in a method, which is then loaded before the class has its methods.
        return ActorClass, (self.__wrapped__, self._options, self._interface)


if TYPE_CHECKING:

    class _Class(Protocol[P, R_co]):
        """A class, for type checkers that match classes with protocols."""

        @property
        def __mro__(self) -> tuple[type, ...]: ...
        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    class _Wraps(Protocol[P, R_co]):
        @property
        def __wrapped__(self) -> Callable[P, R_co]: ...

    class _TypedClass(ActorClass[..., T], Generic[T]):
        """An actor class whose parameters are read from the class when it is used."""

        @property
        def __wrapped__(self) -> type[T]: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # it is one
        def remote(  # type: ignore[override]  # the same, more exactly
            self: _Wraps[P, T], /, *args: P.args, **kwargs: P.kwargs
        ) -> ActorHandle[T]: ...
        def spawn(  # type: ignore[override]  # the same, more exactly
            self: _Wraps[P, T], /, *args: P.args, **kwargs: P.kwargs
        ) -> T: ...
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
        ) -> UntypedFunction[P]: ...
        @overload
        def __call__(  # type: ignore[overload-overlap]  # what yields is the one
            self, function: Callable[P, Iterator[T] | AsyncIterator[T]], /
        ) -> GeneratorFunction[P, T]: ...
        @overload
        def __call__(  # type: ignore[overload-overlap]  # an async def is the one
            self, function: Callable[P, Coroutine[Any, Any, T]], /
        ) -> RemoteFunction[P, T]: ...
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
        ) -> UntypedFunction[P]: ...
        @overload
        def __call__(  # type: ignore[overload-overlap]  # what yields is the one
            self, function: Callable[P, Iterator[T] | AsyncIterator[T]], /
        ) -> GeneratorFunction[P, T]: ...
        @overload
        def __call__(  # type: ignore[overload-overlap]  # an async def is the one
            self, function: Callable[P, Coroutine[Any, Any, T]], /
        ) -> RemoteFunction[P, T]: ...
        @overload
        def __call__(self, function: Callable[P, T], /) -> RemoteFunction[P, T]: ...


@overload
def remote(cls: _Class[P, T], /) -> ActorClass[P, T]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # a class is the one
@overload
def remote(cls: type[T], /) -> _TypedClass[T]: ...  # type: ignore[overload-overlap]  # a class is the one
@overload
def remote(function: Callable[P, NoReturn], /) -> UntypedFunction[P]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # what gives Any is no generator: this takes it before that
@overload
def remote(  # type: ignore[overload-overlap]  # what yields is the one
    function: Callable[P, Iterator[T] | AsyncIterator[T]], /
) -> GeneratorFunction[P, T]: ...
@overload
def remote(  # type: ignore[overload-overlap]  # an async def is the one
    function: Callable[P, Coroutine[Any, Any, T]], /
) -> RemoteFunction[P, T]: ...
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
    """Turns a class into an actor class, or a function into a remote function.

    Use ``@remote`` without options, or ``@remote(num_gpus=0.5)`` for an actor that
    holds half a GPU for life, or a function that holds it while it runs. It may also be
    called: ``remote(cls)``. It starts nothing.

    Args:
        *given: The class, or the function.
        **options: The options of each actor, or of each call of the function, by name.
            ``help(actorlib.types.ActorOptions)`` describes each option of a class, and
            ``help(actorlib.types.FunctionOptions)`` each option of a function.

    Returns:
        An ActorClass, a RemoteFunction or, for a generator, a GeneratorFunction; with
        options only, the decorator.

    Raises:
        TypeError: It decorates something else, a value has the wrong type, or an option
            is unknown.
        ValueError: A value is out of range, or the option is for another kind of
            function. The message names the option, its values and the wrong one.

    Example:
        >>> @actorlib.remote(num_gpus=0.5)
        ... class Model:
        ...     def predict(self, x):
        ...         return x + 1
        >>> model = Model.remote()
        >>> await model.predict.remote(41)
        42
        >>> @actorlib.remote(num_cpus=1)
        ... def double(x):
        ...     return 2 * x
        >>> await double.remote(21)
        42
    """
    if not given:
        if not options:
            raise TypeError(
                "write @remote without brackets, or give it options: "
                "@remote(num_gpus=0.5)"
            )
        settings = _with_actor_ids(options)
        words = settings.keys()
        is_for_functions = words <= options_by_word(FunctionOptions).keys()
        if not (is_for_functions and words - options_by_word(ActorOptions).keys()):
            checked_as(ActorOptions, settings)
        if is_for_functions:
            checked_as(FunctionOptions, settings)
        return functools.partial(_decorated, options=settings)
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
        raise TypeError(
            f"{given!r} is an actor class already: @remote takes plain classes. Use "
            ".options(...) to change its options"
        )
    if isinstance(given, RemoteFunction):
        raise TypeError(
            f"{given!r} is a remote function already: @remote takes a plain one, or a "
            "class. Use .options(...) to change its options"
        )
    if inspect.isfunction(given):
        return make_function(given, checked_as(FunctionOptions, options))
    if not inspect.isclass(given):
        raise wrong_type(
            "@remote takes a class whose instances become actors, or a function "
            "written in Python",
            given,
        )
    hooks_of(given)  # refuses wrong ones
    return ActorClass(given, checked_as(ActorOptions, options), interface_of(given))


def _is_importable(cls: ActorClass[..., Any]) -> bool:
    """Whether other processes can import it by its name."""
    plain = cast("type", cls.__wrapped__)
    return found_by_name(plain.__module__, plain.__qualname__) is cls


def use_engine(
    target: ActorClass[..., Any] | RemoteFunction[..., Any],
    engine: Callable[[], Engine],
) -> None:
    """Sets the function that each ``.remote()`` calls to find its engine."""
    target._engine = engine  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this subpackage


def interface_and_options(cls: ActorClass[..., Any]) -> tuple[Interface, ActorOptions]:
    """Returns the interface of an actor class, and the options of its actors."""
    return cls._interface, cls._options  # pyright: ignore[reportPrivateUsage]  # of this file


def create_in_slot(
    cls: ActorClass[..., T],
    slot: int,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
) -> ActorHandle[T]:
    """Creates an actor as ``remote`` does, which is one of several replicas.

    Its label has the slot, its number among them: ``Model[2]``.
    """
    return cls._create(args, kwargs, slot)  # pyright: ignore[reportPrivateUsage]  # of this file


def _derived(origin: ActorClass[P, T], options: ActorOptions) -> ActorClass[P, T]:
    interface = origin._interface  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    return ActorClass(origin.__wrapped__, options, interface, origin)


def _with_actor_ids(options: Mapping[str, object]) -> dict[str, object]:
    """Replaces the handles in ``near`` and ``apart_from`` by ids.

    So options keep no actor alive.
    """
    settings = with_group_spec(options)
    for name in ("near", "apart_from"):
        value = settings.get(name)
        if value is None:
            continue
        is_list = name == "apart_from" and isinstance(value, list | tuple)
        actors = cast("Sequence[object]", value if is_list else (value,))
        if not all(isinstance(actor, ActorHandle) for actor in actors):
            raise wrong_type(f"{name} takes the handle of an actor", settings[name])
        handles = cast("Sequence[ActorHandle[Any]]", actors)
        settings[name] = tuple(pin_of(handle).actor_id for handle in handles)
    return settings
