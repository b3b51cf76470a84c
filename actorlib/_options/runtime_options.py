"""What may be said about a runtime: checked once, then frozen."""

from collections.abc import Mapping, Sequence  # types that are asked for
from dataclasses import field
from typing import ClassVar, Literal, TypedDict, cast

from actorlib._base.public import public
from actorlib._base.validation import (
    Options,
    check_bool,
    check_count,
    check_fields,
    check_seconds,
    check_text,
    checked_modules,
    choice,
    option,
)
from actorlib._base.value import dataclass
from actorlib._options.call_events import Middleware, checked_middleware
from actorlib._options.resources import Resources, bytes_of, device_memory_of, totals
from actorlib._options.runtime_env import RuntimeEnv, checked_env
from actorlib._options.shares import (
    EnforcementWord,
    OveruseAction,
    check_overuse_action,
)


@public("actorlib")
class RuntimeKeywords(TypedDict, total=False):
    """The keywords of ``init(...)``: see RuntimeOptions."""

    engine: Literal["local", "inline", "ray"] | None
    address: str | None
    num_cpus: int | None
    num_gpus: int | None
    device_memory: Mapping[str, float | str] | None
    memory: float | str | None
    memory_threshold: float | None
    resources: Mapping[str, int] | None
    devices: Literal["all", "free"]
    enforcement: EnforcementWord
    preload: Sequence[str] | None
    start_method: Literal["template", "spawn"] | None
    log_to_driver: bool
    log_level: int | str | None
    grace: float
    infeasible: Literal["fail", "wait"]
    mask_form: Literal["index", "uuid"] | None
    namespace: str
    object_store_memory: float | str | None
    object_store_full: Literal["spill", "fail"]
    share_above: int
    actor_history: int
    device_memory_overuse: OveruseAction
    runtime_env: RuntimeEnv | None
    control: bool
    middleware: Sequence[Middleware]
    dashboard: str | None
    name: str | None


def _checked_device_memory(_: str, value: object) -> object:
    device_memory_of(value)
    return dict(cast("Mapping[str, object]", value))  # theirs may change


def _checked_log_level(_: str, value: object) -> object:
    from actorlib._base.log import checked_level  # noqa: PLC0415  # it loads logging

    return checked_level(value)


def _check_bytes(name: str, value: object) -> None:
    bytes_of(name, value)


def _check_fraction(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} takes a number such as 0.95, not {value!r}")
    if not 0 < value <= 1:
        raise ValueError(f"{name} takes a number above 0 and up to 1, not {value!r}")


