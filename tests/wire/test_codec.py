from __future__ import annotations

import contextlib
import itertools
import tracemalloc
from typing import TYPE_CHECKING, Any

import msgpack
import pytest
from helpers.frames import comparable, written
from hypothesis import assume, example, given
from hypothesis import strategies as st

from actorlib._wire import codec
from actorlib._wire.codec import FrameDecoder, are_scalars, encode, encode_with_borrowed
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actorlib._wire.messages import Frame

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
)
fields = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(
            st.text(max_size=5) | st.binary(max_size=5), inner, max_size=3
        )
    ),
    max_leaves=6,
)
large = st.lists(st.binary(max_size=300), min_size=1, max_size=4)
payloads = st.binary(max_size=50) | large
frames = st.builds(
    lambda kind, middle, payload: (kind, *middle, payload),
    st.integers(0, 11),
    st.lists(fields, max_size=4),
    payloads,
)
streams = st.lists(frames, min_size=1, max_size=4)
cuts = st.lists(st.integers(1, 400), min_size=1, max_size=30)


def chunks(data: bytes, sizes: Sequence[int]) -> Iterable[bytes]:
    """The data in pieces of these sizes, again and again."""
    start, turn = 0, 0
    while start < len(data):
        size = sizes[turn % len(sizes)]
        yield data[start : start + size]
        start, turn = start + size, turn + 1


# There and back.


@given(streams)
def test_feed_when_byte_by_byte_then_each_frame_as_soon_as_it_is_whole(
    sent: list[Frame],
) -> None:
    decoder = FrameDecoder()
    for frame in sent:
        *but_last, last = written(frame)

        assert decoder.feed(bytes(but_last)) == []
        assert comparable(decoder.feed(bytes([last]))) == [frame]


@given(st.lists(streams, min_size=1, max_size=3), cuts)
def test_feed_when_decoders_take_turns_then_each_has_its_own(
    sent: list[list[Frame]], sizes: list[int]
) -> None:
    decoders = [FrameDecoder() for _ in sent]
    found: list[list[Frame]] = [[] for _ in sent]
    pieces = [chunks(written(*its), sizes) for its in sent]
    for turn in itertools.zip_longest(*pieces):
        for decoder, frames, piece in zip(decoders, found, turn, strict=True):
            if piece:
                frames.extend(decoder.feed(piece))

    assert [comparable(frames) for frames in found] == sent


# Large payloads.


def test_encode_when_the_payload_is_large_then_its_buffers_are_not_copied() -> None:
    buffer = bytearray(b"x" * 100)

    _, piece = encode((4, 1, None, [buffer]))
    buffer[0] = ord("y")

    assert bytes(piece[:1]) == b"y"


@pytest.mark.parametrize(
    "buffers",
    [
        *([b""], [b"", b""], [b"", b"a", b""], [b"a", b"", b"b"]),
        [b"a" * 100_000, b"", b"b" * 70_000],
        [b"x", b""] * 5000,
        *([memoryview(bytearray(48)).cast(code)] for code in "idB"),
    ],
    ids=lambda buffers: "-".join(str(len(buffer)) for buffer in buffers[:3]),
)
def test_feed_when_payloads_are_large_then_all_buffers_arrive_and_can_be_written_to(
    buffers: list[bytes],
) -> None:
    sent = [(4, n, None, buffers) for n in range(3)] + [(4, 3, None, b"after")]

    found = FrameDecoder().feed(written(*sent))

    assert isinstance(found[0][-1][-1], bytearray)
    expected = [bytes(buffer) for buffer in buffers]
    assert comparable(found) == [*((*f[:-1], expected) for f in sent[:3]), sent[3]]


def test_wants_when_a_payload_is_half_there_then_more_than_else() -> None:
    decoder = FrameDecoder()
    usual = decoder.read_size

    decoder.feed(written((4, 1, None, [b"x" * 100]))[:-30])

    assert decoder.read_size > usual
    assert decoder._incomplete is not None
    decoder.feed(b"x" * 30)
    assert decoder.read_size == usual
    assert decoder._incomplete is None


@given(fields)
def test_encode_when_a_frame_cannot_be_sent_then_the_next_one_can(field: Any) -> None:
    with pytest.raises(TypeError):
        encode((3, field, object(), b""))

    sent = (3, field, b"next")

    assert FrameDecoder().feed(written(sent)) == [sent]


def test_encode_when_a_text_has_half_of_a_surrogate_pair_then_it_is_escaped() -> None:
    half, payload = "a\udc80b", [b"x" * 100]

    for frame in [
        (3, half, {"said": half}, b"", half),
        (3, half, [b"lent"], payload),
    ]:
        (arrived,) = comparable(FrameDecoder().feed(written(frame)))
        assert arrived[1] == "a\\udc80b"
        assert half not in arrived
    assert arrived[-1] == payload


# What a frame claims is believed as far as it has come.


