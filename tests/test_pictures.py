"""The pictures of docs/ are drawn from their text, and wrong text is refused."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from actorlib._owner.actors.actor_record import _MOVES
from actorlib._rows.snapshot import STATES
from docs.building import devices, sequence, states

DOCS = Path(__file__).parents[1] / "docs"
DRAWERS = {"devices": devices, "sequence": sequence, "states": states}
BLOCK = re.compile(rf"(?ms)^```({'|'.join(DRAWERS)})\n(.*?)^```")
BLOCKS = [
    (path.name, language, source)
    for path in sorted(DOCS.rglob("*.md"))
    for language, source in BLOCK.findall(path.read_text(encoding="utf-8"))
]


def texts(picture: str) -> list[str]:
    return [str(text.text) for text in ET.fromstring(picture).iter("text")]


@pytest.mark.parametrize(("page", "language", "source"), BLOCKS)
def test_picture_when_a_page_has_it_then_it_is_drawn(
    page: str, language: str, source: str
) -> None:
    assert texts(DRAWERS[language].draw(source)), page


def test_sequence_when_read_then_who_says_what() -> None:
    names, steps = sequence.read("a b, c\na b -> c: hi: you\nc: thinks\nc --> a b: oh")

    assert names == ["a b", "c"]
    assert [tuple(step) for step in steps] == [
        (0, 1, "hi: you", False),
        (1, 1, "thinks", False),
        (1, 0, "oh", True),
    ]
    with pytest.raises(ValueError, match="no step of a, b: 'a -> c: x'"):
        sequence.read("a, b\na -> c: x")


def test_devices_when_read_then_who_has_what() -> None:
    (moment,) = devices.read("* now\nGPU 0: a 0.25, b 0.5\nline: c 1")

    assert moment.caption == "now"
    assert moment.rows == {"GPU 0": [("a", 0.25), ("b", 0.5)], "line": [("c", 1)]}
    with pytest.raises(ValueError, match="more than a device"):
        devices.read("* now\nGPU 0: a 0.75, b 0.5")
    with pytest.raises(ValueError, match="neither a caption nor a device"):
        devices.read("GPU 0: a 1")


def test_states_when_read_then_places_and_arrows() -> None:
    places, arrows = states.read("a . b\n. c\na -> c: goes")

    assert places == {"a": (0, 0), "b": (2, 0), "c": (1, 1)}
    assert arrows == [("a", "c", "goes")]
    with pytest.raises(ValueError, match="unknown states"):
        states.read("a b\na -> c: goes")


def test_picture_when_its_text_has_signs_of_markup_then_it_shows_them() -> None:
    assert "a <b> & c" in texts(sequence.draw('x\nx: a <b> & c\nx: "q"'))


def test_states_of_actors_when_drawn_then_all_their_moves() -> None:
    (source,) = [source for _, language, source in BLOCKS if language == "states"]
    places, arrows = states.read(source)

    assert sorted(places) == sorted(STATES)
    assert {(start, end) for start, end, _ in arrows} == {
        (start.value, end.value) for start, ends in _MOVES.items() for end in ends
    }
