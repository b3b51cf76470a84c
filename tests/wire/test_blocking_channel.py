from __future__ import annotations

import select
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from helpers.frames import comparable, written
from hypothesis import given
from hypothesis import strategies as st

from actorlib._wire.blocking_channel import BlockingChannel
from actorlib._wire.messages import CALL, READY, RESULT
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib._wire.messages import Frame

MIB = 1024**2


@pytest.fixture
def socks() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


@pytest.fixture
def left(socks: tuple[socket.socket, socket.socket]) -> BlockingChannel:
    return BlockingChannel(socks[0])


@pytest.fixture
def right(socks: tuple[socket.socket, socket.socket]) -> BlockingChannel:
    return BlockingChannel(socks[1])


def received(pipe: BlockingChannel, count: int) -> list[Frame]:
    found: list[Frame] = []
    while len(found) < count:
        found += pipe.receive()
    return comparable(found)


# Sending and receiving.


def test_receive_when_half_a_frame_came_then_it_waits_for_the_rest(
    left: BlockingChannel, right: BlockingChannel
) -> None:
    data = written((CALL, 1, b"x" * 100))
    left.sock.sendall(data[:50])

    assert right.receive_some() == []

    left.sock.sendall(data[50:])
    assert right.receive() == [(CALL, 1, b"x" * 100)]


@pytest.mark.parametrize(
    "payload",
    [b"x" * 3 * MIB, [b"y" * 3 * MIB], [b"a" * MIB, b"", b"b" * MIB, b"c"]],
    ids=["one piece", "one buffer", "several buffers"],
)
def test_send_when_a_frame_is_larger_than_the_kernels_buffer_then_it_is_whole(
    left: BlockingChannel, right: BlockingChannel, payload: bytes | list[bytes]
) -> None:
    frame = (RESULT, 1, None, payload)
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(left.send, frame)

        assert received(right, 1) == [frame]
        sending.result()


@given(
    st.lists(
        st.binary(max_size=40) | st.integers(0, 150_000).map(lambda n: [bytes(n), b"x"])
    )
)
def test_send_when_of_any_sizes_then_in_order(payloads: list[bytes]) -> None:
    sent = [(RESULT, n, None, payload) for n, payload in enumerate(payloads)]
    with ThreadPoolExecutor(1) as pool:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            left, right = BlockingChannel(ours), BlockingChannel(theirs)
            sending = pool.submit(
                lambda: [left.gather(f) for f in sent] + [left.flush()]
            )

            assert received(right, len(sent)) == sent
            sending.result()


def test_send_when_a_signal_handler_raises_then_the_frame_is_whole(
    left: BlockingChannel, right: BlockingChannel
) -> None:
    class AlarmError(Exception):
        pass

    def ring(*_: object) -> None:
        raise AlarmError

    def read(sender: int) -> list[Frame]:
        select.select([right.sock], [], [])  # the write has begun
        signal.pthread_kill(sender, signal.SIGUSR1)
        return received(right, 2)

    sent = [(RESULT, 1, None, b"x" * 3 * MIB), (RESULT, 2, None, b"")]
    before = signal.signal(signal.SIGUSR1, ring)
    try:
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read, threading.get_ident())
            with pytest.raises(AlarmError):
                left.send(sent[0])
            left.send(sent[1])
            left.sock.shutdown(socket.SHUT_WR)
            assert reading.result() == sent
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_send_when_several_threads_send_then_every_frame_is_whole(
    left: BlockingChannel, right: BlockingChannel
) -> None:
    def send(sender: int) -> None:
        for number in range(20):
            left.send((RESULT, sender, number, [bytes([sender]) * 100_000]))

    with ThreadPoolExecutor(4) as pool:
        sending = [pool.submit(send, sender) for sender in range(4)]
        frames = received(right, 80)
        for sent in sending:
            sent.result()

    for sender in range(4):
        own = [frame for frame in frames if frame[1] == sender]
        assert [frame[2] for frame in own] == list(range(20))
        assert all(frame[3] == [bytes([sender]) * 100_000] for frame in own)


# Gathering.


def test_gather_when_flushed_then_all_leave_in_order_and_none_before(
    left: BlockingChannel, right: BlockingChannel
) -> None:
    for number in range(2):
        left.gather((CALL, number, b""))
    with pytest.raises(TypeError):
        left.gather((CALL, object()))
    left.gather((CALL, 2, b""))

    assert left.has_gathered
    right.sock.setblocking(False)  # noqa: FBT003  # the socket API
    with pytest.raises(BlockingIOError):
        right.sock.recv(1)

    left.flush()
    left.flush()

    assert right.receive() == [(CALL, n, b"") for n in range(3)]
    assert not left.has_gathered


