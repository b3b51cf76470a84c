"""The functions of the blocking API; each blocks until it is done."""

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

    from actorlib._api.actor_handle import ActorHandle
    from actorlib._api.remote_function import RemoteFunction
    from actorlib._core.runtime_context import RuntimeContext
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._futures.stream_reader import ObjectRefGenerator
    from actorlib.types import ActorClass

T = TypeVar("T")
W = TypeVar("W", bound="ObjectRef[Any] | ObjectRefGenerator[Any]")

NODE_ADDRESS = "127.0.0.1"
"""The address of the machine for its own processes."""

if TYPE_CHECKING:
    remote = decorators.remote
else:

    @public("actorlib.blocking")
    @functools.wraps(decorators.remote)
    def remote(*sources: object, **options: Any) -> Any:
        decorated = decorators.remote(*sources, **options)
        if sources:
            return _starting(decorated)
        return lambda source: _starting(decorated(source))


class NotAHandleError(TypeError, ValueError):
    """``kill()`` takes a handle; Ray's users catch ValueError."""


def _starting(
    decorated: ActorClass[..., Any] | RemoteFunction[..., Any],
) -> ActorClass[..., Any] | RemoteFunction[..., Any]:
    """Makes ``.remote()`` start a runtime if there is none."""
    use_engine(decorated, SCRIPT.engine)
    return decorated


@overload
def get(refs: ObjectRef[T], *, timeout: float | None = None) -> T: ...
@overload
def get(refs: Sequence[ObjectRef[T]], *, timeout: float | None = None) -> list[T]: ...
@public("actorlib.blocking")
def get(refs: object, *, timeout: float | None = None) -> object:
    """Blocks until results are ready.

    Args:
        refs: One ref, or a list of them.
        timeout: Seconds to wait for all of them, or None for no limit. Default: None.

    Returns:
        The value, or the list of values in the order of the refs. A mutable value is a
        new object each time, so changes of it affect no other code.

    Raises:
        TypeError: It is neither a ref nor a list of refs.
        GetTimeoutError: They were not ready in time; the calls continue.
        RuntimeError: This thread runs the event loop through which the result comes.
        KeyboardInterrupt: Ctrl-C; the calls continue.
        TaskCancelledError: A call was cancelled. As in Ray, it is a RayTaskError too.
        Exception: The error of one of the calls, as soon as it failed.

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
    """Stores a copy of a value, to pass it to many calls by its ref.

    Args:
        value: The value; later changes of the original have no effect.

    Raises:
        TypeError: It is a ref, or cannot be sent.
        ObjectStoreFullError: There is no room for it, and ``object_store_full`` is
            ``"fail"``.

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

    A generator of a call is done when its next item is ready, or at its end.

    Args:
        refs: Refs and generators, each of them once.
        num_returns: The number of refs that have to be done. Default: 1.
        timeout: Seconds after which it returns with fewer, or None. 0 does not wait.
            Default: None.
        fetch_local: Has no effect: everything is local. Default: True.

    Returns:
        The refs that are done, at most ``num_returns``, and all others; both in the
        order of ``refs``.

    Raises:
        TypeError: It is not a list of refs.
        ValueError: A ref is repeated, or a number is out of range.
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
    """Ends an actor at once, and interrupts its calls.

    Args:
        actor: Its handle.
        no_restart: If False, it is restarted if its ``max_restarts`` allows that.
            Default: True.

    Raises:
        TypeError: It is not a handle. The error is also a ValueError, as in Ray.

    Example:
        >>> import actorlib.blocking as ray
        >>> @ray.remote
        ... class Counter:
        ...     pass
        >>> with ray.init(num_cpus=1, engine="inline"):
        ...     ray.kill(Counter.remote())
    """
    SCRIPT.engine()
    try:
        _runtime.kill(actor, no_restart=no_restart)
    except TypeError as error:
        raise NotAHandleError(str(error)) from None


