"""Starts and ends a runtime, and defines the public functions such as ``get()``.

This is the only file that imports engines, and it does so late: ``import actorlib``
loads none, and ``init()`` loads only the chosen one.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import sys
from dataclasses import replace
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    NoReturn,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from actorlib._api.actor_handle import ActorHandle, own_handle, pin_of
from actorlib._api.decorators import ActorClass, interface_and_options
from actorlib._api.placement_group import PlacementGroup
from actorlib._api.remote_function import RemoteFunction, label_and_options
from actorlib._api.waiting import get_all
from actorlib._base.public import public
from actorlib._base.stack_frames import hide_own_frames
from actorlib._base.stdio import fill_standard_streams
from actorlib._base.validation import (
    check_bool,
    check_count,
    check_one_of,
    check_option,
    check_rows,
    check_seconds,
    checked_duration,
    words_of,
)
from actorlib._core.engine import (
    current_engine,
    find_engine,
    note_runtime,
    set_engine,
)
from actorlib._features import runtime as features
from actorlib._futures.object_ref import ObjectRef
from actorlib._futures.stream_reader import ObjectRefGenerator
from actorlib._loops.loop_thread import OTHER_LOOP, ThreadedLoop, new_loop
from actorlib._options.runtime_env import refuse_env, resolved_env
from actorlib._options.runtime_options import (
    RuntimeKeywords,
    RuntimeOptions,
    check_runtime_name,
)
from actorlib.exceptions import (
    ActorlibError,
    TemplateError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
    from contextlib import AbstractContextManager
    from os import PathLike
    from types import TracebackType

    from actorlib._core.engine import RuntimeEngine
    from actorlib._core.runtime_context import RuntimeContext
    from actorlib._features.recording.runtime_trace import Trace
    from actorlib._options.call_events import Middleware
    from actorlib._owner.engine import LocalEngine
    from actorlib._owner.machine import LocalNode
    from actorlib._queries.attach_server import AttachServer
    from actorlib._queries.queries import FindQuery
    from actorlib._rows.snapshot import (
        AllCalls,
        CallInfo,
        LogLine,
        ObjectInfo,
        ObjectOrder,
        Snapshot,
    )
    from actorlib._web.server import PageServer


ENGINE_VARIABLE = "ACTORLIB_ENGINE"
ADDRESS_VARIABLE = "ACTORLIB_ADDRESS"
CONTROL_VARIABLE = "ACTORLIB_CONTROL"


def engine_name(options: RuntimeOptions) -> str:
    if options.engine is not None:
        return options.engine
    name = os.environ.get(ENGINE_VARIABLE) or "local"
    check_one_of(ENGINE_VARIABLE, name, words_of(RuntimeOptions, "engine"))
    return name


def address_of(options: RuntimeOptions, engine: str) -> str | None:
    """Returns the address of the cluster, or None; refuses one for another engine."""
    if engine == "ray":
        return options.address or os.environ.get(ADDRESS_VARIABLE) or None
    if options.address is not None:
        raise ValueError(
            f"address={options.address!r} is for a cluster, and the engine {engine!r} "
            f"has none: write engine='ray' too, or set {ENGINE_VARIABLE}=ray"
        )
    return None


async def start_engine(
    options: RuntimeOptions, engine: str, address: str | None
) -> RuntimeEngine:
    """Starts an engine; see ``init`` for its errors."""
    if engine == "ray":
        from actorlib._ray.cluster import start

        return await start(options, address)
    if engine == "inline":
        from actorlib._inline.launcher import InlineLauncher
        from actorlib._owner.machine import LocalNode

        fill_standard_streams()
        threads = InlineLauncher(asyncio.get_running_loop(), options)
        machine = await LocalNode.open(
            options, threads, features.make_tiers, _load_local
        )
        has_queries = False
    else:
        from actorlib._owner.launching import begin_launcher

        processes = begin_launcher(options)
        # From here on, modules are imported while the template loads.
        from actorlib._owner.machine import LocalNode

        has_queries = has_server(options)
        with _shown_preload(options):
            machine = await LocalNode.open(
                options,
                processes,
                features.make_tiers,
                _load_with_server if has_queries else _load_local,
            )
    local: LocalEngine | None = None
    try:
        local = _load_local()(machine, options)
        features.attach(local, options)
        if has_queries:
            close = _load_with_server()(local, features.find_query)
            if close is not None:
                local.at_end(close)
    except BaseException:
        await (machine if local is None else local).aclose()
        raise
    return local


def _shown_preload(options: RuntimeOptions) -> AbstractContextManager[None]:
    """Shows that modules are being imported, on a terminal, if that takes long."""
    if not options.preload:
        return contextlib.nullcontext()
    from actorlib._api.progress import shown_while

    return shown_while(f"importing {', '.join(options.preload)} for workers")


def check_page(address: str, engine: str) -> None:
    """Makes sure that a runtime can have a page at an address."""
    with features.explain_missing("init(dashboard=...)"):
        from actorlib._web.address import web_address
        from actorlib._web.server import check_installed

    web_address("dashboard", address)

    if engine == "ray":
        raise UnsupportedOptionError(
            "init(dashboard=...) and engine='ray' exclude each other: a cluster has "
            "its own page, at the address that Ray logs (pip install 'ray[default]')"
        )
    check_installed("init(dashboard=...)")


def listening_page(options: RuntimeOptions) -> PageServer | None:
    """Listens at the address of a runtime's page, if it has one."""
    if options.dashboard is None:
        return None
    from actorlib._web.address import web_address
    from actorlib._web.server import PageServer

    address = web_address("dashboard", options.dashboard)
    return PageServer(address, f"init(dashboard={options.dashboard!r})")


