"""Finds the programs of this user that have placed something on a device.

A program that uses a device listens at a socket whose name has the device and the
process id. With ``devices="exclusive"`` it also has the *lock* of the device: a socket
whose name has the device alone, so that the kernel gives it to one program. The parts
of a card (MIG) count as the card.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib.accelerators.claims import claimant_of
from actorlib.accelerators.fake_devices import VARIABLE
from actorlib.accelerators.held_names import SocketNames

if TYPE_CHECKING:
    from collections.abc import Collection

    from actorlib._base.named_sockets import NamedSockets
    from actorlib.accelerators.base import Device
    from actorlib.accelerators.claims import Claimant
    from actorlib.accelerators.host import Host

_ANNOUNCEMENT = re.compile(r"(.+)/(exclusive-)?(\d+)")


class DeviceUser(NamedTuple):
    """A program that uses a device.

    Attributes:
        program: The program.
        is_exclusive: Whether it uses the device with ``devices="exclusive"``.
    """

    program: Claimant
    is_exclusive: bool


@final
class DeviceUsers:
    """The programs of this user that use devices.

    Attributes:
        sockets: The sockets of these programs; None where there are none.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._fake_machine = zlib.crc32(host.environ.get(VARIABLE, "").encode())
        names = host.names()
        self.sockets: NamedSockets | None = (
            names.sockets("use") if isinstance(names, SocketNames) else None
        )

    def card(self, device: Device) -> str:
        """Names the card of a device, equally in all programs.

        Programs with the same text in ``ACTORLIB_FAKE_DEVICES`` have the same fake
        devices. All programs have the same declared ones.
        """
        if device.source == VARIABLE:
            return f"fake-{self._fake_machine:x}/{device.family}/{device.id}"
        if device.logical:
            return f"logical/{device.kind}/{device.id}"
        own = device.parent or device.uuid or device.pci or device.id
        return f"{device.family}/{own}"

    def pids(self, cards: Collection[str]) -> dict[str, dict[int, bool]]:
        """Returns the processes that use cards, other than this one.

        Returns:
            By card and process, whether it is exclusive.
        """
        users: dict[str, dict[int, bool]] = {}
        names = [] if self.sockets is None else self.sockets.names()
        for match in filter(None, map(_ANNOUNCEMENT.fullmatch, names)):
            card, pid = match[1], int(match[3])
            if card in cards and pid != os.getpid():
                users.setdefault(card, {})[pid] = bool(match[2])
        return users

    def others(self, cards: Collection[str]) -> dict[str, list[DeviceUser]]:
        """Returns the living other users of cards; without the unused cards.

        It may touch the disk, so it does not belong on an event loop.
        """
        users: dict[str, list[DeviceUser]] = {}
        for card, pids in self.pids(cards).items():
            for pid, is_exclusive in pids.items():
                program = claimant_of(self._host, pid)
                if program is not None:
                    users.setdefault(card, []).append(DeviceUser(program, is_exclusive))
        return users

    def describe(self, pid: int) -> str:
        """Describes a process that uses a card, which may have ended.

        The number of a process in another container is 0.
        """
        if not pid:
            return "another program, in another container"
        program = claimant_of(self._host, pid)
        if program is None:
            return f"another program (pid {pid}) that has ended, until its workers have"
        return f"another program, {program}"


def lock_of(card: str) -> str:
    """Returns the name of the socket that is the lock of a card."""
    return f"{card}/lock"


def announcement_of(card: str, pid: int, *, is_exclusive: bool) -> str:
    """Returns the name of the socket that announces a user of a card."""
    return f"{card}/{'exclusive-' if is_exclusive else ''}{pid}"
