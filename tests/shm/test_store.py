from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from helpers.invariants import check_blocks
from helpers.memory import end_of_sweep
from hypothesis import given
from hypothesis import strategies as st

from actorlib._shm.allocator import PAGE, whole_pages
from actorlib._shm.layout import BLOCK_ID_STRUCT, SEGMENT_NAME_SIZE
from actorlib._shm.segments import MemoryBudget
from actorlib._shm.store import SegmentStore
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from actorlib._shm.segments import Segment

MIB = 1 << 20
PREFIX = b"prefix.."


@contextmanager
def opened(
    limit: int,
    tidy: Callable[[SegmentStore], None] = lambda _: None,
    budget: MemoryBudget | None = None,
) -> Generator[SegmentStore]:
    budget = budget or MemoryBudget(limit)
    store = SegmentStore(PREFIX, budget, lambda: tidy(store))
    yield store
    assert budget.used() == store.touched <= limit
    for segment in segments(store):
        check_blocks(segment.blocks)
    store.close()
    budget.close()


def segments(store: SegmentStore) -> list[Segment]:
    names = (PREFIX + number.to_bytes(8, "big") for number in range(1, 100))
    return [each for name in names if (each := store.segment(name)) is not None]


def taken(store: SegmentStore, nbytes: int) -> bytes:
    """The id of a new block; it must have room."""
    found = store.allocate(nbytes)
    assert found is not None
    segment, start = found
    return BLOCK_ID_STRUCT.pack(segment.name, start)


def used(store: SegmentStore) -> int:
    return sum(segment.blocks.used for segment in segments(store))


def test_take_when_a_block_was_freed_then_its_memory_is_used_again() -> None:
    with opened(64 * MIB) as store:
        first = taken(store, MIB)
        touched = store.touched
        store.free(first)

        assert taken(store, MIB) == first
        assert store.touched == touched


def test_take_when_the_budget_is_spent_then_none_and_nothing_is_kept() -> None:
    with opened(2 * MIB) as store:
        taken(store, MIB)

        assert store.allocate(2 * MIB) is None
        assert store.allocate(1 << 45) is None
        assert used(store) == MIB
        assert store.allocate(MIB) is not None


