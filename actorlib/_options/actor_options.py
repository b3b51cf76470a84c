"""The options of actors, and those that functions share; see ``call_options``."""

from collections.abc import Mapping, Sequence  # types of options
from dataclasses import field
from typing import ClassVar, Literal, TypedDict, cast

from actorlib._base.public import public
from actorlib._base.validation import (
    Options,
    check_bool,
    check_count,
    check_fields,
    check_limit,
    check_seconds,
    check_text,
    check_times,
    checked_counts,
    checked_exceptions,
    choice,
    option,
    wrong_type,
)
from actorlib._base.value import dataclass
from actorlib._options.call_options import with_shared_texts
from actorlib._options.group_spec import (
    ANY_BUNDLE,
    DEFAULT,
    GroupSpec,
)
from actorlib._options.kinds import GPU, KINDS, UNITS
from actorlib._options.priority import check_priority
from actorlib._options.resources import CPU, GPU_MEMORY, MEMORY, Resources, request
from actorlib._options.runtime_env import RuntimeEnv, checked_env
from actorlib._options.shares import (
    EnforcementWord,
    OveruseAction,
    check_overuse_action,
)
from actorlib.exceptions import UnsupportedOptionError

LOOPED_LIMIT = 1000
"""How many calls an actor with ``async def`` methods runs at once by default."""


# The options that actors and functions share.


@public("actorlib.types")
class CommonKeywords(TypedDict, total=False):
    """The keywords of ``@remote(...)`` that functions and classes share."""

    num_cpus: float | None
    num_gpus: float | None
    gpu_memory: float | str | None
    memory: float | str | None
    resources: Mapping[str, float] | None
    accelerator_type: str | None
    placement: Literal["pack", "spread"] | None
    device: str | int | Sequence[str | int] | None
    priority: int
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
    max_concurrency: int | None
    retry_exceptions: bool | Sequence[type[Exception]]


def _check_percentage(name: str, value: object) -> None:
    check_count(name, value, 1)
    if cast("int", value) > 100:
        raise ValueError(
            f"{name} takes a percentage of the multiprocessors of a GPU, 1 to 100, not "
            f"{value!r}"
        )


def _checked_devices(name: str, value: object) -> tuple[str, ...]:
    is_list = isinstance(value, list | tuple)
    devices: list[str] = []
    for device in cast("Sequence[object]", value) if is_list else (value,):
        is_number = isinstance(device, int) and not isinstance(device, bool)
        text = str(device) if is_number else device
        check_text(name, text, "'0' or 'GPU-8d2b...'")
        devices.append(cast("str", text))
    if len(set(devices)) < len(devices):
        raise ValueError(f"{name} names one device twice: {devices!r}")
    return tuple(devices)


def _check_group(name: str, value: object) -> None:
    if value is not None and value != DEFAULT and not isinstance(value, GroupSpec):
        raise wrong_type(
            f"{name} takes a result of placement_group(), None for no group, or "
            "'default'",
            value,
        )


def _check_gang_name(name: str, value: object) -> None:
    if isinstance(value, bool) or (isinstance(value, str) and value):
        return
    raise wrong_type(
        f"{name} takes True, False, or the name of a gang where several are in one "
        "placement group, for example 'trainers'",
        value,
    )


