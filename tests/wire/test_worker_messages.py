"""The table of what a worker may send: all that passes, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib._base.ids import (
    ACTOR_KIND,
    BLOCK_KIND,
    GROUP_KIND,
    LINKED,
    OBJECT_KIND,
    new_id,
)
from actorlib._shm.layout import BLOCK_ID_STRUCT
from actorlib._wire import messages
from actorlib._wire.messages import (
    CALL_ACTOR_WITH,
    LINK_CALLS,
    LOG,
    READY,
    RESULT,
    RUN,
)
from actorlib._wire.worker_messages import FRAMES, check_frame
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = bytes(8)
ACTOR = new_id(b"other...", ACTOR_KIND, 1)
OWN = new_id(PREFIX, ACTOR_KIND, 1)
OBJECT = new_id(PREFIX, OBJECT_KIND, 1)
BLOCK = BLOCK_ID_STRUCT.pack(new_id(PREFIX, BLOCK_KIND, 1), 0)
SAID = {
    "batch": (1, False),
    "deadline": (12.5, 3, ""),
    "detach": True,
    "group": "io",
    "name": "nightly",
    "observed": (1, ACTOR, 1.5, {"trace": "of it"}),
    "retries": (None, b""),
    "stream": -1,
    "variables": {"user": b""},
}


NAMES = {
    **vars(messages),
    "ACTOR": ACTOR,
    "OWN": OWN,
    "OBJECT": OBJECT,
    "BLOCK": BLOCK,
    "PREFIX": PREFIX,
    "LINKED": LINKED,
    "SAID": SAID,
    "new_id": new_id,
    "OBJECT_KIND": OBJECT_KIND,
    "GROUP_KIND": GROUP_KIND,
}
"""What the data may name."""


def read_frames(section: str) -> list[tuple[Any, str]]:
    """The values of a section of the data, each with what the error says."""
    file = Path(__file__).parent / "data" / "worker_frames.txt"
    _, _, rest = file.read_text(encoding="utf-8").partition(f"[{section}]\n")
    lines = rest.partition("\n\n")[0].splitlines()
    pairs = [line.partition(" => ") for line in lines]
    return [(eval(value, NAMES), said) for value, _, said in pairs]


def test_check_when_a_frame_is_one_that_workers_send_then_it_passes() -> None:
    for frame, _ in read_frames("sound"):
        check_frame(frame, PREFIX)


@pytest.mark.parametrize(("frame", "said"), read_frames("refused"))
def test_check_when_a_field_is_not_of_its_type_then_it_says_which(
    frame: Any, said: str
) -> None:
    with pytest.raises(ProtocolError, match=said):
        check_frame(frame, PREFIX)


def test_check_when_headers_of_a_call_make_no_sense_then_they_are_refused() -> None:
    for headers, _ in read_frames("refused headers"):
        frame = (CALL_ACTOR_WITH, 1, 0, ACTOR, "work", None, headers, b"")
        with pytest.raises(ProtocolError, match="'headers'"):
            check_frame(frame, PREFIX)


def test_check_when_a_call_over_a_link_makes_no_sense_then_it_is_refused() -> None:
    sound = (1, 0, ACTOR, "work"), (LINKED - 1, 5, ACTOR, "")
    check_frame((LINK_CALLS, sound, 2, 1), PREFIX)
    wrong = [(*sound, call) for call, _ in read_frames("refused calls of links")]

    for calls in (*wrong, [sound[0]], 5):
        with pytest.raises(ProtocolError, match="'calls' in LINK_CALLS"):
            check_frame((LINK_CALLS, calls, 3, 0), PREFIX)


def _in_dict(value: object) -> object:
    return {"a": value}


def _in_tuple(value: object) -> object:
    return (value,)


@pytest.mark.parametrize("inside", [_in_dict, _in_tuple])
def test_check_when_attributes_of_a_record_are_nested_then_only_so_deep(
    inside: Callable[[object], object],
) -> None:
    value: object = None
    for _ in range(8):
        value = inside(value)
    rest = None, "text"

    check_frame((LOG, 30, "app", 1.5e9, 0, "", {"a": value}, *rest), PREFIX)
    with pytest.raises(ProtocolError, match="in LOG"):
        check_frame((LOG, 30, "app", 1.5e9, 0, "", {"a": inside(value)}, *rest), PREFIX)


def test_table_when_frames_say_what_rises_then_it_has_all_and_no_other() -> None:
    rising: set[int] = set()
    for line in (messages.__doc__ or "").splitlines():
        name, _, rest = line.partition(" ")
        if name.isupper() and rest.split()[:1] in (["up"], ["both"]):
            rising.add(getattr(messages, name))
    # The owner alone tells that a link is there.
    assert FRAMES.keys() == rising - {messages.LINK_OPENED}


def test_table_when_it_names_frames_then_each_has_a_number_of_its_own() -> None:
    names = {
        name
        for line in (messages.__doc__ or "").splitlines()
        if (name := line.partition(" ")[0]).isupper() and hasattr(messages, name)
    }

    assert len(names) > 50
    assert len({getattr(messages, name) for name in names}) == len(names)


def test_check_when_a_frame_lends_something_then_it_gives_that() -> None:
    lent = (RUN, 1, 0, 1, b"", None, (ACTOR,), b"")
    assert check_frame(lent, PREFIX) == (ACTOR,)
    lent = (CALL_ACTOR_WITH, 1, 0, ACTOR, "", (OBJECT, BLOCK), SAID, b"")
    assert check_frame(lent, PREFIX) == (OBJECT, BLOCK)
    assert check_frame((RESULT, 1, None, b""), PREFIX) == ()
    assert check_frame((READY, "", 7), PREFIX) == ()


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.sampled_from(sorted(FRAMES)), st.lists(_ANYTHING, max_size=8))
def test_check_when_fields_are_anything_then_it_refuses_or_passes_and_never_fails(
    kind: int, fields: list[object]
) -> None:
    try:
        check_frame((kind, *fields), PREFIX)
    except ProtocolError as error:
        assert str(error)  # noqa: PT017  # either is right
