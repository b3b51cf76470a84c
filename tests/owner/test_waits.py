from __future__ import annotations

import pytest

from actorlib._owner.requests.deadlocks import (
    Need,
    Wait,
    WaitEdge,
    Waits,
    cycle_in_words,
)

A, B, C = "A", "B", "C"
NEEDS: dict[int, Need[str]] = {
    1: Need("A.g", A),
    2: Need("B.f", B),
    3: Need("C.f", C),
    9: Need("D.threaded", None),
}


@pytest.mark.parametrize(
    ("waits", "circle"),
    [
        ([(A, "A.f", 1)], [("A.f", "A.g")]),
        ([(A, "A.f", 2), (B, "B.f", 1)], [("B.f", "A.g"), ("A.f", "B.f")]),
        (
            [(A, "A.f", 2), (B, "B.f", 3), (C, "C.f", 1)],
            [("C.f", "A.g"), ("A.f", "B.f"), ("B.f", "C.f")],
        ),
        ([(A, "A.f", 2), (B, "B.f", 9)], []),  # it has no single thread
        ([(A, "A.f", 2), (B, "B.f", 77)], []),  # it is answered
    ],
)
def test_begin_when_actors_wait_then_the_last_wait_closes_the_circle(
    waits: list[tuple[str, str, int]], circle: list[tuple[str, str]]
) -> None:
    known: Waits[str, int] = Waits()

    *before, last = [
        known.begin(actor, Wait(who, call), NEEDS.get) for actor, who, call in waits
    ]

    assert not any(before)
    assert last == [WaitEdge(*edge) for edge in circle]
    assert len(known) == len(waits) - bool(circle)


def test_begin_when_it_leads_into_a_circle_of_others_then_none_of_its_own() -> None:
    known: Waits[str, int] = Waits()
    known.begin(B, Wait("B.f", 3), NEEDS.get)
    needs = {3: Need("C.f", C), 2: Need("B.f", B), 4: Need("B.g", B)}
    known.begin(C, Wait("C.f", 4), lambda _: None)  # as if it had been missed

    assert known.begin(A, Wait("A.f", 2), needs.get) == []


def test_end_when_a_wait_was_given_up_then_it_closes_nothing() -> None:
    known: Waits[str, int] = Waits()
    known.begin(A, Wait("A.f", 2), NEEDS.get)
    known.end(A)

    assert known.begin(B, Wait("B.f", 1), NEEDS.get) == []


@pytest.mark.parametrize(
    ("links", "told"),
    [
        (
            [WaitEdge("A.f", "A.g")],
            "A.f waits for A.g of the same actor, which cannot begin before A.f has",
        ),
        (
            [WaitEdge("B.f", "A.g"), WaitEdge("A.f", "B.f")],
            "B.f waits for A.g, which is behind A.f, which waits for B.f, which cannot "
            "begin before B.f has ended",
        ),
        (
            [WaitEdge("B.f", "A.g"), WaitEdge("A.g", "B.h")],
            "B.f waits for A.g, which waits for B.h, which cannot begin before B.f",
        ),
    ],
)
def test_circle_when_told_then_it_names_each(links: list[WaitEdge], told: str) -> None:
    assert cycle_in_words(links).startswith(told)
