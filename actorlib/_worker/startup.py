"""Starts and ends an actor: the START frame becomes an environment, a class, an object.

The order is the promise: visibility variables are in place before the first line of
the user's code is imported.

The class is given the methods that every actor has, in this process alone, so a call of
one is like any other. What it has marked for the beginning and the end of its actors is
called there (``_options/hooks.py``), and ``__ray_shutdown__`` behind that.
"""

from __future__ import annotations

import operator
import os
import sys
import threading
import traceback
from collections.abc import Coroutine
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from actorlib._base.labels import Label
from actorlib._base.value import dataclass
from actorlib._core.engine import ActorExit
from actorlib._options.hooks import hooks_of, make_instance
from actorlib._options.interface import (
    CALL,
    READY,
    class_of,
    find_method,
    interface_of_source,
)
from actorlib._wire.actor_config import ActorConfig
from actorlib._wire.messages import START, Frame
from actorlib._wire.serialization import decode, decode_call
from actorlib._worker.executors.invoke import constructor_failure
from actorlib._worker.os_process import name_process
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from actorlib._base.ids import ActorId
    from actorlib._core.runtime_context import CallLookup, RuntimeContext
    from actorlib._options.runtime_env import RuntimeEnv
    from actorlib._shm.memory import Payload
    from actorlib._worker.requests.engine import WorkerEngine


SHUTDOWN = "__ray_shutdown__"
"""The name, known from Ray, of the method that cleans up when the actor leaves."""


def _add_common_methods(cls: type) -> None:
    """Gives a class the methods that every actor has."""
    with suppress(TypeError):  # a class written in C cannot have more than it has
        type.__setattr__(cls, READY.name, _ready)
        type.__setattr__(cls, CALL.name, _call)


def _ready(instance: object) -> bool:
    """True: whoever is answered knows that the constructor has finished."""
    del instance
    return True


def _call(
    instance: object, function: Callable[..., object], /, *args: Any, **kwargs: Any
) -> object:
    """Calls a function with the actor's object in front."""
    return function(instance, *args, **kwargs)


@contextmanager
def shutting_down(
    instance: object,
    run: Callable[[Callable[[], object]], object] | None = None,
) -> Generator[None]:
    """Has an actor clean up when it leaves, as its class says; around its calls.

    It leaves when it is stopped behind what it was sent, and by ``exit_actor()`` or
    ``sys.exit()``. What is killed, or fails, or has lost its owner, does not. What a
    method raises is printed, and the actor leaves all the same.

    Args:
        instance: The actor's object.
        run: Calls a method and awaits it if that is needed; for actors with a loop.
    """
    try:
        yield
    except SystemExit:
        _shut_down(instance, run or _run_alone)
        raise
    _shut_down(instance, run or _run_alone)


def _shut_down(instance: object, run: Callable[[Callable[[], object]], object]) -> None:
    cls = type(instance)
    for clean_up in (hooks_of(cls).close_of(instance), getattr(cls, SHUTDOWN, None)):
        if clean_up is not None:
            try:
                run(partial(clean_up, instance))
            except BaseException:  # noqa: BLE001  # the user's code, in the actor's last frame
                traceback.print_exc()


def _run_alone(method: Callable[[], object]) -> None:
    done = method()
    if isinstance(done, Coroutine):
        import asyncio  # noqa: PLC0415  # actors without a loop never load it

        asyncio.run(cast("Coroutine[Any, Any, object]", done))


