"""The options of an actor: checked once, then frozen.

They are written down twice: as a ``TypedDict``, by which type checkers check the
keywords that users write, and as a dataclass, which the engines read. A test keeps the
two equal.
"""

from collections.abc import Mapping, Sequence  # types that are asked for
from dataclasses import field
from typing import Literal, TypedDict, cast

from actorlib._core.group_spec import ANY_BUNDLE, DEFAULT, GroupSpec
from actorlib._core.kinds import GPU, KINDS, UNITS
from actorlib._core.public import public
from actorlib._core.resources import CPU, GPU_MEMORY, MEMORY, Resources, request
from actorlib._core.runtime_env import RuntimeEnv, checked_env
from actorlib._core.shares import (
    ENFORCEMENTS,
    EnforcementWord,
    OveruseAction,
    check_overuse_action,
)
from actorlib._core.validation import (
    check_bool,
    check_count,
    check_limit,
    check_one_of,
    check_seconds,
    check_text,
    check_times,
    checked_counts,
    checked_exceptions,
    checked_options,
    given_options,
)
from actorlib._core.value import dataclass

ACCELERATORS = ("hide", "inherit")
PLACEMENTS = ("pack", "spread")
LOOPED_LIMIT = 1000
"""How many calls an actor with ``async def`` methods runs at once by default."""
LIFETIMES = ("detached", "non_detached")
RAYS_NAMES = {"_actor_generator_backpressure_num_objects": "max_unread_items"}
"""The options that have another name in Ray."""


