"""Translates options of actors and calls into Ray's, and refuses the others.

Each option is in one of four tables, which a test keeps complete: ``AMOUNTS`` are
resources, ``PASSED`` is passed to Ray unchanged, ``HANDLED`` is implemented by this
engine, and ``REFUSED`` is refused by name where it is written.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from actorlib._base.validation import names_of, options_by_word
from actorlib._options.actor_options import ActorOptions
from actorlib._options.call_options import CallOptions
from actorlib._options.hooks import hooks_of
from actorlib._options.kinds import GPU
from actorlib._options.resources import CPU, MEMORY, counted
from actorlib.exceptions import UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib._base.validation import Options
    from actorlib._options.actor_options import CommonOptions
    from actorlib._options.function_options import FunctionOptions
    from actorlib._options.interface import Method
    from actorlib._options.runtime_env import RuntimeEnv

AMOUNTS = ("num_cpus", "num_gpus", "memory", "resources", "accelerator_type")
"""Options with amounts of resources; ``amounts`` translates them."""

PASSED = (
    "name",
    "lifetime",
    "namespace",
    "allow_out_of_order_execution",
    "get_if_exists",
    "max_restarts",
    "max_task_retries",
    "max_retries",
    "concurrency_group",
)
"""Options that Ray has by the same name, with the same meaning."""

HANDLED: Mapping[str, str] = {
    "max_concurrency": "Ray's, for plain classes; for others the host counts; of a "
    "function, each call has a worker of its own",
    "concurrency_groups": "Ray's, when the class is declared; for others the host",
    "max_unread_items": "Ray's, by another name, for plain classes",
    "backpressure": "Ray's, by another name, for plain classes and functions",
    "num_returns": "the caller splits a result; a generator streams",
    "max_calls": "Ray's, when the function is declared",
    "retry_exceptions": "the host decides which errors are retried",
    "runtime_env": "Ray's for variables; the host changes the directory",
    "accelerators": "the host hides them",
    "placement_group": "a scheduling strategy of Ray's",
    "placement_group_bundle_index": "a scheduling strategy of Ray's",
    "placement_group_capture_child_tasks": "a scheduling strategy of Ray's",
    "scheduling_strategy": "Ray's, or the same as the three above",
    "max_pending_calls": "the caller counts, as everywhere",
    "timeout": "the caller keeps the time",
    "detach": "the caller's generator runs on",
    "key": "the handle refuses it, as there are no Replicas on Ray",
}
"""Options that this engine implements, each with how."""

REFUSED: Mapping[str, str] = {
    "device": "Ray chooses the device; ask for a kind by accelerator_type=, or for a "
    "node by a custom resource of it",
    "near": "Ray knows nothing of links between devices; put both actors into one "
    "bundle of a placement group",
    "apart_from": "Ray knows nothing of other actors' devices; put both actors into a "
    "placement group with the strategy STRICT_SPREAD",
    "placement": "Ray fills one device after the other; 'pack' is what it does",
    "priority": "Ray has no priorities among those that wait; leave it out",
    "enforcement": "Ray counts shares and does not enforce them; leave it out",
    "mps_thread_percentage": "Ray starts no MPS daemon; set "
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE in runtime_env where you run one",
    "device_memory_overuse": "Ray does not look at the memory of devices; leave it out",
    "torch": "Ray has no rank of a placement group; Ray Train gives ranks",
    "gpu_memory": "Ray counts GPUs and not their memory; ask for the part of a card "
    "that it is, with num_gpus=",
    "restart_window": "Ray counts restarts over the whole life; leave it out",
    "restart_backoff": "Ray restarts at once; leave it out",
}
"""Options that Ray does not support, each with what to write instead."""

ASYNC_LIMIT = 1_000_000
"""The most running calls of a looped actor for Ray; the host limits them."""

_DEFAULTS = ActorOptions()
_RAYS_NAMES = {
    name: word
    for kind in (ActorOptions, CallOptions)
    for word, name in options_by_word(kind).items()
    if word != name
}
_AS_RAY_DOES = ("pack", "auto", "off")


def refuse(label: str, options: ActorOptions) -> None:
    """Refuses options that Ray does not support.

    Raises:
        UnsupportedOptionError: An option is among those in ``REFUSED``.
    """
    for name, why in REFUSED.items():
        value = getattr(options, name)
        if value in (getattr(_DEFAULTS, name), *_AS_RAY_DOES):
            continue
        raise UnsupportedOptionError(
            f"{label} is to have {name}={value!r}, and the Ray engine cannot do that: "
            f"{why}. The local engine can"
        )


def refuse_hooks(label: str, cls: type) -> None:
    """Refuses methods marked with ``@setup`` or ``@close`` that would be awaited.

    Ray makes an actor's object on the loop that its methods run on, and ends it there.

    Raises:
        UnsupportedOptionError: There is one.
    """
    hooks = hooks_of(cls)
    for name in filter(None, hooks[:2]):
        if inspect.iscoroutinefunction(getattr(cls, name)):
            raise UnsupportedOptionError(
                f"{label}.{name} begins or ends the life of its actors and is an async "
                "def, which the Ray engine cannot await there: make it a plain method. "
                "The local engine can"
            )


def amounts(options: CommonOptions) -> dict[str, Any]:
    """Returns the requested amounts of an actor or a call.

    By default, an actor without requests holds a CPU on Ray while it is placed, and Ray
    rounds a sixth of a device up, so that six do not fit.
    """
    exact = counted(options.request.amounts)
    values: dict[str, Any] = {
        "num_cpus": exact.get(CPU, 0),
        "num_gpus": exact.get(GPU.name, 0),
        "memory": exact.get(MEMORY),
        "resources": {n: exact[n] for n in options.resources or {} if n in exact},
        "accelerator_type": options.accelerator_type,
    }
    return {name: value for name, value in values.items() if value is not None}


def passed(options: Options) -> dict[str, Any]:
    """Returns the options that are passed to Ray unchanged."""
    names = [name for name in PASSED if name in names_of(type(options))]
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def actor_options(
    label: str, options: ActorOptions, *, is_async: bool
) -> dict[str, Any]:
    """Returns the keywords of Ray's ``.options()`` for an actor, without its group.

    Raises:
        UnsupportedOptionError: Ray does not support an option.
    """
    refuse(label, options)
    translated = amounts(options) | passed(options)
    limits = options.limits(is_async=is_async)
    translated["max_concurrency"] = ASYNC_LIMIT if is_async else limits.get("", 1)
    if options.max_unread_items not in (None, -1):
        if is_async:
            raise UnsupportedOptionError(
                f"{label} is to have max_unread_items={options.max_unread_items}, and "
                "it has async methods, whose items Ray does not count: leave it out, "
                "or use the local engine"
            )
        translated[_RAYS_NAMES["max_unread_items"]] = options.max_unread_items
    return translated | _env_of(options.runtime_env)


def function_options(
    label: str, options: FunctionOptions, *, is_stream: bool
) -> dict[str, Any]:
    """Returns the keywords of Ray's ``.options()`` for calls of a function.

    Raises:
        UnsupportedOptionError: Ray does not support an option.
    """
    refuse("a function", options.worker)
    directory = (options.runtime_env or {}).get("working_dir")
    for name, value in (
        ("working_dir", directory),
        ("accelerators", options.accelerators),
    ):
        if value not in (None, "inherit"):
            raise UnsupportedOptionError(
                f"a function is to have {name}={value!r}, and Ray's workers run one "
                "function after the other without such changes: call a method of an "
                "actor, or use the local engine"
            )
    translated = {**amounts(options), **passed(options), "name": label}
    if is_stream:
        translated |= _stream_options(label, options.backpressure, is_async=False)
    return translated | _env_of(options.runtime_env)


def _env_of(env: RuntimeEnv | None) -> dict[str, Any]:
    """Returns the variables for Ray; the host changes the directory."""
    variables = (env or {}).get("env_vars")
    return {"runtime_env": {"env_vars": dict(variables)}} if variables else {}


def call_options(label: str, method: Method, *, is_async: bool) -> dict[str, Any]:
    """Returns the keywords of Ray's ``.options()`` for one call.

    Raises:
        UnsupportedOptionError: Ray does not support an option.
    """
    options = method.options
    where = f"{label}.{method.name}"
    translated = {"name": where, **passed(options)}
    if is_async:  # the host has the groups
        translated.pop("concurrency_group", None)
    if method.is_stream:
        translated |= _stream_options(where, options.backpressure, is_async=is_async)
    return translated


def _stream_options(
    where: str, backpressure: int | None, *, is_async: bool
) -> dict[str, Any]:
    translated: dict[str, Any] = {"num_returns": "streaming"}
    if backpressure in (None, -1):
        return translated
    if is_async:
        raise UnsupportedOptionError(
            f"{where} is to have backpressure={backpressure}, and Ray holds back "
            "generators of actors without async methods alone: leave it out, or use "
            "the local engine"
        )
    return {**translated, _RAYS_NAMES["backpressure"]: backpressure}
