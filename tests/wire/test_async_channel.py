from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from helpers.turns import in_time, next_turn
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlib._wire.async_channel import AsyncChannel
from actorlib._wire.codec import FrameDecoder, encode
from actorlib._wire.messages import CALL, READY, RESULT
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib._wire.messages import Frame

pytestmark = pytest.mark.usefixtures("on_both_loops")

MIB = 1024**2


class End:
    """A channel, what it received, and how it was lost."""

    def __init__(self, sock: socket.socket, **settings: Any) -> None:
        loop = asyncio.get_running_loop()
        self.frames: list[Frame] = []
        self.lost: list[Exception | None] = []
        self._gone: asyncio.Future[None] = loop.create_future()
        self._wanted = 0
        self._there: asyncio.Future[None] | None = None
        self.channel = AsyncChannel(loop, sock, self._receive, self._lose, **settings)

    async def received(self, count: int) -> list[Frame]:
        """Waits until so many frames have come."""
        if len(self.frames) < count:
            self._wanted = count
            self._there = asyncio.get_running_loop().create_future()
            async with in_time():
                await self._there
        return told(self.frames)

    async def gone(self) -> None:
        """Waits until the other side is lost."""
        async with in_time():
            await self._gone

    def _receive(self, frames: list[Frame]) -> None:
        self.frames += frames
        if self._there is not None and len(self.frames) >= self._wanted:
            self._there.set_result(None)
            self._there = None

    def _lose(self, error: Exception | None) -> None:
        self.lost.append(error)
        self._gone.set_result(None)


class Pair:
    """Two ends of one pipe: channels where they are asked for, else plain sockets."""

    def __init__(self) -> None:
        self.left_sock, self.right_sock = socket.socketpair()
        for sock in (self.left_sock, self.right_sock):
            sock.setblocking(False)  # noqa: FBT003  # the socket API
        self._ends: list[End] = []

    def left(self, **settings: Any) -> End:
        return self._end(self.left_sock, **settings)

    def right(self, **settings: Any) -> End:
        return self._end(self.right_sock, **settings)

    def close(self) -> None:
        for end in self._ends:
            end.channel.close()
        self.left_sock.close()
        self.right_sock.close()

    def _end(self, sock: socket.socket, **settings: Any) -> End:
        end = End(sock, **settings)
        self._ends.append(end)
        return end


@pytest.fixture
async def pair(watched_loop: asyncio.AbstractEventLoop) -> Iterator[Pair]:
    """Made on the loop of the test, and closed before it is."""
    del watched_loop
    with contextlib.closing(Pair()) as made:
        yield made


def told(frames: list[Frame]) -> list[Frame]:
    """Frames with large payloads made comparable: lists of bytes."""
    return [
        (*frame[:-1], [bytes(buffer) for buffer in frame[-1]])
        if isinstance(frame[-1], list)
        else frame
        for frame in frames
    ]


def written(frame: Frame) -> bytes:
    data = encode(frame)
    return data if isinstance(data, bytes) else b"".join(map(bytes, data))


async def turns(count: int) -> None:
    """Lets the loop look at its sockets so many times."""
    for _ in range(count):
        await next_turn()


async def read_away(sock: socket.socket, nbytes: int) -> bytes:
    """Reads so many bytes with a plain socket."""
    data = bytearray()
    loop = asyncio.get_running_loop()
    async with in_time():
        while len(data) < nbytes:
            data += await loop.sock_recv(sock, nbytes - len(data))
    return bytes(data)


# Sending and receiving.


async def test_send_when_one_frame_then_it_arrives(pair: Pair) -> None:
    left, right = pair.left(), pair.right()

    left.channel.send((CALL, 1, "ping", None, b"x"))

    assert await right.received(1) == [(CALL, 1, "ping", None, b"x")]


async def test_send_when_many_in_one_turn_then_all_arrive_in_order(pair: Pair) -> None:
    left, right = pair.left(), pair.right()
    frames = [(CALL, n, "ping", None, b"x" * (n % 50)) for n in range(2_000)]

    for frame in frames:
        left.channel.send(frame)

    assert await right.received(2_000) == frames


async def test_send_when_both_send_at_once_then_all_arrive_in_order(
    pair: Pair,
) -> None:
    left, right = pair.left(), pair.right()
    frames = [(CALL, n, b"x" * 5_000) for n in range(300)]

    for frame in frames:
        left.channel.send(frame)
        right.channel.send(frame)

    assert await right.received(300) == frames
    assert await left.received(300) == frames


