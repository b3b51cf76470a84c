"""The table of device memory: the processes on each device, with bytes and since when.

``gpu_watch`` fills it with the driver's lists. Drains, features, ``ps`` and messages
read it, and do not call the driver.

A worker leads a session, so its children are known by that session, or by the chain of
their parents. After the death of a worker its children soon die, too, and an ended
process has no readable origin. So processes that were seen to descend from a worker are
remembered with it.

A driver may list a process that is invisible here: one of another pid namespace, or one
that has just ended and whose memory is not free yet.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._options.kinds import UNITS
from actorlib._options.resources import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from actorlib._base.process_stat import HasPid
    from actorlib.accelerators.base import Lease, Share


UNLISTED = 0
"""The process id of memory in use on a device without a listed process."""
UNKNOWN = "an unknown amount"
"""The words for a size that the driver does not report."""


class Listed(NamedTuple):
    """A row of the table: a process that is listed on a device.

    Attributes:
        pid: Its process id, or UNLISTED.
        nbytes: Bytes of the device's memory that it has; None if unknown.
        lineage: The ids of the process, its group, its session and its ancestors; empty
            if the process is invisible here.
        began: Its start time in ticks of the kernel's clock; 0 if unknown.
        name: The name of its program; empty if unknown.
        is_ours: Whether it was a worker's at the look.
        since: Since when it is listed with these properties (a worker's or not, visible
            or not), in seconds of the clock of the looks.
    """

    pid: int
    nbytes: int | None
    lineage: frozenset[int] = frozenset()
    began: int = 0
    name: str = ""
    is_ours: bool = False
    since: float = 0.0

    @property
    def is_strange(self) -> bool:
        """Whether it is invisible and does not belong to a worker."""
        return not (self.is_ours or self.lineage)


def merged(
    lists: Iterable[Iterable[tuple[int, int | None]]],
) -> dict[int, int | None]:
    """Joins lists of process ids with bytes: each process once, with the largest.

    A process with compute and graphics contexts is in two lists, with the same memory.
    """
    amounts: dict[int, int | None] = {}
    for listed in lists:
        for pid, nbytes in listed:
            before = amounts.get(pid)
            if before is None or (nbytes is not None and nbytes > before):
                amounts[pid] = nbytes
    return amounts


def nvml_devices(lease: Lease) -> dict[str, str]:
    """Returns the names of the devices of a lease that NVML knows, by their UUIDs."""
    return {
        share.device.uuid: f"{share.device.kind} {share.device.id}"
        for share in lease.shares
        if share.device.source == "NVML" and share.device.uuid
    }


class Holder(NamedTuple):
    """A process that still has memory of a device of an ended worker.

    Attributes:
        device: The name of the device in messages.
        name: The name of its program; empty if unknown.
        nbytes: Bytes that it has; None if unknown.
    """

    device: str
    pid: int
    name: str
    nbytes: int | None

    def __str__(self) -> str:
        """Describes it: ``pid 812 (python) still holds 3.1 GiB of GPU 0``."""
        who = f"pid {self.pid} ({self.name})" if self.name else f"pid {self.pid}"
        if self.pid == UNLISTED:
            who = "a process that NVML does not list"
        return (
            f"{who} still holds {format_bytes(self.nbytes, UNKNOWN)} of {self.device}"
        )


@final
class Occupant:
    """A worker that has shares of devices, and the processes that descend from it.

    Attributes:
        is_watched: Whether it is watched during its life, too.
        has_ended: Whether the worker has ended, and its share drains.
        devices: The names of its devices that NVML knows, by UUID.
        used: Bytes of each device that it had at the last look; None where unknown.
    """

    def __init__(
        self, label: str, process: HasPid, lease: Lease, *, is_watched: bool = True
    ) -> None:
        self._label = label
        self.has_ended = False
        self.is_watched = is_watched
        self.lease = lease
        self.devices = nvml_devices(lease)
        self.used: dict[str, int | None] = {}
        self._process = process
        # With the start time of each: the kernel reuses process ids.
        self._seen: dict[int, tuple[int, str]] = {}

    def __repr__(self) -> str:
        return f"<Occupant {self.title}>"

    @property
    def title(self) -> str:
        """The name of its actor in messages, with its process."""
        return f"{self._label} (pid {self.pid})" if self.pid else self._label

    @property
    def pid(self) -> int:
        """The worker's process id, or 0 while it is unknown."""
        return self._process.pid

    def watched_shares(self) -> dict[str, Share]:
        """Returns the shares that are watched during its life, by UUID of the device.

        The holder of a whole device harms no other worker. If the memory of a device is
        unknown, the size of a share is unknown, too.
        """
        if self.has_ended or not self.is_watched:
            return {}
        return {
            uuid: share
            for share in self.lease.shares
            if (uuid := share.device.uuid or "") in self.devices
            and share.units < UNITS
            and share.nbytes is not None
        }

    def owns(self, process: Listed) -> bool:
        """Whether a process is the worker, or descends from it."""
        if process.pid in self._seen:
            began, _ = self._seen[process.pid]
            return not process.lineage or process.began == began
        pid = self.pid
        return bool(pid) and (process.pid == pid or pid in process.lineage)

    def note(self, process: Listed) -> None:
        """Remembers a process that descends from it, if the process is visible."""
        if process.lineage:
            self._seen[process.pid] = process.began, process.name

    def name_of(self, process: Listed) -> str:
        """Returns the name of a process's program, even after its end; may be empty."""
        return process.name or self._seen.get(process.pid, (0, ""))[1]


