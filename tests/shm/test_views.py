from __future__ import annotations

import gc
import mmap
from typing import TYPE_CHECKING, Any

import pytest

from actorlib._shm.views import ViewToken, address_of, read_only_view, view_token_class

if TYPE_CHECKING:
    from collections.abc import Iterator


class Told:
    """Mapped memory, and which parts of it were told to be gone."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, 8192)
        self.memory[:4] = b"abcd"
        self.address = address_of(self.memory)
        self.gone: list[bytes] = []
        self.last: type[ViewToken] = view_token_class(self.gone.append)

    def view(self, name: bytes, start: int = 0, nbytes: int = 4) -> memoryview:
        last = self.last(name)
        return read_only_view(self.memory, self.address + start, nbytes, last)


@pytest.fixture
def told() -> Iterator[Told]:
    told = Told()
    yield told
    gc.collect()


def test_view_when_it_is_looked_at_then_it_shows_the_part_read_only(told: Told) -> None:
    part = told.view(b"x", 1, 3)

    assert bytes(part) == b"bcd"
    assert part.readonly
    with pytest.raises(TypeError, match="read-only"):
        part[0] = 0


def test_view_when_parts_of_it_are_left_then_it_is_not_gone(told: Told) -> None:
    part = told.view(b"x")
    piece = memoryview(part)[1:2]
    del part
    before = list(told.gone)
    del piece

    assert before == []
    assert told.gone == [b"x"]


def test_view_when_the_map_is_dropped_then_it_still_shows_the_part(told: Told) -> None:
    part = told.view(b"x")
    del told.memory

    assert bytes(part) == b"abcd"


class Ring:
    """Garbage in a circle that looks at a view when it ends.

    Args:
        seen: Gets what it saw.
    """

    def __init__(self, seen: list[Any], gone: list[bytes]) -> None:
        self.seen, self.gone = seen, gone
        self.ring = self
        self.part = memoryview(b"")

    def __del__(self) -> None:
        self.seen.append((bytes(self.part), list(self.gone)))


@pytest.mark.parametrize("is_older", [True, False])
def test_view_when_it_is_in_garbage_then_it_is_gone_behind_every_destructor(
    told: Told,
    is_older: bool,  # noqa: FBT001  # a case
) -> None:
    seen: list[Any] = []
    part = told.view(b"x") if is_older else None
    ring = Ring(seen, told.gone)
    ring.part = told.view(b"x") if part is None else part
    del ring, part
    gc.collect()

    assert seen == [(b"abcd", [])]
    assert told.gone == [b"x"]
