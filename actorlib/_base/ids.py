"""The ids of actors, groups, objects and blocks: what each is of, and who made it.

An id begins with the same sixteen bytes, whatever it names:

=======  =====================================================================
4 bytes  the runtime, told from others of the machine
4 bytes  the process that made it: 0 for the owner, else its session's number
1 byte   the kind of thing it is of, such as ``ACTOR_KIND``
7 bytes  how many of that kind the process had made, with this one
=======  =====================================================================

The first eight are the prefix of a process. In the id of a block these sixteen name the
block's segment, and its offset in the segment follows. An id tells its kind by itself,
so whoever receives one can count it without knowing where it comes from.
"""

from __future__ import annotations

import struct
from typing import Final, NewType, TypeAlias

ActorId = NewType("ActorId", bytes)
"""The id of an actor."""
NO_ACTOR = ActorId(b"")
"""The actor of a call that is a function's."""

ObjectId = NewType("ObjectId", bytes)
"""The id of what a ref stands for."""

CountedId: TypeAlias = bytes
"""The id of something that is reference-counted: an actor, an object, a block."""

ACTOR_KIND: Final = 1
GROUP_KIND: Final = 2
OBJECT_KIND: Final = 3
BLOCK_KIND: Final = 4

PREFIX_SIZE: Final = 8
ID_SIZE: Final = 16
KIND_AT: Final = PREFIX_SIZE
"""Where in an id its kind stands."""

LINKED: Final = 1 << 40
"""The least number of a call that came over a link: the session of its caller times
this, and the caller's own number of it. So no two calls in one worker have the same.
Observed calls have numbers of their own, made in the same way."""

_prefix = struct.Struct(">4sI")
_COUNT_SIZE = ID_SIZE - PREFIX_SIZE - 1


def new_id(prefix: bytes, kind: int, count: int) -> bytes:
    """Makes an id.

    Args:
        prefix: That of the process that makes it.
        kind: What it is of, such as ``ACTOR_KIND``.
        count: How many of that kind the process has made, with this one.
    """
    return prefix_of_kind(prefix, kind) + count.to_bytes(_COUNT_SIZE, "big")


def kind_of(made: bytes) -> int:
    """The kind of thing that an id is of."""
    return made[KIND_AT]


def maker_of(made: bytes) -> int:
    """The process that made an id: 0 for the owner, else a session's number."""
    maker: int = _prefix.unpack_from(made)[1]
    return maker


def prefix_of(runtime: bytes, maker: int) -> bytes:
    """The first eight bytes of the ids of what a process makes.

    Args:
        runtime: Four bytes that tell this runtime from others of the machine.
        maker: 0 for the owner, else the number of the worker's session.
    """
    return _prefix.pack(runtime, maker)


def prefix_of_kind(prefix: bytes, kind: int) -> bytes:
    """The first nine bytes of the ids of one kind of thing that a process makes."""
    return prefix + bytes((kind,))
