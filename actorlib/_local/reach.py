"""Which devices a request may get, and which are spoken for: by makes where it can be.

Who asks for an H100 may get all of them, and bars them all to those behind. Said device
by device, each look at the line would take as long as there are devices.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple, cast, final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from actorlib._local.where import Make


class Reach(NamedTuple):
    """Devices that a request may get: all of some makes, or single ones.

    Of a hundred thousand devices of four makes the makes are four.

    Attributes:
        makes: The makes.
        indices: The indices of the others.
    """

    makes: frozenset[Make]
    indices: frozenset[int]


@final
class Barred(Collection[int]):
    """The indices of devices that are spoken for, kept by makes where it can be.

    Args:
        by_make: The indices of the devices of each make.
        make_of: The make of each device.

    Attributes:
        makes: The makes of which no device is left.
        indices: Single devices, of any make.
    """

    __slots__ = ("_by_make", "_left", "_make_of", "indices", "makes")

    def __init__(
        self, by_make: Mapping[Make, Sequence[int]], make_of: Mapping[int, Make]
    ) -> None:
        self._by_make = by_make
        self._make_of = make_of
        self._left = {make: len(each) for make, each in by_make.items()}
        self.makes: set[Make] = set()
        self.indices: set[int] = set()

    def __contains__(self, index: object) -> bool:
        return (
            index in self.indices or self._make_of.get(cast("int", index)) in self.makes
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[int]:
        for make in self.makes:
            yield from self._by_make[make]
        yield from (i for i in self.indices if self._make_of[i] not in self.makes)

    @property
    def are_all(self) -> bool:
        """Whether nothing is left."""
        return len(self.makes) == len(self._left)

    def add(self, reach: Reach) -> None:
        """Bars what a request may get."""
        self.makes |= reach.makes
        for index in reach.indices - self.indices:
            self.indices.add(index)
            make = self._make_of[index]
            self._left[make] -= 1
            if not self._left[make]:
                self.makes.add(make)

    def covers(self, reach: Reach) -> bool:
        """Whether nothing is left of what a request may get."""
        return reach.makes <= self.makes and all(i in self for i in reach.indices)
