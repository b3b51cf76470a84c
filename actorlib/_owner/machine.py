"""The machine a runtime works on: what there is, who may have it, what starts there."""

from __future__ import annotations

import asyncio
import hashlib
import platform
import re
import sys
from functools import partial
from typing import TYPE_CHECKING

from actorlib._core.kinds import GPU, KINDS, UNITS
from actorlib._core.resources import CPU, MEMORY, Resources
from actorlib._core.runtime_env import variables_of
from actorlib._core.stdio import fill_standard_streams
from actorlib._enforcement.caps import thread_caps
from actorlib._processes.forkserver_launcher import SpawnLauncher, TemplateLauncher
from actorlib._processes.worker_output import style_of
from actorlib._scheduler.catalogue import type_names
from actorlib._scheduler.scheduler import Scheduler
from actorlib.accelerators import (
    Host,
    Inventory,
    Lease,
    accelerator_ids,
    discover,
    environment,
    families,
    inventory,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from actorlib._core.actor_options import ActorOptions
    from actorlib._core.runtime_options import RuntimeOptions
    from actorlib._processes.launcher import Launcher, WorkerProcess
    from actorlib.accelerators import Detection

HIDE_SWITCH = "ACTORLIB_HIDE_DEVICES"


class LocalNode:
    """What there is, who may have it, and what starts there.

    Args:
        host: The window on it.
        found: The devices that may be granted.
        capacity: Everything that may be granted, devices included.
        launcher: Starts workers.
        declared: The names of what the user says there is.
        may_wait: Whether what can never be granted waits for ever.

    Attributes:
        scheduler: Who gets what of it, and who waits for it.
        inventory: The devices that may be granted, and why not more.
        id: Its own, in hex.
    """

    def __init__(
        self,
        host: Host,
        found: Inventory,
        capacity: Resources,
        launcher: Launcher,
        declared: Collection[str] = (),
        *,
        may_wait: bool = False,
    ) -> None:
        self.inventory = found
        loop = asyncio.get_running_loop()
        self.scheduler = Scheduler(
            capacity, found.devices, found.kinds, declared, loop, may_wait=may_wait
        )
        self.id = hashlib.blake2b(platform.node().encode(), digest_size=16).hexdigest()
        self._host = host
        self._launcher = launcher
        self._oom_kills = _oom_kills(host)

    @classmethod
    async def open(
        cls,
        options: RuntimeOptions,
        launch: Callable[[asyncio.AbstractEventLoop, RuntimeOptions], Launcher]
        | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> LocalNode:
        """Looks around and makes ready to start workers.

        Args:
            options: What was declared, and how workers are started.
            launch: Makes what starts them; None for what the options say.
            meanwhile: Called in another thread while the template starts.

        Raises:
            ValueError: More is declared than the owner may see.
            TemplateError: Workers cannot be started.
        """
        fill_standard_streams()
        loop = asyncio.get_running_loop()
        host = Host()
        launcher = (launch or partial(_launcher, host.environ))(loop, options)
        starting = loop.create_task(launcher.start())
        try:
            detections = await asyncio.to_thread(_look_around, host, meanwhile)
            found = inventory(
                detections, _declared(options), mask_form=options.mask_form
            )
            capacity = _capacity(host, found, options)
            await starting
        except BaseException:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await launcher.aclose()
            raise
        return cls(
            host,
            found,
            capacity,
            launcher,
            options.capacity.amounts,
            may_wait=options.infeasible == "wait",
        )

    @property
    def is_shared(self) -> bool:
        """Whether workers live in this process."""
        return self._launcher.environment is None

    def launch(self, name: str, lease: Lease) -> WorkerProcess:
        """Starts a worker for an actor that holds a lease.

        Raises:
            TemplateError: It cannot be started.
            OSError: This process is out of descriptors.
        """
        return self._launcher.launch(name, has_devices=bool(lease.shares))

    def environment(self, lease: Lease, options: ActorOptions) -> dict[str, str | None]:
        """The variables that a worker sets before it imports the user's code."""
        its_own = self._launcher.environment
        if its_own is None:
            return {}
        environ = self._host.environ
        own = variables_of(options.runtime_env, environ)
        # A copy of the environment takes as long as the rest of a placement's options.
        known = {**environ, **own} if own else environ
        hide = options.accelerators != "inherit"
        if options.accelerators is None:
            hide = environ.get(HIDE_SWITCH, "1").lower() not in ("0", "false")
        return {
            **its_own,
            **thread_caps(lease.amounts.get(CPU, 0), known),
            **environment(lease, self.inventory, hide=hide, environ=environ),
            **own,  # the user's word is the last
        }

    def mask(self, lease: Lease, options: ActorOptions) -> str | None:
        """What the visibility variable of a worker with this lease says."""
        environment = self.environment(lease, options)
        held = {share.device.family for share in lease.shares}
        masks = [
            environment.get(family.visible_env)
            for family in self.inventory.families
            if family.family in held
        ]
        return next(iter(masks), None)

    def accelerator_ids(
        self, lease: Lease, options: ActorOptions
    ) -> dict[str, list[int | str]]:
        """The ids of a lease's devices by kind, as the user is told them."""
        own = variables_of(options.runtime_env, self._host.environ)
        return accelerator_ids(lease, self.inventory, own)

    def is_memory_short(self) -> bool:
        """Whether the kernel has killed for lack of memory since the last look."""
        before, self._oom_kills = self._oom_kills, _oom_kills(self._host)
        return self._oom_kills > before

    @property
    def parallel(self) -> int:
        """How many workers without a seat are worth their memory."""
        return max(2, self.scheduler.ledger.capacity.amounts.get(CPU, 0) // UNITS)

    def has_little_memory(self) -> bool:
        """Whether less than a twentieth of the memory is available."""
        told = self._host.read_text("/proc/meminfo") or ""
        there = dict(
            re.findall(r"^(MemTotal|MemAvailable):\s+(\d+)", told, re.MULTILINE)
        )
        if len(there) < 2:
            return False
        return int(there["MemAvailable"]) * 20 < int(there["MemTotal"])

    def shareable(self, options: RuntimeOptions) -> int:
        """The bytes of shared memory that large values may take."""
        if self.is_shared:
            return 0  # the workers are threads: there is nobody to share with
        if options.object_store_memory is None:
            return self._host.memory() * 3 // 10
        return int(options.object_store_memory)

    def forsake(self) -> None:
        """In a fork: what was launched is its parent's."""
        self._launcher.forsake()

    def abandon(self) -> Callable[[], None]:
        """Ends everything, where the loop is closed; gives what waits for that."""
        return self._launcher.abandon()

    async def aclose(self) -> None:
        """Ends everything that still runs and leaves nothing."""
        await self._launcher.aclose()


def _look_around(
    host: Host, meanwhile: Callable[[], object] | None
) -> tuple[Detection, ...]:
    if meanwhile is not None:
        meanwhile()
    return discover(host)


def _launcher(
    environ: Mapping[str, str],
    loop: asyncio.AbstractEventLoop,
    options: RuntimeOptions,
) -> TemplateLauncher:
    """The template where forking a clean process is safe, which is Linux."""
    style = style_of(environ, is_shown=options.log_to_driver)
    default = "template" if sys.platform == "linux" else "spawn"
    if (options.start_method or default) == "spawn":
        return SpawnLauncher(loop, style=style)
    return TemplateLauncher(loop, preload=options.preload, style=style)


def _declared(options: RuntimeOptions) -> dict[str, int]:
    """How many devices there are to be, by kind; what is not said is found."""
    said = dict(options.resources or {})
    if options.num_gpus is not None:
        said[GPU.name] = options.num_gpus
    known = {kind.name for kind in (*KINDS.values(), *(f.kind for f in families()))}
    return {name: int(count) for name, count in said.items() if name in known}


def _capacity(host: Host, found: Inventory, options: RuntimeOptions) -> Resources:
    there: dict[str, int] = {
        kind: len(devices) * UNITS for kind, devices in found.devices.items()
    }
    if options.num_cpus is None:
        there[CPU] = host.cpu_count() * UNITS
    if options.memory is None:
        there[MEMORY] = host.memory()
    types = dict.fromkeys(type_names(found.devices), UNITS)
    return Resources.of({**types, **options.capacity.amounts, **there})


def _oom_kills(host: Host) -> int:
    """How often the kernel has killed for lack of memory, where it counts that."""
    counters = host.read_text("/proc/vmstat") or ""
    found = re.search(r"^oom_kill (\d+)$", counters, re.MULTILINE)
    return int(found[1]) if found else 0
