from __future__ import annotations

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from actorlib._shm.layout import (
    ALIGNMENT,
    BLOCK_ID_STRUCT,
    PAGE,
    SEGMENT_NAME_SIZE,
    buffer_starts,
)
from actorlib._shm.memory import (
    BlockRefCounter,
    SharedMemory,
    SharedPayload,
    SharingOptions,
    share_payload,
)
from actorlib._shm.segments import MemoryBudget
from actorlib._wire.serialization import decode, encode
from actorlib.exceptions import ObjectStoreFullError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


MIB = 1 << 20


class Book(BlockRefCounter):
    """Counts the holders of each block."""

    def __init__(self) -> None:
        self.holds: Counter[bytes] = Counter()

    def retain(self, actor: bytes) -> None:
        self.holds[actor] += 1

    def release(self, actor: bytes) -> None:
        self.holds[actor] -= 1

    @property
    def held(self) -> set[bytes]:
        return set(+self.holds)


class One:
    """The memory of a process.

    Args:
        prefix: How the names of its segments begin.
        limit: What it may touch.
    """

    def __init__(self, prefix: bytes, limit: int, **settings: Any) -> None:
        self.book = Book()
        self.memory = SharedMemory()
        self.memory.settings = SharingOptions(**{"share_above": 1, **settings})
        self.memory.budget = MemoryBudget(limit) if limit else None
        self.memory.bind_to(prefix, self.book)

    def put(self, value: object) -> Any:
        loans: list[Any] = []
        payload = share_payload(self.memory, encode(value), loans)
        assert loans == ([payload.block] if isinstance(payload, SharedPayload) else [])
        return payload

    @property
    def used(self) -> int:
        store = self.memory._store
        assert store is not None
        with store._lock:
            store._apply_deferred()
        return sum(segment.blocks.used for segment in store._segments.values())


@pytest.fixture
def make() -> Iterator[Callable[..., One]]:
    made: list[One] = []

    def make(
        limit: int = 64 * MIB, prefix: bytes = b"maker...", **settings: Any
    ) -> One:
        made.append(One(prefix, limit, **settings))
        return made[-1]

    yield make
    for one in made:
        one.memory.close()


def carried(payload: SharedPayload, maker: One, reader: One) -> SharedPayload:
    """The payload as another process finds it."""
    table = payload.location()
    segment = maker.memory.segment(payload.segment)
    if payload.segment not in reader.memory._foreign:
        reader.memory.add_segment(payload.segment, os.dup(segment.fd), segment.size)
    return reader.memory.payload_at(table)


def test_value_when_it_is_shared_then_the_other_side_reads_it_in_place(
    make: Callable[..., One],
) -> None:
    maker, reader = make(), make(0, b"reader..")
    value = {"a": np.arange(100_000), "b": b"x" * 200_000, "c": "text"}
    there = carried(maker.put(value), maker, reader)
    loaded = decode(there)

    assert np.array_equal(loaded["a"], value["a"])
    assert (loaded["b"], loaded["c"]) == (value["b"], "text")
    assert not loaded["a"].flags.writeable
    assert loaded["a"].ctypes.data % 64 == 0
    assert reader.book.held == {there.block}
    del loaded
    assert reader.book.held == set()


def test_value_when_it_is_small_or_not_to_be_shared_then_it_stays_what_it_is(
    make: Callable[..., One],
) -> None:
    array = np.zeros(100_000)
    for one in (make(0), make(share_above=MIB)):
        assert type(one.put(array)) is list
    assert type(make().put(1)) is bytes


def test_block_when_its_frame_and_its_views_are_gone_then_it_is_free(
    make: Callable[..., One],
) -> None:
    one = make()
    payload = one.put(np.ones(100_000))
    array = decode(payload)
    assert one.used
    del payload
    other = one.put(np.zeros(100_000))

    assert array.sum() == 100_000
    del array, other
    assert one.used == 0


def test_block_when_it_was_told_of_then_it_is_free_when_that_is_said(
    make: Callable[..., One],
) -> None:
    one = make()
    payload = one.put(np.zeros(100_000))
    payload.location()
    block = payload.block
    del payload
    before = one.used
    one.memory.free(block)

    assert before
    assert one.used == 0


