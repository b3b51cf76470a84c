"""Starts and ends an actor: turns the START frame into a class and an object.

Visibility variables are set before the first line of the user's code is imported.

The class gets the methods that every actor has, in this process only. A call of one is
a normal call. The hooks that the class has marked for the start and the end of its
actors are called here (``_options/hooks.py``), and ``__ray_shutdown__`` after them.
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
"""The method that cleans up when the actor leaves, named as in Ray."""


def _add_common_methods(cls: type) -> None:
    with suppress(TypeError):  # a class written in C takes no attributes
        type.__setattr__(cls, READY.name, _ready)
        type.__setattr__(cls, CALL.name, _call)


def _ready(instance: object) -> bool:
    del instance
    return True  # an answer proves that the constructor has finished


def _call(
    instance: object, function: Callable[..., object], /, *args: Any, **kwargs: Any
) -> object:
    return function(instance, *args, **kwargs)


def _run_alone(method: Callable[[], object]) -> None:
    value = method()
    if isinstance(value, Coroutine):
        import asyncio  # noqa: PLC0415  # actors without a loop never load it

        asyncio.run(cast("Coroutine[Any, Any, object]", value))


@contextmanager
def shutting_down(
    instance: object, run: Callable[[Callable[[], object]], object] = _run_alone
) -> Generator[None]:
    """Runs the clean-up hooks of an actor when its calls end.

    They run when the actor is stopped after its calls, and after ``exit_actor()`` or
    ``sys.exit()``. They do not run for an actor that is killed, fails, or loses its
    owner. An error of a hook is printed, and the actor leaves nevertheless. For actors
    with a loop, ``run`` calls a hook and awaits its result if needed.
    """
    try:
        yield
    except SystemExit:
        _shut_down(instance, run)
        raise
    _shut_down(instance, run)


def _shut_down(instance: object, run: Callable[[Callable[[], object]], object]) -> None:
    cls = type(instance)
    for clean_up in (hooks_of(cls).close_of(instance), getattr(cls, SHUTDOWN, None)):
        if clean_up is not None:
            try:
                run(partial(clean_up, instance))
            except BaseException:  # noqa: BLE001  # the user's code
                traceback.print_exc()


class ExecutorThreads:
    """The threads of one actor other than its main thread.

    Each actor has its own, even if several actors share a process. The end of the
    process does not wait for them.
    """

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []

    def start(
        self, name: str, work: Callable[..., object], *args: object
    ) -> threading.Thread:
        """Starts a thread in a copy of the current context."""
        thread = threading.Thread(
            target=copy_context().run, args=(work, *args), name=name, daemon=True
        )
        thread.start()
        self._threads.append(thread)  # one that did not start cannot be joined
        return thread

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The content of the START frame of a worker.

    Attributes:
        source: The pickled class.
        borrowed: The references in the class and the arguments.
        arguments: The arguments of the constructor.
    """

    config: ActorConfig
    label: Label
    threads: ExecutorThreads
    source: bytes
    borrowed: tuple[ActorId, ...] | None
    arguments: Payload


def read_start(frame: Frame) -> Start:
    """Reads the first frame; raises ProtocolError if it is not a START frame."""
    if frame[0] != START:
        raise ProtocolError(f"a worker's first frame is START, not kind {frame[0]}")
    _, values, source, borrowed, arguments = frame
    config = ActorConfig(**values)
    return Start(
        config=config,
        label=Label(config.class_name, config.name, slot=config.slot),
        threads=ExecutorThreads(),
        source=source,
        borrowed=borrowed,
        arguments=arguments,
    )


def context_of(config: ActorConfig, process: CallLookup) -> RuntimeContext:
    """Creates the runtime context of a worker, or of an attached program."""
    from actorlib._core.runtime_context import RuntimeContext  # noqa: PLC0415  # on demand

    is_actor = bool(config.class_name) and not config.runs_functions
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
    """Applies the actor's settings before the user's code is imported."""
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
    if start.config.directory is not None:
        os.chdir(start.config.directory)


def construct(
    start: Start,
    engine: WorkerEngine,
    run: Callable[[Callable[[], object]], Any] = operator.call,
    run_to_end: Callable[[Callable[[], object]], object] = _run_alone,
) -> object:
    """Creates the actor's object; reports a failure to the owner.

    ``run`` calls the constructor on the right thread. For actors with a loop,
    ``run_to_end`` calls a hook and awaits its result if needed.

    Raises:
        SystemExit: The constructor or a hook raised, or the actor ended itself there.
    """
    where = f"{start.label}()"
    try:
        with engine.borrowing(start.borrowed):
            instance: object
            instance, initializing = run(partial(_construct, start, engine))
            if initializing is not None:
                run_to_end(lambda: initializing)
        setup = hooks_of(type(instance)).setup
        if setup is not None:
            where = engine.where(setup)
            run_to_end(find_method(instance, setup))
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
    """Imports the class and calls it; this is the first line of the user's code to run.

    Also returns the coroutine of the constructor if that is an ``async def``.
    """
    enter_directory(start)
    source = decode(start.source)
    engine.set_interface(partial(interface_of_source, source))
    cls = class_of(source)
    _add_common_methods(cls)
    args, kwargs = decode_call(start.arguments)
    return make_instance(cls, args, kwargs)


def _refuse_breakpoint(*args: object, **kwargs: object) -> object:
    """Replaces ``breakpoint()``, which needs a terminal.

    ``PYTHONBREAKPOINT`` can name another debugger, for example one that listens on a
    port, or switch it off.
    """
    if os.environ.get("PYTHONBREAKPOINT"):
        return sys.__breakpointhook__(*args, **kwargs)
    raise RuntimeError(
        'breakpoint() in a process that has no terminal: actorlib.init(engine="inline")'
        ", or ACTORLIB_ENGINE=inline, runs actors and functions in your own process, "
        "where a debugger can stop them. PYTHONBREAKPOINT names one that works here"
    )


def _reseed() -> None:
    """Reseeds random generators: all forks would draw the numbers of the template.

    The generator of the standard library reseeds itself.
    """
    numpy_random = cast("Any", sys.modules.get("numpy.random"))
    if numpy_random is not None:  # numpy loads this module on demand
        numpy_random.seed()
    torch = cast("Any", sys.modules.get("torch"))
    if torch is not None:
        torch.seed()


def _limit_threads(threads: int) -> None:
    """Limits the threads of libraries that were preloaded.

    Libraries read their variables when they are loaded. torch accepts the number at any
    time. Other libraries obey the variables only, so they should not be preloaded if
    their threads are to be limited.
    """
    torch = cast("Any", sys.modules.get("torch"))
    if torch is not None:
        torch.set_num_threads(threads)
