"""Objects: refs inside of values, values kept by put(), and results in parts."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import actorlib
from actorlib._core.engine import find_engine
from actorlib._core.object_ref import kept_value
from actorlib._wire.codec import MAX_ITEMS
from actorlib.exceptions import ObjectLostError, TaskCancelledError, TaskError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from actorlib import ActorHandle, ObjectRef, Runtime
    from actorlib._owner.actor_table import ActorTable
    from actorlib._owner.engine import LocalEngine

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]

SIZES = pytest.mark.parametrize("size", [3, 200_000], ids=["small", "large"])


class Holder:
    """Keeps what it is given, and makes what others are given."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def keep(self, value: Any) -> None:
        self.kept.append(value)

    def kept_sums(self) -> list[float]:
        return [float(actorlib.get(ref).sum()) for (ref,) in self.kept]

    def forget(self) -> None:
        self.kept.clear()
        gc.collect()

    def sums(self, refs: list[ObjectRef[Any]]) -> list[float]:
        return [float(value.sum()) for value in actorlib.get(refs)]

    def total(self, value: Any) -> float:
        return float(value.sum())

    def make(self, size: int) -> Any:
        return np.ones(size)

    def put(self, size: int) -> list[ObjectRef[Any]]:
        return [actorlib.put(np.ones(size)), actorlib.put("text")]

    def ask(self, other: ActorHandle[Any], size: int) -> dict[str, ObjectRef[Any]]:
        return {"ref": other.make.remote(size)}

    def ask_to_fail(self, other: ActorHandle[Any]) -> list[ObjectRef[Any]]:
        return [other.fail.remote()]

    def pass_on(self, refs: list[ObjectRef[Any]], other: ActorHandle[Any]) -> Any:
        return other.sums.remote(refs).get()

    def fail(self) -> None:
        raise ValueError("it failed")

    def plus(self, value: Any) -> Any:
        return value + 1

    def several(self, count: int) -> tuple[int, ...]:
        return tuple(range(count))

    def pieces(self, count: int) -> Iterator[int]:
        yield from range(count)

    def pieces_until_it_fails(self) -> Iterator[int]:
        yield 0
        raise LookupError("after one")

    def ask_and_wait(self, other: ActorHandle[Any]) -> list[ObjectRef[Any]]:
        return [other.wait.remote()]

    def ping(self) -> None: ...


class Looped:
    """The same on an event loop."""

    async def sums(self, refs: list[ObjectRef[Any]]) -> list[float]:
        return [float((await ref).sum()) for ref in refs]

    async def ask(self, other: ActorHandle[Any], size: int) -> dict[str, Any]:
        return {"ref": other.make.remote(size)}

    async def pieces(self, count: int) -> AsyncIterator[int]:
        for piece in range(count):
            yield piece

    async def pieces_until_it_fails(self) -> AsyncIterator[int]:
        yield 0
        raise LookupError("after one")

    async def wait(self) -> None:
        await asyncio.Event().wait()


def holder() -> Any:
    return actorlib.remote(Holder).remote()


def looped() -> Any:
    return actorlib.remote(Looped).remote()


def table() -> ActorTable:
    """The actors of the runtime, and what it keeps."""
    return cast("LocalEngine", find_engine()).actor_table


async def settled(*actors: Any) -> tuple[int, int]:
    """How many objects and blocks are kept, when what was given back has come."""
    gc.collect()
    for _ in range(2):  # what one gives back may be another's
        await asyncio.gather(*(actor.ping.remote() for actor in actors))
    objects, store = table().objects, table().object_store
    return len(objects), sum(store._held.values())


# put.


@SIZES
async def test_a_put_value_is_what_it_was(size: int) -> None:
    value = np.zeros(size)
    ref = actorlib.put(value)

    value[:] = 1

    assert (await ref).sum() == 0
    assert await holder().total.remote(ref) == 0


async def test_a_put_value_is_encoded_once() -> None:
    class Told:
        count = 0

        def __reduce__(self) -> tuple[Any, ...]:
            Told.count += 1
            return np.ones, (3,)

    ref = actorlib.put(Told())
    actor = holder()

    assert await asyncio.gather(*(actor.total.remote(ref) for _ in range(5))) == [3] * 5
    assert Told.count == 1


