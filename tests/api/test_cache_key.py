"""The keys of cached results: distinct values have distinct ones, whatever the run."""

from __future__ import annotations

import dataclasses
import enum
import functools
import itertools
import os
import subprocess
import sys
from collections import OrderedDict, defaultdict, namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib._api.cache_key import NoKeyError, code_version, entry_key

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]


def value_digest(value: object) -> str:
    """The key of a call with this argument; errors have the place inside of it."""
    return entry_key("function", "1", {"": value})


def refusal_of(value: object) -> NoKeyError:
    """The error for a value without a key."""
    with pytest.raises(NoKeyError) as caught:
        value_digest(value)
    return caught.value


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Level(enum.IntEnum):
    RED = 1


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Word(enum.StrEnum):
    RED = "RED"


class Point(NamedTuple):
    x: Any
    y: Any = 0


Pair = namedtuple("Pair", "x y")  # noqa: PYI024  # as older programs write it


@dataclasses.dataclass(frozen=True)
class Trial:
    x: Any
    y: Any = 0


@dataclasses.dataclass(slots=True)
class Run:
    x: Any
    y: Any = 0


ZONES = [ZoneInfo(name) for name in {"UTC", "Asia/Tokyo"} & available_timezones()]
DISTINCT: list[Any] = [
    *(None, False, True, 0, 1, -1, 2**70, 0.0, -0.0, 1.0, float("inf"), float("nan")),
    *("", "1", "0", "None", "é", "\ud800", b"", b"1", "RED", "1,2"),
    *(
        (),
        (1,),
        (1, 2),
        ((1,), 2),
        ((1, 2),),
        ([1], 2),
        ("1", "2"),
        ("12", ""),
        ("1,2",),
    ),
    *([], [1], [1, 2], [2, 1], [[]], [[], []], [[1], []], [[], [1]]),
    *(set(), {1}, {1, 2}, frozenset(), frozenset({1}), {frozenset({1})}),
    *({}, {1: 2}, {True: 2}, {1.0: 2}, {"1": 2}, {1: "2"}, {2: 1}, {1: 2, 2: 1}),
    *([(1, 2)], {(1, 2)}, {(1, 2): None}),
    *(Colour.RED, Colour.GREEN, Level.RED, Word.RED, Rights.READ),
    *(Rights.READ | Rights.WRITE, Rights(0)),
    *(Point(1), Point(1, 1), Pair(1, 0), Trial(1), Trial(1, 1), Run(1), Trial(Run(1))),
    *(Path("a"), Path("a/b"), PurePosixPath("a"), "a"),
    *(date(2026, 1, 1), datetime(2026, 1, 1), datetime(2026, 1, 1, fold=1)),
    *(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, tzinfo=UTC)),
    datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
    *(datetime(2026, 1, 1, 1, tzinfo=zone) for zone in ZONES),
    *(time(1), time(1, tzinfo=UTC), timedelta(1), timedelta(0, 1), timedelta(0, 0, 1)),
    *(UTC, timezone(timedelta(0), "GMT"), *ZONES),
    *(np.float64(1), np.float32(1), np.int64(1), np.bool_(1), np.str_("1")),
    *(np.float64(0.0), np.float64(-0.0), np.datetime64("2026-01-01")),
    *(
        np.datetime64("2026-01-01T00"),
        np.array(1.0),
        np.array([1.0]),
        np.array([[1.0]]),
    ),
    *(
        np.array([1, 2]),
        np.array([2, 1]),
        np.array([1, 2], np.int8),
        np.array([1, 2], ">i8"),
    ),
    *(
        np.zeros((2, 3)),
        np.zeros((3, 2)),
        np.zeros((0, 2)),
        np.zeros((2, 0)),
        np.array([]),
    ),
    np.zeros(2, [("a", "i4"), ("b", "f4")]),
    np.zeros(2, [("b", "i4"), ("a", "f4")]),
]


def test_values_when_they_differ_then_their_keys_do_too() -> None:
    digests = [value_digest(value) for value in DISTINCT]
    wrapped = [value_digest([value]) for value in DISTINCT]

    same = [
        (DISTINCT[i], DISTINCT[j])
        for i, j in itertools.combinations(range(len(DISTINCT)), 2)
        if digests[i] == digests[j] or wrapped[i] == wrapped[j]
    ]

    # NaN is unlike any other, itself included, and has one key all the same.
    assert same == []
    assert value_digest(float("nan")) == value_digest(float("nan"))


