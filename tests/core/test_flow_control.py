from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actorlib._futures.flow_control import (
    DEFAULT,
    UNLIMITED,
    UNREAD,
    Bounds,
    ReceiveWindow,
    SendWindow,
    bounds_of,
)


def test_bounds_when_nothing_is_said_then_items_and_bytes_are_bounded() -> None:
    assert bounds_of(0) == DEFAULT
    assert bounds_of(8) == Bounds(8, UNLIMITED)
    assert bounds_of(-1) == Bounds(UNLIMITED, UNLIMITED)


def test_ahead_when_nobody_reads_then_nothing_is_unread() -> None:
    ahead = SendWindow(Bounds(1, UNLIMITED))
    ahead.put(1)

    ahead.took(UNREAD)

    assert not ahead.is_read
    assert ahead.unread == 0
    assert repr(ahead) == "<SendWindow 1 sent, unread>"


def test_ahead_when_a_reader_has_taken_what_is_sent_again_then_there_is_room() -> None:
    ahead = SendWindow(Bounds(2, 10))
    ahead.put(5)

    ahead.took(7)  # of the call's first run

    for _ in range(7):
        assert ahead.has_room
        ahead.put(0)


def test_tally_when_half_was_taken_then_it_tells() -> None:
    tally = ReceiveWindow(Bounds(4, UNLIMITED))

    assert [tally.took(1) for _ in range(4)] == [False, True, False, True]
    assert tally.count == 4


def test_tally_when_others_wait_then_it_acks_each() -> None:
    tally = ReceiveWindow(Bounds(UNLIMITED, UNLIMITED), acks_each=True)

    assert tally.took(1)
    assert tally.took(1)


@given(
    bounds=st.builds(Bounds, st.integers(1, 9), st.just(-1) | st.integers(1, 50)),
    sizes=st.lists(st.integers(0, 60), max_size=40),
    reads=st.lists(st.booleans(), max_size=80),
)
def test_window_when_items_go_and_are_taken_then_it_has_room_below_its_bounds(
    bounds: Bounds, sizes: list[int], reads: list[bool]
) -> None:
    ahead, tally = SendWindow(bounds), ReceiveWindow(bounds)
    sent: list[int] = []
    unread: list[int] = []

    def take() -> None:
        if tally.took(sent.pop(0)):
            ahead.took(tally.count)
            unread[:] = sent

    for reads_first in reads:
        if reads_first and sent:
            take()
        elif sizes and ahead.has_room:
            sent.append(sizes.pop())
            unread.append(sent[-1])
            ahead.put(sent[-1])
        has_room = len(unread) < bounds.items
        if bounds.nbytes != UNLIMITED:
            has_room = has_room and sum(unread) < bounds.nbytes
        assert ahead.has_room == has_room
        assert ahead.unread == len(unread)
    while sent:
        take()

    assert ahead.has_room
