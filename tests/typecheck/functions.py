"""What a type checker infers of remote functions, and what it rejects.

It is read by checkers and never run. A line that ends in ``# rejected`` is an error to
every one of them, and no other line is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_type

import actorlib
from actorlib import ActorHandle, ObjectRef, ObjectRefGenerator, Results

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from actorlib.types import RemoteFunction


@actorlib.remote
def add(first: int, second: int = 0, *, scale: float = 1.0) -> int:
    return int((first + second) * scale)


@actorlib.remote(num_gpus=0.25, max_calls=1)
def half(text: str) -> list[str]:
    return [text]


@actorlib.remote(num_gpus=0.25)
def common(text: str) -> list[str]:
    return [text]


@actorlib.remote
def letters(text: str) -> Iterator[str]:
    yield from text


@actorlib.remote(num_cpus=2, timeout=1.5)
def lines(text: str) -> Generator[str, None, None]:
    yield from text.splitlines()


@actorlib.remote(num_cpus=2)
def anything(text: str) -> Any:
    return text


@actorlib.remote
async def fetch(address: str) -> bytes:
    return address.encode()


@actorlib.remote(max_concurrency=10)
async def chunks(address: str) -> AsyncIterator[bytes]:
    yield address.encode()


@actorlib.remote
def labelled(text: str, *numbers: int) -> dict[str, int]:
    return dict.fromkeys(text, sum(numbers))


@actorlib.remote
def four(first: str, second: int, third: bytes, fourth: float) -> bool:
    return bool(first and second and third and fourth)


async def texts() -> AsyncIterator[str]:
    yield "a"


class Plain:
    def __init__(self, size: int) -> None:
        self.size = size


Bare = actorlib.remote(Plain)
Common = actorlib.remote(num_gpus=1)(Plain)
Actors = actorlib.remote(max_restarts=1)(Plain)


async def use() -> None:
    function: RemoteFunction[[str], list[str]] = half
    assert_type(await function.remote("a"), list[str])
    assert_type(add.remote(1), ObjectRef[int])
    assert_type(add.remote(1, 2, scale=2), ObjectRef[int])
    assert_type(await half.remote("a"), list[str])
    assert_type(await common.options(num_cpus=2).remote("a"), list[str])
    assert_type(await actorlib.remote(lambda: 1).remote(), int)
    assert_type(letters.remote("a"), ObjectRefGenerator[str])
    assert_type([await ref async for ref in lines.remote("a")], list[str])
    assert_type(letters.options(backpressure=2).remote("a"), ObjectRefGenerator[str])
    assert_type(await fetch.remote("a"), bytes)
    assert_type(await fetch.options(max_concurrency=2).remote("a"), bytes)
    assert_type(fetch.map(["a"]), Results[bytes])
    assert_type(chunks.remote("a"), ObjectRefGenerator[bytes])
    assert_type(await anything.remote("a"), Any)
    async for ref in anything.options(num_cpus=1).remote("a"):  # it may yield
        assert_type(await ref, Any)
    assert_type(add.map([1, 2]), Results[int])
    assert_type(add.map([1], (2,), chunksize=8, progress="sums"), Results[int])
    assert_type([value async for value in half.map(["a"])], list[list[str]])
    late = half.options(num_cpus=2).map(texts(), progress=True)
    assert_type(late, Results[list[str]])
    assert_type(labelled.map("ab", [1], [2]), Results[dict[str, int]])
    assert_type(four.map("a", [1], [b""], [0.5]), Results[bool])
    assert_type(actorlib.map_unordered(add, [1]), Results[int])
    assert_type(actorlib.map_unordered(half, texts()), Results[list[str]])
    assert_type(actorlib.map_unordered(add.remote, [1]), Results[int])
    assert_type(await add.map([1, 2], chunksize="auto", ordered=False), list[int])
    assert_type(add.map([1], on_error="return"), Results[int | Exception])
    assert_type(add.map([1], return_exceptions=True), Results[int | Exception])
    unordered = actorlib.map_unordered(add, [1], on_error="return", chunksize=2)
    assert_type(unordered, Results[int | Exception])
    assert_type(add.map([1], cache="runs", version=2), Results[int])
    kept = add.map([1], [2], cache=Path("runs"), version="2", on_error="return")
    assert_type(kept, Results[int | Exception])
    assert_type(actorlib.map_unordered(add, [1], cache="runs"), Results[int])
    wider: Results[int | str] = add.map([1])
    await wider
    unknown: RemoteFunction[..., int] = add
    assert_type(unknown.map([1], "b"), Results[int])
    assert_type(Bare.remote(1), ActorHandle[Plain])
    assert_type(Common.remote(1), ActorHandle[Plain])
    assert_type(Actors.options(num_cpus=1).remote(1), ActorHandle[Plain])


async def reject() -> None:
    add.remote("1")  # rejected
    add.remote()  # rejected
    add.remote(1, scale="2")  # rejected
    half.remote(1)  # rejected
    letters.remote(1)  # rejected
    fetch.remote(1)  # rejected
    letters.options(backpresure=1)  # rejected
    half.options(max_calls=1)  # rejected
    common.options(num_cpu=1)  # rejected
    Bare.remote("1")  # rejected
    Common.remote("1")  # rejected
    Actors.remote("1")  # rejected
    add(1)  # rejected
    actorlib.map_unordered(add, ["1"])  # rejected
    add.map(["1"])  # rejected
    add.map([1], ["2"])  # rejected
    add.map([1], [2], [3])  # rejected
    add.map(1)  # rejected
    add.map()  # rejected
    add.map([1], chunk_size=2)  # rejected
    half.map([1])  # rejected
    add.map([1], on_error="ignore")  # rejected
    add.map([1], cache=1)  # rejected
    labelled.map("a", [1], "b")  # rejected
    letters.map(["a"])  # rejected
    actorlib.map_unordered(add, 1)  # rejected
    actorlib.map_unordered(add, [1], on_error="ignore")  # rejected
    actorlib.map_unordered(add, ["1"], return_exceptions=True)  # rejected
    wrong: str = await add.remote(1)  # rejected
    actorlib.remote(max_retrys=1)  # rejected
    del wrong
