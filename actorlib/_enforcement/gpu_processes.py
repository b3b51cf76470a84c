"""The table of device memory: which process has how much of which device, since when.

``gpu_watch`` fills it with what a driver lists; drains, features, ``ps`` and messages
read it, and ask no driver themselves.

A worker leads a session of its own, so what it starts is known by that, or by the chain
of its parents. When a worker is dead, what it had started is dead soon, and a process
that is gone says nothing of its origin: so whoever was seen to descend from a worker is
remembered with it.

A driver may list a process that cannot be seen from here: one of another pid namespace,
or one that has just ended and whose memory is not back yet.
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
"""The process id that stands for memory in use on a device where nobody is listed."""
UNKNOWN = "an unknown amount"
"""The words for memory of a size that the driver does not say."""


class Listed(NamedTuple):
    """A row of the table: a process that is listed on a device.

    Attributes:
        pid: Its process id, or UNLISTED.
        nbytes: Bytes of the device's memory that it has; None if nobody says.
        lineage: Itself, its group, its session and its ancestors, by process id; empty
            if no such process can be seen from here.
        began: When it began, in ticks of the kernel's clock; 0 if unknown.
        name: What its program is called; empty if unknown.
        is_ours: Whether it was a worker's at the look.
        since: Since when it is listed there as it is: a worker's or not, to be seen
            from here or not. In seconds of the clock of the looks.
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
        """Whether it is no worker's and cannot be seen."""
        return not (self.is_ours or self.lineage)


def merged(
    lists: Iterable[Iterable[tuple[int, int | None]]],
) -> dict[int, int | None]:
    """Joins lists of process ids with bytes: each process once, with the most it has.

    A process with compute and graphics contexts is in two lists, with the same memory.
    """
    found: dict[int, int | None] = {}
    for listed in lists:
        for pid, nbytes in listed:
            before = found.get(pid)
            if before is None or (nbytes is not None and nbytes > before):
                found[pid] = nbytes
    return found


def nvml_devices(lease: Lease) -> dict[str, str]:
    """Names the devices of a lease that NVML can be asked about, by their UUIDs."""
    return {
        share.device.uuid: f"{share.device.kind} {share.device.id}"
        for share in lease.shares
        if share.device.source == "NVML" and share.device.uuid
    }


@final
class Occupant:
    """A worker that has a share of devices, and all that was seen to descend from it.

    Args:
        label: What its actor is called.
        process: The worker.
        lease: What it holds.
        is_watched: Whether it is looked at while it lives, too. Default: True.

    Attributes:
        lease: As given, like is_watched.
        has_ended: Whether the worker has, and its share drains.
        devices: What the devices are called that NVML can be asked about, by UUID.
        used: Bytes of each that it had at the last look; None where nobody says.
    """

    __slots__ = (
        "_label",
        "_process",
        "_seen",
        "devices",
        "has_ended",
        "is_watched",
        "lease",
        "used",
    )

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
        # When each of them began: a process id comes again.
        self._seen: dict[int, tuple[int, str]] = {}

    def __repr__(self) -> str:
        return f"<Occupant {self.title}>"

    @property
    def title(self) -> str:
        """What its actor is called in messages, with its process."""
        return f"{self._label} (pid {self.pid})" if self.pid else self._label

    @property
    def pid(self) -> int:
        """The worker's process id, or 0 while it is unknown."""
        return self._process.pid

    def watched_shares(self) -> dict[str, Share]:
        """Lists the shares that are looked at while it lives, by UUID of the device.

        Whoever holds a whole device harms no other worker, and without the memory of a
        device nobody knows how much of that a share is.
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
        """Remembers a process of its own, if that can be seen now."""
        if process.lineage:
            self._seen[process.pid] = process.began, process.name

    def name_of(self, process: Listed) -> str:
        """What the program of a process is called, also after its end; may be empty."""
        return process.name or self._seen.get(process.pid, (0, ""))[1]


@final
class Occupants:
    """The table, and all workers that have a share of devices, or whose share drains.

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
        """Lists them with their keys."""
        return list(self._by_key.items())

    def enter(self, key: object, occupant: Occupant) -> None:
        """Takes one in, under a key of its own."""
        self._by_key[key] = occupant

    def find(self, key: object) -> Occupant | None:
        """Finds one by its key."""
        return self._by_key.get(key)

    def leave(self, key: object) -> None:
        """Forgets one: nothing of it is left."""
        self._by_key.pop(key, None)

    def owner_of(self, process: Listed) -> Occupant | None:
        """Finds whose a process is; None if it is nobody's here."""
        return next((one for one in self if one.owns(process)), None)

    def note(self, look: Mapping[str, tuple[Listed, ...]], now: float) -> None:
        """Takes note of what devices were seen to have on them.

        Args:
            look: What is listed on each device, by UUID.
            now: When, in seconds.
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
        """Says who has how much of which device, the most first, for people.

        Args:
            names: What those devices are called that are asked about, by UUID.
        """
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
            return f"somebody that NVML does not list {size}"
        own = f"pid {process.pid}" + (f" ({process.name})" if process.name else "")
        if owner is None:
            who = f"{own}, none of this program's workers,"
        elif owner.pid == process.pid:
            who = owner.title
        else:
            who = f"{own} of {owner.title}"
        return f"{who} {size}"