def _check_index(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(f"{name} takes a whole number, or -1 for any bundle", value)
    if value < ANY_BUNDLE:
        raise ValueError(
            f"placement group bundle index {value} is invalid: bundles are counted "
            "from 0, and -1 is any of them"
        )


def _check_strategy(name: str, value: object) -> None:
    if value not in ("DEFAULT", "SPREAD"):
        raise ValueError(
            f"{name} takes a PlacementGroupSchedulingStrategy, 'SPREAD' or "
            f"'DEFAULT', not {value!r}; placement='spread' "
            "spreads over devices"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions(Options):
    """The options that actors and functions share.

    Attributes:
        num_cpus: The number of CPUs that an actor holds for life, or a call of a
            function while it runs, 0 or more. Fractions are exact to 1/10 000. Default:
            None, which is 0 for an actor, and for a function 0 if it asks for an
            accelerator or is an ``async def``, else 1.
        num_gpus: The number of GPUs that an actor holds for life, or a call while it
            runs, 0 or more. A number below 1 is a share of one device; a number above 1
            has to be whole. Default: None, which is 0.
        gpu_memory: The memory of one GPU that an actor holds for life, or a call while
            it runs: bytes, 1 or more, or a size such as ``"10GiB"``. The share is that
            part of the card it is placed on. Together with ``num_gpus``, which is then
            at most 1, the larger of the two counts. Default: None, for the memory that
            belongs to ``num_gpus``.
        memory: The memory of the machine that an actor or a call is counted with:
            bytes, 0 or more, or a size such as ``"2GiB"``. On Linux the log warns once
            if an actor uses more, unless ``enforcement`` is off. Default: None, which
            is 0.
        resources: Amounts of other devices, such as ``{"TPU": 4}``, and of custom
            resources, by name. Default: None.
        accelerator_type: The model that its devices have to be: a constant of
            ``actorlib.accelerators.types``, or a name that ``actorlib devices`` shows.
            Default: None, for any.
        placement: The device that a share is taken from: ``"pack"`` selects the fullest
            one with room, ``"spread"`` the emptiest. Default: None, which is pack.
        device: The device that it has to be on, by id, UUID or PCI address, or a list
            of as many as it asks for. Default: None, for any.
        priority: The priority among those that wait for resources, -1048576 to 1048576:
            higher values are first, and within one value the earlier one. A low
            priority may wait forever. What running work requests comes before. Default:
            0.
        placement_group: The placement group that it is placed in; None for no group.
            Default: ``"default"``, which is the group of the code that makes or calls
            it, if that code captures.
        placement_group_bundle_index: The bundle of the group, counted from 0; -1 is any
            bundle with room. Default: -1.
        placement_group_capture_child_tasks: If True, the actors that it makes and the
            functions that it calls are placed in its group, unless they name another.
            Default: None, for the setting of the code that makes or calls it.
        scheduling_strategy: A PlacementGroupSchedulingStrategy, which stands for the
            three options above, or ``"DEFAULT"``. ``"SPREAD"`` has an effect on the
            Ray engine only. Default: None.
        accelerators: The visibility of accelerators that it did not ask for: none with
            ``"hide"``, those that your program sees with ``"inherit"``. Default: None,
            which is hide, unless the variable ``ACTORLIB_HIDE_DEVICES`` is 0.
        enforcement: What keeps an actor or a call to its share, if that is less than a
            whole device; see ``RuntimeOptions``. If no device supports it, it fails
            with ActorUnschedulableError or TaskUnschedulableError. Default: None, for
            that of the runtime.
        mps_thread_percentage: With ``enforcement="mps"``, the percentage of the GPU's
            multiprocessors that each process may use at once, 1 to 100. This is a
            ceiling and reserves nothing: others may use the same ones. Default: None,
            which is all of them, whatever the share is.
        device_memory_overuse: What happens if its processes use more of a GPU's memory
            than its share: ``"warn"``, ``"kill"``, or a function of your program, which
            code in a worker cannot pass; see ``RuntimeOptions``. Default: None, for
            that of the runtime.
        torch: If True, an actor or a call is a rank of its placement group. Its
            environment has the variables of ``torch.distributed``: ``RANK``,
            ``WORLD_SIZE``, ``LOCAL_RANK``, ``LOCAL_WORLD_SIZE``, ``MASTER_ADDR`` and
            ``MASTER_PORT``. An actor has the number of its bundle, and a function is
            called by ``group.map``. A name instead of True distinguishes several gangs
            in one group. Default: False.
        name: For an actor, the name by which ``get_actor`` finds it while it lives; if
            a living actor of the namespace has the name, ActorAlreadyExistsError is
            raised. For a function, its name in messages. Default: None, which is no
            name for an actor, and for a function the name of its code.
        runtime_env: ``{"env_vars": {...}, "working_dir": "..."}``: environment
            variables of its process, which are set before any of your code is imported,
            and the directory that it works in and imports from. Actors that it makes
            inherit both. Calls of functions with different ones never share a process.
            Default: None, for that of the runtime.
        max_concurrency: How many calls run at once in one process, 1 or more. The calls
            of an actor start in the order of their arrival; a class without ``async
            def`` methods runs them in as many threads. Of functions, only those that
            are ``async def`` have it. Default: None (or 0). That is 1000 for a class
            with an ``async def``, 100 for a function that is one, else 1.
        retry_exceptions: The exceptions of a method, or of the function, after which a
            call is sent again, at most ``max_task_retries`` or ``max_retries`` times:
            True for all, or a list of classes. A method of an actor, or one call of it,
            may have its own. Default: False.
        request: All amounts together, exact.
    """

    num_cpus: float | None = None
    num_gpus: float | None = None
    gpu_memory: float | str | None = None
    memory: float | str | None = None
    resources: Mapping[str, float] | None = None
    accelerator_type: str | None = option(check_text, "'H100'", default=None)
    placement: Literal["pack", "spread"] | None = choice(default=None)
    device: str | int | Sequence[str | int] | None = option(
        _checked_devices, default=None
    )
    priority: int = option(check_priority, default=0)
    placement_group: object = option(_check_group, default=DEFAULT)
    placement_group_bundle_index: int = option(_check_index, default=ANY_BUNDLE)
    placement_group_capture_child_tasks: bool | None = option(check_bool, default=None)
    scheduling_strategy: object = option(_check_strategy, default=None)
    accelerators: Literal["hide", "inherit"] | None = choice(default=None)
    enforcement: EnforcementWord | None = choice(default=None)
    mps_thread_percentage: int | None = option(_check_percentage, default=None)
    device_memory_overuse: OveruseAction | None = option(
        check_overuse_action, default=None
    )
    torch: bool | str = option(_check_gang_name, default=False)
    name: str | None = None
    runtime_env: RuntimeEnv | None = None
    max_concurrency: int | None = option(check_count, 0, default=None)
    retry_exceptions: bool | Sequence[type[Exception]] = option(
        checked_exceptions, default=False
    )
    request: Resources = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "request", self.amounts(self.num_cpus))
        check_fields(self)
        if self.resources is not None:  # the user may change theirs
            object.__setattr__(self, "resources", dict(self.resources))
        object.__setattr__(self, "runtime_env", checked_env(self.runtime_env))
        _check_part(self)
        _check_wishes(self)
        _check_bundle(self)

    def amounts(self, num_cpus: float | None) -> Resources:
        """Returns all amounts together, exact, with a number of CPUs."""
        return request(
            num_cpus=num_cpus,
            num_gpus=self.num_gpus,
            memory=self.memory,
            resources=self.resources,
            gpu_memory=self.gpu_memory,
        )

    @property
    def group(self) -> GroupSpec | None:
        """The placement group, or None."""
        group = self.placement_group
        return group if isinstance(group, GroupSpec) else None

    @property
    def retried(self) -> bool | tuple[type[Exception], ...]:
        """The exceptions after which a call is sent again."""
        return cast("bool | tuple[type[Exception], ...]", self.retry_exceptions)

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that it has to be on, by id or UUID; empty for any."""
        return cast("tuple[str, ...]", self.device) or ()

    @property
    def needs_rank(self) -> bool:
        """Whether it has to be in one bundle of a placement group."""
        return bool(self.torch)

    @property
    def wishes(self) -> Mapping[str, tuple[object, ...]]:
        """The values of the options that are about devices, by name."""
        return {"device": self.devices}

    @property
    def tunes_enforcement(self) -> bool:
        """Whether it has an option that only some kinds of enforcement support."""
        return self.mps_thread_percentage is not None

    def refuse_callbacks(self) -> None:
        """Refuses functions of a worker, which the owner cannot call."""
        action = self.device_memory_overuse
        if callable(action):
            raise UnsupportedOptionError(
                f"device_memory_overuse={action!r}: the program that called init() "
                "would call it, and this is a worker. Write 'warn' or 'kill' here, or "
                "pass the function to init()"
            )

    def check_rank(self, label: str) -> None:
        """Makes sure that an actor that needs a rank has a certain bundle."""
        if not self.needs_rank:
            return
        if self.group is None:
            raise ValueError(
                f"{label} asks for torch=True, which makes it a rank of a gang, and it "
                "is in no placement group: give placement_group= and "
                "placement_group_bundle_index=, which is its rank"
            )
        if self.placement_group_bundle_index == ANY_BUNDLE:
            raise ValueError(
                f"{label} asks for torch=True, and its rank is the number of its "
                "bundle: give placement_group_bundle_index=, 0 to "
                f"{len(self.group.amounts) - 1}"
            )

    @property
    def has_device_constraints(self) -> bool:
        """Whether not every device with room will do."""
        return (
            self.accelerator_type is not None
            or self.gpu_memory is not None
            or self.placement == "spread"
            or any(self.wishes.values())
        )


def _check_part(options: CommonOptions) -> None:
    """Makes sure that ``mps_thread_percentage`` has a part of a GPU to limit."""
    percentage, name = options.mps_thread_percentage, "mps_thread_percentage"
    if percentage is None:
        return
    if options.enforcement not in (None, "mps"):
        raise ValueError(
            f"{name}={percentage} is a limit of MPS, and there is enforcement="
            f"{options.enforcement!r}: write enforcement='mps', or leave out {name}"
        )
    units = options.request.amounts.get(GPU.name, 0)
    if units >= UNITS or not (units or options.gpu_memory):
        request = options.request if units else "none"
        raise ValueError(
            f"{name}={percentage} limits a part of a GPU, and {request} is asked for: "
            "ask for num_gpus below 1, or gpu_memory; a whole GPU has no limit"
        )


def _check_bundle(options: CommonOptions) -> None:
    index = options.placement_group_bundle_index
    if options.placement_group is None and index != ANY_BUNDLE:
        raise ValueError(
            f"placement_group_bundle_index={index} needs a group, and there is "
            "placement_group=None"
        )


def _check_wishes(options: CommonOptions) -> None:
    """Makes sure that options about devices fit the number of devices."""
    wishes = [name for name, value in options.wishes.items() if value]
    counts = {
        name: -(-amount // UNITS)
        for name, amount in options.request.amounts.items()
        if name not in (CPU, MEMORY, GPU_MEMORY)
    }
    if options.gpu_memory is not None:
        counts[GPU.name] = 1
    if wishes and not counts:
        raise ValueError(
            f"{wishes[0]} is about devices, and none are asked for: add num_gpus or "
            "gpu_memory, or resources for another kind"
        )
    are_all_kinds = all(name in KINDS for name in counts)
    total, number = sum(counts.values()), len(options.devices)
    if number and are_all_kinds and number != total:
        raise ValueError(
            f"device names {number} {'device' if number == 1 else 'devices'}, and "
            f"{options.request} is on {total}: name as many"
        )


# Actors.


@public("actorlib.types")
class ActorKeywords(CommonKeywords, total=False):
    """The keywords of ``@remote(...)`` and ``.options(...)``: see ActorOptions."""

    near: object
    apart_from: object
    concurrency_groups: Mapping[str, int] | None
    max_pending_calls: int | None
    max_unread_items: int | None
    allow_out_of_order_execution: bool | None
    namespace: str | None
    lifetime: Literal["detached", "non_detached"] | None
    get_if_exists: bool
    max_restarts: int
    restart_window: float | None
    restart_backoff: float
    max_task_retries: int


def _checked_actors(name: str, value: object) -> tuple[bytes, ...]:
    """Returns the ids by which ``_api`` has replaced the handles."""
    ids = cast("tuple[object, ...]", value)
    if isinstance(value, tuple) and all(isinstance(actor, bytes) for actor in ids):
        return cast("tuple[bytes, ...]", ids)
    raise wrong_type(f"{name} takes the handle of an actor", ids)


@public("actorlib.types")
@with_shared_texts
@dataclass(frozen=True, slots=True, kw_only=True)
class ActorOptions(CommonOptions):
    """The options of an actor: what it asks for, and how it behaves.

    Attributes:
        near: The handle of another actor. This one is placed on a device of that actor,
            or on a device that is linked to one. Default: None, for anywhere.
        apart_from: The handle of another actor, or a list of handles. This one is
            placed on other devices than theirs. Default: None, for anywhere.
        concurrency_groups: Groups of methods by name, each with the number of its calls
            that run at once, 1 or more: ``{"io": 2}``. Methods without a group share
            ``max_concurrency``. A group of plain methods has its own threads; a group
            with an ``async def`` runs all of its methods on its own loop. Default:
            None, for no groups.
        max_pending_calls: How many calls of this actor without an answer one process
            may have. One more raises PendingCallsLimitExceeded. Default: None (or 0, or
            -1), which is any number.
        max_unread_items: How many items of all streams of the actor together may wait
            for their readers, 1 or more; -1 for any number. Default: None, for the
            limit of each stream.
        allow_out_of_order_execution: If True, a call may run before an earlier one
            whose arguments are not ready. Default: None, which is True if the actor
            runs several calls at once.
        namespace: The namespace of the name. Default: None, for that of the runtime.
        lifetime: With ``"detached"`` the actor lives until it is killed or the runtime
            ends, even without a handle and after the end of the actor that made it.
            Default: None, which is ``"non_detached"``.
        get_if_exists: If True and a living actor has the name, ``.remote()`` returns
            its handle instead of raising. Default: False.
        max_restarts: How often the actor is created again, with the same arguments,
            after an end that was not requested; -1 for always. Default: 0.
        restart_window: Only restarts within the last so many seconds count for
            ``max_restarts``, 0 or more. Default: None: all restarts of its life count.
        restart_backoff: Seconds that an actor waits before it is restarted if it died
            soon after a restart, 0 or more. They double each time, up to 30. The first
            restart is at once. Default: 0.5.
        max_task_retries: How often a call is sent again that ran when the actor died;
            -1 for always. A call that was sent and had not begun is sent again without
            using a retry. A method or a call may have its own number. Default: 0.
    """

    subject: ClassVar[str] = "an actor"

    name: str | None = option(check_text, "'counter'", default=None)
    near: object = option(_checked_actors, default=None)
    apart_from: object = option(_checked_actors, default=None)
    concurrency_groups: Mapping[str, int] | None = option(
        checked_counts, "{'io': 2}", default=None
    )
    max_pending_calls: int | None = option(check_count, -1, default=None)
    max_unread_items: int | None = option(
        check_limit,
        default=None,
        rays_name="_actor_generator_backpressure_num_objects",
    )
    allow_out_of_order_execution: bool | None = option(check_bool, default=None)
    namespace: str | None = option(check_text, "'training'", default=None)
    lifetime: Literal["detached", "non_detached"] | None = choice(default=None)
    get_if_exists: bool = option(check_bool, default=False)
    max_restarts: int = option(check_times, default=0)
    restart_window: float | None = option(check_seconds, default=None)
    restart_backoff: float = option(check_seconds, default=0.5)
    max_task_retries: int = option(check_times, default=0)

    def __post_init__(self) -> None:
        CommonOptions.__post_init__(self)
        if set(self.near_to) & set(self.apart):
            raise ValueError("near and apart_from name the same actor")
        if self.get_if_exists and self.name is None:
            raise ValueError(
                "get_if_exists=True looks for an actor by its name: give it one, for "
                "example name='counter'"
            )

    @property
    def is_detached(self) -> bool:
        """Whether it lives without a handle."""
        return self.lifetime == "detached"

    @property
    def wishes(self) -> Mapping[str, tuple[object, ...]]:
        """The values of the options that are about devices, by name."""
        return {
            "device": self.devices,
            "near": self.near_to,
            "apart_from": self.apart,
        }

    @property
    def near_to(self) -> tuple[bytes, ...]:
        """The actor that it has to be near to, by id; empty for none."""
        return cast("tuple[bytes, ...]", self.near or ())

    @property
    def apart(self) -> tuple[bytes, ...]:
        """The actors that it has to be apart from, by id."""
        return cast("tuple[bytes, ...]", self.apart_from or ())

    def limits(self, *, is_async: bool) -> dict[str, int]:
        """Returns how many calls run at once, by group; empty for the default.

        The empty name stands for the methods without a group.

        Args:
            is_async: Whether the class has ``async def`` methods.
        """
        default = LOOPED_LIMIT if is_async else 1
        limit = self.max_concurrency or default
        if not self.concurrency_groups and limit == default:
            return {}
        return {"": limit, **(self.concurrency_groups or {})}
