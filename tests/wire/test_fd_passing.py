from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from helpers.memory import descriptors
from helpers.turns import in_time

from actorlib._base.ids import ACTOR_KIND, BLOCK_KIND, new_id, prefix_of_kind
from actorlib._shm.layout import BLOCK_ID_STRUCT
from actorlib._shm.memory import (
    BlockRefCounter,
    SharedMemory,
    SharedPayload,
    SharingOptions,
    share_payload,
)
from actorlib._shm.segments import MemoryBudget, Segment
from actorlib._wire.async_channel import AsyncChannel
from actorlib._wire.blocking_channel import BlockingChannel
from actorlib._wire.codec import FrameDecoder
from actorlib._wire.codec import encode as to_bytes
from actorlib._wire.fd_passing import SegmentSharing, send_fd
from actorlib._wire.messages import CALL, CALL_ACTOR_WITH, CALL_WITH, RESULT
from actorlib._wire.serialization import decode, encode
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

OWNER, WORKER = b"owner...", b"worker.."
OWN, THEIRS = (new_id(maker, BLOCK_KIND, 1) for maker in (OWNER, WORKER))
MIB = 1 << 20
LINUX = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks at /proc")


class NoCounts(BlockRefCounter):
    """Counts nothing."""

    def retain(self, actor: bytes) -> None:
        """Does nothing."""

    def release(self, actor: bytes) -> None:
        """Does nothing."""


def memory(prefix: bytes) -> SharedMemory:
    made = SharedMemory()
    made.settings = SharingOptions(share_above=1)
    made.budget = MemoryBudget(64 * MIB)
    made.bind_to(prefix_of_kind(prefix, BLOCK_KIND), NoCounts())
    return made


