"""The words of hardware: a device, a share of it, a lease, and a vendor's contract."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actorlib.accelerators.masks import Mask, read_mask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One piece of hardware that can be granted, or a logical stand-in for one.

    Attributes:
        family: The vendor's family, for example ``"nvidia"``.
        kind: The resource it counts as, for example ``"GPU"``.
        index: Its place among the devices of its kind that the owner may use, from 0.
        id: How the vendor's visibility variable names it: an index of the machine,
            or a UUID. Stable for the life of the runtime.
        uuid: The vendor's own identity, or None if unknown.
        model: The product name, or None if unknown.
        memory: Its memory in bytes, or None if unknown.
        logical: True for a device that was declared and not found.
    """

    family: str
    kind: str
    index: int
    id: str
    uuid: str | None = None
    model: str | None = None
    memory: int | None = None
    logical: bool = False


@dataclass(frozen=True, slots=True)
class Share:
    """The right to part of one device: ``units`` of its 10 000."""

    device: Device
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """What one actor holds, from its placement until its process is gone.

    Attributes:
        amounts: Units (bytes for ``"memory"``) by resource name, devices included.
        shares: The devices behind the device kinds in ``amounts``.
    """

    amounts: Mapping[str, int]
    shares: tuple[Share, ...] = ()

    def devices(self, kind: str) -> tuple[Device, ...]:
        """The devices of one kind that the lease opens, in index order."""
        return tuple(s.device for s in self.shares if s.device.kind == kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """What a probe of one family found.

    Attributes:
        family: Whose probe it was.
        devices: What the owner may use, in index order.
        outer: The entries of the owner's own visibility variable that lead to a device
            (all of them, where no hardware was found to compare), or None if it was
            unset: the universe from which ids are given to actors.
        reason: Why there is nothing, or why something was left out; empty if all is
            plain.
    """

    family: str
    devices: tuple[Device, ...] = ()
    outer: tuple[str, ...] | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Every device that one runtime may grant, of every family, and why not more.

    Attributes:
        devices: By kind, in index order.
        detections: One per family, in the order of the families.
    """

    devices: Mapping[str, tuple[Device, ...]] = field(
        default_factory=dict[str, tuple[Device, ...]]
    )
    detections: tuple[Detection, ...] = ()


class Accelerator(ABC):
    """A vendor's family: how its devices are found, named and masked.

    Attributes:
        family: One word, for example ``"nvidia"``.
        kind: The resource name its devices count as.
        visible_env: The variable that tells its frameworks what they may see.
        noset_env: The variable by which a user forbids us to write ``visible_env``.
        divisible: Whether a share below one device may be asked for.
    """

    family: str
    kind: str
    visible_env: str
    noset_env: str
    divisible: bool

    @abstractmethod
    def detect(self, host: Host) -> Detection:
        """Finds the devices the owner may use, in index order.

        It reads the machine only through ``host`` and keeps the reason for whatever
        it does not offer. It may raise and may hang: the caller limits both.
        """

    def mask(self, environ: Mapping[str, str]) -> Mask | None:
        """What the owner may see, going by the variable alone; None for all."""
        return read_mask(self.visible_env, environ.get(self.visible_env))

    def declare(self, count: int, detection: Detection) -> tuple[Device, ...]:
        """The devices of a runtime that was told it has ``count`` of them.

        Found devices come first; what is missing is made up of logical ones, as a
        count is a declaration and not a measurement. They are named by what is left of
        the owner's visibility variable, or by the lowest indices that are free.

        Raises:
            ValueError: The owner's visibility variable names fewer than ``count``.
        """
        outer = detection.outer
        if outer is not None and count > len(outer):
            why = f" ({detection.reason})" if detection.reason else ""
            raise ValueError(
                f"{count} {self.kind} declared, but {self.visible_env} lets this "
                f"process use {len(outer)}: {','.join(outer) or 'none'}{why}. "
                f"Declare at most {len(outer)}, or set the variable to more"
            )
        found = detection.devices[:count]
        taken = {device.id for device in detection.devices}
        names = map(str, itertools.count()) if outer is None else iter(outer)
        free = (name for name in names if name not in taken)
        missing = range(len(found), count)
        return found + tuple(
            Device(
                family=self.family, kind=self.kind, index=index, id=name, logical=True
            )
            for index, name in zip(missing, free, strict=False)
        )

    def environment(
        self,
        devices: Sequence[Device],
        environ: Mapping[str, str],  # noqa: ARG002  # for families with several variables
    ) -> dict[str, str | None]:
        """The variables that make frameworks see exactly these devices.

        Args:
            devices: In index order; empty to hide the whole family.
            environ: What the actor's process would have without them.

        Returns:
            Values by name; None where a variable has to be removed.
        """
        return {self.visible_env: ",".join(device.id for device in devices)}
