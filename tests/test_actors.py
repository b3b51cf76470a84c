from __future__ import annotations

import abc
import asyncio
import dataclasses
import functools
import json
import os
import random
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import pytest
from helpers.actors import AsyncCaller, Caller, Counter, Echo, Keeper, living, running

import actorlib
from actorlib.exceptions import ActorDiedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib import Runtime

pytestmark = [pytest.mark.memory, pytest.mark.asyncio(loop_scope="module")]

# Without the runtime that the others share, and without its loop.
alone = pytest.mark.asyncio(loop_scope="function")

T = TypeVar("T")
ROOT = Path(actorlib.__file__).parents[1]


# Handles and state.


async def test_a_handle_comes_before_the_process_and_state_stays(
    runtime: Runtime,
) -> None:
    first, second = Counter.remote(), Counter.remote(10)
    assert [actor.pid for actor in living(runtime)] == [0, 0]
    assert await first.add.remote() == 1
    assert await first.add.remote() == 2
    assert await second.add.remote() == 11


@alone
async def test_creating_without_a_runtime_raises_at_once() -> None:
    @actorlib.remote
    class Early:
        pass

    with pytest.raises(RuntimeError, match=r"actorlib\.init\(\)"):
        Early.remote()


@alone
@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are newer")
async def test_loop_when_its_tasks_are_eager_then_actors_are_as_elsewhere() -> None:
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    async with running():
        echo = Echo.remote()
        assert await echo.echo.remote(1) == 1
        refs = [echo.echo.remote(number) for number in range(100)]
        assert await asyncio.gather(*refs) == list(range(100))
        failed = echo.fail.remote(ValueError("bad"))
        await asyncio.wait([failed])
        never = Keeper.remote(failed)
        with pytest.raises(ActorDiedError):
            await never
        await actorlib.kill(echo)
        with pytest.raises(ActorDiedError):
            await echo.echo.remote(1)


@alone
async def test_a_class_decorated_before_the_runtime_serves_several() -> None:
    @actorlib.remote
    class Early:
        def answer(self) -> int:
            return 42

    for _ in range(2):
        async with running():
            assert await Early.remote().answer.remote() == 42
    with pytest.raises(RuntimeError, match=r"actorlib\.init\(\)"):
        Early.remote()


@alone
async def test_calling_an_actor_class_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"directly.*Counter\.remote\("):
        Counter()


@pytest.mark.usefixtures("runtime")
async def test_calling_a_method_locally_says_what_to_write() -> None:
    counter = Counter.remote()
    with pytest.raises(TypeError, match=r"add\(\).*\.remote\("):
        counter.add(1)
    with pytest.raises(TypeError):
        counter()
    assert await counter.add.remote() == 1


@pytest.mark.usefixtures("runtime")
async def test_no_constructor_and_no_result_are_fine() -> None:
    @actorlib.remote
    class Bare:
        def nothing(self) -> None:
            pass

    bare = Bare.remote()
    assert await bare.nothing.remote() is None
    assert await bare is bare
    with pytest.raises(TypeError, match=r"Bare\(\) takes (no|0)"):
        Bare.remote(1)


@pytest.mark.usefixtures("runtime")
async def test_a_class_without_any_method_becomes_ready() -> None:
    @actorlib.remote
    class Empty:
        pass

    empty = Empty.remote()
    assert await empty is empty


# Arguments.


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


FITTING = [
    ((1, 2), {"d": 4}),
    ((1,), {"b": 2, "d": 4}),
    ((1, 2, 30), {"d": 4}),
    ((1, 2, 30, 31, 32), {"d": 4, "e": 5, "f": 6}),
    ((1,), {"d": 4, "c": 30, "b": 2}),
    ((1,), {"b": 2, "d": 4, "a": 10}),
    ((1, 2), {"d": 4, "args": 5, "kwargs": 6, "cls": 7}),
]
UNFITTING = [
    ((), {}),
    ((1, 2), {}),
    ((1,), {"d": 4}),
    ((1, 2), {"b": 3, "d": 4}),
    ((), {"a": 1, "b": 2, "d": 4}),
    ((1, 2, 3), {"c": 4, "d": 4}),
]