def show_page(page: PageServer, engine: LocalEngine) -> None:
    """Shows a runtime on its page until it ends."""
    from actorlib._queries.local_client import LocalClient

    server = LocalClient(engine, features.find_query)

    def close() -> None:
        server.close()
        page.close()

    engine.at_end(close)
    page.start(server.ask)
    page.announce()


def check_name(name: str, engine: str) -> None:
    """Makes sure that the engine of a runtime with a name has clients."""
    if engine == "local":
        return
    reason = (
        "on a cluster other programs find actors by init(engine='ray', address=...)"
        if engine == "ray"
        else "its actors live in this process"
    )
    raise UnsupportedOptionError(
        f"init(name={name!r}) and engine={engine!r} exclude each other: {reason}. The "
        "local engine has clients"
    )


def check_exclusive(engine: str) -> None:
    """Makes sure that devices can belong to one program."""
    if engine == "ray":
        reason = "engine='ray' exclude each other: a cluster assigns its devices itself"
    elif sys.platform != "linux":
        reason = f"{sys.platform} exclude each other: programs need Linux to wait"
    else:
        return
    raise UnsupportedOptionError(
        f"init(devices='exclusive') and {reason}. devices='all' is the default"
    )


def watch_notebook() -> None:
    if "ipykernel" in sys.modules:
        from actorlib._api.notebook import watch_cells

        watch_cells()


def has_server(options: RuntimeOptions) -> bool:
    """Whether a runtime of the local engine answers ``actorlib ps`` and the like."""
    variable = os.environ.get(CONTROL_VARIABLE, "1").lower()
    return options.control and variable not in ("0", "false")


def _load_local() -> Callable[[LocalNode, RuntimeOptions], LocalEngine]:
    """Loads the engine of one machine, which takes as long as its template."""
    from actorlib._owner.engine import LocalEngine

    return LocalEngine


def _load_with_server() -> Callable[
    [RuntimeEngine, FindQuery], Callable[[], None] | None
]:
    """Imports the local engine and its query server."""
    from actorlib._queries.server import open_server

    _load_local()
    return open_server


T = TypeVar("T")
_LOOPS = (asyncio.__file__.rpartition("__init__")[0], "uvloop/")
"""How the paths of the event loops' files begin, as frames name them."""


class OtherRuntime(NamedTuple):
    """The runtime of another process that a client attaches to; see ``attach``."""

    name: str
    namespace: str | None


