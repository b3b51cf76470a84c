"""The tiers of one runtime, and what they do for its leases.

The tiers are in order (``tiers``), and this module names none of them. Their
availability is determined once, at the start of the runtime, and only where devices are
divisible; elsewhere tiers are made when a request names one, or memory. Each lease is
decided separately, as an actor may request another enforcement than its runtime.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING

from actorlib._enforcement.tiers import (
    INLINE,
    NEVER_REFUSED,
    OFF,
    Enforced,
    Grant,
    Site,
    Tier,
    choose,
    refused,
)
from actorlib._options.kinds import GPU, UNITS
from actorlib._options.resources import GPU_MEMORY
from actorlib._options.shares import ActorShare, DeviceShare
from actorlib.exceptions import ActorUnschedulableError, EnforcementRefused

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence

    from actorlib._base.process_stat import HasPid
    from actorlib._enforcement.gpu_watch import GpuWatch
    from actorlib._enforcement.tiers import Supervised
    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.resources import Resources
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._processes.launcher import WorkerProcess
    from actorlib.accelerators.base import Device, Lease, Share
    from actorlib.accelerators.host import Host
    from actorlib.accelerators.inventory import Inventory


class Enforcement:
    """The enforcement of the shares of one runtime.

    Attributes:
        default: The enforcement of actors that request none, a value of ENFORCEMENTS.
        is_named: Whether the default is a tier.
        made: All tiers, once they are made; else empty.
        gpus: Watches the devices that NVML knows; None if there are none.
        find_worker: Finds a living worker by its process; the owner sets it.
    """

    def __init__(
        self,
        make_tiers: Callable[[Site], Sequence[Tier]],
        site: Site,
        devices: Mapping[str, Sequence[Device]],
    ) -> None:
        self.default: str = site.options.enforcement
        self.is_named = self.default not in NEVER_REFUSED
        self.made: tuple[Tier, ...] = ()
        self.gpus: GpuWatch | None = None
        self.find_worker: Callable[[object], Supervised | None] = lambda _: None
        self._make_tiers = make_tiers
        self._site = site
        self._off = Tier(site)
        self._devices = devices
        self._why_not: dict[Device, dict[Tier, str]] = {}
        self._unfit: dict[tuple[str, str], tuple[tuple[Device, str], ...]] = {}
        self._is_closed = False

    @classmethod
    def open(
        cls,
        make_tiers: Callable[[Site], Sequence[Tier]],
        host: Host,
        inventory: Inventory,
        options: RuntimeOptions,
        path: Sequence[str],
        *,
        is_inline: bool,
    ) -> Enforcement:
        """Determines which tiers are available; blocks.

        Raises:
            EnforcementRefused: The default names a tier that can limit nothing here.
        """
        site, devices = site_of(
            host, inventory, options=options, path=path, is_inline=is_inline
        )
        enforcement = cls(make_tiers, site, devices)
        if site.devices:
            _ = enforcement.tiers  # here, as this may block
        every, default = [*chain(*devices.values())], enforcement.default
        if enforcement.is_named:
            why = enforcement._fault(default, every) if every else ""
            is_available = every and not why
            enforcement._named(default).require(None if is_available else why)
        return enforcement

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """All tiers, the weakest first."""
        self.made = tuple(self._make_tiers(self._site))
        return self.made

    def _named(self, word: str) -> Tier:
        return next(tier for tier in self.tiers if tier.word == word)

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begins to watch the devices that NVML knows, if there are any."""
        site = self._site
        if site.is_inline or site.unlisted or not site.devices:
            return
        from actorlib._enforcement.gpu_watch import GpuWatch  # noqa: PLC0415  # few machines need it
        from actorlib._enforcement.nvml_session import NvmlSession  # noqa: PLC0415

        self.gpus = GpuWatch(loop, partial(NvmlSession, site.host, loop), self._lower)
        for tier in self.tiers:
            tier.attach(self.gpus, lambda process: self.find_worker(process))  # noqa: PLW0108  # it is set later

    def _lower(self, reason: str) -> None:
        """Informs the tiers that the memory of processes is unknown, or some of it."""
        for tier in self.tiers:
            tier.lower(reason)
        self._why_not.clear()
        self._unfit.clear()

    # Refusals.

    def _fault(self, word: str, devices: Sequence[Device]) -> str:
        """Returns why a tier is available for no device; empty if for one it is."""
        tier = self._named(word)
        why = [self.why_not(device)[tier] for device in devices]
        return "; ".join(dict.fromkeys(why)) if all(why) else ""

    def why_not(self, device: Device) -> dict[Tier, str]:
        """Returns by tier why it is unavailable for a device, or nothing."""
        reasons = self._why_not.get(device)
        if reasons is None:
            is_inline = self._site.is_inline
            reasons = self._why_not[device] = {
                tier: INLINE if is_inline else tier.fault(device) for tier in self.tiers
            }
        return reasons

    def unfit(
        self, options: ActorOptions, request: Resources
    ) -> tuple[tuple[Device, str], ...]:
        """Lists the devices that cannot have an actor's enforcement, with reasons.

        Returns:
            Without the kinds of which no device can have it: see ``refusal``.
        """
        word = options.enforcement or self.default
        if word in NEVER_REFUSED:
            return ()
        all_unfit: list[tuple[Device, str]] = []
        for kind in self._shared_kinds(request):
            if (word, kind) not in self._unfit:
                tier, devices = self._named(word), self._devices[kind]
                each = [(device, self.why_not(device)[tier]) for device in devices]
                unfit = tuple((device, why) for device, why in each if why)
                self._unfit[word, kind] = unfit if len(unfit) < len(each) else ()
            all_unfit += self._unfit[word, kind]
        return tuple(all_unfit)

    def _shared_kinds(self, request: Resources) -> list[str]:
        """Lists the kinds of which a request may get a part of a device."""
        amounts = request.amounts
        kinds = {
            GPU.name if name == GPU_MEMORY else name: None
            for name, units in amounts.items()
            if name == GPU_MEMORY or units < UNITS
        }
        return [kind for kind in kinds if self._devices.get(kind)]

    def refusal(
        self, label: str, options: ActorOptions, request: Resources
    ) -> str | None:
        """Returns why no device can have an actor's enforcement, or None."""
        word = options.enforcement or self.default
        if word not in NEVER_REFUSED:
            for kind in self._shared_kinds(request):
                if why := self._fault(word, self._devices[kind]):
                    return refused(label, word, why)
        elif not options.tunes_enforcement:
            return None
        whys = (
            tier.refusal(label, word, options, request.amounts) for tier in self.tiers
        )
        return next(filter(None, whys), None)

    # From the launch of a worker to its end.

    def grant(self, lease: Lease, options: ActorOptions) -> Grant:
        """Decides which tier enforces each share of a lease, and which take part."""
        word = options.enforcement or self.default
        every = tuple(self._chosen(word, share) for share in lease.shares)
        grant = Grant(lease, options, word, every)
        active = [each.tier for each in every if each.tier is not self._off]
        if self._site.is_inline or (word in NEVER_REFUSED and not active):
            return grant
        strongest = max(map(self.tiers.index, active), default=-1)
        tiers = (
            tier
            for place, tier in enumerate(self.tiers)
            if tier.word == word or (tier.is_automatic and place <= strongest)
        )
        return grant._replace(tiers=tuple(tiers))

    def _chosen(self, word: str, share: Share) -> Enforced:
        try:
            return choose(word, share, self.why_not(share.device), self._off)
        except EnforcementRefused as error:  # its actor ends without a process
            return Enforced(self._off, f"{word} cannot be had: {error}")

    def admit(self, label: str, lease: Lease, options: ActorOptions) -> Grant:
        """Prepares the tiers for a worker that is about to be launched.

        Raises:
            ActorUnschedulableError: Its device cannot have its enforcement, although
                other devices can; or a tier has refused it after all.
            OSError: No process can be started.
        """
        grant = self.grant(lease, options)
        word = grant.enforcement
        for share in grant.parts if word not in NEVER_REFUSED else ():
            if why := self.why_not(share.device)[self._named(word)]:
                raise ActorUnschedulableError(
                    f"{refused(label, word, why)}. It was placed on "
                    f"{share.device.kind} {share.device.id}: device= or "
                    "accelerator_type= names others"
                )
        try:
            for tier in grant.tiers:
                tier.admit(label, grant)
        except EnforcementRefused as error:
            raise ActorUnschedulableError(refused(label, word, str(error))) from None
        return grant

    def launched(
        self, process: WorkerProcess, label: str, grant: Grant
    ) -> WorkerProcess:
        """Adds a launched worker; returns its process or a replacement."""
        for tier in grant.tiers:
            process = tier.adopt(process, label, grant)
        if grant.lease.shares:
            self.enter(process, label, grant)
            process.exited.add_done_callback(lambda _: self.left(process))
        return process

    def enter(self, process: HasPid, label: str, grant: Grant) -> None:
        """Begins to watch the devices of a worker that was launched or resumed."""
        if self.gpus is not None and grant.enforcement != OFF:
            is_watched = any(tier.watches_devices for tier in grant.tiers)
            self.gpus.add_worker(process, label, grant.lease, is_watched=is_watched)

    def left(self, process: HasPid) -> None:
        """Begins to drain the devices of a worker that has ended."""
        if self.gpus is not None:
            self.gpus.drain_worker(process)

    # The host's memory, and the user's view.

    def watch_memory(
        self,
        process: WorkerProcess,
        label: Callable[[], str],
        asked: int,
        options: ActorOptions,
    ) -> None:
        """Watches the host's memory of a worker, unless its enforcement is off.

        ``asked`` is the bytes that it requested.
        """
        word = options.enforcement or self.default
        closed = self._is_closed or process.exited.done()
        if self._site.is_inline or word == OFF or closed:
            return
        is_limited = any(tier.holds_memory for tier in self.tiers if tier.word == word)
        for tier in self.tiers:
            tier.watch_memory(process, label, None if is_limited else asked)

    def memory_used(self, process: HasPid | None) -> int | None:
        if process is None:
            return None
        used = (tier.memory_used(process) for tier in self.made)
        return next((nbytes for nbytes in used if nbytes is not None), None)

    def shown(
        self, lease: Lease, options: ActorOptions, environ: Mapping[str, str]
    ) -> ActorShare:
        """Returns the user's view of a lease: its shares, and their tiers.

        ``environ`` is the environment of the worker without the tiers' variables.
        """
        grant = self.grant(lease, options)
        remarks = [*chain(*(tier.remarks(grant, environ) for tier in grant.tiers))]
        return ActorShare(
            devices=tuple(
                DeviceShare(
                    device=share.device.id,
                    kind=share.device.kind,
                    units=share.units / UNITS,
                    nbytes=share.nbytes,
                    enforced_by=tier.word,
                    not_stronger_because="; ".join(
                        filter(None, (why, *(remarks if tier is not self._off else ())))
                    ),
                )
                for share, (tier, why) in zip(lease.shares, grant.enforced, strict=True)
            )
        )

    # The end.

    def stop(self) -> None:
        """Ends all drains and polls: the runtime ends."""
        if self.gpus is not None:
            self.gpus.stop()

    def abandon(self) -> Callable[[], None]:
        """Ends everything that runs beside the loop, because the loop is closed.

        Returns:
            Removes what remains after the end of all workers; blocks.
        """
        if self.gpus is not None:
            self.gpus.abandon()
        removals = [*filter(None, (tier.abandon() for tier in self.made))]

        def remove() -> None:
            with ExitStack() as steps:  # the last one first, each even if others raise
                for removal in reversed(removals):
                    steps.callback(removal)

        return remove

    async def aclose(self) -> None:
        """Closes all tiers, even if closing one raises."""
        self._is_closed = True
        async with AsyncExitStack() as steps:  # the last one first
            for tier in reversed(self.made):
                steps.push_async_callback(tier.aclose)
            if self.gpus is not None:
                steps.push_async_callback(self.gpus.aclose)


def site_of(
    host: Host,
    inventory: Inventory,
    *,
    options: RuntimeOptions | None = None,
    path: Sequence[str] = (),
    is_inline: bool = False,
) -> tuple[Site, dict[str, tuple[Device, ...]]]:
    """Describes where workers run; blocks.

    Returns:
        The site, and its devices by kind.
    """
    devices = divided(inventory)
    every = () if is_inline else tuple(chain(*devices.values()))
    unlisted = ""
    if every:
        from actorlib._enforcement.gpu_watch import processes_fault  # noqa: PLC0415  # few machines need it

        unlisted = processes_fault(host, every)
    site = Site(host, every, unlisted, path, is_inline=is_inline)
    return (site if options is None else site._replace(options=options)), devices


def divided(inventory: Inventory) -> dict[str, tuple[Device, ...]]:
    """Returns the divisible devices, by kind."""
    return {
        kind: devices
        for kind, devices in inventory.devices.items()
        if devices and inventory.kinds[kind].divisible
    }