@pytest.mark.process
async def test_put_when_many_are_given_a_large_value_then_it_is_there_once() -> None:
    ref = actorlib.put(np.ones(1_000_000))
    actors = [holder() for _ in range(4)]

    await asyncio.gather(*(actor.keep.remote((ref,)) for actor in actors))

    assert [await actor.kept_sums.remote() for actor in actors] == [[1e6]] * 4
    assert (await settled(*actors))[1] == 1


@pytest.mark.slow
async def test_put_when_a_value_has_more_refs_than_a_tuple_may_then_all_arrive() -> (
    None
):
    actor, many = holder(), MAX_ITEMS + 1

    await actor.keep.remote([actorlib.put(None) for _ in range(many)])

    assert (await settled(actor))[0] == many


async def test_put_when_given_a_ref_then_it_says_what_to_do() -> None:
    with pytest.raises(TypeError, match="it can be sent as it is"):
        actorlib.put(actorlib.put(1))


@SIZES
async def test_put_when_an_actor_does_then_everybody_gets_it(size: int) -> None:
    maker, other, third = holder(), holder(), looped()

    numbers, text = await maker.put.remote(size)

    assert (await numbers).sum() == size
    assert await text == "text"
    assert await other.sums.remote([numbers]) == [size]
    assert await third.sums.remote([numbers]) == [size]


async def test_put_when_by_a_view_that_is_read_only_then_it_stays_as_it_was() -> None:
    value = np.zeros(10_000)
    view = value.view()
    view.flags.writeable = False
    ref = actorlib.put(view)

    value[:] = 1

    assert (await ref).sum() == 0
    assert await holder().total.remote(ref) == 0


# Values that somebody changes.


MUTABLE: dict[str, Callable[[], Any]] = {
    "list": lambda: [0, 1],
    "nested": lambda: [[0], {"a": 1}],
    "table": lambda: {0: 0},
    "long list": lambda: [0] * 20_000,
    "longer list": lambda: [0] * 400_000,
    "bytes": lambda: bytearray(2),
    "large bytes": lambda: bytearray(1_000_000),
    "array": lambda: np.zeros(4),
    "medium array": lambda: np.zeros(10_000),
}
"""Values of each way to be sent, whose first item is 0 or a list of it."""
CHANGED = pytest.mark.parametrize("name", MUTABLE)


def change(value: Any) -> None:
    """Changes the first item of a value, unless it is an array that refuses that."""
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        return
    if isinstance(value[0], list):
        value[0][0] = 1
    else:
        value[0] = 1


def first_of(_: object, value: Any) -> int:
    """The first item of a value as it came, or of one behind a ref."""
    value = actorlib.get(value[0]) if isinstance(value, tuple) else value
    first = value[0]
    return int(first[0] if isinstance(first, list) else first)


async def seen_of(ref: ObjectRef[Any]) -> list[int]:
    """What others see of a ref that was awaited: given by itself, and in a tuple."""
    value = await ref
    change(value)
    assert await ref is value
    made = [holder() for _ in range(2)]
    return [
        await actor.__ray_call__.remote(first_of, given)
        for actor in made
        for given in (ref, (ref,))
    ]


def return_made(_: object, name: str) -> Any:
    return MUTABLE[name]()


class Maker:
    """Makes values, and changes what others have made."""

    def make(self, name: str) -> Any:
        return MUTABLE[name]()

    def pair(self, name: str) -> tuple[Any, Any]:
        return 0, MUTABLE[name]()

    def items(self, name: str) -> Iterator[Any]:
        yield 0
        yield MUTABLE[name]()

    def seen(self, name: str, maker: ActorHandle[Any], other: Any) -> list[int]:
        ref = (
            actorlib.put(MUTABLE[name]()) if maker is None else maker.make.remote(name)
        )
        change(ref.get())
        return [
            other.__ray_call__.remote(first_of, given).get() for given in (ref, (ref,))
        ]


class LoopedMaker(Maker):
    """The same on an event loop."""

    async def seen(  # type: ignore[override]
        self, name: str, maker: ActorHandle[Any], other: Any
    ) -> list[int]:
        ref = (
            actorlib.put(MUTABLE[name]()) if maker is None else maker.make.remote(name)
        )
        change(await ref)
        return [
            await other.__ray_call__.remote(first_of, given) for given in (ref, (ref,))
        ]


