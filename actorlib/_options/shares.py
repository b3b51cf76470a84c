"""Shares of devices as users speak of them: how they are to hold, and how they do."""

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
"""How shares of devices are made to hold; see RuntimeOptions."""

ENFORCEMENTS: tuple[str, ...] = get_args(EnforcementWord)
"""Those words: first the choice that is left to actorlib, then the weakest first."""

_OveruseWord: TypeAlias = Literal["warn", "kill"]
OveruseAction: TypeAlias = _OveruseWord | Callable[[DeviceMemoryExceeded], object]
"""What is done when an actor has more of a device than it was granted."""


def check_overuse_action(name: str, value: object) -> None:
    """Makes sure that a value is one of the words, or a plain function."""
    if not callable(value):
        check_one_of(name, value, get_args(_OveruseWord))
    elif iscoroutinefunction(value):
        raise TypeError(
            f"{name} takes a plain function: it is called on the event "
            "loop, and may create a task there; not an async def"
        )


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceShare:
    """What an actor holds of one device, and what makes that hold.

    Attributes:
        device: The id of the device.
        kind: The resource that it counts as, for example ``"GPU"``.
        units: The part of it, above 0; 1.0 is the whole device.
        nbytes: Bytes of its memory that the part stands for, or None if the memory of
            the device is unknown.
        enforced_by: What keeps the actor to its part: ``"frameworks"``, ``"watchdog"``,
            ``"mps"`` or ``"cgroup"``; ``"off"`` if nothing does.
        not_stronger_because: Why nothing stronger does; empty if there is nothing
            stronger.
    """

    device: str
    kind: str
    units: float
    nbytes: int | None
    enforced_by: str
    not_stronger_because: str

    def __str__(self) -> str:
        """Says it in words: ``0.5 (40 GiB) of GPU 0, enforced by watchdog``."""
        part = f"{self.units:g}"
        if self.nbytes is not None:
            part = f"{part} ({format_bytes(self.nbytes)})"
        what, why = f"{part} of {self.kind} {self.device}", self.not_stronger_because
        if self.enforced_by == "off":
            return f"{what}, not enforced, because {why}"
        return (
            f"{what}, enforced by {self.enforced_by}"
            f"{why and f'. Why nothing stronger: {why}'}"
        )


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class ActorShare:
    """What an actor holds of devices: ``handle.share``. False if it holds none.

    Attributes:
        devices: One entry for each device, in index order; empty for an actor that
            asked for none, that waits in line, or that is dead.
    """

    devices: tuple[DeviceShare, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.devices)

    def __str__(self) -> str:
        """Says it in words, a line for each device."""
        return "\n".join(map(str, self.devices)) or "no device"

    @property
    def units(self) -> float:
        """How many devices it is in all, for example 0.5; 0.0 without devices."""
        return float(sum(share.units for share in self.devices))

    @property
    def nbytes(self) -> int | None:
        """Bytes of device memory in all; None if those of a device are unknown."""
        known = [share.nbytes for share in self.devices if share.nbytes is not None]
        return sum(known) if len(known) == len(self.devices) else None

    @property
    def enforced_by(self) -> str:
        """What keeps the actor to the share that holds least; "off" without devices."""
        return self._weakest.enforced_by if self.devices else "off"

    @property
    def not_stronger_because(self) -> str:
        """Why nothing stronger does; empty without devices."""
        return self._weakest.not_stronger_because if self.devices else ""

    @property
    def _weakest(self) -> DeviceShare:
        return min(self.devices, key=lambda one: ENFORCEMENTS.index(one.enforced_by))
