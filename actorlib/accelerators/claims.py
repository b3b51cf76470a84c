"""Claims the devices of a runtime, so that other programs of the same user know it.

Two programs on one machine know nothing of each other: both would begin with GPU 0. So
a runtime claims each device that it may grant: it holds a name that other programs can
read (``held_names``). The name has the device and the process id.

A claim refuses no other program: programs may share a device by intention. A program
that wants free devices reads the claims and makes its own while it holds a lock, which
is one more name. So of two programs that do this at once, only one finds a device free.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING, final

from actorlib._base.public import public
from actorlib._base.value import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from actorlib.accelerators.base import Device
    from actorlib.accelerators.host import Host

_LOCK = "choosing"
_PATIENCE = 5.0
_PAUSE = 0.005
_SHOWN = 60
"""The longest shown part of a command line."""


@public("actorlib.accelerators")
@final
@dataclass(frozen=True, slots=True)
class Claimant:
    """A process that has claimed a device.

    Attributes:
        pid: Its process id.
        program: Its command line, maybe shortened; empty if unknown.
    """

    pid: int
    program: str = ""

    def __str__(self) -> str:
        """Describes it: ``'python train.py' (pid 812)``."""
        pid = f"pid {self.pid}"
        return f"{self.program!r} ({pid})" if self.program else pid


@final
class DeviceClaims:
    """The claims of one runtime, and access to the claims of others.

    Every method may touch the disk, so none belongs on an event loop.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._names = host.names()
        self._held: list[Callable[[], None]] = []
        self._is_over = False

    @contextlib.contextmanager
    def choosing(self) -> Generator[None]:
        """Excludes other programs that choose free devices, inside the block.

        Raises:
            TimeoutError: Another program has been choosing for five seconds.
        """
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                release = self._names.hold(_LOCK)
            except BlockingIOError:
                if time.monotonic() > end:
                    raise TimeoutError(
                        "another program of this user has been choosing free devices "
                        f"for {_PATIENCE:g} s: it may be stopped. End it, or leave "
                        "devices='free' out"
                    ) from None
                time.sleep(_PAUSE)
            else:
                break
        try:
            yield
        finally:
            release()

    def claimants(self, devices: Iterable[Device]) -> dict[Device, list[Claimant]]:
        """Returns the other claimants of these devices; without the unclaimed ones."""
        wanted = {_key(device): device for device in devices}
        claims: dict[Device, list[Claimant]] = {}
        if not wanted:
            return claims
        for name in self._names.held():
            key, _, text = name.rpartition("/")
            if key in wanted and text.isdecimal() and (pid := int(text)) != os.getpid():
                claimant = claimant_of(self._host, pid)
                if claimant is not None:
                    claims.setdefault(wanted[key], []).append(claimant)
        return claims

    def claim(self, devices: Iterable[Device]) -> None:
        """Claims devices, until :meth:`release` or the end of this process.

        If a claim cannot be made, other programs do not see it. It has no other effect.
        """
        for device in devices:
            with contextlib.suppress(OSError):
                self._held.append(self._names.hold(f"{_key(device)}/{os.getpid()}"))
        if self._is_over:  # while a thread was claiming
            self.release()

    def release(self) -> None:
        """Releases all claims, now and for good; in a fork, only the fork's copies."""
        self._is_over = True
        while self._held:
            self._held.pop()()


def claimant_of(host: Host, pid: int) -> Claimant | None:
    """Returns a living process of this user; None for any other."""
    if host.system != "linux":
        return Claimant(pid)
    status = host.read_text(f"/proc/{pid}/status") or ""
    uids = re.search(r"^Uid:\s+(.*)$", status, re.MULTILINE)
    if uids is None or str(os.getuid()) not in uids[1].split():
        return None  # any user may hold a name
    words = (host.read_text(f"/proc/{pid}/cmdline") or "").split("\0")
    program = " ".join(filter(None, words))
    short = f"{program[: _SHOWN - 1]}…" if len(program) > _SHOWN else program
    return Claimant(pid, short)


def describe_claims(claims: Mapping[Device, Iterable[Claimant]]) -> str:
    """Describes claims: ``GPU 0, 1 by 'python train.py' (pid 812)``."""
    groups: dict[tuple[str, str], list[str]] = {}
    for device in sorted(claims, key=lambda device: (device.kind, device.index)):
        who = describe_claimants(claims[device])
        groups.setdefault((device.kind, who), []).append(device.id)
    return "; ".join(
        f"{kind} {', '.join(ids)} by {who}" for (kind, who), ids in groups.items()
    )


def describe_claimants(claimants: Iterable[Claimant]) -> str:
    """Joins the descriptions of claimants."""
    return " and ".join(map(str, sorted(claimants, key=lambda one: one.pid)))


def _key(device: Device) -> str:
    """Returns the name of a device, which does not depend on a program's masks."""
    return f"{device.family}/{device.uuid or device.pci or device.id}"
