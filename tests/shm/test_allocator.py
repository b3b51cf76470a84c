from __future__ import annotations

import pytest
from helpers.invariants import check_blocks
from hypothesis import given
from hypothesis import strategies as st

from actorlib._shm.allocator import PAGE, BlockAllocator, whole_pages


def test_take_when_there_is_room_then_the_lowest_gap_is_taken() -> None:
    blocks = BlockAllocator(10 * PAGE)
    starts = [blocks.allocate(PAGE) for _ in range(4)]
    blocks.free(PAGE)
    blocks.free(3 * PAGE)

    assert starts == [0, PAGE, 2 * PAGE, 3 * PAGE]
    assert blocks.allocate(1) == PAGE
    assert blocks.allocate(2 * PAGE) == 3 * PAGE


def test_take_when_no_gap_is_wide_enough_then_none() -> None:
    blocks = BlockAllocator(4 * PAGE)
    first, second = blocks.allocate(2 * PAGE), blocks.allocate(PAGE)
    assert second == 2 * PAGE
    blocks.free(first or 0)

    assert blocks.allocate(3 * PAGE) is None
    assert blocks.used == PAGE


def test_give_back_when_neighbours_are_free_then_they_are_one_gap_again() -> None:
    blocks = BlockAllocator(3 * PAGE)
    for _ in range(3):
        blocks.allocate(PAGE)
    for start in (0, 2 * PAGE, PAGE):
        blocks.free(start)

    assert blocks.allocate(3 * PAGE) == 0


def test_give_back_when_no_block_begins_there_then_it_says_so() -> None:
    blocks = BlockAllocator(PAGE)

    with pytest.raises(LookupError, match="no block begins at 4096"):
        blocks.free(PAGE)


def test_top_when_blocks_come_and_go_then_it_is_the_end_of_the_last() -> None:
    blocks = BlockAllocator(3 * PAGE)
    tops = [blocks.top]
    blocks.allocate(PAGE)
    tops.append(blocks.top)
    blocks.allocate(2 * PAGE)
    tops.append(blocks.top)
    blocks.free(0)
    tops.append(blocks.top)
    blocks.free(PAGE)
    tops.append(blocks.top)

    assert tops == [0, PAGE, 3 * PAGE, 3 * PAGE, 0]


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9 * PAGE)), max_size=60))
def test_blocks_when_taken_and_given_back_at_will_then_they_never_overlap(
    steps: list[tuple[bool, int]],
) -> None:
    blocks = BlockAllocator(32 * PAGE)
    held: dict[int, int] = {}

    for takes, number in steps:
        if takes:
            start = blocks.allocate(number)
            if start is not None:
                assert not any(
                    start < other + nbytes and other < start + whole_pages(number)
                    for other, nbytes in held.items()
                )
                held[start] = whole_pages(number)
        elif held:
            start = sorted(held)[number % len(held)]
            blocks.free(start)
            del held[start]
        check_blocks(blocks)
        assert blocks.used == sum(held.values())
        assert blocks.top == max((s + n for s, n in held.items()), default=0)
