"""Which actor is meant by what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from helpers.listings import info

from actorlib._cli.choosing import find_actor
from actorlib.exceptions import RuntimeNotFoundError

if TYPE_CHECKING:
    from actorlib.types import ActorInfo


def row(number: int, name: str | None = None, **changed: Any) -> ActorInfo:
    known = {
        "actor_id": f"{0xABCD:016x}{number:016x}",
        "name": name,
        "pid": 800 + number,
    }
    return info(**{**known, **changed})


ROWS = [
    row(1, "m1"),
    row(2, "m2"),
    row(3, None, class_name="Loader"),
    row(4, "802"),
    row(5, "m2", state="dead"),
    row(6, "old", state="dead"),
    row(7, "m7", pid=0, state="pending"),
    row(8, None, class_name="Part", slot=0),
    row(9, None, class_name="Part", slot=1),
]


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("m1", 1),
        ("801", 1),
        ("Loader", 3),
        ("803", 3),
        ("802", 4),  # a name is meant before a number
        ("m2", 2),  # who lives is meant before who is dead
        ("old", 6),
        ("0000000000000003", 3),
        (f"{0xABCD:016x}{7:016x}", 7),
        ("Part[1]", 9),
    ],
)
def test_actor_when_a_word_means_one_then_that_is_it(word: str, number: int) -> None:
    assert find_actor(ROWS, word) == ROWS[number - 1]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("Model", r"may be any of Model 'm1' \(pid 801\) .*: write its id or its pid"),
        ("0000", "may be any of"),
        ("Part", r"may be any of Part\[0\] \(pid 808\) .*, Part\[1\]"),
        ("m3", r"there is no actor 'm3': there are Model 'm1' \(pid 801\)"),
        ("0", "there is no actor '0'"),
        ("", "there is no actor ''"),
    ],
)
def test_actor_when_a_word_means_none_or_several_then_said_so(
    word: str, said: str
) -> None:
    with pytest.raises(RuntimeNotFoundError, match=said):
        find_actor(ROWS, word)


def test_actor_when_there_is_none_at_all_then_said_so() -> None:
    with pytest.raises(RuntimeNotFoundError, match="and no other either"):
        find_actor([], "m1")


def test_actors_when_many_could_be_meant_then_a_few_are_named() -> None:
    with pytest.raises(RuntimeNotFoundError, match="and 12 more"):
        find_actor([row(number) for number in range(20)], "Model")
