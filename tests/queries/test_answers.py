"""What is made of what was seen, before it is sent."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any

import pytest

from actorlib._queries.answers import ANSWERS
from actorlib._queries.protocol import OK, answer_frame, read_answer
from actorlib._queries.queries import begin_query
from actorlib._rows.snapshot import AllCalls, CallInfo


class Lane(IntEnum):
    """What a program may say of a request."""

    FAST = 2


def told_of(variables: dict[str, object]) -> Any:
    """What is told of the variables of a call, at the other end."""
    info = CallInfo(
        actor_id="", class_name="", method="f", state="running", variables=variables
    )
    no_engine: Any = None
    made = begin_query(ANSWERS.get, no_engine, "calls", {}).finish(
        (AllCalls([info]), 0)
    )
    answer = read_answer(answer_frame(OK, made)[4:], "calls")
    return answer.value.calls[0].variables


PLAIN = ["r1", 42, Lane.FAST, -(2**63), 2**64 - 1, True, None, 0.5, "a\udcff"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((value, value) for value in PLAIN),
        (2**64, "<int>"),
        (-(10**40), "<int>"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        ([1], "<list>"),
        (b"x", "<bytes>"),
    ],
)
def test_variable_when_json_has_no_word_for_it_then_it_is_named(
    value: object, expected: object
) -> None:
    told = told_of({"request": value})

    assert told == {"request": expected}
    json.dumps(told, allow_nan=False)