@public("actorlib")
class Runtime:
    """A runtime of this process: ``async with actorlib.init() as runtime:``.

    It ends with the block, with all its actors: no process, socket or file is left.
    ``runtime = await actorlib.init()`` starts one too; then it lasts until ``await
    runtime.shutdown()``, or until the process ends.

    Example:
        >>> async def main():
        ...     async with actorlib.init(num_cpus=2, engine="inline") as runtime:
        ...         return runtime.cluster_resources()["CPU"]
        >>> actorlib.run(main())
        2.0
    """

    def __init__(
        self,
        options: RuntimeOptions,
        *,
        replaces: bool = False,
        attached_to: OtherRuntime | None = None,
    ) -> None:
        self._replaces = replaces
        self._options = options
        self._attached_to = attached_to
        self._engine_name = "local" if attached_to else engine_name(options)
        self._address = address_of(options, self._engine_name)
        self._page: PageServer | None = None
        if options.dashboard is not None:
            check_page(options.dashboard, self._engine_name)
        if options.name is not None:
            check_name(options.name, self._engine_name)
        if options.devices == "exclusive":
            check_exclusive(self._engine_name)
        if self._engine_name == "inline":
            refuse_env(options.runtime_env)
        features.check(options, self._engine_name)
        self._engine: RuntimeEngine | None = None
        self._task: asyncio.Task[Any] | None = None
        self.was_started = False
        note_runtime(self)

    def __repr__(self) -> str:
        return f"<Runtime {'not running' if self._owner() is None else 'running'}>"

    def _repr_html_(self) -> str | None:
        """Shows it in tables, in a notebook; None if that is not possible here."""
        engine = self._owner()
        with contextlib.suppress(RuntimeError, ConnectionError):
            return None if engine is None else engine.snapshot()._repr_html_()  # pyright: ignore[reportPrivateUsage]  # what notebooks call
        return None

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    if not TYPE_CHECKING:  # type checkers refuse it anyway

        def __enter__(self) -> NoReturn:
            """Refuses: the runtime starts and ends on an event loop."""
            raise TypeError(
                "a runtime needs 'async with actorlib.init():' in an 'async def'. For "
                "plain code: 'import actorlib.blocking as ray' and 'with ray.init():'"
            )

        def __exit__(self, *_: object) -> None:
            """Is needed so that ``with`` calls ``__enter__``."""

    async def __aenter__(self) -> Self:
        self._task = asyncio.current_task()
        return await self._open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        await self.shutdown()
        # Code after the block may run a loop in a fork, but not after these errors.
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            from actorlib._loops.forking import let_task_end

            let_task_end(task)

    async def shutdown(self) -> None:
        """Ends all actors; does nothing if it was called before.

        Idle actors end at once. Busy ones may finish their calls within the runtime's
        ``grace`` and are then killed, with all processes that they started. Calls
        without an answer fail with ActorDiedError.
        """
        if self._engine is not None:
            await _end(self._engine)
            self._engine = None  # not before: on another loop it is refused

    @property
    def dashboard(self) -> str | None:
        """The address of its page, with the token; None if it has no page.

        The page exists while the runtime runs, with ``init(dashboard=...)``. Everyone
        with the address can inspect the runtime and end its actors.

        Example:
            >>> async def main():
            ...     async with actorlib.init(engine="inline") as runtime:
            ...         return runtime.dashboard
            >>> print(actorlib.run(main()))
            None
        """
        return None if self._page is None or self._owner() is None else self._page.url

    def snapshot(self) -> Snapshot:
        """Returns the state of the runtime: devices, actors and the wait queue.

        Raises:
            RuntimeError: It is not running.

        Example:
            >>> async def main():
            ...     async with actorlib.init(num_cpus=2, engine="inline") as runtime:
            ...         return runtime.snapshot().waiting
            >>> actorlib.run(main())
            ()
        """
        return self._running().snapshot()

    def calls(self) -> list[CallInfo]:
        """Lists the calls without an answer, and what each waits for.

        Calls of actors come first, then those of functions. Answered calls are not
        kept. Calls that actors make are included, except those that wait in the calling
        actor for their arguments, and those that went directly to another actor: see
        ``all_calls()``. On Ray, ``ray list tasks`` lists all.

        Raises:
            RuntimeError: It is not running.

        Example:
            >>> async def main():
            ...     async with actorlib.init(num_cpus=2, engine="inline") as runtime:
            ...         return runtime.calls()
            >>> actorlib.run(main())
            []
        """
        return self._running().calls()

    async def all_calls(self, *, patience: float = 0.5) -> AllCalls:
        """Lists the calls without an answer, including those between actors.

        Actors often call one another without the program's process, so only they know
        these calls. This method asks them, so that calls cost nothing more. The age of
        such calls is unknown, and which of several calls of one method runs.

        Args:
            patience: Seconds that the actors have to answer, above 0. One that is busy
                with a plain method, stopped or stuck does not answer, and is named in
                ``silent``. Default: 0.5.

        Raises:
            RuntimeError: It is not running.
            ValueError: The patience is not above 0.

        Example:
            >>> async def main():
            ...     async with actorlib.init(num_cpus=2, engine="inline") as runtime:
            ...         return await runtime.all_calls()
            >>> actorlib.run(main())
            AllCalls(calls=[], silent=())
        """
        seconds = checked_duration("patience", patience)
        calls, _ = await self._running().all_calls(seconds)
        return calls

    async def drain(
        self,
        timeout: float = 30.0,  # noqa: ASYNC109  # it returns the calls that are left
    ) -> list[CallInfo]:
        """Refuses new calls of this program, and waits for those that run.

        This is for the end of a service: afterwards the block of the runtime ends at
        once. From now on, calls, new actors and new groups of this program raise
        RuntimeDrainingError. Existing calls are finished, with all calls that actors
        make for them. So are the calls of clients. Attached clients may make more,
        which are finished too: end the clients first. Actors live on. It cannot be
        undone.

        Args:
            timeout: Seconds until it stops waiting, 0 or more. Default: 30.

        Returns:
            The calls that have no answer then; empty if all were finished. They include
            calls of actors that belong to no other call, for which it does not wait.
            ``caller`` is the actor that made a call.

        Raises:
            RuntimeError: It is not running.
            UnsupportedOptionError: The engine is Ray's.

        Example:
            >>> @actorlib.remote
            ... def double(x):
            ...     return 2 * x
            >>> async def main():
            ...     async with actorlib.init(num_cpus=1, engine="inline") as runtime:
            ...         ref = double.remote(21)
            ...         left = await runtime.drain(timeout=10)
            ...         return left, await ref
            >>> actorlib.run(main())
            ([], 42)
        """
        check_seconds("timeout", timeout)
        return await self._running().drain(timeout)

    def trace(
        self, path: str | PathLike[str] | None = None, *, kept: int = 100_000
    ) -> Trace:
        """Records the events inside a block, for Perfetto or chrome://tracing.

        The events are calls of the program, of functions, and from actor to actor, each
        with a span for its wait and a span for its run, and an arrow from the caller.
        Others are the states of actors, their deaths, parts of streams, and values of
        ``put()``. During the block a call costs the program up to 1 us more, and its
        actor one or two; otherwise nothing.

        Args:
            path: The file that is written after the block. Default: None, for none.
            kept: How many of the newest calls, and of the newest runs, are kept, 1 or
                more. Each takes about 300 bytes until it is written. Default: 100000.

        Returns:
            An async context manager, for the runtime's own loop; after the block it has
            the events.

        Raises:
            RuntimeError: It is not running.
            ValueError: ``kept`` is not a whole number above 0.

        Example:
            >>> @actorlib.remote
            ... def double(x):
            ...     return 2 * x
            >>> async def main():
            ...     async with actorlib.init(num_cpus=2, engine="inline") as runtime:
            ...         async with runtime.trace() as trace:
            ...             await double.remote(1)
            ...         return trace.calls, trace.dropped
            >>> actorlib.run(main())
            (1, 0)
        """
        check_count("kept", kept, 1)
        self._running()
        name = "runtime.trace()"
        with features.explain_missing(name):
            from actorlib._features.recording.runtime_trace import Trace
        return Trace(lambda: features.recording_of(self._running(), name), path, kept)

    def objects(
        self, *, sort: ObjectOrder = "size", limit: int | None = None
    ) -> list[ObjectInfo]:
        """Lists the objects in the object store, and the processes that hold them.

        These are the values in shared memory, the values of refs that were sent inside
        other values, and the memory that is kept for the next value, one row for each
        process. Small values are not in the store: they are sent with their calls.
        ``snapshot().object_store`` has the totals.

        Args:
            sort: ``"size"`` for the largest first; ``"age"`` for the oldest first, and
                last those of unknown age. Default: ``"size"``.
            limit: The largest number of rows, 1 or more; None for all. Default: None.

        Raises:
            RuntimeError: It is not running.
            UnsupportedOptionError: The engine is Ray's, which has its own store.
            TypeError: The limit is not a whole number.
            ValueError: There is no such order, or the limit is below 1.

        Example:
            >>> async def main():
            ...     async with actorlib.init(num_cpus=2, engine="inline") as runtime:
            ...         return runtime.objects(sort="age", limit=10)
            >>> actorlib.run(main())
            []
        """
        check_one_of("sort", sort, ("size", "age"))
        check_rows(limit)
        return self._running().objects(sort, limit)

    def logs(
        self, actor: ActorHandle[Any] | None = None, *, limit: int = 100
    ) -> list[LogLine]:
        """Returns the last lines that actors have printed and logged, the oldest first.

        The last 256 KiB of each actor are kept, which is about 1,000 lines, and of dead
        actors while they are listed. The lines of all functions are kept together.
        Where lines were dropped, the next line has their number (``lost``). On the
        inline engine there are no lines, as output goes directly to the program's.

        Args:
            actor: The actor; None for all actors and functions. Default: None.
            limit: The number of lines, 1 or more. Default: 100.

        Raises:
            RuntimeError: It is not running.
            UnsupportedOptionError: The engine is Ray's, which keeps files.
            TypeError: The limit is not a whole number, or ``actor`` is not a handle.
            ValueError: The limit is below 1.

        Example:
            >>> async def main():
            ...     async with actorlib.init(num_cpus=2, engine="inline") as runtime:
            ...         return runtime.logs(limit=10)
            >>> actorlib.run(main())
            []
        """
        check_count("limit", limit, 1)
        actor_id = None if actor is None else pin_of(_checked(actor)).actor_id
        lines = features.logs_of(self._running(), "runtime.logs()").lines
        return lines.read(actor_id, most=limit, is_newest=True).lines

    def add_middleware(
        self, middleware: Middleware, *, in_workers: bool = True
    ) -> None:
        """Calls a middleware for every call from now on; see ``actorlib.observe``.

        Args:
            middleware: An object with the methods ``before`` and ``after``.
            in_workers: Whether a copy of it is called in each worker, if it can be
                pickled. Default: True.

        Raises:
            TypeError: It is not a middleware.
            ValueError: It was added before.
            UnsupportedOptionError: The engine is Ray's.
            RuntimeError: The runtime is not running.

        Example:
            >>> class Count:
            ...     calls = 0
            ...     def before(self, call):
            ...         self.calls += 1
            ...     def after(self, call, token, outcome):
            ...         pass
            >>> @actorlib.remote
            ... def double(x):
            ...     return 2 * x
            >>> async def main():
            ...     async with actorlib.init(num_cpus=2, engine="inline") as runtime:
            ...         count = Count()
            ...         runtime.add_middleware(count)
            ...         await double.remote(1)
            ...         runtime.remove_middleware(count)
            ...         await double.remote(2)
            ...         return count.calls
            >>> actorlib.run(main())
            1
        """
        from actorlib._options.call_events import checked_middleware

        checked = checked_middleware(middleware)
        middlewares = features.middlewares_of(self._running(), "add_middleware()")
        middlewares.add(checked, in_workers=in_workers)

    def remove_middleware(self, middleware: Middleware) -> None:
        """Removes a middleware and its copies.

        It still gets ``after`` for calls whose ``before`` it had.

        Args:
            middleware: An object that was passed to ``init(middleware=)`` or
                ``add_middleware()``.

        Raises:
            ValueError: It was not.
            RuntimeError: The runtime is not running.
        """
        features.middlewares_of(self._running(), "remove_middleware()").remove(
            middleware
        )

    def available_resources(self) -> dict[str, float]:
        """Returns the free amount of each resource by name; memory in bytes.

        Raises:
            RuntimeError: It is not running.
        """
        return self._running().available()

    def cluster_resources(self) -> dict[str, float]:
        """Returns the total amount of each resource by name; memory in bytes.

        Raises:
            RuntimeError: It is not running.
        """
        return self._running().total()

    def explain(
        self,
        actor: (
            ActorHandle[Any]
            | ActorClass[..., Any]
            | type[object]
            | RemoteFunction[..., Any]
            | PlacementGroup
        ),
    ) -> str:
        """Explains why an actor waits, where it is, or where one would be placed.

        For a class or a remote function, with other options too
        (``A.options(num_gpus=0.5)``), nothing is placed: the text names the devices
        that an actor or a call of it would get now, or the obstacle on each device. Ray
        does not report causes and devices; there the text names the request and the
        amounts of each machine.

        Args:
            actor: A handle, an actor class, a remote function, or a placement group.

        Raises:
            RuntimeError: The runtime is not running.
            TypeError: It is none of these.

        Example:
            >>> @actorlib.remote(num_gpus=1)
            ... class Model:
            ...     pass
            >>> async def main():
            ...     async with actorlib.init(num_gpus=1, engine="inline") as runtime:
            ...         return runtime.explain(Model)
            >>> print(actorlib.run(main()))
            Model requests GPU=1...
        """
        engine = self._running()
        if isinstance(actor, ActorClass):
            interface, options = interface_and_options(actor)
            return engine.survey(interface.class_name, options)
        if isinstance(actor, RemoteFunction):
            return engine.survey(*label_and_options(actor))
        if isinstance(actor, PlacementGroup):
            return engine.explain_group(actor.id)
        return engine.explain(pin_of(_checked(actor)).actor_id)

    def _owner(self) -> RuntimeEngine | None:
        """Returns the engine while it runs: shutdown() and reinit=True end it too."""
        engine = self._engine
        return None if engine is None or engine.is_closed else engine

    def _running(self) -> RuntimeEngine:
        engine = self._owner()
        if engine is None:
            raise RuntimeError(
                "this runtime is not running: it starts with 'async with "
                "actorlib.init():' and ends with the block"
            )
        return engine

    async def _start_engine(self) -> RuntimeEngine:
        if self._attached_to is None:
            name = self._engine_name
            try:
                return await start_engine(self._options, name, self._address)
            except (OSError, RuntimeError) as error:
                from actorlib._base.start_errors import advice_on_start

                advice = advice_on_start(error)
                if isinstance(error, ActorlibError) or not advice:
                    raise
                message = f"the runtime cannot start: {error}: {advice}"
                raise TemplateError(message) from error
        from actorlib._client.engine import attach as attach_to

        return await attach_to(*self._attached_to)

    async def _open(self) -> Self:
        if self.was_started:
            raise RuntimeError(
                "this runtime was started before: call init() again"
                if self._owner() is None
                else "this runtime is running already: write 'async with "
                "actorlib.init():' without 'await', or 'await actorlib.init()' alone"
            )
        if self._replaces:
            await shutdown()
        _refuse_second()
        self.was_started = True
        page = listening_page(self._options)
        attach_server: AttachServer | None = None
        try:
            if self._options.name is not None:
                from actorlib._queries.attach_server import AttachServer

                attach_server = AttachServer(self._options.name)
            engine = await self._start_engine()
            try:
                _refuse_second()
                if page is not None:
                    show_page(page, cast("LocalEngine", engine))
                if attach_server is not None:
                    local = cast("LocalEngine", engine)
                    local.at_end(attach_server.close)
                    attach_server.begin(
                        local.loop, local.refusal, lambda client: local.admit(*client)
                    )
            except BaseException:
                await engine.aclose()
                raise
        except BaseException:
            for opened in (page, attach_server):
                if opened is not None:
                    opened.close()
            raise
        self._page, self._engine = page, engine
        set_engine(engine)
        watch_notebook()
        return self


