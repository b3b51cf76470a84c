"""The machine of a runtime: its resources, devices and processes."""

from __future__ import annotations

import asyncio
import hashlib
import platform
import time
from contextlib import AsyncExitStack, ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

from actorlib._base.import_path import import_path
from actorlib._base.log import warn
from actorlib._enforcement.caps import thread_caps
from actorlib._enforcement.enforcement import Enforcement
from actorlib._enforcement.host_memory import memory_usage
from actorlib._enforcement.tiers import INLINE
from actorlib._loops.fork_copies import close_in_forks
from actorlib._options.kinds import GPU, KINDS, UNITS
from actorlib._options.resources import CPU, MEMORY, Resources, bytes_of
from actorlib._options.runtime_env import variables_of
from actorlib._owner.teardown import tear_down
from actorlib._scheduler.catalogue import type_names
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
from actorlib.accelerators.claims import DeviceClaims, describe_claims
from actorlib.accelerators.host import oom_kills

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actorlib._enforcement.checkpoints import Checkpoints
    from actorlib._enforcement.tiers import Site, Tier
    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._options.shares import ActorShare
    from actorlib._owner.device_use import ExclusiveUse, SharedUse
    from actorlib._processes.launcher import Launcher, WorkerProcess
    from actorlib.accelerators import Device

HIDE_SWITCH = "ACTORLIB_HIDE_DEVICES"
_CROWDED = 0.95
"""The part of the memory in use from which on idle workers are ended."""
_LOOK_INTERVAL = 1.0
"""Seconds between two reads of the kernel's counter that only prepare later ones."""