def test_values_when_only_their_order_or_layout_differs_then_the_key_is_the_same() -> (
    None
):
    grid = np.arange(6.0).reshape(2, 3)
    for one, other in (
        ({1: "a", 2: "b"}, {2: "b", 1: "a"}),
        ({f"{n}" for n in range(99)}, {f"{n}" for n in reversed(range(99))}),
        (Trial({1, 2}, {"a": 1, "b": 2}), Trial({2, 1}, {"b": 2, "a": 1})),
        (grid, np.asfortranarray(grid)),
        (grid[:, ::2], grid[:, ::2].copy()),
    ):
        assert value_digest(one) == value_digest(other)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, -1.0]),
    st.text("01", max_size=2),
    st.binary(max_size=1),
    st.sampled_from([*Colour, *Level]),
)
HASHABLE = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(tuple),
        st.builds(Point, inner, inner),
        st.frozensets(inner, max_size=2),
    ),
    max_leaves=3,
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.lists(inner, max_size=2).map(tuple),
        st.dictionaries(HASHABLE, inner, max_size=2),
        st.sets(HASHABLE, max_size=2),
        st.builds(Trial, inner, inner),
        st.builds(Run, inner),
    ),
    max_leaves=4,
)


def form_of(value: Any) -> Any:
    """A value that is equal for the values that should have the same key."""
    kind = type(value).__name__
    if isinstance(value, Trial | Run):
        return kind, form_of(value.x), form_of(value.y)
    if isinstance(value, dict):
        return kind, frozenset((form_of(k), form_of(v)) for k, v in value.items())
    if isinstance(value, set | frozenset):
        return kind, frozenset(map(form_of, value))
    if isinstance(value, tuple | list):
        return (kind, *map(form_of, value))
    return kind, repr(value)


@given(VALUES, VALUES)
def test_key_when_any_two_values_are_compared_then_it_is_shared_by_the_same_alone(
    one: Any, other: Any
) -> None:
    assert (value_digest(one) == value_digest(other)) == (
        form_of(one) == form_of(other)
    )


def test_key_when_made_in_another_process_then_it_is_the_same() -> None:
    program = (
        "from pathlib import Path\n"
        "from actorlib._api.cache_key import code_version, entry_key\n"
        "def train(x): return x in {'a', 'b', 'c'}\n"
        "value = [{'a', 'b', 'c', 1, None}, {'x': 1.5}, Path('a')]\n"
        "print(entry_key('f', '1', {'x': value}))\n"
        "print(code_version(train))\n"
    )

    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(printed) == 1


def test_entry_key_when_any_part_differs_then_it_is_another_one() -> None:
    keys = [
        entry_key("f", "1", {"x": 1}),
        entry_key("g", "1", {"x": 1}),
        entry_key("f", "2", {"x": 1}),
        entry_key("f", "1", {"y": 1}),
        entry_key("f", "1", {"x": 2}),
        entry_key("f", "1", {"x": 1, "y": 2}),
        entry_key("f1", "", {"x": 1}),
    ]

    assert len(set(keys)) == len(keys)
    assert all(len(key) == 40 for key in keys)


class Net:
    """Has no key."""


class Text(str):
    __slots__ = ()


class Folder(type(Path())):  # type: ignore[misc]
    pass


class Unset(Run):
    def __init__(self) -> None:
        pass


@dataclasses.dataclass
class Listing(list[int]):
    x: int = 0


def endless() -> list[Any]:
    value: list[Any] = [1]
    value.append({"x": value})
    return value


@pytest.mark.parametrize(
    ("value", "place", "kind"),
    [
        (Net(), "", Net),
        ([1, (2, Net())], "[1][1]", Net),
        ({"a": {2: Net()}}, "['a'][2]", Net),
        ({Net(): 1}, "{...}", Net),
        ({(1, Net())}, "{...}[1]", Net),
        (Trial(Run(1, [Net()])), ".x.y[0]", Net),
        (Point(1, Net()), ".y", Net),
        ([Text("a")], "[0]", Text),
        ([Folder("a")], "[0]", Folder),
        (Trial(Net), ".x", type),
        (Trial(print), ".x", type(print)),
        *((value, "", type(value)) for value in (1j, bytearray(), range(3), ...)),
        *((value, "", type(value)) for value in (OrderedDict(), defaultdict(int))),
        (Listing(), "", Listing),
        (np.ma.array([1]), "", np.ma.MaskedArray),
    ],
)
def test_value_when_it_has_no_key_then_its_place_and_its_type(
    value: Any, place: str, kind: type
) -> None:
    error = refusal_of(value)

    assert error.place == place
    assert type(error.value) is kind


