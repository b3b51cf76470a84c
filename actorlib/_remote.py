"""``@remote``: a class becomes an ActorClass, whose instances live in workers."""

from __future__ import annotations

import functools
import inspect
import sys
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NoReturn,
    ParamSpec,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from actorlib._checks import checked
from actorlib._engine import ActorSpec, Hold, current_engine
from actorlib._handle import ActorHandle, hold_of
from actorlib._interface import Interface, interface_of
from actorlib._options import RAYS_NAMES, ActorKeywords, ActorOptions
from actorlib._placement_group import grouped, with_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

P = ParamSpec("P")
T = TypeVar("T")


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
        if origin is None:
            functools.update_wrapper(self, cls, updated=())
        self.__wrapped__ = cls
        self._options = options
        self._interface = interface
        self._face = interface.under(options)
        self._origin = origin or self

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
        engine = current_engine()
        spec = ActorSpec(
            source=self._origin,
            interface=self._face,
            args=args,
            kwargs=kwargs,
            options=grouped(self._interface.class_name, _settled(self._options)),
        )
        if self._options.get_if_exists:
            return ActorHandle(engine.obtain(spec))
        return ActorHandle(Hold(engine, engine.create(spec), self._face))

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
        qualname: str = cast("type", self.__wrapped__).__qualname__
        if _found_by_name(self.__wrapped__.__module__, qualname) is self:
            return qualname
        # The interface travels too: a class sent by value may name its own actor class
        # in a method, which is then loaded before the class has its methods.
        return ActorClass, (self.__wrapped__, self._options, self._interface)


@overload
def remote(cls: Callable[P, T], /) -> ActorClass[P, T]: ...
@overload
def remote(
    **options: Unpack[ActorKeywords],
) -> Callable[[Callable[P, T]], ActorClass[P, T]]: ...
def remote(*given: object, **options: Any) -> object:
    """Turns a class into an actor class.

    ``@remote`` for an actor that asks for nothing, ``@remote(num_gpus=0.5)`` for one
    that holds half a GPU for life. ``remote(cls)`` is the same as a function.

    Args:
        *given: The class.
        **options: What each actor asks for; see ActorOptions.

    Raises:
        TypeError: It decorates something that is no class, or a value has the wrong
            type.
        ValueError: An option is unknown or its value out of range.
    """
    if not given:
        if not options:
            raise TypeError(
                "write @remote without brackets, or give it options: "
                "@remote(num_gpus=0.5)"
            )
        checked_options = checked(ActorOptions, "an actor", _with_ids(options))

        def decorate(cls: object) -> ActorClass[..., Any]:
            return _decorated(cls, options=checked_options)

        return decorate
    if len(given) > 1 or options:
        raise TypeError(
            "@remote takes either the class or options by name: @remote(num_gpus=0.5)"
        )
    return _decorated(*given, options=ActorOptions())


def _decorated(cls: object, *, options: ActorOptions) -> ActorClass[..., Any]:
    if isinstance(cls, ActorClass):
        raise TypeError(f"{cls!r} is an actor class already")
    if not inspect.isclass(cls):
        raise TypeError(
            f"@remote takes a class whose instances become actors, not {cls!r} "
            f"({type(cls).__name__})"
        )
    return ActorClass(cls, options, interface_of(cls))


def plan_of(cls: ActorClass[..., Any]) -> tuple[Interface, ActorOptions]:
    """The face of an actor class and what each of its actors asks for."""
    return cls._interface, cls._options  # pyright: ignore[reportPrivateUsage]  # of this file


def class_of(source: object) -> type:
    """The user's class behind what a worker has unpickled."""
    return cast("type", getattr(source, "__wrapped__", source))


def _found_by_name(module: str, qualname: str) -> object:
    """What a worker would find under that name, or None if it could not look there."""
    if module == "__main__" or "<locals>" in qualname:
        return None
    found: object = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def _derived(origin: ActorClass[P, T], options: ActorOptions) -> ActorClass[P, T]:
    interface = origin._interface  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    return ActorClass(origin.__wrapped__, options, interface, origin)


def _settled(options: ActorOptions) -> ActorOptions:
    """The options with an absolute ``working_dir``, which has to be there."""
    env = options.runtime_env
    if env is None or "working_dir" not in env:
        return options
    path = Path(env["working_dir"]).expanduser().absolute()
    if not path.is_dir():
        raise NotADirectoryError(
            f"working_dir={env['working_dir']!r} is no directory here ({path})"
        )
    return options.updated({"runtime_env": {**env, "working_dir": str(path)}})


def _with_ids(options: Mapping[str, object]) -> dict[str, object]:
    """The options with ids in the place of handles: a wish keeps no actor alive."""
    named = {RAYS_NAMES.get(name, name): value for name, value in options.items()}
    given = with_spec(named)
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
