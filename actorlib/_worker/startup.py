"""The first frame becomes an environment, then a class, then an object.

The order is the promise: visibility variables are in place before the first line of
the user's code is imported.

The methods that every actor has, and the one that it may have, known from Ray.

The former are put into the class, in this process alone, so that calling one is like
calling any other and costs nothing where none is called.

The threads that serve an actor beside its main one.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback
from collections.abc import Coroutine
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from actorlib._core.interface import CALL, READY, class_of, face_of
from actorlib._core.labels import Label
from actorlib._core.runtime_context import RuntimeContext
from actorlib._wire.actor_config import ActorConfig
from actorlib._wire.messages import START, Frame
from actorlib._wire.serialization import decode, decode_call
from actorlib._worker.os_process import call_process
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from actorlib._core.ids import ActorId
    from actorlib._core.interface import Interface
    from actorlib._core.runtime_env import RuntimeEnv
    from actorlib._shm.memory import Payload


SHUTDOWN = "__ray_shutdown__"
"""What an actor's class calls the method that cleans up when the actor leaves."""


def install(cls: type) -> None:
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
    run: Callable[[Callable[[], object]], None] | None = None,
) -> Generator[None]:
    """Around the life of an actor: it cleans up when it leaves, as its class says.

    It leaves when it is stopped behind what it was sent, and by ``exit_actor()`` or
    ``sys.exit()``. What is killed, or fails, or has lost its owner, does not. What the
    method raises is printed, and the actor leaves all the same.

    Args:
        instance: The actor's object.
        run: Calls the method and awaits it if that is needed; for actors with a loop.
    """
    try:
        yield
    except SystemExit:
        _shut_down(instance, run or _run_alone)
        raise
    _shut_down(instance, run or _run_alone)


def _shut_down(instance: object, run: Callable[[Callable[[], object]], None]) -> None:
    clean_up = getattr(type(instance), SHUTDOWN, None)
    if clean_up is None:
        return
    try:
        run(partial(clean_up, instance))
    except BaseException:  # noqa: BLE001  # the user's code, in the actor's last frame
        traceback.print_exc()


def _run_alone(clean_up: Callable[[], object]) -> None:
    done = clean_up()
    if isinstance(done, Coroutine):
        import asyncio  # noqa: PLC0415  # actors without a loop never load it

        asyncio.run(cast("Coroutine[Any, Any, object]", done))


class ExecutorThreads:
    """Threads of one actor; they belong to it, also where several share a process.

    Nothing waits for them at the end of the process.
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


class GroupThreads:
    """The threads of one concurrency group: made when they are needed, and kept.

    They run calls of no other group, so what belongs to a thread (a database
    connection, a ``threading.local``) is the group's own. Whoever gives them calls
    counts those (see Gate), so there are never more threads than may run at once; it
    does so from one thread or under one lock, as nothing here has one.

    Args:
        crew: Whose they are.
        name: What debuggers call them.
        serve: Runs a call; gives the next one that this thread is to run, if any.
    """

    def __init__(
        self, crew: ExecutorThreads, name: str, serve: Callable[[Frame], Frame | None]
    ) -> None:
        self._crew = crew
        self._name = name
        self._serve = serve
        # Not that of the call which happens to need another thread.
        self._context = copy_context()
        self._jobs: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._made = 0
        self._idle = 0

    def give(self, frame: Frame) -> None:
        """Has one of them run a call, now."""
        if self._idle:
            self._idle -= 1
            self._jobs.put(frame)
            return
        self._made += 1
        name = f"{self._name}-{self._made}"
        self._context.run(self._crew.start, name, self._work, frame)

    def rested(self) -> None:
        """One of them has run a call and has no other; told before its place is free.

        It may not wait for the next one yet, but will.
        """
        self._idle += 1

    def end(self) -> None:
        """Ends them, each behind the call that it runs."""
        for _ in range(self._made):
            self._jobs.put(None)

    def _work(self, frame: Frame | None) -> None:
        while frame is not None:
            frame = self._serve(frame) or self._jobs.get()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a worker has read in its first frame.

    Attributes:
        config: What it is told of its actor.
        label: What the actor is called in messages.
        context: Makes what the actor may ask about itself, from its process.
        crew: The threads that it is served by beside its main one.
        source: The pickled class.
        loans: The actors whose handles are in the class or among the arguments.
        arguments: For the constructor.
    """

    config: ActorConfig
    label: Label
    context: partial[RuntimeContext]
    crew: ExecutorThreads
    source: bytes
    loans: tuple[ActorId, ...] | None
    arguments: Payload


def read_start(frame: Frame) -> Start:
    """Reads the first frame.

    Raises:
        ProtocolError: It is no START frame.
    """
    if frame[0] != START:
        raise ProtocolError(f"a worker's first frame is START, not kind {frame[0]}")
    _, values, source, loans, arguments = frame
    config = ActorConfig(**values)
    return Start(
        config=config,
        label=Label(config.class_name, config.name),
        context=_context_of(config),
        crew=ExecutorThreads(),
        source=source,
        loans=loans,
        arguments=arguments,
    )


def _context_of(config: ActorConfig) -> partial[RuntimeContext]:
    is_actor = not config.runs_functions
    group = config.placement_group
    return partial(
        RuntimeContext,
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
    call_process(start.config.class_name)
    sys.breakpointhook = _break
    _reseed()
    if start.config.threads is not None:
        _limit_threads(start.config.threads)


def settle_down(start: Start) -> None:
    """Goes to the directory that the process works in."""
    if start.config.directory is not None:
        os.chdir(start.config.directory)


def construct(
    start: Start, defined: Callable[[Callable[[], Interface]], None]
) -> object:
    """Imports the class and makes the object, with the user's code for the first time.

    Args:
        start: What the worker was told first.
        defined: Takes what gives the face of the class, before anything is made.

    Raises:
        BaseException: Whatever the import or the constructor raised.
    """
    settle_down(start)
    source = decode(start.source)
    defined(partial(face_of, source))
    cls = class_of(source)
    install(cls)
    args, kwargs = decode_call(start.arguments)
    return cast("Callable[..., object]", cls)(*args, **kwargs)


def _break(*args: object, **kwargs: object) -> object:
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
