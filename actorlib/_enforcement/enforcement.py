"""Makes the shares of one runtime hold, as far as this machine can, and says how far.

It has the tiers in order (``tiers``), and names none of them. What can be had is found
out once, when the runtime starts, and only where there are devices of which a part may
be held; elsewhere tiers are made when somebody asks for one by name, or for memory.
What is decided is decided for each lease, as an actor may ask for something else than
its runtime.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
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
    """Makes the shares of one runtime hold.

    Args:
        make_tiers: Makes all tiers for a site, the weakest first.
        site: Where workers run.
        devices: The devices of the site, by kind.

    Attributes:
        default: What actors have that ask for nothing else, a word of ENFORCEMENTS.
        is_named: Whether that is a tier.
        made: All tiers, once they are made; else empty.
        gpus: Sees to those on devices that NVML knows; None where there are none.
        find_worker: Finds a living worker by its process; set by whoever has them.
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
        self.find_worker: Callable[[object], Supervised | None] = _find_nobody
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
        found: Inventory,
        options: RuntimeOptions,
        path: Sequence[str],
        *,
        is_inline: bool,
    ) -> Enforcement:
        """Finds out what can be had; blocks.

        Args:
            make_tiers: Makes all tiers for a site, the weakest first.
            host: The machine.
            found: What may be granted there.
            options: What the runtime is asked for.
            path: Where workers import from.
            is_inline: Whether they live in this process.

        Raises:
            EnforcementRefused: The default names a tier that can hold nothing here.
        """
        site, devices = site_of(
            host, found, options=options, path=path, is_inline=is_inline
        )
        enforcement = cls(make_tiers, site, devices)
        if site.devices:
            _ = enforcement.tiers  # here, as this may block
        every, default = [*chain(*devices.values())], enforcement.default
        if enforcement.is_named:
            why = enforcement._fault(default, every) if every else ""
            is_there = every and not why
            enforcement._named(default).require(None if is_there else why)
        return enforcement

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """All tiers, the weakest first."""
        self.made = tuple(self._make_tiers(self._site))
        return self.made

    def _named(self, word: str) -> Tier:
        return next(tier for tier in self.tiers if tier.word == word)

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Has workers on devices that NVML knows seen to, if there are any here.

        Args:
            loop: The owner's loop.
        """
        site = self._site
        if site.is_inline or site.unlisted or not site.devices:
            return
        from actorlib._enforcement.gpu_watch import GpuWatch  # noqa: PLC0415  # few machines need it
        from actorlib._enforcement.nvml_session import NvmlSession  # noqa: PLC0415  # likewise

        self.gpus = GpuWatch(loop, partial(NvmlSession, site.host, loop), self._lower)
        for tier in self.tiers:
            tier.attach(self.gpus, lambda process: self.find_worker(process))  # noqa: PLW0108  # it is set later

    def _lower(self, reason: str) -> None:
        """Takes note that memory is not judged any more, or not of all."""
        for tier in self.tiers:
            tier.lower(reason)
        self._why_not.clear()
        self._unfit.clear()

    # Who is refused.

    def _fault(self, asked: str, devices: Sequence[Device]) -> str:
        """Says why none of these devices can have a tier; empty if one can.

        Args:
            asked: Its word.
            devices: One at least.
        """
        tier = self._named(asked)
        why = [self.why_not(device)[tier] for device in devices]
        return "; ".join(dict.fromkeys(why)) if all(why) else ""

    def why_not(self, device: Device) -> dict[Tier, str]:
        """Says of each tier why shares of a device cannot have it, or nothing."""
        found = self._why_not.get(device)
        if found is None:
            is_inline = self._site.is_inline
            found = self._why_not[device] = {
                tier: INLINE if is_inline else tier.fault(device) for tier in self.tiers
            }
        return found

    def unfit(
        self, options: ActorOptions, request: Resources
    ) -> tuple[tuple[Device, str], ...]:
        """Lists the devices that cannot have what an actor asks, each with the reason.

        Args:
            options: What is asked.
            request: How much of which kinds.

        Returns:
            Empty of a kind of which none can: see ``refusal``.
        """
        asked = options.enforcement or self.default
        if asked in NEVER_REFUSED:
            return ()
        found: list[tuple[Device, str]] = []
        for kind in self._shared_kinds(request):
            if (asked, kind) not in self._unfit:
                tier, devices = self._named(asked), self._devices[kind]
                each = [(device, self.why_not(device)[tier]) for device in devices]
                unfit = tuple((device, why) for device, why in each if why)
                self._unfit[asked, kind] = unfit if len(unfit) < len(each) else ()
            found += self._unfit[asked, kind]
        return tuple(found)

    def _shared_kinds(self, request: Resources) -> list[str]:
        """Lists the kinds of devices of one of which a part may be requested."""
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
        """Says why what an actor asks for can be had on no device of its kind.

        Args:
            label: Who asks.
            options: What is asked.
            request: How much of which kinds.
        """
        asked = options.enforcement or self.default
        if asked not in NEVER_REFUSED:
            for kind in self._shared_kinds(request):
                if why := self._fault(asked, self._devices[kind]):
                    return refused(label, asked, why)
        elif not options.tunes_enforcement:
            return None
        whys = (
            tier.refusal(label, asked, options, request.amounts) for tier in self.tiers
        )
        return next(filter(None, whys), None)

    # From the launch of a worker to its end.

    def grant(self, lease: Lease, options: ActorOptions) -> Grant:
        """Decides what makes each share of a lease hold, and what has a part in that.

        Args:
            lease: What is held.
            options: What is asked.
        """
        asked = options.enforcement or self.default
        every = tuple(self._chosen(asked, share) for share in lease.shares)
        grant = Grant(lease, options, asked, every)
        given = [each.tier for each in every if each.tier is not self._off]
        if self._site.is_inline or (asked in NEVER_REFUSED and not given):
            return grant
        strongest = max(map(self.tiers.index, given), default=-1)
        tiers = (
            tier
            for place, tier in enumerate(self.tiers)
            if tier.word == asked or (tier.is_automatic and place <= strongest)
        )
        return grant._replace(tiers=tuple(tiers))

    def _chosen(self, asked: str, share: Share) -> Enforced:
        try:
            return choose(asked, share, self.why_not(share.device), self._off)
        except EnforcementRefused as error:  # its actor ends without a process
            return Enforced(self._off, f"{asked} cannot be had: {error}")

    def admit(self, label: str, lease: Lease, options: ActorOptions) -> Grant:
        """Makes ready for a worker that is about to be launched.

        Args:
            label: What its actor is called.
            lease: What it holds.
            options: What is asked.

        Raises:
            ActorUnschedulableError: Its device cannot have what it asks for, though
                others can; or the tier cannot be had after all.
            OSError: There can be no process.
        """
        grant = self.grant(lease, options)
        asked = grant.asked
        for share in grant.parts if asked not in NEVER_REFUSED else ():
            if why := self.why_not(share.device)[self._named(asked)]:
                raise ActorUnschedulableError(
                    f"{refused(label, asked, why)}. It was placed on "
                    f"{share.device.kind} {share.device.id}: device= or "
                    "accelerator_type= names others"
                )
        try:
            for tier in grant.tiers:
                tier.admit(label, grant)
        except EnforcementRefused as error:
            raise ActorUnschedulableError(refused(label, asked, str(error))) from None
        return grant

    def launched(
        self, process: WorkerProcess, label: str, grant: Grant
    ) -> WorkerProcess:
        """Takes a worker in that was just launched; returns what stands for it.

        Args:
            process: The worker.
            label: What its actor is called.
            grant: What it holds.
        """
        for tier in grant.tiers:
            process = tier.adopt(process, label, grant)
        if grant.lease.shares:
            self.enter(process, label, grant)
            process.exited.add_done_callback(lambda _: self.left(process))
        return process

    def enter(self, process: HasPid, label: str, grant: Grant) -> None:
        """Has the devices of a worker looked at: of a new one, or a resumed one."""
        if self.gpus is not None and grant.asked != OFF:
            is_watched = any(tier.watches_devices for tier in grant.tiers)
            self.gpus.enter(process, label, grant.lease, is_watched=is_watched)

    def left(self, process: HasPid) -> None:
        """Lets a worker go whose process is gone."""
        if self.gpus is not None:
            self.gpus.left(process)

    # The host's memory, and what is shown.

    def watch_memory(
        self,
        process: WorkerProcess,
        label: Callable[[], str],
        asked: int,
        options: ActorOptions,
    ) -> None:
        """Watches the host's memory that a worker has, unless nothing is to hold it.

        Args:
            process: The worker.
            label: Says what it is called in messages.
            asked: Bytes that it asked for.
            options: What is asked besides.
        """
        how = options.enforcement or self.default
        closed = self._is_closed or process.exited.done()
        if self._site.is_inline or how == OFF or closed:
            return
        holds = any(tier.holds_memory for tier in self.tiers if tier.word == how)
        for tier in self.tiers:
            tier.watch_memory(process, label, None if holds else asked)

    def memory_used(self, process: HasPid | None) -> int | None:
        """Says how much of the host's memory a worker had when it was looked at."""
        if process is None:
            return None
        used = (tier.memory_used(process) for tier in self.made)
        return next((nbytes for nbytes in used if nbytes is not None), None)

    def shown(
        self, lease: Lease, options: ActorOptions, environ: Mapping[str, str]
    ) -> ActorShare:
        """Tells a user what is held, and what makes it hold.

        Args:
            lease: What is held.
            options: What is asked.
            environ: What the worker would have otherwise.
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
        """Waits for nothing any more that was on a device: the runtime ends."""
        if self.gpus is not None:
            self.gpus.stop()

    def abandon(self) -> Callable[[], None]:
        """Ends what runs beside the loop, where that is closed.

        Returns:
            Removes what is left when no worker is any more, and blocks.
        """
        if self.gpus is not None:
            self.gpus.abandon()
        removals = [*filter(None, (tier.abandon() for tier in self.made))]

        def remove() -> None:
            for removal in removals:
                removal()

        return remove

    async def aclose(self) -> None:
        """Leaves nothing running, whatever a step raises."""
        self._is_closed = True
        async with AsyncExitStack() as steps:  # the last one first
            for tier in reversed(self.made):
                steps.push_async_callback(tier.aclose)
            if self.gpus is not None:
                steps.push_async_callback(self.gpus.aclose)


def _find_nobody(_: object) -> None:
    """Finds no worker: nobody has any yet."""


def site_of(
    host: Host,
    found: Inventory,
    *,
    options: RuntimeOptions | None = None,
    path: Sequence[str] = (),
    is_inline: bool = False,
) -> tuple[Site, dict[str, tuple[Device, ...]]]:
    """Looks where workers are to run; blocks.

    Args:
        host: The machine.
        found: What may be granted there.
        options: What a runtime is asked for. Default: None, for nothing.
        path: Where workers import from. Default: empty.
        is_inline: Whether they live in this process. Default: False.

    Returns:
        The site, and its devices by kind.
    """
    devices = divided(found)
    every = () if is_inline else tuple(chain(*devices.values()))
    unlisted = ""
    if every:
        from actorlib._enforcement.gpu_watch import processes_fault  # noqa: PLC0415  # few machines need it

        unlisted = processes_fault(host, every)
    site = Site(host, every, unlisted, path, is_inline=is_inline)
    return (site if options is None else site._replace(options=options)), devices


def divided(found: Inventory) -> dict[str, tuple[Device, ...]]:
    """Returns the devices of which a part may be held, by kind.

    Args:
        found: What may be granted.
    """
    return {
        kind: devices
        for kind, devices in found.devices.items()
        if devices and found.kinds[kind].divisible
    }