@pytest.mark.usefixtures("runtime")
async def test_arguments_bind_as_in_a_local_call() -> None:
    bound = actorlib.remote(Bound).remote(1, 2, d=4)
    local = Bound(1, 2, d=4)
    cases = [("call", args, kwargs) for args, kwargs in FITTING]
    cases += [
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
    for name, args, kwargs in cases:
        expected = getattr(local, name)(*args, **kwargs)
        assert await getattr(bound, name).remote(*args, **kwargs) == expected


@pytest.mark.usefixtures("runtime")
async def test_arguments_that_do_not_bind_are_refused_at_the_call() -> None:
    actor_class = actorlib.remote(Bound)
    bound = actor_class.remote(1, 2, d=4)
    local = Bound(1, 2, d=4)
    cases = [("call", args, kwargs) for args, kwargs in UNFITTING]
    cases += [
        ("plain", (), {}),
        ("plain", (1, 2, 3), {}),
        ("plain", (1,), {"a": 1}),
        ("plain", (1,), {"z": 1}),
        ("named", (1,), {"a": 1}),
        ("named", (), {"b": 1}),
        ("placed", (), {"a": 1}),
        ("placed", (1,), {"b": 1}),
    ]
    for name, args, kwargs in cases:
        with pytest.raises(TypeError):
            getattr(local, name)(*args, **kwargs)
        with pytest.raises(TypeError, match=rf"^{name}\(\) "):
            getattr(bound, name).remote(*args, **kwargs)
    for args, kwargs in UNFITTING:
        with pytest.raises(TypeError, match=r"^Bound\(\) "):
            actor_class.remote(*args, **kwargs)
    assert await bound.plain.remote(1) == (1, 2)


@pytest.mark.parametrize(("args", "kwargs"), FITTING)
@pytest.mark.usefixtures("runtime")
async def test_constructor_arguments_bind_as_in_a_local_call(
    args: Any, kwargs: Any
) -> None:
    made = await actorlib.remote(Bound).remote(*args, **kwargs).made.remote()
    assert made == Bound(*args, **kwargs).made()


@pytest.mark.usefixtures("runtime")
async def test_a_keyword_may_be_called_self() -> None:
    @actorlib.remote
    class Words:
        def __init__(self, /, **words: int) -> None:
            self._words = words

        def words(self, /, **more: int) -> dict[str, int]:
            return {**self._words, **more}

    words = Words.remote(self=1)
    assert await words.words.remote(a=2) == {"self": 1, "a": 2}
    assert await words.words.remote(self=3) == {"self": 3}


# What a handle shows.


@pytest.mark.usefixtures("runtime")
async def test_what_is_no_method_is_no_attribute() -> None:
    @actorlib.remote
    class Things:
        shared = 1

        def __init__(self) -> None:
            self.own = 2

        @property
        def computed(self) -> int:
            return 3

        class Inner:
            pass

        def method(self) -> int:
            return self.own + self.computed

    things = Things.remote()
    for name in ("shared", "own", "computed", "Inner", "nope", "__len__"):
        assert not hasattr(things, name)
    with pytest.raises(AttributeError, match=r"Things.*'nope'"):
        _ = things.nope
    with pytest.raises(AttributeError, match="did you mean 'method'"):
        _ = things.methode
    assert await things.method.remote() == 5


@pytest.mark.usefixtures("runtime")
async def test_dir_lists_methods_and_no_internals() -> None:
    counter = Counter.remote()
    own = ["add", "double", "limit", "make"]
    assert [name for name in dir(counter) if not name.startswith("_")] == own
    public = [name for name in dir(Counter) if not name.startswith("_")]
    assert public == sorted([*own, "options", "remote", "spawn"])
    for name in dir(counter):
        assert not name.startswith("_Actor")


async def test_repr_shows_the_class_and_the_id(runtime: Runtime) -> None:
    counter = Counter.remote()
    (actor,) = living(runtime)
    assert repr(counter) == f"Actor(Counter, {actor.actor_id})"
    assert re.fullmatch("[0-9a-f]+", actor.actor_id)
    assert repr(counter.add) == "<method Counter.add>"
    assert repr(Counter) == "ActorClass(Counter)"


# Handles on their way.


@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller])
@pytest.mark.usefixtures("runtime")
async def test_a_handle_that_was_passed_can_be_called(
    caller_class: Any,
) -> None:
    counter = Counter.remote()
    caller = caller_class.remote()
    assert await counter.add.remote() == 1
    assert await caller.call.remote(counter, "add", 5) == 6
    assert await counter.add.remote() == 7


