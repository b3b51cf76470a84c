"""What may be said about a runtime: checked once, then frozen."""

from collections.abc import Mapping, Sequence  # types that are asked for
from dataclasses import field
from typing import Literal, TypedDict, cast

from actorlib._core.middleware import Middleware, checked_middleware
from actorlib._core.public import public
from actorlib._core.resources import Resources, bytes_of, device_memory_of, totals
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
    check_one_of,
    check_seconds,
    check_text,
    checked_modules,
)
from actorlib._core.value import dataclass

ENGINES = ("local", "inline", "ray")
DEVICES = ("all", "free")
MASK_FORMS = ("index", "uuid")
START_METHODS = ("template", "spawn")
INFEASIBLE = ("fail", "wait")
WHEN_FULL = ("spill", "fail")


@public("actorlib")
class RuntimeKeywords(TypedDict, total=False):
    """The keywords of ``init(...)``: see RuntimeOptions."""

    engine: Literal["local", "inline", "ray"] | None
    address: str | None
    num_cpus: int | None
    num_gpus: int | None
    device_memory: Mapping[str, float | str] | None
    memory: float | str | None
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


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeOptions:
    """What one runtime has and how it behaves.

    Attributes:
        engine: ``"local"`` runs each actor in a process of its own; ``"inline"`` runs
            all of them in this one, for debuggers and unit tests; ``"ray"`` runs them
            on a cluster. Inline, nothing is started: ``preload``, ``start_method``,
            ``mask_form`` and ``log_to_driver`` do nothing. On Ray, ``devices``,
            ``preload``, ``start_method``, ``mask_form``, ``object_store_full``,
            ``share_above``, ``actor_history``, ``device_memory`` and
            ``device_memory_overuse`` do nothing, and what a cluster has that runs
            already is what it says. Default: None, which is what the variable
            ``ACTORLIB_ENGINE`` says, else local.
        address: Where the cluster is, for ``"ray"``: ``"auto"`` for the one of this
            machine, or ``"10.0.0.5:6379"``; from a machine that is none of the cluster
            ``"ray://10.0.0.5:10001"``, its client server. Default: None, which is what
            the variable ``ACTORLIB_ADDRESS`` says, else a cluster is started on this
            machine, which ends with the runtime.
        num_cpus: CPUs to give out, a whole number, 0 or more. Default: None, for those
            this process may use.
        num_gpus: GPUs to give out, a whole number, 0 or more. Resources are logical:
            more may be declared than there are. Default: None, for those found.
        device_memory: Bytes of memory of each device whose own is unknown, by kind, 1
            or more, or words (``{"GPU": "24GiB"}``): of devices that are not there but
            declared, and of those that do not tell. What was measured counts where a
            device does tell, as nobody can be given bytes that a card does not have.
            Default: None: what is unknown stays so, and ``gpu_memory`` is never given
            of it.
        memory: Bytes to give out, 0 or more, or words (``"64GiB"``). Default: None,
            for what this process may use.
        resources: Devices of other kinds (``{"TPU": 4}``) and custom resources by name,
            whole numbers. Default: None: devices that are not named are those found.
        devices: ``"free"`` takes only devices that no other runtime of this user has
            taken, and leaves the others to them; ``"all"`` shares them, and says at the
            start who else has them. Default: ``"all"``.
        enforcement: What makes a share below a whole device hold: ``"frameworks"``
            tells PyTorch, JAX, TensorFlow and CuPy to take no more memory than that,
            ``"watchdog"`` also looks what processes take, ``"mps"`` has the driver
            refuse more. ``"cgroup"`` has the driver refuse more to all processes of an
            actor together (root, release 615), and the kernel hold actors and functions
            to the ``memory`` and ``num_cpus`` of the host that they ask for. ``"auto"``
            takes the stronger of the first two that can be had, ``"off"`` nothing;
            ``handle.share`` says which, and why nothing stronger. One that cannot be
            had here is refused when the runtime starts. Default: ``"auto"``.
        preload: Modules that workers find imported already. They are imported once, in
            the template, and must not initialise an accelerator there. Where workers
            are spawned by default, they start without them. The template imports NumPy
            by itself once a worker has, for those that do so later; () leaves that to
            each of them. Default: None, for no modules and NumPy when it is needed.
        start_method: ``"template"`` forks each worker from a small warm process;
            ``"spawn"`` starts an interpreter for each. Default: None, which is the
            template on Linux, spawn elsewhere.
        log_to_driver: Whether what actors print appears here; no line does with
            ``ACTORLIB_LOG_TO_DRIVER=0``. Lines that are equal but for digits appear
            once within 5 s if several actors print them, then with how often
            (``ACTORLIB_DEDUP_LOGS=0``: every one). ``ACTORLIB_LOG_PREFIX=0`` leaves out
            whose they are, ``ACTORLIB_COLOR_PREFIX=1`` gives each process a colour. If
            it does not, the program's loggers get no record of theirs. Default: True.
        log_level: The least level of the log records that actors and functions make, as
            ``"INFO"`` or a number of ``logging``; records reach the program's own
            loggers, which have levels too. Inline, those alone count; on Ray it does
            nothing. Default: None, which is what the program's root logger has when the
            runtime starts; WARNING if nothing was said.
        grace: Seconds that a busy actor is given to end before it is killed, 0 or more.
            Default: 1.0.
        infeasible: What happens to an actor that asks for what this machine can never
            give: ``"fail"`` at once, or ``"wait"`` for ever as in Ray. Default:
            ``"fail"``.
        mask_form: How devices are named in the visibility variables of actors:
            ``"index"`` or ``"uuid"``. Default: None, which is indices, for NVIDIA UUIDs
            where the models differ or this process was given UUIDs itself.
        namespace: Where names of actors are looked for that say nothing else. Default:
            ``"default"``.
        object_store_memory: Bytes of shared memory (or ``"8GiB"``) that large arguments
            and results may take, of all processes together; 0 sends everything through
            pipes. Default: None, which is 30 % of the memory that there is.
        object_store_full: What happens to a large value that has no room there:
            ``"spill"`` sends it through the pipe, with a warning once; ``"fail"``
            raises ObjectStoreFullError. Default: ``"spill"``.
        share_above: Bytes from which a value is large, 1 or more. Default: 262144.
        actor_history: How many actors stay listed that are dead and that nobody holds
            any more, the latest; 0 for none. Default: 1000.
        device_memory_overuse: What happens to an actor with a part of a GPU whose
            processes have more of its memory than that, and 512 MiB for contexts, at
            two looks in a row (NVML is asked once a second): ``"warn"`` has the log
            tell, once; ``"kill"`` also ends it with DeviceMemoryExceeded, and restarts
            follow by the usual rules; a function is called with that error, on the
            event loop. Nothing happens where ``handle.share`` names no watchdog.
            Default: ``"warn"``.
        runtime_env: ``{"env_vars": {...}, "working_dir": "..."}`` for all actors and
            functions; what one of them says of itself wins. Default: None, for none.
        control: Whether ``actorlib ps`` and the other commands of this user, and of
            root, can look into this runtime, if the engine is local; not with
            ``ACTORLIB_CONTROL=0``. Default: True.
        middleware: Objects that are told of each call, before it and after it; see
            ``actorlib.observe``. Those that can be pickled are told in the workers,
            too, each by a copy. Calls cost what they cost while there are none. On Ray
            they are refused. Default: (), for none.
        dashboard: Where a page for a browser shows this runtime: a host and a port,
            ``"127.0.0.1:0"`` for a free one. Its address, with a token that it needs,
            is ``runtime.dashboard`` and is printed on standard error. Beyond this
            machine (``"0.0.0.0:8265"``) nothing is encrypted. It takes
            ``pip install actorlib[web]``; Ray has a page of its own, and refuses this.
            Default: None, for no page; ``actorlib top --web`` shows one, too.
        name: What other processes of this user find the runtime by, with
            ``actorlib.attach``, to be clients of it: letters, digits, ``.``, ``_`` and
            ``-``, 40 at the most. There is one runtime of a name. The local engine
            alone has clients. Default: None, for none.
        capacity: The declared amounts together, exact; what was not declared is left
            out.
    """

    engine: Literal["local", "inline", "ray"] | None = None
    address: str | None = None
    num_cpus: int | None = None
    num_gpus: int | None = None
    device_memory: Mapping[str, float | str] | None = None
    memory: float | str | None = None
    resources: Mapping[str, int] | None = None
    devices: Literal["all", "free"] = "all"
    enforcement: EnforcementWord = "auto"
    preload: Sequence[str] | None = None
    start_method: Literal["template", "spawn"] | None = None
    log_to_driver: bool = True
    log_level: int | str | None = None
    grace: float = 1.0
    infeasible: Literal["fail", "wait"] = "fail"
    mask_form: Literal["index", "uuid"] | None = None
    namespace: str = "default"
    object_store_memory: float | str | None = None
    object_store_full: Literal["spill", "fail"] = "spill"
    share_above: int = 256 * 1024
    actor_history: int = 1000
    device_memory_overuse: OveruseAction = "warn"
    runtime_env: RuntimeEnv | None = None
    control: bool = True
    middleware: Sequence[Middleware] = ()
    dashboard: str | None = None
    name: str | None = None
    capacity: Resources = field(init=False)

    def __post_init__(self) -> None:
        declared = totals(
            num_cpus=self.num_cpus,
            num_gpus=self.num_gpus,
            memory=self.memory,
            resources=self.resources,
        )
        object.__setattr__(self, "capacity", declared)
        device_memory_of(self.device_memory)
        if self.device_memory is not None:  # theirs may change
            object.__setattr__(self, "device_memory", dict(self.device_memory))
        object.__setattr__(self, "runtime_env", checked_env(self.runtime_env))
        if self.preload is not None:
            object.__setattr__(self, "preload", checked_modules(self.preload))
        if self.engine is not None:
            check_one_of("engine", self.engine, ENGINES)
        check_one_of("devices", self.devices, DEVICES)
        check_one_of("enforcement", self.enforcement, ENFORCEMENTS)
        if self.address is not None:
            check_text("address", self.address, "'auto'")
        if self.start_method is not None:
            check_one_of("start_method", self.start_method, START_METHODS)
        check_one_of("infeasible", self.infeasible, INFEASIBLE)
        if self.mask_form is not None:
            check_one_of("mask_form", self.mask_form, MASK_FORMS)
        if self.preload and self.start_method == "spawn":
            raise ValueError(
                f"preload={list(self.preload)!r} and start_method='spawn' exclude each "
                "other: a fresh interpreter imports everything anew"
            )
        if self.log_level is not None:
            from actorlib._core.log import checked_level  # noqa: PLC0415  # it loads logging

            object.__setattr__(self, "log_level", checked_level(self.log_level))
        check_seconds("grace", self.grace)
        check_text("namespace", self.namespace, "'training'")
        if self.object_store_memory is not None:
            bytes_of("object_store_memory", self.object_store_memory)
        check_one_of("object_store_full", self.object_store_full, WHEN_FULL)
        check_count("share_above", self.share_above, 1)
        check_count("actor_history", self.actor_history, 0)
        check_overuse_action(self.device_memory_overuse)
        check_bool("control", self.control)
        object.__setattr__(self, "middleware", _checked_middlewares(self.middleware))
        if self.dashboard is not None:
            from actorlib._core.web_address import web_address  # noqa: PLC0415  # few have a page

            web_address("dashboard", self.dashboard)
        if self.name is not None:
            from actorlib._core.runtime_name import check_runtime_name  # noqa: PLC0415  # few have a name

            check_runtime_name("name", self.name)
        if not isinstance(cast("object", self.log_to_driver), bool):
            raise TypeError(
                f"log_to_driver takes True or False, not {self.log_to_driver!r}"
            )

    @property
    def memory_of_devices(self) -> Mapping[str, int]:
        """Bytes of a device whose own memory is unknown, by kind."""
        return device_memory_of(self.device_memory)


def _checked_middlewares(given: object) -> tuple[Middleware, ...]:
    if given == ():
        return ()
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise TypeError(
            "middleware takes a list of middlewares, for example [Slow()], not "
            f"{given!r}"
        )
    return tuple(map(checked_middleware, cast("Sequence[object]", given)))
