from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import functools
import gc
import linecache
import pickle
import subprocess
import sys
import threading
import traceback
import types
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from helpers.frames import written
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import actorlib
from actorlib._wire import serialization
from actorlib._wire.codec import FrameDecoder
from actorlib._wire.serialization import (
    LARGE,
    decode,
    decode_call,
    dump,
    encode,
    encode_call,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actorlib._shm.memory import Payload


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Flags(enum.Flag):
    A = 1
    B = 2


class Whole(int):
    pass


class Text(str):
    __slots__ = ()


class Row(list[Any]):
    pass


class Table(dict[Any, Any]):
    pass


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass(frozen=True)
class Point:
    x: Any
    y: Any


def carried(payload: Payload) -> Payload:
    """The payload as it comes out of the pipe."""
    (frame,) = FrameDecoder().feed(written((4, 1, None, payload)))
    return frame[-1]


def trip(value: Any) -> Any:
    return decode(carried(encode(value)))


def call_trip(*args: Any, **kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
    good, named = decode_call(carried(encode_call(args, kwargs)))
    return list(good), named


def exact(value: Any) -> Any:
    """What a value is, so that only equal ones of equal types compare equal."""
    kind = type(value)
    if isinstance(value, np.ndarray):
        is_c, is_f = value.flags.c_contiguous, value.flags.f_contiguous
        if value.dtype.hasobject:
            items = [exact(item) for item in value.ravel()]
        else:
            items = [value.tobytes()]
        inside = [value.dtype, value.shape, is_c, is_f, items]
    elif isinstance(value, np.generic):
        inside = [value.dtype, value.tobytes()]
    elif isinstance(value, float):
        inside = [value.hex()]
    elif isinstance(value, complex):
        inside = [value.real.hex(), value.imag.hex()]
    elif isinstance(value, dict):
        inside = [(exact(name), exact(item)) for name, item in value.items()]
        inside.append(getattr(value, "default_factory", None))
    elif isinstance(value, (list, tuple, collections.deque)):
        inside = [exact(item) for item in value]
        inside.append(getattr(value, "maxlen", None))
    elif isinstance(value, (set, frozenset)):
        inside = sorted((exact(item) for item in value), key=repr)
    elif isinstance(value, Point):
        inside = [exact(value.x), exact(value.y)]
    else:
        inside = [value]
    return kind, inside


hashables = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.complex_numbers(),
    st.text(st.characters(exclude_categories=())),  # lone surrogates too
    st.binary(max_size=20),
    st.sampled_from([*Colour, *Level, Flags.A | Flags.B]),
    st.integers().map(Whole),
    st.text(max_size=5).map(Text),
    st.decimals(allow_nan=False),
    st.datetimes(),
    st.timedeltas(),
    st.uuids(),
)
keys = (
    hashables | st.tuples(hashables, hashables) | st.frozensets(hashables, max_size=2)
)
leaves = hashables | st.binary(max_size=20).map(bytearray) | st.just(range(3))


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=3)
    dicts = st.dictionaries(keys, inner, max_size=3)
    return st.one_of(
        lists,
        lists.map(tuple),
        lists.map(Row),
        lists.map(collections.deque),
        lists.map(lambda items: collections.deque(items, maxlen=5)),
        dicts,
        dicts.map(Table),
        dicts.map(collections.OrderedDict),
        dicts.map(lambda items: collections.defaultdict(list, items)),
        st.sets(hashables, max_size=3),
        st.frozensets(hashables, max_size=3),
        st.lists(st.text(max_size=2)).map(collections.Counter),
        st.builds(Pair, inner, inner),
        st.builds(Point, inner, inner),
    )