@pytest.mark.usefixtures("runtime")
async def test_handles_travel_inside_values_both_ways() -> None:
    @actorlib.remote
    class Sums:
        def of_list(self, handles: list[Any]) -> int:
            return sum(actorlib.get([handle.add.remote() for handle in handles]))

        def of_dict(self, handles: dict[str, Any]) -> dict[str, int]:
            return {
                name: actorlib.get(handle.add.remote())
                for name, handle in handles.items()
            }

        def of_deep(self, value: Any, *, key: str) -> int:
            return actorlib.get(value[key][0][0].add.remote())

    sums, one, two = Sums.remote(), Counter.remote(), Counter.remote(10)
    assert await sums.of_list.remote([one, two, one]) == 1 + 11 + 2
    assert await sums.of_dict.remote({"a": one, "b": two}) == {"a": 3, "b": 12}
    assert await sums.of_deep.remote({"k": [(two,)]}, key="k") == 13


@pytest.mark.usefixtures("runtime")
async def test_handles_that_come_back_are_the_same_actor() -> None:
    echo, counter = Echo.remote(), Counter.remote()
    other = Counter.remote()
    bare = await echo.echo.remote(counter)
    (listed,) = await echo.echo.remote([counter])
    named = (await echo.echo.remote({"h": (counter, 1)}))["h"][0]
    (key,) = await echo.echo.remote({counter: {counter}})
    for back in (bare, listed, named, key):
        assert back == counter
        assert hash(back) == hash(counter)
        assert repr(back) == repr(counter)
        assert back != other
        assert back != "counter"
        await back.add.remote()
    assert await counter.add.remote() == 5
    assert len({bare, listed, named, key, counter, other}) == 2


@pytest.mark.usefixtures("runtime")
async def test_a_handle_may_be_given_to_a_constructor() -> None:
    counter = Counter.remote()
    keeper = Keeper.remote([counter])
    (kept,) = await keeper.kept.remote()
    assert kept == counter
    assert await kept.add.remote() == 1


@pytest.mark.usefixtures("runtime")
async def test_a_handle_of_a_child_is_returned() -> None:
    caller, async_caller = Caller.remote(), AsyncCaller.remote()
    first = await caller.make.remote(Counter, 5)
    second = await async_caller.make.remote(Counter, 50)
    assert await first.add.remote() == 6
    assert await second.add.remote() == 51
    assert first != second


@pytest.mark.usefixtures("runtime")
async def test_a_handle_of_an_actor_that_is_not_ready_is_passed() -> None:
    caller, echo = Caller.remote(), Echo.remote()
    counter = Counter.remote()
    assert await caller.call.remote(counter, "add") == 1
    back = await echo.echo.remote(Counter.remote(3))
    assert await back.add.remote() == 4


@pytest.mark.parametrize("is_async", [False, True])
async def test_actors_make_actors_in_constructors_three_levels_deep(
    runtime: Runtime, *, is_async: bool
) -> None:
    @actorlib.remote
    class Leaf:
        def __init__(self, depth: int) -> None:
            self._path = [depth]

        def path(self) -> list[int]:
            return self._path

    @actorlib.remote
    class Inner:
        def __init__(self, depth: int) -> None:
            made = Inner if depth < 2 else Leaf
            self._child = made.remote(depth + 1)
            # The constructor itself calls the child, and the child its own.
            self._path = [depth, *actorlib.get(self._child.path.remote())]

        def path(self) -> list[int]:
            return self._path

        if is_async:

            async def again(self) -> list[int]:
                return [self._path[0], *await self._child.path.remote()]

        else:

            def again(self) -> list[int]:
                return [self._path[0], *actorlib.get(self._child.path.remote())]

    top = Inner.remote(0)
    assert await top.path.remote() == [0, 1, 2, 3]
    assert await top.again.remote() == [0, 1, 2, 3]
    assert len(living(runtime)) == 4