@public("actorlib")
def init(*, reinit: bool = False, **options: Unpack[RuntimeKeywords]) -> Runtime:
    """Makes a runtime for this process; ``async with`` or ``await`` starts it.

    Args:
        reinit: If True, a runtime that runs in this process is ended when this one
            starts, even if its Runtime object is gone. Default: False.
        **options: The resources and the settings of the runtime, by name.
            ``help(actorlib.types.RuntimeOptions)`` describes each option.

    Returns:
        The Runtime, not started yet.

    Raises:
        TypeError: A value has the wrong type, or an option is unknown.
        ValueError: A value is out of range. When it starts: more GPUs are declared than
            the visibility variable of this process names.
        RuntimeError: Another runtime is running in this process; it goes on.
        TemplateError: When it starts: no worker can be started, a module of
            ``preload`` cannot be imported, or the operating system refuses what a
            runtime needs, such as threads. Nothing is left running.
        ClusterError: When it starts on Ray: there is no cluster at the address, or it
            is one of another Ray.
        ImportError: When it starts on Ray, and Ray is not installed.

    Example:
        >>> @actorlib.remote(num_gpus=0.5)
        ... class Model:
        ...     def device(self):
        ...         return actorlib.get_gpu_ids()
        >>> async def main():
        ...     async with actorlib.init(num_cpus=1, num_gpus=1, engine="inline"):
        ...         return await Model.remote().device.remote()
        >>> len(actorlib.run(main()))
        1
    """
    check_bool("reinit", reinit)
    if not reinit:
        _refuse_second()
    checked = RuntimeOptions.of(options)
    if checked.runtime_env:
        # Here, so that a missing directory is refused in the line that names it.
        checked = replace(checked, runtime_env=resolved_env(checked.runtime_env))
    return Runtime(checked, replaces=reinit)