class ExecutorThreads:
    """The threads of one actor beside its main one.

    They belong to it, also where several actors share a process. Nothing waits for them
    at the end of the process.
    """

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def __len__(self) -> int:
        return len(self._threads)

    def start(
        self, name: str, work: Callable[..., object], *args: object
    ) -> threading.Thread:
        """Starts a thread in a copy of the context that starts it.

        Args:
            name: What debuggers call it.
            work: What it runs.
            *args: For that.
        """
        thread = threading.Thread(
            target=copy_context().run, args=(work, *args), name=name, daemon=True
        )
        self._threads.append(thread)
        thread.start()
        return thread

    def join(self) -> None:
        """Waits until all of them have ended."""
        for thread in self._threads:
            thread.join()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Holds what the START frame of a worker said.

    Attributes:
        config: What the owner says of the actor.
        label: What the actor is called in messages.
        context: Makes the actor's runtime context, given its process.
        threads: Those that serve the actor beside its main one.
        source: The pickled class.
        borrowed: The references in the class and the arguments.
        arguments: For the constructor.
    """

    config: ActorConfig
    label: Label
    context: partial[RuntimeContext]
    threads: ExecutorThreads
    source: bytes
    borrowed: tuple[ActorId, ...] | None
    arguments: Payload


def read_start(frame: Frame) -> Start:
    """Reads the first frame.

    Raises:
        ProtocolError: It is no START frame.
    """
    if frame[0] != START:
        raise ProtocolError(f"a worker's first frame is START, not kind {frame[0]}")
    _, values, source, borrowed, arguments = frame
    config = ActorConfig(**values)
    return Start(
        config=config,
        label=Label(config.class_name, config.name),
        context=partial(_context_of, config),
        threads=ExecutorThreads(),
        source=source,
        borrowed=borrowed,
        arguments=arguments,
    )


def _context_of(config: ActorConfig, *, process: CallLookup) -> RuntimeContext:
    from actorlib._core.runtime_context import RuntimeContext  # noqa: PLC0415  # seldom

    is_actor = not config.runs_functions
    group = config.placement_group
    return RuntimeContext(
        process=process,
        namespace=config.namespace,
        job_id=config.prefix[:4].hex(),
        node_id=config.node_id,
        worker_id=config.prefix.hex(),
        actor_id=config.actor_id.hex() if is_actor else None,
        actor_name=config.name,
        class_name=config.class_name if is_actor else "",
        runtime_env=cast("RuntimeEnv", config.runtime_env),
        accelerator_ids={k: list(ids) for k, ids in config.accelerator_ids.items()},
        resources=config.resources,
        was_current_actor_reconstructed=config.was_reconstructed,
        group=None if group is None else decode(group),
        captures=config.captures_children,
    )


def prepare(start: Start) -> None:
    """Makes the process the actor's own, before any of the user's code is imported."""
    for name, value in start.config.environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if list(start.config.path) != sys.path:
        sys.path[:] = start.config.path
    name_process(start.config.class_name)
    sys.breakpointhook = _refuse_breakpoint
    _reseed()
    if start.config.threads is not None:
        _limit_threads(start.config.threads)


def enter_directory(start: Start) -> None:
    """Enters the directory that the actor works in."""
    if start.config.directory is not None:
        os.chdir(start.config.directory)


def construct(
    start: Start,
    engine: WorkerEngine,
    run: Callable[[Callable[[], object]], Any] = operator.call,
    run_to_end: Callable[[Callable[[], object]], object] | None = None,
) -> object:
    """Makes the actor's object ready; the owner is told why if that cannot be done.

    Args:
        start: What the START frame said.
        engine: The engine of the worker.
        run: Calls the constructor, where it is to run.
        run_to_end: Calls what is to run behind it, and awaits that if it is needed; for
            actors with a loop.

    Raises:
        SystemExit: The constructor raised, or what runs behind it, or the actor ended
            itself there.
    """
    where = f"{start.label}()"
    try:
        with engine.borrowing(start.borrowed):
            instance: object
            instance, initializing = run(partial(_construct, start, engine))
            if initializing is not None:
                (run_to_end or _run_alone)(lambda: initializing)
        setup = hooks_of(type(instance)).setup
        if setup is not None:
            where = engine.where(setup)
            (run_to_end or _run_alone)(find_method(instance, setup))
        if engine.is_over:
            engine.check_over(0)
    except ActorExit:
        raise
    except BaseException as error:
        engine.post(constructor_failure(engine, error, where))
        raise SystemExit(1) from error
    return instance


def _construct(
    start: Start, engine: WorkerEngine
) -> tuple[object, Coroutine[Any, Any, object] | None]:
    """Imports the class and calls it: the user's code runs for the first time.

    Returns:
        The actor's object, and what its constructor awaits if it is an ``async def``.
    """
    enter_directory(start)
    source = decode(start.source)
    engine.set_interface(partial(interface_of_source, source))
    cls = class_of(source)
    _add_common_methods(cls)
    args, kwargs = decode_call(start.arguments)
    return make_instance(cls, args, kwargs)


def _refuse_breakpoint(*args: object, **kwargs: object) -> object:
    """What ``breakpoint()`` does where there is no terminal to ask on.

    ``PYTHONBREAKPOINT`` names another debugger, one that listens on a port for example,
    or switches it off.
    """
    if os.environ.get("PYTHONBREAKPOINT"):
        return sys.__breakpointhook__(*args, **kwargs)
    raise RuntimeError(
        'breakpoint() in a process that has no terminal: actorlib.init(engine="inline")'
        ", or ACTORLIB_ENGINE=inline, runs actors and functions in your own process, "
        "where a debugger can stop them. PYTHONBREAKPOINT names one that works here"
    )


def _reseed() -> None:
    """Forked workers would all draw the numbers that the template would have drawn.

    The standard library's own generator sees to that itself.
    """
    numpy_random = cast("Any", sys.modules.get("numpy.random"))
    if numpy_random is not None:  # numpy itself loads it only when it is asked for
        numpy_random.seed()
    torch = cast("Any", sys.modules.get("torch"))
    if torch is not None:
        torch.seed()


def _limit_threads(threads: int) -> None:
    """Libraries read their variables when they are loaded: a preload did that already.

    torch takes the number at any time; others are limited through the variables alone,
    so they should not be preloaded by those who count threads.
    """
    torch = cast("Any", sys.modules.get("torch"))
    if torch is not None:
        torch.set_num_threads(threads)