values = st.recursive(leaves, nested, max_leaves=8)
dtypes = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(),
    npst.unsigned_integer_dtypes(),
    npst.floating_dtypes(),
    npst.complex_number_dtypes(),
    npst.unicode_string_dtypes(max_len=4),
    npst.byte_string_dtypes(max_len=4),
    # numpy itself pickles a point in time in the byte order of the machine.
    npst.datetime64_dtypes(endianness="="),
    npst.timedelta64_dtypes(endianness="="),
)
arrays = npst.arrays(dtypes, npst.array_shapes(min_dims=0, min_side=0, max_side=4))


# There and back.


@given(values)
def test_value_when_it_travels_then_equal_in_type_and_value(value: Any) -> None:
    assert exact(trip(value)) == exact(value)


@given(
    st.lists(values, max_size=3)
    | st.lists(hashables | st.lists(hashables), max_size=50),
    st.dictionaries(st.text(max_size=3), values),
)
def test_arguments_when_they_travel_then_equal_in_type_and_value(
    args: list[Any], kwargs: dict[str, Any]
) -> None:
    good, named = call_trip(*args, **kwargs)

    assert (exact(good), exact(named)) == (exact(args), exact(kwargs))


CORNERS: list[Any] = [
    *({}, [], (), "", b"", 0, -1, -0.0, 1.0, True, 1j, Ellipsis, NotImplemented, int),
    *(2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, [2**64]),
    *({1: "a"}, {True: "a"}, {1.0: "a"}, {None: 1, b"b": 2, "c": 3, 4: 5}),
    *({"a": 1, "b": [2]}, {"a": {"b": {}}}, {(1, 2): 3}, [1, (2, 3)], (1, 2)),
    *([b"\x80\x05", b"\x80"], b"\x80\x05", "\x80\x05"),
    *("\ud800", ["\udfff"], {"\ud800": 1}),
    *([True, 1, 1.0], [[1], [2]], float("nan"), [float("inf"), float("-inf")]),
    *(decimal.Decimal("0.10"), dt.datetime(2024, 2, 29, tzinfo=dt.UTC)),
    *(uuid.UUID(int=5), slice(1, 2, 3), bytearray(b"a"), [bytearray(b"a")]),
    *(collections.Counter("aab"), collections.OrderedDict([("b", 1), ("a", 2)])),
    *(Colour.RED, [Level.LOW], {Level.LOW: 1}, Whole(5), [Whole(5)]),
    *(Text("a"), {Text("a"): 1}, Row([1]), Table(a=1), Pair(1, [2])),
    *(np.float64(1.5), [np.float64(1.5)], np.int8(3), np.True_, np.str_("a")),
    *(np.datetime64("2024-02-29"), np.dtype("<f4")),
]


def test_value_when_it_is_a_corner_then_equal_in_type_and_value() -> None:
    changed = [value for value in CORNERS if exact(trip(value)) != exact(value)]

    assert changed == []


# One thing with two names.


def test_aliases_when_inside_one_value_or_argument_then_they_stay_one_object() -> None:
    shared = [1]

    left, right = trip([shared, shared])
    (argument,), _ = call_trip({"a": shared, "b": [shared]})

    assert left is right
    assert argument["a"] is argument["b"][0]


def test_aliases_when_a_list_is_inside_itself_then_so_it_is_there() -> None:
    value: list[Any] = [1]
    value.append(value)

    arrived = trip(value)

    assert arrived[1] is arrived


# Arrays.


@given(arrays)
def test_array_when_it_travels_then_equal_in_every_way(array: np.ndarray) -> None:
    assert exact(trip(array)) == exact(array)


def test_payload_when_it_is_collected_as_part_of_a_cycle_then_silently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    troubles: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", troubles.append)
    payload: Any = encode([np.zeros(LARGE)])
    payload.append(payload)

    del payload
    gc.collect()

    assert troubles == []


# Long bytes and texts.


SIZES = [LARGE - 1, LARGE, LARGE + 1]
LONG_VALUES: dict[str, Callable[[int], Any]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "ascii": lambda size: "x" * size,
    "cyrillic": lambda size: "ж" * size,
    "list": lambda size: [None] * size,
    "dict": lambda size: dict.fromkeys(range(size)),
    "list of bytes": lambda size: [b"x" * size],
    "dict of bytes": lambda size: {"a": bytes(size)},
    "tuple of bytes": lambda size: (bytes(size), bytes(size)),
}


