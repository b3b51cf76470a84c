"""What may be said about a remote function: checked once, then frozen.

Written twice side by side: a ``TypedDict`` for the type checker of whoever writes the
keywords, a dataclass for whoever reads them. A test keeps the two equal.
"""

from collections.abc import Mapping, Sequence  # types that are asked for
from dataclasses import field, fields, replace
from typing import ClassVar, Literal, TypedDict, cast

from actorlib._core.actor_options import ActorOptions
from actorlib._core.call_options import RAYS_NAMES, CallOptions
from actorlib._core.group_spec import ANY_BUNDLE, DEFAULT
from actorlib._core.ids import NO_ACTOR, ActorId
from actorlib._core.kinds import KINDS
from actorlib._core.public import public
from actorlib._core.resources import GPU_MEMORY, Resources  # likewise
from actorlib._core.runtime_env import RuntimeEnv  # likewise
from actorlib._core.shares import EnforcementWord, OveruseAction  # likewise
from actorlib._core.validation import (
    check_count,
    check_gang_name,
    check_text,
    check_times,
    checked_exceptions,
    checked_options,
    given_options,
)
from actorlib._core.value import dataclass


@public("actorlib")
class CommonKeywords(TypedDict, total=False):
    """The keywords that ``@remote(...)`` takes for functions and for classes alike."""

    num_cpus: float | None
    num_gpus: float | None
    gpu_memory: float | str | None
    memory: float | str | None
    resources: Mapping[str, float] | None
    accelerator_type: str | None
    placement: Literal["pack", "spread"] | None
    device: str | int | Sequence[str | int] | None
    placement_group: object
    placement_group_bundle_index: int
    placement_group_capture_child_tasks: bool | None
    scheduling_strategy: object
    accelerators: Literal["hide", "inherit"] | None
    enforcement: EnforcementWord | None
    mps_thread_percentage: int | None
    device_memory_overuse: OveruseAction | None
    torch: bool | str
    name: str | None
    runtime_env: RuntimeEnv | None
    retry_exceptions: bool | Sequence[type[Exception]]


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
@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions:
    """The options of a remote function: what a call asks for, and how it is made.

    Attributes:
        num_cpus: How many CPUs a call holds while it runs, 0 or more. Fractions are
            exact to 1/10 000. Default: None, which is 0 if it asks for an accelerator,
            else 1.
        num_gpus: How many GPUs a call holds while it runs, 0 or more. A number below 1
            is a share of one device; above 1 it has to be whole. Default: None, which
            is 0.
        gpu_memory: How much memory of one GPU a call holds while it runs: bytes, 1 or
            more, or a size such as ``"10GiB"``. Its share is that part of the card it
            is placed on. If ``num_gpus`` is given, too, it is 1 at the most, and the
            larger of the two counts. Default: None, for as much memory as goes with
            ``num_gpus``.
        memory: How much memory of the machine a call is counted with: bytes, 0 or more,
            or a size such as ``"2GiB"``. Default: None, which is 0.
        resources: Amounts of other devices, such as ``{"TPU": 4}``, and of resources of
            your own, by name. Default: None, for none.
        accelerator_type: The model that its devices have to be: a constant of
            ``actorlib.accelerators.types``, or a name that ``actorlib devices`` shows.
            Default: None, for any.
        placement: Which device a share is taken from: ``"pack"`` takes the fullest one
            that has room, ``"spread"`` the emptiest. Default: None, which is pack.
        device: The device that it has to be on, by id, UUID or PCI address; a list
            names as many as it asks for. Default: None, for any.
        placement_group: The placement group that a call runs in; None for no group.
            Default: ``"default"``, which is the group of the code that makes the call,
            if that code captures.
        placement_group_bundle_index: Which bundle of the group, counted from 0; -1 is
            any that has room. Default: -1.
        placement_group_capture_child_tasks: If True, what a call makes and calls goes
            into its group, unless that names another. Default: None, which is what the
            code has that makes the call.
        scheduling_strategy: A PlacementGroupSchedulingStrategy, which says the same as
            the three options above, or ``"DEFAULT"``. Default: None.
        accelerators: What it sees of accelerators that it did not ask for: nothing with
            ``"hide"``, what your program sees with ``"inherit"``. Default: None, which
            is hide, unless the variable ``ACTORLIB_HIDE_DEVICES`` is 0.
        enforcement: Who keeps a call to its share, if that is less than a whole device;
            see ``RuntimeOptions``. The call fails with TaskUnschedulableError if no
            device can have what is named. Default: None, which is what the runtime has.
        mps_thread_percentage: With ``enforcement="mps"``, the percentage of the GPU's
            multiprocessors that each process of a call may use at once, 1 to 100. This
            is a ceiling and reserves nothing: others may use the same ones. Default:
            None, which is all of them, whatever the share is.
        device_memory_overuse: What happens if its processes take more of a GPU's memory
            than its share: ``"warn"``, ``"kill"``, or a function of your program, which
            code in a worker cannot give; see ``RuntimeOptions``. Default: None, which
            is what the runtime has.
        torch: If True, ``group.map`` calls the function on ranks that find in their
            environment what ``torch.distributed`` reads: ``RANK``, ``WORLD_SIZE``,
            ``LOCAL_RANK``, ``LOCAL_WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``.
            Nothing else can call it. Default: False.
        name: The name that messages call it by. Default: None, which is the function's
            name.
        runtime_env: ``{"env_vars": {...}, "working_dir": "..."}``: environment
            variables and the directory of the process that runs it, as for an actor.
            Calls with different ones never share a process. Default: None, which is the
            runtime's.
        max_calls: How many calls a process runs before it ends; 0 for any number.
            Default: None, which is 1 if a device is asked for, as the device's memory
            is only free when the process is gone, else 0.
        max_retries: How often a call is made again if its process dies; -1 for always.
            Default: 3.
        retry_exceptions: Which exceptions of the function make a call be made again, as
            often as ``max_retries`` says: True for all, or a list of classes. Default:
            False.
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
        worker: What a process asks for that runs it.
        calling: How it is called, as of a method.
    """

    num_cpus: float | None = None
    num_gpus: float | None = None
    gpu_memory: float | str | None = None
    memory: float | str | None = None
    resources: Mapping[str, float] | None = None
    accelerator_type: str | None = None
    placement: Literal["pack", "spread"] | None = None
    device: str | int | Sequence[str | int] | None = None
    placement_group: object = DEFAULT
    placement_group_bundle_index: int = ANY_BUNDLE
    placement_group_capture_child_tasks: bool | None = None
    scheduling_strategy: object = None
    accelerators: Literal["hide", "inherit"] | None = None
    enforcement: EnforcementWord | None = None
    mps_thread_percentage: int | None = None
    device_memory_overuse: OveruseAction | None = None
    torch: bool | str = False
    name: str | None = None
    runtime_env: RuntimeEnv | None = None
    max_calls: int | None = None
    max_retries: int = 3
    retry_exceptions: bool | Sequence[type[Exception]] = False
    num_returns: int | Literal["streaming", "dynamic"] | None = None
    backpressure: int | None = None
    detach: bool | None = None
    timeout: float | None = None
    worker: ActorOptions = field(init=False, repr=False)
    calling: CallOptions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.max_calls is not None:
            check_count("max_calls", self.max_calls, 0)
        check_times("max_retries", self.max_retries)
        check_gang_name(self.torch)
        if self.name is not None:
            check_text("name", self.name, "'resize'")
        listed = checked_exceptions("retry_exceptions", self.retry_exceptions)
        object.__setattr__(self, "retry_exceptions", listed)
        worker = ActorOptions(
            num_cpus=self.num_cpus,
            num_gpus=self.num_gpus,
            gpu_memory=self.gpu_memory,
            memory=self.memory,
            resources=self.resources,
            accelerator_type=self.accelerator_type,
            placement=self.placement,
            device=self.device,
            placement_group=self.placement_group,
            placement_group_bundle_index=self.placement_group_bundle_index,
            placement_group_capture_child_tasks=self.placement_group_capture_child_tasks,
            scheduling_strategy=self.scheduling_strategy,
            accelerators=self.accelerators,
            enforcement=self.enforcement,
            mps_thread_percentage=self.mps_thread_percentage,
            device_memory_overuse=self.device_memory_overuse,
            runtime_env=self.runtime_env,
        )
        devices = {*KINDS, GPU_MEMORY}
        if self.num_cpus is None and devices.isdisjoint(worker.request.amounts):
            worker = worker.updated({"num_cpus": 1})
        object.__setattr__(self, "worker", worker)
        calling = CallOptions(
            backpressure=self.backpressure,
            detach=self.detach,
            name=self.name,
            num_returns=self.num_returns,
            timeout=self.timeout,
        )
        object.__setattr__(self, "calling", calling)
        object.__setattr__(self, "num_returns", calling.num_returns)
        for option in ("resources", "device", "runtime_env"):  # theirs may change
            object.__setattr__(self, option, getattr(worker, option))

    @property
    def request(self) -> Resources:
        """All amounts together, exact."""
        return self.worker.request

    @property
    def retried(self) -> bool | tuple[type[Exception], ...]:
        """The exceptions after which it is called again."""
        return cast("bool | tuple[type[Exception], ...]", self.retry_exceptions)

    @property
    def worker_key(self) -> tuple[object, ...]:
        """What its workers are like: functions with equal keys share them."""
        env, group = self.runtime_env or {}, self.worker.group
        action = self.device_memory_overuse
        return (
            tuple(sorted(self.request.amounts.items())),
            self.accelerator_type,
            self.placement,
            self.worker.devices,
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
            placement_group=self.worker.group,
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


def names_of(options: type[ActorOptions | FunctionOptions]) -> list[str]:
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