@pytest.mark.parametrize(
    "payload",
    [b"x" * 3 * MIB, [b"y" * 3 * MIB], [b"a" * MIB, b"", b"b" * MIB, b"c"]],
    ids=["one piece", "one buffer", "several buffers"],
)
async def test_send_when_a_frame_is_larger_than_the_kernels_buffer_then_it_is_whole(
    pair: Pair, payload: bytes | list[bytes]
) -> None:
    left, right = pair.left(), pair.right()

    left.channel.send((RESULT, 1, None, payload))

    assert await right.received(1) == [(RESULT, 1, None, payload)]


async def test_send_when_large_and_small_are_mixed_then_in_order(pair: Pair) -> None:
    left, right = pair.left(), pair.right()
    payloads = [b"a", [b"b" * MIB], b"c", [b"d" * MIB, b"e"], b"f" * MIB, b"g"]
    frames = [(RESULT, n, None, payload) for n, payload in enumerate(payloads)]

    for frame in frames:
        left.channel.send(frame)

    assert await right.received(len(frames)) == frames


@settings(max_examples=20)
@given(
    st.lists(
        st.lists(st.integers(0, 300_000) | st.integers(0, 50), max_size=5), max_size=5
    ),
    st.booleans(),
)
async def test_send_when_of_any_sizes_over_any_turns_then_in_order(
    sizes: list[list[int]],
    is_large: bool,  # noqa: FBT001  # hypothesis gives it by name
) -> None:
    with contextlib.closing(Pair()) as pair:
        left, right = pair.left(), pair.right()
        sent: list[Frame] = []
        for turn in sizes:
            for size in turn:
                payload = [bytes(size)] if is_large else bytes(size)
                sent.append((RESULT, len(sent), None, payload))
                left.channel.send(sent[-1])
            await next_turn()

        assert await right.received(len(sent)) == sent


async def test_send_when_it_answers_what_arrives_then_the_answer_arrives(
    pair: Pair,
) -> None:
    left = pair.left()
    right = pair.right()
    receive = right._receive

    def answer(frames: list[Frame]) -> None:
        receive(frames)
        for frame in frames:
            right.channel.send((RESULT, frame[1], None, b"pong"))

    right.channel._receive = answer
    for number in range(3):
        left.channel.send((CALL, number, "ping", None, b""))

    assert await left.received(3) == [(RESULT, n, None, b"pong") for n in range(3)]


async def test_send_when_a_frame_cannot_be_sent_then_type_error_and_the_next_goes(
    pair: Pair,
) -> None:
    left, right = pair.left(), pair.right()

    with pytest.raises(TypeError):
        left.channel.send((CALL, object()))
    left.channel.send((READY,))

    assert await right.received(1) == [(READY,)]


async def test_receive_when_bytes_come_one_by_one_then_the_frame_as_it_is_whole(
    pair: Pair,
) -> None:
    right = pair.right()
    loop = asyncio.get_running_loop()

    for byte in written((RESULT, 1, None, [b"abc", b"d"])):
        await loop.sock_sendall(pair.left_sock, bytes([byte]))
        await next_turn()

    assert await right.received(1) == [(RESULT, 1, None, [b"abc", b"d"])]


async def test_receive_when_half_a_frame_was_read_before_then_it_is_whole(
    pair: Pair,
) -> None:
    data = written((RESULT, 1, None, [b"abcdef"]))
    decoder = FrameDecoder()
    decoder.feed(data[:-3])
    right = pair.right(decoder=decoder)

    await asyncio.get_running_loop().sock_sendall(pair.left_sock, data[-3:])

    assert await right.received(1) == [(RESULT, 1, None, [b"abcdef"])]


# Draining.


async def test_drain_when_everything_is_gone_then_at_once(pair: Pair) -> None:
    left = pair.left()
    left.channel.send((READY,))

    await left.channel.drain()

    assert left.channel.unsent == 0
    assert pair.right_sock.recv(100) == written((READY,))


async def test_drain_when_frames_were_gathered_then_they_are_sent(pair: Pair) -> None:
    left = pair.left()
    for _ in range(3):
        left.channel.send((READY,))

    await left.channel.drain()

    assert pair.right_sock.recv(100) == written((READY,)) * 3


