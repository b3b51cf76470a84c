from __future__ import annotations

import gc
import mmap
from typing import TYPE_CHECKING, Any

import pytest

from actorlib._shm.views import ViewToken, address_of, read_only_view, view_token_class

if TYPE_CHECKING:
    from collections.abc import Iterator


class MappedMemory:
    """Maps memory, and notes the parts of it whose views are gone."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 8192)
        self.memory[:4] = b"abcd"
        self.address = address_of(self.memory)
        self.released: list[bytes] = []
        self.token_class: type[ViewToken] = view_token_class(self.released.append)

    def view(self, name: bytes, start: int = 0, nbytes: int = 4) -> memoryview:
        token = self.token_class(name)
        return read_only_view(self.memory, self.address + start, nbytes, token)


@pytest.fixture
def mapped() -> Iterator[MappedMemory]:
    mapped = MappedMemory()
    yield mapped
    gc.collect()


def test_view_when_it_is_looked_at_then_it_shows_the_part_read_only(
    mapped: MappedMemory,
) -> None:
    part = mapped.view(b"x", 1, 3)

    assert bytes(part) == b"bcd"
    assert part.readonly
    with pytest.raises(TypeError, match="read-only"):
        part[0] = 0


def test_view_when_parts_of_it_are_left_then_it_is_not_gone(
    mapped: MappedMemory,
) -> None:
    part = mapped.view(b"x")
    piece = memoryview(part)[1:2]
    del part
    before = list(mapped.released)
    del piece

    assert before == []
    assert mapped.released == [b"x"]


def test_view_when_the_map_is_dropped_then_it_still_shows_the_part(
    mapped: MappedMemory,
) -> None:
    part = mapped.view(b"x")
    del mapped.memory

    assert bytes(part) == b"abcd"


class Ring:
    """Garbage in a circle that looks at a view when it ends.

    Args:
        seen: Gets what it saw.
    """

    def __init__(self, seen: list[Any], gone: list[bytes]) -> None:
        self.seen, self.released = seen, gone
        self.ring = self
        self.part = memoryview(b"")

    def __del__(self) -> None:
        self.seen.append((bytes(self.part), list(self.released)))


@pytest.mark.parametrize("is_older", [True, False])
def test_view_when_it_is_in_garbage_then_it_is_gone_behind_every_destructor(
    mapped: MappedMemory,
    is_older: bool,  # noqa: FBT001  # a case
) -> None:
    seen: list[Any] = []
    part = mapped.view(b"x") if is_older else None
    ring = Ring(seen, mapped.released)
    ring.part = mapped.view(b"x") if part is None else part
    del ring, part
    gc.collect()

    assert seen == [(b"abcd", [])]
    assert mapped.released == [b"x"]
