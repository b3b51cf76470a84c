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
    TypeVar,
    Unpack,
    cast,
    overload,
)

from actorlib._api.actor_handle import ActorHandle, pin_of
from actorlib._api.bindings import CurrentSource, found_by_name
from actorlib._api.placement_group import with_current_group, with_group_spec
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
from actorlib._core.hooks import hooks_of
from actorlib._core.interface import Interface, interface_of
from actorlib._core.public import public
from actorlib._core.runtime_env import resolved_env

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
                Nothing was made, here and in all that follows.
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
            sent=_pickled_as(source),
            interface=self._actor_interface,
            args=args,
            kwargs=kwargs,
            options=with_current_group(
                self._interface.class_name, _with_resolved_env(self._options)
            ),
        )
        if self._options.get_if_exists:
            return ActorHandle(engine.obtain(spec))
        name = spec.options.name
        return ActorHandle(
            HandlePin(engine, engine.create(spec), self._actor_interface, name)
        )

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
        """The same class with some options replaced; those not named stay as they are.

        Args:
            **options: What each of its actors asks for, by name:
            num_cpus: CPUs that it holds for life, 0 or more, parts of one to 1/10 000.
                Default: None, which is 0.
            num_gpus: GPUs that it holds for life, 0 or more; below 1 a share of one
                device, above 1 whole ones. Default: None, which is 0.
            gpu_memory: Bytes of one GPU's memory that it holds for life, 1 or more, or
                words (``"10GiB"``). Its share is as much of the card that it gets as
                they come to there, and ``num_gpus`` (1 at the most then) if that is
                more. Default: None, for the memory of the share that ``num_gpus`` is.
            memory: Bytes of memory that it is counted with, 0 or more, or words
                (``"2GiB"``). On Linux the log tells of an actor that has more, once,
                unless its enforcement is off. Default: None, which is 0.
            resources: Amounts of other devices (``{"TPU": 4}``) and of custom
                resources, by name. Default: None, for none.
            accelerator_type: The model of its devices: a constant of
                ``actorlib.accelerators.types``, or what ``actorlib devices`` calls
                them. Default: None, for any.
            placement: ``"pack"`` shares the fullest device that has room, ``"spread"``
                the emptiest. Default: None, which is pack.
            device: The id or UUID of the device that it has to be on, or a list of as
                many as it asks for. Default: None, for any.
            near: The handle of an actor: its own device is on the same device as one of
                that actor's, or linked to one. Default: None, for anywhere.
            apart_from: The handle of an actor, or several: its devices are others.
                Default: None, for anywhere.
            placement_group: The group in one of whose bundles it is placed; None for
                none. Default: ``"default"``, the group of the actor that makes it, if
                that one captures.
            placement_group_bundle_index: Which bundle, from 0; -1 is any that has room.
                Default: -1.
            placement_group_capture_child_tasks: Whether actors that it makes go into
                its group, unless they say another. Default: None, which does as the
                actor that makes it.
            scheduling_strategy: A PlacementGroupSchedulingStrategy, which says the same
                as the three above, or ``"DEFAULT"``. Default: None.
            accelerators: ``"hide"`` closes every accelerator that the actor did not ask
                for; ``"inherit"`` leaves them as the owner sees them. Default: None,
                which follows ``ACTORLIB_HIDE_DEVICES`` (hide, unless it is 0).
            enforcement: What makes its share hold if that is below a whole device; see
                ``init``. It is placed where what is named can be had, and fails with
                ActorUnschedulableError if that is nowhere. Default: None, which is what
                the runtime has.
            mps_thread_percentage: Under ``enforcement="mps"``, the percentage of its
                GPU's multiprocessors that each process of the actor may use at once, 1
                to 100. A ceiling, no reservation: others may use the same ones.
                Default: None, which is all of them, whatever the share is.
            device_memory_overuse: What happens if its processes have more of a GPU's
                memory than its share: ``"warn"``, ``"kill"`` or a function, which
                workers cannot give; see ``init``. Default: None, which is what the
                runtime has.
            max_concurrency: How many calls run at once, 1 or more; they start in the
                order in which they came. More than 1 without an ``async def`` method
                makes threads. Default: None (or 0), which is 1000 where a method is an
                ``async def``, else 1.
            concurrency_groups: Names of groups of methods, each with how many of its
                calls run at once, 1 or more (``{"io": 2}``). The others share
                ``max_concurrency``. Plain methods of a group run on threads of its own.
                Default: None, for no groups.
            max_pending_calls: How many calls without an answer one process may have;
                one more raises PendingCallsLimitExceeded. Default: None (or 0, or -1),
                which is any number.
            max_unread_items: How many items of all its streams together may be unread,
                1 or more; -1 for any number. Default: None, which is what each stream
                allows.
            allow_out_of_order_execution: Whether a call whose argument is not there
                lets later ones pass. Default: None: if the actor runs several at once.
            name: What ``get_actor`` finds it by while it lives, one of a kind in its
                namespace: ActorAlreadyExistsError if a living actor has it. Default:
                None, for no name.
            namespace: Where its name is looked for. Default: None, which is the
                runtime's.
            lifetime: ``"detached"`` lives without a handle, and without the actor that
                made it, until it is killed or the runtime ends. Default: None, which is
                ``"non_detached"``.
            get_if_exists: Whether ``.remote()`` gives the handle of the actor that has
                the name, if there is one, instead of raising. Default: False.
            runtime_env: ``{"env_vars": {...}, "working_dir": "..."}``: variables of its
                process, set before any of the user's code is imported and passed on to
                the actors it makes, and the directory that it works in and imports
                from. Default: None, which is the runtime's.
            max_restarts: How often it is made anew, with the same arguments, after an
                end that nobody asked for; -1 always. Default: 0.
            restart_window: The seconds within which ``max_restarts`` counts, 0 or more.
                Default: None, which is its whole life.
            restart_backoff: Seconds before it is restarted if it died soon after a
                restart, 0 or more; they double each time. The first restart is at once.
                Default: 0.5.
            max_task_retries: How often a call that was on its way when the actor died
                is sent again after the restart; -1 always. A method or a call may say
                otherwise. Default: 0.
            retry_exceptions: Which exceptions of a method are retried likewise: True
                for all, or a list of classes. A method or a call may say otherwise.
                Default: False.

        Returns:
            Another actor class; this one does not change.

        Raises:
            TypeError: A value has the wrong type.
            ValueError: An option is unknown or its value out of range. The message
                names the option, what it takes and what was given.

        Example:
            >>> @actorlib.remote
            ... class Counter:
            ...     def ping(self):
            ...         return "pong"
            >>> counter = Counter.options(num_gpus=0.25, name="c1").remote()
            >>> await actorlib.get_actor("c1").ping.remote()
            'pong'
        """
        updated = self._options.updated(_with_actor_ids(options))
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
        if _is_importable(self):
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
    ``remote(cls)`` is the same as a function. Nothing is started by it.

    Args:
        *given: The class, or the function.
        **options: What each actor asks for, or each call of the function, by name:
        num_cpus: CPUs that an actor holds for life and a call of a function while it
            runs, 0 or more, parts of one to 1/10 000. Default: None, which is 0 for an
            actor; for a function 0 where it asks for an accelerator, and 1 elsewhere.
        num_gpus: GPUs that are held likewise, 0 or more; below 1 a share of one device,
            above 1 whole ones. Default: None, which is 0.
        gpu_memory: Bytes of one GPU's memory that are held likewise, 1 or more, or
            words (``"10GiB"``). The share is as much of the card that is granted as
            they come to there, and ``num_gpus`` (1 at the most then) if that is more.
            Default: None, for the memory of the share that ``num_gpus`` is.
        memory: Bytes of memory that are counted likewise, or words. Default: None,
            which is 0.
        resources: Amounts of other devices (``{"TPU": 4}``) and of custom resources, by
            name. Default: None, for none.
        accelerator_type: The model of its devices: a constant of
            ``actorlib.accelerators.types``, or what ``actorlib devices`` calls them.
            Default: None, for any.
        placement: ``"pack"`` shares the fullest device that has room, ``"spread"`` the
            emptiest. Default: None, which is pack.
        device: The id or UUID of the device that it has to be on, or a list of as many
            as it asks for. Default: None, for any.
        near: Of actors alone. The handle of an actor: its own device is on the same
            device as one of that actor's, or linked to one. Default: None, for
            anywhere.
        apart_from: Of actors alone. The handle of an actor, or several: its devices are
            others. Default: None, for anywhere.
        placement_group: The group in one of whose bundles it is placed; None for none.
            Default: ``"default"``, the group of the code that makes or calls it, if
            that one captures.
        placement_group_bundle_index: Which bundle, from 0; -1 is any that has room.
            Default: -1.
        placement_group_capture_child_tasks: Whether what it calls and makes goes into
            its group, unless that says another. Default: None, which does as the code
            that makes or calls it.
        scheduling_strategy: A PlacementGroupSchedulingStrategy, which says the same as
            the three above, or ``"DEFAULT"``. Default: None.
        accelerators: ``"hide"`` closes every accelerator that it did not ask for;
            ``"inherit"`` leaves them as the owner sees them. Default: None, which
            follows ``ACTORLIB_HIDE_DEVICES`` (hide, unless it is 0).
        enforcement: What makes a share hold that is below a whole device; see ``init``.
            What no device can have fails with ActorUnschedulableError, or
            TaskUnschedulableError. Default: None, which is what the runtime has.
        mps_thread_percentage: Under ``enforcement="mps"``, the percentage of its GPU's
            multiprocessors that each process of it may use at once, 1 to 100. A
            ceiling, no reservation: others may use the same ones. Default: None, which
            is all of them, whatever the share is.
        device_memory_overuse: What happens if its processes have more of a GPU's memory
            than its share: ``"warn"``, ``"kill"`` or a function, which workers cannot
            give; see ``init``. Default: None, which is what the runtime has.
        max_concurrency: Of actors alone. How many calls run at once, 1 or more; they
            start in the order in which they came. More than 1 without an ``async def``
            method makes threads. Default: None (or 0), which is 1000 where a method is
            an ``async def``, else 1.
        concurrency_groups: Of actors alone. Names of groups of methods, each with how
            many of its calls run at once, 1 or more (``{"io": 2}``). The others share
            ``max_concurrency``. Plain methods of a group run on threads of its own.
            Default: None, for no groups.
        max_pending_calls: Of actors alone. How many calls without an answer one process
            may have; one more raises PendingCallsLimitExceeded. Default: None (or 0, or
            -1), which is any number.
        max_unread_items: Of actors alone. How many items of all its streams together
            may be unread, 1 or more; -1 for any number. Default: None, which is what
            each stream allows.
        allow_out_of_order_execution: Of actors alone. Whether a call whose argument is
            not there lets later ones pass. Default: None: if the actor runs several at
            once.
        name: Of an actor: what ``get_actor`` finds it by while it lives, one of a kind
            in its namespace: ActorAlreadyExistsError if a living actor has it. Of a
            function: what its calls are called in messages. Default: None, for no name.
        namespace: Of actors alone. Where its name is looked for. Default: None, which
            is the runtime's.
        lifetime: Of actors alone. ``"detached"`` lives without a handle, and without
            the actor that made it, until it is killed or the runtime ends. Default:
            None, which is ``"non_detached"``.
        get_if_exists: Of actors alone. Whether ``.remote()`` gives the handle of the
            actor that has the name, if there is one, instead of raising. Default:
            False.
        runtime_env: ``{"env_vars": {...}, "working_dir": "..."}``: variables of its
            process, set before any of the user's code is imported and passed on to the
            actors it makes, and the directory that it works in and imports from.
            Default: None, which is the runtime's.
        max_restarts: Of actors alone. How often it is made anew, with the same
            arguments, after an end that nobody asked for; -1 always. Default: 0.
        restart_window: Of actors alone. The seconds within which ``max_restarts``
            counts, 0 or more. Default: None, which is its whole life.
        restart_backoff: Of actors alone. Seconds before it is restarted if it died soon
            after a restart, 0 or more; they double each time. The first restart is at
            once. Default: 0.5.
        max_task_retries: Of actors alone. How often a call that was on its way when the
            actor died is sent again after the restart; -1 always. A method or a call
            may say otherwise. Default: 0.
        retry_exceptions: Which exceptions of a method, or of the function, make a call
            be sent again, as often as ``max_task_retries`` or ``max_retries`` says:
            True for all, or a list of classes. Default: False.
        max_calls: Of functions alone. After how many calls of it a process ends; 0 is
            never. Default: None, which is 1 where a device is asked for, as what a call
            leaves in its memory is only free when its process is gone, and 0 elsewhere.
        max_retries: Of functions alone. How often a call is made again whose process
            died; -1 always. Default: 3.
        num_returns: Of functions alone. How many refs a call gives: 2 for a function
            that returns a tuple of two, or yields two values, 0 for none.
            ``"streaming"`` is for generators. Default: None, which is streaming for
            generators and 1 for others.
        backpressure: Of functions alone. Of a generator: how many items it may be ahead
            of its reader, 1 or more; -1 for any number. Default: None, which is 256
            items or 8 MiB, whichever is met first.
        detach: Of functions alone. Of a generator: True lets it run on to its end when
            nobody reads it any more, with its items thrown away. Default: None, which
            is False: it is cancelled.
        timeout: Of functions alone. Seconds, above 0, from the call until it fails with
            DeadlineExceededError and is cancelled, with everything that it called. They
            count wherever it is: while it waits for its arguments, in line, and
            running. Default: None, for no end.

    Returns:
        An ActorClass, a RemoteFunction or, for what yields, a GeneratorFunction; with
        options and nothing to decorate, the decorator.

    Raises:
        TypeError: It decorates something that is neither, or a value has the wrong
            type.
        ValueError: An option is unknown or its value out of range, or the function is
            an ``async def``. The message names the option, what it
            takes and what was given.

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
        known = set(names_of(FunctionOptions))
        is_for_functions = settings.keys() <= known
        if not (is_for_functions and settings.keys() - names_of(ActorOptions)):
            checked_actor(settings)  # what is wrong is so for functions, too
        if is_for_functions:
            checked_function(settings)
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
        return decorated(given, checked_function(options))
    if not inspect.isclass(given):
        raise TypeError(
            "@remote takes a class whose instances become actors, or a function "
            f"written in Python, not {given!r} ({type(given).__name__})"
        )
    hooks_of(given)  # what is wrong with them is said here
    return ActorClass(given, checked_actor(options), interface_of(given))