async def test_drain_when_the_other_side_reads_late_then_it_waits_for_it(
    pair: Pair,
) -> None:
    left = pair.left()
    frame = (RESULT, 1, None, b"x" * 3 * MIB)
    left.channel.send(frame)
    draining = asyncio.create_task(left.channel.drain())
    await turns(3)
    assert not draining.done()
    assert left.channel.unsent > 0

    data = await read_away(pair.right_sock, len(written(frame)))
    async with in_time():
        await draining

    assert data == written(frame)
    assert left.channel.unsent == 0


async def test_drain_when_several_wait_then_all_are_told(pair: Pair) -> None:
    left = pair.left()
    left.channel.send((RESULT, 1, None, b"x" * 3 * MIB))
    draining = [asyncio.create_task(left.channel.drain()) for _ in range(3)]

    right = pair.right()
    async with in_time():
        await asyncio.gather(*draining)

    assert len(await right.received(1)) == 1


async def test_drain_when_one_wait_is_cancelled_then_the_others_go_on(
    pair: Pair,
) -> None:
    left = pair.left()
    left.channel.send((RESULT, 1, None, b"x" * 3 * MIB))
    first, second = (asyncio.create_task(left.channel.drain()) for _ in range(2))
    await next_turn()

    first.cancel()
    await asyncio.wait([first])
    pair.right()
    async with in_time():
        await second

    assert left.channel.unsent == 0


async def test_drain_when_the_other_side_goes_then_it_ends(pair: Pair) -> None:
    left = pair.left()
    left.channel.send((RESULT, 1, None, b"x" * 3 * MIB))
    draining = asyncio.create_task(left.channel.drain())
    await next_turn()

    pair.right_sock.close()

    async with in_time():
        await draining


async def test_drain_when_this_side_is_closed_meanwhile_then_it_ends(
    pair: Pair,
) -> None:
    left = pair.left()
    left.channel.send((RESULT, 1, None, b"x" * 3 * MIB))
    draining = asyncio.create_task(left.channel.drain())
    await next_turn()

    left.channel.close()

    async with in_time():
        await draining


# Ends.


async def test_lost_when_the_other_side_closes_then_called_once_with_nothing(
    pair: Pair,
) -> None:
    left = pair.left()

    pair.right_sock.close()
    await left.gone()
    await turns(3)

    assert left.lost == [None]
    assert not left.channel.is_open


async def test_lost_when_the_other_side_sent_before_it_closed_then_that_comes_first(
    pair: Pair,
) -> None:
    left, right = pair.left(), pair.right()
    frames = [(RESULT, n, None, b"x" * 1_000) for n in range(100)]
    for frame in frames:
        right.channel.send(frame)

    right.channel.close()
    await left.gone()

    assert left.frames == frames


async def test_lost_when_the_other_side_closed_with_unread_data_then_its_own_is_read(
    pair: Pair,
) -> None:
    left = pair.left()
    left.channel.send((CALL, 1, "unread", None, b""))
    pair.right_sock.send(written((RESULT, 1, None, b"last words")))

    pair.right_sock.close()
    await left.gone()

    assert left.frames == [(RESULT, 1, None, b"last words")]
    assert left.lost == [None]


async def test_lost_when_the_other_side_closed_with_unread_data_then_all_of_it_is_read(
    pair: Pair,
) -> None:
    left = pair.left()
    left.channel.send((CALL, 1, "unread", None, b""))
    sent = [(RESULT, n, None, b"x" * 10_000) for n in range(15)]
    for frame in sent:
        pair.right_sock.send(written(frame))

    pair.right_sock.close()
    await left.gone()

    assert left.frames == sent


async def test_lost_when_we_still_send_to_a_closed_side_then_once_with_nothing(
    pair: Pair,
) -> None:
    left = pair.left()
    pair.right_sock.send(written((RESULT, 1, None, b"last words")))
    pair.right_sock.close()

    for _ in range(3):
        left.channel.send((CALL, 1, "too late", None, b"x" * MIB))
    await left.gone()

    assert left.frames == [(RESULT, 1, None, b"last words")]
    assert left.lost == [None]