class Two:
    """An owner with a channel, and a worker with a pipe, at two ends of a socket."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)  # noqa: FBT003  # the socket API
        self.owner = SegmentSharing(memory(OWNER), WORKER)
        self.worker = SegmentSharing(SharedMemory())
        self.frames: list[Any] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.Future()
        self.came = asyncio.Event()
        self.channel = AsyncChannel(
            asyncio.get_running_loop(),
            self.near,
            self.receive,
            self.lost.set_result,
            sharing=self.owner,
        )
        self.pipe = BlockingChannel(self.far, self.worker)

    def receive(self, frames: list[Any]) -> None:
        self.frames += frames
        self.came.set()

    def close(self) -> None:
        self.channel.close()
        self.far.close()
        for sharing in (self.owner, self.worker):
            sharing.close()
            sharing.memory.close()


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    two = Two()
    yield two
    two.close()


def result(made: SharedMemory, value: object) -> tuple[Any, ...]:
    loans: list[Any] = []
    payload = share_payload(made, encode(value), loans)
    return (RESULT, 7, tuple(loans), payload)


async def admitted(two: Two) -> None:
    """Lets the worker touch memory, as a runtime does."""
    two.owner.send_setup(two.near, 1)
    two.channel.send((1, "go"))
    assert await asyncio.to_thread(two.pipe.receive_first) == [(1, "go")]
    two.worker.memory.bind_to(prefix_of_kind(WORKER, BLOCK_KIND), NoCounts())


def give(two: Two, fd: int) -> None:
    """Sends a descriptor by the side, as the worker would."""
    assert two.worker.hand_over_link(1, fd) is not None


def fill(two: Two) -> int:
    """Sends by the side what the worker does not take, until there is no room."""
    count = 0
    while two.owner.hand_over_link(1, two.near.fileno()) is not None:
        count += 1
    return count


def answer(pipe: BlockingChannel) -> Any:
    """Reads until a result comes."""
    while True:
        for frame in pipe.receive():
            if frame[0] == RESULT:
                return frame


async def test_values_when_they_are_large_then_both_sides_read_them(two: Two) -> None:
    await admitted(two)
    for number in range(3):  # the descriptor goes along once
        two.channel.send(result(two.owner.memory, np.full(20_000, number)))
        (frame,) = await asyncio.to_thread(two.pipe.receive)
        assert decode(frame[-1])[-1] == number
        two.pipe.send(result(two.worker.memory, np.full(20_000, number)))
        async with in_time():
            await two.came.wait()
        two.came.clear()
        assert decode(two.frames.pop()[-1])[-1] == number


async def test_values_when_headers_stand_behind_their_loans_then_both_sides_read_them(
    two: Two,
) -> None:
    await admitted(two)
    _, _, loans, payload = result(two.owner.memory, np.full(20_000, 3))
    two.channel.send((CALL_WITH, 1, "work", loans, {"name": "a"}, payload))
    (call,) = await asyncio.to_thread(two.pipe.receive)
    _, _, loans, payload = result(two.worker.memory, np.full(20_000, 4))
    target = (2, 1, bytes(16), "work")
    two.pipe.send((CALL_ACTOR_WITH, *target, loans, {"name": "a"}, payload))
    async with in_time():
        await two.came.wait()
    (nested,) = two.frames

    assert decode(call[-1])[-1] == 3
    assert decode(nested[-1])[-1] == 4


async def test_descriptor_when_the_pipe_is_full_then_its_table_comes_when_there_is_room(
    two: Two,
) -> None:
    await admitted(two)
    small = (1, b"x" * 40_000)
    while not two.channel.unsent:  # until the kernel takes no more
        two.channel.send(small)
        await asyncio.sleep(0)
    two.channel.send(result(two.owner.memory, np.ones(20_000)))

    async with in_time():
        frame = await asyncio.to_thread(answer, two.pipe)
    assert isinstance(frame[-1], SharedPayload)
    assert decode(frame[-1]).sum() == 20_000


@pytest.mark.parametrize("how", ["full", "closed", "none"])
async def test_descriptor_when_the_side_socket_takes_none_then_the_pipe_takes_the_value(
    two: Two, how: str
) -> None:
    if how == "none":  # as when this process may not open any more files
        two.owner.memory.bind_to(prefix_of_kind(OWNER, BLOCK_KIND), NoCounts())
    else:
        await admitted(two)
    if how == "full":
        fill(two)
    if how == "closed":
        two.worker.close()
    for number in range(2):
        sent = result(two.owner.memory, np.full(20_000, number))
        two.channel.send(sent)
        async with in_time():
            frame = await asyncio.to_thread(answer, two.pipe)

        assert frame[:-1] == (*sent[:-1],)  # its block is lent all the same
        assert isinstance(frame[-1], list)
        assert decode(frame[-1])[-1] == number
    assert two.owner.known_segments == set()
    assert two.channel.is_open


@contextmanager
def no_more_files() -> Iterator[None]:
    """While this process may open nothing."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(number) for number in os.listdir("/proc/self/fd"))  # noqa: PTH208
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, before[1]))
    holes: list[int] = []
    try:
        with suppress(OSError):
            while True:
                holes.append(os.dup(0))
        yield
    finally:
        for hole in holes:
            os.close(hole)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@LINUX
async def test_segment_when_no_descriptor_can_be_kept_then_it_is_read_all_the_same(
    two: Two,
) -> None:
    await admitted(two)
    for number in range(2):
        sent = result(two.owner.memory, np.full(20_000, number))
        before = descriptors()
        two.channel.send(sent)
        with no_more_files():
            frame = await asyncio.to_thread(answer, two.pipe)
            assert decode(frame[-1])[-1] == number

        assert isinstance(frame[-1], SharedPayload)
        assert descriptors() == before


@LINUX
async def test_segment_when_there_is_no_way_to_take_it_then_its_values_fail_alone(
    two: Two,
) -> None:
    await admitted(two)
    two.worker.memory.fd_reserve.close()
    two.channel.send(result(two.owner.memory, np.ones(20_000)))
    with no_more_files():
        lost = await asyncio.to_thread(answer, two.pipe)
        with pytest.raises(OSError, match="ulimit -n"):
            decode(lost[-1])
    two.channel.send((RESULT, 8, None, encode(5)))

    assert decode((await asyncio.to_thread(answer, two.pipe))[-1]) == 5


@LINUX
async def test_link_when_its_end_cannot_be_opened_then_what_comes_next_is_not_mistaken(
    two: Two,
) -> None:
    await admitted(two)
    with socket.socket() as end:
        table = two.owner.hand_over_link(5, end.fileno())
        assert table is not None
        two.channel.send(table)
    two.channel.send(result(two.owner.memory, np.ones(20_000)))
    with no_more_files():
        frame = await asyncio.to_thread(answer, two.pipe)

    assert two.worker.links == {}
    assert decode(frame[-1]).sum() == 20_000


