"""``init`` and ``shutdown``: start and end the runtime of a script."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from actorlib._base.public import public
from actorlib._core.engine import current_engine, find_engine
from actorlib._runtime import ENGINE_VARIABLE
from actorlib._script_runtime import SCRIPT
from actorlib.blocking._options import checked_init
from actorlib.exceptions import RuntimeNotStartedError

if TYPE_CHECKING:
    from types import TracebackType


_log = logging.getLogger("actorlib")


@public("actorlib.blocking")
class Context:
    """The runtime of a script; ``with init():`` ends it after the block."""

    def __enter__(self) -> Self:
        """Returns itself."""
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
        with suppress(RuntimeNotStartedError):  # it has ended, or is elsewhere
            return SCRIPT.read(lambda runtime: runtime.dashboard) or ""
        return ""

    def disconnect(self) -> None:
        """Ends the runtime."""
        SCRIPT.end()

    @property
    def address_info(self) -> dict[str, str]:
        """The address and the id of the machine."""
        return {"address": "local", "node_id": current_engine().context.node_id}

    def __getitem__(self, name: str) -> str:
        return self.address_info[name]

    def __repr__(self) -> str:
        return "<Context of a runtime>"


@public("actorlib.blocking")
def init(address: str | None = None, **options: Any) -> Context:
    """Starts the runtime in a separate thread; see ``actorlib.init``.

    Calling it is optional: functions that need a runtime start one. The runtime ends
    with ``shutdown()``, or with the script.

    Args:
        address: The name of a runtime of another process on this machine, to attach to
            it: see ``actorlib.attach``. Then only ``namespace`` may be set. With
            ``engine="ray"``, the address of the cluster: see ``actorlib.init``.
            ``"local"`` and None start a runtime in this process. Default: None.
        **options: The options of the runtime. ``help(actorlib.types.RuntimeOptions)``
            describes each option. None leaves the default. Options of Ray for its
            dashboard, its logs or its own processes have no effect, and are logged.
        ignore_reinit_error: If True and a runtime is running already, that one is used,
            with its options. Default: False.
        reinit: If True, a runtime that was started here is ended before this one
            starts, for cells of a notebook that are run again. Default: False.
        logging_level: The level of actorlib's logger, a number or a name of
            ``logging``. Default: None, which changes nothing.

    Returns:
        A context for ``with``; it may be ignored.

    Raises:
        InitError: An option is unknown or not supported. It is a ValueError and a
            RuntimeError. Nothing was started.
        ClusterError: There is no cluster at the address, or it has another Ray version.
        RuntimeNotFoundError: This user has no runtime of the name in the address.
        RuntimeUnreachableError: It does not answer, or has another version.
        ImportError: The engine is Ray's, and Ray is not installed.
        RuntimeError: A runtime is running, and ``ignore_reinit_error`` is not set.
        TypeError: A value has the wrong type.
        ValueError: A value is out of range.
        TemplateError: No worker can be started. Nothing is running afterwards.

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
            "init(ignore_reinit_error=True) to continue with the existing one; "
            "init(reinit=True) ends one that was started here, and starts another"
        )
    if checked.logging_level is not None:
        _log.setLevel(checked.logging_level)
    if checked.ignored:
        _log.warning(
            "init(): %s has no effect here",
            ", ".join(checked.ignored),
        )
    if checked.attached_to is not None:
        SCRIPT.attach(checked.attached_to, checked.options.get("namespace"))
        return Context()
    SCRIPT.start(checked.options)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # checked by init()
    return Context()


@public("actorlib.blocking")
def shutdown(wait_for_processes: bool = True) -> None:  # noqa: FBT001, FBT002  # as Ray's users write it
    """Ends the runtime and all its processes; does nothing if there is none.

    Functions that need a runtime start a new one afterwards.

    Args:
        wait_for_processes: Has no effect: it always waits. Default: True.
    """
    del wait_for_processes
    SCRIPT.end()


@public("actorlib.blocking")
def is_initialized() -> bool:
    """Whether a runtime is running: that of the script, or of the calling actor."""
    return find_engine() is not None
