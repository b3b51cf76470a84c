"""Payloads of frames: bytes, buffers, or a place in memory that both sides have."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

ALIGNMENT = 64
"""Buffers of a payload begin at multiples of this."""
SEGMENT_NAME_SIZE = 16
"""The length of the name of a segment, which begins with who made it."""
BLOCK_ID_STRUCT = struct.Struct(f">{SEGMENT_NAME_SIZE}sQ")
"""The id of a block: the name of its segment, and where it begins there."""


Buffer: TypeAlias = bytes | bytearray | memoryview
Payload: TypeAlias = "bytes | list[Buffer] | SharedPayload"
"""The payload of a frame: one piece, several that follow it, or where it lies."""


class PayloadMemory(Protocol):
    """The shared memory of a process, as a payload that lies in it needs it."""

    def view(self, shared: SharedPayload) -> memoryview:
        """The memory that it lies in, read-only; it holds the block while it lives."""
        ...

    def drop(self, block: bytes) -> None:
        """Gives a block back that no other process knows of."""
        ...

    def can_show_segment(self, name: bytes) -> bool:
        """Whether a segment can be shown to other processes from here."""
        ...


class SharedPayload:
    """A payload that lies in a block of shared memory.

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
        memory: PayloadMemory,
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
            self._memory.drop(self.block)

    def __repr__(self) -> str:
        return f"<SharedPayload {sum(self.sizes)} bytes at {self.start}>"

    @property
    def block(self) -> bytes:
        """The id of the block that it lies in."""
        return BLOCK_ID_STRUCT.pack(self.segment, self.start)

    @property
    def is_forwardable(self) -> bool:
        """Whether others may be told where it lies, and not only what is in it."""
        return self._memory.can_show_segment(self.segment)

    def location(self) -> dict[str, Any]:
        """Where it lies, for a frame; from here on the receiver counts as a holder."""
        self.is_fresh = False
        return {"segment": self.segment, "start": self.start, "sizes": self.sizes}

    def hold(self) -> None:
        """Keeps its block from being freed for as long as this object lives."""
        self._whole = self._memory.view(self)

    def buffers(self) -> Sequence[memoryview]:
        """Its buffers, read-only; its block is held while one of them lives."""
        whole, offset = self._whole or self._memory.view(self), 0
        views: list[memoryview] = []
        for size in self.sizes:
            views.append(whole[offset : offset + size])
            offset += aligned_size(size)
        return views


def aligned_size(nbytes: int) -> int:
    """The bytes that a buffer takes in a block: the next one begins aligned."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
