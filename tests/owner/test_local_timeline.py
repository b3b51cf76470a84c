"""What was done and when, in the words of Chrome's trace events."""

from __future__ import annotations

from typing import Any

from actorlib._owner.tracing import CALL, LIFE, Span, Timeline, laned

ACTOR = b"\xa1"


def call(begun: float, ended: float, track: bytes = ACTOR, name: str = "add") -> Span:
    return Span(CALL, begun, ended, track, name, "finished")


def drawn(timeline: Timeline, now: float = 10.0) -> list[dict[str, Any]]:
    return timeline.events(now, 0.0)


def test_call_when_it_ended_then_it_is_drawn_from_being_made_to_its_answer() -> None:
    timeline = Timeline(9)
    timeline.begin_actor(ACTOR, "Counter", 1.0)
    timeline.add(call(2.0, 2.5))

    life, made = [event for event in drawn(timeline) if event["ph"] == "X"]

    assert (made["cat"], made["name"], made["ts"], made["dur"]) == (
        "task",
        "Counter.add",
        2e6,
        0.5e6,
    )
    assert made["args"] == {"actor_id": "a1", "outcome": "finished"}
    assert (life["cat"], life["dur"], life["args"]["outcome"]) == (
        "actor",
        9e6,
        "alive",
    )


def test_time_when_the_clock_has_another_beginning_then_it_is_since_1970() -> None:
    timeline = Timeline(9)
    timeline.add(call(100.0, 101.0, b"", "double"))

    about, made = timeline.events(101.0, -1_000.0)

    assert about["args"] == {"name": "functions"}
    assert (made["name"], made["ts"]) == ("double", 1_100e6)


def test_life_when_it_ended_then_it_is_drawn_to_its_end() -> None:
    timeline = Timeline(9)
    timeline.begin_actor(ACTOR, "Counter", 1.0)
    timeline.end_actor(ACTOR, "killed by signal 9", 3.0)

    _, life = drawn(timeline)

    assert (life["dur"], life["args"]["outcome"]) == (2e6, "killed by signal 9")


def test_spans_when_there_are_too_many_then_the_newest_are_kept() -> None:
    timeline = Timeline(2)
    for number in range(5):
        timeline.add(call(number, number + 0.5))

    *_, last = drawn(timeline)

    assert timeline.dropped == 3
    assert last["args"] == {"labels": "3 older events were not kept"}
    assert [e["ts"] for e in drawn(timeline) if e["ph"] == "X"] == [3e6, 4e6]


def test_labels_when_actors_come_and_go_then_few_are_kept() -> None:
    timeline = Timeline(4)
    for number in range(100):
        timeline.begin_actor(bytes([number]), "Counter", number)
        timeline.end_actor(bytes([number]), "ended", number)

    assert {e["name"] for e in drawn(timeline) if e["ph"] == "X"} == {"Counter"}
    assert len(timeline) == 4


def test_spans_when_they_overlap_then_each_has_a_lane() -> None:
    life = Span(LIFE, 0.0, 9.0, ACTOR, "Counter", "alive")
    spans = [call(1.0, 4.0), call(2.0, 3.0), call(3.5, 5.0), call(4.0, 6.0), life]

    assert [(lane, span.begun) for lane, span in laned(spans)] == [
        (0, 0.0),
        (1, 1.0),
        (2, 2.0),
        (2, 3.5),
        (1, 4.0),
    ]
