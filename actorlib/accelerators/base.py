"""The values of hardware, and ``Accelerator``: the interface of a vendor's family.

A family finds devices (``detect``) and masks them (``environment``). The other methods
have defaults for a vendor whose variable is a list of numbers between commas.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from actorlib._base.public import public
from actorlib._base.value import dataclass
from actorlib._options.kinds import UNITS
from actorlib.accelerators.masks import PLAIN, Mask, Syntax, choose, read_mask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib._options.kinds import Kind
    from actorlib.accelerators.host import Host


@public("actorlib.accelerators")
@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One piece of hardware that can be granted, or a logical stand-in for one.

    Attributes:
        family: The vendor's family, for example ``"nvidia"``.
        kind: The resource that it counts as, for example ``"GPU"``.
        index: Its place among the devices of its kind that the owner may use, from 0.
            ``Accelerator.select`` sets it.
        id: Its name for the user: a number of the machine, a UUID, or the entry of the
            owner's own visibility variable. Stable for the life of the runtime.
        entry: Its entry in the visibility variable of a process; empty if that is
            ``id``.
        uuid: The vendor's own identity, or None if unknown.
        pci: Its PCI address, for example ``"0000:3b:00.0"``, or None if unknown.
        model: The product name, or None if unknown.
        type: The model's name for ``accelerator_type``, or None if unknown.
        memory: Its memory in bytes, or None if unknown.
        parent: The UUID of the card that it is a part of, or None if it is whole.
        peers: The UUIDs (ids, where those are unknown) of the devices that it reaches
            without passing through the host: over NVLink, XGMI and the like.
        integrated: Whether it is part of a CPU and shares the machine's memory. Such a
            device is granted only where its kind has no other.
        logical: Whether it was declared and not found.
        source: How it was found, for example ``"NVML"``.
    """

    family: str
    kind: str
    index: int = 0
    id: str
    entry: str = ""
    uuid: str | None = None
    pci: str | None = None
    model: str | None = None
    type: str | None = None
    memory: int | None = None
    parent: str | None = None
    peers: frozenset[str] = frozenset()
    integrated: bool = False
    logical: bool = False
    source: str = ""

    @property
    def written(self) -> str:
        """Its entry in the visibility variable of a process."""
        return self.entry or self.id

    @property
    def key(self) -> str:
        """Its name among the ``peers`` of other devices."""
        return self.uuid or self.id


@public("actorlib.accelerators")
@dataclass(frozen=True, slots=True)
class Share:
    """The right to part of one device: ``units`` of its 10 000."""

    device: Device
    units: int

    @property
    def nbytes(self) -> int | None:
        """The bytes of the device's memory in this share; None if unknown."""
        memory = self.device.memory
        return None if memory is None else memory * self.units // UNITS


@public("actorlib.accelerators")
@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The resources that one actor holds, from its placement to the end of its process.

    Attributes:
        amounts: Units (bytes for ``"memory"``) by resource name, devices included.
        shares: The devices behind the device kinds in ``amounts``.
    """

    amounts: Mapping[str, int]
    shares: tuple[Share, ...] = ()

    def devices(self, kind: str) -> tuple[Device, ...]:
        """Returns the devices of one kind that the lease opens, in index order."""
        return tuple(s.device for s in self.shares if s.device.kind == kind)

    def of_kind(self, kind: str) -> list[Share]:
        """Returns its shares of devices of one kind, in index order."""
        return [share for share in self.shares if share.device.kind == kind]

    def split(self, name: str) -> tuple[Lease, Lease]:
        """Splits it in two: its amount of a counted resource, and the rest."""
        own = {name: self.amounts[name]} if name in self.amounts else {}
        rest = {n: amount for n, amount in self.amounts.items() if n != name}
        return Lease(amounts=own), Lease(amounts=rest, shares=self.shares)

    def joined(self, other: Lease) -> Lease:
        """Merges it with another; one of the two has no devices."""
        amounts = dict(self.amounts)
        for name, amount in other.amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
        return Lease(amounts=amounts, shares=self.shares + other.shares)


@public("actorlib.accelerators")
@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A candidate that is not offered, and the reason.

    Attributes:
        name: Its name, for example ``"/dev/accel0"`` or ``"GPU 2"``.
        why: The reason, for people.
        model: The product name, or None if unknown.
    """

    name: str
    why: str
    model: str | None = None


