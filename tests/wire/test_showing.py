from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.turns import in_time

from actorlib._wire.channel import Channel
from actorlib._wire.codec import FrameDecoder
from actorlib._wire.frames import RESULT
from actorlib._wire.memory import Memory, Settings, shared
from actorlib._wire.payload import decode, encode
from actorlib._wire.pipe import Pipe
from actorlib._wire.segments import Budget, Segment
from actorlib._wire.showing import Passed, Showing, pack, put
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OWNER, WORKER = b"owner...", b"worker.."
MIB = 1 << 20


class Nobody:
    """Counts nothing; see Holder."""

    def retain(self, actor: bytes) -> None:
        """Does nothing."""

    def release(self, actor: bytes) -> None:
        """Does nothing."""


def memory(prefix: bytes) -> Memory:
    made = Memory()
    made.settings = Settings(share_above=1)
    made.budget = Budget(64 * MIB)
    made.belong(prefix, Nobody())
    return made


class Two:
    """An owner with a channel, and a worker with a pipe, at two ends of a socket."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)  # noqa: FBT003  # the socket API
        self.owner = Showing(memory(OWNER), WORKER)
        self.worker = Showing(Memory())
        self.frames: list[Any] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.Future()
        self.came = asyncio.Event()
        self.channel = Channel(
            asyncio.get_running_loop(),
            self.near,
            self.receive,
            self.lost.set_result,
            showing=self.owner,
        )
        self.pipe = Pipe(self.far, self.worker)

    def receive(self, frames: list[Any]) -> None:
        self.frames += frames
        self.came.set()

    def close(self) -> None:
        self.channel.close()
        self.far.close()
        for showing in (self.owner, self.worker):
            showing.close()
            showing.memory.close()


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    two = Two()
    yield two
    two.close()


def result(made: Memory, value: object) -> tuple[Any, ...]:
    loans: list[Any] = []
    payload = shared(made, encode(value), loans)
    return (RESULT, 7, tuple(loans), payload)


async def admitted(two: Two) -> None:
    """Lets the worker touch memory, as a runtime does."""
    two.channel.show(two.owner.allowance(1))
    two.channel.send((1, "go"))
    assert await asyncio.to_thread(two.pipe.receive) == [(1, "go")]
    two.worker.memory.belong(WORKER, Nobody())


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
    assert len(two.worker.memory._shown) == len(two.owner.memory._shown) == 1


async def test_descriptor_when_the_pipe_is_full_then_it_comes_when_there_is_room(
    two: Two,
) -> None:
    two.worker.memory.belong(WORKER, Nobody())
    small = (1, b"x" * 40_000)
    while not two.channel.waiting:  # until the kernel takes no more
        two.channel.send(small)
        await asyncio.sleep(0)
    two.channel.send(result(two.owner.memory, np.ones(20_000)))

    def read() -> Any:
        while True:
            for frame in two.pipe.receive():
                if frame[0] == RESULT:
                    return frame

    async with in_time():
        frame = await asyncio.to_thread(read)
    assert decode(frame[-1]).sum() == 20_000


async def test_descriptor_when_nothing_of_its_table_goes_then_it_waits_with_it(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    def block(*_: object) -> int:
        monkeypatch.setattr("actorlib._wire.channel.put", put)
        raise BlockingIOError

    monkeypatch.setattr("actorlib._wire.channel.put", block)
    two.channel.show(two.owner.allowance(1))
    two.channel.send((1, "go"))
    async with in_time():
        frames = await asyncio.to_thread(two.pipe.receive)
    assert frames == [(1, "go")]
    assert two.worker.memory.budget is not None


async def test_descriptors_when_they_come_then_programs_started_here_do_not_get_them(
    two: Two,
) -> None:
    await admitted(two)
    budget = two.worker.memory.budget

    assert budget is not None
    assert not os.get_inheritable(budget.fd)


async def test_pipe_when_it_closes_then_descriptors_that_nobody_asked_for_are_closed(
    two: Two,
) -> None:
    fd = os.memfd_create("lost")
    put(two.far, Passed({"a": 1}, fd))  # its table is broken off by what follows
    os.close(fd)
    async with in_time():
        error = await two.lost

    assert isinstance(error, ProtocolError)  # the guard looks for descriptors


LIES: list[tuple[Any, ...]] = [
    ({"show": WORKER + b"0001", "size": MIB},),  # without a descriptor
    ({"show": 3, "size": MIB},),
    ({"free": OWNER + b"\0" * 12},),
    ({"gone": WORKER + b"0001"},),
    ({"slot": 0, "limit": 1 << 60, "settings": (1, True)},),
    ({},),
    ({"a": 1},),
    (RESULT, 7, None, {"segment": WORKER + b"0001", "start": 0, "sizes": (1,)}),
    (RESULT, 7, None, {"segment": OWNER + b"0001", "start": 0, "sizes": (1,)}),
    (RESULT, 7, None, {}),
]


@pytest.mark.parametrize("lie", LIES)
async def test_worker_when_its_table_lies_then_it_is_lost_and_the_owner_is_not(
    two: Two, lie: tuple[Any, ...]
) -> None:
    two.far.sendall(pack(lie))
    async with in_time():
        error = await two.lost

    assert isinstance(error, ProtocolError)
    assert two.frames == []
    assert two.owner.memory.budget is not None
    assert two.owner.memory.budget.limit == 64 * MIB


@pytest.mark.parametrize("what", ["other", "small", "cut", "socket", "twice", "loans"])
async def test_worker_when_it_shows_what_it_may_not_then_it_is_lost(
    two: Two, what: str
) -> None:
    name = (b"another." if what == "other" else WORKER) + b"0001"
    segment = Segment(name, MIB)
    table = {"show": name, "size": segment.size}
    loose = os.memfd_create("loose", os.MFD_ALLOW_SEALING)
    os.ftruncate(loose, MIB)
    if what == "small":
        table["size"] += 1
    fds = {"cut": loose, "socket": two.far.fileno()}
    put(two.far, Passed(table, fds.get(what, segment.fd)))
    if what == "twice":
        put(two.far, Passed(table, segment.fd))
    if what == "loans":  # in nobody's hands: it would be free while it is looked at
        told = {"segment": name, "start": 0, "sizes": (1,)}
        two.far.sendall(pack((RESULT, 7, None, told)))
    async with in_time():
        error = await two.lost
    os.close(loose)
    segment.close()

    assert isinstance(error, ProtocolError)
    assert two.frames == []


def test_decoder_when_memory_was_never_spoken_of_then_a_table_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="never spoken of"):
        FrameDecoder().feed(pack((RESULT, 7, None, {"segment": b"x"})))
