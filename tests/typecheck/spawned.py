"""What checkers know of handles that ``spawn`` gives, without any plugin.

It is read by checkers and never run. A line that ends in ``# rejected`` is an error to
every one of them, and no other line is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_type

import actorlib
from actorlib import ActorHandle, ActorPool, ObjectRef, ObjectRefGenerator, Replicas

if TYPE_CHECKING:
    from collections.abc import Iterator


class Adder:
    def __init__(self, start: int = 0) -> None:
        self.total = start

    @actorlib.method
    def add(self, number: int) -> int:
        return self.total + number

    @actorlib.method
    def count(self, number: int) -> Iterator[int]:
        yield from range(number)

    @actorlib.batch(max_size=8)
    def double(self, values: list[int]) -> list[float]:
        return [2.0 * value for value in values]

    @actorlib.method(concurrency_group="io")
    @actorlib.batch()
    async def halve(self, values: list[int]) -> list[float]:
        return [value / 2 for value in values]

    def plain(self) -> int:
        return 1


Adders = actorlib.remote(num_gpus=0.5)(Adder)


async def use(given: ActorHandle[Adder]) -> None:
    adder = Adders.spawn(1)
    assert_type(adder, Adder)
    assert_type(adder.add.remote(1), ObjectRef[int])
    assert_type(adder.count.remote(2), ObjectRefGenerator[int])
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
    Adders.spawn("1")  # rejected
    adder = Adders.spawn()
    adder.add.remote("1")  # rejected
    adder.add.remote()  # rejected
    adder.nothing.remote(1)  # rejected
    adder.plain.remote()  # rejected
    adder.double.remote("1")  # rejected
    actorlib.get_actor("a", Adders).add.remote("1")  # rejected
    actorlib.typed(Replicas(Adders, 2)).add.remote("1")  # rejected
    Adders(1)  # rejected