@pytest.mark.parametrize("kind", LONG_VALUES)
def test_long_value_when_around_the_limit_then_equal_in_type_and_value(
    kind: str,
) -> None:
    for value in map(LONG_VALUES[kind], SIZES):
        [argument], named = call_trip(value, data=value)

        for arrived in (trip(value), argument, named["data"]):
            assert type(arrived) is type(value)
            assert arrived == value


def test_long_bytes_when_all_arguments_are_plain_then_nothing_is_pickled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serialization, "_pickle", None)
    long = bytes(LARGE)

    for args in ((long,), (1, long, b"", "a"), (long, long)):
        payload = encode_call(args, {})
        assert isinstance(payload, list)
        assert decode_call(payload) == ([*args], {})
    assert decode(encode(long)) == long


def test_named_arguments_when_they_are_plain_then_nothing_is_pickled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serialization, "_pickle", None)

    assert call_trip(1, [2], x=3, y={"a": b"b"}) == (
        [1, [2]],
        {"x": 3, "y": {"a": b"b"}},
    )
    assert call_trip(x=None) == ([], {"x": None})


def test_named_argument_when_its_name_is_empty_then_it_arrives() -> None:
    assert call_trip(1, **{"": 2, "x": 3}) == ([1], {"": 2, "x": 3})


def test_long_bytes_when_at_least_large_then_outside_of_the_frame() -> None:
    are_outside = [isinstance(encode(bytes(size)), list) for size in SIZES]

    assert are_outside == [False, True, True]


# Code.


@pytest.fixture
def cell() -> Iterator[tuple[str, str]]:
    """The name and the text of code as a notebook's: lines without a file."""
    name, text = "<cell 1>", "def divide(x):\n    return x / 0\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    yield name, text
    linecache.cache.pop(name, None)


@pytest.mark.parametrize("send", [encode, dump])
def test_code_when_no_file_has_it_then_tracebacks_show_its_lines_there(
    cell: tuple[str, str], send: Callable[[object], Payload]
) -> None:
    name, text = cell
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    payload = send(names["divide"])
    del linecache.cache[name]  # as in another process

    with pytest.raises(ZeroDivisionError) as caught:
        decode(payload)(1)

    shown = "".join(traceback.format_exception(caught.value))
    assert f'File "{name}", line 2, in divide\n    return x / 0\n' in shown


def test_code_when_all_of_a_cell_travels_then_its_lines_once(
    cell: tuple[str, str],
) -> None:
    name, text = cell
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    exec(compile("def other(): ...", name, "exec"), names)

    payload = dump([names["divide"], names["other"]])

    assert payload.count(b"return x / 0") == 1


def test_code_when_its_cell_is_huge_then_without_its_lines(
    cell: tuple[str, str],
) -> None:
    name, text = cell
    text += "#" * LARGE
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), names)

    assert len(dump(names["divide"])) < LARGE


CACHING = """
import functools

@functools.lru_cache(maxsize=7)
def fib(n):
    "Counts rabbits."
    return n if n < 2 else fib(n - 1) + fib(n - 2)

class Main:
    def __init__(self):
        self.asked = 0

    @functools.cached_property
    def weights(self):
        self.asked += 1
        return self.asked

    @functools.cache
    def twice(self, x):
        return 2 * x

    four = functools.partialmethod(twice, 2)
"""


@pytest.mark.parametrize("send", [encode, dump])
def test_code_when_main_caches_its_results_then_it_travels_by_value(
    send: Callable[[object], Payload],
) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(CACHING, names)

    fib, main = decode(send([names["fib"], names["Main"]]))

    assert fib(30) == 832040
    assert fib.cache_info().misses == 31, "it calls itself through its own cache"
    assert [fib.cache_parameters()["maxsize"], fib.__doc__] == [7, "Counts rabbits."]
    thing = main()
    assert [thing.weights, thing.weights, thing.twice(4)] == [1, 1, 8]
    assert thing.four() == 4