@public("actorlib")
def attach(name: str, *, namespace: str | None = None) -> Runtime:
    """Makes this process a client of the runtime of another process.

    ``async with actorlib.attach("service") as runtime:`` attaches to the runtime of
    ``actorlib.init(name="service")``, of the same user on the same machine. Inside the
    block, actors are found by their names, made, called and ended as in that program.
    Actors that are made here end with the block, or with this process, unless they are
    detached; the runtime itself goes on. After its end, calls raise RuntimeLostError.

    Args:
        name: The name of the runtime.
        namespace: The namespace of actors without another one. Default: None, for that
            of the runtime.

    Returns:
        The Runtime, not attached yet; ``await`` does that too. Its ``shutdown()``
        detaches. ``logs``, ``trace``, ``drain`` and other methods that only the program
        of the runtime has raise UnsupportedOptionError.

    Raises:
        TypeError: A name is not a string.
        ValueError: A runtime cannot have such a name.
        RuntimeError: A runtime is running in this process.
        RuntimeNotFoundError: When it attaches: this user has no runtime of that name.
        RuntimeUnreachableError: When it attaches: the runtime does not answer, or has
            another version of actorlib or Python.

    Example:
        >>> async def main():
        ...     async with actorlib.attach("no-such-service"):
        ...         return actorlib.get_actor("m1")
        >>> actorlib.run(main())
        Traceback (most recent call last):
        RuntimeNotFoundError: ...
    """
    check_runtime_name("attach(name)", name)
    _refuse_second()
    if namespace is not None:
        check_option(RuntimeOptions, "namespace", namespace)
    return Runtime(RuntimeOptions(), attached_to=OtherRuntime(name, namespace))