async def test_lost_when_half_a_frame_came_then_nothing_of_it(pair: Pair) -> None:
    left = pair.left()

    pair.right_sock.send(written((RESULT, 1, None, [b"abcdef"]))[:-3])
    pair.right_sock.close()
    await left.gone()

    assert (left.frames, left.lost) == ([], [None])


async def test_lost_when_garbage_comes_then_protocol_error(pair: Pair) -> None:
    left = pair.left()

    pair.right_sock.send(b"\x01\x02\x03")
    await left.gone()

    assert [type(error) for error in left.lost] == [ProtocolError]
    assert not left.channel.is_open


async def test_close_when_called_then_lost_is_not(pair: Pair) -> None:
    left = pair.left()

    left.channel.close()
    pair.right_sock.close()
    await turns(3)

    assert left.lost == []


async def test_close_when_called_then_the_other_side_is_told(pair: Pair) -> None:
    left, right = pair.left(), pair.right()

    left.channel.close()
    await right.gone()

    assert right.lost == [None]


async def test_close_when_frames_were_gathered_then_they_are_sent_first(
    pair: Pair,
) -> None:
    left, right = pair.left(), pair.right()
    for number in range(5):
        left.channel.send((RESULT, number, None, b""))

    left.channel.close()
    await right.gone()

    assert right.frames == [(RESULT, n, None, b"") for n in range(5)]


async def test_close_when_repeated_then_harmless(pair: Pair) -> None:
    left = pair.left()

    left.channel.close()
    left.channel.close()

    assert not left.channel.is_open


async def test_close_when_a_frame_is_sent_afterwards_then_it_is_dropped(
    pair: Pair,
) -> None:
    left = pair.left()
    left.channel.close()

    left.channel.send((READY,))
    await left.channel.drain()
    await next_turn()

    assert left.channel.unsent == 0
    assert pair.right_sock.recv(100) == b""


async def test_close_when_called_then_its_buffer_is_gone_before_it_is(
    pair: Pair,
) -> None:
    decoder = FrameDecoder()
    buffer = weakref.ref(decoder)
    left = pair.left(decoder=decoder)
    del decoder

    left.channel.close()

    assert buffer() is None


async def test_lost_when_it_is_then_its_buffer_is_gone_before_it_is(
    pair: Pair,
) -> None:
    decoder = FrameDecoder()
    buffer = weakref.ref(decoder)
    left = pair.left(decoder=decoder)
    del decoder

    pair.right_sock.close()
    await left.gone()

    assert buffer() is None


async def test_close_when_called_while_receiving_then_nothing_follows(
    pair: Pair,
) -> None:
    left = pair.left()

    def close(frames: list[Frame]) -> None:
        left.frames += frames
        left.channel.close()
        left._gone.set_result(None)

    left.channel._receive = close
    pair.right_sock.send(written((READY,)))
    await left.gone()
    with contextlib.suppress(OSError):
        pair.right_sock.send(written((READY,)))
    await turns(3)

    assert (left.frames, left.lost) == ([(READY,)], [])


# Back-pressure.


async def test_pause_when_too_much_waits_then_nothing_is_read(pair: Pair) -> None:
    left = pair.left(pause_above=1_000)
    left.channel.send((RESULT, 1, None, b"x" * 3 * MIB))
    pair.right_sock.send(written((CALL, 1, "ping", None, b"")))

    await turns(5)

    assert left.frames == []


async def test_pause_when_what_waited_is_gone_then_it_is_read_again(
    pair: Pair,
) -> None:
    left = pair.left(pause_above=1_000)
    frame = (RESULT, 1, None, b"x" * 3 * MIB)
    left.channel.send(frame)
    pair.right_sock.send(written((CALL, 1, "ping", None, b"")))
    await turns(3)

    await read_away(pair.right_sock, len(written(frame)))

    assert await left.received(1) == [(CALL, 1, "ping", None, b"")]


async def test_pause_when_repeated_then_it_resumes_every_time(pair: Pair) -> None:
    left = pair.left(pause_above=1_000)
    frame = (RESULT, 1, None, b"x" * 3 * MIB)
    for count in range(1, 4):
        left.channel.send(frame)
        pair.right_sock.send(written((CALL, count, "ping", None, b"")))
        await turns(3)
        assert len(left.frames) == count - 1

        await read_away(pair.right_sock, len(written(frame)))
        await left.received(count)

    assert len(left.frames) == 3


