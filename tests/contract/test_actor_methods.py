"""The methods of actors of each kind, and what handles show of them."""

from __future__ import annotations

import asyncio
import functools
import re
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import Counter, Echo
from helpers.callers import error_of
from helpers.lives import id_of, remote

import actorlib

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator

    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [
    pytest.mark.process,
    pytest.mark.usefixtures("runtime"),
    pytest.mark.asyncio(loop_scope="module"),
]


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
    assert [name for name in dir(counter) if not name.startswith("_")] == own
    public = [name for name in dir(Counter) if not name.startswith("_")]
    assert public == sorted([*own, "options", "remote", "spawn"])
    assert not [name for name in dir(counter) if name.startswith("_Actor")]
    assert await api.get(counter.add.remote()) == 1


def call_with_ten(method: Any) -> Generator[Any, Any, Any]:
    return (yield method.remote(10))


@pytest.mark.parametrize("callee", ["plain", "async"], indirect=True)
async def test_method_when_kept_or_sent_then_it_calls_its_actor(
    api: Api, callee: Callee
) -> None:
    add = Counter.remote().add

    assert await api.get(add.remote()) == 1
    assert await api.get(callee.run(call_with_ten, add)) == 11
    (back,) = await api.get(Echo.remote().echo.remote([add]))
    assert await api.get(back.remote()) == 12


async def test_method_when_its_arguments_do_not_fit_then_the_actor_goes_on(
    api: Api,
) -> None:
    counter = Counter.remote()
    with pytest.raises(TypeError, match=r"^add\(\) "):
        counter.add.remote(1, 2, 3)
    error = await error_of(api, counter.add.remote("x"))

    assert isinstance(error, TypeError)
    assert await api.get(counter.add.remote()) == 1