@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller])
@pytest.mark.usefixtures("runtime")
async def test_actors_make_and_call_actors_in_methods_three_levels_deep(
    caller_class: Any,
) -> None:
    top = caller_class.remote()
    middle = await top.make.remote(caller_class)
    low = await top.call.remote(middle, "make", Counter, 7)
    assert await top.call.remote(middle, "call", low, "add") == 8


# The class itself.


@pytest.mark.usefixtures("runtime")
async def test_the_decorated_name_gives_class_attributes_inside() -> None:
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

        def ask(self) -> Any:
            return Self.limit, Self.inherited, Self.twice(4), Self.named()

        def more(self) -> Any:
            return Self.remote().ask.remote()

        def child(self) -> Any:
            return actorlib.get(self.more())

    actor = Self.remote()
    expected = (3, "base", 8, "Self")
    assert await actor.ask.remote() == expected
    assert await actor.child.remote() == expected
    assert (Self.limit, Self.inherited, Self.twice(4), Self.named()) == expected
    assert await Counter.remote().limit.remote() == Counter.LIMIT


@pytest.mark.usefixtures("runtime")
async def test_a_factory_on_the_decorated_class_gives_a_local_instance() -> None:
    local = Counter.make(5)
    assert not isinstance(local, actorlib.ActorHandle)
    assert local.add(1) == 6


async def test_remote_as_a_function_leaves_the_class_a_class(
    runtime: Runtime,
) -> None:
    class Local:
        def __init__(self, start: int) -> None:
            self.start = start

        def value(self) -> int:
            return self.start

    bare = actorlib.remote(Local)
    with_options = actorlib.remote(num_cpus=1)(Local)
    assert await bare.remote(3).value.remote() == 3
    handle = with_options.remote(4)
    assert await handle.value.remote() == 4
    assert runtime.available_resources()["CPU"] == 3
    assert Local(5).value() == 5
    assert isinstance(Local(5), Local)


@pytest.mark.usefixtures("runtime")
async def test_an_importable_class_may_stay_undecorated() -> None:
    made = actorlib.remote(Bound).remote(1, 2, d=3)
    assert await made.plain.remote(1) == (1, 2)


@pytest.mark.usefixtures("runtime")
async def test_instances_go_by_value() -> None:
    class Box:
        def __init__(self, items: list[int]) -> None:
            self.items = items

        def total(self) -> int:
            return sum(self.items)

    box = Box([1, 2])
    keeper = Keeper.remote(box)
    box.items.append(100)
    assert (await keeper.kept.remote()).items == [1, 2]
    sent = keeper.keep.remote(box)
    box.items.append(1000)
    await sent
    back = await keeper.kept.remote()
    assert type(back) is Box
    assert back is not box
    assert back.total() == 103


@pytest.mark.usefixtures("runtime")
async def test_a_change_behind_a_slow_argument_is_not_seen() -> None:
    slow, echo = Echo.remote(), Echo.remote()
    items = [1]
    value = slow.echo.remote(0)
    pair = echo.both.remote(value, items)
    behind = echo.echo.remote(items)
    keeper = Keeper.remote(value)
    keeper_of_both = actorlib.remote(Bound).remote(value, items, d=0)
    items.append(2)
    assert await pair == ((0, [1]), {})
    assert await behind == [1]
    assert await keeper.kept.remote() == 0
    assert (await keeper_of_both.made.remote())[1] == [1]


async def test_each_actor_has_a_process_of_its_own(runtime: Runtime) -> None:
    echoes = [Echo.remote() for _ in range(5)]
    pids = await asyncio.gather(*(echo.pid.remote() for echo in echoes))
    assert len({*pids, os.getpid()}) == 6
    assert [actor.pid for actor in living(runtime)] == pids


@pytest.mark.usefixtures("runtime")
async def test_a_ref_by_itself_arrives_as_its_value() -> None:
    echo = Echo.remote()
    ref = echo.echo.remote([1, 2])
    assert await echo.echo.remote(ref) == [1, 2]
    assert await echo.both.remote(0, ref, key=ref) == ((0, [1, 2]), {"key": [1, 2]})
    assert await Keeper.remote(ref).kept.remote() == [1, 2]
    assert await Keeper.remote(kept=echo.echo.remote("x")).kept.remote() == "x"
    # One that is done already is nothing else.
    await ref
    assert await echo.echo.remote(ref) == [1, 2]


