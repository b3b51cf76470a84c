"""The values of hardware, and ``Accelerator``: what a vendor's family has to do.

A family finds devices (``detect``) and masks them (``environment``). The rest has
defaults, for a vendor whose variable is a list of numbers between commas.
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
    from collections.abc import Iterable, Mapping, Sequence

    from actorlib._options.kinds import Kind
    from actorlib.accelerators.host import Host


@public("actorlib.accelerators")
@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One piece of hardware that can be granted, or a logical stand-in for one.

    Attributes:
        family: The vendor's family, for example ``"nvidia"``.
        kind: The resource it counts as, for example ``"GPU"``.
        index: Its place among the devices of its kind that the owner may use, from 0.
        id: What the user is told it is called: a number of the machine, a UUID, or the
            word of the owner's own visibility variable. Stable for the life of the
            runtime.
        entry: What the visibility variable of a process says for it; empty if that is
            ``id``.
        uuid: The vendor's own identity, or None if unknown.
        pci: Its PCI address, for example ``"0000:3b:00.0"``, or None if unknown.
        model: The product name, or None if unknown.
        type: What ``accelerator_type`` calls the model, or None if unknown.
        memory: Its memory in bytes, or None if unknown.
        parent: The UUID of the card it is a part of, or None if it is whole.
        peers: The UUIDs (ids, where those are unknown) of the devices that it reaches
            without passing through the host: over NVLink, XGMI and the like.
        integrated: Whether it is part of a CPU and shares the machine's memory. Such a
            device is granted only where its kind has no other.
        logical: True for a device that was declared and not found.
        source: How it was found, for example ``"NVML"``.
    """

    family: str
    kind: str
    index: int
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
        """What the visibility variable of a process says for it."""
        return self.entry or self.id

    @property
    def key(self) -> str:
        """What other devices call it among their ``peers``."""
        return self.uuid or self.id


@public("actorlib.accelerators")
@dataclass(frozen=True, slots=True)
class Share:
    """The right to part of one device: ``units`` of its 10 000."""

    device: Device
    units: int

    @property
    def nbytes(self) -> int | None:
        """Bytes of the device's memory that it stands for; None if that is unknown."""
        memory = self.device.memory
        return None if memory is None else memory * self.units // UNITS


@public("actorlib.accelerators")
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
        """Returns the devices of one kind that the lease opens, in index order."""
        return tuple(s.device for s in self.shares if s.device.kind == kind)

    def of_kind(self, kind: str) -> list[Share]:
        """Returns its shares of devices of one kind, in index order."""
        return [share for share in self.shares if share.device.kind == kind]

    def split(self, name: str) -> tuple[Lease, Lease]:
        """Splits it in two: what it has of a counted resource, and the rest."""
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
    """A candidate that is not offered, and why.

    Attributes:
        name: What it is called, for example ``"/dev/accel0"`` or ``"GPU 2"``.
        why: Why it is left out, for people.
        model: The product name, or None if unknown.
    """

    name: str
    why: str
    model: str | None = None


@public("actorlib.accelerators")
@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """The outcome of asking one family what it has.

    Attributes:
        family: The family.
        devices: What the owner may use, in index order.
        outer: The entries of the owner's own visibility variable that lead to a device
            (all of them, where no hardware was found to compare), or None if it was
            unset. Actors get ids from among them only.
        reason: Why there is nothing, or why something was left out; empty if all is
            plain.
        rejected: What was looked at and is not offered, each with its reason.
        said: The owner's own visibility variable as it was set, for messages; empty if
            it was not.
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
        visible_env: The variable that tells its frameworks what they may see, or the
            empty string if there is none.
        syntax: How that variable is written.
        type: The ``Device.type`` that all devices of the family have, or None.
        takes_uuids: Whether its masks may be written by UUID.
        nosets: The variables by which a user forbids us to write ``visible_env``, as
            Ray's users know them.
    """

    family: ClassVar[str]
    kind: ClassVar[Kind]
    visible_env: ClassVar[str]
    syntax: ClassVar[Syntax] = PLAIN
    type: ClassVar[str | None] = None
    takes_uuids: ClassVar[bool] = False
    nosets: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Derives ``nosets`` from ``visible_env`` where a family does not say."""
        variable = cls.__dict__.get("visible_env")
        if variable and "nosets" not in cls.__dict__:
            cls.nosets = (f"RAY_EXPERIMENTAL_NOSET_{variable}",)

    @abstractmethod
    def detect(self, host: Host) -> Detection:
        """Finds the devices the owner may use, in index order.

        It reads the machine only through ``host`` and keeps the reason for whatever
        it does not offer. It may raise and may hang: the caller limits both.

        Args:
            host: The machine.
        """

    def mask(self, environ: Mapping[str, str]) -> Mask | None:
        """Reads what the owner may see from its variables alone; None for all."""
        if not self.visible_env:
            return None
        value = environ.get(self.visible_env)
        return read_mask(self.visible_env, value, self.syntax)

    def select(
        self,
        found: Sequence[Device],
        environ: Mapping[str, str],
        *,
        rejected: Iterable[Rejected] = (),
        reason: str = "",
    ) -> Detection:
        """Applies the owner's own mask to the devices that were found.

        Args:
            found: Every device of the machine, in the order of the vendor's numbers;
                their ``id`` is what a mask calls them.
            environ: The owner's environment.
            rejected: What was found and cannot be offered. Default: ().
            reason: Why there is nothing, or what went wrong. Default: empty, for none.

        Returns:
            The devices that may be granted, in the mask's order; the others among the
            rejected.
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
                    Rejected(
                        name=f"{found[place].kind} {found[place].id}",
                        model=found[place].model,
                        why=f"hidden by {mask.said}" if mask else "",
                    )
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
            form: ``"index"`` or, where the family takes UUIDs, ``"uuid"``; None for
                what is best here.

        Raises:
            ValueError: A device cannot be written in that form.
        """
        return tuple(devices)

    def declare(self, count: int, detection: Detection) -> tuple[Device, ...]:
        """Returns the devices of a runtime that was told it has ``count`` of them.

        Found devices come first; what is missing is made up of logical ones, as a
        count is a declaration and not a measurement. They are named by what is left of
        the owner's visibility variable, or by the lowest indices that are free.

        Args:
            count: How many devices the runtime is told to have, 0 or more.
            detection: What was found.

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
        found = detection.devices[:count]
        taken = {device.id for device in detection.devices}
        if outer is None:
            # A logical device is written as it is called: not as a real one is.
            taken |= {device.written for device in detection.devices}
        names = map(str, itertools.count()) if outer is None else iter(outer)
        free = (name for name in names if name not in taken)
        missing = range(len(found), count)
        return found + tuple(
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
            environ: What the actor's process would have without them.
            every: All devices of the family that the runtime may grant.

        Returns:
            Values by name; None where a variable has to be removed.
        """
        if not self.visible_env:
            return {}
        return {self.visible_env: ",".join(device.written for device in devices)}


def _names(device: Device) -> tuple[str, ...]:
    """Returns what a mask may call a device: its number, or its UUID."""
    return (device.id,) if device.uuid is None else (device.id, device.uuid)