async def test_pause_when_the_other_side_goes_meanwhile_then_it_is_lost(
    pair: Pair,
) -> None:
    left = pair.left(pause_above=1_000)
    left.channel.send((RESULT, 1, None, b"x" * 3 * MIB))
    await turns(3)

    pair.right_sock.close()
    await left.gone()

    assert left.lost == [None]


async def test_pause_when_little_waits_then_it_is_read(pair: Pair) -> None:
    left = pair.left(pause_above=100 * MIB)
    left.channel.send((RESULT, 1, None, b"x" * 3 * MIB))

    pair.right_sock.send(written((CALL, 1, "ping", None, b"")))

    assert len(await left.received(1)) == 1


async def test_pause_when_not_asked_for_then_reading_never_stops(pair: Pair) -> None:
    left = pair.left()
    left.channel.send((RESULT, 1, None, b"x" * 30 * MIB))

    pair.right_sock.send(written((CALL, 1, "ping", None, b"")))

    assert len(await left.received(1)) == 1


# Reading in place.


async def test_pump_when_the_answer_comes_then_no_turn_of_the_loop_passes(
    pair: Pair,
) -> None:
    end = pair.left()
    turned: list[bool] = []
    asyncio.get_running_loop().call_soon(turned.append, True)  # noqa: FBT003  # the loop API
    end.channel.send((CALL, 1, "ask", None, b""))
    end.channel.send((CALL, 2, "ask", None, b""))

    def answer() -> None:
        pair.right_sock.setblocking(True)  # noqa: FBT003  # the socket API
        asked, decoder = 0, FrameDecoder()
        while asked < 2:
            asked += len(decoder.feed(pair.right_sock.recv(1024)))
        pair.right_sock.sendall(written((READY,)) + written((RESULT, 2, None, b"")))

    thread = threading.Thread(target=answer)
    thread.start()
    while not end.frames:
        end.channel.pump(None)
    thread.join()

    assert end.frames == [(READY,), (RESULT, 2, None, b"")]
    assert not turned


async def test_pump_when_much_is_to_be_written_first_then_it_is(
    pair: Pair,
) -> None:
    end = pair.left(pause_above=MIB)
    end.channel.send((RESULT, 1, None, b"x" * 8 * MIB))

    def answer() -> None:
        pair.right_sock.setblocking(True)  # noqa: FBT003  # the socket API
        decoder = FrameDecoder()
        while not decoder.feed(pair.right_sock.recv(MIB)):
            pass
        pair.right_sock.sendall(written((READY,)))

    thread = threading.Thread(target=answer)
    thread.start()
    while not end.frames:
        end.channel.pump(None)
    thread.join()

    assert end.frames == [(READY,)]


async def test_pump_when_the_other_side_goes_then_it_says_so(pair: Pair) -> None:
    end = pair.left()
    pair.right_sock.close()

    end.channel.pump(None)
    with pytest.raises(EOFError):
        end.channel.pump(None)
    assert end.lost == [None]


async def test_push_when_nothing_is_left_then_nothing_is_read(pair: Pair) -> None:
    end = pair.left()
    pair.right_sock.send(written((READY,)))

    end.channel.push()

    assert end.frames == []
    assert await end.received(1) == [(READY,)]


async def test_push_when_the_kernel_is_full_then_it_takes_all_of_it(pair: Pair) -> None:
    end = pair.left()
    frame = (RESULT, 1, None, b"x" * 8 * MIB)
    end.channel.send(frame)
    read: list[object] = []

    def take() -> None:
        pair.right_sock.setblocking(True)  # noqa: FBT003  # the socket API
        decoder = FrameDecoder()
        while not read:
            read.extend(decoder.feed(pair.right_sock.recv(MIB)))

    thread = threading.Thread(target=take)
    thread.start()
    end.channel.push()
    assert end.channel.unsent == 0
    thread.join()

    assert read == [frame]


async def test_send_now_when_the_turn_goes_on_then_all_has_left(pair: Pair) -> None:
    end = pair.left()
    frames = [(RESULT, number, None, b"") for number in range(3)]
    for frame in frames:
        end.channel.send_now(frame)

    assert FrameDecoder().feed(pair.right_sock.recv(1024)) == frames
    end.channel.send(frames[0])
    end.channel.send(frames[1])
    end.channel.send_now(frames[2])
    assert FrameDecoder().feed(pair.right_sock.recv(1024)) == frames