@pytest.mark.usefixtures("runtime")
async def test_a_ref_and_a_handle_are_arguments_together() -> None:
    echo, counter = Echo.remote(), Counter.remote()

    class Taking:
        def __init__(self, *args: Any) -> None:
            self._args = args

        def add(self) -> Any:
            value, handle = self._args
            return value, actorlib.get(handle.add.remote())

        def add_to(self, value: int, handle: Any) -> Any:
            return value, actorlib.get(handle.add.remote())

    taking_class = actorlib.remote(Taking)
    taking = taking_class.remote(echo.echo.remote(1), counter)
    assert await taking.add.remote() == (1, 1)
    assert await taking.add_to.remote(echo.echo.remote(2), counter) == (2, 2)
    # The value of the ref is a handle.
    other = taking_class.remote(3, echo.echo.remote(counter))
    assert await other.add.remote() == (3, 3)
    assert await taking.add_to.remote(4, echo.echo.remote(counter)) == (4, 4)

    def make(echo: Any, counter: Any) -> Any:
        return taking_class.remote(echo.echo.remote(5), counter)

    maker = Caller.remote()
    made = await maker.run.remote(make, echo, counter)
    assert await made.add.remote() == (5, 5)
    del maker


async def test_ids_stay_unique_under_equal_seeds(runtime: Runtime) -> None:
    handles = []
    for _ in range(4):
        random.seed(1)
        handles.append(Caller.remote())

    def make() -> Any:
        random.seed(1)
        return Echo.remote()

    handles += [await handle.run.remote(make) for handle in handles[:]]
    ids = {actor.actor_id for actor in living(runtime)}
    assert len(ids) == len(handles) == 8


@pytest.mark.usefixtures("runtime")
async def test_actors_do_not_draw_the_same_random_numbers() -> None:
    callers = [Caller.remote() for _ in range(3)]
    drawn = await asyncio.gather(
        *(c.run.remote(lambda: random.random()) for c in callers)  # noqa: PLW0108  # by name
    )
    assert len(set(drawn)) == 3


@pytest.mark.usefixtures("runtime")
async def test_a_method_may_be_stored_passed_and_called() -> None:
    caller, counter = Caller.remote(), Counter.remote()
    add = counter.add
    assert await add.remote() == 1
    assert await caller.run.remote(lambda m: actorlib.get(m.remote(10)), add) == 11
    back = await Echo.remote().echo.remote([add])
    assert await back[0].remote() == 12


# Kinds of classes.


@pytest.mark.usefixtures("runtime")
async def test_a_class_with_slots() -> None:
    @actorlib.remote
    class Slotted:
        __slots__ = ("value",)

        def __init__(self) -> None:
            self.value = 1

        def get(self) -> int:
            self.value += 1
            return self.value

    slotted = Slotted.remote()
    assert not hasattr(slotted, "value")
    assert await slotted.get.remote() == 2


@pytest.mark.usefixtures("runtime")
async def test_a_dataclass() -> None:
    @actorlib.remote
    @dataclasses.dataclass
    class Point:
        x: int
        y: int = 2
        tags: list[str] = dataclasses.field(default_factory=list)

        def total(self) -> int:
            return self.x + self.y + len(self.tags)

    assert await Point.remote(1).total.remote() == 3
    assert await Point.remote(1, y=5, tags=["a"]).total.remote() == 7
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point.remote()


@pytest.mark.usefixtures("runtime")
async def test_a_class_with_bases() -> None:
    class Root(abc.ABC):
        def __init__(self, name: str) -> None:
            self.name = name

        @abc.abstractmethod
        def kind(self) -> str: ...

        def hello(self) -> str:
            return f"{self.kind()} {self.name}"

    class Mixin:
        def shout(self) -> str:
            return self.hello().upper()  # type: ignore[attr-defined]

        def hidden(self) -> int:
            return 1

    @actorlib.remote
    class Leaf(Mixin, Root):
        hidden = None

        def kind(self) -> str:
            return "leaf"

        def hello(self) -> str:
            return super().hello() + "!"

    leaf = Leaf.remote("a")
    assert await leaf.hello.remote() == "leaf a!"
    assert await leaf.shout.remote() == "LEAF A!"
    assert not hasattr(leaf, "hidden")