def test_gather_when_much_is_gathered_then_it_leaves_by_itself(
    left: BlockingChannel, right: BlockingChannel
) -> None:
    left.gather((CALL, 1, b""))
    left.gather((CALL, 2, b"x" * 100_000))

    assert not left.has_gathered
    assert received(right, 2) == [(CALL, 1, b""), (CALL, 2, b"x" * 100_000)]


@pytest.mark.parametrize("size", [10, 100_000])
def test_gather_when_a_buffer_changes_afterwards_then_the_old_bytes_arrive(
    left: BlockingChannel, right: BlockingChannel, size: int
) -> None:
    buffer = bytearray(size)

    left.gather((RESULT, 1, None, [b"head", buffer]))
    buffer[:] = b"x" * len(buffer)
    left.flush()

    assert received(right, 1) == [(RESULT, 1, None, [b"head", bytes(size)])]


def test_send_when_something_was_gathered_then_behind_it(
    left: BlockingChannel, right: BlockingChannel
) -> None:
    left.gather((CALL, 1, b""))

    left.send((CALL, 2, b""))

    assert right.receive() == [(CALL, 1, b""), (CALL, 2, b"")]


# Ends.


@pytest.mark.parametrize("has_unread", [False, True])
@pytest.mark.parametrize(
    ("data", "frames"),
    [
        (b"", []),
        (written((READY,)), [(READY,)]),
        (written((CALL, 1, b"x" * 100))[:-50], []),
        (written((RESULT, 1, None, [b"x" * 100]))[:-50], []),
    ],
    ids=["nothing", "a frame", "half of a frame", "half of a payload"],
)
def test_receive_when_the_other_side_closed_then_whole_frames_and_eof_error(
    left: BlockingChannel,
    right: BlockingChannel,
    data: bytes,
    frames: list[Frame],
    *,
    has_unread: bool,
) -> None:
    if has_unread:
        right.send((CALL, 1, "unread", None, b""))
    left.sock.sendall(data)
    left.sock.close()

    assert (right.receive() if frames else []) == frames
    with pytest.raises(EOFError):
        right.receive()


def test_receive_when_garbage_came_then_protocol_error(
    left: BlockingChannel, right: BlockingChannel
) -> None:
    left.sock.sendall(b"\x01\x02\x03")

    with pytest.raises(ProtocolError):
        right.receive()


def test_send_when_the_other_side_closed_then_os_error(
    left: BlockingChannel, right: BlockingChannel
) -> None:
    right.sock.close()

    with pytest.raises(OSError, match=r"."):
        left.send((READY,))


def test_send_when_the_other_side_closes_while_it_waits_then_os_error(
    left: BlockingChannel, right: BlockingChannel
) -> None:
    def read_a_little_and_close() -> None:
        right.sock.recv(1)
        right.sock.close()

    reader = threading.Thread(target=read_a_little_and_close)
    reader.start()

    with pytest.raises(OSError, match=r"."):
        left.send((RESULT, 1, None, [b"x" * 10 * MIB]))
    reader.join()


# Waits that last.


def test_read_timeout_when_nothing_comes_then_the_read_ends_until_it_is_0_again(
    left: BlockingChannel, right: BlockingChannel
) -> None:
    right.set_read_timeout(0.01)
    with pytest.raises(BlockingIOError):
        right.receive_some()

    right.set_read_timeout(0)
    with ThreadPoolExecutor(1) as pool:
        frames = pool.submit(right.receive)
        left.send((READY,))

        assert frames.result() == [(READY,)]


def test_read_timeout_when_it_is_cut_off_in_a_frame_then_the_rest_is_read(
    left: BlockingChannel, right: BlockingChannel
) -> None:
    data = written((CALL, 1, "ping", None, [b"x" * MIB]))
    right.set_read_timeout(0.01)
    left.sock.sendall(data[:100_000])
    right.receive_some()
    right.receive_some()
    with pytest.raises(BlockingIOError):
        received(right, 1)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(left.sock.sendall, data[100_000:])
        found: list[Frame] = []
        while not found:
            found = right.receive_some()
        sent.result()

    assert comparable(found) == [(CALL, 1, "ping", None, [b"x" * MIB])]
