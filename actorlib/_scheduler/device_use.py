"""The interface by which the ledger asks whether other programs use a device.

The ledger decides from what it returns, and does nothing else with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from actorlib.accelerators.base import Device


class DeviceUse(Protocol):
    """The use of devices by this program, among those of other programs.

    Attributes:
        on_free: Called with devices that were refused, when they may be free.
    """

    on_free: Callable[[Collection[Device]], None]

    def begin(self, devices: Sequence[Device]) -> Mapping[Device, str]:
        """Begins to use devices on which this program has no lease: all, or none.

        Returns:
            The devices that other programs use, with a description of the program:
            then none is used by this one. Empty if the use has begun.
        """
        ...

    def end(self, devices: Collection[Device]) -> None:
        """Ends the use of devices: the last lease on them was released."""
        ...
