"""Who gets which share of a machine, and who waits for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from actorlib._core.resources import counted
from actorlib._core.snapshot import DemandInfo
from actorlib._scheduler.admission import Admission
from actorlib._scheduler.catalogue import Catalogue
from actorlib._scheduler.ledger import Ledger

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Mapping, Sequence

    from actorlib._core.kinds import Kind
    from actorlib._core.resources import Resources
    from actorlib.accelerators.base import Device


@final
class Scheduler:
    """Grants shares of what a machine has, in the order in which they were asked for.

    Args:
        capacity: Everything that may be granted, devices included.
        devices: The devices that may be granted, by kind.
        kinds: Those kinds, by name.
        declared: The names of what the user says there is.
        loop: The owner's loop.

    Attributes:
        catalogue: What the types and devices of the machine are called.
        ledger: Who holds what.
        admission: Who waits for what.
    """

    def __init__(
        self,
        capacity: Resources,
        devices: Mapping[str, Sequence[Device]],
        kinds: Mapping[str, Kind],
        declared: Collection[str],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.catalogue = Catalogue(devices, declared)
        self.ledger = Ledger(capacity, devices, kinds)
        self.admission = Admission(self.ledger, loop)

    def demands(self) -> list[DemandInfo]:
        """What those in line ask for, equal requests together."""
        return [
            DemandInfo(
                resources=counted(request.amounts), count=count, is_infeasible=not may
            )
            for request, count, may in self.admission.demands()
        ]
