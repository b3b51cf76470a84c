"""Objects: refs inside of values, values kept by put(), and results in parts."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import actorlib
from actorlib._core.engine import find_engine
from actorlib._wire.codec import MAX_ITEMS
from actorlib.exceptions import ObjectLostError, TaskCancelledError, TaskError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from actorlib import ActorHandle, ObjectRef, Runtime
    from actorlib._owner.actors.actor_table import ActorTable
    from actorlib._owner.engine import LocalEngine

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


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


def return_made(_: object, name: str) -> Any:
    return MUTABLE[name]()


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
    assert [ref.kept_value for ref in refs] == [None] * len(refs)


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


async def test_ref_when_its_maker_dies_first_then_nobody_can_answer() -> None:
    maker = holder()
    (waits,) = await maker.ask_and_wait.remote(looped())

    await actorlib.kill(maker)

    with pytest.raises(ObjectLostError, match="before the call had a result"):
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