async def test_descriptor_when_the_side_socket_has_room_again_then_it_goes(
    two: Two,
) -> None:
    await admitted(two)
    sent = fill(two)
    two.channel.send(result(two.owner.memory, np.ones(20_000)))
    assert isinstance((await asyncio.to_thread(answer, two.pipe))[-1], list)
    for _ in range(sent):
        two.worker.take_table({"link": 1})  # closes the one before
    two.channel.send(result(two.owner.memory, np.ones(20_000)))
    frame = await asyncio.to_thread(answer, two.pipe)

    assert isinstance(frame[-1], SharedPayload)
    assert decode(frame[-1]).sum() == 20_000


async def test_worker_when_its_side_socket_takes_none_then_its_pipe_takes_the_value(
    two: Two,
) -> None:
    await admitted(two)
    two.owner.close()
    payload = result(two.worker.memory, np.ones(20_000))
    assert payload[-1].is_fresh
    two.pipe.send(payload)
    async with in_time():
        await two.came.wait()
    (frame,) = two.frames

    assert decode(frame[-1]).sum() == 20_000
    assert frame[2] == payload[2]
    assert not payload[-1].is_fresh  # the owner was lent it, and will give it back
    two.channel.send(({"free": payload[-1].block},))
    two.channel.send((1, "go"))
    assert await asyncio.to_thread(two.pipe.receive) == [(1, "go")]
    block = payload[-1].block
    del payload
    assert result(two.worker.memory, np.ones(20_000))[-1].block == block


async def test_frame_when_it_cannot_be_sent_then_no_descriptor_has_gone(
    two: Two,
) -> None:
    await admitted(two)
    payload = result(two.owner.memory, np.ones(20_000))
    with pytest.raises(TypeError):
        two.channel.send((RESULT, object(), *payload[2:]))
    with pytest.raises(ProtocolError, match="no descriptor on the side socket"):
        two.worker.take_table({"link": 1})


async def test_allowance_when_the_worker_is_gone_then_nothing_is_left(two: Two) -> None:
    two.far.close()
    two.owner.send_setup(two.near, 1)
    async with in_time():
        assert await two.lost is None  # the guard looks for descriptors


async def test_allowance_when_there_is_no_shared_memory_then_no_side_socket() -> None:
    near, far = socket.socketpair()
    with near, far:
        SegmentSharing(SharedMemory(), WORKER).send_setup(near, 1)
        far.setblocking(False)  # noqa: FBT003  # the socket API
        with pytest.raises(BlockingIOError):
            far.recv(1)


@LINUX
async def test_descriptors_when_they_come_then_programs_started_here_do_not_get_them(
    two: Two,
) -> None:
    before = open_files()
    await admitted(two)
    opened = open_files() - before

    assert len(opened) > 2  # the owner's end, the worker's, and the budget
    assert not any(map(os.get_inheritable, opened))


def open_files() -> set[int]:
    links = list(Path("/proc/self/fd").iterdir())
    return {int(link.name) for link in links if link.is_symlink()}


async def test_pipe_when_it_closes_then_descriptors_that_nobody_asked_for_are_closed(
    two: Two,
) -> None:
    await admitted(two)
    reader, writer = os.pipe()
    give(two, writer)
    socket.send_fds(two.far, [to_bytes(({"a": 1},))], [writer])
    os.close(writer)
    async with in_time():
        error = await two.lost
        ended = await asyncio.to_thread(os.read, reader, 1)
    os.close(reader)

    assert isinstance(error, ProtocolError)
    assert ended == b""


LIES: list[tuple[Any, ...]] = [
    ({"share": THEIRS, "size": MIB},),  # without a descriptor
    ({"share": 3, "size": MIB},),
    ({"free": new_id(OWNER, BLOCK_KIND, 0) + bytes(8)},),
    ({"gone": THEIRS},),
    ({"slot": 0, "limit": 1 << 60, "settings": (1, True)},),
    ({},),
    ({"a": 1},),
    (RESULT, 7, None, {THEIRS + bytes(8): (1,)}),
    (RESULT, 7, None, {OWN + bytes(8): (1,)}),
    (RESULT, 7, None, {}),
    (RESULT, 7, None, {1: (1,)}),
    (RESULT, 7, None, {"segment": THEIRS, "start": 0, "sizes": (1,)}),
]


