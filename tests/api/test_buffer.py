from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actorlib._api.queue_actor import Answer, Buffer


def item(payload: object) -> list[Any]:
    return [0, payload, None]


def taken(answers: list[Answer]) -> dict[bytes, Any]:
    """What each who asked was given; None for a put."""
    return {token: items and [i[1] for i in items] for token, items in answers}


def test_put_when_others_wait_for_room_then_it_does_not_pass_them() -> None:
    buffer = Buffer(1)
    buffer.put(b"a", item("a"))
    buffer.put(b"b", item("b"))
    buffer.put(b"c", item("c"))
    assert buffer.is_full
    assert buffer.put_all([item("d")]) is None

    got = [taken(buffer.get(b"g"))[b"g"] for _ in range(3)]

    assert got == [["a"], ["b"], ["c"]]


def test_get_when_empty_then_who_waits_longest_gets_the_next() -> None:
    buffer = Buffer(0)
    buffer.get(b"x")
    buffer.get(b"y")

    assert taken(buffer.put(b"p", item(1))) == {b"x": [1], b"p": None}
    assert taken(buffer.put(b"p", item(2))) == {b"y": [2], b"p": None}


def test_leave_when_a_getter_waits_no_more_then_the_next_one_is_served() -> None:
    buffer = Buffer(0)
    buffer.get(b"x")
    buffer.get(b"y")
    buffer.leave(b"x")
    buffer.leave(b"nobody")

    assert taken(buffer.put(b"p", item(1))) == {b"y": [1], b"p": None}


def test_put_all_when_there_is_no_room_for_all_then_none_goes_in() -> None:
    buffer = Buffer(2)

    assert buffer.put_all([item(n) for n in range(3)]) is None
    assert buffer.put_all([item(n) for n in range(2)]) == []
    assert buffer.get_many(3) == (None, [])
    items, answers = buffer.get_many(2)
    assert items is not None
    assert [i[1] for i in items] == [0, 1]
    assert answers == []


def test_get_many_when_a_putter_waits_then_it_goes_in() -> None:
    buffer = Buffer(1)
    buffer.put(b"a", item("a"))
    buffer.put(b"b", item("b"))

    _, answers = buffer.get_many(1)

    assert taken(answers) == {b"b": None}


def test_put_back_when_others_came_meanwhile_then_it_stands_before_them() -> None:
    buffer = Buffer(2)
    for number in range(2):
        buffer.put(b"p", item(number))
    first = buffer.get(b"g")[0].items
    assert first is not None
    buffer.put(b"p", item(2))

    assert buffer.put_back(first) == []  # one more than there is room for
    assert [taken(buffer.get(b"g"))[b"g"] for _ in range(3)] == [[0], [1], [2]]


def test_put_back_when_somebody_waits_then_they_get_it() -> None:
    buffer = Buffer(0)
    buffer.put(b"p", item("a"))
    items = buffer.get(b"g")[0].items
    assert items is not None
    buffer.get(b"h")

    assert taken(buffer.put_back(items)) == {b"h": ["a"]}


@given(
    maxsize=st.integers(0, 3),
    steps=st.lists(st.sampled_from("pgbl"), max_size=40),
)
def test_buffer_when_used_in_any_way_then_no_item_is_lost_or_out_of_order(
    maxsize: int, steps: list[str]
) -> None:
    buffer = Buffer(maxsize)
    put: list[int] = []
    got: list[int] = []
    waiting: dict[bytes, int] = {}

    def note(answers: list[Answer]) -> None:
        for token, items in answers:
            waiting.pop(token, None)
            got.extend(i[1] for i in items or [])

    for tokens, step in enumerate(steps, 1):
        token = tokens.to_bytes(4, "big")
        if step == "p":
            put.append(tokens)
            waiting[token] = tokens
            note(buffer.put(token, item(tokens)))
        elif step == "g":
            note(buffer.get(token))
        elif step == "b":
            items, answers = buffer.get_many(1)
            note(answers)
            note(buffer.put_back(items or []))
        else:
            token = (tokens - 1).to_bytes(4, "big")
            if token in waiting:  # its item never comes
                put.remove(waiting.pop(token))
            buffer.leave(token)
    while (found := buffer.get_many(1))[0] is not None:
        note([Answer(b"", found[0]), *found[1]])
    assert got == put
