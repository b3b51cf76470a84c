"""Checks frames from workers: every kind that a worker may send, field by field.

A worker runs the user's code, so its session checks each of its frames once, where it
receives them. This table is complete: a frame of another kind or length, or a field
with another type, is a ProtocolError and ends that session alone. ``messages``
describes the purpose of frames, this module their form. A field that is added there is
added here.

Types are exact: msgpack cannot produce a subclass, and a bool is not accepted as a
number. Numbers have bounds, because later frames that contain them have to fit in 64
bits.

Each call between workers sends two frames through here. So the check of a kind is
compiled from its row when the first such frame comes, as ``namedtuple`` compiles its
classes. A function for each field took 1.05 us for a CALL_ACTOR, one expression takes
0.35 (CPython 3.11).
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from actorlib._base.ids import (
    ACTOR_KIND,
    BLOCK_KIND,
    ID_SIZE,
    KIND_AT,
    LINKED,
    OBJECT_KIND,
    kind_of,
)
from actorlib._base.labels import LONGEST_NAME
from actorlib._shm.layout import BLOCK_ID_STRUCT
from actorlib._shm.memory import SharedPayload
from actorlib._wire import messages
from actorlib._wire.codec import SCALARS
from actorlib._wire.messages import Frame, name_of
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

_SIZES: Final = {
    ACTOR_KIND: ID_SIZE,
    OBJECT_KIND: ID_SIZE,
    BLOCK_KIND: BLOCK_ID_STRUCT.size,
}
"""The sizes of the ids of borrowed references, by kind."""

_MOST = 1 << 63
_SESSIONS = 1 << 32
_PIDS = 1 << 31
_PAYLOADS = frozenset({bytes, list, SharedPayload})
_LAST_TIME = 1 << 37
_LONGEST = 60
_DEEPEST = 8
"""The maximum depth of nested dicts and tuples in attributes."""


class FieldType(NamedTuple):
    """The type of a field.

    Attributes:
        test: An expression that is true for a valid ``value`` from a worker whose ids
            begin with ``prefix``.
    """

    name: str
    test: str


def check_frame(frame: Frame, prefix: bytes) -> tuple[bytes, ...]:
    """Checks a frame from a worker whose ids begin with ``prefix``.

    Returns:
        The borrowed references of the frame.

    Raises:
        ProtocolError: The frame is invalid; the message names the field.
    """
    try:
        borrowed = _frame_tests[frame[0]](prefix, *frame)
    except (LookupError, TypeError):  # another kind, or another number of fields
        borrowed = None
    if borrowed is None:
        raise _refusal(frame, prefix)
    return borrowed


def _refusal(frame: Frame, prefix: bytes) -> ProtocolError:
    kind, *values = frame
    fields = FRAMES.get(kind) if type(kind) is int else None
    if fields is None:
        label = name_of(kind) if type(kind) is int else f"frames of kind {_short(kind)}"
        return ProtocolError(f"no worker sends {label}")
    if len(values) != len(fields):
        return ProtocolError(
            f"{name_of(kind)} has {len(fields)} fields "
            f"({', '.join(fields) or 'none'}), not {len(values)}"
        )
    name, what, value = next(
        (name, field.name, value)
        for (name, field), value in zip(fields.items(), values, strict=True)
        if not _compiled(f"lambda value, prefix: {field.test}")(value, prefix)
    )
    return ProtocolError(f"{name!r} in {name_of(kind)} is {what}, not {_short(value)}")


class _FrameTests(dict[int, "Callable[..., tuple[bytes, ...] | None]"]):
    """Compiles the tests of frames, each when the first of its kind comes.

    A test returns the borrowed references of a frame, or None if the frame is invalid.
    """

    def __missing__(self, kind: int) -> Callable[..., tuple[bytes, ...] | None]:
        fields = FRAMES[kind]
        # By position, because some fields have the names of Python keywords.
        tests = [
            f"({field.test.replace('value', f'_{place}')})"
            for place, field in enumerate(fields.values())
        ]
        names = ", ".join(["prefix", "kind", *(f"_{n}" for n in range(len(fields)))])
        test = " and ".join(["type(kind) is int", *tests])
        borrowed = (
            f"_{[*fields].index('borrowed')} or ()" if "borrowed" in fields else "()"
        )
        self[kind] = _compiled(f"lambda {names}: ({borrowed}) if {test} else None")
        return self[kind]


def _compiled(test: str) -> Callable[..., Any]:
    function: Callable[..., Any] = eval(test, _NAMES)  # only texts of the rows below
    return function


_frame_tests = _FrameTests()


def _short(value: object) -> str:
    text = repr(value)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}..."
    return f"{text} ({type(value).__name__})"


def _number(least: int, below: int) -> FieldType:
    return FieldType(
        f"a whole number from {least} to {below - 1}",
        f"type(value) is int and {least} <= value < {below}",
    )


def _identity(kind: int, what: str) -> FieldType:
    return FieldType(
        f"the id of {what} ({ID_SIZE} bytes)",
        f"type(value) is bytes and len(value) == {ID_SIZE} "
        f"and value[{KIND_AT}] == {kind}",
    )


def _own(kind: int, what: str) -> FieldType:
    name, test = _identity(kind, f"{what} that this worker makes")
    return FieldType(name, f"{test} and value.startswith(prefix)")


def _one_of(what: str, *choices: int | str) -> FieldType:
    kind = type(choices[0]).__name__
    return FieldType(what, f"type(value) is {kind} and value in {choices}")


def _tuple_of(what: str, item: FieldType) -> FieldType:
    test = f"type(value) is tuple and all({item.test} for value in value)"
    return FieldType(what, test)


def _exactly(what: str, kind: type) -> FieldType:
    return FieldType(what, f"type(value) is {kind.__name__}")


def _is_id(value: object) -> bool:
    return (
        type(value) is bytes
        and len(value) > KIND_AT
        and len(value) == _SIZES.get(kind_of(value))
    )


def _is_link_call(value: Any) -> bool:
    """Whether a value has the fields of a LINK_CALL_SENT."""
    kind = messages.LINK_CALL_SENT
    fields = _items(value, len(FRAMES[kind]))
    return _frame_tests[kind](b"", kind, *fields) is not None


def _is_real(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value) and value >= 0


_ABSENT: Final = object()


def _items(value: Any, count: int) -> tuple[Any, ...]:
    """Returns the items of a tuple of that length; absent ones for another value."""
    items = cast("tuple[Any, ...]", value) if type(value) is tuple else ()
    return items if len(items) == count else (_ABSENT,) * count


def _is_deadline(value: Any) -> bool:
    when, seconds, outer_call = _items(value, 3)
    return _is_real(when) and _is_real(seconds) and type(outer_call) is str


def _is_batch(value: Any) -> bool:
    width, stops = _items(value, 2)
    return type(width) is int and 1 <= width < _MOST and type(stops) is bool


def _are_retries(value: Any) -> bool:
    times, listed = _items(value, 2)
    is_counted = times is None or (type(times) is int and -1 <= times < _MOST)
    return is_counted and type(listed) in (type(None), bool, bytes)


def _are_variables(value: Any) -> bool:
    return type(value) is dict and all(
        type(name) is str and type(payload) is bytes
        for name, payload in cast("dict[object, object]", value).items()
    )


def _is_observed(value: Any) -> bool:
    number, caller, call_time, carrier = _items(value, 4)
    return (
        type(number) is int
        and 0 < number < _MOST
        and type(caller) is bytes
        and len(caller) in (0, ID_SIZE)
        and _is_real(call_time)
        and type(carrier) is dict
        and all(
            type(text) is str
            for pair in cast("dict[object, object]", carrier).items()
            for text in pair
        )
    )


def _are_attributes(value: Any, depth: int = 0) -> bool:
    """Whether a value is a dict with str keys and plain values or such dicts."""
    return type(value) is dict and all(
        type(name) is str and _is_plain(item, depth)
        for name, item in cast("dict[object, object]", value).items()
    )


def _is_plain(value: Any, depth: int) -> bool:
    if type(value) in SCALARS:
        return True
    if depth == _DEEPEST:
        return False
    if type(value) is tuple:
        items = cast("tuple[object, ...]", value)
        return all(_is_plain(item, depth + 1) for item in items)
    return _are_attributes(value, depth + 1)


_HEADER_TESTS: Final[dict[str, Callable[[Any], bool]]] = {
    "batch": _is_batch,
    "deadline": _is_deadline,
    "detach": lambda value: value is True,
    "group": lambda value: type(value) is str,
    "name": lambda value: type(value) is str,
    "observed": _is_observed,
    "retries": _are_retries,
    "stream": lambda value: type(value) is int and -1 <= value < _MOST,
    "variables": _are_variables,
}
"""The headers that a call may have; see ``call_headers``."""


def _are_headers(value: Any) -> bool:
    if type(value) is not dict:
        return False
    headers = cast("dict[Any, object]", value)
    return headers.keys() <= _HEADER_TESTS.keys() and all(
        _HEADER_TESTS[name](header) for name, header in headers.items()
    )


_CALL = _number(1, LINKED)
_CALL_IF_ANY = _number(0, LINKED)
_RUNS = _number(1, _MOST)
_RUNS_IF_ANY = _number(0, _MOST)
_COUNT = _number(0, _MOST)
_SESSION = _number(0, _SESSIONS)
_TEXT = _exactly("a text", str)
_TEXT_IF_ANY = FieldType("a text, or None", f"value is None or {_TEXT.test}")
_NAME = FieldType(
    f"a name: one printable line of up to {LONGEST_NAME} characters",
    f"type(value) is str and value.isprintable() and len(value) <= {LONGEST_NAME}",
)
_FLAG = _exactly("true or false", bool)
_BYTES = _exactly("bytes", bytes)
_PAYLOAD = FieldType("a payload", "type(value) is bytes or type(value) in _PAYLOADS")
_SCALAR = FieldType("a scalar", "type(value) in _SCALARS")
_TIME = FieldType("a time", "_is_real(value)")
_REFERENCE = FieldType("the id of a borrowed reference", "_is_id(value)")
_BORROWED = FieldType(
    "None, or the ids of actors, objects and blocks",
    f"value is None or ({_tuple_of('', _REFERENCE).test})",
)
_ACTOR = _identity(ACTOR_KIND, "an actor")
_OBJECT = _identity(OBJECT_KIND, "an object")
_OWN_ACTOR = _own(ACTOR_KIND, "an actor")
_OWN_OBJECT = _own(OBJECT_KIND, "an object")
_HEADERS = FieldType(
    "headers of a call, or None", "value is None or _are_headers(value)"
)

_NAMES: Final[dict[str, Any]] = {
    "_PAYLOADS": _PAYLOADS,
    "_SCALARS": SCALARS,
    "_are_attributes": _are_attributes,
    "_is_deadline": _is_deadline,
    "_is_id": _is_id,
    "_is_link_call": _is_link_call,
    "_is_real": _is_real,
    "_are_headers": _are_headers,
}
"""The names in tests."""

FRAMES: Final[dict[int, dict[str, FieldType]]] = {
    messages.READY: {"name": _NAME, "pid": _number(1, _PIDS)},
    messages.RESULT: {"call": _RUNS, "borrowed": _BORROWED, "value": _PAYLOAD},
    messages.RESULT_SCALAR: {"call": _RUNS, "value": _SCALAR},
    messages.FAILURE: {
        "call": _RUNS_IF_ANY,
        "kind": _one_of(
            "a kind of failure",
            messages.RAISED,
            messages.DIED,
            messages.CANCELLED,
            messages.UNSTARTED,
        ),
        "summary": _TEXT,
        "traceback": _TEXT,
        "where": _TEXT,
        "borrowed": _BORROWED,
        "exception": _PAYLOAD,
    },
    messages.ITEM: {
        "call": _RUNS,
        "index": _COUNT,
        "borrowed": _BORROWED,
        "value": _PAYLOAD,
    },
    messages.CALL_ACTOR: {
        "call": _CALL,
        "parent": _RUNS_IF_ANY,
        "actor": _ACTOR,
        "method": _TEXT,
        "borrowed": _BORROWED,
        "arguments": _PAYLOAD,
    },
    messages.CALL_ACTOR_WITH: {
        "call": _CALL,
        "parent": _RUNS_IF_ANY,
        "actor": _ACTOR,
        "method": _TEXT,
        "borrowed": _BORROWED,
        "headers": _HEADERS,
        "arguments": _PAYLOAD,
    },
    messages.CALL_DEFERRED: {
        "call": _CALL,
        "parent": _RUNS_IF_ANY,
        "actor": FieldType(
            "the id of an actor, or empty for a function",
            f"(type(value) is bytes and not value) or ({_ACTOR.test})",
        ),
        "deadline": FieldType(
            "a deadline, or None", "value is None or _is_deadline(value)"
        ),
        "method": _TEXT,
    },
    messages.WAITS: {
        "call": _CALL_IF_ANY,
        "method": _TEXT,
    },
    messages.STUCK: {
        "call": _CALL,
        "methods": _tuple_of("the names of methods", _TEXT),
        "method": _TEXT,
    },
    messages.CANCEL: {"call": _CALL, "recursive": _FLAG},
    messages.CREATE: {
        "call": _CALL_IF_ANY,
        "actor": _OWN_ACTOR,
        "borrowed": _BORROWED,
        "class": _BYTES,
        "options": _BYTES,
    },
    messages.CREATE_ARGUMENTS: {
        "actor": _OWN_ACTOR,
        "is_good": _FLAG,
        "borrowed": _BORROWED,
        "arguments": _PAYLOAD,
    },
    messages.AWAIT: {"call": _CALL, "actor": _ACTOR},
    messages.END: {
        "call": _CALL,
        "actor": _ACTOR,
        "manner": _one_of(
            "a manner of ending",
            messages.BEHIND_CALLS,
            messages.AT_ONCE,
            messages.TO_RESTART,
        ),
    },
    messages.RELEASE_REFS: {
        "reference": _REFERENCE,
        "count": _number(1, _MOST),
    },
    messages.FIND: {
        "call": _CALL,
        "name": _TEXT,
        "namespace": _TEXT_IF_ANY,
    },
    messages.LIST: {
        "call": _CALL,
        "what": _one_of(
            "the name of a list",
            "actors",
            "available",
            "calls",
            "names",
            "snapshot",
            "total",
        ),
    },
    messages.LEAVE: {"call": _RUNS_IF_ANY},
    messages.OBJECT_ANNOUNCE: {"object": _OWN_OBJECT, "call": _CALL_IF_ANY},
    messages.OBJECT_PUT: {
        "object": _OWN_OBJECT,
        "is_good": _FLAG,
        "borrowed": _BORROWED,
        "value": _PAYLOAD,
    },
    messages.OBJECT_GET: {"call": _CALL, "object": _OBJECT},
    messages.OBJECT_CANCEL: {"object": _OBJECT},
    messages.GROUP: {
        "call": _CALL,
        "operation": _one_of(
            "an operation of groups", "find", "infos", "ready", "remove", "reserve"
        ),
        "about": _BYTES,
    },
    messages.REGISTER_FUNCTION: {
        "function": _COUNT,
        "label": _TEXT,
        "borrowed": _BORROWED,
        "source": _BYTES,
    },
    messages.RUN: {
        "call": _CALL,
        "parent": _RUNS_IF_ANY,
        "function": _COUNT,
        "options": _BYTES,
        "headers": _HEADERS,
        "borrowed": _BORROWED,
        "arguments": _PAYLOAD,
    },
    messages.FORCE_CANCEL: {"call": _CALL, "recursive": _FLAG},
    messages.DURATION: {
        "function": _TEXT,
        "seconds": FieldType("seconds", _TIME.test),
    },
    messages.BLOCKED: {
        "number": _RUNS,
        "calls": _tuple_of("the numbers of calls", _CALL),
        "count": _COUNT,
    },
    messages.RESUMED: {"number": _RUNS},
    messages.STREAM_ACK: {"call": _CALL, "count": _number(-1, _MOST)},
    messages.LINK_OPEN: {"actor": _ACTOR},
    messages.LINK_BEGIN: {"session": _SESSION},
    messages.LINK_FENCE: {"session": _SESSION},
    messages.LINK_CANCEL: {
        "session": _SESSION,
        "call": _RUNS_IF_ANY,
        "is_unread": _FLAG,
    },
    messages.LINK_CALL_SENT: {
        "call": _CALL,
        "parent": _RUNS_IF_ANY,
        "actor": _ACTOR,
        "method": _TEXT,
    },
    messages.LINK_CLOSED: {"nothing": _number(0, 1)},
    messages.NOTE_CALLS: {"nothing": _number(0, 1)},
    messages.LINK_CALLS: {
        "calls": _tuple_of(
            "calls over links", FieldType("a call", "_is_link_call(value)")
        ),
        "count": _COUNT,
        "number": _number(0, 2),
    },
    messages.RECORDED: {"number": _RUNS_IF_ANY, "runs": _COUNT, "piece": _BYTES},
    messages.RAN: {
        "number": _RUNS,
        "method": _TEXT,
        "caller": FieldType(
            "the id of an actor, or empty",
            f"(type(value) is bytes and not value) or ({_ACTOR.test})",
        ),
        "made": _TIME,
        "began": _TIME,
        "ended": _TIME,
        "status": _one_of("the status of a run", "ok", "error", "cancelled"),
        "error": _TEXT,
    },
    messages.LOG: {
        "level": _COUNT,
        "name": _TEXT,
        "created": FieldType(
            "a time in the next few thousand years",
            f"_is_real(value) and value < {_LAST_TIME}",
        ),
        "call": _RUNS_IF_ANY,
        "method": _TEXT,
        "attributes": FieldType("attributes of a record", "_are_attributes(value)"),
        "traceback": _TEXT_IF_ANY,
        "message": _TEXT,
    },
}
"""The frames that workers send, by kind: their fields in order, after the kind."""
