"""Which engine, and where: by an argument, else by the environment.

The one file that names an engine, and late: ``import actorlib`` loads none, and
``init()`` loads no other than the one that was chosen.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from actorlib._checks import one_of
from actorlib._runtime_options import ENGINES

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._local.machine import Machine
    from actorlib._owner import Owner
    from actorlib._runtime_options import RuntimeOptions

ENGINE_VARIABLE = "ACTORLIB_ENGINE"
ADDRESS_VARIABLE = "ACTORLIB_ADDRESS"


def engine_name(options: RuntimeOptions) -> str:
    """Which engine it is.

    Raises:
        ValueError: The variable names none.
    """
    if options.engine is not None:
        return options.engine
    name = os.environ.get(ENGINE_VARIABLE) or "local"
    one_of(ENGINE_VARIABLE, name, ENGINES)
    return name


def address_of(options: RuntimeOptions, engine: str) -> str | None:
    """Where its cluster is, or None; of other engines the variable says nothing.

    Raises:
        ValueError: An address is given, and the engine has no cluster.
    """
    if engine == "ray":
        return options.address or os.environ.get(ADDRESS_VARIABLE) or None
    if options.address is not None:
        raise ValueError(
            f"address={options.address!r} is that of a cluster, and the engine is "
            f"{engine!r}, which has none: write engine='ray' too, or set "
            f"{ENGINE_VARIABLE}=ray"
        )
    return None


async def started(options: RuntimeOptions, engine: str, address: str | None) -> Owner:
    """The engine of this process, ready for actors.

    Args:
        options: What was said of the runtime.
        engine: Which one.
        address: Where its cluster is.

    Raises:
        TemplateError: No worker can be started.
        ClusterError: There is no such cluster.
        ImportError: What the engine needs is not installed.
    """
    if engine == "ray":
        from actorlib._ray.owner import start

        return await start(options, address)
    from actorlib._local.machine import Machine

    launch = None
    if engine == "inline":
        from actorlib._inline.launcher import InlineLauncher

        launch = InlineLauncher
    machine = await Machine.open(options, launch, _load_local)
    return _load_local()(machine, options)


def _load_local() -> Callable[[Machine, RuntimeOptions], Owner]:
    """Loads the engine of one machine, which takes as long as its template."""
    from actorlib._local.which import engine_for

    return engine_for