def reject(device: Device, why: str) -> Rejected:
    """Makes the rejection of a device."""
    return Rejected(name=f"{device.kind} {device.id}", model=device.model, why=why)


def why_none(found: Sequence[Device], rejected: Sequence[Rejected]) -> str:
    """Returns why no device is usable, if some exist; else the empty string."""
    if found or not rejected:
        return ""
    first = rejected[0]
    return first.why if first.name in first.why else f"{first.name}: {first.why}"


@public("actorlib.accelerators")
@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """The devices that one family has found.

    Attributes:
        family: The family.
        devices: The devices that the owner may use, in index order.
        outer: The entries of the owner's own visibility variable that lead to a device
            (all of them, where no hardware was found to compare), or None if it was
            unset. Actors get only ids from this list.
        reason: Why there is nothing, or why something was left out; else empty.
        rejected: The candidates that are not offered, each with its reason.
        said: The owner's own visibility variable as it was set, for messages; empty if
            it was unset.
    """

    family: str
    devices: tuple[Device, ...] = ()
    outer: tuple[str, ...] | None = None
    said: str = ""
    reason: str = ""
    rejected: tuple[Rejected, ...] = ()


@public("actorlib.accelerators")
class Accelerator(ABC):
    """A vendor's family: finds its devices, names them and masks them.

    A family is stateless: one instance serves every runtime of a process.

    Attributes:
        family: One word, for example ``"nvidia"``.
        kind: The resource that its devices count as.
        visible_env: The variable that tells frameworks which devices they may see, or
            the empty string if there is none.
        removed_envs: Variables that would contradict ``visible_env``: they are removed
            from the environment of actors.
        syntax: How ``visible_env`` is written.
        type: The ``Device.type`` that all devices of the family have, or None.
        takes_uuids: Whether its masks may be written by UUID.
        nosets: The variables by which a user forbids us to write ``visible_env``, as in
            Ray.
    """

    family: ClassVar[str]
    kind: ClassVar[Kind]
    visible_env: ClassVar[str]
    removed_envs: ClassVar[tuple[str, ...]] = ()
    syntax: ClassVar[Syntax] = PLAIN
    type: ClassVar[str | None] = None
    takes_uuids: ClassVar[bool] = False
    nosets: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Derives ``nosets`` from ``visible_env`` if a family does not set it."""
        variable = cls.__dict__.get("visible_env")
        if variable and "nosets" not in cls.__dict__:
            cls.nosets = (f"RAY_EXPERIMENTAL_NOSET_{variable}",)

    @abstractmethod
    def detect(self, host: Host) -> Detection:
        """Returns the devices that the owner may use, in index order.

        It reads the machine only through ``host``, and gives the reason for each
        candidate that it does not offer. It may raise and may hang: the caller handles
        both.

        Args:
            host: The machine.
        """

    def mask(self, environ: Mapping[str, str]) -> Mask | None:
        """Reads the owner's mask from its variables alone; None if all is visible."""
        if not self.visible_env:
            return None
        value = environ.get(self.visible_env)
        return read_mask(self.visible_env, value, self.syntax)

    def select(
        self,
        found: Sequence[Device],
        environ: Mapping[str, str],
        *,
        rejected: Sequence[Rejected] = (),
        reason: str | None = None,
    ) -> Detection:
        """Applies the owner's own mask to the devices that were found.

        Args:
            found: Every device of the machine, in the order of the vendor's numbers;
                their ``id`` is their name in a mask.
            environ: The owner's environment.
            rejected: The candidates that cannot be offered. Default: ().
            reason: Why there is nothing, or what went wrong; empty for none. Default:
                None: if nothing was found, the reason of the first rejected candidate.

        Returns:
            The devices that may be granted, in the mask's order. The hidden ones are
            among the rejected.
        """
        mask = self.mask(environ)
        places, cut = list(range(len(found))), ""
        outer = None
        if mask is not None:
            outer, cut = mask.entries, mask.reason
            if found:
                chosen, cut = choose(mask, [_names(device) for device in found])
                places, outer = list(chosen), mask.entries[: len(chosen)]
        hidden = set(range(len(found))).difference(places)
        if reason is None:
            reason = why_none(found, rejected)
        return Detection(
            family=self.family,
            devices=tuple(
                replace(found[place], index=index) for index, place in enumerate(places)
            ),
            outer=outer,
            said=mask.said if mask is not None else "",
            reason="; ".join(filter(None, (reason, cut))),
            rejected=(
                *rejected,
                *(
                    reject(found[place], f"hidden by {mask.said}" if mask else "")
                    for place in sorted(hidden)
                ),
            ),
        )

    def formed(
        self,
        devices: Sequence[Device],
        form: str | None,  # noqa: ARG002  # for families that take UUIDs
    ) -> tuple[Device, ...]:
        """Sets the ``entry`` of devices to the form in which masks are to be written.

        Args:
            devices: All of the family that may be granted.
            form: ``"index"`` or, where the family takes UUIDs, ``"uuid"``; None for the
                best form here.

        Raises:
            ValueError: A device cannot be written in that form.
        """
        return tuple(devices)

    def declare(self, count: int, detection: Detection) -> tuple[Device, ...]:
        """Returns the devices of a runtime for which ``count`` of them were declared.

        Found devices come first. Logical ones fill the rest, as a count is a
        declaration and not a measurement. Their names are the unused entries of the
        owner's visibility variable, or the lowest free indices.

        Args:
            count: The declared number of devices, 0 or more.
            detection: The devices that were found.

        Raises:
            ValueError: The owner's visibility variable names fewer than ``count``.
        """
        outer = detection.outer
        if outer is not None and count > len(outer):
            why = f" ({detection.reason})" if detection.reason else ""
            raise ValueError(
                f"{count} {self.kind.name} declared, but "
                f"{detection.said or self.visible_env} lets this process use "
                f"{len(outer)}: {','.join(outer) or 'none'}{why}. "
                f"Declare at most {len(outer)}, or set the variable to more"
            )
        first = detection.devices[:count]
        used = {device.id for device in detection.devices}
        if outer is None:
            # The id of a logical device is its entry, so it must be unused as an entry.
            used |= {device.written for device in detection.devices}
        names = map(str, itertools.count()) if outer is None else iter(outer)
        free = (name for name in names if name not in used)
        missing = range(len(first), count)
        return first + tuple(
            Device(
                family=self.family,
                kind=self.kind.name,
                index=index,
                id=name,
                type=self.type,
                logical=True,
                source="declared",
            )
            for index, name in zip(missing, free, strict=False)
        )

    def environment(
        self,
        devices: Sequence[Device],
        environ: Mapping[str, str],  # noqa: ARG002  # for families with several variables
        every: Sequence[Device],  # noqa: ARG002  # for families that must know the rest
    ) -> dict[str, str | None]:
        """Returns the variables that make frameworks see exactly these devices.

        Args:
            devices: In index order; empty to hide the whole family.
            environ: The environment of the actor's process without them.
            every: All devices of the family that the runtime may grant.

        Returns:
            Values by name; None for a variable that has to be removed.
        """
        if not self.visible_env:
            return {}
        entries = ",".join(device.written for device in devices)
        return {self.visible_env: entries, **dict.fromkeys(self.removed_envs)}


def _names(device: Device) -> tuple[str, ...]:
    """Returns the names of a device in masks: its number and its UUID."""
    return (device.id,) if device.uuid is None else (device.id, device.uuid)