@pytest.mark.usefixtures("runtime")
async def test_a_class_that_is_abstract_fails_as_it_does_locally() -> None:
    @actorlib.remote
    class Abstract(abc.ABC):
        @abc.abstractmethod
        def missing(self) -> None: ...

    with pytest.raises(actorlib.exceptions.ActorDiedError, match="abstract"):
        await Abstract.remote()


@alone
async def test_an_actor_class_as_a_base_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Counter.*cannot be inherited"):

        class More(Counter):  # type: ignore[misc, valid-type]
            pass


@pytest.mark.usefixtures("runtime")
async def test_static_and_class_methods() -> None:
    @actorlib.remote
    class Mixed:
        @staticmethod
        def static(a: int, b: int = 2) -> Any:
            return a, b

        @classmethod
        def named(cls, a: int) -> Any:
            return cls.__name__, a

        @staticmethod
        async def static_async(a: int) -> int:
            await asyncio.sleep(0)
            return a

        @classmethod
        async def named_async(cls) -> str:
            await asyncio.sleep(0)
            return cls.__name__

    mixed = Mixed.remote()
    assert await mixed.static.remote(1) == (1, 2)
    assert await mixed.static.remote(b=1, a=3) == (3, 1)
    assert await mixed.named.remote(5) == ("Mixed", 5)
    assert await mixed.static_async.remote(7) == 7
    assert await mixed.named_async.remote() == "Mixed"
    with pytest.raises(TypeError):
        mixed.static.remote()


@pytest.mark.usefixtures("runtime")
async def test_dunder_methods_can_be_called_by_name() -> None:
    @actorlib.remote
    class Special:
        def __call__(self, x: int) -> int:
            return x + 1

        def __len__(self) -> int:
            return 3

        def __getitem__(self, key: str) -> str:
            return key * 2

    special = Special.remote()
    assert await special.__call__.remote(1) == 2
    assert await special.__len__.remote() == 3
    assert await special.__getitem__.remote("a") == "aa"


@pytest.mark.usefixtures("runtime")
async def test_methods_named_like_a_handle_s_own_words() -> None:
    @actorlib.remote
    class Words:
        def remote(self) -> str:
            return "remote"

        def options(self) -> str:
            return "options"

        def kill(self) -> str:
            return "kill"

        def call(self, method: str, args: int, kwargs: int) -> Any:
            return method, args, kwargs

    words = Words.remote()
    for name in ("remote", "options", "kill"):
        assert await getattr(words, name).remote() == name
    assert await words.call.remote(method="a", args=1, kwargs=2) == ("a", 1, 2)


