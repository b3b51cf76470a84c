"""Makes the shares of one runtime hold, as far as this machine can, and says how far.

What can be had is found out once, when the runtime starts, and only where there are
devices of which a part may be held. What is decided (``tiers``, ``frameworks``) is
decided anew for each lease, as an actor may ask for something else than its runtime.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from actorlib._core.kinds import GPU, UNITS
from actorlib._core.log import warn
from actorlib._core.resources import CPU, GPU_MEMORY, MEMORY
from actorlib._core.shares import ActorShare, DeviceShare
from actorlib._enforcement.tiers import (
    CGROUP,
    NEVER_REFUSED,
    OFF,
    Enforced,
    Facts,
    Tier,
    choose,
)
from actorlib.accelerators.base import Share
from actorlib.exceptions import ActorUnschedulableError, EnforcementRefused

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from actorlib._core.actor_options import ActorOptions
    from actorlib._core.process_stat import HasPid
    from actorlib._core.resources import Resources
    from actorlib._enforcement.frameworks import Limits, Packages
    from actorlib._enforcement.gpu_watch import GpuWatch
    from actorlib._enforcement.host_cgroups import HostCgroups
    from actorlib.accelerators.base import Device, Lease
    from actorlib.accelerators.host import Host
    from actorlib.accelerators.inventory import Inventory

INLINE = "inline actors are threads of this process, which has one limit for all"


class Enforcement:
    """Makes the shares of one runtime hold.

    Args:
        default: What actors have that ask for nothing else, a word of ENFORCEMENTS.
        facts: What can be done here.
        packages: What is installed; None where no part of a device may be held.
        devices: Those of which a part may be held, by kind.
        host: The machine, if workers are processes there. Default: None, if not.

    Attributes:
        default: As given.
        facts: As given.
        gpus: Sees to those on devices that NVML knows; None where there are none.
        cgroups: The cgroups that hold workers to what they ask for, once somebody has
            asked for them; else None.
    """

    def __init__(
        self,
        default: str,
        facts: Facts,
        packages: Packages | None,
        devices: Mapping[str, Sequence[Device]],
        host: Host | None = None,
    ) -> None:
        self.default = default
        self.facts = facts
        self._packages = packages
        self._devices = devices
        self._unfit: dict[tuple[str, str], tuple[tuple[Device, str], ...]] = {}
        self.gpus: GpuWatch | None = None
        self.cgroups: HostCgroups | None = None
        self._host = host

    @classmethod
    def open(
        cls,
        host: Host,
        found: Inventory,
        default: str,
        path: Iterable[str],
        *,
        is_inline: bool,
    ) -> Enforcement:
        """Finds out what can be had; blocks.

        Args:
            host: The machine.
            found: What may be granted there.
            default: What actors have that ask for nothing else.
            path: Where workers import from.
            is_inline: Whether they live in this process.

        Raises:
            EnforcementRefused: The default names a tier that no device here can have;
                nor, if that is cgroups, the host's memory or CPUs.
        """
        devices = divided(found)
        workers = None if is_inline else host
        if not devices:
            made = cls(default, Facts(), None, devices, workers)
            if default == CGROUP:
                made.require_cgroups("")
            return made
        packages = None if is_inline else find_packages(host, path)
        every = [device for listed in devices.values() for device in listed]
        facts = find_facts(host, every, is_inline=is_inline)
        made = cls(default, facts, packages, devices, workers)
        why = made.fault(default, every)
        if why and default == CGROUP:
            made.require_cgroups(why)
        elif why:
            raise EnforcementRefused(
                f"init(enforcement={default!r}): no device here can have that. {why}. "
                "Leave it out for what can be had"
            )
        return made

    def require_cgroups(self, why: str) -> None:
        """Has the host's memory and CPUs held by cgroups, if that can be; blocks.

        Args:
            why: Why no device can be; empty if there are none.

        Raises:
            EnforcementRefused: Neither memory nor CPUs can be.
        """
        faults = [self.host_fault({name: 1}) for name in (MEMORY, CPU)]
        if not all(faults):
            self.host_cgroups().open()
            return
        whys = [f"devices: {why}"] if why else []
        whys.append(f"the host's memory and CPUs: {faults[0]}")
        raise EnforcementRefused(
            f"init(enforcement='cgroup') cannot be had here: {'; '.join(whys)}. Leave "
            "it out for what can be had"
        )

    def host_cgroups(self) -> HostCgroups:
        """Returns the cgroups of workers that are processes here."""
        if self.cgroups is None:
            from actorlib._enforcement.host_cgroups import HostCgroups  # noqa: PLC0415  # few ask for it

            assert self._host is not None  # what is inline was refused
            self.cgroups = HostCgroups(self._host)
        return self.cgroups

    def host_fault(self, amounts: Mapping[str, int]) -> str:
        """Says why cgroups cannot hold a worker to what it asks of the host.

        Args:
            amounts: What it asks for; empty is always had.
        """
        if not (amounts.get(MEMORY) or amounts.get(CPU)):
            return ""
        return INLINE if self._host is None else self.host_cgroups().fault(amounts)

    def watch(self, loop: asyncio.AbstractEventLoop, host: Host) -> None:
        """Has workers on devices that NVML knows seen to, if there are any here.

        Args:
            loop: The owner's loop.
            host: The machine.
        """
        if self.facts.workers or self.facts.processes or not self._devices:
            return
        from actorlib._enforcement.gpu_watch import GpuWatch  # noqa: PLC0415  # few machines need it
        from actorlib._enforcement.nvml_session import NvmlSession  # noqa: PLC0415  # likewise

        self.gpus = GpuWatch(loop, partial(NvmlSession, host, loop), self._lower)

    def _lower(self, reason: str) -> None:
        """Takes note that memory is not judged any more, or not of all."""
        self.facts = self.facts._replace(processes=reason)
        self._unfit.clear()
        warn(
            "shares of NVIDIA devices fall from enforcement by watchdog to frameworks: "
            "%s",
            reason,
        )

    def fault(self, asked: str, devices: Sequence[Device]) -> str:
        """Says why none of these devices can have what is asked; empty if one can.

        Args:
            asked: A word of ENFORCEMENTS.
            devices: One at least.
        """
        why = [self._reason(asked, device) for device in devices]
        return "; ".join(dict.fromkeys(why)) if all(why) else ""

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
                devices = self._devices[kind]
                each = [(device, self._reason(asked, device)) for device in devices]
                unfit = tuple((device, why) for device, why in each if why)
                self._unfit[asked, kind] = unfit if len(unfit) < len(each) else ()
            found += self._unfit[asked, kind]
        return tuple(found)

    def _reason(self, asked: str, device: Device) -> str:
        """Says why shares of a device cannot have what is asked; empty if they can."""
        try:
            choose(asked, Share(device, UNITS // 2), self.facts)
        except EnforcementRefused as error:
            return str(error)
        return ""

    def _shared_kinds(self, request: Resources) -> list[str]:
        """Lists the kinds of devices of one of which a part may be requested."""
        amounts = request.amounts
        kinds = {
            GPU.name if name == GPU_MEMORY else name: None
            for name, units in amounts.items()
            if name == GPU_MEMORY or units < UNITS
        }
        return [kind for kind in kinds if self._devices.get(kind)]

    def mps_share(self, lease: Lease, options: ActorOptions) -> Share | None:
        """Gives the share that is to hold by MPS, if one is.

        Args:
            lease: What is held: of NVIDIA's GPUs, at most one in part.
            options: What is asked.
        """
        if (options.enforcement or self.default) != Tier.MPS.word:
            return None
        return next((share for share in lease.shares if share.units < UNITS), None)

    def cgroup_shares(self, lease: Lease, options: ActorOptions) -> tuple[Share, ...]:
        """Gives the shares that are to hold by cgroup.

        Args:
            lease: What is held.
            options: What is asked.
        """
        if (options.enforcement or self.default) != CGROUP:
            return ()
        return tuple(share for share in lease.shares if share.units < UNITS)

    def refusal(
        self, label: str, options: ActorOptions, request: Resources
    ) -> str | None:
        """Says why what an actor asks for can be had on no device of its kind.

        Args:
            label: Who asks.
            options: What is asked.
            request: How much of which kinds.
        """
        asked, percentage = (
            options.enforcement or self.default,
            options.mps_thread_percentage,
        )
        if percentage is not None and asked != Tier.MPS.word:
            return (
                f"{label} asks mps_thread_percentage={percentage}, a limit of MPS, and "
                f"its enforcement is {asked!r}, as the runtime's is: add "
                "enforcement='mps'"
            )
        for kind in self._shared_kinds(request):
            if why := self.fault(asked, self._devices[kind]):
                return _refused(label, asked, why)
        if asked == CGROUP and (why := self.host_fault(request.amounts)):
            return _refused(label, asked, f"the host's memory and CPUs: {why}")
        return None

    def check(self, label: str, lease: Lease, options: ActorOptions) -> None:
        """Refuses a lease on devices that cannot have what the actor asks.

        Args:
            label: Who holds it.
            lease: What is held.
            options: What is asked.

        Raises:
            ActorUnschedulableError: Its device cannot have that, though others can; or
                the kernel refuses cgroups.
        """
        asked = options.enforcement or self.default
        if asked == CGROUP and self._host is not None:
            try:
                self.host_cgroups().open()
            except EnforcementRefused as error:
                raise ActorUnschedulableError(
                    _refused(label, asked, str(error))
                ) from None
        percentage = options.mps_thread_percentage
        if percentage is not None and self.mps_share(lease, options) is None:
            raise ActorUnschedulableError(
                f"{label} asks mps_thread_percentage={percentage}, and its gpu_memory "
                "is a whole GPU here, of which it has all: leave "
                "mps_thread_percentage out, or ask for less memory"
            )
        for share in lease.shares:
            try:
                choose(asked, share, self.facts)
            except EnforcementRefused as error:
                raise ActorUnschedulableError(
                    f"{_refused(label, asked, str(error))}. It was placed on "
                    f"{share.device.kind} {share.device.id}: device= or "
                    "accelerator_type= names others"
                ) from None

    def of(self, lease: Lease, options: ActorOptions) -> tuple[Enforced, ...]:
        """Says of each share of a lease what makes it hold.

        Args:
            lease: What is held.
            options: What is asked.
        """
        asked, percentage = (
            options.enforcement or self.default,
            options.mps_thread_percentage,
        )
        return tuple(self._chosen(asked, s, percentage) for s in lease.shares)

    def limits(
        self, lease: Lease, options: ActorOptions, environ: Mapping[str, str]
    ) -> Limits | None:
        """Says what frameworks are to be told in the worker that holds a lease.

        Args:
            lease: What is held.
            options: What is asked.
            environ: What the worker would have otherwise, the user's own words.

        Returns:
            None if it holds no part of a device.
        """
        return self._limits(lease, self.of(lease, options), environ)

    def _limits(
        self, lease: Lease, enforced: Iterable[Enforced], environ: Mapping[str, str]
    ) -> Limits | None:
        if self._packages is None or all(s.units >= UNITS for s in lease.shares):
            return None
        from actorlib._enforcement.frameworks import limits  # noqa: PLC0415  # many share no device

        tiers = [one.tier for one in enforced]
        return limits(
            list(zip(lease.shares, tiers, strict=True)), environ, self._packages
        )

    def shown(
        self, lease: Lease, options: ActorOptions, environ: Mapping[str, str]
    ) -> ActorShare:
        """Tells a user what is held, and what makes it hold.

        Args:
            lease: What is held.
            options: What is asked.
            environ: What the worker would have otherwise.
        """
        every = self.of(lease, options)  # each is thought about for some microseconds
        limits = self._limits(lease, every, environ)
        remarks = () if limits is None else limits.remarks
        return ActorShare(
            devices=tuple(
                DeviceShare(
                    device=share.device.id,
                    kind=share.device.kind,
                    units=share.units / UNITS,
                    nbytes=share.nbytes,
                    enforced_by=enforced.tier.word,
                    not_stronger_because="; ".join(
                        filter(
                            None,
                            (
                                enforced.not_stronger_because,
                                *(remarks if enforced.tier is not Tier.OFF else ()),
                            ),
                        )
                    ),
                )
                for share, enforced in zip(lease.shares, every, strict=True)
            )
        )

    def entered(
        self, process: HasPid, label: str, lease: Lease, options: ActorOptions
    ) -> None:
        """Takes a worker in that was just launched and holds devices."""
        if self.gpus is not None and (options.enforcement or self.default) != OFF:
            tiers = [enforced.tier for enforced in self.of(lease, options)]
            is_watched = max(tiers, default=Tier.OFF) >= Tier.WATCHDOG
            self.gpus.enter(process, label, lease, is_watched=is_watched)

    def left(self, process: HasPid) -> None:
        """Lets a worker go whose process is gone."""
        if self.gpus is not None:
            self.gpus.left(process)

    def stop(self) -> None:
        """Waits for nothing any more that was on a device: the runtime ends."""
        if self.gpus is not None:
            self.gpus.stop()

    def abandon(self) -> Callable[[], None] | None:
        """Ends what runs beside the loop, where that is closed.

        Returns:
            Removes what is left when no worker is any more, and blocks; None if there
            is nothing.
        """
        if self.gpus is not None:
            self.gpus.abandon()
        return None if self.cgroups is None else self.cgroups.abandon()

    async def aclose(self) -> None:
        """Leaves nothing running."""
        try:
            if self.gpus is not None:
                await self.gpus.aclose()
        finally:
            if self.cgroups is not None:
                await self.cgroups.aclose()

    def _chosen(self, asked: str, share: Share, percentage: int | None) -> Enforced:
        try:
            return choose(asked, share, self.facts, percentage)
        except EnforcementRefused as error:  # its actor ends without a process
            return Enforced(Tier.OFF, f"{asked} cannot be had: {error}")


def find_facts(
    host: Host, devices: Iterable[Device], *, is_inline: bool = False
) -> Facts:
    """Finds out what can be done here.

    Args:
        host: The machine.
        devices: Those of which a part may be held.
        is_inline: Whether workers live in this process. Default: False.
    """
    if is_inline:
        return Facts(workers=INLINE)
    from actorlib._enforcement.mps import mps_fault  # noqa: PLC0415  # many share no device

    found = [device for device in devices if device.source == "NVML"]
    if not found:
        nothing = "NVML has found no device here"
        return Facts(processes=nothing, mps=mps_fault(host), device_cgroup=nothing)
    from actorlib._enforcement.device_cgroups import device_cgroup_fault  # noqa: PLC0415  # few machines need it
    from actorlib._enforcement.gpu_watch import processes_fault  # noqa: PLC0415  # few machines need it

    mps, mps_on = mps_fault(host), dict[str, str]()
    if not mps:
        from actorlib._enforcement.compute_modes import gpus_without_mps  # noqa: PLC0415  # few machines need it

        mps_on = gpus_without_mps(host, found)
    return Facts(
        processes=processes_fault(host, found),
        mps=mps,
        mps_on=mps_on,
        device_cgroup=device_cgroup_fault(host),
    )


def find_packages(host: Host, path: Iterable[str]) -> Packages:
    """Looks where workers import from, and imports nothing.

    Args:
        host: The machine.
        path: Folders in the order of ``sys.path``.
    """
    from actorlib._enforcement.frameworks import KNOWS_OPTION, Packages  # noqa: PLC0415  # many share no device

    for folder in path:
        if not folder.startswith("/"):  # it depends on where a worker is
            continue
        for place in host.glob(f"{folder}/torch-*.dist-info"):
            release = re.match(r"torch-(\d+)\.(\d+)", place.rpartition("/")[2])
            if release is not None:
                number = int(release[1]), int(release[2])
                has_cuda = bool(host.glob(f"{folder}/torch/lib/libtorch_cuda.so"))
                return Packages(torch_reads_option=has_cuda and number >= KNOWS_OPTION)
    return Packages()


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


def _refused(label: str, asked: str, why: str) -> str:
    return (
        f"{label} asks enforcement={asked!r}, which cannot be had: {why}. "
        "enforcement='auto' takes what can be had"
    )