@public("actorlib.blocking")
def cancel(
    ref: ObjectRef[Any] | ObjectRefGenerator[Any],
    *,
    force: bool = False,
    recursive: bool = True,
    interrupt: bool = False,
) -> None:
    """Cancels a waiting or running call; see ``actorlib.cancel``.

    Args:
        ref: The ref of the call.
        force: If True, the process of a running function is ended. Default: False.
        recursive: If True, the calls that it has made are cancelled, too. Default:
            True.
        interrupt: If True, KeyboardInterrupt is raised in a running plain method of an
            actor. Default: False.

    Raises:
        TypeError: It is neither a ref nor a generator of refs.
        ValueError: ``force`` for a call of an actor; ``interrupt`` for a call that
            another process has made, or with ``force``.
    """
    SCRIPT.engine()
    _runtime.cancel(ref, recursive=recursive, force=force, interrupt=interrupt)


@public("actorlib.blocking")
def get_actor(name: str, namespace: str | None = None) -> ActorHandle[Any]:
    """Returns the handle of the living actor of a name.

    Args:
        name: The name, set by ``.options(name=...)``.
        namespace: The namespace; None for that of the runtime. Default: None.

    Raises:
        ActorNotFoundError: No living actor has that name. It is a ValueError.
    """
    SCRIPT.engine()
    return actorlib.get_actor(name, namespace)


@public("actorlib.blocking")
def get_gpu_ids() -> list[int | str]:
    """Returns the ids of the GPUs of this actor, or of this call of a function."""
    SCRIPT.engine()
    return _runtime.get_gpu_ids()


@public("actorlib.blocking")
def get_runtime_context() -> RuntimeContext:
    """Returns the context of the calling code: its actor, its devices."""
    SCRIPT.engine()
    return _runtime.get_runtime_context()


@public("actorlib.blocking")
def available_resources() -> dict[str, float]:
    """Returns the free amount of each resource by its name; memory in bytes.

    Raises:
        RuntimeNotStartedError: No runtime is running.
    """
    return SCRIPT.running().available()


@public("actorlib.blocking")
def cluster_resources() -> dict[str, float]:
    """Returns the total amount of each resource by its name; memory in bytes.

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
            "nodes() lists the machine of the local engine, and this runtime is on a "
            "cluster: Ray's own ray.nodes() lists its machines"
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
    """Returns the timeline of this script as Chrome's trace events.

    These are the events of ``runtime.trace()`` since the start of the runtime: calls of
    the script, of functions, and between actors; their waiting and running times;
    states of actors. The newest 100 000 calls and as many runs are kept. Set
    ``ACTORLIB_TIMELINE=1``, or the number of calls to keep, to record them; that costs
    each call 1 to 3 us. The latest runs of an actor may be missing if it runs a plain
    method or is stuck for more than a second.

    Args:
        filename: A file for ``chrome://tracing`` or Perfetto; None to return the
            events. Default: None.

    Returns:
        The events, or None if they were written to a file.

    Raises:
        UnsupportedOptionError: ``ACTORLIB_TIMELINE`` is not set.
        RuntimeNotStartedError: No runtime is running, or this is code of an actor.
        OSError: The file cannot be written.
    """
    recorded = SCRIPT.recorded()
    if recorded is None:
        raise UnsupportedOptionError(
            "timeline(): nothing was recorded, as that costs each call 1 to 3 us: "
            "start the script with ACTORLIB_TIMELINE=1. util.state.list_tasks() lists "
            "unanswered calls, and util.state.snapshot() the state of the runtime"
        )
    began, events = recorded
    # As in Ray: microseconds since 1970.
    origin = (time.time() - time.monotonic() + began) * 1e6
    for event in events:
        if "ts" in event:
            event["ts"] += origin
    if filename is None:
        return events
    Path(filename).write_text(json.dumps(events))
    return None
