"""Our dataclasses are those of the standard library in all that can be seen."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import weakref
from dataclasses import field
from typing import Any, ClassVar

import pytest

from actorlib._base.value import builder_of, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """A value with every kind of field."""

    unit: ClassVar[str] = "s"
    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list[int])
    hidden: str = field(default="h", repr=False)
    aside: str = field(default="a", compare=False)
    total: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.size + sum(self.parts))

    def doubled(self) -> Ours:
        """Another with twice the size."""
        return dataclasses.replace(self, size=2 * self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A value of two fields."""

    name: str
    size: int = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Theirs:
    """The same, by the standard library."""

    unit: ClassVar[str] = "s"
    name: str
    size: int = 3
    parts: list[int] = field(default_factory=list[int])
    hidden: str = field(default="h", repr=False)
    aside: str = field(default="a", compare=False)
    total: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.size + sum(self.parts))


@dataclass(frozen=True, slots=True)
class Pair:
    """A value by place, which can be hashed."""

    first: int
    second: int = 2


@dataclass(slots=True, kw_only=True)
class Changing:
    """A value that may be changed."""

    number: int


@dataclass(frozen=True, kw_only=True)
class WithDict:
    """A value without slots."""

    number: int = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Named:
    """A value that is equal to itself alone."""

    name: str


def test_class_when_made_then_a_dataclass_with_the_same_fields() -> None:
    def described(made: type) -> list[tuple[object, ...]]:
        return [
            (f.name, f.type, f.default, f.init, f.repr, f.compare, f.kw_only)
            for f in dataclasses.fields(made)
        ]

    assert dataclasses.is_dataclass(Ours)
    assert described(Ours) == described(Theirs)
    assert Ours.__match_args__ == Theirs.__match_args__
    assert Ours.__slots__ == Theirs.__slots__
    assert repr(Ours.__dataclass_params__) == repr(Theirs.__dataclass_params__)
    assert str(inspect.signature(Ours)) == str(inspect.signature(Theirs))
    assert str(inspect.signature(Pair)) == "(first: 'int', second: 'int' = 2) -> None"


def test_value_when_made_then_with_defaults_and_what_follows_from_them() -> None:
    made, other = Ours(name="n", parts=[4]), Ours(name="m")

    assert (made.size, made.parts, made.hidden, made.total) == (3, [4], "h", 7)
    assert other.parts == []
    assert other.parts is not Ours(name="m").parts
    assert dataclasses.asdict(made) == dataclasses.asdict(Theirs(name="n", parts=[4]))


@pytest.mark.parametrize(
    ("made", "args", "given", "told"),
    [
        (Ours, (), {}, "misses 'name'"),
        (Ours, (), {"name": "n", "other": 1}, "unexpected keyword argument 'other'"),
        (Ours, (), {"name": "n", "total": 1}, "unexpected keyword argument 'total'"),
        (Ours, ("n",), {}, "takes 0 positional arguments, and 1 were given"),
        (Pair, (1, 2, 3), {}, "takes 2 positional arguments, and 3 were given"),
        (Pair, (1,), {"first": 2}, "multiple values for argument 'first'"),
        (Pair, (), {"second": 2}, "misses 'first'"),
        (WithDict, (), {"other": 1}, "unexpected keyword argument 'other'"),
    ],
)
def test_value_when_made_wrongly_then_refused(
    made: type, args: tuple[object, ...], given: dict[str, object], told: str
) -> None:
    with pytest.raises(TypeError, match=rf"{made.__name__}\.__init__\(\) .*{told}"):
        made(*args, **given)