@pytest.mark.usefixtures("runtime")
async def test_methods_made_by_decorators_and_assignments() -> None:
    def doubled(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> int:
            return 2 * function(*args, **kwargs)

        return wrapper

    @actorlib.remote
    class Made:
        @doubled
        def wrapped(self, x: int) -> int:
            return x

        def power(self, base: int, exponent: int) -> int:
            return base**exponent

        square = functools.partialmethod(power, exponent=2)
        alias = power
        from_lambda = lambda _self, x: x - 1  # noqa: E731

    made = Made.remote()
    assert await made.wrapped.remote(4) == 8
    assert await made.square.remote(4) == 16
    assert await made.alias.remote(2, 3) == 8
    assert await made.from_lambda.remote(4) == 3
    with pytest.raises(TypeError):
        made.wrapped.remote()


@pytest.mark.usefixtures("runtime")
async def test_callables_that_are_no_functions_take_no_self() -> None:
    class Adder:
        def __call__(self, x: int, y: int = 1) -> int:
            return x + y

    @actorlib.remote
    class Holding:
        add = Adder()
        length = len
        parse = staticmethod(int)

    holding = Holding.remote()
    assert await holding.add.remote(1) == 2
    assert await holding.add.remote(1, y=5) == 6
    assert await holding.length.remote([1, 2]) == 2
    assert await holding.parse.remote("12") == 12


@pytest.mark.usefixtures("runtime")
async def test_a_generic_class() -> None:
    @actorlib.remote
    class Typed(Generic[T]):
        def __init__(self, value: T) -> None:
            self._value = value

        def value(self) -> T:
            return self._value

    assert await Typed.remote("x").value.remote() == "x"


@pytest.mark.usefixtures("runtime")
async def test_a_class_derived_from_a_builtin() -> None:
    @actorlib.remote
    class Store(dict[str, int]):
        def total(self) -> int:
            return sum(self.values())

    @actorlib.remote
    class Pair(NamedTuple):
        left: int
        right: int = 2

        def total(self) -> int:
            return self.left + self.right

    store = Store.remote({"a": 1}, b=2)
    await store.update.remote(c=3)
    await store.update.remote({"d": 4})
    await store.__setitem__.remote("e", 5)
    assert await store.get.remote("c") == 3
    assert await store.get.remote("z", 0) == 0
    assert await store.pop.remote("a") == 1
    assert await store.total.remote() == 14
    assert await store.copy.remote() == {"b": 2, "c": 3, "d": 4, "e": 5}
    assert await Pair.remote(1).total.remote() == 3
    assert await Pair.remote(1, right=5).total.remote() == 6


@pytest.mark.usefixtures("runtime")
async def test_a_class_made_by_new_or_a_metaclass() -> None:
    class Meta(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            made = super().__call__(*args, **kwargs)
            made.extra = "meta"
            return made

    @actorlib.remote
    class WithMeta(metaclass=Meta):
        extra: str

        def get(self) -> str:
            return self.extra

    @actorlib.remote
    class WithNew:
        value: int

        def __new__(cls, value: int) -> Any:
            self = super().__new__(cls)
            self.value = value
            return self

        def get(self) -> int:
            return self.value

    assert await WithMeta.remote().get.remote() == "meta"
    assert await WithNew.remote(3).get.remote() == 3
    with pytest.raises(TypeError):
        WithNew.remote()


@pytest.mark.usefixtures("runtime")
async def test_two_classes_of_one_name_keep_their_own_methods() -> None:
    def made(answer: int) -> Any:
        @actorlib.remote
        class Same:
            def answer(self) -> int:
                return answer

        return Same

    first, second = made(1), made(2)
    refs = [cls.remote().answer.remote() for cls in (first, second, first)]
    assert await asyncio.gather(*refs) == [1, 2, 1]


@pytest.mark.usefixtures("runtime")
async def test_a_local_class_sees_the_globals_and_closures_it_uses() -> None:
    factor = 3

    def scale(x: int) -> int:
        return factor * x

    @actorlib.remote
    class Scaling:
        def scale(self, x: int) -> int:
            return scale(x)

        def root(self) -> str:
            return str(ROOT)

    scaling = Scaling.remote()
    assert await scaling.scale.remote(2) == 6
    assert await scaling.root.remote() == str(ROOT)


@pytest.mark.usefixtures("runtime")
async def test_private_and_mangled_methods_are_methods() -> None:
    @actorlib.remote
    class Private:
        def _one(self) -> int:
            return self.__two() - 1

        def __two(self) -> int:
            return 2

    private = Private.remote()
    assert await private._one.remote() == 1
    assert await private._Private__two.remote() == 2


# Where a class is defined.


SCRIPT = """
import asyncio
import json
import os

import actorlib

FACTOR = 3


class Base:
    unit = "m"

    def scaled(self, x):
        return FACTOR * x


class Item:
    def __init__(self, value):
        self.value = value


@actorlib.remote
class Main(Base):
    made = 0

    def __init__(self, depth=0):
        self.depth = depth

    def ask(self):
        return Main.unit, self.scaled(2), self.depth, type(self).__module__

    def child(self):
        return actorlib.get(Main.remote(self.depth + 1).ask.remote())

    def item(self, item):
        return Item(item.value + 1), isinstance(item, Item)

    def pid(self):
        return os.getpid()


async def main():
    start_method = os.environ["START_METHOD"]
    async with actorlib.init(num_cpus=1, num_gpus=0, start_method=start_method):
        actor = Main.remote()
        item, known = await actor.item.remote(Item(1))
        print(json.dumps([
            await actor.ask.remote(),
            await actor.child.remote(),
            item.value,
            isinstance(item, Item),
            known,
            await actor.pid.remote() != os.getpid(),
        ]))


asyncio.run(main())
"""


@alone
@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["template", "spawn"])
@pytest.mark.parametrize("form", ["script", "module", "command", "stdin"])
async def test_a_class_of_the_program_itself(
    tmp_path: Path, start_method: str, form: str
) -> None:
    (tmp_path / "program.py").write_text(SCRIPT, encoding="utf-8")
    words = {
        "script": ["program.py"],
        "module": ["-m", "program"],
        "command": ["-c", SCRIPT],
        "stdin": ["-"],
    }
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, *words[form]],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "START_METHOD": start_method,
        },
        cwd=tmp_path,
        input=SCRIPT if form == "stdin" else None,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.stderr == ""
    assert json.loads(ran.stdout) == [
        ["m", 6, 0, "__main__"],
        ["m", 6, 1, "__main__"],
        2,
        True,
        True,
        True,
    ]


