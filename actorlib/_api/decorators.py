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
    Union,
    Unpack,
    cast,
    overload,
)

from actorlib._api.actor_handle import ActorHandle, pin_of
from actorlib._api.bindings import CurrentSource, found_by_name
from actorlib._api.group_options import with_current_group, with_group_spec
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

    from actorlib._api.remote_function import UntypedFunction
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
            functools.update_wrapper(cast("Any", self), cls, updated=())
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
            ValueError: It does not fit into the placement group that it is to be in, or
                it asks for ``torch=True`` and is in no bundle of one.
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

    def spawn(self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Creates an actor as ``remote`` does, with a handle that type checkers know.

        To a type checker the handle is an instance of the class, so it completes the
        methods under ``@actorlib.method``, and checks their arguments and results. What
        it returns is an ActorHandle: ``spawn(...)`` is ``typed(remote(...))``.

        Args:
            *args: For the constructor; see ``remote``.
            **kwargs: Likewise.

        Raises:
            TypeError: As ``remote`` does, and for the same reasons all else.

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
        """``.options(...).remote(*args, **kwargs)``, as older scripts write it."""
        create = cast("Callable[..., ActorHandle[T]]", self.options(**options).remote)
        return create(*(args or ()), **(kwargs or {}))

    def options(self, /, **options: Unpack[ActorKeywords]) -> ActorClass[P, T]:
        """The same class with some options replaced; those not named stay as they are.

        Args:
            **options: What each of its actors asks for, by name:
            num_cpus: How many CPUs the actor holds for life, 0 or more. Fractions are
                exact to 1/10 000. Default: None, which is 0.
            num_gpus: How many GPUs the actor holds for life, 0 or more. A number below
                1 is a share of one device; above 1 it has to be whole. Default: None,
                which is 0.
            gpu_memory: How much memory of one GPU the actor holds for life: bytes, 1 or
                more, or a size such as ``"10GiB"``. Its share is that part of the card
                it is placed on. If ``num_gpus`` is given, too, it is 1 at the most, and
                the larger of the two counts. Default: None, for as much memory as goes
                with ``num_gpus``.
            memory: How much memory of the machine the actor is counted with: bytes, 0
                or more, or a size such as ``"2GiB"``. On Linux the log warns once if
                the actor takes more, unless ``enforcement`` is off. Default: None,
                which is 0.
            resources: Amounts of other devices, such as ``{"TPU": 4}``, and of
                resources of your own, by name. Default: None, for none.
            accelerator_type: The model that its devices have to be: a constant of
                ``actorlib.accelerators.types``, or a name that ``actorlib devices``
                shows. Default: None, for any.
            placement: Which device a share is taken from: ``"pack"`` takes the fullest
                one that has room, ``"spread"`` the emptiest. Default: None, which is
                pack.
            device: The device that it has to be on, by id, UUID or PCI address; a list
                names as many as it asks for. Default: None, for any.
            near: The handle of another actor. This one is placed on a device of that
                actor, or on a device that is linked to one. Default: None, for
                anywhere.
            apart_from: The handle of another actor, or a list of handles. This one is
                placed on other devices than theirs. Default: None, for anywhere.
            placement_group: The placement group that the actor is placed in; None for
                no group. Default: ``"default"``, which is the group of the actor that
                makes it, if that actor captures.
            placement_group_bundle_index: Which bundle of the group, counted from 0; -1
                is any that has room. Default: -1.
            placement_group_capture_child_tasks: If True, actors that this one makes go
                into its group, unless they name another. Default: None, which is what
                the actor has that makes it.
            scheduling_strategy: A PlacementGroupSchedulingStrategy, which says the same
                as the three options above, or ``"DEFAULT"``. Default: None.
            accelerators: What the actor sees of accelerators that it did not ask for:
                nothing with ``"hide"``, what your program sees with ``"inherit"``.
                Default: None, which is hide, unless the variable
                ``ACTORLIB_HIDE_DEVICES`` is 0.
            enforcement: Who keeps the actor to its share, if that is less than a whole
                device; see ``init``. The actor is placed on a device that can have what
                is named, and fails with ActorUnschedulableError if none can. Default:
                None, which is what the runtime has.
            mps_thread_percentage: With ``enforcement="mps"``, the percentage of the
                GPU's multiprocessors that each process of the actor may use at once, 1
                to 100. This is a ceiling and reserves nothing: others may use the same
                ones. Default: None, which is all of them, whatever the share is.
            device_memory_overuse: What happens if its processes take more of a GPU's
                memory than its share: ``"warn"``, ``"kill"``, or a function of your
                program, which code in a worker cannot give; see ``init``. Default:
                None, which is what the runtime has.
            torch: If True, the actor is a rank of its placement group, with the number
                of its bundle. It finds in its environment what ``torch.distributed``
                reads: ``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``, ``LOCAL_WORLD_SIZE``,
                ``MASTER_ADDR`` and ``MASTER_PORT``. If one rank dies, all of them are
                ended, and restarted if each may be. A name instead of True tells
                several gangs in one group apart. Default: False.
            max_concurrency: How many calls run at once, 1 or more. They start in the
                order in which they came. A class without ``async def`` methods runs
                them in as many threads. Default: None (or 0), which is 1000 if a method
                is an ``async def``, else 1.
            concurrency_groups: Groups of methods by name, each with how many of its
                calls run at once, 1 or more: ``{"io": 2}``. Methods without a group
                share ``max_concurrency``. A group of plain methods runs them in threads
                of its own; one that has an ``async def`` runs all of its methods on a
                loop of its own. Default: None, for no groups.
            max_pending_calls: How many calls of this actor one process may have that
                are not answered yet. One more raises PendingCallsLimitExceeded.
                Default: None (or 0, or -1), which is any number.
            max_unread_items: How many items of all streams of the actor together may
                wait for their readers, 1 or more; -1 for any number. Default: None,
                which is what each stream allows.
            allow_out_of_order_execution: If True, a call may run before an earlier one
                whose arguments are not ready. Default: None, which is True if the actor
                runs several calls at once.
            name: The name by which ``get_actor`` finds the actor while it lives. If a
                living actor of the namespace has the name, ActorAlreadyExistsError is
                raised. Default: None, for no name.
            namespace: The namespace that the name is in. Default: None, which is the
                runtime's.
            lifetime: With ``"detached"`` the actor lives until it is killed or the
                runtime ends, also if nobody holds a handle of it and if the actor that
                made it is gone. Default: None, which is ``"non_detached"``.
            get_if_exists: If True and a living actor has the name, ``.remote()``
                returns its handle instead of raising. Default: False.
            runtime_env: ``{"env_vars": {...}, "working_dir": "..."}``: environment
                variables of its process, which are set before any of your code is
                imported, and the directory that it works in and imports from. Actors
                that it makes inherit both. Default: None, which is the runtime's.
            max_restarts: How often the actor is made anew, with the same arguments,
                after an end that nobody asked for; -1 for always. Default: 0.
            restart_window: Only restarts within the last so many seconds count for
                ``max_restarts``, 0 or more. Default: None: all restarts of its life
                count.
            restart_backoff: Seconds that an actor waits before it is restarted if it
                died soon after a restart, 0 or more. They double each time, up to 30.
                The first restart is at once. Default: 0.5.
            max_task_retries: How often a call is sent again that was on its way when
                the actor died; -1 for always. A method or a call may say otherwise.
                Default: 0.
            retry_exceptions: Which exceptions of a method make its call be sent again,
                as often as ``max_task_retries`` says: True for all, or a list of
                classes. A method or a call may say otherwise. Default: False.

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
        return sorted({*self._interface.methods, "options", "remote", "spawn"})

    def __repr__(self) -> str:
        return f"ActorClass({self._interface.class_name})"

    if not TYPE_CHECKING:  # type checkers refuse it by themselves

        def __call__(self, *_: object, **__: object) -> NoReturn:
            """Refuses: an instance would look like an actor and be none."""
            name = self._interface.class_name
            raise TypeError(
                "an actor class cannot be instantiated directly: write "
                f"{name}.remote(...) instead of {name}(...)"
            )

        # To type checkers that know it, a decorated class is its class in annotations.
        def __or__(self, other: object) -> object:
            """Makes an annotation: ``Model | None``."""
            return Union[self, other]  # noqa: UP007  # it is what | calls

        def __ror__(self, other: object) -> object:
            """Makes likewise: ``None | Model``."""
            return Union[other, self]  # noqa: UP007  # likewise

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
        def spawn(  # type: ignore[override]  # likewise
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
        ) -> UntypedFunction[P]: ...
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
def remote(function: Callable[P, NoReturn], /) -> UntypedFunction[P]: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # what gives Any is no generator: this takes it before that
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
        num_cpus: How many CPUs an actor holds for life, or a call of a function while
            it runs, 0 or more. Fractions are exact to 1/10 000. Default: None, which is
            0 for an actor, and for a function 0 if it asks for an accelerator, else 1.
        num_gpus: How many GPUs are held likewise, 0 or more. A number below 1 is a
            share of one device; above 1 it has to be whole. Default: None, which is 0.
        gpu_memory: How much memory of one GPU is held likewise: bytes, 1 or more, or a
            size such as ``"10GiB"``. The share is that part of the card it is placed
            on. If ``num_gpus`` is given, too, it is 1 at the most, and the larger of
            the two counts. Default: None, for as much memory as goes with ``num_gpus``.
        memory: How much memory of the machine is counted likewise: bytes, 0 or more, or
            a size such as ``"2GiB"``. Default: None, which is 0.
        resources: Amounts of other devices, such as ``{"TPU": 4}``, and of resources of
            your own, by name. Default: None, for none.
        accelerator_type: The model that its devices have to be: a constant of
            ``actorlib.accelerators.types``, or a name that ``actorlib devices`` shows.
            Default: None, for any.
        placement: Which device a share is taken from: ``"pack"`` takes the fullest one
            that has room, ``"spread"`` the emptiest. Default: None, which is pack.
        device: The device that it has to be on, by id, UUID or PCI address; a list
            names as many as it asks for. Default: None, for any.
        near: Actors only. The handle of another actor. This one is placed on a device
            of that actor, or on a device that is linked to one. Default: None, for
            anywhere.
        apart_from: Actors only. The handle of another actor, or a list of handles. This
            one is placed on other devices than theirs. Default: None, for anywhere.
        placement_group: The placement group that it is placed in; None for no group.
            Default: ``"default"``, which is the group of the code that makes or calls
            it, if that code captures.
        placement_group_bundle_index: Which bundle of the group, counted from 0; -1 is
            any that has room. Default: -1.
        placement_group_capture_child_tasks: If True, what it makes and calls goes into
            its group, unless that names another. Default: None, which is what the code
            has that makes or calls it.
        scheduling_strategy: A PlacementGroupSchedulingStrategy, which says the same as
            the three options above, or ``"DEFAULT"``. Default: None.
        accelerators: What it sees of accelerators that it did not ask for: nothing with
            ``"hide"``, what your program sees with ``"inherit"``. Default: None, which
            is hide, unless the variable ``ACTORLIB_HIDE_DEVICES`` is 0.
        enforcement: Who keeps an actor or a call to its share, if that is less than a
            whole device; see ``init``. If no device can have what is named, it fails
            with ActorUnschedulableError or TaskUnschedulableError. Default: None, which
            is what the runtime has.
        mps_thread_percentage: With ``enforcement="mps"``, the percentage of the GPU's
            multiprocessors that each process may use at once, 1 to 100. This is a
            ceiling and reserves nothing: others may use the same ones. Default: None,
            which is all of them, whatever the share is.
        device_memory_overuse: What happens if its processes take more of a GPU's memory
            than its share: ``"warn"``, ``"kill"``, or a function of your program, which
            code in a worker cannot give; see ``init``. Default: None, which is what the
            runtime has.
        torch: If True, an actor or a call is a rank of its placement group. It finds in
            its environment what ``torch.distributed`` reads: ``RANK``, ``WORLD_SIZE``,
            ``LOCAL_RANK``, ``LOCAL_WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``.
            An actor has the number of its bundle, and a function is called by
            ``group.map``. A name instead of True tells several gangs in one group
            apart. Default: False.
        max_concurrency: Actors only. How many calls run at once, 1 or more. They start
            in the order in which they came. A class without ``async def`` methods runs
            them in as many threads. Default: None (or 0), which is 1000 if a method is
            an ``async def``, else 1.
        concurrency_groups: Actors only. Groups of methods by name, each with how many
            of its calls run at once, 1 or more: ``{"io": 2}``. Methods without a group
            share ``max_concurrency``. A group of plain methods runs them in threads of
            its own; one that has an ``async def`` runs all of its methods on a loop of
            its own. Default: None, for no groups.
        max_pending_calls: Actors only. How many calls of this actor one process may
            have that are not answered yet. One more raises PendingCallsLimitExceeded.
            Default: None (or 0, or -1), which is any number.
        max_unread_items: Actors only. How many items of all streams of the actor
            together may wait for their readers, 1 or more; -1 for any number. Default:
            None, which is what each stream allows.
        allow_out_of_order_execution: Actors only. If True, a call may run before an
            earlier one whose arguments are not ready. Default: None, which is True if
            the actor runs several calls at once.
        name: Of an actor, the name by which ``get_actor`` finds it while it lives; if a
            living actor of the namespace has the name, ActorAlreadyExistsError is
            raised. Of a function, the name that messages call it by. Default: None, for
            no name.
        namespace: Actors only. The namespace that the name is in. Default: None, which
            is the runtime's.
        lifetime: Actors only. With ``"detached"`` the actor lives until it is killed or
            the runtime ends, also if nobody holds a handle of it and if the actor that
            made it is gone. Default: None, which is ``"non_detached"``.
        get_if_exists: Actors only. If True and a living actor has the name,
            ``.remote()`` returns its handle instead of raising. Default: False.
        runtime_env: ``{"env_vars": {...}, "working_dir": "..."}``: environment
            variables of its process, which are set before any of your code is imported,
            and the directory that it works in and imports from. Actors that it makes
            inherit both. Default: None, which is the runtime's.
        max_restarts: Actors only. How often the actor is made anew, with the same
            arguments, after an end that nobody asked for; -1 for always. Default: 0.
        restart_window: Actors only. Only restarts within the last so many seconds count
            for ``max_restarts``, 0 or more. Default: None: all restarts of its life
            count.
        restart_backoff: Actors only. Seconds that an actor waits before it is restarted
            if it died soon after a restart, 0 or more. They double each time, up to 30.
            The first restart is at once. Default: 0.5.
        max_task_retries: Actors only. How often a call is sent again that was on its
            way when the actor died; -1 for always. A method or a call may say
            otherwise. Default: 0.
        retry_exceptions: Which exceptions of a method, or of the function, make a call
            be sent again, as often as ``max_task_retries`` or ``max_retries`` says:
            True for all, or a list of classes. Default: False.
        max_calls: Functions only. How many calls a process runs before it ends; 0 for
            any number. Default: None, which is 1 if a device is asked for, as the
            device's memory is only free when the process is gone, else 0.
        max_retries: Functions only. How often a call is made again if its process dies;
            -1 for always. Default: 3.
        num_returns: Functions only. How many refs a call gives. 2 is for a function
            that returns a tuple of two or yields two values, 0 is for none,
            ``"streaming"`` is for generators. Default: None, which is streaming for
            generators, else 1.
        backpressure: Functions only. For generators: how many items it may be ahead of
            its reader, 1 or more; -1 for any number. Default: None, which is 256 items
            or 8 MiB, whichever comes first.
        detach: Functions only. For generators: if True, it runs to its end also if
            nobody reads it any more, and its items are thrown away. Default: None,
            which is False: it is cancelled.
        timeout: Functions only. How many seconds the call may take, above 0. Then it
            fails with DeadlineExceededError and is cancelled, with everything that it
            called. Time counts while the call waits for its arguments, waits in line,
            and runs. Default: None, for any time.

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