class LocalNode:
    """The resources of a machine, and its launcher of processes.

    Args:
        host: Reads the state of the machine.
        inventory: The devices that may be granted, and the reasons for the others.
        capacity: Everything that may be granted, devices included.
        launcher: Starts workers.
        claims: Claims the devices for other programs to see.
        enforcement: Enforces shares of the devices.
        use: The use of devices among other programs; None if there are no others.

    Attributes:
        host: As given.
        id: The id of the machine, in hex.
    """

    def __init__(
        self,
        host: Host,
        inventory: Inventory,
        capacity: Resources,
        launcher: Launcher,
        claims: DeviceClaims,
        enforcement: Enforcement,
        use: SharedUse | ExclusiveUse | None = None,
    ) -> None:
        self.use = use
        self.inventory = inventory
        self.capacity = capacity
        self.enforcement = enforcement
        self.id = hashlib.blake2b(platform.node().encode(), digest_size=16).hexdigest()
        self.host = host
        self._launcher = launcher
        self._claims = claims
        self._oom_kills = _oom_kills(host)
        self._next_look = 0.0

    @classmethod
    async def open(
        cls,
        options: RuntimeOptions,
        launcher: Launcher,
        make_tiers: Callable[[Site], Sequence[Tier]],
        meanwhile: Callable[[], object] | None = None,
    ) -> LocalNode:
        """Detects the devices and prepares the launcher.

        Args:
            options: The declared resources, and how workers are started.
            launcher: Starts workers; closed if this fails.
            make_tiers: Creates the tiers that enforce shares, the weakest first.
            meanwhile: Called in another thread while the template starts.

        Raises:
            ValueError: More is declared than the owner may see, or than is free.
            EnforcementRefused: No device can have the requested enforcement.
            TimeoutError: Another program keeps choosing free devices.
            TemplateError: Workers cannot be started.
        """
        host = Host()
        claims = DeviceClaims(host)
        close_in_forks(claims, DeviceClaims.release)
        starting = asyncio.get_running_loop().create_task(launcher.start())
        try:
            grantable, enforcement = await asyncio.to_thread(
                _detect,
                host,
                claims,
                options,
                make_tiers,
                meanwhile,
                is_inline=launcher.environment is None,
            )
            capacity = _capacity(host, grantable, options)
            await starting
            loop = asyncio.get_running_loop()
            enforcement.watch(loop)
            use = _device_use(host, grantable, options, launcher, loop)
        except BaseException:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            claims.release()
            await launcher.aclose()
            raise
        return cls(host, grantable, capacity, launcher, claims, enforcement, use)

    @property
    def is_shared(self) -> bool:
        """Whether workers are threads of this process."""
        return self._launcher.environment is None

    def launch(self, name: str, lease: Lease) -> WorkerProcess:
        """Starts a worker that will use the lease.

        Raises:
            TemplateError: It cannot be started.
            OSError: This process is out of descriptors.
        """
        return self._launcher.launch(name, has_devices=bool(lease.shares))

    def may_limit(self, lease: Lease, options: ActorOptions) -> bool:
        """Whether the worker of a lease may have to be limited."""
        return bool(
            lease.shares
            or lease.amounts.get(MEMORY)
            or options.enforcement
            or self.enforcement.is_named
        )

    def settings(
        self, number: int, lease: Lease, options: ActorOptions
    ) -> tuple[dict[str, str | None], dict[str, object]]:
        """Returns the settings of a worker before it imports the user's code.

        Returns:
            Its variables, and the entries of features.
        """
        of_launcher = self._launcher.environment
        if of_launcher is None:
            return {}, {}
        environ = self.host.environ
        own = _own_variables(options, environ)
        # A copy of the environment takes as long as the rest of a placement's options.
        combined = {**environ, **own} if own else environ
        hide = options.accelerators != "inherit"
        if options.accelerators is None:
            hide = environ.get(HIDE_SWITCH, "1").lower() not in ("0", "false")
        variables: dict[str, str | None] = {
            **of_launcher,
            **thread_caps(lease.amounts.get(CPU, 0), combined),
            **environment(lease, self.inventory, hide=hide, environ=environ),
            **own,  # the user's values override all others
        }
        if not self.may_limit(lease, options):
            return variables, {}
        grant = self.enforcement.grant(lease, options)
        entries: dict[str, object] = {}
        for tier in grant.tiers:
            # The tier sees the user's values in ``combined``.
            settings = tier.settings(number, grant, own, combined)
            variables |= settings.variables
            if settings.entry is not None:
                entries[tier.word] = settings.entry
        return variables, entries

    def environ(self) -> dict[str, str]:
        """Copies the environment: each access to the original is slow."""
        return dict(self.host.environ)

    def share(
        self, lease: Lease, options: ActorOptions, environ: Mapping[str, str]
    ) -> ActorShare:
        """Describes the devices of a lease, and how the shares are enforced.

        ``environ`` is the environment of this process.
        """
        own = _own_variables(options, environ)
        return self.enforcement.shown(
            lease, options, {**environ, **own} if own else environ
        )

    def mask(
        self, lease: Lease, options: ActorOptions, environ: Mapping[str, str]
    ) -> str | None:
        """Returns the visibility variable of a worker with this lease.

        ``environ`` is the environment of this process.
        """
        if self.is_shared:
            return None
        own = _own_variables(options, environ)
        # Hiding other families does not change the variables of the granted ones.
        variables = environment(lease, self.inventory, hide=False, environ=environ)
        grant = self.enforcement.grant(lease, options)
        for tier in grant.tiers:
            variables |= tier.visible(grant)
        variables |= own
        granted = {share.device.family for share in lease.shares}
        masks = [
            variables.get(family.visible_env)
            for family in self.inventory.families
            if family.family in granted
        ]
        return next(iter(masks), None)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """Saves and restores the device state of worker processes by the driver."""
        from actorlib._enforcement.checkpoints import Checkpoints  # noqa: PLC0415  # rarely used

        return Checkpoints(self.host.environ)

    def checkpoint_fault(self, lease: Lease, options: ActorOptions) -> str:
        """Returns why a worker's process cannot be checkpointed.

        Returns:
            Empty if it can be, judged without the driver.
        """
        if self.is_shared:
            return INLINE
        if options.torch:
            return (
                "it is a rank of torch.distributed, and the other ranks would wait for "
                "it"
            )
        grant = self.enforcement.grant(lease, options)
        for tier in grant.tiers:
            if fault := tier.checkpoint_fault(grant):
                return fault
        from actorlib._enforcement.checkpoints import lease_fault  # noqa: PLC0415  # rarely used

        return lease_fault(lease, self.host.system)

    def accelerator_ids(
        self, lease: Lease, options: ActorOptions
    ) -> dict[str, list[int | str]]:
        """Returns the ids of a lease's devices by kind, as users see them."""
        if not (lease.shares or options.runtime_env):
            return {kind: [] for kind in self.inventory.devices}
        own = _own_variables(options, self.host.environ)
        return accelerator_ids(lease, self.inventory, own)

    def is_memory_short(self) -> bool:
        """Whether the kernel has killed for lack of memory since the last call."""
        before, self._oom_kills = self._oom_kills, _oom_kills(self.host)
        self._next_look = time.monotonic() + _LOOK_INTERVAL
        return self._oom_kills > before

    def note_memory_kills(self) -> None:
        """Reads the counter as ``is_memory_short`` does, for ends that need no reason.

        So kills before such an end are not the reason of a later end. But there can be
        hundreds of these ends, and a read takes 50 us: at most one in a second.
        """
        if time.monotonic() >= self._next_look:
            self.is_memory_short()

    @property
    def parallel(self) -> int:
        """The useful number of workers without a slot."""
        return max(2, self.capacity.amounts.get(CPU, 0) // UNITS)

    def has_little_memory(self) -> bool:
        """Whether less than a twentieth of the memory is available."""
        usage = memory_usage(self.host)
        return usage is not None and usage.fraction > _CROWDED

    def shareable(self, options: RuntimeOptions) -> int:
        """Returns the maximum of shared memory for large values, in bytes."""
        if self.is_shared:
            return 0  # the workers are threads: they need no shared memory
        if options.object_store_memory is None:
            return self.host.memory() * 3 // 10
        return bytes_of("object_store_memory", options.object_store_memory)

    def show_output(self) -> None:
        """Shows all output of workers so far; see Launcher."""
        self._launcher.show_output()

    def abandon(self) -> Callable[[], None]:
        """Ends everything when the loop is already closed.

        Returns:
            A function that blocks until everything has ended.
        """
        wait, remove_rest = self._launcher.abandon(), self.enforcement.abandon()

        def wait_for_all() -> None:
            tear_down(self, wait, remove_rest, self._release_devices)

        return wait_for_all

    def _release_devices(self) -> None:
        with ExitStack() as steps:
            if self.use is not None:
                steps.callback(self.use.close)
            steps.callback(self._claims.release)

    async def aclose(self) -> None:
        """Ends all processes, the enforcement and the claims."""
        # The last one first, each even if others raise. The devices are not free until
        # the workers have ended.
        async with AsyncExitStack() as steps:
            steps.callback(self._release_devices)
            steps.push_async_callback(self.enforcement.aclose)
            steps.push_async_callback(self._launcher.aclose)


def _own_variables(options: ActorOptions, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that the user has set for a worker."""
    env = options.runtime_env
    return variables_of(env, environ) if env else {}


def _detect(
    host: Host,
    claims: DeviceClaims,
    options: RuntimeOptions,
    make_tiers: Callable[[Site], Sequence[Tier]],
    meanwhile: Callable[[], object] | None,
    *,
    is_inline: bool,
) -> tuple[Inventory, Enforcement]:
    """Detects the devices that may be granted, and the enforcement of shares."""
    if meanwhile is not None:
        meanwhile()
    grantable = _inventory(host, claims, options)
    return grantable, Enforcement.open(
        make_tiers, host, grantable, options, import_path(), is_inline=is_inline
    )


def _inventory(host: Host, claims: DeviceClaims, options: RuntimeOptions) -> Inventory:
    """Detects and claims the devices that may be granted."""
    detections = discover(host)
    every = [device for detection in detections for device in detection.devices]
    declared, form = _declared(options), options.mask_form
    memory = options.memory_of_devices
    if options.devices == "free" and every:
        with claims.choosing():
            claimed = claims.claimants(every)
            grantable = inventory(
                detections,
                declared,
                mask_form=form,
                claimed=claimed,
                device_memory=memory,
            )
            claims.claim(_physical(grantable))
        if claimed:
            warn(
                "devices='free' excludes devices of other runtimes of this user: %s",
                describe_claims(claimed),
            )
        return grantable
    grantable = inventory(detections, declared, mask_form=form, device_memory=memory)
    claims.claim(_physical(grantable))
    return grantable


def _device_use(
    host: Host,
    grantable: Inventory,
    options: RuntimeOptions,
    launcher: Launcher,
    loop: asyncio.AbstractEventLoop,
) -> SharedUse | ExclusiveUse | None:
    """Creates the use of devices; None if no other program can have them."""
    is_exclusive = options.devices == "exclusive"
    if not (is_exclusive or _physical(grantable)):
        return None
    from actorlib._owner.device_use import ExclusiveUse, SharedUse  # noqa: PLC0415  # not on every machine
    from actorlib.accelerators.device_users import DeviceUsers  # noqa: PLC0415  # the same

    users = DeviceUsers(host)
    if users.sockets is None:
        return None
    if is_exclusive:
        return ExclusiveUse(users, users.sockets, loop, launcher.keep_open)
    return SharedUse(users, loop, launcher.keep_open)


def _physical(grantable: Inventory) -> list[Device]:
    return [
        device
        for devices in grantable.devices.values()
        for device in devices
        if not device.logical
    ]


def _declared(options: RuntimeOptions) -> dict[str, int]:
    """Returns the declared number of devices by kind; other kinds are detected."""
    counts = dict(options.resources or {})
    if options.num_gpus is not None:
        counts[GPU.name] = options.num_gpus
    kinds = {kind.name for kind in (*KINDS.values(), *(f.kind for f in families()))}
    return {name: int(count) for name, count in counts.items() if name in kinds}


def _capacity(host: Host, grantable: Inventory, options: RuntimeOptions) -> Resources:
    amounts: dict[str, int] = {
        kind: len(devices) * UNITS for kind, devices in grantable.devices.items()
    }
    if options.num_cpus is None:
        amounts[CPU] = host.cpu_count() * UNITS
    if options.memory is None:
        amounts[MEMORY] = host.memory()
    types = dict.fromkeys(type_names(grantable.devices), UNITS)
    return Resources.of({**types, **options.capacity.amounts, **amounts})


def _oom_kills(host: Host) -> int:
    return oom_kills(host.read_text("/proc/vmstat") or "")
