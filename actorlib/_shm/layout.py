"""Says how values lie in shared memory: ids of blocks, and where buffers begin."""

from __future__ import annotations

import struct
from typing import TypeAlias

ALIGNMENT = 64
"""Buffers of a payload begin at multiples of this."""
SEGMENT_NAME_SIZE = 16
"""The length of the name of a segment, which begins with who made it."""
BLOCK_ID_STRUCT = struct.Struct(f">{SEGMENT_NAME_SIZE}sQ")
"""The id of a block: the name of its segment, and where it begins there."""


Buffer: TypeAlias = bytes | bytearray | memoryview
"""A piece of memory, of 1-D contiguous bytes."""


def aligned_size(nbytes: int) -> int:
    """The bytes that a buffer takes in a block: the next one begins aligned."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
