"""The options of a runtime, and the names that it may have."""

import re
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


@public("actorlib.types")
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
    devices: Literal["all", "free", "exclusive"]
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
    shared_memory_threshold: int
    actor_history: int
    device_memory_overuse: OveruseAction
    runtime_env: RuntimeEnv | None
    control: bool
    middleware: Sequence[Middleware]
    dashboard: str | None
    name: str | None


def _checked_device_memory(_: str, value: object) -> object:
    device_memory_of(value)
    return dict(cast("Mapping[str, object]", value))  # the user may change theirs


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


LONGEST_RUNTIME_NAME = 40
"""Characters: a socket's address contains the name, and its length is limited."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ADDRESSES = ("auto", "local")
"""Words with another meaning where a script names a runtime as its address."""


def check_runtime_name(option: str, name: object) -> None:
    """Makes sure that a value may be the name of a runtime."""
    check_text(option, name, "'service'")
    text = str(name)
    if len(text) > LONGEST_RUNTIME_NAME or not _NAME.fullmatch(text):
        raise ValueError(
            f"{option} takes up to {LONGEST_RUNTIME_NAME} letters, digits, '.', '_' "
            f"and '-', a letter or a digit first, for example 'service', not {text!r}"
        )
    if text in _ADDRESSES:
        raise ValueError(
            f"{option} cannot be {text!r}: as an address that word means something else"
        )


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions(Options):
    """The options of a runtime: what it has, and how it behaves.

    Attributes:
        engine: Where actors run: ``"local"`` gives each a separate process;
            ``"inline"`` runs all of them in this process, for debuggers and unit tests;
            ``"ray"`` runs them on a cluster. Inline, ``preload``, ``start_method``,
            ``mask_form`` and ``log_to_driver`` have no effect. On Ray, ``devices``,
            ``preload``, ``start_method``, ``mask_form``, ``object_store_full``,
            ``shared_memory_threshold``, ``actor_history``, ``device_memory``,
            ``device_memory_overuse`` and ``memory_threshold`` have no effect, and an
            existing cluster has its own amounts. Default: None, for the engine in the
            variable ``ACTORLIB_ENGINE``, else local.
        address: The address of the cluster, for the engine ``"ray"``:
            ``"10.0.0.5:6379"``, or ``"auto"`` for the cluster of this machine. From a
            machine that is not in the cluster, write the address of its client server:
            ``"ray://10.0.0.5:10001"``. Default: None, for the address in the variable
            ``ACTORLIB_ADDRESS``; without it, a cluster is started on this machine and
            ends with the runtime.
        num_cpus: The number of CPUs for actors and functions, a whole number, 0 or
            more. Default: None, for those that this process may use.
        num_gpus: The number of GPUs for actors and functions, a whole number, 0 or
            more. It may be larger than the number of physical GPUs: the others are
            logical. Default: None, for the physical ones.
        device_memory: The memory of devices whose memory is unknown, by kind, in bytes,
            1 or more, or a size: ``{"GPU": "24GiB"}``. It applies to logical devices
            and to devices that do not report their memory. Default: None: it stays
            unknown, and such a device is never granted for ``gpu_memory``.
        memory: The memory for actors and functions: bytes, 0 or more, or a size such as
            ``"64GiB"``. Default: None, for the memory that this process may use.
        memory_threshold: The part of the memory in use, above 0 and up to 1, from which
            on a worker is ended with OutOfMemoryError, before the kernel ends one. Both
            the machine and the cgroup of this process count, without page cache that
            can be reclaimed. A worker is ended only if the workers of this program hold
            at least half of the memory in use: of those at least as large as the
            median, first one whose work will run again, a function before an actor, the
            newest first. 1 turns this off. Linux only. Default: None, which is 0.95.
        resources: Devices of other kinds, such as ``{"TPU": 4}``, and custom resources,
            by name, as whole numbers. Default: None, for the physical devices.
        devices: What the runtime does about devices of other programs of this user.
            With ``"all"``, it grants all devices. When it begins to use one on which
            another program has placed something, the log names that program, once. With
            ``"free"``, it grants only the devices that no other runtime has when it
            starts. With ``"exclusive"``, it grants all, and a device belongs to one
            program from the first grant until the last lease on it has ended: actors
            wait until no other program uses the device. Programs with ``"all"`` and
            ``"free"`` do not wait.
            Only ``"exclusive"`` includes logical devices. It needs Linux, and is
            refused on Ray. Default: ``"all"``.
        enforcement: What keeps an actor to its share, if that is less than a whole
            device. With ``"frameworks"``, PyTorch, JAX, TensorFlow and CuPy are set to
            use no more memory. With ``"watchdog"``, actorlib also measures the memory
            that processes use. With ``"mps"``, the driver refuses more to each process.
            With ``"cgroup"``, the driver refuses more to all processes of an actor
            together, which needs root and release 615 of the driver, and the kernel
            limits actors and functions to their ``memory`` and ``num_cpus``.
            ``"auto"`` uses the stronger of the first two that is available, ``"off"``
            none. ``handle.share`` shows the one in use, and why it is not a stronger
            one. One that is not available here is refused when the runtime starts.
            Default: ``"auto"``.
        preload: Modules that workers find already imported. The template imports them
            once, so they must not initialise an accelerator. Where workers are spawned
            by default, they start without them. Once a worker has imported NumPy, the
            template imports it for later ones; () turns that off. Default: None, for no
            modules, and NumPy when it is needed.
        start_method: How workers start: ``"template"`` forks each from a small warm
            process; ``"spawn"`` starts an interpreter for each. Default: None, which is
            template on Linux, else spawn.
        log_to_driver: If True, what actors print and log appears in your program.
            Variables change this: ``ACTORLIB_LOG_TO_DRIVER=0`` hides printed output,
            ``ACTORLIB_DEDUP_LOGS=1`` shows equal lines of several actors within 5 s
            once, with a count, ``ACTORLIB_LOG_PREFIX=0`` omits the actor's name from a
            line, ``ACTORLIB_COLOR_PREFIX=1`` gives each process a colour. Default:
            True.
        log_level: The lowest level of the log records that actors and functions send,
            such as ``"INFO"``, or a number of ``logging``. The records go to the
            loggers of your program, which have levels too. Inline, only those apply; on
            Ray it has no effect. Default: None, which is the level of the program's
            root logger when the runtime starts; WARNING if it has none.
        grace: The seconds that a busy actor has to end before it is killed, 0 or more.
            Default: 1.0.
        infeasible: What happens to an actor whose request this machine can never grant:
            ``"fail"`` fails at once, ``"wait"`` waits for ever, as in Ray. Default:
            ``"fail"``.
        mask_form: How visibility variables name devices: ``"index"`` or ``"uuid"``.
            Default: None, which is index; for NVIDIA it is uuid if the models differ or
            if the variable of this process has UUIDs.
        namespace: The namespace of actors without a ``namespace`` option. Default:
            ``"default"``.
        object_store_memory: The limit of shared memory for large arguments and results,
            in all processes together: bytes, or a size such as ``"8GiB"``. With 0
            all values go through pipes. Default: None, which is 30 % of the machine's
            memory.
        object_store_full: What happens to a large value if the shared memory is full:
            ``"spill"`` sends it through a pipe, with a warning once; ``"fail"`` raises
            ObjectStoreFullError. Default: ``"spill"``.
        shared_memory_threshold: The size in bytes from which a value goes into shared
            memory, 1 or more. Default: 262144.
        actor_history: How many dead actors without a handle stay listed, 0 or more. The
            latest are kept. Default: 1000.
        device_memory_overuse: What happens if an actor uses more of a GPU's memory than
            its share and 512 MiB for contexts, in two measurements in a row. NVML is
            read once a second. ``"warn"`` warns in the log, once. ``"kill"`` also ends
            the actor with DeviceMemoryExceeded; it is restarted by the usual rules. A
            function is called with that error, on the event loop. Nothing happens if
            ``handle.share`` does not name the watchdog. Default: ``"warn"``.
        runtime_env: ``{"env_vars": {...}, "working_dir": "..."}``: environment
            variables and the directory of all actors and functions. Their own options
            take precedence. Default: None.
        control: If True, ``actorlib ps`` and the other commands of this user, and of
            root, can inspect this runtime if its engine is local. With
            ``ACTORLIB_CONTROL=0`` they cannot. Default: True.
        middleware: Objects that are called before and after each call; see
            ``actorlib.observe``. If one can be pickled, a copy of it in each worker is
            called too. Without any, calls cost nothing more. On Ray they are refused.
            Default: ().
        dashboard: The host and port of a web page that shows this runtime, such as
            ``"127.0.0.1:0"``, where 0 is a free port. The page's address contains a
            token, which every request needs; it is ``runtime.dashboard`` and is printed
            on standard error. If other machines can reach it (``"0.0.0.0:8265"``),
            nothing is encrypted. It needs ``pip install actorlib[web]``. Ray has its
            own page and refuses this. Default: None, for no page; ``actorlib top
            --web`` shows one too.
        name: The name by which other processes of this user find the runtime, with
            ``actorlib.attach``, to become its clients: letters, digits, ``.``, ``_``
            and ``-``, at most 40. A name belongs to one runtime. Only the local engine
            has clients. Default: None.
        capacity: The declared amounts together, exact; others are left out.
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
    devices: Literal["all", "free", "exclusive"] = choice(default="all")
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
    shared_memory_threshold: int = option(
        check_count, 1, default=256 * 1024, old_name="share_above"
    )
    actor_history: int = option(check_count, 0, default=1000)
    device_memory_overuse: OveruseAction = option(check_overuse_action, default="warn")
    runtime_env: RuntimeEnv | None = None
    control: bool = option(check_bool, default=True)
    middleware: Sequence[Middleware] = option(_checked_middlewares, default=())
    dashboard: str | None = None
    name: str | None = option(check_runtime_name, default=None)
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
                "other: a new interpreter imports everything again"
            )

    @property
    def memory_of_devices(self) -> Mapping[str, int]:
        """Bytes of a device whose own memory is unknown, by kind."""
        return device_memory_of(self.device_memory)