def test_take_when_a_value_is_larger_than_a_segment_then_it_has_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actorlib._shm.store.SEGMENT_SIZE", MIB)
    with opened(64 * MIB) as store:
        first, second = taken(store, MIB // 2), taken(store, 3 * MIB)

        assert first[:SEGMENT_NAME_SIZE] != second[:SEGMENT_NAME_SIZE]
        assert len(segments(store)) == 2


def test_take_when_room_is_missing_then_what_became_free_is_looked_at_first() -> None:
    held: list[bytes] = []

    def tidy(store: SegmentStore) -> None:
        while held:
            store.free(held.pop())

    with opened(2 * MIB, tidy) as store:
        held.append(taken(store, 2 * MIB))
        assert taken(store, 2 * MIB)


def test_take_when_tidying_needs_another_thread_then_it_is_not_locked_out() -> None:
    def tidy(store: SegmentStore) -> None:
        # As a value that is loaded meanwhile may wait for one that shares another.
        other = threading.Thread(target=store.add_view, args=(b"x",))
        other.start()
        other.join(10)
        assert not other.is_alive()

    with opened(4 * MIB, tidy) as store:
        taken(store, 2 * MIB)


@pytest.mark.parametrize("ends", [SegmentStore.free, SegmentStore.drop])
def test_block_when_this_process_looks_at_it_then_it_is_not_used_again(
    ends: Callable[[SegmentStore, bytes], None],
) -> None:
    with opened(64 * MIB) as store:
        block = taken(store, MIB)
        store.add_view(block)
        store.add_view(block)
        ends(store, block)
        store.remove_view(block)
        assert taken(store, MIB) != block
        store.remove_view(block)
        assert taken(store, MIB) == block


@pytest.mark.parametrize(
    "block",
    [
        BLOCK_ID_STRUCT.pack(PREFIX + b"\0\0\0\0\0\0\0\1", PAGE),
        BLOCK_ID_STRUCT.pack(PREFIX + b"\0\0\0\0\0\0\0\2", 0),
        BLOCK_ID_STRUCT.pack(b"x" * SEGMENT_NAME_SIZE, 0),
    ],
)
def test_free_when_there_is_no_such_block_then_an_error(block: bytes) -> None:
    with opened(64 * MIB) as store:
        taken(store, MIB)
        with pytest.raises((ProtocolError, LookupError)):
            store.free(block)


def test_memory_when_it_is_free_then_a_part_of_the_budget_is_kept_warm() -> None:
    with opened(64 * MIB) as store:
        store.free(taken(store, 4 * MIB))
        kept = store.touched
        store.free(taken(store, 24 * MIB))

        assert kept >= 4 * MIB
        assert store.touched == 8 * MIB


def test_memory_when_it_is_short_then_nothing_is_kept_from_others() -> None:
    with opened(65 * MIB + 1) as store:  # no whole pages: warm parts are rounded
        taken(store, 48 * MIB)
        store.free(taken(store, 10 * MIB))

        assert store.touched == 48 * MIB


def test_memory_when_it_gets_short_then_what_was_kept_warm_goes_soon() -> None:
    budget = MemoryBudget(64 * MIB)
    with opened(64 * MIB, budget=budget) as store:
        store.free(taken(store, 6 * MIB))  # there is enough, so it stays warm
        with other_process(budget, 40 * MIB):
            assert store.touched >= 6 * MIB
            for _ in range(100):
                store.free(taken(store, MIB))
                if not store.touched:
                    break

            assert store.touched == 0


@contextmanager
def other_process(budget: MemoryBudget, touched: int) -> Generator[None]:
    """While another process has touched so much."""
    budget.add_slot(1)
    other = MemoryBudget(budget.limit, 1, os.dup(budget.fd))
    assert other.set_touched(touched)
    yield
    other.set_touched(0)
    other.close()


def sweep(store: SegmentStore) -> None:
    """Gives back what was not used since this was called last, to the end."""
    store.sweep()
    end_of_sweep()


def cost(store: SegmentStore) -> int:
    """The bytes that the system has given its segments."""
    return sum(os.fstat(s.fd).st_blocks * 512 for s in segments(store))


def test_memory_when_it_was_unused_between_two_sweeps_then_it_is_given_back() -> None:
    with opened(256 * MIB) as store:
        store.free(taken(store, 20 * MIB))
        sweep(store)
        kept = cost(store)
        sweep(store)

        assert kept >= 20 * MIB
        assert (store.touched, cost(store)) == (0, 0)


def test_memory_when_it_is_below_a_block_then_it_is_given_back_and_used_again() -> None:
    with opened(256 * MIB) as store:
        low, high = taken(store, 20 * MIB), taken(store, PAGE)
        [segment] = segments(store)
        place = BLOCK_ID_STRUCT.unpack(high)[1]
        segment.writable_part(place, 4)[:] = b"kept"
        store.free(low)
        sweep(store)
        sweep(store)

        assert store.touched == cost(store) == PAGE
        assert bytes(segment.writable_part(place, 4)) == b"kept"
        assert taken(store, 20 * MIB) == low
        assert cost(store) >= 20 * MIB + PAGE


def test_memory_when_some_is_in_use_all_the_time_then_that_stays_warm() -> None:
    with opened(256 * MIB) as store:
        store.free(taken(store, 20 * MIB))
        for _ in range(3):
            store.free(taken(store, MIB))
            sweep(store)

        assert store.touched == cost(store) == MIB


def test_block_when_its_memory_was_given_back_and_none_is_left_then_none() -> None:
    budget = MemoryBudget(32 * MIB)
    with opened(32 * MIB, budget=budget) as store:
        low, _ = taken(store, 20 * MIB), taken(store, PAGE)
        store.free(low)
        sweep(store)
        sweep(store)
        with other_process(budget, 30 * MIB):
            assert store.allocate(20 * MIB) is None
            assert taken(store, MIB) == low


def test_memory_when_it_is_closed_then_late_destructors_do_no_harm() -> None:
    budget = MemoryBudget(64 * MIB)
    store = SegmentStore(PREFIX, budget, lambda: None)
    block = taken(store, MIB)
    store.add_view(block)
    store.close()
    store.drop(block)
    store.remove_view(block)
    store.free(block)
    budget.close()


steps = st.lists(
    st.tuples(
        st.sampled_from(["take", "free", "drop", "view", "unview", "sweep"]),
        st.integers(1, 40 * PAGE),
    ),
    max_size=60,
)


@given(steps)
def test_store_when_used_at_will_then_no_block_is_given_twice(
    steps: list[tuple[str, int]],
) -> None:
    with opened(100 * PAGE) as store:
        held: dict[bytes, int] = {}  # blocks that somebody else has
        views: list[bytes] = []
        sizes: dict[bytes, int] = {}
        for what, number in steps:
            if what == "take":
                found = store.allocate(number)
                if found is None:
                    continue
                block = BLOCK_ID_STRUCT.pack(found[0].name, found[1])
                for other in {*held, *views}:
                    start, end = BLOCK_ID_STRUCT.unpack(other)[1], sizes[other]
                    apart = found[1] >= start + end
                    assert apart or found[1] + whole_pages(number) <= start
                held[block] = sizes[block] = whole_pages(number)
            elif what in ("free", "drop") and held:
                block = sorted(held)[number % len(held)]
                del held[block]
                (store.free if what == "free" else store.drop)(block)
            elif what == "view" and held:
                views.append(sorted(held)[number % len(held)])
                store.add_view(views[-1])
            elif what == "unview" and views:
                store.remove_view(views.pop(number % len(views)))
            elif what == "sweep":
                sweep(store)
            for block in {*held, *views}:
                name, start = BLOCK_ID_STRUCT.unpack(block)
                segment = store.segment(name)
                assert segment is not None
                assert not segment.missing(start, start + sizes[block])
            assert store.touched >= cost(store)
        sweep(store)  # applies what destructors have recorded
        assert used(store) == sum(sizes[block] for block in {*held, *views})