@public("actorlib")
async def shutdown() -> None:
    """Ends the runtime of this process; does nothing if there is none.

    It is ``Runtime.shutdown()`` for a program that no longer has the Runtime object,
    and for a runtime whose event loop is closed.

    Raises:
        RuntimeError: This is an actor's code, the runtime is a script's, or its loop
            is neither running nor closed.

    Example:
        >>> async def main():
        ...     await actorlib.init(engine="inline")
        ...     await actorlib.shutdown()
        ...     return actorlib.is_initialized()
        >>> actorlib.run(main())
        False
    """
    engine = find_engine()
    if engine is None:
        return
    if not hasattr(engine, "aclose"):
        raise RuntimeError(
            "shutdown() is for the program that started the runtime, and this is the "
            "code of an actor or a function: exit_actor() ends an actor"
        )
    await _end(cast("RuntimeEngine", engine))


async def _end(engine: RuntimeEngine) -> None:
    """Ends a runtime, from any loop."""
    loop, here = engine.loop, None
    with contextlib.suppress(RuntimeError):  # a fork runs no loop, says asyncio
        here = asyncio.get_running_loop()
    if loop.is_closed():
        ending: Awaitable[None] = asyncio.to_thread(engine.abandon())
    elif here is None or here is loop or engine.is_closed:  # in a fork, for example
        ending = engine.aclose()
    elif isinstance(loop, ThreadedLoop):
        raise RuntimeError(
            "this runtime belongs to a script: actorlib.blocking.shutdown() ends it"
        )
    elif loop.is_running():
        elsewhere = asyncio.run_coroutine_threadsafe(engine.aclose(), loop)
        ending = asyncio.wrap_future(elsewhere)
    else:
        raise RuntimeError(OTHER_LOOP)
    try:
        await ending
    finally:
        if find_engine() is engine:
            set_engine(None)


@public("actorlib")
def is_initialized() -> bool:
    """Returns whether a runtime is running in this process.

    Example:
        >>> actorlib.is_initialized()
        True
    """
    return find_engine() is not None


