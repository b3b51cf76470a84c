"""A payload that lies in memory which its receiver has too."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

ALIGNED = 64
"""What the buffers of a payload begin at a multiple of."""
NAME = 16
"""The length of the name of a segment, which begins with who made it."""
block_id = struct.Struct(f">{NAME}sQ")
"""The name of a segment, and where a block begins in it."""


Buffer: TypeAlias = bytes | bytearray | memoryview
Payload: TypeAlias = "bytes | list[Buffer] | Shared"
"""What a frame carries: one piece, several that follow it, or where it lies."""


class Store(Protocol):
    """Where the payload lies."""

    def view(self, shared: Shared) -> memoryview:
        """The memory that it lies in, read-only; it holds the block while it lives."""
        ...

    def dropped(self, block: bytes) -> None:
        """Nobody was ever told of a block."""
        ...

    def may_show(self, name: bytes) -> bool:
        """Whether a segment can be shown to other processes from here."""
        ...


class Shared:
    """A payload that lies in a block.

    Attributes:
        segment: The name of its segment.
        start: Where it begins there.
        sizes: The bytes of its buffers: the pickle, then what lies outside of it.
        is_fresh: Whether nobody counts who holds its block yet: if it is dropped, the
            block is free.
    """

    __slots__ = ("_memory", "_whole", "is_fresh", "segment", "sizes", "start")

    def __init__(
        self,
        memory: Store,
        segment: bytes,
        start: int,
        sizes: tuple[int, ...],
        *,
        is_fresh: bool = False,
    ) -> None:
        self._memory = memory
        self.segment = segment
        self.start = start
        self.sizes = sizes
        self.is_fresh = is_fresh
        self._whole: memoryview | None = None

    def __del__(self) -> None:
        if self.is_fresh:
            self._memory.dropped(self.block)

    def __repr__(self) -> str:
        return f"<Shared {sum(self.sizes)} bytes at {self.start}>"

    @property
    def block(self) -> bytes:
        """The id of its block."""
        return block_id.pack(self.segment, self.start)

    @property
    def may_travel(self) -> bool:
        """Whether others may be told where it lies, and not only what is in it."""
        return self._memory.may_show(self.segment)

    def told(self) -> dict[str, Any]:
        """What a frame says of it; from here on its receiver counts."""
        self.is_fresh = False
        return {"segment": self.segment, "start": self.start, "sizes": self.sizes}

    def hold(self) -> None:
        """Holds its block for as long as this is there."""
        self._whole = self._memory.view(self)

    def buffers(self) -> Sequence[memoryview]:
        """Its buffers, read-only; its block is held while one of them lives."""
        whole, offset = self._whole or self._memory.view(self), 0
        views: list[memoryview] = []
        for size in self.sizes:
            views.append(whole[offset : offset + size])
            offset += aligned(size)
        return views


def aligned(nbytes: int) -> int:
    """The bytes that a buffer takes in a block: the next one begins aligned."""
    return -(-nbytes // ALIGNED) * ALIGNED