def test_values_when_shown_compared_or_hashed_then_by_their_fields() -> None:
    one = Ours(name="n", parts=[1])

    assert repr(one) == repr(Theirs(name="n", parts=[1])).replace("Theirs", "Ours")
    assert "hidden" not in repr(one)
    assert one == Ours(name="n", parts=[1], aside="b")
    assert one != Ours(name="n", parts=[2])
    assert one != Theirs(name="n", parts=[1])
    assert (Pair(1) == (1, 2)) is False
    assert {Pair(1): "found"}[Pair(1, 2)] == "found"
    assert len({Pair(1), Pair(1, 2), Pair(2)}) == 2
    with pytest.raises(TypeError, match="unhashable type: 'Changing'"):
        hash(Changing(number=1))


def test_frozen_value_when_changed_then_refused() -> None:
    values: list[tuple[Any, str]] = [
        (Ours(name="n"), "name"),
        (WithDict(), "number"),
        *((Below(name="n"), name) for name in ("size", "extra")),
    ]
    for value, name in values:
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to"):
            setattr(value, name, 1)
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete"):
            delattr(value, name)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, "other", 1)  # noqa: B010  # as somebody may


def test_class_below_when_it_has_attributes_of_its_own_then_they_may_be_set() -> None:
    class Below(Pair):
        pass

    below: Any = Below(1)
    below.own = 3

    assert vars(below) == {"own": 3}
    with pytest.raises(dataclasses.FrozenInstanceError):
        below.first = 2


def test_dataclass_of_the_library_when_below_then_it_is_frozen_too() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Triple(Pair):
        third: int = 3

    assert Triple(1) == Triple(1, 2, 3)
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        dataclasses.dataclass(type("Loose", (Pair,), {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Below(Ours):
    """A value of a class below another."""

    extra: int = 1


def test_value_when_its_class_is_below_another_then_it_has_the_fields_of_both() -> None:
    value: Any = Below(name="n", extra=2)

    assert [o.name for o in dataclasses.fields(value)][-2:] == ["total", "extra"]
    assert (value.size, value.total, value.extra) == (3, 3, 2)
    assert pickle.loads(pickle.dumps(value)) == value
    assert dataclasses.replace(value, size=4) != value
    assert not hasattr(value, "__dict__")


def test_value_when_copied_or_pickled_then_it_is_equal() -> None:
    values = [Ours(name="n", parts=[1]), Pair(1), Changing(number=1), WithDict()]

    for value in values:
        assert pickle.loads(pickle.dumps(value)) == value
        assert copy.deepcopy(value) == value
        assert dataclasses.replace(value) == value  # type: ignore[type-var]
    assert values[0].doubled().total == 7  # type: ignore[union-attr]


def test_value_when_equal_to_itself_alone_then_also_as_a_key() -> None:
    one = Named(name="n")

    assert one != Named(name="n")
    assert weakref.WeakKeyDictionary({one: 1})[one] == 1


def test_method_when_written_then_it_is_kept() -> None:
    @dataclass(frozen=True, slots=True)
    class Fold:
        """Compares names without their case."""

        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Fold) and self.name.lower() == other.name.lower()

        def __hash__(self) -> int:
            return hash(self.name.lower())

        def __repr__(self) -> str:
            return self.name

    assert {Fold("A")} == {Fold("a")}
    assert repr(Fold("A")) == "A"


def test_field_when_not_taken_and_with_a_default_then_refused() -> None:
    with pytest.raises(TypeError, match=r"Fixed\.number has a default in vain"):

        @dataclass(slots=True)
        class Fixed:
            """A value with what is never said."""

            number: int = field(default=1, init=False)


def test_builder_when_it_has_all_values_then_it_makes_an_equal_value() -> None:
    value = Plain(name="a", size=2)

    assert builder_of(Plain)(["a", 2]) == value
    assert pickle.loads(pickle.dumps(builder_of(Plain)(["a", 2]))) == value


@pytest.mark.parametrize("values", [[], ["a"], ["a", 2, 3]])
def test_builder_when_values_are_missing_or_too_many_then_it_refuses(
    values: list[object],
) -> None:
    with pytest.raises(ValueError, match="zip"):
        builder_of(Plain)(values)
