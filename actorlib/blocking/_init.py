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
        logging_level: From which level actorlib logs, a number or a name of
            ``logging``. Default: None, which changes nothing.
        engine: ``"local"`` runs each actor in a process of its own; ``"inline"`` runs
            all of them in this one, for debuggers and unit tests; ``"ray"`` runs them
            on a cluster. Inline, nothing is started: ``preload``, ``start_method``,
            ``mask_form`` and ``log_to_driver`` do nothing. On Ray, ``devices``,
            ``preload``, ``start_method``, ``mask_form``, ``object_store_full``,
            ``share_above``, ``actor_history``, ``device_memory`` and
            ``device_memory_overuse`` do nothing, and what a cluster has that runs
            already is what it says. Default: None, which is what the variable
            ``ACTORLIB_ENGINE`` says, else local.
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
            "init(ignore_reinit_error=True) to go on with the one there is"
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
    """Whether a runtime is running: the script's own, or an actor's."""
    return find_engine() is not None
