"""The tier ``"cgroup"``: limits all processes of an actor to its request by a cgroup.

It limits memory and CPUs of the host (``host_cgroups``), and the memory of devices
where the driver limits that by cgroup (``device_cgroups``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from actorlib._core.engine import override
from actorlib._enforcement.tiers import INLINE, Settings, Tier, nvidia_fault, refused
from actorlib._features.cgroup.host_cgroups import HostCgroups
from actorlib._options.resources import CPU, MEMORY
from actorlib.exceptions import EnforcementRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from actorlib._enforcement.tiers import Grant, Site
    from actorlib._options.actor_options import ActorOptions
    from actorlib._processes.launcher import WorkerProcess
    from actorlib.accelerators.base import Device


@final
class Cgroups(Tier):
    """The tier ``"cgroup"``."""

    word = "cgroup"
    shows_share = True
    holds_memory = True

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._cgroups = HostCgroups(site.host)
        self._fault = "NVML has found no device here"
        if any(device.source == "NVML" for device in site.devices):
            from actorlib._features.cgroup.device_cgroups import device_cgroup_fault  # noqa: PLC0415  # few machines need it

            self._fault = device_cgroup_fault(site.host)

    # Availability.

    @override
    def fault(self, device: Device) -> str:
        return nvidia_fault(device, self._fault, is_by_card=True)

    @override
    def require(self, why: str | None) -> None:
        if why is None:
            return
        faults = [self._host_fault({name: 1}) for name in (MEMORY, CPU)]
        if not all(faults):
            self._cgroups.open()
            return
        whys = [f"devices: {why}"] if why else []
        whys.append(f"the host's memory and CPUs: {faults[0]}")
        raise EnforcementRefused(
            f"init(enforcement='cgroup') cannot be had here: {'; '.join(whys)}. Leave "
            "it out for what can be had"
        )

    @override
    def refusal(
        self, label: str, asked: str, options: ActorOptions, amounts: Mapping[str, int]
    ) -> str:
        if asked != self.word or not (why := self._host_fault(amounts)):
            return ""
        return refused(label, asked, f"the host's memory and CPUs: {why}")

    def _host_fault(self, amounts: Mapping[str, int]) -> str:
        """Returns why memory and CPUs of the host cannot be limited, or nothing."""
        if not (amounts.get(MEMORY) or amounts.get(CPU)):
            return ""
        return INLINE if self.site.is_inline else self._cgroups.fault(amounts)

    @override
    def examine(self) -> Iterable[tuple[str, str]]:
        delegation = self._cgroups.delegation
        whys = dict.fromkeys(why for why in delegation.faults.values() if why)
        if whys:
            yield (
                f"enforcement='cgroup' cannot be had: {'; '.join(whys)}",
                "Without it memory= and num_cpus= of actors are booked and watched, "
                "but not enforced by the kernel",
            )
        else:
            yield f"the kernel can hold actors to limits, below {delegation.base}", ""

    # Workers.

    @override
    def admit(self, label: str, grant: Grant) -> None:
        self._cgroups.open()

    @override
    def settings(
        self,
        number: int,
        grant: Grant,
        own: Mapping[str, str],
        environ: Mapping[str, str],
    ) -> Settings:
        return Settings(entry=self._cgroups.plan(number, grant.lease.amounts))

    @override
    def limit(
        self, number: int, process: WorkerProcess, grant: Grant
    ) -> Coroutine[Any, Any, None] | None:
        if not grant.parts:
            return None
        return self._cgroups.limit_devices(number, grant.parts, process.exited)

    @override
    def ended(self, number: int) -> int:
        return self._cgroups.remove(number)

    @override
    def abandon(self) -> Callable[[], None]:
        return self._cgroups.abandon()

    @override
    async def aclose(self) -> None:
        await self._cgroups.aclose()
