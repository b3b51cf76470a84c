"""How what was recorded is drawn: spans, lanes, arrows, deaths."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib._base.ids import LINKED
from actorlib._features.recording.trace_events import (
    Actor,
    Made,
    Moved,
    Ran,
    Recorded,
    events,
    from_plain,
    lanes,
    read_piece,
    to_plain,
)

FRONT, BACK = b"front", b"back"


def recorded(**given: Any) -> Recorded:
    usual: dict[str, Any] = {
        "began": 10.0,
        "ended": 20.0,
        "pid": 7,
        "actors": [Actor(FRONT, "Front 'm1'", 71, "alive"), Actor(BACK, "Back", 72)],
        "sessions": {1: FRONT, 2: BACK},
        "calls": [],
        "link_calls": [],
        "runs": [],
        "moves": [],
        "puts": [],
        "waiting": set(),
        "dropped": 0,
        "silent": [],
    }
    return Recorded(**{**usual, **given})


def of(found: list[dict[str, Any]], cat: str, ph: str = "X") -> list[dict[str, Any]]:
    return [event for event in found if event.get("cat") == cat and event["ph"] == ph]


def test_call_of_the_program_when_it_ran_then_queue_and_run_and_an_arrow() -> None:
    found = events(
        recorded(
            calls=[Made(BACK, 1, 11.0, 0, 0, "work")],
            runs=[Ran(2, 1, "work", 12.0, 13.0, "KeyError", is_part=False)],
        )
    )

    (call,), (queue,), (run,) = (of(found, cat) for cat in ("call", "queue", "run"))
    assert (call["pid"], call["ts"], call["dur"]) == (0, 1e6, 2e6)
    assert (queue["pid"], queue["ts"], queue["dur"]) == (2, 1e6, 1e6)
    assert (run["pid"], run["ts"], run["dur"]) == (2, 2e6, 1e6)
    assert {event["name"] for event in (call, queue, run)} == {"Back.work"}
    assert run["args"]["outcome"] == "KeyError"
    (begin,), (end,) = of(found, "call", "s"), of(found, "call", "f")
    assert begin["id"] == end["id"]
    assert (begin["pid"], begin["tid"], begin["ts"]) == (0, call["tid"], 1e6)
    assert (end["pid"], end["tid"], end["ts"]) == (2, run["tid"], 2e6)


@pytest.mark.parametrize("number", [5, LINKED + 3], ids=["owner", "link"])
def test_call_of_an_actor_when_it_ran_then_the_arrow_begins_in_its_run(
    number: int,
) -> None:
    over_a_link = number > LINKED
    found = events(
        recorded(
            calls=[] if over_a_link else [Made(BACK, number, 12.0, 1, 4, "work")],
            link_calls=[(number, 4, 12.0)] if over_a_link else [],
            runs=[
                Ran(1, 4, "go", 11.0, 14.0, "", is_part=False),
                Ran(2, number, "work", 13.0, 13.5, "", is_part=False),
            ],
        )
    )

    go, work = of(found, "run")
    (queue,) = of(found, "queue")
    (begin,), (end,) = of(found, "call", "s"), of(found, "call", "f")
    assert (queue["pid"], queue["ts"], queue["dur"]) == (2, 2e6, 1e6)
    assert (begin["pid"], begin["tid"]) == (go["pid"], go["tid"]) == (1, 1)
    assert (end["pid"], end["tid"]) == (work["pid"], work["tid"])
    assert work["args"]["caller"] == "Front 'm1'"
    assert of(found, "call") == []


def test_call_of_a_function_when_it_ran_then_it_waited_in_the_line() -> None:
    found = events(
        recorded(
            calls=[Made(b"", 9, 11.0, 0, 0, "double")],
            runs=[Ran(2, 9, "3:double", 13.0, 14.0, "", is_part=False)],
        )
    )

    (queue,) = of(found, "queue")
    assert (queue["name"], queue["ts"], queue["dur"]) == ("double", 1e6, 2e6)


def test_call_when_it_has_no_answer_then_it_waits_to_the_end() -> None:
    calls = [Made(BACK, 1, 11.0, 0, 0, "work"), Made(BACK, 2, 12.0, 0, 0, "work")]

    found = events(recorded(calls=calls, waiting={(BACK, 1)}))

    (queue,) = of(found, "queue")
    assert (queue["ts"], queue["dur"]) == (1e6, 9e6)
    (lost,) = of(found, "call", "i")
    assert (lost["name"], lost["ts"]) == ("Back.work: no run was seen", 2e6)


def test_actor_when_it_is_restarted_and_dies_then_its_states_and_why() -> None:
    moves = [
        Moved(FRONT, 12.0, "restarting"),
        Moved(BACK, 13.0, "pending"),
        Moved(FRONT, 14.0, "alive"),
        Moved(FRONT, 15.0, "dead", "it was killed"),
    ]

    found = events(recorded(moves=moves, puts=[(16.0, 100)]))

    lives = [(e["pid"], e["name"], e["ts"], e["dur"]) for e in of(found, "life")]
    assert lives == [
        (1, "alive", 0.0, 2e6),
        (1, "restarting", 2e6, 2e6),
        (1, "alive", 4e6, 1e6),
        (2, "pending", 3e6, 7e6),
    ]
    (death,), (put,) = of(found, "death", "i"), of(found, "object", "i")
    assert (death["name"], death["ts"]) == ("died: it was killed", 5e6)
    assert (put["ts"], put["args"]) == (6e6, {"nbytes": 100})


def test_record_when_it_crosses_then_it_is_the_same() -> None:
    whole = recorded(
        calls=[Made(BACK, 1, 11.0, 0, 0, "work")],
        runs=[Ran(2, 1, "work", 12.0, 13.0, "", is_part=False)],
        moves=[Moved(FRONT, 12.0, "dead", "why")],
        link_calls=[(LINKED + 3, 4, 12.0)],
        puts=[(16.0, 100)],
        waiting={(BACK, 1)},
    )

    assert from_plain(to_plain(whole)) == whole


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20))))
def test_lanes_when_spans_overlap_then_none_in_one_lane(
    made: list[tuple[int, int]],
) -> None:
    spans = [(float(begun), float(begun + length)) for begun, length in made]

    by_lane: dict[int, list[tuple[float, float]]] = {}
    for span, lane in zip(spans, lanes(spans), strict=True):
        by_lane.setdefault(lane, []).append(span)

    for its in by_lane.values():
        its.sort()
        for (_, ended), (begun, _) in pairwise(its):
            assert ended <= begun


@pytest.mark.parametrize(
    "piece",
    [
        None,
        [],
        [[], [], []],
        [[[1, "m", 1.0, 2.0, ""]], []],
        [[[1, "m", 2.0, 1.0, "", False]], []],
        [[[1, "m", 1.0, float("inf"), "", False]], []],
        [[[0, "m", 1.0, 2.0, "", False]], []],
        [[], [[5, 0, 1.0]]],
        [[], [[2 * LINKED + 1, 0, float("nan")]]],
    ],
)
def test_piece_when_it_makes_no_sense_then_refused(piece: object) -> None:
    with pytest.raises(ValueError, match=r"piece|run|link"):
        read_piece(2, piece)


def test_piece_when_good_then_read() -> None:
    piece = [[[1, "m", 1.0, 2.0, "E", True]], [[2 * LINKED + 1, 4, 3.0]]]

    assert read_piece(2, piece) == (
        [Ran(2, 1, "m", 1.0, 2.0, "E", is_part=True)],
        [(2 * LINKED + 1, 4, 3.0)],
    )
