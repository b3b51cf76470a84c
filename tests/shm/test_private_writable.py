"""What may be written is this process's own, and shared until then."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from actorlib._shm.segments import ForeignSegment, Segment
from actorlib._shm.views import ViewToken, private_writable

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = os.sysconf("SC_PAGESIZE")


@pytest.fixture
def segment() -> Iterator[Segment]:
    segment = Segment(b"n" * 12, 8 * PAGE)
    segment.touch(8 * PAGE)
    segment.writable_part(0, 8 * PAGE)[:] = bytes(range(256)) * (8 * PAGE // 256)
    yield segment
    if segment.fd >= 0:
        segment.close()
    del segment._memory  # it has a descriptor of its own while it is mapped


class Released(ViewToken):
    """Notes the names of parts whose views are gone."""

    names: list[bytes] = []  # noqa: RUF012  # emptied by each test

    def on_release(self) -> None:
        """Takes note."""
        self.names.append(bytes(self))


@pytest.mark.parametrize("start", [0, PAGE, PAGE + 64, 3 * PAGE - 1])
def test_writable_when_a_view_begins_anywhere_then_its_bytes_are_there(
    segment: Segment, start: int
) -> None:
    part = segment.view(start, 2 * PAGE, ViewToken(b"x"))

    assert bytes(private_writable(part)) == bytes(part)
    assert bytes(private_writable(part[70:90])) == bytes(part[70:90])


def test_writable_when_it_is_written_then_nobody_else_sees_it(segment: Segment) -> None:
    shown = ForeignSegment(os.dup(segment.fd), segment.size)
    shown.map()
    theirs = shown.view(0, PAGE, ViewToken(b"x"))
    own, other = private_writable(theirs), memoryview(private_writable(theirs))
    memoryview(own)[:4] = b"mine"

    assert bytes(own[:5]) == b"mine\4"
    assert bytes(theirs[:5]) == bytes(other[:5]) == bytes(range(5))
    assert bytes(segment.writable_part(0, 5)) == bytes(range(5))
    shown.close()
    del shown._memory


def test_writable_when_it_lives_then_what_it_shows_is_held(segment: Segment) -> None:
    Released.names.clear()
    own = memoryview(private_writable(segment.view(0, PAGE, Released(b"block"))))
    piece = own[3:4]
    del own
    before = list(Released.names)
    del piece

    assert before == []
    assert Released.names == [b"block"]


def test_writable_when_the_file_is_closed_then_it_is_a_copy(segment: Segment) -> None:
    part = segment.view(0, 16, ViewToken(b"x"))
    segment.close()
    own = private_writable(part)
    memoryview(own)[0] = 9

    assert type(own) is bytearray
    assert bytes(own[1:]) == bytes(part[1:])
    assert part[0] == 0


def test_writable_when_nothing_is_shared_then_bytes_are_copied_and_others_are_not() -> (
    None
):
    data = bytearray(b"abc")
    own = private_writable(memoryview(b"abc"))
    memoryview(own)[0] = 0

    assert bytes(own) == b"\0bc"
    assert memoryview(private_writable(memoryview(data))).obj is data
