"""The table of what a worker may send: all that passes, and nothing else."""

from __future__ import annotations

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
    BLOCKED,
    CALL,
    CALL_ACTOR,
    CALL_ACTOR_WITH,
    CALL_DEFERRED,
    CREATE,
    FAILURE,
    GROUP,
    ITEM,
    LINK_CALLS,
    LOG,
    OBJECT_ANNOUNCE,
    OBJECT_PUT,
    READY,
    REGISTER_FUNCTION,
    RELEASE_REFS,
    RESULT,
    RESULT_SCALAR,
    RESUMED,
    RUN,
    START,
    STREAM_ACK,
    WAITS,
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


@pytest.mark.parametrize(
    "frame",
    [
        (READY, "", 7),
        (READY, "Model(3)", 7),
        (RESULT, 1, None, b""),
        (RESULT_SCALAR, 1, None),
        (RESULT_SCALAR, LINKED, -0.5),
        (RESULT_SCALAR, 1, "text"),
        (RESULT, LINKED, (ACTOR, OBJECT, BLOCK), [bytearray(9)]),
        (FAILURE, 0, 1, "", "", "", None, b""),
        (ITEM, 1, 0, None, b""),
        (CALL_ACTOR, 1, 0, ACTOR, "work", None, b""),
        (CALL_ACTOR_WITH, 1, LINKED, ACTOR, "work", (), SAID, b""),
        (CALL_DEFERRED, 1, 0, b"", None, "work"),
        (CALL_DEFERRED, 1, 0, ACTOR, (1.0, 2.0, "A.b"), "work"),
        (WAITS, 0, ""),
        (LOG, 30, "app", 1.5e9, 0, "", {"a": ({"b": None},)}, None, "said"),
        (CREATE, 0, OWN, (ACTOR,), b"", b""),
        (OBJECT_ANNOUNCE, OBJECT, 0),
        (OBJECT_PUT, OBJECT, False, None, b""),
        (RELEASE_REFS, BLOCK, 1),
        (GROUP, 1, "ready", b""),
        (REGISTER_FUNCTION, 1, "f", None, b""),
        (RUN, 1, 0, 1, b"", None, None, b""),
        (BLOCKED, 1, (1, 2), 1),
        (RESUMED, 1),
        (STREAM_ACK, 1, -1),
    ],
)
def test_check_when_a_frame_is_one_that_workers_send_then_it_passes(frame: Any) -> None:
    check_frame(frame, PREFIX)


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        ((START,), "no worker sends START"),
        ((CALL, 1, "work", None, b""), "no worker sends CALL"),
        (("1",), "no worker sends frames of kind '1'"),
        ((True,), "no worker sends frames of kind True"),
        (((1, 2),), "no worker sends frames of kind"),
        ((READY,), "has 2 fields .name, pid., not 0"),
        ((READY, 0, 7), "'name'"),
        ((READY, "x" * 101, 7), "'name'"),
        ((READY, "\x1b[31m", 7), "'name'"),
        ((READY, "", 0), "'pid'"),
        ((READY, "", True), "'pid'"),
        ((RESULT, 1, None), r"has 3 fields .call, borrowed, value., not 2"),
        (
            (RESULT, 0, None, b""),
            "'call' in RESULT is a whole number",
        ),
        ((RESULT, True, None, b""), "not True .bool."),
        ((RESULT, 1 << 63, None, b""), "'call'"),
        ((RESULT, 1, None, "text"), "'value' .* is a payload, not 'text' .str."),
        ((RESULT_SCALAR, 0, None), "'call' in RESULT_SCALAR"),
        ((RESULT_SCALAR, 1, b""), "'value' in RESULT_SCALAR is a scalar, not b''"),
        ((RESULT_SCALAR, 1, [1]), "'value'"),
        ((RESULT, 1, (b"short",), b""), "'borrowed' .* is None, or the ids"),
        ((RESULT, 1, b"not a tuple.", b""), "'borrowed'"),
        ((FAILURE, 1, 9, "", "", "", None, b""), "'kind'"),
        ((FAILURE, 1, 0, b"", "", "", None, b""), "'summary'"),
        (
            (CALL_ACTOR, 1, 0, ACTOR, b"work", None, b""),
            "'method' .* is a text, not b'work'",
        ),
        ((CALL_ACTOR, LINKED, 0, ACTOR, "work", None, b""), "'call'"),
        ((CALL_ACTOR, 1, -1, ACTOR, "work", None, b""), "'parent'"),
        (
            (CALL_ACTOR, 1, 0, OBJECT, "work", None, b""),
            r"the id of an actor \(16 bytes\)",
        ),
        ((CALL_DEFERRED, 1, 0, ACTOR, (1.0, 2.0), "work"), "'deadline'"),
        ((CALL_DEFERRED, 1, 0, ACTOR, (float("nan"), 2.0, ""), "work"), "'deadline'"),
        ((WAITS, -1, ""), "'call'"),
        ((BLOCKED, 1, (1, LINKED), 1), "'calls' .* is the numbers of calls"),
        ((BLOCKED, 1, [1], 1), "'calls'"),
        ((CREATE, 0, ACTOR, None, b"", b""), "an actor that this worker makes"),
        (
            (OBJECT_ANNOUNCE, new_id(b"other...", OBJECT_KIND, 1), 0),
            "an object that this worker makes",
        ),
        ((OBJECT_ANNOUNCE, OWN, 0), "'object'"),
        ((OBJECT_ANNOUNCE, 5, 0), "'object'"),
        ((RELEASE_REFS, OBJECT + bytes(8), 1), "'reference' .* the id of a borrowed"),
        ((RELEASE_REFS, BLOCK[:16], 1), "'reference' .* the id of a borrowed"),
        ((RELEASE_REFS, new_id(PREFIX, GROUP_KIND, 1), 1), "'reference'"),
        ((RELEASE_REFS, b"", 1), "'reference'"),
        ((OBJECT_PUT, OBJECT, 1, None, b""), "'is_good'"),
        ((RELEASE_REFS, ACTOR, 0), "'count'"),
        ((GROUP, 1, "drop", b""), "'operation'"),
        ((GROUP, 1, ["find"], b""), "'operation'"),
        ((STREAM_ACK, 1, -2), "'count'"),
        ((REGISTER_FUNCTION, 1, "f" * 999, None, "g" * 999), r"not 'g{59}\.\.\. .str."),
    ],
)
def test_check_when_a_field_is_not_of_its_type_then_it_says_which(
    frame: Any, what: str
) -> None:
    with pytest.raises(ProtocolError, match=what):
        check_frame(frame, PREFIX)


