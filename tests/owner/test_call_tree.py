from __future__ import annotations

from typing import NamedTuple

from actorlib._owner.call_tree import CallTree


class Asked(NamedTuple):
    asking: int = 0
    number: int = 1


def test_made_when_a_call_has_made_others_then_those_without_an_answer_in_order() -> (
    None
):
    book: CallTree[Asked] = CallTree()
    for call, asking in [(3, 7), (1, 7), (2, 8), (4, 0)]:
        book.put(5, call, Asked(asking))
    book.put(6, 9, Asked(7))

    book.pop(5, 3)

    assert book.made(5, 7) == [1]
    assert book.made(5, 8) == [2]
    assert book.made(5, 0) == []


def test_pop_when_all_are_answered_then_nothing_is_kept() -> None:
    book: CallTree[Asked] = CallTree()
    for call in range(4):
        book.put(1, call, Asked(call % 2))
    for call in range(4):
        assert book.pop(1, call) is not None

    assert len(book) == 0
    assert book.made(1, 1) == []
    assert book.pop(1, 1) is None


def test_put_when_its_arguments_have_come_then_it_is_known_by_its_number() -> None:
    book: CallTree[Asked] = CallTree()
    book.put(1, 2, Asked(7, number=0))
    book.put(1, 2, Asked(7, number=3))

    found = book.get(1, 2)

    assert found is not None
    assert found.number == 3
    assert book.made(1, 7) == [2]


def test_of_when_a_worker_has_calls_without_an_answer_then_those_alone() -> None:
    book: CallTree[Asked] = CallTree()
    book.put(1, 2, Asked())
    book.put(1, 3, Asked())
    book.put(2, 4, Asked())
    book.pop(1, 3)

    assert book.of(1) == [2]