@public("actorlib")
def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end on the fastest event loop that is installed.

    It is like ``asyncio.run``, on uvloop where that is installed. SIGTERM and SIGHUP
    cancel the coroutine, as SIGINT does: ``finally`` blocks run, the runtime ends with
    its block, and actors run their methods marked with ``@actorlib.close``. A second
    signal ends the program at once. Signal handlers of the program are not replaced. If
    an error ends the program, its traceback shows only the frames of your code, unless
    ``ACTORLIB_TRACEBACK`` is ``full``.

    Args:
        main: The coroutine.

    Returns:
        The result of the coroutine.

    Raises:
        RuntimeError: An event loop is running in this thread.
        SystemExit: A signal cancelled it: 143 after SIGTERM, 129 after SIGHUP.

    Example:
        >>> async def main():
        ...     return 42
        >>> actorlib.run(main())
        42
    """
    if asyncio._get_running_loop() is not None:  # noqa: SLF001  # None in a fork, too
        if asyncio.iscoroutine(main):
            main.close()
        raise RuntimeError(
            "actorlib.run() runs an event loop, and one runs in this thread already, "
            "as in a notebook or an async def: await the coroutine there instead"
        )
    from actorlib._loops.main_watch import MainWatch
    from actorlib._loops.termination import until_terminated

    fill_standard_streams()
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            if not asyncio.iscoroutine(main):
                return runner.run(main)  # raises the error of asyncio
            with MainWatch(runner.get_loop(), find_engine):
                tasks: list[asyncio.Task[Any]] = []
                try:
                    return runner.run(_noted(until_terminated(main), tasks))
                finally:
                    if not all(task.done() for task in tasks):
                        # A signal handler of the program has raised in the loop.
                        runner.run(_cancelled(tasks))
    except BaseException as error:
        if (
            inspect.iscoroutine(main)
            and inspect.getcoroutinestate(main) == inspect.CORO_CREATED
        ):
            main.close()  # there was no loop: do not warn that it was never awaited
        reason = error.__context__
        if isinstance(error, RuntimeError) and isinstance(reason, TemplateError):
            # Without threads the runner cannot end the loop's executor.
            hide_own_frames(reason, *_LOOPS)
            raise reason from reason.__cause__
        hide_own_frames(error, *_LOOPS)
        raise


async def _noted(main: Coroutine[Any, Any, T], tasks: list[asyncio.Task[Any]]) -> T:
    """Awaits the main coroutine, and appends its task to a list."""
    task = asyncio.current_task()
    assert task is not None  # a coroutine is awaited in one
    tasks.append(task)
    return await main


async def _cancelled(tasks: list[asyncio.Task[Any]]) -> None:
    """Ends the program's main task before all others, so that runtimes end in order."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@public("actorlib")
def kill(actor: ActorHandle[Any], *, no_restart: bool = True) -> asyncio.Future[None]:
    """Ends an actor at once, and interrupts its calls.

    Its process group gets SIGKILL: ``atexit`` handlers do not run. Calls without an
    answer, and later ones, fail with ActorDiedError. To kill a dead actor is allowed.

    Args:
        actor: Its handle.
        no_restart: If False, the actor is restarted if its ``max_restarts`` allows one
            more, with a new state; its calls are treated as after a crash. Default:
            True.

    Returns:
        A future that is done when the process is gone and its share is free, unless the
        actor is restarted, or NVML still lists the process on a GPU: then the share
        becomes free later. It need not be awaited.

    Raises:
        TypeError: It is not a handle.

    Example:
        >>> @actorlib.remote
        ... class Counter:
        ...     def ping(self):
        ...         return "pong"
        >>> counter = await Counter.remote()
        >>> await actorlib.kill(counter)
        >>> await counter.ping.remote()
        Traceback (most recent call last):
        ActorDiedError: ...
    """
    hold = pin_of(_checked(actor))
    return hold.engine.kill(hold.actor_id, restart=not no_restart)


@public("actorlib")
def cancel(
    ref: ObjectRef[Any] | ObjectRefGenerator[Any],
    *,
    recursive: bool = True,
    force: bool = False,
    interrupt: bool = False,
) -> None:
    """Cancels a call that waits or runs; a call that is done keeps its result.

    A running ``async def`` gets CancelledError at its await. A running plain method is
    only interrupted with ``interrupt``; its result is dropped, and it may call
    ``get_runtime_context().is_canceled()``. A generator is closed at its yield. A
    running function gets KeyboardInterrupt.

    Args:
        ref: The ref of the call.
        recursive: If True, the unfinished calls that it has made are cancelled too, and
            so are theirs. Default: True.
        force: If True, the process of a running function is ended instead. Default:
            False.
        interrupt: If True, a running plain method of an actor gets KeyboardInterrupt
            where it is, as by Ctrl-C. In a notebook, the calls that an interrupted cell
            waits for get it too. The method may clean up, and the actor lives on; if
            the method catches the exception, its result is dropped. A call that has not
            begun never begins, and no other call is interrupted. Long C code is
            interrupted when it returns, unless it checks for signals. Methods in
            threads (``max_concurrency``, concurrency groups), and those of the inline
            engine, are interrupted only where they wait for a ref. Default: False.

    Raises:
        TypeError: It is neither a ref nor a generator of refs.
        ValueError: ``force`` is for a call of an actor; ``interrupt`` is for a call
            that this program has not made itself, or both are set.

    Example:
        >>> import asyncio
        >>> @actorlib.remote
        ... class Sleeper:
        ...     async def sleep(self):
        ...         await asyncio.sleep(60)
        >>> ref = Sleeper.remote().sleep.remote()
        >>> actorlib.cancel(ref)
        >>> await ref
        Traceback (most recent call last):
        TaskCancelledError: the call was cancelled
    """
    if not isinstance(cast("object", ref), ObjectRef | ObjectRefGenerator):
        raise TypeError(
            f"cancel() takes the ref of a call, not {ref!r}; kill() ends an actor"
        )
    ref.cancel(recursive=recursive, force=force, interrupt=interrupt)