def test_block_when_the_copy_is_interrupted_then_it_is_free(
    make: Callable[..., One], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make()
    keep = one.put(np.zeros(100_000))

    class Cut:
        def __setitem__(self, *_: object) -> None:
            raise KeyboardInterrupt

    segment = one.memory.segment(keep.segment)
    with monkeypatch.context() as patch:
        patch.setattr(type(segment), "writable_part", lambda *_: Cut())
        with pytest.raises(KeyboardInterrupt):
            one.put(np.zeros(100_000))
    del keep

    assert one.used == 0


def test_full_memory_when_it_spills_then_one_warning(
    make: Callable[..., One], caplog: pytest.LogCaptureFixture
) -> None:
    one = make(MIB)
    payloads = [one.put(np.zeros(150_000)) for _ in range(2)]

    assert [type(payload) for payload in payloads] == [list, list]
    assert "object_store_memory=1,048,576" in caplog.text
    assert len(caplog.records) == 1


def test_full_memory_when_it_is_to_fail_then_an_error(
    make: Callable[..., One],
) -> None:
    one = make(MIB, spills=False)
    with pytest.raises(ObjectStoreFullError, match="no room for 1,20"):
        one.put(np.zeros(150_000))


@pytest.mark.parametrize("breaks", ["posix_fallocate", "memfd_create"])
def test_system_when_it_has_no_memory_left_then_values_go_another_way(
    make: Callable[..., One], monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    def refuse(*_: object) -> int:
        raise OSError("no space left")

    one = make()
    monkeypatch.setattr("actorlib._shm.mapping._POPULATE_WRITE", 999_999)
    monkeypatch.setattr(os, breaks, refuse)
    if breaks == "memfd_create":
        monkeypatch.setattr("tempfile.TemporaryFile", refuse)

    assert type(one.put(np.zeros(100_000))) is list


def test_system_when_it_cannot_seal_then_workers_use_the_pipe_and_the_owner_does_not(
    make: Callable[..., One], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    worker = make()
    owner = make()
    owner.memory.bind_to(b"ownerown", owner, is_counted=True)

    assert type(worker.put(np.zeros(100_000))) is list
    assert type(owner.put(np.zeros(100_000))) is SharedPayload


def test_budget_when_it_holds_nonsense_then_values_go_another_way_until_it_is_known(
    make: Callable[..., One], caplog: pytest.LogCaptureFixture
) -> None:
    one = make()
    budget = one.memory.budget
    assert budget is not None
    os.pwrite(budget.fd, bytes([255]) * 8, 0)

    assert type(one.put(np.zeros(100_000))) is list
    assert "the budget of shared memory is invalid" in caplog.text


def test_fork_when_it_shares_then_not_what_its_parent_has(
    make: Callable[..., One],
) -> None:
    one = make()
    one.memory._process += 1  # as a fork would find it

    assert type(one.put(np.zeros(100_000))) is list


def test_threads_when_they_share_at_once_then_no_block_is_given_twice(
    make: Callable[..., One],
) -> None:
    one = make()
    start = threading.Barrier(4)
    payloads: list[SharedPayload] = []

    def work(number: int) -> None:
        start.wait()
        payloads.extend(one.put(np.full(20_000, number)) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))

    assert len({payload.block for payload in payloads}) == 80
    arrays = [decode(payload) for payload in payloads]
    assert sorted(int(array[0]) for array in arrays) == sorted([0, 1, 2, 3] * 20)
    assert all((array == array[0]).all() for array in arrays)


SEGMENT = b"maker..." + (1).to_bytes(SEGMENT_NAME_SIZE - 8, "big")
HERE = BLOCK_ID_STRUCT.pack(SEGMENT, 0)


@pytest.mark.parametrize(
    "lie",
    [
        {},
        {b"": (1,)},
        {3: (1,)},
        {None: (1,)},
        {"x" * BLOCK_ID_STRUCT.size: (1,)},
        {BLOCK_ID_STRUCT.pack(b"x" * 16, 0): (1,)},
        {HERE: (1,), BLOCK_ID_STRUCT.pack(b"x" * 16, 0): (1,)},
        {BLOCK_ID_STRUCT.pack(SEGMENT, 1): (1,)},
        {BLOCK_ID_STRUCT.pack(SEGMENT, 1 << 40): (1,)},
        {BLOCK_ID_STRUCT.pack(SEGMENT, (1 << 64) - PAGE): (1,)},
        {HERE: ()},
        {HERE: (-1,)},
        {HERE: (1 << 62, 1 << 62)},
        {HERE: ("a",)},
        {HERE: (True,)},
        {HERE: 7},
        {HERE: None},
        {HERE: b"1"},
        {HERE: {1: 1}},
        {HERE: (1.0,)},
    ],
)
def test_table_when_it_lies_then_an_error(
    make: Callable[..., One], lie: dict[Any, Any]
) -> None:
    maker, reader = make(), make(0, b"reader..")
    there = carried(maker.put(np.zeros(100_000)), maker, reader)
    assert there.block == HERE

    with pytest.raises(ProtocolError):
        reader.memory.payload_at(lie)


def test_free_when_the_block_is_nobody_s_then_an_error(
    make: Callable[..., One],
) -> None:
    for one in (make(0), make()):
        for block in (
            b"",
            b"x" * 24,
            3,
            BLOCK_ID_STRUCT.pack(b"maker...\0\0\0\0\0\0\0\1", 0),
        ):
            with pytest.raises((ProtocolError, LookupError)):
                one.memory.free(cast("bytes", block))


def test_view_when_the_memory_is_closed_then_it_still_shows_the_value(
    make: Callable[..., One],
) -> None:
    maker, reader = make(), make(0, b"reader..")
    payload = maker.put(np.ones(100_000))
    there = decode(carried(payload, maker, reader))
    here = decode(payload)
    maker.memory.close()
    reader.memory.close()

    assert there.sum() == here.sum() == 100_000
    assert type(maker.put(np.ones(100_000))) is list


@pytest.mark.parametrize(
    ("sizes", "starts", "nbytes"),
    [
        ((1,), [0], ALIGNMENT),
        ((0, 1), [0, 0], ALIGNMENT),
        ((65, 64, 3), [0, 128, 192], 256),
        ((100, MIB - 1), [0, 128], 128 + MIB),
        ((100, MIB), [0, PAGE], PAGE + MIB),
        ((MIB, 100, MIB), [0, MIB, MIB + PAGE], 2 * MIB + PAGE),
    ],
)
def test_buffers_when_large_then_they_begin_at_pages(
    sizes: tuple[int, ...], starts: list[int], nbytes: int
) -> None:
    assert buffer_starts(sizes) == (starts, nbytes)
