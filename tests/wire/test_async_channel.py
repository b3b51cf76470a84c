from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from helpers.frames import comparable, written
from helpers.turns import in_time, next_turn
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlib._wire.async_channel import AsyncChannel
from actorlib._wire.codec import FrameDecoder
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
        return comparable(self.frames)

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


async def test_send_when_both_send_at_once_then_all_arrive_in_order(
    pair: Pair,
) -> None:
    left, right = pair.left(), pair.right()
    frames = [(CALL, n, b"x" * (n % 7 * 1_000)) for n in range(2_000)]

    for frame in frames:
        left.channel.send(frame)
        right.channel.send(frame)

    assert await right.received(2_000) == frames
    assert await left.received(2_000) == frames


@pytest.mark.parametrize(
    "payloads",
    [
        [b"x" * 3 * MIB],
        [[b"y" * 3 * MIB]],
        [[b"a" * MIB, b"", b"b" * MIB, b"c"]],
        [b"a", [b"b" * MIB], b"c", [b"d" * MIB, b"e"], b"f" * MIB, b"g"],
    ],
    ids=["one piece", "one buffer", "several buffers", "large and small ones"],
)
async def test_send_when_frames_are_larger_than_the_kernels_buffer_then_all_are_whole(
    pair: Pair, payloads: list[bytes | list[bytes]]
) -> None:
    left, right = pair.left(), pair.right()
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


async def test_drain_when_frames_were_gathered_then_they_are_sent(pair: Pair) -> None:
    left = pair.left()
    for _ in range(3):
        left.channel.send((READY,))

    await left.channel.drain()

    assert left.channel.unsent == 0
    assert pair.right_sock.recv(100) == written((READY,)) * 3


async def test_drain_when_the_other_side_reads_late_then_all_who_still_wait_are_told(
    pair: Pair,
) -> None:
    left = pair.left()
    frame = (RESULT, 1, None, b"x" * 3 * MIB)
    left.channel.send(frame)
    draining = [asyncio.create_task(left.channel.drain()) for _ in range(3)]
    await turns(3)
    assert not any(drain.done() for drain in draining)
    assert left.channel.unsent > 0

    draining[0].cancel()
    await asyncio.wait(draining[:1])
    data = await read_away(pair.right_sock, len(written(frame)))
    async with in_time():
        await asyncio.gather(*draining[1:])

    assert data == written(frame)
    assert left.channel.unsent == 0


@pytest.mark.parametrize("end", ["the other side", "this side"])
async def test_drain_when_a_side_is_closed_then_it_ends(pair: Pair, end: str) -> None:
    left = pair.left()
    left.channel.send((RESULT, 1, None, b"x" * 3 * MIB))
    draining = asyncio.create_task(left.channel.drain())
    await next_turn()

    if end == "this side":
        left.channel.close()
    else:
        pair.right_sock.close()

    async with in_time():
        await draining


# Ends.

LAST: list[Frame] = [(RESULT, n, None, b"x" * 10_000) for n in range(15)]


@pytest.mark.parametrize("has_unread", [False, True])
@pytest.mark.parametrize("still_sends", [False, True])
@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (b"", []),
        (written(*LAST), LAST),
        (written((RESULT, 1, None, [b"abcdef"]))[:-3], []),
    ],
    ids=["nothing", "frames", "half of a frame"],
)
async def test_lost_when_the_other_side_closes_then_once_behind_its_whole_frames(
    pair: Pair,
    data: bytes,
    frames: list[Frame],
    *,
    has_unread: bool,
    still_sends: bool,
) -> None:
    left = pair.left()
    if has_unread:
        left.channel.send((CALL, 1, "unread", None, b""))
    pair.right_sock.sendall(data)

    pair.right_sock.close()
    if still_sends:
        for _ in range(3):
            left.channel.send((CALL, 1, "too late", None, b"x" * MIB))
    await left.gone()
    await turns(3)

    assert left.frames == frames
    assert left.lost == [None]
    assert not left.channel.is_open


