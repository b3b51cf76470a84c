"""What mypy knows with its plugin: of decorated classes, and of every handle.

It is read by mypy and never run. Where a line ends in ``# rejected``, mypy finds an
error, and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, assert_type

import actorlib
import actorlib.blocking as ray
from actorlib import ActorHandle, ActorPool, ObjectRef, ObjectRefGenerator, Replicas
from actorlib.types import ReplicaInfo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

T = TypeVar("T")


class Plain:
    def __init__(self, start: int, *, step: int = 1) -> None:
        self.total = start * step

    def add(self, number: int) -> int:
        return self.total + number

    async def read(self, path: str, *, times: int = 1) -> list[str]:
        return [path] * times

    def count(self, number: int) -> Iterator[int]:
        yield from range(number)

    async def ticks(self) -> AsyncIterator[str]:
        yield "tick"


Model = actorlib.remote(num_gpus=0.5)(Plain)


@actorlib.remote
class Bare:
    def ping(self) -> str:
        return "pong"


@actorlib.remote(num_gpus=0.5)
class Echo:
    def __init__(self, start: int) -> None: ...

    def echo(self, value: bytes) -> bytes:
        return value

    @actorlib.method
    def named(self, value: int) -> str:
        return str(value)

    @actorlib.batch(max_size=8)
    def double(self, values: list[int]) -> list[float]:
        return [2.0 * value for value in values]


@actorlib.remote
class Untyped:
    def __init__(self, size) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        self.size = size

    def items(self, number):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        yield number


@ray.remote(num_gpus=1)
class Script:
    def ping(self) -> str:
        return "pong"


class Box(Generic[T]):
    def put(self, value: T) -> T:
        return value


async def use(given: ActorHandle[Echo], box: ActorHandle[Box[int]]) -> None:
    model = Model.remote(1, step=2)
    assert_type(model.add.remote(1), ObjectRef[int])
    assert_type(await model.read.remote("a", times=2), list[str])
    assert_type(model.count.remote(3), ObjectRefGenerator[int])
    async for tick in model.ticks.options(backpressure=1).remote():
        assert_type(await tick, str)
    assert_type(await model.add.options(timeout=1).remote(2), int)
    assert_type(await model.add.remote(model.add.remote(1)), int)  # a ref is its value
    assert_type(Model.remote(model.add.remote(1)), ActorHandle[Plain])
    model.add.map([1], cache="runs")  # rejected
    model.add.remote("1")  # rejected
    model.add.remote()  # rejected
    model.nothing.remote()  # rejected
    model.total.remote()  # rejected
    Model.remote("1")  # rejected

    assert_type(Echo.remote(1), ActorHandle[Echo])
    assert_type(Echo.options(num_gpus=1).remote(1), ActorHandle[Echo])
    assert_type(await Bare.remote().ping.remote(), str)
    assert_type(await (await given).echo.remote(b""), bytes)
    assert_type(await given.named.remote(1), str)
    assert_type(await given.double.remote(1), float)
    given.echo.remote("")  # rejected
    given.double.remote("")  # rejected
    Echo.remote()  # rejected
    Echo.options(num_gpu=1)  # rejected
    assert_type(await box.put.remote(1), int)
    box.put.remote("1")  # rejected

    untyped = await Untyped.remote(3)
    assert_type(untyped, ActorHandle[Untyped])
    async for item in untyped.items.remote(3):
        assert_type(await item, Any)
    assert_type(untyped.share.nbytes, int | None)
    untyped.items.remote()  # rejected
    assert_type(ray.get(Script.options(num_cpus=1).remote().ping.remote()), str)

    replicas = Replicas(Echo, 2)
    assert_type(replicas, Replicas[Echo])
    assert_type(await replicas.echo.remote(b""), bytes)
    assert_type(await replicas.echo.options(key="user 7").remote(b""), bytes)
    assert_type(Replicas(Echo, min=1, max=4, max_pending=8), Replicas[Echo])
    assert_type(replicas.stats(), list[ReplicaInfo])
    replicas.echo.remote("")  # rejected
    replicas.nothing.remote()  # rejected

    pool = ActorPool([model])
    async for total in pool.map(lambda one, n: one.add.remote(n), [1, 2]):
        assert_type(total, int)
    refs = pool.map_unordered(lambda one, n: one.add.remote(n), [1], chunksize=2)
    assert_type(await refs, list[int])
    async for either in pool.map_unordered(
        lambda one, n: one.add.remote(n), [1], on_error="return"
    ):
        assert_type(either, int | Exception)
