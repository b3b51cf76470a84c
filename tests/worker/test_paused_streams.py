"""Streams that a worker makes: which go on and which are paused, from values."""

from __future__ import annotations

from typing import Any

import pytest

from actorlib._futures.flow_control import UNREAD
from actorlib._wire.messages import CALL_WITH, STREAM_ACK
from actorlib._worker.executors.generators import (
    CUT_OFF,
    OutgoingStream,
    OutgoingStreams,
    is_stream,
)


def call(number: int, backpressure: int = 1) -> Any:
    return (CALL_WITH, number, "items", None, {"stream": backpressure}, b"")


@pytest.fixture
def woken() -> list[int]:
    return []


def streams_of(woken: list[int], cap: int = -1) -> OutgoingStreams:
    return OutgoingStreams(lambda frame: woken.append(frame[1]), cap)


def full(
    streams: OutgoingStreams, number: int, backpressure: int = 1
) -> OutgoingStream:
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
    streams.pause(stream)

    streams.acknowledge(1, 1)
    streams.acknowledge(1, 1)

    assert woken == [1]
    assert stream.wake_frame[0] == STREAM_ACK
    assert streams.of(1) is stream


def test_stream_when_there_is_room_by_now_then_it_is_woken_at_once(
    woken: list[int],
) -> None:
    streams = streams_of(woken)
    stream = full(streams, 1)
    streams.acknowledge(1, 1)

    streams.pause(stream)

    assert woken == [1]


@pytest.mark.parametrize("how", ["dropped", "cancelled"])
def test_stream_when_left_then_it_may_go(woken: list[int], how: str) -> None:
    streams = streams_of(woken)
    stream = full(streams, 1)
    streams.pause(stream)

    if how == "dropped":
        streams.acknowledge(1, UNREAD)
    else:
        assert streams.cancel(1)

    assert woken == [1]
    assert streams.may_go(stream)


def test_stream_when_over_then_what_is_told_is_nothing(woken: list[int]) -> None:
    streams = streams_of(woken)
    full(streams, 1)
    streams.end(1)

    streams.acknowledge(1, 1)

    assert not streams.cancel(1)
    assert len(streams) == 0
    assert woken == []


def test_finished_and_unread_items_count(woken: list[int]) -> None:
    streams = streams_of(woken, cap=2)
    full(streams, 1, backpressure=-1)
    streams.end(1)
    second = streams.begin(call(2, -1))
    assert not streams.may_go(second)
    streams.pause(second)

    streams.acknowledge(1, 1)

    assert woken == [2]


def test_a_stream_with_nothing_to_read_keeps_its_share(
    woken: list[int],
) -> None:
    streams = streams_of(woken, cap=3)
    second = streams.begin(call(2, -1))
    first = full(streams, 1, backpressure=-1)

    assert first.window.unread == 2
    assert streams.may_go(second)
    streams.pause(first)
    streams.end(2)
    assert woken == [1]


def test_stalled_when_nothing_was_taken_since_then_named(woken: list[int]) -> None:
    streams = streams_of(woken)
    behind, dropped, read, runs = (full(streams, n) for n in (1, 2, 3, 4))
    streams.acknowledge(2, UNREAD)
    for stream in (behind, read):
        streams.pause(stream)
    assert streams.stalled() == []
    streams.acknowledge(3, 1)

    assert streams.stalled() == [1, 2]
    streams.cancel(1, CUT_OFF)
    assert behind.end_reason == CUT_OFF
    assert dropped.end_reason is None
    assert runs.end_reason is None