MODULE = """
import actorlib

LOADED = []


@actorlib.remote
class Found:
    limit = 7

    def ask(self):
        LOADED.append(1)
        return Found.limit, __name__, len(LOADED)

    def child(self):
        return actorlib.get(Found.remote().ask.remote())

    class Nested:
        pass


class Outer:
    @actorlib.remote
    class Inner:
        def ask(self):
            return Outer.__name__


Other = Found.options(num_cpus=1)
"""


@pytest.mark.process
@alone
async def test_a_class_of_a_module_is_found_where_the_owner_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acting_module.py").write_text(textwrap.dedent(MODULE), "utf-8")
    async with running() as runtime:
        # After the start, so it is the owner's path now that counts.
        monkeypatch.syspath_prepend(tmp_path)
        import acting_module  # type: ignore[import-not-found]  # noqa: PLC0415

        monkeypatch.delitem(sys.modules, "acting_module")
        monkeypatch.setitem(sys.modules, "acting_module", acting_module)
        found = acting_module.Found.remote()
        assert await found.ask.remote() == (7, "acting_module", 1)
        assert await found.child.remote() == (7, "acting_module", 1)
        assert await acting_module.Outer.Inner.remote().ask.remote() == "Outer"
        other = acting_module.Other.remote()
        assert await other.ask.remote() == (7, "acting_module", 1)
        assert runtime.available_resources()["CPU"] == 3
    assert acting_module.LOADED == []


async def test_an_actor_class_goes_as_an_argument(runtime: Runtime) -> None:
    @actorlib.remote(num_cpus=1)
    class Local:
        def __init__(self, x: int) -> None:
            self._x = x

        def x(self) -> int:
            return self._x

    caller = Caller.remote()
    plain = await caller.make.remote(Local, 1)
    more = await caller.make.remote(Local.options(num_cpus=2), 2)
    assert await asyncio.gather(plain.x.remote(), more.x.remote()) == [1, 2]
    assert runtime.available_resources()["CPU"] == 1
    back = await Echo.remote().echo.remote(Counter.options(num_cpus=1))
    assert await back.remote(4).add.remote() == 5


@pytest.mark.process
@pytest.mark.usefixtures("runtime")
async def test_breakpoint_when_in_another_process_then_it_says_where_it_can_be() -> (
    None
):
    @actorlib.remote
    def stops() -> None:
        breakpoint()

    caller = Caller.remote()

    for stopped in (caller.run.remote(breakpoint), stops.remote()):
        with pytest.raises(RuntimeError, match=r'no terminal.*engine="inline"'):
            await stopped


@pytest.mark.process
@pytest.mark.usefixtures("runtime")
async def test_breakpoint_when_another_debugger_is_named_then_that_is_asked() -> None:
    env: Any = {"env_vars": {"PYTHONBREAKPOINT": "os.getpid"}}
    caller = Caller.options(runtime_env=env).remote()

    pid = await caller.run.remote(os.getpid)

    assert await caller.run.remote(breakpoint) == pid
