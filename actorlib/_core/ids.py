"""The ids of actors and of objects, and which process made them."""

from __future__ import annotations

import struct
from typing import NewType, TypeAlias

ActorId = NewType("ActorId", bytes)
"""Twelve bytes: the runtime, the process that made the actor, its count there."""

ObjectId = NewType("ObjectId", bytes)
"""Sixteen bytes: the runtime, the process that made the object, its count there."""
OBJECT_ID = 16

LoanId: TypeAlias = bytes
"""What is counted while others hold it: an actor, an object, a block of memory."""

_id = struct.Struct(">4sII")


def actor_id(runtime: bytes, maker: int, count: int) -> ActorId:
    """The id of an actor.

    Args:
        runtime: Four bytes that tell this runtime from others of the machine.
        maker: 0 for the owner, else the number of the worker's session.
        count: How many actors its maker had made with it.
    """
    return ActorId(_id.pack(runtime, maker, count))


def maker_of(actor: ActorId) -> int:
    """Which process made an actor: 0 for the owner, else a session's number."""
    maker: int = _id.unpack(actor)[1]
    return maker


def prefix_of(runtime: bytes, maker: int) -> bytes:
    """The first eight bytes of the ids of what a process makes."""
    return _id.pack(runtime, maker, 0)[:8]
