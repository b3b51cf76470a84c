"""The verbs of a script: each blocks until it is done."""

from __future__ import annotations

import functools
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import actorlib
from actorlib import _runtime
from actorlib._api import decorators
from actorlib._api import waiting as _waiting
from actorlib._api.decorators import use_engine
from actorlib._base.public import public
from actorlib._base.stack_frames import shows_own_frames
from actorlib._loops.loop_thread import is_on_actor_loop
from actorlib._script_runtime import SCRIPT
from actorlib.blocking.exceptions import RayTaskCancelledError
from actorlib.exceptions import TaskCancelledError, UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib import ActorClass
    from actorlib._api.actor_handle import ActorHandle
    from actorlib._api.remote_function import RemoteFunction
    from actorlib._core.runtime_context import RuntimeContext
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._futures.stream_reader import ObjectRefGenerator

T = TypeVar("T")
W = TypeVar("W", bound="ObjectRef[Any] | ObjectRefGenerator[Any]")

NODE_ADDRESS = "127.0.0.1"
"""Where the one machine is: what runs on it needs no other address."""

if TYPE_CHECKING:
    remote = decorators.remote
else:

    @public("actorlib.blocking")
    @functools.wraps(decorators.remote)
    def remote(*given: object, **options: Any) -> Any:
        made = decorators.remote(*given, **options)
        if given:
            return _starting(made)
        return lambda decorated: _starting(made(decorated))


def _starting(
    made: ActorClass[..., Any] | RemoteFunction[..., Any],
) -> ActorClass[..., Any] | RemoteFunction[..., Any]:
    """The same; its ``.remote()`` starts a runtime if there is none."""
    use_engine(made, SCRIPT.engine)
    return made


@overload
def get(refs: ObjectRef[T], *, timeout: float | None = None) -> T: ...
@overload
def get(refs: Sequence[ObjectRef[T]], *, timeout: float | None = None) -> list[T]: ...
@public("actorlib.blocking")
def get(refs: object, *, timeout: float | None = None) -> object:
    """Blocks until results are there.

    Args:
        refs: One ref, or a list of them.
        timeout: Seconds to wait for all of them, or None for as long as it takes.
            Default: None.

    Returns:
        The value, or the list of values in the order of the refs. A value that can be
        changed is an object of its own each time: nobody sees what is done to it.

    Raises:
        TypeError: It is neither a ref nor a list of refs.
        GetTimeoutError: They did not come in time; the calls go on.
        RuntimeError: The result comes through the event loop that this thread runs.
        KeyboardInterrupt: Ctrl-C; the calls go on.
        TaskCancelledError: A call was cancelled. As in Ray, it is a RayTaskError too.
        Exception: What one of them raised, as soon as it did.

    Example:
        >>> import actorlib.blocking as ray
        >>> @ray.remote
        ... def double(x):
        ...     return 2 * x
        >>> with ray.init(num_cpus=1, engine="inline"):
        ...     print(ray.get([double.remote(1), double.remote(2)]))
        [2, 4]
    """
    SCRIPT.engine()
    try:
        return _waiting.get_fresh(refs, timeout)
    except TaskCancelledError as error:
        raise RayTaskCancelledError(str(error)) from None
    except BaseException as error:
        if not shows_own_frames():
            error.__traceback__ = None  # so far it has only frames of this package
        raise


@public("actorlib.blocking")
def put(value: T) -> ObjectRef[T]:
    """Keeps a value as it is now, to be given to many by its ref.

    Args:
        value: The value; later changes of the original are not seen.

    Raises:
        TypeError: It is a ref, or cannot be sent.
        ObjectStoreFullError: It has no room, and may not go another way.

    Example:
        >>> import actorlib.blocking as ray
        >>> with ray.init(num_cpus=1, engine="inline"):
        ...     ref = ray.put("a")
        ...     print(ray.get(ref))
        a
    """
    SCRIPT.engine()
    return _runtime.put(value)


@public("actorlib.blocking")
def wait(
    refs: Sequence[W],
    *,
    num_returns: int = 1,
    timeout: float | None = None,
    fetch_local: bool = True,
) -> tuple[list[W], list[W]]:
    """Waits until some refs are done, whether they have a value or an error.

    A generator of a call is done when its next item is there, or none will come.

    Args:
        refs: Refs and generators, each of them once.
        num_returns: How many have to be done. Default: 1.
        timeout: Seconds after which it returns with fewer, or None. 0 only looks.
            Default: None.
        fetch_local: Taken so that scripts may say so: everything is local. Default:
            True.

    Returns:
        The refs that are done, ``num_returns`` at the most, and all others; both in
        the order in which they were given.

    Raises:
        TypeError: It was given something else than a list of refs.
        ValueError: A ref is there twice, or a number is out of range.
        RuntimeError: This thread runs the runtime's event loop, and not that of an
            actor: ``await actorlib.wait(refs)``.

    Example:
        >>> import actorlib.blocking as ray
        >>> @ray.remote
        ... def double(x):
        ...     return 2 * x
        >>> with ray.init(num_cpus=1, engine="inline"):
        ...     ready, left = ray.wait([double.remote(1)], timeout=10)
        ...     print(ray.get(ready), left)
        [2] []
    """
    del fetch_local
    SCRIPT.engine()
    waiting = _waiting.wait(refs, num_returns=num_returns, timeout=timeout)
    if is_on_actor_loop():  # blocks it with a warning, as get() does
        return _waiting.get_on_loop(waiting)
    for ref in refs[:1]:
        instead = "'ready, left = await actorlib.wait(refs)'"
        _waiting.refuse_running_loop(_waiting.readiness_of(ref), "wait()", instead)
    return waiting.get()


