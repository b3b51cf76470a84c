"""What is sent at a server: frames in any pieces, and what is none is told apart."""

from __future__ import annotations

import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib._queries.protocol import (
    MOST_ANSWERED,
    MOST_ASKED,
    OK,
    REFUSED,
    VERSION,
    FrameReader,
    OtherVersionError,
    Question,
    answer_frame,
    question_frame,
    read_answer,
    read_question,
)
from actorlib.exceptions import ProtocolError

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def taken(frame: bytes, sizes: list[int]) -> bytes | None:
    """The content of a frame that comes in pieces of such sizes, and then the rest."""
    reader, content = FrameReader(MOST_ANSWERED), None
    while frame and content is None:
        size = min(sizes.pop() if sizes else len(frame), reader.missing)
        content, frame = reader.take(frame[:size]), frame[size:]
    assert not frame
    return content


@given(VALUES, st.lists(st.integers(1, 9)))
def test_answer_when_it_comes_in_any_pieces_then_it_is_as_it_was_sent(
    value: Any, sizes: list[int]
) -> None:
    content = taken(answer_frame(OK, value), sizes)

    assert content is not None
    assert read_answer(content) == (VERSION, OK, value)


def test_question_when_it_is_too_long_then_it_is_not_sent() -> None:
    with pytest.raises(ValueError, match=r"'logs': .* where 4096 are the most"):
        question_frame("logs", {"actor": "a" * 4096})


def test_question_when_sent_then_it_is_as_it_was_asked() -> None:
    content = taken(question_frame("status", {"dead": True}), [1, 2, 3])

    assert content is not None
    assert read_question(content) == Question("status", {"dead": True})


def test_frame_when_longer_than_allowed_then_refused_before_it_comes() -> None:
    reader = FrameReader(MOST_ASKED)

    with pytest.raises(ProtocolError, match="4097 bytes, where 4096"):
        reader.take(struct.pack("!I", MOST_ASKED + 1))


def test_answer_when_too_long_then_it_says_so_instead() -> None:
    content = taken(answer_frame(OK, bytes(MOST_ANSWERED)), [])

    assert content is not None
    _, outcome, value = read_answer(content)
    assert outcome == REFUSED
    assert "are the most" in value


@given(st.binary(max_size=60))
def test_content_when_it_is_anything_then_a_question_or_a_protocol_error(
    content: bytes,
) -> None:
    for read in (read_question, read_answer):
        try:
            read(content)
        except ProtocolError:
            continue


@pytest.mark.parametrize(
    "fields",
    [
        None,
        [],
        {},
        "status",
        [True, "status", {}],
        ["1", "status", {}],
        [VERSION],
        [VERSION, "status"],
        [VERSION, "status", {}, 1],
        [VERSION, 1, {}],
        [VERSION, "status", []],
        [VERSION, "status", {1: 2}],
    ],
)
def test_question_when_it_has_another_form_then_refused(fields: Any) -> None:
    with pytest.raises(ProtocolError):
        read_question(msgpack.packb(fields))


def test_question_when_of_another_version_then_told_apart_whatever_follows() -> None:
    with pytest.raises(OtherVersionError):
        read_question(msgpack.packb([VERSION + 1, {"new": "form"}]))
