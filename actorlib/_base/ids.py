"""The ids of actors, groups, objects and blocks: their kind, and who made them.

An id of any kind begins with the same sixteen bytes:

=======  ======================================================================
4 bytes  the runtime, to distinguish it from others on the machine
4 bytes  the process that made the id: 0 for the owner, else its session number
1 byte   the kind, such as ``ACTOR_KIND``
7 bytes  how many ids of that kind the process had made, including this one
=======  ======================================================================

The first eight are the prefix of a process. In the id of a block these sixteen bytes
name the block's segment, and its offset in the segment follows. The id includes the
kind, so the receiver of an id can count it without knowing where it comes from.
"""

from __future__ import annotations

import struct
from typing import Final, NewType, TypeAlias

ActorId = NewType("ActorId", bytes)
"""The id of an actor."""
NO_ACTOR = ActorId(b"")
"""The actor of a call of a function."""

ObjectId = NewType("ObjectId", bytes)
"""The id of the object behind a ref."""

CountedId: TypeAlias = bytes
"""The id of something that is reference-counted: an actor, an object, a block."""

ACTOR_KIND: Final = 1
GROUP_KIND: Final = 2
OBJECT_KIND: Final = 3
BLOCK_KIND: Final = 4

PREFIX_SIZE: Final = 8
ID_SIZE: Final = 16
KIND_AT: Final = PREFIX_SIZE
"""The offset of the kind in an id."""

LINKED: Final = 1 << 40
"""The lowest number of a call that came over a link. Its number is the session of the
caller times this constant, plus the caller's own number. So no two calls in one worker
have the same number. Observed calls have separate numbers, made in the same way."""

_prefix = struct.Struct(">4sI")
_COUNT_SIZE = ID_SIZE - PREFIX_SIZE - 1


def new_id(prefix: bytes, kind: int, count: int) -> bytes:
    """Makes an id; ``count`` includes it."""
    return prefix_of_kind(prefix, kind) + count.to_bytes(_COUNT_SIZE, "big")


def kind_of(some_id: bytes) -> int:
    return some_id[KIND_AT]


def maker_of(some_id: bytes) -> int:
    """Returns the process that made an id: 0 for the owner, else a session number."""
    maker: int = _prefix.unpack_from(some_id)[1]
    return maker


def prefix_of(runtime: bytes, maker: int) -> bytes:
    """Returns the first eight bytes of the ids that a process makes."""
    return _prefix.pack(runtime, maker)


def prefix_of_kind(prefix: bytes, kind: int) -> bytes:
    """Returns the first nine bytes of the ids of one kind that a process makes."""
    return prefix + bytes((kind,))