@public("actorlib.blocking")
def kill(actor: ActorHandle[Any], *, no_restart: bool = True) -> None:
    """Ends an actor at once, interrupting what it does.

    Args:
        actor: Its handle.
        no_restart: False restarts it if its ``max_restarts`` allows one more. Default:
            True.

    Raises:
        TypeError: It is not a handle.

    Example:
        >>> import actorlib.blocking as ray
        >>> @ray.remote
        ... class Counter:
        ...     pass
        >>> with ray.init(num_cpus=1, engine="inline"):
        ...     ray.kill(Counter.remote())
    """
    SCRIPT.engine()
    _runtime.kill(actor, no_restart=no_restart)


@public("actorlib.blocking")
def cancel(
    ref: ObjectRef[Any] | ObjectRefGenerator[Any],
    *,
    force: bool = False,
    recursive: bool = True,
    interrupt: bool = False,
) -> None:
    """Cancels a call, waiting or running; see ``actorlib.cancel``.

    Args:
        ref: The ref of the call.
        force: If True, the process of a running function is ended. Default: False.
        recursive: If True, the calls that it has made are cancelled, too. Default:
            True.
        interrupt: If True, a running plain method of an actor gets KeyboardInterrupt.
            Default: False.

    Raises:
        TypeError: It is neither a ref nor a generator of refs.
        ValueError: ``force`` for a call of an actor; ``interrupt`` for a call that this
            program has not made itself, or with ``force``.
    """
    SCRIPT.engine()
    _runtime.cancel(ref, recursive=recursive, force=force, interrupt=interrupt)


@public("actorlib.blocking")
def get_actor(name: str, namespace: str | None = None) -> ActorHandle[Any]:
    """Finds a living actor by its name, and returns its handle.

    Args:
        name: The name that ``.options(name=...)`` gave.
        namespace: Where to look; None for the runtime's own. Default: None.

    Raises:
        ActorNotFoundError: No living actor has that name there. It is a ValueError.
    """
    SCRIPT.engine()
    return actorlib.get_actor(name, namespace)


@public("actorlib.blocking")
def get_gpu_ids() -> list[int | str]:
    """Returns the ids of the GPUs that this actor, or this call of a function, has."""
    SCRIPT.engine()
    return _runtime.get_gpu_ids()


@public("actorlib.blocking")
def get_runtime_context() -> RuntimeContext:
    """Tells where the calling code runs: in which actor, on which devices."""
    SCRIPT.engine()
    return _runtime.get_runtime_context()


@public("actorlib.blocking")
def available_resources() -> dict[str, float]:
    """Tells how much of each resource is free, by its name; memory in bytes.

    Raises:
        RuntimeNotStartedError: No runtime is running.
    """
    return SCRIPT.running().available()


@public("actorlib.blocking")
def cluster_resources() -> dict[str, float]:
    """Tells how much of each resource there is, by its name; memory in bytes.

    Raises:
        RuntimeNotStartedError: No runtime is running.
    """
    return SCRIPT.running().total()


@public("actorlib.blocking")
def nodes() -> list[dict[str, Any]]:
    """Lists the machines in Ray's layout: this one.

    Raises:
        RuntimeNotStartedError: No runtime is running.
        UnsupportedOptionError: The engine is Ray's.
    """
    engine = SCRIPT.running()
    if hasattr(engine, "nodes"):
        raise UnsupportedOptionError(
            "nodes() lists the one machine of the other engines, and this runtime is "
            "on a cluster: Ray's own ray.nodes() lists its machines"
        )
    resources = engine.total()
    context = _runtime.get_runtime_context()
    return [
        {
            "NodeID": context.get_node_id(),
            "Alive": True,
            "alive": True,
            "NodeManagerAddress": NODE_ADDRESS,
            "Resources": resources,
            "Labels": context.get_node_labels(),
        }
    ]


@public("actorlib.blocking")
def timeline(filename: str | None = None) -> list[dict[str, Any]] | None:
    """Gives what this script has done and when, as Chrome's trace events.

    These are the events of ``runtime.trace()``, from the start of the runtime until
    now: calls of the script, of functions, and from actor to actor; what waited and
    what ran; states of actors. The newest 100 000 calls and as many runs are kept. They
    are recorded in a script that was started with ``ACTORLIB_TIMELINE=1``, or with how
    many are to be kept, as it costs each call 1 to 3 us. An actor that runs a plain
    method, or is stuck, is waited for a second; its latest runs may be missing.

    Args:
        filename: Where to write it, for ``chrome://tracing`` or Perfetto; None to have
            it. Default: None.

    Returns:
        The events, or None if they were written to a file.

    Raises:
        UnsupportedOptionError: The script was not started so.
        RuntimeNotStartedError: No runtime is running, or this is an actor's code.
        OSError: The file cannot be written.
    """
    recorded = SCRIPT.recorded()
    if recorded is None:
        raise UnsupportedOptionError(
            "timeline(): nothing was recorded, as that costs each call 1 to 3 us: "
            "start the script with ACTORLIB_TIMELINE=1. What has no answer yet is told "
            "by util.state.list_tasks(), and what there is by util.state.snapshot()"
        )
    began, drawn = recorded
    # As Ray's: microseconds since 1970.
    origin = (time.time() - time.monotonic() + began) * 1e6
    for event in drawn:
        if "ts" in event:
            event["ts"] += origin
    if filename is None:
        return drawn
    Path(filename).write_text(json.dumps(drawn))
    return None