@public("actorlib")
class ActorKeywords(TypedDict, total=False):
    """The keywords of ``@remote(...)`` and ``.options(...)``: see ActorOptions."""

    num_cpus: float | None
    num_gpus: float | None
    gpu_memory: float | str | None
    memory: float | str | None
    resources: Mapping[str, float] | None
    accelerator_type: str | None
    placement: Literal["pack", "spread"] | None
    device: str | int | Sequence[str | int] | None
    near: object
    apart_from: object
    placement_group: object
    placement_group_bundle_index: int
    placement_group_capture_child_tasks: bool | None
    scheduling_strategy: object
    accelerators: Literal["hide", "inherit"] | None
    enforcement: EnforcementWord | None
    mps_thread_percentage: int | None
    device_memory_overuse: OveruseAction | None
    max_concurrency: int | None
    concurrency_groups: Mapping[str, int] | None
    max_pending_calls: int | None
    max_unread_items: int | None
    allow_out_of_order_execution: bool | None
    name: str | None
    namespace: str | None
    lifetime: Literal["detached", "non_detached"] | None
    get_if_exists: bool
    runtime_env: RuntimeEnv | None
    max_restarts: int
    restart_window: float | None
    restart_backoff: float
    max_task_retries: int
    retry_exceptions: bool | Sequence[type[Exception]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPolicy:
    """How often an actor that died is restarted, and how soon.

    Attributes:
        max_restarts: How often; 0 never, -1 always.
        window: The seconds within which they are counted, or None for its whole life.
        backoff: Seconds before the second of several in a row; the first is at once,
            and each further one waits twice as long.
    """

    max_restarts: int = 0
    window: float | None = None
    backoff: float = 0.5


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class ActorOptions:
    """What one actor asks for.

    Attributes:
        num_cpus: CPUs that it holds for life, 0 or more, parts of one to 1/10 000.
            Default: None, which is 0.
        num_gpus: GPUs that it holds for life, 0 or more; below 1 a share of one device,
            above 1 whole ones. Default: None, which is 0.
        gpu_memory: Bytes of one GPU's memory that it holds for life, 1 or more, or
            words (``"10GiB"``). Its share is as much of the card that it gets as they
            come to there, and ``num_gpus`` (1 at the most then) if that is more.
            Default: None, for the memory of the share that ``num_gpus`` is.
        memory: Bytes of memory that it is counted with, 0 or more, or words
            (``"2GiB"``). On Linux the log tells of an actor that has more, once,
            unless its enforcement is off. Default: None, which is 0.
        resources: Amounts of other devices (``{"TPU": 4}``) and of custom resources, by
            name. Default: None, for none.
        accelerator_type: The model of its devices: a constant of
            ``actorlib.accelerators.types``, or what ``actorlib devices`` calls them.
            Default: None, for any.
        placement: ``"pack"`` shares the fullest device that has room, ``"spread"`` the
            emptiest. Default: None, which is pack.
        device: The id or UUID of the device that it has to be on, or a list of as many
            as it asks for. Default: None, for any.
        near: The handle of an actor: its own device is on the same device as one of
            that actor's, or linked to one. Default: None, for anywhere.
        apart_from: The handle of an actor, or several: its devices are others. Default:
            None, for anywhere.
        placement_group: The group in one of whose bundles it is placed; None for none.
            Default: ``"default"``, the group of the actor that makes it, if that one
            captures.
        placement_group_bundle_index: Which bundle, from 0; -1 is any that has room.
            Default: -1.
        placement_group_capture_child_tasks: Whether actors that it makes go into its
            group, unless they say another. Default: None, which does as the actor that
            makes it.
        scheduling_strategy: A PlacementGroupSchedulingStrategy, which says the same as
            the three above, or ``"DEFAULT"``. Default: None.
        accelerators: ``"hide"`` closes every accelerator that the actor did not ask
            for; ``"inherit"`` leaves them as the owner sees them. Default: None, which
            follows ``ACTORLIB_HIDE_DEVICES`` (hide, unless it is 0).
        enforcement: What makes its share hold if that is below a whole device; see
            ``init``. It is placed where what is named can be had, and fails with
            ActorUnschedulableError if that is nowhere. Default: None, which is what
            the runtime has.
        mps_thread_percentage: Under ``enforcement="mps"``, the percentage of its GPU's
            multiprocessors that each process of the actor may use at once, 1 to 100. A
            ceiling, no reservation: others may use the same ones. Default: None, which
            is all of them, whatever the share is.
        device_memory_overuse: What happens if its processes have more of a GPU's memory
            than its share: ``"warn"``, ``"kill"`` or a function, which workers cannot
            give; see ``init``. Default: None, which is what the runtime has.
        max_concurrency: How many calls run at once, 1 or more; they start in the order
            in which they came. More than 1 without an ``async def`` method makes
            threads. Default: None (or 0), which is 1000 where a method is an ``async
            def``, else 1.
        concurrency_groups: Names of groups of methods, each with how many of its calls
            run at once, 1 or more (``{"io": 2}``). The others share
            ``max_concurrency``. Plain methods of a group run on threads of its own.
            Default: None, for no groups.
        max_pending_calls: How many calls without an answer one process may have; one
            more raises PendingCallsLimitExceeded. Default: None (or 0, or -1), which is
            any number.
        max_unread_items: How many items of all its streams together may be unread, 1 or
            more; -1 for any number. Default: None, which is what each stream allows.
        allow_out_of_order_execution: Whether a call whose argument is not there lets
            later ones pass. Default: None: if the actor runs several at once.
        name: What ``get_actor`` finds it by while it lives, one of a kind in its
            namespace: ActorAlreadyExistsError if a living actor has it. Default: None,
            for no name.
        namespace: Where its name is looked for. Default: None, which is the runtime's.
        lifetime: ``"detached"`` lives without a handle, and without the actor that made
            it, until it is killed or the runtime ends. Default: None, which is
            ``"non_detached"``.
        get_if_exists: Whether ``.remote()`` gives the handle of the actor that has the
            name, if there is one, instead of raising. Default: False.
        runtime_env: ``{"env_vars": {...}, "working_dir": "..."}``: variables of its
            process, set before any of the user's code is imported and passed on to the
            actors it makes, and the directory that it works in and imports from.
            Default: None, which is the runtime's.
        max_restarts: How often it is made anew, with the same arguments, after an end
            that nobody asked for; -1 always. Default: 0.
        restart_window: The seconds within which ``max_restarts`` counts, 0 or more.
            Default: None, which is its whole life.
        restart_backoff: Seconds before it is restarted if it died soon after a restart,
            0 or more; they double each time. The first restart is at once. Default:
            0.5.
        max_task_retries: How often a call that was on its way when the actor died is
            sent again after the restart; -1 always. A method or a call may say
            otherwise. Default: 0.
        retry_exceptions: Which exceptions of a method are retried likewise: True for
            all, or a list of classes. A method or a call may say otherwise. Default:
            False.
        request: All amounts together, exact.
    """

    num_cpus: float | None = None
    num_gpus: float | None = None
    gpu_memory: float | str | None = None
    memory: float | str | None = None
    resources: Mapping[str, float] | None = None
    accelerator_type: str | None = None
    placement: Literal["pack", "spread"] | None = None
    device: str | int | Sequence[str | int] | None = None
    near: object = None
    apart_from: object = None
    placement_group: object = DEFAULT
    placement_group_bundle_index: int = ANY_BUNDLE
    placement_group_capture_child_tasks: bool | None = None
    scheduling_strategy: object = None
    accelerators: Literal["hide", "inherit"] | None = None
    enforcement: EnforcementWord | None = None
    mps_thread_percentage: int | None = None
    device_memory_overuse: OveruseAction | None = None
    max_concurrency: int | None = None
    concurrency_groups: Mapping[str, int] | None = None
    max_pending_calls: int | None = None
    max_unread_items: int | None = None
    allow_out_of_order_execution: bool | None = None
    name: str | None = None
    namespace: str | None = None
    lifetime: Literal["detached", "non_detached"] | None = None
    get_if_exists: bool = False
    runtime_env: RuntimeEnv | None = None
    max_restarts: int = 0
    restart_window: float | None = None
    restart_backoff: float = 0.5
    max_task_retries: int = 0
    retry_exceptions: bool | Sequence[type[Exception]] = False
    request: Resources = field(init=False)

    def __post_init__(self) -> None:
        asked = request(
            num_cpus=self.num_cpus,
            num_gpus=self.num_gpus,
            memory=self.memory,
            resources=self.resources,
            gpu_memory=self.gpu_memory,
        )
        object.__setattr__(self, "request", asked)
        if self.resources is not None:  # theirs may change
            object.__setattr__(self, "resources", dict(self.resources))
        if self.accelerators is not None:
            check_one_of("accelerators", self.accelerators, ACCELERATORS)
        _check_shares(self)
        if self.placement is not None:
            check_one_of("placement", self.placement, PLACEMENTS)
        if self.accelerator_type is not None:
            check_text("accelerator_type", self.accelerator_type, "'H100'")
        object.__setattr__(self, "device", _devices(self.device))
        object.__setattr__(self, "near", _actors("near", self.near))
        object.__setattr__(self, "apart_from", _actors("apart_from", self.apart_from))
        _check_wishes(self)
        _check_group(self)
        if self.max_concurrency is not None:
            check_count("max_concurrency", self.max_concurrency, 0)
        if self.concurrency_groups is not None:
            groups = checked_counts(
                "concurrency_groups", self.concurrency_groups, "{'io': 2}"
            )
            object.__setattr__(self, "concurrency_groups", groups)
        if self.max_pending_calls is not None:
            check_count("max_pending_calls", self.max_pending_calls, -1)
        if self.max_unread_items is not None:
            check_limit("max_unread_items", self.max_unread_items)
        if self.allow_out_of_order_execution is not None:
            check_bool(
                "allow_out_of_order_execution", self.allow_out_of_order_execution
            )
        _check_name(self)
        object.__setattr__(self, "runtime_env", checked_env(self.runtime_env))
        check_times("max_restarts", self.max_restarts)
        check_times("max_task_retries", self.max_task_retries)
        if self.restart_window is not None:
            check_seconds("restart_window", self.restart_window)
        check_seconds("restart_backoff", self.restart_backoff)
        listed = checked_exceptions("retry_exceptions", self.retry_exceptions)
        object.__setattr__(self, "retry_exceptions", listed)

    @property
    def is_detached(self) -> bool:
        """Whether it lives without a handle."""
        return self.lifetime == "detached"

    @property
    def group(self) -> GroupSpec | None:
        """The placement group that it is in, or None."""
        group = self.placement_group
        return group if isinstance(group, GroupSpec) else None

    @property
    def restart_policy(self) -> RestartPolicy:
        """How often it is started anew after an end that nobody asked for."""
        return RestartPolicy(
            max_restarts=self.max_restarts,
            window=self.restart_window,
            backoff=self.restart_backoff,
        )

    @property
    def retried(self) -> bool | tuple[type[Exception], ...]:
        """The exceptions of a method after which it is called again."""
        return cast("bool | tuple[type[Exception], ...]", self.retry_exceptions)

    @property
    def has_device_constraints(self) -> bool:
        """Whether it matters which of the devices with room it gets."""
        return (
            self.accelerator_type is not None
            or self.gpu_memory is not None
            or self.placement == "spread"
            or bool(self.device or self.near or self.apart_from)
        )

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that it has to be on, by id or UUID; empty for any."""
        return cast("tuple[str, ...]", self.device) or ()

    @property
    def near_to(self) -> tuple[bytes, ...]:
        """The actor that it has to be near to, by id; empty for none."""
        return cast("tuple[bytes, ...]", self.near)

    @property
    def apart(self) -> tuple[bytes, ...]:
        """The actors that it has to be apart from, by id."""
        return cast("tuple[bytes, ...]", self.apart_from)

    def limits(self, *, is_async: bool) -> dict[str, int]:
        """How many calls run at once, by group; that of no name has all other methods.

        Args:
            is_async: Whether the class has ``async def`` methods.

        Returns:
            Empty if nothing is asked but the default.
        """
        default = LOOPED_LIMIT if is_async else 1
        limit = self.max_concurrency or default
        if not self.concurrency_groups and limit == default:
            return {}
        return {"": limit, **(self.concurrency_groups or {})}

    def updated(self, given: Mapping[str, object]) -> "ActorOptions":
        """These options with some of them replaced.

        Args:
            given: The new values, by name.

        Raises:
            TypeError: A value has the wrong type.
            ValueError: An option is unknown or its value is out of range.
        """
        return checked_options(
            ActorOptions, "an actor", {**given_options(self), **given}
        )


def _check_shares(options: ActorOptions) -> None:
    """Makes sure that what is said of how shares hold can be meant."""
    if options.enforcement is not None:
        check_one_of("enforcement", options.enforcement, ENFORCEMENTS)
    if options.mps_thread_percentage is not None:
        _check_percentage(options)
    if options.device_memory_overuse is not None:
        check_overuse_action(options.device_memory_overuse)


def _check_percentage(options: ActorOptions) -> None:
    """Makes sure that an actor asks for a part of a GPU under MPS."""
    percentage, name = options.mps_thread_percentage, "mps_thread_percentage"
    check_count(name, percentage, 1)
    if percentage is not None and percentage > 100:
        raise ValueError(
            f"{name} takes a percentage of the multiprocessors of a GPU, 1 to 100, not "
            f"{percentage!r}"
        )
    if options.enforcement not in (None, "mps"):
        raise ValueError(
            f"{name}={percentage} is a limit of MPS, and enforcement="
            f"{options.enforcement!r} is asked for: write enforcement='mps', or leave "
            f"{name} out"
        )
    units = options.request.amounts.get(GPU.name, 0)
    if units >= UNITS or not (units or options.gpu_memory):
        asked = "none is asked for" if not units else f"{options.request} is asked for"
        raise ValueError(
            f"{name}={percentage} is about a part of a GPU, and {asked}: ask for "
            "num_gpus below 1, or gpu_memory; whoever has a whole GPU has all of it"
        )


def _devices(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    is_list = isinstance(value, list | tuple)
    several = cast("Sequence[object]", value) if is_list else (value,)
    devices: list[str] = []
    for device in several:
        is_number = isinstance(device, int) and not isinstance(device, bool)
        named = str(device) if is_number else device
        check_text("device", named, "'0' or 'GPU-8d2b...'")
        devices.append(cast("str", named))
    if len(set(devices)) < len(devices):
        raise ValueError(f"device names one device twice: {devices!r}")
    return tuple(devices)


def _actors(name: str, value: object) -> tuple[bytes, ...]:
    """The ids that ``_api`` has put in the place of handles."""
    if value is None:
        return ()
    ids = cast("tuple[object, ...]", value)
    if isinstance(value, tuple) and all(isinstance(actor, bytes) for actor in ids):
        return cast("tuple[bytes, ...]", ids)
    raise TypeError(
        f"{name} takes the handle of an actor, not {ids!r} ({type(ids).__name__})"
    )


def _check_name(options: ActorOptions) -> None:
    if options.name is not None:
        check_text("name", options.name, "'counter'")
    if options.namespace is not None:
        check_text("namespace", options.namespace, "'training'")
    if options.lifetime is not None:
        check_one_of("lifetime", options.lifetime, LIFETIMES)
    check_bool("get_if_exists", options.get_if_exists)
    if options.get_if_exists and options.name is None:
        raise ValueError(
            "get_if_exists=True looks for an actor by its name: give it one, for "
            "example name='counter'"
        )


def _check_group(options: ActorOptions) -> None:
    group, index = options.placement_group, options.placement_group_bundle_index
    if group is not None and group != DEFAULT and not isinstance(group, GroupSpec):
        raise TypeError(
            "placement_group takes what placement_group() gave, None for no group, or "
            f"'default', not {group!r} ({type(group).__name__})"
        )
    if isinstance(index, bool) or not isinstance(index, int):  # pyright: ignore[reportUnnecessaryIsInstance]  # the user wrote it
        raise TypeError(
            "placement_group_bundle_index takes a whole number, or -1 for any bundle, "
            f"not {index!r} ({type(index).__name__})"
        )
    if index < ANY_BUNDLE:
        raise ValueError(
            f"placement group bundle index {index} is invalid: bundles are counted "
            "from 0, and -1 is any of them"
        )
    if group is None and index != ANY_BUNDLE:
        raise ValueError(
            f"placement_group_bundle_index={index} is about a group, and "
            "placement_group=None says that there is none"
        )
    if options.placement_group_capture_child_tasks is not None:
        check_bool(
            "placement_group_capture_child_tasks",
            options.placement_group_capture_child_tasks,
        )
    if options.scheduling_strategy not in (None, "DEFAULT"):
        raise ValueError(
            "scheduling_strategy takes a PlacementGroupSchedulingStrategy or "
            f"'DEFAULT', not {options.scheduling_strategy!r}; placement='spread' "
            "spreads over devices"
        )


def _check_wishes(options: ActorOptions) -> None:
    """Makes sure that wishes about devices fit the number of devices."""
    wishes = {
        "device": options.devices,
        "near": options.near_to,
        "apart_from": options.apart,
    }
    given = [name for name, value in wishes.items() if value]
    counts = {
        name: -(-amount // UNITS)
        for name, amount in options.request.amounts.items()
        if name not in (CPU, MEMORY, GPU_MEMORY)
    }
    if options.gpu_memory is not None:
        counts[GPU.name] = 1
    if given and not counts:
        raise ValueError(
            f"{given[0]} is about devices, and none are asked for: add num_gpus or "
            "gpu_memory, or resources for another kind"
        )
    known = [count for name, count in counts.items() if name in KINDS]
    named = len(options.devices)
    if named and len(known) == len(counts) and named != sum(known):
        raise ValueError(
            f"device names {named} {'device' if named == 1 else 'devices'}, and "
            f"{options.request} is on {sum(known)}: name as many"
        )
    if set(options.near_to) & set(options.apart):
        raise ValueError("near and apart_from name the same actor")
