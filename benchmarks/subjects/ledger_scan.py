"""What one writes first: a list of what each device has free, scanned for the best.

It packs and spreads, gives whole devices and chooses by type. Its machine is filled
device after device and not by its own decisions, which would take minutes; a scan
takes as long whatever it finds.
"""

from collections.abc import Iterator, Sequence

from benchmarks.subjects._decisions import (
    SHARES,
    SPREAD,
    Load,
    churn,
    rate,
    some_asks,
    up_to,
)
from benchmarks.subjects._report import arguments, report

_UNITS = 10_000
_TYPES = 4

_Lease = tuple[list[int], int]
"""Which devices, and how much of each."""


class _Scan:
    """A ledger of devices; the type of each is its index modulo the types."""

    def __init__(self, devices: int) -> None:
        self._free = [_UNITS] * devices

    def fill(self, asks: Sequence[int], *, spread: bool) -> Iterator[_Lease]:
        """Grants without choosing: to each what it asks, device after device."""
        place = 0
        for units in asks:
            each = min(units, _UNITS)
            found: list[int] = []
            while len(found) < max(1, units // _UNITS):
                if self._free[place] < each:
                    place += 1
                self._free[place] -= each
                found.append(place)
                place = (place + spread) % len(self._free)
            yield found, each

    def pack(self, units: int) -> _Lease | None:
        """The device with the least that is enough; several whole ones, the first."""
        free = self._free
        if units > _UNITS:
            whole = [index for index, level in enumerate(free) if level == _UNITS]
            return self._take(whole[: units // _UNITS], units)
        best = -1
        for index, level in enumerate(free):
            if level >= units and (best < 0 or level < free[best]):
                best = index
        return self._take([best] if best >= 0 else [], units)

    def spread(self, units: int) -> _Lease | None:
        """The device with the most."""
        free = self._free
        best = max(range(len(free)), key=free.__getitem__)
        return self._take([best] if free[best] >= units else [], units)

    def of_type(self, units: int, kind: int) -> _Lease | None:
        """The device of a type with the least that is enough."""
        free, best = self._free, -1
        for index, level in enumerate(free):
            if level < units or index % _TYPES != kind:
                continue
            if best < 0 or level < free[best]:
                best = index
        return self._take([best] if best >= 0 else [], units)

    def release(self, lease: _Lease) -> None:
        """Takes a lease back."""
        for index in lease[0]:
            self._free[index] += lease[1]

    def _take(self, found: list[int], units: int) -> _Lease | None:
        if len(found) < max(1, units // _UNITS):
            return None
        each = min(units, _UNITS)
        for index in found:
            self._free[index] -= each
        return found, each


def _measured(load: Load) -> dict[str, float]:
    situations: dict[str, tuple[str, Sequence[float]]] = {
        "shares": ("pack", SHARES),
        "one": ("pack", (1.0,)),
        "two": ("pack", (2.0,)),
        "spread": ("spread", SPREAD),
        "types": ("of_type", (0.25, 0.5, 1.0)),
    }
    metrics: dict[str, float] = {}
    for name, (method, amounts) in situations.items():
        scan = _Scan(load.devices)
        asks = some_asks(amounts, load.devices)
        first = [round(ask * _UNITS) for ask in up_to(load.devices / 2, asks)]
        held = list(scan.fill(first, spread=method == "spread"))
        turns = [
            (round(ask * _UNITS), *((turn % _TYPES,) if method == "of_type" else ()))
            for turn, ask in enumerate(asks)
        ]
        block = churn(getattr(scan, method), scan.release, held, turns)
        metrics[name] = rate(block, load.seconds)
    return metrics


if __name__ == "__main__":
    report(_measured(Load(**arguments())))
