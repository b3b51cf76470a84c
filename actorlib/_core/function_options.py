"""What may be said about a remote function: checked once, then frozen.

Written twice side by side: a ``TypedDict`` for the type checker of whoever writes the
keywords, a dataclass for whoever reads them. A test keeps the two equal.
"""

from collections.abc import Mapping  # a type that is asked for
from dataclasses import field, fields, replace
from typing import ClassVar, Literal

from actorlib._core.actor_options import (
    ActorOptions,
    CommonKeywords,
    CommonOptions,
    with_common_texts,
)
from actorlib._core.call_options import RAYS_NAMES, CallOptions
from actorlib._core.ids import NO_ACTOR, ActorId
from actorlib._core.kinds import KINDS
from actorlib._core.public import public
from actorlib._core.resources import CPU, GPU_MEMORY
from actorlib._core.validation import (
    check_count,
    check_text,
    check_times,
    checked_options,
    given_options,
    option,
)
from actorlib._core.value import dataclass

_OF_CALLS = ("backpressure", "detach", "name", "num_returns", "timeout")
"""The options that a call of a method has, too."""

_OF_CODE = ("name", "torch", "retry_exceptions")
"""The common options that are about the function and not about its process."""


@public("actorlib")
class CallingKeywords(CommonKeywords, total=False):
    """The keywords of ``f.options(...)``: all but ``max_calls``."""

    backpressure: int | None
    detach: bool | None
    max_retries: int
    num_returns: int | Literal["streaming", "dynamic"] | None
    timeout: float | None


@public("actorlib")
class FunctionKeywords(CallingKeywords, total=False):
    """The keywords of ``@remote(...)`` on a function: see FunctionOptions."""

    max_calls: int | None


@public("actorlib")
@with_common_texts
@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions(CommonOptions):
    """The options of a remote function: what a call asks for, and how it is made.

    Attributes:
        max_calls: How many calls a process runs before it ends; 0 for any number.
            Default: None, which is 1 if a device is asked for, as the device's memory
            is only free when the process is gone, else 0.
        max_retries: How often a call is made again if its process dies; -1 for always.
            Default: 3.
        num_returns: How many refs a call gives. 2 is for a function that returns a
            tuple of two or yields two values, 0 is for none, ``"streaming"`` is for
            generators. Default: None, which is streaming for generators, else 1.
        backpressure: For generators: how many items it may be ahead of its reader, 1 or
            more; -1 for any number. Default: None, which is 256 items or 8 MiB,
            whichever comes first.
        detach: For generators: if True, it runs to its end also if nobody reads it any
            more, and its items are thrown away. Default: None, which is False: it is
            cancelled.
        timeout: How many seconds the call may take, above 0. Then it fails with
            DeadlineExceededError and is cancelled, with everything that it called. Time
            counts while the call waits for its arguments, waits in line, and runs.
            Default: None, for any time.
        calling: How it is called, as of a method.
    """

    name: str | None = option(check_text, "'resize'", default=None)
    max_calls: int | None = option(check_count, 0, default=None)
    max_retries: int = option(check_times, default=3)
    num_returns: int | Literal["streaming", "dynamic"] | None = None
    backpressure: int | None = None
    detach: bool | None = None
    timeout: float | None = None
    calling: CallOptions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        CommonOptions.__post_init__(self)
        devices = {*KINDS, GPU_MEMORY}
        if self.num_cpus is None and devices.isdisjoint(self.request.amounts):
            object.__setattr__(self, "request", self.amounts(1))
        calling = CallOptions(**{name: getattr(self, name) for name in _OF_CALLS})
        object.__setattr__(self, "calling", calling)
        object.__setattr__(self, "num_returns", calling.num_returns)

    @property
    def needs_rank(self) -> bool:
        """Never: ``group.map`` gives a rank to each actor that calls it."""
        return False

    @property
    def worker(self) -> ActorOptions:
        """What a process asks for that runs it."""
        asked = {
            name: getattr(self, name)
            for name in names_of(CommonOptions)
            if name not in _OF_CODE
        }
        if self.num_cpus is None and CPU in self.request.amounts:
            asked["num_cpus"] = 1
        return ActorOptions(**asked)

    @property
    def worker_key(self) -> tuple[object, ...]:
        """What its workers are like: functions with equal keys share them."""
        env, group = self.runtime_env or {}, self.group
        action = self.device_memory_overuse
        return (
            tuple(sorted(self.request.amounts.items())),
            self.accelerator_type,
            self.placement,
            self.devices,
            self.accelerators,
            self.enforcement,
            self.mps_thread_percentage,
            # A function may have no hash; it lives as long as the workers that have it.
            action if isinstance(action, str | None) else id(action),
            tuple(sorted(env.get("env_vars", {}).items())),
            env.get("working_dir"),
            group and (group.id, self.placement_group_bundle_index),
            self.placement_group_capture_child_tasks,
        )

    @property
    def slotless_worker(self) -> ActorOptions:
        """The options of a worker that holds nothing itself."""
        return ActorOptions(
            placement_group=self.group,
            placement_group_capture_child_tasks=self.placement_group_capture_child_tasks,
            accelerators=self.accelerators,
            enforcement=self.enforcement,
            runtime_env=self.runtime_env,
        )

    def updated(self, given: Mapping[str, object]) -> "FunctionOptions":
        """These options with some of them replaced.

        Args:
            given: The new values, by name.

        Raises:
            TypeError: A value has the wrong type.
            ValueError: An option is unknown or its value is out of range.
        """
        return checked_function({**given_options(self), **given})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class FunctionSpec:
    """What every call of a remote function with the same options has in common.

    One kind of Callee: it is for no actor, and in no order.

    Attributes:
        source: What a worker unpickles to get the function: the decorated name if a
            module has it, the function itself otherwise.
        may_change: Whether it is to be asked for anew before each call, as a name in it
            may stand for something else by then.
        name: What its calls are called in messages.
        options: What each call asks for.
        is_stream: Whether it is a generator: a call gives items, one after the other.
        headers: What is said of each call besides its arguments, or None.
    """

    actor: ClassVar[ActorId] = NO_ACTOR
    keeps_order: ClassVar[bool] = False
    is_capped: ClassVar[bool] = False

    source: object
    name: str
    options: FunctionOptions
    may_change: bool = False
    is_stream: bool = False
    headers: dict[str, object] | None = field(init=False)

    def __str__(self) -> str:
        return self.name

    def __post_init__(self) -> None:
        headers = self.options.calling.headers
        if self.is_stream:  # the worker has to know how far each may be ahead
            headers |= self.options.calling.of_stream
        object.__setattr__(self, "headers", headers or None)

    def with_header(self, name: str, value: object) -> "FunctionSpec":
        """The same, with one header more in each call."""
        other = replace(self)
        object.__setattr__(other, "headers", {**(self.headers or {}), name: value})
        return other