@pytest.mark.parametrize(
    ("value", "place", "reason"),
    [
        (endless(), "[1]['x']", "contains itself"),
        ([np.array([1, "a"], object)], "[0]", "is an array of Python objects"),
        (Unset(), "", "has no value for its field x"),
    ],
)
def test_value_when_its_type_is_not_the_reason_then_the_reason(
    value: Any, place: str, reason: str
) -> None:
    error = refusal_of(value)

    assert error.place == place
    assert error.reason.startswith(reason)


def test_value_when_it_is_shared_and_not_nested_in_itself_then_it_has_a_key() -> None:
    shared = [1]

    assert value_digest([shared, shared]) == value_digest([[1], [1]])


class Derived(Trial):
    """Has fields of its base alone, besides what Python keeps."""

    @functools.cached_property
    def total(self) -> Any:
        return self.x + self.y


class Secretive(Run):
    def __init__(self, x: Any, secret: Any) -> None:
        super().__init__(x)
        self.secret = secret


class Marked(Point):
    """May have attributes besides its fields."""


def test_value_when_it_has_other_attributes_than_its_fields_then_it_has_no_key() -> (
    None
):
    derived = Derived(1, 2)
    before = value_digest(derived)
    assert derived.total == 3
    assert value_digest(derived) == before

    marked: Any = Marked(1)
    assert value_digest(marked) != value_digest(Point(1))
    marked.unit = "m"
    for value, name in ((Secretive(1, 2), "secret"), (marked, "unit")):
        error = refusal_of([value])
        assert error.place == "[0]"
        assert error.reason == f"has the attribute {name}, which is not a field"


@dataclasses.dataclass(frozen=True)
class Shy:
    x: int

    def __repr__(self) -> str:
        raise ArithmeticError


def test_key_when_the_repr_of_a_part_raises_then_it_is_not_needed() -> None:
    assert value_digest({Shy(1): 1}) != value_digest({Shy(2): 1})


# Functions.


def defined(text: str, name: str = "f", **names: Any) -> Any:
    """The function that a text defines."""
    scope: dict[str, Any] = dict(names)
    exec(text, scope)
    return scope[name]


def test_version_when_the_code_is_changed_then_it_changes() -> None:
    texts = [
        "def f(x): return x + 1",
        "def f(x): return x + 2",
        "def f(x): return x - 1",
        "def f(x): return x + 1.0",
        "def f(x): return x + True",
        "def f(x): return g(x) + 1",
        "def f(x): return h(x) + 1",
        "def f(x, *y): return x + 1",
        "async def f(x): return x + 1",
        "def f(x): return [y + 1 for y in x]",
        "def f(x): return [y + 2 for y in x]",
        "def f(x):\n def g(): return 1\n return g",
        "def f(x):\n def g(): return 2\n return g",
        "def f(x): return x in {1, 2}",
        "def f(x): return x in {1, 3}",
        "def f(x): return x[..., 0]",
        "def f(x): return x[..., 1]",
        "def f(x): return 1j",
        "def f(x): return 2j",
        "def f(x):\n try: g()\n except E: pass",
        "def f(x):\n g()\n try: pass\n except E: pass",
    ]

    assert len({code_version(defined(text)) for text in texts}) == len(texts)


def test_version_when_only_layout_and_comments_change_then_it_stays() -> None:
    one = defined("def f(x):\n    y = x + 1\n    return y")
    other = defined(
        "\n\n# A comment.\n@mark\ndef f(\n    x: int\n) -> int:\n"
        "    y = (\n        x  # here\n        + 1\n    )\n\n    return y",
        mark=lambda function: function,
    )

    assert code_version(one) == code_version(other)


def scaled(scale: Any, through: Callable[[Any], Any] | None = None) -> Any:
    def f(x: Any) -> Any:
        return scale * (through or f)(x)

    return f


def power(exponent: int) -> Callable[[int], int]:
    def raise_it(x: int, by: int = exponent) -> int:
        return x**by

    return raise_it


def test_version_when_a_variable_around_it_changes_then_it_changes() -> None:
    functions = [
        scaled(2),
        scaled(3),
        scaled(2.0),
        scaled(2, power(2)),
        scaled(2, power(3)),
    ]

    versions = [code_version(each) for each in functions]

    assert len(set(versions)) == len(functions)
    assert versions == [
        code_version(each)
        for each in (
            scaled(2),
            scaled(3),
            scaled(2.0),
            scaled(2, power(2)),
            scaled(2, power(3)),
        )
    ]
    with pytest.raises(NoKeyError) as caught:
        code_version(scaled([1, Net()]))
    assert caught.value.place == "scale[1]"
