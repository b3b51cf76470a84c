"""Actors that make streams, of every kind, and what reads them."""

from __future__ import annotations

from typing import Any

import pytest

import actorlib


class Source:
    """Plain generators."""

    def __init__(self) -> None:
        self.made = 0

    def items(self, n: int) -> Any:
        for i in range(n):
            self.made = i + 1
            yield i

    def endless(self) -> Any:
        self.made = 0
        while True:
            self.made += 1
            yield self.made

    def blocks(self, n: int, nbytes: int) -> Any:
        for self.made in range(1, n + 1):
            yield bytes(nbytes)

    def yields(self, *values: Any) -> Any:
        yield from values

    def reads(self, source: Any, method: str, *args: Any) -> list[Any]:
        return [ref.get() for ref in getattr(source, method).remote(*args)]

    def ping(self) -> int:
        return self.made


class Mixed(Source):
    """The same generators on a loop."""

    async def nothing(self) -> None: ...


class AsyncSource:
    """Async generators, and everything else async too."""

    def __init__(self) -> None:
        self.made = 0

    async def items(self, n: int) -> Any:
        for i in range(n):
            self.made = i + 1
            yield i

    async def endless(self) -> Any:
        self.made = 0
        while True:
            self.made += 1
            yield self.made

    async def blocks(self, n: int, nbytes: int) -> Any:
        for self.made in range(1, n + 1):
            yield bytes(nbytes)

    async def yields(self, *values: Any) -> Any:
        for value in values:
            yield value

    async def reads(self, source: Any, method: str, *args: Any) -> list[Any]:
        return [await ref async for ref in getattr(source, method).remote(*args)]

    async def ping(self) -> int:
        return self.made


KINDS = {
    "serial": actorlib.remote(Source),
    "threaded": actorlib.remote(max_concurrency=2)(Source),
    "mixed": actorlib.remote(Mixed),
    "gated": actorlib.remote(max_concurrency=1)(Mixed),
    "async": actorlib.remote(AsyncSource),
    "single": actorlib.remote(max_concurrency=1)(AsyncSource),
}


def kinds(*names: str) -> Any:
    return pytest.mark.parametrize("kind", names or list(KINDS))


def made(kind: str) -> Any:
    return KINDS[kind].remote()


async def all_of(items: Any) -> list[Any]:
    return [await ref async for ref in items]