OF_ACTORS: Mapping[str, str] = {
    "max_restarts": "max_retries",
    "max_task_retries": "max_retries",
    "max_concurrency": "",
    "lifetime": "",
    "namespace": "",
}
"""Words for actors, each with the one for functions, if there is one."""

OF_FUNCTIONS: Mapping[str, str] = {
    "max_retries": "max_task_retries",
    "max_calls": "",
}
"""Words for functions, each with the one for actors, if there is one."""


def in_our_words(given: Mapping[str, object]) -> dict[str, object]:
    """Options by our names, where Ray's were written."""
    return {RAYS_NAMES.get(name, name): value for name, value in given.items()}


def names_of(options: type[CommonOptions]) -> list[str]:
    """The names of the options of a kind."""
    return [option.name for option in fields(options) if option.init]


def checked_function(given: Mapping[str, object]) -> "FunctionOptions":
    """The options of a remote function from keywords a user wrote.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: An option is unknown, is for actors alone, or its value is out of
            range.
    """
    known, given = names_of(FunctionOptions), in_our_words(given)
    for name in given:
        if name not in known and name in names_of(ActorOptions):
            word = OF_ACTORS.get(name)
            hint = f" The word for functions is {word}=." if word else ""
            raise ValueError(
                f"{name}={given[name]!r} is an option of actors, and this is a "
                f"function.{hint} The options are {', '.join(known)}"
            )
    return checked_options(FunctionOptions, "a remote function", given)


def checked_actor(given: Mapping[str, object]) -> ActorOptions:
    """The options of an actor class from keywords a user wrote.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: An option is unknown, is for functions alone, or its value is out
            of range.
    """
    known = names_of(ActorOptions)
    for name in given:
        if name not in known and name in names_of(FunctionOptions):
            word = OF_FUNCTIONS.get(name)
            hint = f" The word for actors is {word}=." if word else ""
            raise ValueError(
                f"{name}={given[name]!r} is no option of an actor: it is one of remote "
                f"functions.{hint} The options are {', '.join(known)}"
            )
    return checked_options(ActorOptions, "an actor", given)
