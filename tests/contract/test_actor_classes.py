"""The classes that actors may have, their methods, and what handles show of them."""

from __future__ import annotations

import abc
import asyncio
import dataclasses
import functools
import re
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

import pytest
from helpers.actors import Counter
from helpers.kinds import CONTRACT, OWN_ENGINES, TWO_KINDS
from helpers.lives import id_of, remote
from helpers.reused import Echo

import actorlib

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator

    from helpers.callees import Callee
    from helpers.callers import Api


pytestmark = CONTRACT

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


async def test_class_when_arguments_do_not_fit_then_refused_before_it_is_made() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        remote(local_class("Point")).remote()
    with pytest.raises(TypeError, match=r"Bare\(\) takes (no|0)"):
        remote(Bare).remote(1)
    with pytest.raises(TypeError):
        remote(local_class("WithNew")).remote()


def same_name(answer: Any) -> Any:
    @actorlib.remote
    class Same:
        def answer(self) -> Any:
            return answer

    return Same


@OWN_ENGINES
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


@TWO_KINDS
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


@OWN_ENGINES
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


# Methods.


def doubled(function: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> int:
        return 2 * function(*args, **kwargs)

    return wrapper


class Adder:
    def __call__(self, x: int, y: int = 1) -> int:
        return x + y


class Methods:
    """Has methods of each kind, and attributes that are not methods."""

    shared = 1

    def __init__(self) -> None:
        self.own = 2

    @property
    def computed(self) -> int:
        return 3

    class Inner:
        """Not a method."""

    def method(self) -> int:
        return self.own + self.computed

    def nothing(self) -> None: ...

    @staticmethod
    def static(a: int, b: int = 2) -> Any:
        return a, b

    @classmethod
    def named(cls, a: int) -> Any:
        return cls.__name__, a

    def __call__(self, x: int) -> int:
        return x + 1

    def __len__(self) -> int:
        return 3

    def __getitem__(self, key: str) -> str:
        return key * 2

    def remote(self) -> str:
        return "remote"

    def options(self) -> str:
        return "options"

    def kill(self) -> str:
        return "kill"

    def call(self, method: str, args: int, kwargs: int) -> Any:
        return method, args, kwargs

    @doubled
    def wrapped(self, x: int) -> int:
        return x

    def power(self, base: int, exponent: int) -> int:
        return base**exponent

    square = functools.partialmethod(power, exponent=2)
    alias = power
    from_lambda = cast("Any", lambda _self, x: x - 1)  # pyright: ignore[reportUnknownLambdaType]
    add = Adder()
    length = len
    parse = staticmethod(int)

    def _one(self) -> int:
        return self.__two() - 1

    def __two(self) -> int:
        return 2


class AsyncMethods(Methods):
    """The same with an event loop."""

    @staticmethod
    async def static_async(a: int) -> int:
        await asyncio.sleep(0)
        return a

    @classmethod
    async def named_async(cls) -> str:
        await asyncio.sleep(0)
        return cls.__name__


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("method", (), {}),
    ("nothing", (), {}),
    ("static", (1,), {}),
    ("static", (), {"b": 1, "a": 3}),
    ("named", (5,), {}),
    ("__call__", (1,), {}),
    ("__len__", (), {}),
    ("__getitem__", ("a",), {}),
    ("remote", (), {}),
    ("options", (), {}),
    ("kill", (), {}),
    ("call", (), {"method": "a", "args": 1, "kwargs": 2}),
    ("wrapped", (4,), {}),
    ("power", (2,), {"exponent": 3}),
    ("square", (4,), {}),
    ("alias", (2, 3), {}),
    ("from_lambda", (4,), {}),
    ("add", (1,), {}),
    ("add", (1,), {"y": 5}),
    ("length", ([1, 2],), {}),
    ("parse", ("12",), {}),
    ("_one", (), {}),
    ("_Methods__two", (), {}),
]


@pytest.mark.parametrize("cls", [Methods, AsyncMethods])
async def test_methods_of_each_kind_when_called_then_as_in_a_local_object(
    api: Api, cls: type
) -> None:
    actor, local = remote(cls).remote(), cls()

    refs = [getattr(actor, name).remote(*args, **more) for name, args, more in CALLS]
    expected = [getattr(local, name)(*args, **more) for name, args, more in CALLS]
    assert await api.get(refs) == expected
    for name in ("static", "wrapped", "length", "named"):
        with pytest.raises(TypeError):
            getattr(actor, name).remote()
    if cls is AsyncMethods:
        refs = [actor.static_async.remote(7), actor.named_async.remote()]
        assert await api.get(refs) == [7, "AsyncMethods"]