@actorlib.remote
def make_in_function(name: str) -> Any:
    return MUTABLE[name]()


@CHANGED
@pytest.mark.parametrize(
    "way", ["method", "function", "put", "part", "yielded", "item"]
)
async def test_value_when_changed_then_others_get_it_as_it_was_made(
    name: str, way: str
) -> None:
    maker = actorlib.remote(Maker).remote()
    if way == "method":
        ref = maker.make.remote(name)
    elif way == "function":
        ref = make_in_function.remote(name)
    elif way == "put":
        ref = actorlib.put(MUTABLE[name]())
    elif way == "part":
        _, ref = maker.pair.options(num_returns=2).remote(name)
    elif way == "yielded":
        _, ref = maker.items.options(num_returns=2).remote(name)
    else:
        _, ref = [item async for item in maker.items.remote(name)]

    assert await seen_of(ref) == [0] * 4


@CHANGED
@pytest.mark.parametrize("puts", [False, True], ids=["calls", "puts"])
@pytest.mark.parametrize("kind", [Maker, LoopedMaker])
async def test_value_when_a_worker_changes_it_then_others_get_it_as_it_was_made(
    name: str,
    kind: type[Maker],
    puts: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    actor, maker = actorlib.remote(kind).remote(), actorlib.remote(Maker).remote()

    seen = await actor.seen.remote(name, None if puts else maker, holder())

    assert seen == [0, 0]


async def test_value_when_changed_then_calls_of_plain_values_stay_whole() -> None:
    actor = actorlib.remote(Echoing).remote()
    values: list[Any] = [[0, "a"], {"a": 1}, [], {}, [[1], (2,)], 3, "text", None]
    refs = [actorlib.put(value) for value in values]

    for ref in refs:
        value = await ref
        if isinstance(value, list | dict):
            value.clear()
    for first, one in zip(refs, values, strict=True):
        for second, other in zip(refs, values, strict=True):
            given = await actor.all.remote(first, 1, second, 0.5, [2])
            assert given == (one, 1, other, 0.5, [2])
    assert await actor.all.remote(*refs * 3) == (*values, *values, *values)


class Echoing:
    """Returns its arguments."""

    def all(self, *values: Any) -> tuple[Any, ...]:
        return values


async def test_handle_when_taken_out_of_a_value_then_it_goes_with_the_ref() -> None:
    keeper, other = holder(), holder()
    target = holder()
    await keeper.keep.remote([target])
    ref = keeper.__ray_call__.remote(lambda self: self.kept.pop())
    del target
    (await ref).clear()
    gc.collect()

    again = await other.__ray_call__.remote(lambda _, value: value, ref)
    value = await again[0].plus.remote(1)
    del again
    await settled(keeper, other)
    ends = [life.ended for life in table()]
    over = [end for end in ends if end.done()]
    del ref
    gc.collect()
    # One of them ends, in its own time.
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)

    assert value == 2
    assert (len(ends), over) == (3, [])
    assert sum(end.done() for end in ends) == 1


async def test_ref_when_its_value_cannot_be_changed_then_it_keeps_nothing() -> None:
    actor = actorlib.remote(Echoing).remote()
    scalars: list[Any] = [None, True, 1, 1 << 100, 0.5, 1j, "text" * 100, b"bytes"]
    refs = [actor.__ray_call__.remote(lambda _, it: it, value) for value in scalars]
    refs += [actorlib.put(value) for value in scalars]

    assert await asyncio.gather(*refs) == scalars * 2
    assert [kept_value(ref) for ref in refs] == [None] * len(refs)


@pytest.mark.process
async def test_ref_when_dropped_then_so_is_what_it_kept() -> None:
    actor = holder()
    before = await settled(actor)
    ref = actor.__ray_call__.remote(return_made, "large bytes")
    (await ref)[0] = 1
    while_it_is_held = await settled(actor)
    del ref

    assert while_it_is_held[1] == before[1] + 1
    assert await settled(actor) == before


# Refs inside of values.


@SIZES
async def test_a_result_goes_on_without_being_asked_for(size: int) -> None:
    first, second = holder(), holder()

    made = first.make.remote(size)
    for actor in (second, first) * 50:
        made = actor.plus.remote(made)

    assert (await made)[0] == 101


