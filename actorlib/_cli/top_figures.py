"""Rates and their history, from two samples of runtimes.

Pure: the samples have their times.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from actorlib._cli.device_meters import DeviceMeter
    from actorlib._cli.listing import Listing, RuntimeRow
    from actorlib._queries.rows import ActorStatus, Status
    from actorlib._rows.snapshot import DeviceInfo

LONGEST: Final = 120
"""The number of samples in the history."""
_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_BARS = "_.-=+*%#"


class Rates(NamedTuple):
    """Calls per second between two samples, by the id of an actor and by pid."""

    actors: dict[str, float]
    runtimes: dict[int, float]


class Sample(NamedTuple):
    """A sample, as the page shows it.

    Attributes:
        listing: The runtimes.
        rates: Calls per second since the sample before.
        history: Calls per second in the last samples, by the pid of a runtime.
        meters: The load of devices, from NVML.
        remarks: The runtimes that have ended meanwhile, the latest last.
        rest: The least seconds from its beginning to that of the next one.
    """

    listing: Listing
    rates: Rates
    history: Mapping[int, Sequence[float]]
    meters: Sequence[DeviceMeter]
    remarks: Sequence[str] = ()
    rest: float = 0.0


def rates_between(
    before: Sequence[Status], now: Sequence[Status], seconds: float
) -> Rates:
    """Returns the calls per second between the answers in two samples."""
    if seconds <= 0:
        return Rates({}, {})
    actors = (actor for status in before for actor in status.snapshot.actors)
    earlier = {actor.actor_id: actor.made_calls for actor in actors}
    pids_before = {status.pid for status in before}
    rates = Rates({}, {})
    for status in now:
        if status.pid not in pids_before:
            continue
        # All calls of an actor that was created meanwhile were made meanwhile.
        of_actors = {
            actor.actor_id: max(0, actor.made_calls - earlier.get(actor.actor_id, 0))
            / seconds
            for actor in status.snapshot.actors
        }
        rates.actors.update(of_actors)
        rates.runtimes[status.pid] = sum(of_actors.values(), 0.0)
    return rates


@final
class History:
    """Keeps the calls per second of each runtime in the last samples."""

    def __init__(self) -> None:
        self._lines: dict[int, deque[float]] = {}

    def add(self, rates: Rates, present: Collection[int]) -> None:
        """Adds a sample, and removes the runtimes that are not present."""
        for pid in set(self._lines) - set(present):
            del self._lines[pid]
        for pid, rate in rates.runtimes.items():
            self._lines.setdefault(pid, deque(maxlen=LONGEST)).append(rate)

    def copy(self) -> dict[int, list[float]]:
        """Returns the values of each runtime, the oldest first."""
        return {pid: list(line) for pid, line in self._lines.items()}


def sparkline(values: Sequence[float], width: int, *, is_plain: bool = False) -> str:
    """Draws the last ``width`` numbers from 0 on as bars, the latest on the right.

    If it is plain, only ASCII is used.
    """
    bars = _PLAIN_BARS if is_plain else _BARS
    latest = list(values)[-width:] if width > 0 else list[float]()
    top = max(latest, default=0.0)
    if top <= 0:
        return bars[0] * len(latest)
    # Each value above 0 is visible.
    return "".join(
        bars[min(len(bars) - 1, 1 + int(value / top * (len(bars) - 2)))]
        if value > 0
        else bars[0]
        for value in latest
    )


class DeviceLine(NamedTuple):
    """A device, and the part of it that the actors of all runtimes hold.

    Attributes:
        meter: Its load from NVML; None if NVML does not have it.
    """

    device: DeviceInfo
    granted: float
    meter: DeviceMeter | None


def device_lines(
    runtimes: Sequence[RuntimeRow], meters: Sequence[DeviceMeter]
) -> list[DeviceLine]:
    """Lists the devices of runtimes, each once; logical ones belong to one runtime."""
    devices: dict[tuple[str, str, int], tuple[DeviceInfo, float]] = {}
    for runtime in runtimes:
        for device in runtime.snapshot.devices:
            whose = runtime.pid if device.is_logical else 0
            key = device.kind, device.device, whose
            _, granted = devices.get(key, (device, 0.0))
            devices[key] = device, granted + 1 - device.available
    by_index = {str(meter.index): meter for meter in meters}
    return [
        DeviceLine(device, granted, _meter_of(device, meters, by_index))
        for device, granted in devices.values()
    ]


def _meter_of(
    device: DeviceInfo,
    meters: Sequence[DeviceMeter],
    by_index: Mapping[str, DeviceMeter],
) -> DeviceMeter | None:
    if device.is_logical or device.kind != "GPU":
        return None
    if device.device.isdecimal():
        # A program may number cards in another order; then the models usually differ.
        meter = by_index.get(device.device)
        return meter if meter and meter.model == device.model else None
    named = [m for m in meters if m.uuid and m.uuid.startswith(device.device)]
    return named[0] if len(named) == 1 else None


def all_actors(listing: Listing) -> list[ActorStatus]:
    return [actor for runtime in listing.runtimes for actor in runtime.actors]
