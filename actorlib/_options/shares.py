"""Shares of devices, and how they are enforced."""

from collections.abc import Callable  # a type that is asked for
from inspect import iscoroutinefunction
from typing import Literal, TypeAlias, get_args

from actorlib._base.public import public
from actorlib._base.validation import check_one_of
from actorlib._base.value import dataclass
from actorlib._options.resources import format_bytes
from actorlib.exceptions import DeviceMemoryExceeded

EnforcementWord: TypeAlias = Literal[
    "auto", "off", "frameworks", "watchdog", "mps", "cgroup"
]
"""How shares of devices are enforced; see RuntimeOptions."""

ENFORCEMENTS: tuple[str, ...] = get_args(EnforcementWord)
"""The same words: first the automatic choice, then from the weakest to the strongest.
"""

_OveruseWord: TypeAlias = Literal["warn", "kill"]
OveruseAction: TypeAlias = _OveruseWord | Callable[[DeviceMemoryExceeded], object]
"""The reaction to an actor that has more of a device than its share."""


def check_overuse_action(name: str, value: object) -> None:
    """Makes sure that a value is one of the words, or a plain function."""
    if not callable(value):
        check_one_of(name, value, get_args(_OveruseWord))
    elif iscoroutinefunction(value):
        raise TypeError(
            f"{name} takes a plain function and not an async def: it is called on the "
            "event loop, and may create a task there"
        )


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceShare:
    """An actor's share of one device, and its enforcement.

    Attributes:
        device: The id of the device.
        kind: The resource that it counts as, for example ``"GPU"``.
        units: The part of the device, above 0; 1.0 is the whole device.
        nbytes: The bytes of its memory that the part stands for, or None if the memory
            of the device is unknown.
        enforced_by: What enforces the share: ``"frameworks"``, ``"watchdog"``,
            ``"mps"`` or ``"cgroup"``; ``"off"`` if nothing does.
        not_stronger_because: Why the enforcement is not stronger; empty if it is the
            strongest.
    """

    device: str
    kind: str
    units: float
    nbytes: int | None
    enforced_by: str
    not_stronger_because: str

    def __str__(self) -> str:
        """The share in words: ``0.5 (40 GiB) of GPU 0, enforced by watchdog``."""
        part = f"{self.units:g}"
        if self.nbytes is not None:
            part = f"{part} ({format_bytes(self.nbytes)})"
        share, why = f"{part} of {self.kind} {self.device}", self.not_stronger_because
        if self.enforced_by == "off":
            return f"{share}, not enforced, because {why}"
        return (
            f"{share}, enforced by {self.enforced_by}"
            f"{why and f'. Why nothing stronger: {why}'}"
        )


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class ActorShare:
    """An actor's shares of devices: ``handle.share``. False if it has none.

    Attributes:
        devices: One entry for each device, in index order; empty for an actor that
            asked for none, that waits in the queue, or that is dead.
    """

    devices: tuple[DeviceShare, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.devices)

    def __str__(self) -> str:
        """The shares in words, a line for each device."""
        return "\n".join(map(str, self.devices)) or "no device"

    @property
    def units(self) -> float:
        """The sum of the units, for example 0.5; 0.0 without devices."""
        return float(sum(share.units for share in self.devices))

    @property
    def nbytes(self) -> int | None:
        """The sum of the bytes of device memory; None if some are unknown."""
        sizes = [share.nbytes for share in self.devices if share.nbytes is not None]
        return sum(sizes) if len(sizes) == len(self.devices) else None

    @property
    def enforced_by(self) -> str:
        """The weakest enforcement among the devices; "off" without devices."""
        return self._weakest.enforced_by if self.devices else "off"

    @property
    def not_stronger_because(self) -> str:
        """Why that is not stronger; empty without devices."""
        return self._weakest.not_stronger_because if self.devices else ""

    @property
    def _weakest(self) -> DeviceShare:
        return min(self.devices, key=lambda one: ENFORCEMENTS.index(one.enforced_by))