@SIZES
@pytest.mark.parametrize("make", [holder, looped], ids=["plain", "async"])
async def test_refs_come_back_inside_of_results(size: int, make: Any) -> None:
    found = await make().ask.remote(holder(), size)

    assert (await found["ref"]).sum() == size


@SIZES
async def test_refs_in_arguments_are_awaited_there(size: int) -> None:
    made = holder().make.remote(size)

    assert await looped().sums.remote([made, made]) == [size, size]
    assert await holder().pass_on.remote([made], holder()) == [size]


@pytest.mark.process
async def test_ref_when_kept_by_an_actor_then_what_it_stands_for_stays() -> None:
    keeper = holder()
    ref = actorlib.put(np.ones(500_000))
    await keeper.keep.remote((ref,))
    del ref
    gc.collect()

    assert await keeper.kept_sums.remote() == [500_000]
    assert await settled(keeper) == (1, 1)
    await keeper.forget.remote()
    assert await settled(keeper) == (0, 0)


async def test_ref_when_its_call_fails_then_whoever_has_it_is_told() -> None:
    (failed,) = await holder().ask_to_fail.remote(holder())

    with pytest.raises(ValueError, match="it failed"):
        await failed


async def test_ref_when_its_maker_dies_first_then_nobody_can_answer() -> None:
    maker = holder()
    (waits,) = await maker.ask_and_wait.remote(looped())

    await actorlib.kill(maker)

    with pytest.raises(ObjectLostError, match="nobody can"):
        await waits


async def test_ref_when_its_maker_dies_behind_it_then_it_stays() -> None:
    maker = holder()
    numbers, _ = await maker.put.remote(300_000)

    await actorlib.kill(maker)

    assert (await numbers).sum() == 300_000
    assert await holder().sums.remote([numbers]) == [300_000]


async def test_whoever_has_a_ref_may_cancel_it() -> None:
    (waits,) = await holder().ask_and_wait.remote(looped())

    actorlib.cancel(waits)

    with pytest.raises(TaskCancelledError):
        await waits


async def test_a_ref_is_one_object_in_a_process() -> None:
    actor = holder()
    ref = actorlib.put(np.ones(2))
    await actor.keep.remote((ref,))

    back = await actor.__ray_call__.remote(lambda self: self.kept[0][0])

    assert back is ref
    assert {ref: 1}[back] == 1
    assert len(bytes.fromhex(ref.hex())) == 16
    assert ref.hex() != actorlib.put(1).hex()


async def test_ref_when_it_belongs_to_another_runtime_then_it_is_refused(
    runtime: Runtime,
) -> None:
    del runtime
    ref = actorlib.put([1])
    ref._object_id = bytes(16)

    with pytest.raises(TypeError, match="belongs to another runtime"):
        holder().keep.remote([ref])


# Parts.


async def test_num_returns_takes_a_tuple_apart_for_one_call() -> None:
    actor = holder()

    first, second = actor.several.options(num_returns=2).remote(2)

    assert (await first, await second) == (0, 1)
    assert await actor.several.remote(2) == (0, 1)
    assert actor.ping.options(num_returns=0).remote() is None
    assert await actor.plus.options(num_returns=1).remote(1) == 2


async def test_all_parts_fail_with_the_call() -> None:
    parts = holder().fail.options(num_returns=3).remote()

    for part in parts:
        with pytest.raises(ValueError, match="it failed"):
            await part


async def test_parts_when_there_are_not_so_many_then_each_says_so() -> None:
    actor = holder()

    for part in actor.several.options(num_returns=2).remote(3):
        with pytest.raises(ValueError, match=r"returned 3 values.*num_returns=2"):
            await part
    for part in actor.plus.options(num_returns=2).remote(1):
        with pytest.raises(TaskError, match="returned a int") as raised:
            await part
        assert isinstance(raised.value, ValueError)


def threaded() -> Any:
    return actorlib.remote(max_concurrency=2)(Holder).remote()


MAKERS = pytest.mark.parametrize("make", [holder, looped, threaded])


@MAKERS
async def test_num_returns_of_a_generator_takes_what_it_yields(
    make: Callable[[], Any],
) -> None:
    actor = make()

    first, second = actor.pieces.options(num_returns=2).remote(2)

    assert (await first, await second) == (0, 1)
    *two, third = actor.pieces.options(num_returns=3).remote(2)
    assert await asyncio.gather(*two) == [0, 1]
    with pytest.raises(ValueError, match=r"yielded 2 values.*num_returns=3"):
        await third
    many = actor.pieces.options(num_returns=2).remote(100_000_000)
    assert await asyncio.gather(*many) == [0, 1]
    assert [await ref async for ref in actor.pieces.remote(2)] == [0, 1]


