"""Which streams go on and which are set aside, told with values."""

from __future__ import annotations

from typing import Any

import pytest

from actorlib._core.flow_control import UNREAD
from actorlib._wire.messages import CALL_WITH, STREAM_ACK
from actorlib._worker.generators import CUT_OFF, Stream, Streams, is_stream


def call(number: int, backpressure: int = 1) -> Any:
    return (CALL_WITH, number, "items", None, {"stream": backpressure}, b"")


@pytest.fixture
def woken() -> list[int]:
    return []


def streams_of(woken: list[int], cap: int = -1) -> Streams:
    return Streams(lambda frame: woken.append(frame[1]), cap)


def full(streams: Streams, number: int, backpressure: int = 1) -> Stream:
    stream = streams.begin(call(number, backpressure))
    while streams.may_go(stream):
        streams.put(stream, 1)
    return stream


def test_frame_when_it_calls_a_generator_then_it_says_so() -> None:
    assert is_stream(call(1))
    assert not is_stream((CALL_WITH, 1, "ping", None, {"group": "io"}, b""))


def test_stream_when_its_reader_takes_then_it_is_woken_once(woken: list[int]) -> None:
    streams = streams_of(woken)
    stream = full(streams, 1)
    streams.set_aside(stream)

    streams.told(1, 1)
    streams.told(1, 1)

    assert woken == [1]
    assert stream.wake[0] == STREAM_ACK
    assert streams.of(1) is stream


def test_stream_when_there_is_room_by_now_then_it_is_woken_at_once(
    woken: list[int],
) -> None:
    streams = streams_of(woken)
    stream = full(streams, 1)
    streams.told(1, 1)

    streams.set_aside(stream)

    assert woken == [1]


@pytest.mark.parametrize("how", ["dropped", "cancelled"])
def test_stream_when_left_then_it_may_go(woken: list[int], how: str) -> None:
    streams = streams_of(woken)
    stream = full(streams, 1)
    streams.set_aside(stream)

    if how == "dropped":
        streams.told(1, UNREAD)
    else:
        assert streams.cancel(1)

    assert woken == [1]
    assert streams.may_go(stream)


def test_stream_when_over_then_what_is_told_is_nothing(woken: list[int]) -> None:
    streams = streams_of(woken)
    full(streams, 1)
    streams.end(1)

    streams.told(1, 1)

    assert not streams.cancel(1)
    assert len(streams) == 0
    assert woken == []


def test_gen_012_finished_and_unread_items_count(woken: list[int]) -> None:
    streams = streams_of(woken, cap=2)
    full(streams, 1, backpressure=-1)
    streams.end(1)
    second = streams.begin(call(2, -1))
    assert not streams.may_go(second)
    streams.set_aside(second)

    streams.told(1, 1)

    assert woken == [2]


def test_gen_012_a_stream_with_nothing_to_read_keeps_its_share(
    woken: list[int],
) -> None:
    streams = streams_of(woken, cap=3)
    second = streams.begin(call(2, -1))
    first = full(streams, 1, backpressure=-1)

    assert first.ahead.unread == 2
    assert streams.may_go(second)
    streams.set_aside(first)
    streams.end(2)
    assert woken == [1]


def test_stand_still_when_nothing_was_taken_since_then_named(woken: list[int]) -> None:
    streams = streams_of(woken)
    behind, dropped, read, runs = (full(streams, n) for n in (1, 2, 3, 4))
    streams.told(2, UNREAD)
    for stream in (behind, read):
        streams.set_aside(stream)
    assert streams.stand_still() == []
    streams.told(3, 1)

    assert streams.stand_still() == [1, 2]
    streams.cancel(1, CUT_OFF)
    assert behind.ending == CUT_OFF
    assert dropped.ending is None
    assert runs.ending is None
