"""The arguments of a call: how they are bound, and when their values are taken."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from helpers.actors import Counter, Echo, Gate, Keeper
from helpers.functions import add

import actorlib

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    # Ray's client says so when large values have been sent.
    pytest.mark.filterwarnings("ignore:More than 10MB of messages"),
]

KINDS = pytest.mark.parametrize("callee", ["function", "plain", "async"], indirect=True)

# Binding.


class Bound:
    def __init__(
        self, a: int, /, b: int, c: int = 3, *rest: int, d: int, **more: int
    ) -> None:
        self._made = (a, b, c, rest, d, more)

    def made(self) -> Any:
        return self._made

    def call(
        self, a: int, /, b: int, c: int = 3, *rest: int, d: int, **more: int
    ) -> Any:
        return a, b, c, rest, d, more

    def plain(self, a: int, b: int = 2) -> Any:
        return a, b

    def packed(self, *args: int, **kwargs: int) -> Any:
        return args, kwargs

    def named(self, *, a: int, b: int = 2) -> Any:
        return a, b

    def placed(self, a: int, b: int = 2, /) -> Any:
        return a, b

    @functools.lru_cache  # noqa: B019  # one instance, one process
    def cached(self, a: int, b: int = 2) -> Any:
        return a, b


FITTING: list[tuple[tuple[int, ...], dict[str, int]]] = [
    ((1, 2), {"d": 4}),
    ((1, 2, 30, 31, 32), {"d": 4, "e": 5, "f": 6}),
    ((1,), {"b": 2, "d": 4}),
    ((1, 2, 30), {"d": 4}),
    ((1,), {"d": 4, "c": 30, "b": 2}),
    ((1,), {"b": 2, "d": 4, "a": 10}),
    ((1, 2), {"d": 4, "args": 5, "kwargs": 6, "cls": 7}),
]
UNFITTING: list[tuple[tuple[int, ...], dict[str, int]]] = [
    ((), {}),
    ((1, 2), {}),
    ((1,), {"d": 4}),
    ((1, 2), {"b": 3, "d": 4}),
    ((), {"a": 1, "b": 2, "d": 4}),
    ((1, 2, 3), {"c": 4, "d": 4}),
]


CALLS: list[tuple[str, tuple[int, ...], dict[str, int]]] = [
    *(("call", args, kwargs) for args, kwargs in FITTING),
    ("plain", (1,), {}),
    ("plain", (1, 5), {}),
    ("plain", (), {"b": 1, "a": 5}),
    ("packed", (), {}),
    ("packed", (1, 2, 3), {"a": 4}),
    ("named", (), {"a": 1}),
    ("named", (), {"b": 3, "a": 1}),
    ("placed", (1,), {}),
    ("placed", (1, 5), {}),
    ("cached", (1,), {"b": 5}),
]
REFUSED_CALLS: list[tuple[str, tuple[int, ...], dict[str, int]]] = [
    *(("call", args, kwargs) for args, kwargs in UNFITTING),
    ("plain", (), {}),
    ("plain", (1, 2, 3), {}),
    ("plain", (1,), {"a": 1}),
    ("plain", (1,), {"z": 1}),
    ("named", (1,), {"a": 1}),
    ("named", (), {"b": 1}),
    ("placed", (), {"a": 1}),
    ("placed", (1,), {"b": 1}),
]


class Functions:
    """The methods of ``Bound`` as remote functions, whose first argument is None."""

    def __init__(self) -> None:
        self._functions: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name not in self._functions:
            self._functions[name] = actorlib.remote(vars(Bound)[name])
        return functools.partial(self._functions[name].remote, None)


class Methods:
    """The same as methods of an actor."""

    def __init__(self) -> None:
        self._actor = actorlib.remote(Bound).remote(1, 2, d=4)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actor, name).remote


BOUND = pytest.mark.parametrize("kind", [Functions, Methods])


@BOUND
@pytest.mark.usefixtures("runtime")
async def test_arguments_when_they_fit_then_they_are_bound_as_in_a_local_call(
    api: Api, kind: Callable[[], Any]
) -> None:
    local, remote = Bound(1, 2, d=4), kind()
    calls = [call for call in CALLS if kind is Methods or call[0] != "cached"]

    refs = [getattr(remote, name)(*args, **kwargs) for name, args, kwargs in calls]

    assert await api.get(refs) == [
        getattr(local, name)(*args, **kwargs) for name, args, kwargs in calls
    ]


@BOUND
@pytest.mark.usefixtures("runtime")
async def test_arguments_when_they_do_not_fit_then_refused_at_the_call(
    api: Api, kind: Callable[[], Any]
) -> None:
    local, remote = Bound(1, 2, d=4), kind()
    for name, args, kwargs in REFUSED_CALLS:
        with pytest.raises(TypeError):
            getattr(local, name)(*args, **kwargs)
        with pytest.raises(TypeError, match=rf"^(Bound\.)?{name}\(\) "):
            getattr(remote, name)(*args, **kwargs)

    assert await api.get(remote.plain(1)) == (1, 2)


@pytest.mark.usefixtures("runtime")
async def test_constructor_when_given_arguments_then_they_are_bound_likewise(
    api: Api, *, is_on_ray: bool
) -> None:
    cls = actorlib.remote(Bound)
    fitting = FITTING[1:3] if is_on_ray else FITTING  # each is an interpreter there
    actors = [cls.remote(*args, **kwargs) for args, kwargs in fitting]

    assert await api.get([actor.made.remote() for actor in actors]) == [
        Bound(*args, **kwargs).made() for args, kwargs in fitting
    ]
    for args, kwargs in UNFITTING:
        with pytest.raises(TypeError, match=r"^Bound\(\) "):
            cls.remote(*args, **kwargs)


class Words:
    def __init__(self, /, **words: int) -> None:
        self._words = words

    def words(self, /, **more: int) -> dict[str, int]:
        return {**self._words, **more}


@pytest.mark.usefixtures("runtime")
async def test_arguments_when_one_is_named_self_then_it_is_a_keyword(api: Api) -> None:
    words = actorlib.remote(Words).remote(self=1)

    assert await api.get(words.words.remote(a=2)) == {"self": 1, "a": 2}
    assert await api.get(words.words.remote(self=3)) == {"self": 3}


@pytest.mark.usefixtures("runtime")
async def test_arguments_when_given_by_the_older_name_then_they_are_the_same(
    api: Api,
) -> None:
    cls: Any = Counter
    function: Any = add
    counter = cls._remote(args=[5])

    assert await api.get(counter.add._remote(kwargs={"number": 2})) == 7
    assert await api.get(function._remote([1], {"second": 2}, num_cpus=1)) == 3
    assert await api.get(function._remote(args=(1,))) == 1


async def test_arguments_when_positional_and_named_then_each_arrives_in_its_place(
    api: Api, callee: Callee
) -> None:
    assert await api.get(callee.all(1, [2], key=3)) == ((1, [2]), {"key": 3})
    assert await api.get(callee.all()) == ()


# Values as they are when the call is made.


class Box:
    def __init__(self, items: list[int]) -> None:
        self.items = items

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and self.items == other.items

    __hash__ = None  # type: ignore[assignment]

    def append(self, item: int) -> None:
        self.items.append(item)


MAKERS: list[Callable[[], Any]] = [
    lambda: [1],
    lambda: [1, [2]],
    lambda: [0] * 20_000,
    lambda: bytearray(400_000),
    lambda: Box([1, 2]),
]


async def test_argument_when_changed_after_the_call_then_the_callee_has_it_as_it_was(
    api: Api, callee: Callee
) -> None:
    gate = Gate.remote()
    values = [make() for make in MAKERS]
    array = np.zeros(100_000)
    at_once = [callee.first(value) for value in values]
    total = callee.run(np.sum, array)
    late = gate.wait.remote()
    later = [callee.all(late, value) for value in values]
    late_total = callee.run(np.dot, array, array)
    for value in values:
        value.append(9)
    array += 1
    await api.get(gate.open.remote())

    assert await api.get(at_once) == [make() for make in MAKERS]
    assert await api.get(later) == [("", make()) for make in MAKERS]
    assert await api.get([total, late_total]) == [0, 0]


@pytest.mark.usefixtures("runtime")
async def test_constructor_argument_when_changed_then_the_actor_has_it_as_it_was(
    api: Api,
) -> None:
    items, box = [1], Box([1, 2])
    late = Echo.remote().echo.remote(0)
    keeper, bound = Keeper.remote(box), cast("Any", actorlib.remote(Bound))
    both = bound.remote(late, items, d=0)
    items.append(2)
    box.append(100)

    assert (await api.get(keeper.kept.remote())).items == [1, 2]
    assert (await api.get(both.made.remote()))[:2] == (0, [1])


@pytest.mark.parametrize("value", [[1, [2]], ["flat"]])
@pytest.mark.usefixtures("runtime")
async def test_result_when_changed_then_the_actor_still_has_its_own(
    api: Api, value: list[Any]
) -> None:
    keeper = Keeper.remote()
    await api.get(keeper.keep.remote(value))
    result = await api.get(keeper.kept.remote())
    result.append("changed")

    assert await api.get(keeper.kept.remote()) == value
    assert result is not value


@KINDS
async def test_instance_when_it_travels_then_another_of_its_class_arrives(
    api: Api, callee: Callee
) -> None:
    class Local(Box):
        def total(self) -> int:
            return sum(self.items)

    box = Local([1, 2])
    back = await api.get(callee.first(box))

    assert type(back) is Local
    assert back is not box
    assert back.total() == 3
    assert await api.get(callee.run(Local.total, box)) == 3