@pytest.mark.parametrize("lie", LIES)
async def test_worker_when_its_table_lies_then_it_is_lost_and_the_owner_is_not(
    two: Two, lie: tuple[Any, ...]
) -> None:
    await admitted(two)
    two.far.sendall(to_bytes(lie))
    async with in_time():
        error = await two.lost

    assert isinstance(error, ProtocolError)
    assert two.frames == []
    assert two.owner.memory.budget is not None
    assert two.owner.memory.budget.limit == 64 * MIB


@pytest.mark.parametrize(
    "what", ["other", "actor", "small", "cut", "socket", "twice", "loans"]
)
async def test_worker_when_it_shows_what_it_may_not_then_it_is_lost(
    two: Two, what: str
) -> None:
    await admitted(two)
    maker = b"another." if what == "other" else WORKER
    kind = ACTOR_KIND if what == "actor" else BLOCK_KIND
    name = new_id(maker, kind, 1)
    segment = Segment(name, MIB)
    table = {"share": name, "size": segment.size}
    loose = os.memfd_create("loose", os.MFD_ALLOW_SEALING)
    os.ftruncate(loose, MIB)
    if what == "small":
        table["size"] += 1
    fds = {"cut": loose, "socket": two.far.fileno()}
    give(two, fds.get(what, segment.fd))
    two.far.sendall(to_bytes((table,)))
    if what == "twice":
        give(two, segment.fd)
        two.far.sendall(to_bytes((table,)))
    if what == "loans":  # in nobody's hands: it would be free while it is looked at
        told = {name + bytes(8): (1,)}
        two.far.sendall(to_bytes((RESULT, 7, None, told)))
    async with in_time():
        error = await two.lost
    os.close(loose)
    segment.close()

    assert isinstance(error, ProtocolError)
    assert two.frames == []


@pytest.mark.parametrize(
    "what", ["closed", "garbage", "several", "too many", "before the allowance"]
)
async def test_worker_when_its_side_socket_is_not_as_told_then_it_is_lost(
    two: Two, what: str
) -> None:
    segment = Segment(THEIRS, MIB)
    if what != "before the allowance":
        two.owner.send_setup(two.near, 1)
        _, [fd], _, _ = socket.recv_fds(two.far, 4096, 1)
        with socket.socket(fileno=fd) as side:
            if what == "garbage":
                side.sendall(b"garbage")
            elif what in ("several", "too many"):
                count = 2 if what == "several" else 50
                socket.send_fds(side, [b"\0"], [segment.fd] * count)
    two.far.sendall(to_bytes(({"share": segment.name, "size": segment.size},)))
    async with in_time():
        error = await two.lost
    segment.close()

    assert isinstance(error, ProtocolError)
    with pytest.raises(ProtocolError):
        two.owner.memory.segment(segment.name)


def test_decoder_when_memory_was_never_spoken_of_then_a_table_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="no memory is shared"):
        FrameDecoder().feed(to_bytes((RESULT, 7, None, {b"x": (1,)})))


def test_encoded_when_a_segment_was_never_shown_here_then_the_frame_goes_without() -> (
    None
):
    sharing = SegmentSharing(SharedMemory())
    block = BLOCK_ID_STRUCT.pack(new_id(bytes(8), BLOCK_KIND, 0), 0)
    frame = (CALL, 1, "work", (block,), b"\xc0")

    sent = cast("bytes", sharing.encode(frame))

    assert FrameDecoder().feed(sent) == [frame]


def test_descriptor_when_the_other_side_is_gone_then_no_signal_comes() -> None:
    # A program may have restored the default handler, which would end it.
    signals: list[int] = []
    before = signal.signal(signal.SIGPIPE, lambda number, _: signals.append(number))
    here, there = socket.socketpair()
    try:
        there.close()
        with pytest.raises(BrokenPipeError):
            send_fd(here, b"\0", here.fileno())
    finally:
        here.close()
        signal.signal(signal.SIGPIPE, before)

    assert signals == []