def _checked_middlewares(name: str, value: object) -> tuple[Middleware, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise TypeError(
            f"{name} takes a list of middlewares, for example [Slow()], not {value!r}"
        )
    return tuple(map(checked_middleware, cast("Sequence[object]", value)))


def _check_name(name: str, value: object) -> None:
    from actorlib._options.runtime_name import check_runtime_name  # noqa: PLC0415  # few have a name

    check_runtime_name(name, value)


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions(Options):
    """The options of a runtime: what it has, and how it behaves.

    Attributes:
        engine: Where actors run: ``"local"`` gives each a process of its own;
            ``"inline"`` runs all of them in this process, for debuggers and unit tests;
            ``"ray"`` runs them on a cluster. Inline, ``preload``, ``start_method``,
            ``mask_form`` and ``log_to_driver`` do nothing. On Ray, ``devices``,
            ``preload``, ``start_method``, ``mask_form``, ``object_store_full``,
            ``share_above``, ``actor_history``, ``device_memory``,
            ``device_memory_overuse`` and ``memory_threshold`` do nothing, and a cluster
            that runs already says itself what it has. Default: None, which is what the
            variable ``ACTORLIB_ENGINE`` says, else local.
        address: Where the cluster is, for the engine ``"ray"``: ``"10.0.0.5:6379"``, or
            ``"auto"`` for the cluster of this machine. From a machine that is not in
            the cluster, write the address of its client server:
            ``"ray://10.0.0.5:10001"``. Default: None, which is what the variable
            ``ACTORLIB_ADDRESS`` says; without that a cluster is started on this machine
            and ends with the runtime.
        num_cpus: How many CPUs there are to give out, a whole number, 0 or more.
            Default: None, for those that this process may use.
        num_gpus: How many GPUs there are to give out, a whole number, 0 or more. You
            may declare more than there are: the others are logical. Default: None, for
            those found.
        device_memory: How much memory devices have whose memory is unknown, by kind, in
            bytes, 1 or more, or a size: ``{"GPU": "24GiB"}``. This is about logical
            devices and about devices that do not tell. If a device tells how much it
            has, that counts. Default: None: it stays unknown, and such a device is
            never given for ``gpu_memory``.
        memory: How much memory there is to give out: bytes, 0 or more, or a size such
            as ``"64GiB"``. Default: None, for what this process may use.
        memory_threshold: The part of the memory in use, above 0 and up to 1, from which
            on a worker is ended with OutOfMemoryError, before the kernel ends one. Both
            the machine and the cgroup of this process count, without page cache that
            can be reclaimed. A worker is ended only if the workers of this program hold
            at least half of the memory in use: of those at least as large as the
            median, first one whose work will run again, a function before an actor, the
            newest first. 1 turns this off. Linux only. Default: None, which is 0.95.
        resources: Devices of other kinds, such as ``{"TPU": 4}``, and resources of your
            own, by name, as whole numbers. Default: None, for the devices found.
        devices: Which physical devices the runtime takes: ``"free"`` takes those that
            no other runtime of this user has; ``"all"`` takes all, and the log says who
            else has them. Default: ``"all"``.
        enforcement: Who keeps an actor to its share, if that is less than a whole
            device. With ``"frameworks"``, PyTorch, JAX, TensorFlow and CuPy are told to
            take no more memory. With ``"watchdog"``, actorlib also looks at what
            processes take. With ``"mps"``, the driver refuses more to each process.
            With ``"cgroup"``, the driver refuses more to all processes of an actor
            together, which takes root and its release 615, and the kernel holds actors
            and functions to the ``memory`` and ``num_cpus`` that they ask for.
            ``"auto"`` takes the stronger of the first two that can be had, ``"off"``
            none. ``handle.share`` says which one holds, and why nothing stronger. One
            that cannot be had here is refused when the runtime starts. Default:
            ``"auto"``.
        preload: Modules that workers find already imported. The template imports them
            once, so they must not initialise an accelerator. Where workers are spawned
            by default, they start without them. Once a worker has imported NumPy, the
            template imports it for later ones; () turns that off. Default: None, for no
            modules, and NumPy when it is needed.
        start_method: How workers start: ``"template"`` forks each from a small warm
            process; ``"spawn"`` starts an interpreter for each. Default: None, which is
            template on Linux, else spawn.
        log_to_driver: If True, what actors print and log appears in your program.
            Variables change this: ``ACTORLIB_LOG_TO_DRIVER=0`` shows nothing that is
            printed, ``ACTORLIB_DEDUP_LOGS=1`` shows once, with a count, what several
            actors print alike within 5 s, ``ACTORLIB_LOG_PREFIX=0`` leaves out whose a
            line is, ``ACTORLIB_COLOR_PREFIX=1`` gives each process a colour. Default:
            True.
        log_level: The lowest level of log records that actors and functions make, such
            as ``"INFO"``, or a number of ``logging``. The records go to the loggers of
            your program, which have levels, too. Inline, those alone count; on Ray it
            does nothing. Default: None, which is the level of the program's root logger
            when the runtime starts; WARNING if it has none.
        grace: How many seconds a busy actor has to end before it is killed, 0 or more.
            Default: 1.0.
        infeasible: What an actor does that asks for what this machine can never give:
            ``"fail"`` fails at once, ``"wait"`` waits for ever, as in Ray. Default:
            ``"fail"``.
        mask_form: How visibility variables name devices: ``"index"`` or ``"uuid"``.
            Default: None, which is index; for NVIDIA it is uuid if the models differ or
            if this process was itself given UUIDs.
        namespace: The namespace of actors that name no other. Default: ``"default"``.
        object_store_memory: How much shared memory large arguments and results may
            take, in all processes together: bytes, or a size such as ``"8GiB"``. With 0
            everything goes through pipes. Default: None, which is 30 % of the machine's
            memory.
        object_store_full: What happens to a large value if the shared memory is full:
            ``"spill"`` sends it through a pipe, with a warning once; ``"fail"`` raises
            ObjectStoreFullError. Default: ``"spill"``.
        share_above: From how many bytes on a value is large and goes into shared
            memory, 1 or more. Default: 262144.
        actor_history: How many dead actors that nobody holds any more stay listed, 0 or
            more. The latest do. Default: 1000.
        device_memory_overuse: What happens if an actor takes more of a GPU's memory
            than its share and 512 MiB for contexts, at two looks in a row. NVML is
            asked once a second. ``"warn"`` warns in the log, once. ``"kill"`` also ends
            the actor with DeviceMemoryExceeded; it is restarted by the usual rules. A
            function is called with that error, on the event loop. Nothing happens if
            ``handle.share`` names no watchdog. Default: ``"warn"``.
        runtime_env: ``{"env_vars": {...}, "working_dir": "..."}``: environment
            variables and the directory of all actors and functions. What one of them
            says itself counts more. Default: None, for none.
        control: If True, ``actorlib ps`` and the other commands of this user, and of
            root, can look into this runtime if its engine is local. With
            ``ACTORLIB_CONTROL=0`` they cannot. Default: True.
        middleware: Objects that are told of each call, before it and after it; see
            ``actorlib.observe``. If one can be pickled, a copy of it in each worker is
            told, too. Without any, calls cost nothing more. On Ray they are refused.
            Default: (), for none.
        dashboard: Where a page for a browser shows this runtime: a host and a port,
            such as ``"127.0.0.1:0"``, where 0 is a free port. The page's address has a
            token, without which nothing is answered; it is ``runtime.dashboard`` and is
            printed on standard error. If other machines can reach it
            (``"0.0.0.0:8265"``), nothing is encrypted. It takes ``pip install
            actorlib[web]``. Ray has a page of its own and refuses this. Default: None,
            for no page; ``actorlib top --web`` shows one, too.
        name: What other processes of this user find the runtime by, with
            ``actorlib.attach``, to be clients of it: letters, digits, ``.``, ``_`` and
            ``-``, 40 at the most. There is one runtime of a name. The local engine
            alone has clients. Default: None, for none.
        capacity: The declared amounts together, exact; what was not declared is left
            out.
    """

    subject: ClassVar[str] = "init()"

    engine: Literal["local", "inline", "ray"] | None = choice(default=None)
    address: str | None = option(check_text, "'auto'", default=None)
    num_cpus: int | None = None
    num_gpus: int | None = None
    device_memory: Mapping[str, float | str] | None = option(
        _checked_device_memory, default=None
    )
    memory: float | str | None = None
    memory_threshold: float | None = option(_check_fraction, default=None)
    resources: Mapping[str, int] | None = None
    devices: Literal["all", "free"] = choice(default="all")
    enforcement: EnforcementWord = choice(default="auto")
    preload: Sequence[str] | None = option(checked_modules, default=None)
    start_method: Literal["template", "spawn"] | None = choice(default=None)
    log_to_driver: bool = option(check_bool, default=True)
    log_level: int | str | None = option(_checked_log_level, default=None)
    grace: float = option(check_seconds, default=1.0)
    infeasible: Literal["fail", "wait"] = choice(default="fail")
    mask_form: Literal["index", "uuid"] | None = choice(default=None)
    namespace: str = option(check_text, "'training'", default="default")
    object_store_memory: float | str | None = option(_check_bytes, default=None)
    object_store_full: Literal["spill", "fail"] = choice(default="spill")
    share_above: int = option(check_count, 1, default=256 * 1024)
    actor_history: int = option(check_count, 0, default=1000)
    device_memory_overuse: OveruseAction = option(check_overuse_action, default="warn")
    runtime_env: RuntimeEnv | None = None
    control: bool = option(check_bool, default=True)
    middleware: Sequence[Middleware] = option(_checked_middlewares, default=())
    dashboard: str | None = None
    name: str | None = option(_check_name, default=None)
    capacity: Resources = field(init=False)

    def __post_init__(self) -> None:
        declared = totals(
            num_cpus=self.num_cpus,
            num_gpus=self.num_gpus,
            memory=self.memory,
            resources=self.resources,
        )
        object.__setattr__(self, "capacity", declared)
        check_fields(self)
        object.__setattr__(self, "runtime_env", checked_env(self.runtime_env))
        if self.preload and self.start_method == "spawn":
            raise ValueError(
                f"preload={list(self.preload)!r} and start_method='spawn' exclude each "
                "other: a fresh interpreter imports everything anew"
            )

    @property
    def memory_of_devices(self) -> Mapping[str, int]:
        """Bytes of a device whose own memory is unknown, by kind."""
        return device_memory_of(self.device_memory)
