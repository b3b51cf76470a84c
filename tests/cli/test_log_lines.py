"""Which lines ``actorlib logs`` shows, and how."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import pytest

from actorlib._cli.logs import Selection, is_of, text_of
from actorlib.types import LogLine

if TYPE_CHECKING:
    from helpers.goldens import Golden

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


def selection(**said: Any) -> Selection:
    return Selection.of(**{"ago": None, "level": None, "pattern": None, **said})


def test_lines_of_a_log(golden: Golden) -> None:
    lines = [*text_of([line(), line(lost=98_990, text="late"), RECORD])]

    assert "98,990 lines are lost" in lines[1]
    golden.check("logs.txt", re.sub(r"\d\d(?=:\d\d:01)", "HH", "".join(lines)))


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
    asked = selection(**said)

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
        selection(**said)


def test_line_when_of_a_replica_then_its_label_and_its_class_find_it() -> None:
    of_second = line(label="Model[1]")

    assert is_of(of_second, "Model[1]")
    assert is_of(of_second, "Model")
    assert not is_of(of_second, "Model[0]")
    assert not is_of(line(label="Models[1]"), "Model")


@pytest.mark.parametrize("word", ["m1", "812", "Model", "0a0a", "0a" * 16])
def test_line_when_nobody_knows_the_actors_then_its_own_words_find_it(
    word: str,
) -> None:
    assert is_of(line(), word)
    assert not is_of(line(label="Other 'x'", pid=1, actor_id="bb" * 16), word)
