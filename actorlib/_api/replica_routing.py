"""Decides which replica gets a call: the one with the fewest, or the one of its key.

A call with a key goes to one replica. Rendezvous hashing (Thaler and Ravishankar, 1998)
ranks the slots for each key: if a slot is added, it gets an equal part of the keys of
each other slot, and if one is removed, only its keys move. Recent keys stay where they
are even if a slot is added: a bounded table has their slots.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from actorlib._base.validation import check_key

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

MOST_KEYS = 10_000
"""The number of recent keys whose slots are remembered."""
_DIGEST_SIZE = 16


def choose(loads: Sequence[int | None], turn: int) -> int | None:
    """Returns the index of a replica with the fewest calls without an answer.

    None if none accepts calls.

    Args:
        loads: The calls of each; None for one that accepts none now.
        turn: The index of the first comparison, so that equal replicas take turns.
    """
    count = len(loads)
    best = None
    least = 0
    for step in range(count):
        place = (turn + step) % count
        load = loads[place]
        if load is None or (best is not None and load >= least):
            continue
        best, least = place, load
        if not load:
            break
    return best


def digest_of(key: str | bytes | int) -> bytes:
    """Returns the digest of a key, which is the same in each process.

    Raises:
        TypeError: It is not a str, bytes or an int.
    """
    check_key("key", key)
    if isinstance(key, str):
        content = b"s" + key.encode("utf-8", "surrogatepass")
    elif isinstance(key, bytes):
        content = b"b" + key
    else:
        content = b"i" + hex(key).encode()
    return blake2b(content, digest_size=_DIGEST_SIZE).digest()


def rank_first(digest: bytes, slots: Iterable[int]) -> int:
    """Returns the slot that ranks first for a key, of at least one."""
    return max(slots, key=lambda slot: (_score(digest, slot), slot))


def _score(digest: bytes, slot: int) -> bytes:
    return blake2b(digest + slot.to_bytes(8, "big"), digest_size=8).digest()


class KeyTable:
    """The slots of the most recent keys.

    Args:
        most: The number of keys; beyond it, the one that was used longest ago is
            forgotten.
    """

    def __init__(self, most: int = MOST_KEYS) -> None:
        self._most = most
        self._slots: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def choose(
        self, digest: bytes, stays: Container[int], offers: Sequence[int]
    ) -> int | None:
        """Returns the slot of a key, and remembers it; None if there is none.

        Args:
            digest: The digest of the key.
            stays: The slots that keep the keys that they have.
            offers: The slots that new keys may get.
        """
        slot = self._slots.pop(digest, None)
        if slot is None or slot not in stays:
            if not offers:
                return None
            slot = rank_first(digest, offers)
        self._slots[digest] = slot
        if len(self._slots) > self._most:
            del self._slots[next(iter(self._slots))]
        return slot