@final
class Occupants:
    """The table, and all workers that have shares of devices, or whose shares drain.

    Attributes:
        latest: The rows of each device at the last look, by UUID.
    """

    def __init__(self) -> None:
        self.latest: dict[str, tuple[Listed, ...]] = {}
        self._by_key: dict[object, Occupant] = {}

    def __iter__(self) -> Iterator[Occupant]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    def items(self) -> list[tuple[object, Occupant]]:
        return list(self._by_key.items())

    def enter(self, key: object, occupant: Occupant) -> None:
        self._by_key[key] = occupant

    def find(self, key: object) -> Occupant | None:
        return self._by_key.get(key)

    def leave(self, key: object) -> None:
        self._by_key.pop(key, None)

    def owner_of(self, process: Listed) -> Occupant | None:
        return next((one for one in self if one.owns(process)), None)

    def holders(self, occupant: Occupant, ended_at: float) -> tuple[Holder, ...]:
        """Lists the processes that still have memory of the devices of an ended worker.

        They are the worker, the processes that were seen to descend from it, and those
        that were first listed after its end and are invisible here: they may be
        children that no look has seen. Processes that were invisible before its end are
        of another pid namespace and of an unknown worker, so they do not count. The
        same applies to memory in use without a listed process.

        ``ended_at`` is in seconds of the clock of the looks.
        """
        return tuple(
            Holder(name, process.pid, occupant.name_of(process), process.nbytes)
            for device, name in occupant.devices.items()
            for process in self.latest.get(device, ())
            if occupant.owns(process)
            or (process.is_strange and process.since >= ended_at)
        )

    def note(self, look: Mapping[str, tuple[Listed, ...]], now: float) -> None:
        """Updates the table.

        ``look`` contains the listed processes of each device, by UUID.
        """
        used = {one: Counter[str]() for one in self}
        unknown: set[tuple[Occupant, str]] = set()
        for device, listed in look.items():
            before = {
                (row.pid, row.began, row.is_ours): row.since
                for row in self.latest.get(device, ())
            }
            rows: list[Listed] = []
            for process in listed:
                owner = self.owner_of(process)
                key = process.pid, process.began, owner is not None
                since = before.get(key, now)
                rows.append(process._replace(is_ours=owner is not None, since=since))
                if owner is None:
                    continue
                owner.note(process)
                if process.nbytes is None:
                    unknown.add((owner, device))
                else:
                    used[owner][device] += process.nbytes
            self.latest[device] = tuple(rows)
        for one, amounts in used.items():
            for device in look.keys() & one.devices.keys():
                is_unknown = (one, device) in unknown
                one.used[device] = None if is_unknown else amounts[device]

    def describe(self, names: Mapping[str, str]) -> str:
        """Describes the users of devices, the largest first, for messages."""
        parts: list[str] = []
        for device, name in names.items():
            rows = sorted(
                self.latest.get(device, ()), key=lambda row: -(row.nbytes or 0)
            )
            each = [self._claim(row) for row in rows]
            parts.append(f"{name}: {', '.join(each) or 'nothing'}")
        return "; ".join(parts)

    def _claim(self, process: Listed) -> str:
        owner = self.owner_of(process)
        size = format_bytes(process.nbytes, UNKNOWN)
        if process.pid == UNLISTED:
            return f"a process that NVML does not list {size}"
        own = f"pid {process.pid}" + (f" ({process.name})" if process.name else "")
        if owner is None:
            who = f"{own}, not a worker of this program,"
        elif owner.pid == process.pid:
            who = owner.title
        else:
            who = f"{own} of {owner.title}"
        return f"{who} {size}"
