"""``init`` and ``shutdown``: start and end the runtime of a script."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from actorlib._core.engine import current_engine, find_engine
from actorlib._core.public import public
from actorlib._runtime import ENGINE_VARIABLE
from actorlib.blocking._options import checked_init
from actorlib.blocking._script_runtime import SCRIPT
from actorlib.exceptions import RuntimeNotStartedError

if TYPE_CHECKING:
    from types import TracebackType


_log = logging.getLogger("actorlib")


@public("actorlib.blocking")
class Context:
    """The runtime of a script: ``with init():`` ends it with the block."""

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the runtime."""
        SCRIPT.end()

    @property
    def dashboard_url(self) -> str:
        """The whole address of its page, or empty without ``init(dashboard=...)``."""
        with suppress(RuntimeNotStartedError):  # it has ended, or is another's
            return SCRIPT.read(lambda runtime: runtime.dashboard) or ""
        return ""

    def disconnect(self) -> None:
        """Ends the runtime."""
        SCRIPT.end()

    @property
    def address_info(self) -> dict[str, str]:
        """Where it runs."""
        return {"address": "local", "node_id": current_engine().context.node_id}

    def __getitem__(self, name: str) -> str:
        return self.address_info[name]

    def __repr__(self) -> str:
        return "<Context of a runtime>"


@public("actorlib.blocking")
def init(address: str | None = None, **options: Any) -> Context:
    """Starts the runtime, in a thread of its own; see ``actorlib.init``.

    It need not be called: what needs a runtime starts one. It ends with ``shutdown()``,
    or with the script, however that ends.

    Args:
        address: The name of a runtime of another process on this machine, to be a
            client of it: see ``actorlib.attach``; of the options only ``namespace`` is
            taken then. With ``engine="ray"`` where the cluster is: see
            ``actorlib.init``. ``"local"`` is a runtime of this script's own. Default:
            None, which is that, too.
        **options: How the runtime is, by name. What of Ray's is about its dashboard,
            its logs or its own processes is noted in the log and does nothing; None is
            what is not said.
        ignore_reinit_error: Whether a runtime that is running already will do, with the
            options that it has. Default: False.
        reinit: If True, a runtime that was started here is ended before this one
            starts, for cells of a notebook that are run again. Default: False.
        logging_level: From which level actorlib logs, a number or a name of
            ``logging``. Default: None, which changes nothing.
        engine: Where actors run: ``"local"`` gives each a process of its own;
            ``"inline"`` runs all of them in this process, for debuggers and unit tests;
            ``"ray"`` runs them on a cluster. Inline, ``preload``, ``start_method``,
            ``mask_form`` and ``log_to_driver`` do nothing. On Ray, ``devices``,
            ``preload``, ``start_method``, ``mask_form``, ``object_store_full``,
            ``share_above``, ``actor_history``, ``device_memory`` and
            ``device_memory_overuse`` do nothing, and a cluster that runs already says
            itself what it has. Default: None, which is what the variable
            ``ACTORLIB_ENGINE`` says, else local.
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

    Returns:
        To be left alone, or to be used in ``with``.

    Raises:
        InitError: An option is unknown, or asks for what there is not. It is a
            ValueError and a RuntimeError. Nothing was started.
        ClusterError: There is no cluster at the address, or it is one of another Ray.
        RuntimeNotFoundError: This user has no runtime of the name in the address.
        RuntimeUnreachableError: It does not answer, or has another version.
        ImportError: The engine is Ray's, and Ray is not installed.
        RuntimeError: A runtime is running, and ``ignore_reinit_error`` is not set.
        TypeError: A value has the wrong type.
        ValueError: A value is out of range.
        TemplateError: No worker can be started. Nothing is left running.

    Example:
        >>> import actorlib.blocking as ray
        >>> with ray.init(num_cpus=2, engine="inline"):
        ...     ref = ray.put([1, 2, 3])
        ...     print(ray.get(ref))
        [1, 2, 3]
    """
    engine = options.get("engine") or os.environ.get(ENGINE_VARIABLE)
    checked = checked_init({**options, "address": address}, is_on_ray=engine == "ray")
    if checked.replaces and SCRIPT.has_started:
        SCRIPT.end()
    if find_engine() is not None:
        if checked.ignores_second:
            return Context()
        end = (
            "call shutdown() before init()"
            if SCRIPT.has_started
            else "'await actorlib.shutdown()' ends it where actorlib.init() started it"
        )
        raise RuntimeError(
            f"a runtime is running in this process already: {end}, or write "
            "init(ignore_reinit_error=True) to go on with the one there is; "
            "init(reinit=True) ends one that was started here, and starts anew"
        )
    if checked.logging_level is not None:
        _log.setLevel(checked.logging_level)
    if checked.ignored:
        _log.warning(
            "init(): there is nothing here that %s would change",
            ", ".join(checked.ignored),
        )
    if checked.attached_to is not None:
        SCRIPT.attach(checked.attached_to, checked.options.get("namespace"))
        return Context()
    SCRIPT.start(checked.options)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # checked where they are used
    return Context()


@public("actorlib.blocking")
def shutdown(wait_for_processes: bool = True) -> None:  # noqa: FBT001, FBT002  # as Ray's users write it
    """Ends the runtime, and every process of it; harmless if there is none.

    What is used afterwards starts a new one.

    Args:
        wait_for_processes: It always does; taken so that scripts may say so. Default:
            True.
    """
    del wait_for_processes
    SCRIPT.end()


@public("actorlib.blocking")
def is_initialized() -> bool:
    """Tells whether a runtime runs: the script's own, or that of the calling actor."""
    return find_engine() is not None
