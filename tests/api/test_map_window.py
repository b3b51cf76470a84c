"""Whose results come next, and how long chunks are: from values."""

from __future__ import annotations

import pytest

from actorlib._api.map_source import ValueSource
from actorlib._api.map_window import (
    CHUNK_SECONDS,
    LARGEST_CHUNK,
    Window,
    next_chunk_size,
    queued_chunks,
)


@pytest.mark.parametrize(
    ("current", "count", "seconds", "following"),
    [
        (1, 1, 1e-6, 4),  # quick: it grows step by step
        (64, 1, 1e-6, 64),  # an early answer does not shrink it
        (4, 4, CHUNK_SECONDS, 4),
        (100, 100, 2 * CHUNK_SECONDS, 50),  # slow: it shrinks at once
        (100, 10, 10.0, 1),
        (1000, 1000, 0.0, LARGEST_CHUNK),
    ],
)
def test_chunk_size_when_a_chunk_is_answered_then_about_five_milliseconds(
    current: int, count: int, seconds: float, following: int
) -> None:
    assert next_chunk_size(current, count, seconds) == following


@pytest.mark.parametrize(
    ("seconds", "queued"),
    [(0.0, 1), (10.0, 1), (CHUNK_SECONDS / 3.5, 3), (1e-9, 16)],
)
def test_queued_chunks_when_they_are_short_then_more(
    seconds: float, queued: int
) -> None:
    assert queued_chunks(seconds) == queued


def test_window_when_ordered_then_the_first_is_waited_for() -> None:
    window = Window()
    first, second = window.add(), window.add()
    window.begin(first, 2)
    window.begin(second, 1)
    window.finish_part(second)

    assert window.next(is_ordered=True) is None
    assert window.next(is_ordered=False) == second
    window.finish_part(first)
    assert window.next(is_ordered=True) is None  # one of its parts is not done
    window.finish_part(first)
    assert window.next(is_ordered=True) == first
    assert window.newly_done() == [second, first]
    assert window.newly_done() == []
    window.drop(first)
    assert (len(window), window.first()) == (1, second)


def test_window_when_a_call_was_dropped_then_its_end_changes_nothing() -> None:
    window = Window()
    number = window.add()
    window.begin(number, 1)
    window.drop(number)
    window.finish_part(number)

    assert (len(window), window.next(is_ordered=False)) == (0, None)


def test_source_when_an_iterable_fails_then_what_came_before_is_given() -> None:
    def items() -> object:
        yield from (1, 2, 3)
        raise ArithmeticError("no more")

    source = ValueSource("map()", (items(), iter("abcd")))

    assert source.take(2, is_partial=False) == (1, "a", 2, "b")
    assert source.take(2, is_partial=False) == (3, "c")
    with pytest.raises(ArithmeticError):
        source.take(2, is_partial=False)
    assert source.is_over
    assert source.take(2, is_partial=False) == ()