@MAKERS
async def test_parts_when_a_generator_fails_then_those_that_came_have_values(
    make: Callable[[], Any],
) -> None:
    actor = make()
    first, *rest = actor.pieces_until_it_fails.options(num_returns=3).remote()

    assert await first == 0
    for part in rest:
        with pytest.raises(LookupError, match="after one"):
            await part

    def get_all(_: Any, refs: list[ObjectRef[Any]]) -> list[Any]:
        return actorlib.get(refs)

    parts = actor.pieces.options(num_returns=3).remote(1)
    assert await holder().plus.remote(parts[0]) == 1
    with pytest.raises(TaskError, match="yielded 1 values"):
        await holder().__ray_call__.remote(get_all, parts)


async def test_part_when_cancelled_then_so_is_the_call() -> None:
    first, second = looped().wait.options(num_returns=2).remote()

    actorlib.cancel(first)

    for part in (first, second):
        with pytest.raises(TaskCancelledError):
            await part


async def test_part_when_given_to_others_then_it_arrives() -> None:
    first, second = holder().several.options(num_returns=2).remote(2)

    assert await holder().plus.remote(second) == 2
    assert (
        await holder().__ray_call__.remote(lambda _, refs: refs[0].get(), [first]) == 0
    )


class Lazy:
    """Arrives as the value of a ref, which is waited for while it is being loaded."""

    def __init__(self, ref: Any) -> None:
        self.ref = ref

    def __reduce__(self) -> tuple[Any, ...]:
        return _value_of, (self.ref,)


def _value_of(ref: Any) -> Any:
    return ref.get()


def nest(_: object, depth: int) -> Any:
    """A value inside of a value, and so on, each behind a ref."""
    value: Any = actorlib.put(0)
    for _level in range(depth):
        value = actorlib.put([Lazy(value)])
    return Lazy(value)


@pytest.mark.parametrize("max_concurrency", [None, 2])
async def test_a_get_while_a_value_is_loaded_waits_for_its_own(
    max_concurrency: int | None,
) -> None:
    actor = actorlib.remote(Holder).options(max_concurrency=max_concurrency).remote()
    whole = await actor.__ray_call__.remote(nest, 10)
    depth = 0
    while whole:
        (whole,) = whole
        depth += 1

    assert depth == 10


async def test_a_callback_is_called_once_with_the_value_or_the_error() -> None:
    actor = holder()
    told: asyncio.Queue[Any] = asyncio.Queue()
    good, bad = actor.plus.remote(1), actor.plus.remote("x")
    good._on_completed(told.put_nowait)
    value = await told.get()
    bad._on_completed(told.put_nowait)
    error = await told.get()
    good._on_completed(told.put_nowait)
    again = await told.get()

    assert told.empty()
    assert value == again == await good
    assert isinstance(error, TypeError)


def local_classes() -> list[type]:
    """Two classes of one name, which no module has."""

    def made(answer: int) -> type:
        class Local:
            def answer(self) -> int:
                return answer

        return Local

    return [made(1), made(2)]


async def test_local_classes_of_one_name_keep_their_own_methods() -> None:
    first, second = local_classes()
    answers = await holder().__ray_call__.remote(
        lambda _, values: [value.answer() for value in values], [first(), second()]
    )

    assert answers == [1, 2]
    assert type(first()).__name__ == type(second()).__name__


async def test_values_that_hold_themselves_arrive() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    table: dict[str, Any] = {}
    table["self"] = table

    for value, inside in ((ring, 1), (table, "self")):
        back = await holder().__ray_call__.remote(lambda _, it: it, value)
        assert back[inside] is back


@dataclasses.dataclass(frozen=True)
class Point:
    """A value of a module."""

    x: int
    y: float


async def test_instances_of_a_modules_class_are_equal_after_the_trip() -> None:
    point = Point(1, 2.5)
    back = await holder().__ray_call__.remote(lambda _, it: it, point)

    assert back == point
    assert type(back) is Point
