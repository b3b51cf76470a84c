"""Which lines ``actorlib logs`` shows, and how."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from actorlib import LogLine
from actorlib._cli.logs import Chosen, is_of, text_of

pytestmark = pytest.mark.memory


def line(**changed: Any) -> LogLine:
    """A line that an actor has printed."""
    printed: dict[str, Any] = {
        "number": 1,
        "time": 1.25,
        "source": "stderr",
        "actor_id": "0a" * 16,
        "label": "Model 'm1'",
        "pid": 812,
        "text": "loading",
    }
    return LogLine(**{**printed, **changed})


RECORD = line(
    source="log",
    level=logging.ERROR,
    logger="app.model",
    text="failed",
    traceback="Traceback\nValueError: boom",
)


def chosen(**said: Any) -> Chosen:
    return Chosen.of(**{"ago": None, "level": None, "pattern": None, **said})


def test_text_when_a_line_was_printed_then_whose_and_where() -> None:
    (text,) = text_of([line()])

    assert text.endswith(":01.250 Model 'm1' [812] err     loading\n")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m"),
        ("\x1b[1;38:5:9mred", "\x1b[1;38:5:9mred\x1b[0m"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x1b[2J\x1b[H\x1b[3", r"\x1b[2J\x1b[H\x1b[3"),
        ("\x9b31m\x7f\x08", r"\x9b31m\x7f\x08"),
        (" 9%\r10%\tof é名", " 9%\r10%\tof é名"),
    ],
)
def test_text_when_it_would_steer_a_terminal_then_colours_alone_do(
    said: str, shown: str
) -> None:
    printed, below = text_of([line(text=said, traceback="\x1b[2Jat")])

    assert printed.endswith(f"[812] err     {shown}\n")
    assert below == "    \\x1b[2Jat\n"


def test_text_when_lines_are_lost_then_it_says_how_many_where_they_are_missing() -> (
    None
):
    _, note, below = text_of([line(), line(lost=98_990, text="late")])

    assert note.startswith("(98,990 lines are lost here: ")
    assert below.endswith("late\n")


def test_text_when_a_record_has_a_traceback_then_it_stands_below() -> None:
    head, *below = text_of([RECORD])

    assert head.endswith("Model 'm1' [812] ERROR   app.model: failed\n")
    assert below == ["    Traceback\n", "    ValueError: boom\n"]


@pytest.mark.parametrize(
    ("said", "printed", "recorded"),
    [
        ({}, True, True),
        ({"level": "warning"}, False, True),
        ({"level": "50"}, False, False),
        ({"pattern": "load|boom"}, True, True),
        ({"pattern": r"^app\."}, False, True),
        ({"pattern": "load", "level": "INFO"}, False, False),
    ],
)
def test_chosen_when_asked_then_these_lines(
    said: dict[str, Any], *, printed: bool, recorded: bool
) -> None:
    asked = chosen(**said)

    assert (asked.has(line()), asked.has(RECORD)) == (printed, recorded)
    assert asked.is_for_all == (not said)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"level": "LOUD"}, "--level takes one of"),
        ({"pattern": "("}, "--grep '\\(' is not a regular expression"),
    ],
)
def test_chosen_when_it_makes_no_sense_then_told_why(
    said: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        chosen(**said)


@pytest.mark.parametrize("word", ["m1", "812", "Model", "0a0a", "0a" * 16])
def test_line_when_nobody_knows_the_actors_then_its_own_words_find_it(
    word: str,
) -> None:
    assert is_of(line(), word)
    assert not is_of(line(label="Other 'x'", pid=1, actor_id="bb" * 16), word)
