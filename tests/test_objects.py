"""Objects on the local engine: how long they stay, and whose they are.

What holds for every engine is in ``tests/contract/``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from helpers.marks import USES_RUNTIME, in_memory

import actorlib
from actorlib._core.engine import find_engine
from actorlib._wire.codec import MAX_ITEMS
from actorlib.exceptions import ObjectLostError, TaskCancelledError

if TYPE_CHECKING:
    from actorlib import ActorHandle, ObjectRef
    from actorlib._owner.actors.actor_table import ActorTable
    from actorlib._owner.engine import LocalEngine

pytestmark = [*in_memory(), USES_RUNTIME]


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

    def put(self, size: int) -> list[ObjectRef[Any]]:
        return [actorlib.put(np.ones(size))]

    def buffer(self, nbytes: int) -> bytearray:
        return bytearray(nbytes)

    def plus(self, value: Any) -> Any:
        return value + 1

    def ask_and_wait(self, other: ActorHandle[Any]) -> list[ObjectRef[Any]]:
        return [cast("Any", other).wait.remote()]

    def ping(self) -> None: ...


class Waiter:
    async def wait(self) -> None:
        await asyncio.Event().wait()


def holder() -> Any:
    return actorlib.remote(Holder).remote()


def waiter() -> Any:
    return actorlib.remote(Waiter).remote()


def table() -> ActorTable:
    """The actors of the runtime, and what it keeps."""
    return cast("LocalEngine", find_engine()).actor_table


async def settled(*actors: Any) -> tuple[int, int]:
    """How many objects and blocks are kept, when what was given back has come."""
    for _ in range(2):  # what one gives back may be another's
        await asyncio.gather(*(actor.ping.remote() for actor in actors))
    objects, store = table().objects, table().object_store
    return len(objects), sum(store._held.values())


# How long they stay.


@pytest.mark.process
async def test_large_values_when_refs_are_kept_and_dropped_then_blocks_are_too() -> (
    None
):
    actors = [holder() for _ in range(3)]
    before = await settled(*actors)
    ref = actorlib.put(np.ones(500_000))
    await asyncio.gather(*(actor.keep.remote((ref,)) for actor in actors))
    del ref

    # The value is there once, as long as somebody has a ref.
    assert [await actor.kept_sums.remote() for actor in actors] == [[500_000]] * 3
    assert await settled(*actors) == (1, 1)
    await asyncio.gather(*(actor.forget.remote() for actor in actors))
    assert await settled(*actors) == before == (0, 0)

    # A ref whose value was changed here keeps it as it came.
    changed = actors[0].buffer.remote(1_000_000)
    (await changed)[0] = 1
    assert (await settled(*actors))[1] == 1
    del changed
    assert await settled(*actors) == before


@pytest.mark.slow
async def test_put_when_a_value_has_more_refs_than_a_tuple_may_then_all_arrive() -> (
    None
):
    actor, many = holder(), MAX_ITEMS + 1

    await actor.keep.remote([actorlib.put(None) for _ in range(many)])

    assert (await settled(actor))[0] == many


async def test_handle_when_taken_out_of_a_value_then_it_goes_with_the_ref() -> None:
    keeper, other = holder(), holder()
    target = holder()
    await keeper.keep.remote([target])
    ref = keeper.__ray_call__.remote(lambda self: self.kept.pop())
    del target
    (await ref).clear()

    again = await other.__ray_call__.remote(lambda _, value: value, ref)
    value = await again[0].plus.remote(1)
    del again
    await settled(keeper, other)
    ends = [life.ended for life in table()]
    over = [end for end in ends if end.done()]
    del ref
    # One of them ends, in its own time.
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)

    assert value == 2
    assert (len(ends), over) == (3, [])
    assert sum(end.done() for end in ends) == 1


async def test_ref_when_its_maker_dies_then_it_stays_if_it_has_a_value() -> None:
    maker = holder()
    (numbers,) = await maker.put.remote(300_000)
    (waits,) = await maker.ask_and_wait.remote(waiter())

    await actorlib.kill(maker)

    assert (await numbers).sum() == 300_000
    assert (await holder().plus.remote(numbers)).sum() == 600_000
    with pytest.raises(ObjectLostError, match="before the call had a result"):
        await waits


# Whose they are.


async def test_cancel_when_by_whoever_has_a_ref_then_the_call_is_cancelled() -> None:
    (waits,) = await holder().ask_and_wait.remote(waiter())
    parts = waiter().wait.options(num_returns=2).remote()

    actorlib.cancel(waits)
    actorlib.cancel(parts[0])

    for ref in (waits, *parts):
        with pytest.raises(TaskCancelledError):
            await ref


async def test_a_ref_is_one_object_in_a_process() -> None:
    actor = holder()
    ref = actorlib.put(np.ones(2))
    await actor.keep.remote((ref,))

    back = await actor.__ray_call__.remote(lambda self: self.kept[0][0])

    assert back is ref
    assert {ref: 1}[back] == 1
    assert len(bytes.fromhex(ref.hex())) == 16
    assert ref.hex() != actorlib.put(1).hex()


async def test_ref_when_it_belongs_to_another_runtime_then_it_is_refused() -> None:
    ref = actorlib.put([1])
    ref._object_id = bytes(16)

    with pytest.raises(TypeError, match="belongs to another runtime"):
        holder().keep.remote([ref])


# Loading.


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
