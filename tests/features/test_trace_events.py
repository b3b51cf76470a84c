"""How what was recorded is drawn: spans, lanes, arrows, deaths."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

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
    lanes,
    read_piece,
)

if TYPE_CHECKING:
    from helpers.goldens import Golden

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


def ran(session: int, number: int, name: str, began: float, ended: float) -> Ran:
    return Ran(session, number, name, began, ended, "", is_part=False)


RECORDS = {
    "a call of the program": recorded(
        calls=[Made(BACK, 1, 11.0, 0, 0, "work")],
        runs=[Ran(2, 1, "work", 12.0, 13.0, "KeyError", is_part=False)],
    ),
    "a call of an actor": recorded(
        calls=[Made(BACK, 5, 12.0, 1, 4, "work")],
        runs=[ran(1, 4, "go", 11.0, 14.0), ran(2, 5, "work", 13.0, 13.5)],
    ),
    "a call over a link": recorded(
        link_calls=[(LINKED + 3, 4, 12.0)],
        runs=[ran(1, 4, "go", 11.0, 14.0), ran(2, LINKED + 3, "work", 13.0, 13.5)],
    ),
    "a call of a function": recorded(
        calls=[Made(b"", 9, 11.0, 0, 0, "double")],
        runs=[ran(2, 9, "3:double", 13.0, 14.0)],
    ),
    "a call that waits, and one without a run": recorded(
        calls=[Made(BACK, 1, 11.0, 0, 0, "work"), Made(BACK, 2, 12.0, 0, 0, "work")],
        waiting={(BACK, 1)},
    ),
    "lives and a put": recorded(
        moves=[
            Moved(FRONT, 12.0, "restarting"),
            Moved(BACK, 13.0, "pending"),
            Moved(FRONT, 14.0, "alive"),
            Moved(FRONT, 15.0, "dead", "it was killed"),
        ],
        puts=[(16.0, 100)],
    ),
}


def test_events_of_records(golden: Golden) -> None:
    lines: list[str] = []
    for name, record in RECORDS.items():
        found = record.events()
        arrows = [event for event in found if event["ph"] in "sf"]
        # Each arrow has both ends, at spans that are drawn.
        assert len(arrows) == 2 * len({event["id"] for event in arrows})
        spans = {(event["pid"], event["tid"]) for event in found if event["ph"] == "X"}
        assert {(event["pid"], event["tid"]) for event in arrows} <= spans, name
        lines.append(f"{name}:")
        lines += [f"  {row_of(event)}" for event in found if event["ph"] != "M"]

    golden.check("trace-events.txt", "\n".join([*lines, ""]))


def row_of(event: dict[str, Any]) -> str:
    """An event on one line, without the time and the arguments that it lacks."""
    times = [f"{event[key]:g}" for key in ("ts", "dur") if key in event]
    where = f"{event['pid']}.{event['tid']}"
    arguments = event.get("args") or {}
    words = [event["ph"], event["cat"], event["name"], "at", where, *times]
    return " ".join([*words, *(f"{k}={v}" for k, v in arguments.items())])


def test_record_when_it_crosses_then_it_is_the_same() -> None:
    whole = recorded(
        calls=[Made(BACK, 1, 11.0, 0, 0, "work")],
        runs=[Ran(2, 1, "work", 12.0, 13.0, "", is_part=False)],
        moves=[Moved(FRONT, 12.0, "dead", "why")],
        link_calls=[(LINKED + 3, 4, 12.0)],
        puts=[(16.0, 100)],
        waiting={(BACK, 1)},
    )

    assert Recorded.from_plain(whole.to_plain()) == whole


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