@overload
def get(refs: ObjectRef[T], *, timeout: float | None = None) -> T: ...
@overload
def get(refs: Sequence[ObjectRef[T]], *, timeout: float | None = None) -> list[T]: ...
@public("actorlib")
def get(refs: object, *, timeout: float | None = None) -> object:
    """Blocks until results are available: for plain methods of actors.

    Where a loop runs, in the program and in ``async def`` methods, await refs instead.

    Args:
        refs: One ref, or several.
        timeout: Seconds to wait for all of them, or None for no limit. Default: None.

    Returns:
        The value, or the list of values in the order of the refs.

    Raises:
        TypeError: It is neither a ref nor a list of refs.
        GetTimeoutError: They did not arrive in time; the calls go on.
        RuntimeError: This thread runs the event loop.
        Exception: The error of the first call that failed.

    Example:
        >>> @actorlib.remote
        ... def double(x):
        ...     return 2 * x
        >>> @actorlib.remote
        ... class Caller:
        ...     def call(self):
        ...         return actorlib.get([double.remote(1), double.remote(2)])
        >>> await Caller.remote().call.remote()
        [2, 4]
    """
    if isinstance(refs, ObjectRef):
        return cast("ObjectRef[Any]", refs).get(timeout)
    return get_all(refs, timeout)


@public("actorlib")
def put(value: T) -> ObjectRef[T]:
    """Stores a value, so that its ref can be passed to many calls.

    It is encoded once. As an argument of a call, the ref arrives as the value; inside
    another value it arrives as a ref, which is awaited there. A large value is in
    shared memory, once for all readers. Arrays arrive read-only, whatever their size.
    The value is kept as long as a ref to it exists.

    Args:
        value: The value; later changes of the original have no effect.

    Raises:
        RuntimeError: No runtime is running in this process.
        TypeError: It is a ref, or cannot be sent. Nothing is stored.
        ObjectStoreFullError: The object store has no room. Nothing is stored.

    Example:
        >>> ref = actorlib.put([1, 2, 3])
        >>> @actorlib.remote
        ... def total(values):
        ...     return sum(values)
        >>> await total.remote(ref)
        6
    """
    if isinstance(value, ObjectRef):
        raise TypeError(
            "put() takes a value, and this is a ref: pass the ref itself to calls"
        )
    return current_engine().put(value)


@public("actorlib")
def get_runtime_context() -> RuntimeContext:
    """Returns where the calling code runs: its actor and its devices.

    Raises:
        RuntimeError: No runtime is running in this process.

    Example:
        >>> @actorlib.remote(name="m1")
        ... class Model:
        ...     def name(self):
        ...         return actorlib.get_runtime_context().get_actor_name()
        >>> await Model.remote().name.remote()
        'm1'
    """
    engine = current_engine()
    context = engine.context
    if context.own is None and context.actor_id is not None:
        context = engine.context = replace(context, own=own_handle)
    return context


@public("actorlib")
def exit_actor() -> NoReturn:
    """Ends the calling actor; the code after it does not run.

    The running call, waiting calls and later ones fail with ActorDiedError. Other
    running ``async def`` methods may go on for the runtime's ``grace`` and are then
    cancelled. ``atexit`` handlers run. The actor is not restarted.

    Raises:
        SystemExit: Always, in an actor. ``except Exception`` does not catch it; where
            other code catches it, the actor ends with the method.
        TypeError: This is not the code of an actor.

    Example:
        >>> @actorlib.remote
        ... class Worker:
        ...     def leave(self):
        ...         actorlib.exit_actor()
        >>> await Worker.remote().leave.remote()
        Traceback (most recent call last):
        ActorDiedError: ...
    """
    engine = find_engine()
    if engine is None:
        raise TypeError("exit_actor() ends the actor that calls it: no actor called it")
    engine.leave()


@public("actorlib")
def get_gpu_ids() -> list[int | str]:
    """Returns the ids of this actor's GPUs; empty outside of an actor.

    They are the ids of the machine, as the program sees it. Frameworks count the same
    devices from 0, because of the visibility variable of the actor's process.

    Example:
        >>> @actorlib.remote(num_gpus=2)
        ... class Model:
        ...     def devices(self):
        ...         return actorlib.get_gpu_ids()
        >>> len(await Model.remote().devices.remote())
        2
    """
    engine = find_engine()
    if engine is None:
        return []
    return list(engine.context.accelerator_ids.get("GPU", ()))


def _refuse_second() -> None:
    engine = find_engine()
    if engine is None:
        return
    advice = (
        "leave its block, or await its shutdown(), before starting another. If its "
        "Runtime object is gone, 'await actorlib.shutdown()' ends it, and "
        "init(reinit=True) ends it and starts another"
    )
    if isinstance(getattr(engine, "loop", None), ThreadedLoop):
        advice = (
            "it belongs to a script, whose refs can be awaited too. "
            "actorlib.blocking.shutdown() ends it"
        )
    raise RuntimeError(f"a runtime is running in this process already: {advice}")


def _checked(actor: object) -> ActorHandle[Any]:
    if not isinstance(actor, ActorHandle):
        hint = "; a call is stopped by cancel()" if isinstance(actor, ObjectRef) else ""
        raise TypeError(f"this takes an actor's handle, not {actor!r}{hint}")
    return cast("ActorHandle[Any]", actor)