def peak_of(data: bytes) -> int:
    """The bytes that a decoder has at the most of what was fed to it."""
    decoder = FrameDecoder()
    tracemalloc.start()
    try:
        with contextlib.suppress(ProtocolError):
            decoder.feed(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "claim",
    [
        msgpack.packb((4, 1, None, (2**31,))),
        msgpack.packb((4, 1, None, (2**62,))),
        msgpack.packb((4, 1, None, (2**20,) * 4000)),
        b"\x94\x04\x01\xc0\xdd\xff\xff\xff\xff",
        b"\x94\x04\x01\xdf\xff\xff\xff\xff",
        b"\x94\x04\x01\xc6\xff\xff\xff\xf0",
    ],
)
def test_feed_when_a_frame_claims_much_then_little_is_taken_for_it(
    claim: bytes,
) -> None:
    assert peak_of(claim) < 3 << 20


def test_feed_when_claims_stand_inside_of_one_another_then_they_have_an_end() -> None:
    assert peak_of(b"\xdc\x10\x00" * 1000) < 40 << 20


# What is longer than a tuple may be travels in parts.


@pytest.mark.parametrize("count", [codec.MAX_ITEMS, codec.MAX_ITEMS + 1, 100_000])
@pytest.mark.parametrize("payload", [b"", [b"a" * 9, b"b"]])
def test_encode_lending_when_much_is_lent_then_it_arrives(
    count: int, payload: Any
) -> None:
    lent = [bytes([n % 256]) * 12 for n in range(count)]
    sent = [(12, b"", True, lent, payload), (4, 1, None, b"after")]
    data = encode_with_borrowed(sent[0])
    if not isinstance(data, bytes):
        data = b"".join(map(bytes, data))
    data += written(*sent[1:])
    sent[0] = (12, b"", True, tuple(lent), payload)

    assert comparable(FrameDecoder().feed(data)) == sent
    decoder = FrameDecoder()
    found = [f for piece in chunks(data, [997]) for f in decoder.feed(piece)]
    assert comparable(found) == sent


@pytest.mark.parametrize("at", [-1, 0, 3, 9, "a", None, 1.5])
def test_feed_when_what_is_lent_is_in_no_frame_then_protocol_error(at: Any) -> None:
    lent = msgpack.packb(({"borrowed": (), "at": at},))

    with pytest.raises(ProtocolError):
        FrameDecoder().feed(lent + written((4, 1, None, b"")))


# What is no frame.


@given(st.binary(max_size=200))
@example(b"\x80")  # an empty map
@example(b"\xa3abc")  # a text
@example(b"\xc4\x01a")  # bytes
@example(b"\x90")  # an empty tuple
@example(b"\x01")  # a number
@example(b"\xc0")  # None
@example(b"\xc1")  # what msgpack never uses
@example(b"\xd4\x05a")  # an extension
@example(b"\xd6\xff\x00\x00\x00\x00")  # a point in time
@example(b"\x91" * 5000)  # deeper than anybody needs
@example(msgpack.packb((4, 1, (2**63,))))  # a payload of more than can be counted
@example(msgpack.packb((4, 1, (2**62,))))  # a payload larger than any memory
@example(msgpack.packb((4, 1, (-1,))))
@example(msgpack.packb((4, 1, ("a",))))
@example(msgpack.packb((4, 1, ())))
@example(msgpack.packb({1: 2, -1: ()}))
def test_feed_when_garbage_comes_then_frames_or_protocol_error(garbage: bytes) -> None:
    try:
        found = FrameDecoder().feed(garbage)
    except ProtocolError:
        return

    assert all(type(frame) is tuple and frame for frame in found)


@given(streams, st.binary(min_size=1, max_size=5), st.integers(0, 400))
def test_feed_when_garbage_is_among_frames_then_nothing_but_protocol_error(
    sent: list[Frame], garbage: bytes, place: int
) -> None:
    data = written(*sent)
    at = place % len(data)

    with contextlib.suppress(ProtocolError):
        FrameDecoder().feed(data[:at] + garbage + data[at:])


# Scalars.

anything = (
    scalars
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=300)
    | fields
)


@given(st.lists(anything, max_size=18).map(tuple))
@example((2**64,))
@example((-(2**63) - 1,))
@example(("\ud800",))
@example(("x" * 256,))
@example(("x" * 257,))
@example((0.0,) * 16)
@example((0.0,) * 17)
@example((b"",))
@example((float("nan"), -0.0, True))
def test_scalars_when_they_are_then_they_arrive_in_a_frame_as_they_are(
    values: tuple[Any, ...],
) -> None:
    assume(are_scalars(values))

    [frame] = FrameDecoder().feed(written((1, "name", *values)))

    assert [*map(type, frame[2:])] == [*map(type, values)]
    assert repr(frame[2:]) == repr(values)
    assert {*map(type, values)} <= codec.SCALARS


class Whole(int):
    """A subclass, which would arrive as its base."""


@pytest.mark.parametrize(
    "value",
    [2**64, -(2**63) - 1, "\ud800", "\u00e4", "x" * 257, b"", [1], (), {}, Whole(1)],
)
def test_scalars_when_one_may_not_arrive_as_it_is_then_they_are_none(
    value: object,
) -> None:
    assert are_scalars((1,))
    assert not are_scalars((1, value))
    assert not are_scalars((1,) * 17)