@OWN_ENGINES
async def test_attribute_when_it_is_not_a_method_then_the_handle_does_not_have_it(
    api: Api,
) -> None:
    actor = remote(Methods).remote()

    for name in ("shared", "own", "computed", "Inner", "nope", "__iter__"):
        assert not hasattr(actor, name)
    with pytest.raises(AttributeError, match=r"Methods.*'nope'"):
        _ = actor.nope
    with pytest.raises(AttributeError, match="did you mean 'method'"):
        _ = actor.methode
    with pytest.raises(TypeError, match=r"method\(\).*\.remote\("):
        actor.method()
    with pytest.raises(TypeError):
        actor()
    assert await api.get(actor.method.remote()) == 5


class Shadowed:
    """Has attributes with the names of its methods."""

    def __init__(self) -> None:
        for name in ("value", "later", "items", "items_later", "cls", "static"):
            setattr(self, name, 7)
        for name in ("partial", "__call__"):
            setattr(self, name, None)
        self.replaced = lambda: "the instance's"

    def value(self) -> tuple[str, Any]:
        return "value", vars(self)["value"]

    async def later(self) -> str:
        return "later"

    def items(self) -> Iterator[str]:
        yield "items"

    async def items_later(self) -> AsyncIterator[str]:
        yield "items"

    @classmethod
    def cls(cls) -> str:
        return cls.__name__

    @staticmethod
    def static(*, wanted: str = "static") -> str:
        return wanted

    partial = functools.partialmethod(static, wanted="partial")

    def __call__(self) -> str:
        return "call"

    def replaced(self) -> str:
        return "the class's"


class ShadowedPlain(Shadowed):
    """The same without a loop."""

    later = items_later = None  # type: ignore[assignment]

    @actorlib.setup
    def begin(self) -> None:
        assert self.begin == 0

    def __new__(cls) -> Any:
        made = super().__new__(cls)
        made.begin = 0  # type: ignore[method-assign]
        return made


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (Shadowed, {}),
        (Shadowed, {"concurrency_groups": {"other": 1}}),
        (ShadowedPlain, {}),
        (ShadowedPlain, {"max_concurrency": 2}),
    ],
    ids=["async", "groups", "plain", "threaded"],
)
async def test_method_when_an_attribute_has_its_name_then_the_method_is_called(
    api: Api, engine: str, cls: Any, options: dict[str, Any]
) -> None:
    actor = remote(cls).options(**options).remote()
    calls: dict[Any, Any] = {
        actor.value.remote(): ("value", 7),
        actor.static.remote(wanted="given"): "given",
        actor.cls.remote(): cls.__name__,
        actor.partial.remote(): "partial",
        actor.__call__.remote(): "call",
        actor.replaced.remote(): "the instance's",
    }
    if engine != "client":  # it passes no streams
        calls[actor.items.options(num_returns=1).remote()] = "items"
    if cls is Shadowed:
        calls[actor.later.remote()] = "later"
        if engine != "client":
            calls[actor.items_later.options(num_returns=1).remote()] = "items"

    assert await api.get([*calls]) == [*calls.values()]


# Handles.


async def test_handle_when_shown_then_its_class_id_and_methods(api: Api) -> None:
    counter = Counter.remote()
    own = ["add", "double", "limit", "make"]

    assert repr(counter) == f"Actor(Counter, {id_of(counter)})"
    assert re.fullmatch("[0-9a-f]+", id_of(counter))
    assert repr(counter.add) == "<method Counter.add>"
    assert repr(Counter) == "ActorClass(Counter)"
    assert dir(counter) == sorted([*own, "resume", "share", "suspend"])
    public = [name for name in dir(Counter) if not name.startswith("_")]
    assert public == sorted([*own, "options", "remote", "spawn"])
    assert not [name for name in dir(counter) if name.startswith("_Actor")]
    assert await api.get(counter.add.remote()) == 1


def call_with_ten(method: Any) -> Generator[Any, Any, Any]:
    return (yield method.remote(10))


@TWO_KINDS
async def test_method_when_kept_or_sent_then_it_calls_its_actor(
    api: Api, callee: Callee
) -> None:
    add = Counter.remote().add

    assert await api.get(add.remote()) == 1
    assert await api.get(callee.run(call_with_ten, add)) == 11
    (back,) = await api.get(Echo.remote().echo.remote([add]))
    assert await api.get(back.remote()) == 12
