"""The classes that actors may have."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

import pytest
from helpers.actors import Counter
from helpers.lives import remote

import actorlib

if TYPE_CHECKING:
    from collections.abc import Generator

    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [
    pytest.mark.process,
    pytest.mark.usefixtures("runtime"),
    pytest.mark.asyncio(loop_scope="module"),
]

T = TypeVar("T")
OWN_NAME = __name__


class Bare:
    def value(self) -> str:
        return "bare"


def local_classes(factor: int) -> list[tuple[type, tuple[Any, ...], dict[str, Any]]]:
    """Classes that workers cannot import, with arguments for their constructors."""

    class Slotted:
        __slots__ = ("number",)

        def __init__(self) -> None:
            self.number = 1

        def value(self) -> int:
            self.number += 1
            return self.number

    @dataclasses.dataclass
    class Point:
        x: int
        y: int = 2
        tags: list[str] = dataclasses.field(default_factory=list)

        def value(self) -> Any:
            return self.x, self.y, self.tags

    class Root(abc.ABC):
        def __init__(self, name: str) -> None:
            self.name = name

        @abc.abstractmethod
        def kind(self) -> str: ...

        def hello(self) -> str:
            return f"{self.kind()} {self.name}"

    class Mixin:
        def value(self) -> str:
            return self.hello().upper()  # type: ignore[attr-defined]

        def hidden(self) -> int:
            return 1

    class Leaf(Mixin, Root):
        hidden: Any = None

        def kind(self) -> str:
            return "leaf"

        def hello(self) -> str:
            return super().hello() + "!"

    class Typed(Generic[T]):
        def __init__(self, value: T) -> None:
            self._value = value

        def value(self) -> T:
            return self._value

    class Store(dict[str, int]):
        def value(self) -> dict[str, int]:
            return {**self, "total": sum(self.values())}

    class Pair(NamedTuple):
        left: int
        right: int = 2

        def value(self) -> int:
            return self.left + self.right

    class Meta(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            made = super().__call__(*args, **kwargs)
            made.extra = "meta"
            return made

    class WithMeta(metaclass=Meta):
        extra: str

        def value(self) -> str:
            return self.extra

    class WithNew:
        number: int

        def __new__(cls, number: int) -> Any:
            self = super().__new__(cls)
            self.number = number
            return self

        def value(self) -> int:
            return self.number

    class Scaled:
        """Uses a global of this module and a variable of this function."""

        def value(self) -> Any:
            return OWN_NAME, factor

    return [
        (Bare, (), {}),
        (Slotted, (), {}),
        (Point, (1,), {}),
        (Point, (1,), {"y": 5, "tags": ["a"]}),
        (Leaf, ("a",), {}),
        (Typed, ("x",), {}),
        (Store, ({"a": 1},), {"b": 2}),
        (Pair, (1,), {"right": 5}),
        (WithMeta, (), {}),
        (WithNew, (3,), {}),
        (Scaled, (), {}),
    ]


def local_class(name: str) -> Any:
    (cls,) = {cls for cls, _, _ in local_classes(3) if cls.__name__ == name}
    return cls


@pytest.mark.slow
async def test_classes_of_each_kind_when_called_then_as_local_objects(
    api: Api,
) -> None:
    classes = local_classes(3)
    actors = [remote(cls).remote(*args, **more) for cls, args, more in classes]

    values = await api.get([actor.value.remote() for actor in actors])
    assert values == [cls(*args, **more).value() for cls, args, more in classes]
    assert not hasattr(actors[1], "number")
    assert not hasattr(actors[4], "hidden")


async def test_class_when_derived_from_a_builtin_then_its_methods_are_there(
    api: Api,
) -> None:
    store = remote(local_class("Store")).remote({"a": 1}, b=2)
    refs = [
        store.update.remote(c=3),
        store.update.remote({"d": 4}),
        store.__setitem__.remote("e", 5),
        store.get.remote("z", 0),
        store.pop.remote("a"),
        store.copy.remote(),
    ]

    expected = {"b": 2, "c": 3, "d": 4, "e": 5}
    assert await api.get(refs) == [None, None, None, 0, 1, expected]


async def test_class_when_arguments_do_not_fit_then_refused_before_it_is_made() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        remote(local_class("Point")).remote()
    with pytest.raises(TypeError, match=r"Bare\(\) takes (no|0)"):
        remote(Bare).remote(1)
    with pytest.raises(TypeError):
        remote(local_class("WithNew")).remote()


class Empty:
    pass


async def test_class_when_it_has_no_method_then_its_actor_becomes_ready(
    api: Api,
) -> None:
    assert await api.get(remote(Empty).remote().__ray_ready__.remote()) is True


def same_name(answer: Any) -> Any:
    @actorlib.remote
    class Same:
        def answer(self) -> Any:
            return answer

    return Same


async def test_classes_when_they_have_the_same_name_then_each_has_its_own_methods(
    api: Api,
) -> None:
    first, second = same_name(1), same_name(2)
    actors = [cls.remote() for cls in (first, second, first)]

    assert await api.get([actor.answer.remote() for actor in actors]) == [1, 2, 1]


def make_and_call(actor_class: Any, *args: Any) -> Generator[Any, Any, Any]:
    return (yield actor_class.remote(*args).answer.remote())


def same(value: Any) -> Any:
    return value


@pytest.mark.parametrize("callee", ["plain", "async"], indirect=True)
async def test_class_when_it_is_an_argument_then_the_callee_can_make_actors(
    api: Api, callee: Callee
) -> None:
    local = same_name("local")
    options = local.options(name="named")

    assert await api.get(callee.run(make_and_call, local)) == "local"
    assert await api.get(callee.run(make_and_call, options)) == "local"
    back = await api.get(callee.run(same, options))
    actor = back.remote()
    assert await api.get(actor.answer.remote()) == "local"
    assert actorlib.get_actor("named") == actor


class Base:
    inherited = "base"

    @classmethod
    def named(cls) -> str:
        return cls.__name__


@actorlib.remote
class Self(Base):
    limit = 3

    @staticmethod
    def twice(number: int) -> int:
        return 2 * number

    def attributes(self) -> Any:
        return Self.limit, Self.inherited, Self.twice(4), Self.named()

    def child(self) -> Any:
        return actorlib.get(Self.remote().attributes.remote())


async def test_decorated_name_when_used_in_a_method_then_it_has_class_attributes(
    api: Api,
) -> None:
    actor = Self.remote()
    here = (Self.limit, Self.inherited, Self.twice(4), Self.named())

    assert here == (3, "base", 8, "Self")
    assert (
        await api.get([actor.attributes.remote(), actor.child.remote()]) == [here] * 2
    )


async def test_class_when_called_or_inherited_from_then_refused() -> None:
    with pytest.raises(TypeError, match=r"directly.*Counter\.remote\("):
        cast("Any", Counter)()
    with pytest.raises(TypeError, match=r"Counter.*cannot be inherited"):

        class More(Counter):  # type: ignore[misc, valid-type]
            pass

    local = Counter.make(5)
    assert not isinstance(local, actorlib.ActorHandle)
    assert local.add(1) == 6