async def test_lost_when_garbage_comes_then_protocol_error(pair: Pair) -> None:
    left = pair.left()

    pair.right_sock.send(b"\x01\x02\x03")
    await left.gone()

    assert [type(error) for error in left.lost] == [ProtocolError]
    assert not left.channel.is_open


async def test_close_when_frames_were_gathered_then_they_are_sent_and_later_ones_not(
    pair: Pair,
) -> None:
    left, right = pair.left(), pair.right()
    frames = [(RESULT, number, None, b"") for number in range(5)]
    for frame in frames:
        left.channel.send(frame)

    left.channel.close()
    left.channel.close()
    left.channel.send((READY,))
    await left.channel.drain()
    await right.gone()
    await turns(3)

    assert (right.frames, right.lost) == (frames, [None])
    assert (left.lost, left.channel.unsent) == ([], 0)
    assert not left.channel.is_open


@pytest.mark.parametrize("end", ["the other side", "this side"])
async def test_buffer_when_a_side_is_closed_then_it_is_gone_before_the_channel(
    pair: Pair, end: str
) -> None:
    decoder = FrameDecoder()
    buffer = weakref.ref(decoder)
    left = pair.left(decoder=decoder)
    del decoder

    if end == "this side":
        left.channel.close()
    else:
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


async def test_pause_when_too_much_waits_then_it_is_read_again_each_time_it_is_gone(
    pair: Pair,
) -> None:
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


async def test_send_when_the_other_side_is_gone_then_no_signal_comes(
    pair: Pair,
) -> None:
    # A program may have restored the default handler, which would end it.
    signals: list[int] = []
    before = signal.signal(signal.SIGPIPE, lambda number, _: signals.append(number))
    try:
        left = pair.left()
        pair.right_sock.close()
        left.channel.send((RESULT, 1, None, b"x"))  # before it is read that it is gone
        await left.gone()
    finally:
        signal.signal(signal.SIGPIPE, before)

    assert signals == []


@pytest.mark.parametrize("settings", [{}, {"pause_above": 100 * MIB}], ids=repr)
async def test_pause_when_little_waits_or_it_is_not_asked_for_then_it_is_read(
    pair: Pair, settings: dict[str, int]
) -> None:
    left = pair.left(**settings)
    left.channel.send((RESULT, 1, None, b"x" * 30 * MIB))

    pair.right_sock.send(written((CALL, 1, "ping", None, b"")))

    assert len(await left.received(1)) == 1


# Reading in place.


@contextlib.contextmanager
def answered(sock: socket.socket, count: int, answer: bytes = b"") -> Iterator[None]:
    """Reads so many frames in a thread meanwhile, and then sends an answer."""

    def serve() -> None:
        sock.setblocking(True)  # noqa: FBT003  # the socket API
        asked, decoder = 0, FrameDecoder()
        while asked < count:
            asked += len(decoder.feed(sock.recv(MIB)))
        sock.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    yield
    thread.join()


async def test_pump_when_the_answer_comes_then_no_turn_of_the_loop_passes(
    pair: Pair,
) -> None:
    end = pair.left()
    turned: list[bool] = []
    asyncio.get_running_loop().call_soon(turned.append, True)  # noqa: FBT003  # the loop API
    end.channel.send((CALL, 1, "ask", None, b""))
    end.channel.send((CALL, 2, "ask", None, b""))
    answers: list[Frame] = [(READY,), (RESULT, 2, None, b"")]

    with answered(pair.right_sock, 2, written(*answers)):
        while not end.frames:
            end.channel.pump(None)

    assert end.frames == answers
    assert not turned


async def test_pump_when_much_is_to_be_written_first_then_it_is(
    pair: Pair,
) -> None:
    end = pair.left(pause_above=MIB)
    end.channel.send((RESULT, 1, None, b"x" * 8 * MIB))

    with answered(pair.right_sock, 1, written((READY,))):
        while not end.frames:
            end.channel.pump(None)

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
    end.channel.send((RESULT, 1, None, b"x" * 8 * MIB))

    with answered(pair.right_sock, 1):
        end.channel.push()
        assert end.channel.unsent == 0


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