@pytest.mark.parametrize(
    "said",
    [
        {"batch": (0, True)},
        {"batch": (1,)},
        {"batch": (1, 0)},
        {"batch": (1, "")},
        {"batch": 1},
        {"deadline": (1.0, 2.0)},
        {"deadline": (float("inf"), 2.0, "")},
        {"deadline": ("1", 2.0, "")},
        {"detach": 1},
        {"group": b"io"},
        {"name": None},
        {"observed": (1, ACTOR, 1.5)},
        {"observed": (0, ACTOR, 1.5, {})},
        {"observed": (1 << 63, ACTOR, 1.5, {})},
        {"observed": (True, ACTOR, 1.5, {})},
        {"observed": (1, ACTOR[1:], 1.5, {})},
        {"observed": (1, "", 1.5, {})},
        {"observed": (1, b"", -1.5, {})},
        {"observed": (1, b"", 1.5, [])},
        {"observed": (1, b"", 1.5, {"trace": b""})},
        {"observed": (1, b"", 1.5, {b"trace": ""})},
        {"retries": (None,)},
        {"retries": (-2, None)},
        {"retries": (1, "all")},
        {"stream": True},
        {"stream": -2},
        {"variables": {"user": "text"}},
        {"variables": {b"user": b""}},
        {"something": 1},
        {5: 1},
        [],
        "",
    ],
)
def test_check_when_what_is_said_of_a_call_makes_no_sense_then_it_is_refused(
    said: Any,
) -> None:
    with pytest.raises(ProtocolError, match="'headers'"):
        check_frame((CALL_ACTOR_WITH, 1, 0, ACTOR, "work", None, said, b""), PREFIX)


def _in_dict(value: object) -> object:
    return {"a": value}


def _in_tuple(value: object) -> object:
    return (value,)


@pytest.mark.parametrize(
    "call",
    [
        (1, 0, ACTOR),
        [1, 0, ACTOR, "work"],
        (0, 0, ACTOR, "work"),
        (True, 0, ACTOR, "work"),
        (LINKED, 0, ACTOR, "work"),
        (1, -1, ACTOR, "work"),
        (1, 1 << 63, ACTOR, "work"),
        (1, False, ACTOR, "work"),
        (1, 0, OBJECT, "work"),
        (1, 0, ACTOR[1:], "work"),
        (1, 0, "", "work"),
        (1, 0, ACTOR, b"work"),
    ],
)
def test_check_when_a_call_over_a_link_makes_no_sense_then_it_is_refused(
    call: Any,
) -> None:
    sound = (1, 0, ACTOR, "work"), (LINKED - 1, 5, ACTOR, "")
    check_frame((LINK_CALLS, sound, 2, 1), PREFIX)

    for calls in ((*sound, call), [sound[0]], 5):
        with pytest.raises(ProtocolError, match="'calls' in LINK_CALLS"):
            check_frame((LINK_CALLS, calls, 3, 0), PREFIX)


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