def _pickled_as(cls: ActorClass[..., Any]) -> object:
    """What is pickled for a worker: a class by value without its ActorClass."""
    return cls if _is_importable(cls) else cls.__wrapped__


def _is_importable(cls: ActorClass[..., Any]) -> bool:
    """Whether other processes can import it by its name."""
    plain = cast("type", cls.__wrapped__)
    return found_by_name(plain.__module__, plain.__qualname__) is cls


def use_engine(
    made: ActorClass[..., Any] | RemoteFunction[..., Any], engine: Callable[[], Engine]
) -> None:
    """Sets where an actor class, or a remote function, gets its engine from.

    Args:
        made: The actor class or remote function, before it is used.
        engine: Returns the engine, or raises; called by each ``.remote()``.
    """
    made._engine = engine  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file and its like


def interface_and_options(cls: ActorClass[..., Any]) -> tuple[Interface, ActorOptions]:
    """The interface of an actor class, and the options of its actors."""
    return cls._interface, cls._options  # pyright: ignore[reportPrivateUsage]  # of this file


def _derived(origin: ActorClass[P, T], options: ActorOptions) -> ActorClass[P, T]:
    interface = origin._interface  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001  # of this file
    return ActorClass(origin.__wrapped__, options, interface, origin)


def _with_resolved_env(options: ActorOptions) -> ActorOptions:
    """The options with an absolute ``working_dir``, which has to exist."""
    env = resolved_env(options.runtime_env)
    return options if env is None else options.updated({"runtime_env": env})


def _with_actor_ids(options: Mapping[str, object]) -> dict[str, object]:
    """The options with the ids of ``near`` and ``apart_from``, for their handles.

    So options keep no actor alive.
    """
    named = {RAYS_NAMES.get(name, name): value for name, value in options.items()}
    given = with_group_spec(in_our_words(named))
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
        given[name] = tuple(pin_of(handle).actor_id for handle in handles)
    return given