DEFERRED = """
def scale(x: Missing, *, factor: int = 2) -> Later:
    "Multiplies."
    return factor * x if x < 100 else scale(x - 100)

scale.tag = "mine"
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="evaluates annotations at once")
@pytest.mark.parametrize("send", [encode, dump])
def test_code_when_its_annotations_cannot_be_evaluated_then_they_travel_as_strings(
    send: Callable[[object], Payload],
) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(DEFERRED, "<deferred>", "exec", dont_inherit=True), names)

    scale = decode(send(names["scale"]))

    assert [scale(3), scale(103), scale(3, factor=1)] == [6, 6, 3]
    assert [scale.__doc__, vars(scale)] == ["Multiplies.", {"tag": "mine"}]
    assert scale.__annotations__ == {"x": "Missing", "factor": "int", "return": "Later"}
    names.update(Missing=int, Later=float)
    assert names["scale"].__annotations__["return"] is float, "its own are as before"


@functools.lru_cache
def cached_here() -> int:
    return 1


def test_code_when_its_module_caches_its_results_then_it_travels_by_name() -> None:
    assert trip(cached_here) is cached_here


def test_code_when_it_caches_the_results_of_a_partial_then_it_travels_by_value() -> (
    None
):
    assert trip(functools.cache(functools.partial(int, base=2)))("11") == 3


def test_code_when_another_interpreter_has_not_the_module_then_it_travels_by_value() -> (  # noqa: E501  # one behaviour, one name
    None
):
    class Local:
        x = 2

    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("class Main:\n    x = 3\ndef one(): return 1", namespace)
    payload = encode([namespace["one"], Local, Local(), namespace["Main"](), lambda: 5])
    assert isinstance(payload, bytes)
    program = (
        "import sys; from actorlib._wire.serialization import decode;"
        "one, local, inside, main, five = decode(sys.stdin.buffer.read());"
        "print(one(), local.x, inside.x, main.x, five())"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(actorlib.__file__).parents[1],
        input=payload,
        capture_output=True,
        check=True,
    )

    assert ended.stdout.split() == [b"1", b"2", b"2", b"3", b"5"]


def test_code_when_its_module_is_not_here_then_the_error_names_it() -> None:
    module = types.ModuleType("not_to_be_found")
    thing = type("Thing", (), {"__module__": module.__name__})
    module.Thing = thing  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        payload = encode(thing())
    finally:
        del sys.modules[module.__name__]

    with pytest.raises(ModuleNotFoundError, match="not_to_be_found"):
        decode(payload)


# What cannot travel.


class Stubborn:
    def __reduce__(self) -> str:
        raise LookupError("never")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (threading.Lock(), TypeError),
        ((x for x in ()), TypeError),
        (Stubborn(), LookupError),
        ([1, Stubborn()], LookupError),
    ],
    ids=["lock", "generator", "stubborn", "nested"],
)
def test_value_when_it_cannot_be_pickled_then_what_pickling_raised(
    value: object, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        encode(value)


def test_value_when_another_one_failed_before_then_it_travels_all_the_same() -> None:
    for bad in (Stubborn(), ["\ud800", Stubborn()]):
        with pytest.raises(LookupError):
            encode(bad)

    assert trip([1, "a"]) == [1, "a"]


# What is kept.


@given(values)
def test_dump_when_loaded_by_pickle_or_as_a_payload_then_equal(value: Any) -> None:
    data = dump(value)

    assert exact(pickle.loads(data)) == exact(value)
    assert exact(decode(data)) == exact(value)


def test_dump_when_plain_or_large_then_always_one_piece() -> None:
    assert [type(dump(value)) for value in (1, bytes(LARGE * 2))] == [bytes, bytes]
