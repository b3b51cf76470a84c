"""What a type checker infers of methods under ``@method``, and what it rejects.

It is read by checkers and never run. A line that ends in ``# rejected`` is an error to
every one of them, and no other line is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, assert_type

import actorlib
from actorlib import ActorHandle, ActorPool, ObjectRef, ObjectRefGenerator, Replicas

if TYPE_CHECKING:
    from actorlib.types import ActorMethod


class Adder:
    def __init__(self, start: int = 0) -> None:
        self.total = start

    @actorlib.method
    def add(self, number: int) -> int:
        self.total += number
        return self.total

    @actorlib.method()
    def name(self) -> str:
        return "adder"

    @actorlib.method(concurrency_group="io")
    async def read(self, path: str, *, times: int = 1) -> list[str]:
        # In its own class a method is called as any other.
        assert_type(self.add(1), int)
        self.add("1")  # rejected
        return [path] * times

    async def read_twice(self) -> list[str]:
        reading = self.read("a", times=2)
        return await assert_type(reading, Coroutine[Any, Any, list[str]])

    @actorlib.method(backpressure=8)
    def count(self, number: int) -> Iterator[int]:
        yield from range(number)

    @actorlib.method
    async def ticks(self) -> AsyncIterator[str]:
        for number in self.count(1):
            yield str(assert_type(number, int))

    @actorlib.batch(max_size=8)
    def double(self, values: list[int]) -> list[float]:
        return [2.0 * value for value in values]

    @actorlib.method(concurrency_group="io")
    @actorlib.batch()
    async def halve(self, values: list[int]) -> list[float]:
        return [value / 2 for value in values]

    def undecorated(self) -> float:
        return 0.5


Adders = actorlib.remote(concurrency_groups={"io": 2})(Adder)


async def use() -> None:
    handle = Adders.remote(1)
    assert_type(handle, ActorHandle[Adder])
    adder = actorlib.typed(handle)
    assert_type(adder, Adder)
    assert_type(adder.add.remote(1), ObjectRef[int])
    assert_type(await adder.add.remote(number=1), int)
    assert_type(await adder.name.remote(), str)
    assert_type(await adder.read.remote("a", times=2), list[str])
    assert_type(adder.count.remote(3), ObjectRefGenerator[int])
    assert_type(adder.ticks.options(backpressure=1).remote(), ObjectRefGenerator[str])
    async for tick in adder.ticks.remote():
        assert_type(await tick, str)
    moved = adder.read.options(concurrency_group="io")
    assert_type(await moved.remote("a"), list[str])
    as_method: ActorMethod[[int], int] = adder.add
    assert_type(await as_method.remote(1), int)
    # A handle itself knows no methods: they take and give anything.
    assert_type(await handle.add.remote("1", 2), Any)
    assert_type(await (await handle).undecorated.remote(), Any)


async def spawn(given: ActorHandle[Adder]) -> None:
    adder = Adders.spawn(1)
    assert_type(adder, Adder)
    assert_type(await adder.double.remote(3), float)
    assert_type(await adder.halve.remote(3), float)
    assert_type(Adders.options(num_gpus=1).spawn(), Adder)
    assert_type(actorlib.get_actor("a", Adders), Adder)
    assert_type(actorlib.typed(given), Adder)
    replicas = Replicas(Adders, 2)
    assert_type(replicas, Replicas[Adder])
    assert_type(await actorlib.typed(replicas).add.remote(1), int)
    pool = ActorPool([adder, Adders.spawn()])
    assert_type(pool, ActorPool[Adder])
    async for total in pool.map(lambda one, n: one.add.remote(n), [1, 2]):
        assert_type(total, int)


async def reject() -> None:
    adder = actorlib.typed(Adders.remote())
    Adders.remote("1")  # rejected
    adder.add.remote("1")  # rejected
    adder.add.remote()  # rejected
    adder.add.remote(1, 2)  # rejected
    adder.name.remote(1)  # rejected
    adder.read.remote("a", 2)  # rejected
    adder.read.remote("a", time=2)  # rejected
    adder.read.options(concurrency_groups="io")  # rejected
    adder.read.options(concurrency_group=2)  # rejected
    adder.missing.remote()  # rejected
    adder.count.remote("1")  # rejected
    adder.ticks.remote(1)  # rejected
    adder.ticks.options(backpressure="1")  # rejected
    wrong: str = await adder.add.remote(1)  # rejected
    actorlib.typed(adder)  # rejected
    unbound: Callable[[Adder, str], int] = Adder.add  # rejected
    del wrong, unbound
    Adders.spawn("1")  # rejected
    adder.undecorated.remote()  # rejected
    adder.double.remote("1")  # rejected
    actorlib.get_actor("a", Adders).add.remote("1")  # rejected
    actorlib.typed(Replicas(Adders, 2)).add.remote("1")  # rejected
    Adders(1)  # rejected


class Wrong:
    @actorlib.method(concurrency_groups="io")  # rejected
    def ping(self) -> None: ...

    @actorlib.method(concurrency_group=2)  # rejected
    def pong(self) -> None: ...
