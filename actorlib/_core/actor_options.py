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
    check_gang_name,
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
    torch: bool | str
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
    """The options of an actor: what it asks for, and how it behaves.

    Attributes:
        num_cpus: How many CPUs the actor holds for life, 0 or more. Fractions are exact
            to 1/10 000. Default: None, which is 0.
        num_gpus: How many GPUs the actor holds for life, 0 or more. A number below 1 is
            a share of one device; above 1 it has to be whole. Default: None, which is
            0.
        gpu_memory: How much memory of one GPU the actor holds for life: bytes, 1 or
            more, or a size such as ``"10GiB"``. Its share is that part of the card it
            is placed on. If ``num_gpus`` is given, too, it is 1 at the most, and the
            larger of the two counts. Default: None, for as much memory as goes with
            ``num_gpus``.
        memory: How much memory of the machine the actor is counted with: bytes, 0 or
            more, or a size such as ``"2GiB"``. On Linux the log warns once if the actor
            takes more, unless ``enforcement`` is off. Default: None, which is 0.
        resources: Amounts of other devices, such as ``{"TPU": 4}``, and of resources of
            your own, by name. Default: None, for none.
        accelerator_type: The model that its devices have to be: a constant of
            ``actorlib.accelerators.types``, or a name that ``actorlib devices`` shows.
            Default: None, for any.
        placement: Which device a share is taken from: ``"pack"`` takes the fullest one
            that has room, ``"spread"`` the emptiest. Default: None, which is pack.
        device: The device that it has to be on, by id, UUID or PCI address; a list
            names as many as it asks for. Default: None, for any.
        near: The handle of another actor. This one is placed on a device of that actor,
            or on a device that is linked to one. Default: None, for anywhere.
        apart_from: The handle of another actor, or a list of handles. This one is
            placed on other devices than theirs. Default: None, for anywhere.
        placement_group: The placement group that the actor is placed in; None for no
            group. Default: ``"default"``, which is the group of the actor that makes
            it, if that actor captures.
        placement_group_bundle_index: Which bundle of the group, counted from 0; -1 is
            any that has room. Default: -1.
        placement_group_capture_child_tasks: If True, actors that this one makes go into
            its group, unless they name another. Default: None, which is what the actor
            has that makes it.
        scheduling_strategy: A PlacementGroupSchedulingStrategy, which says the same as
            the three options above, or ``"DEFAULT"``. Default: None.
        accelerators: What the actor sees of accelerators that it did not ask for:
            nothing with ``"hide"``, what your program sees with ``"inherit"``. Default:
            None, which is hide, unless the variable ``ACTORLIB_HIDE_DEVICES`` is 0.
        enforcement: Who keeps the actor to its share, if that is less than a whole
            device; see ``RuntimeOptions``. The actor is placed on a device that can
            have what is named, and fails with ActorUnschedulableError if none can.
            Default: None, which is what the runtime has.
        mps_thread_percentage: With ``enforcement="mps"``, the percentage of the GPU's
            multiprocessors that each process of the actor may use at once, 1 to 100.
            This is a ceiling and reserves nothing: others may use the same ones.
            Default: None, which is all of them, whatever the share is.
        device_memory_overuse: What happens if its processes take more of a GPU's memory
            than its share: ``"warn"``, ``"kill"``, or a function of your program, which
            code in a worker cannot give; see ``RuntimeOptions``. Default: None, which
            is what the runtime has.
        torch: If True, the actor is a rank of its placement group, with the number of
            its bundle. It finds in its environment what ``torch.distributed`` reads:
            ``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``, ``LOCAL_WORLD_SIZE``,
            ``MASTER_ADDR`` and ``MASTER_PORT``. If one rank dies, all of them are
            ended, and restarted if each may be. A name instead of True tells several
            gangs in one group apart. Default: False.
        max_concurrency: How many calls run at once, 1 or more. They start in the order
            in which they came. A class without ``async def`` methods runs them in as
            many threads. Default: None (or 0), which is 1000 if a method is an ``async
            def``, else 1.
        concurrency_groups: Groups of methods by name, each with how many of its calls
            run at once, 1 or more: ``{"io": 2}``. Methods without a group share
            ``max_concurrency``. A group of plain methods runs them in threads of its
            own; one that has an ``async def`` runs all of its methods on a loop of its
            own. Default: None, for no groups.
        max_pending_calls: How many calls of this actor one process may have that are
            not answered yet. One more raises PendingCallsLimitExceeded. Default: None
            (or 0, or -1), which is any number.
        max_unread_items: How many items of all streams of the actor together may wait
            for their readers, 1 or more; -1 for any number. Default: None, which is
            what each stream allows.
        allow_out_of_order_execution: If True, a call may run before an earlier one
            whose arguments are not ready. Default: None, which is True if the actor
            runs several calls at once.
        name: The name by which ``get_actor`` finds the actor while it lives. If a
            living actor of the namespace has the name, ActorAlreadyExistsError is
            raised. Default: None, for no name.
        namespace: The namespace that the name is in. Default: None, which is the
            runtime's.
        lifetime: With ``"detached"`` the actor lives until it is killed or the runtime
            ends, also if nobody holds a handle of it and if the actor that made it is
            gone. Default: None, which is ``"non_detached"``.
        get_if_exists: If True and a living actor has the name, ``.remote()`` returns
            its handle instead of raising. Default: False.
        runtime_env: ``{"env_vars": {...}, "working_dir": "..."}``: environment
            variables of its process, which are set before any of your code is imported,
            and the directory that it works in and imports from. Actors that it makes
            inherit both. Default: None, which is the runtime's.
        max_restarts: How often the actor is made anew, with the same arguments, after
            an end that nobody asked for; -1 for always. Default: 0.
        restart_window: Only restarts within the last so many seconds count for
            ``max_restarts``, 0 or more. Default: None: all restarts of its life count.
        restart_backoff: Seconds that an actor waits before it is restarted if it died
            soon after a restart, 0 or more. They double each time, up to 30. The first
            restart is at once. Default: 0.5.
        max_task_retries: How often a call is sent again that was on its way when the
            actor died; -1 for always. A method or a call may say otherwise. Default: 0.
        retry_exceptions: Which exceptions of a method make its call be sent again, as
            often as ``max_task_retries`` says: True for all, or a list of classes. A
            method or a call may say otherwise. Default: False.
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
    torch: bool | str = False
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
        check_gang_name(self.torch)
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
